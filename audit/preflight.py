"""What is looked at before a checkpoint is opened: damaged and foreign ones, one line for each.

Rarer problems get transformers' own error.
"""

import json
from pathlib import Path
from typing import NamedTuple

from transformers import (
    MODEL_MAPPING,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
)

from .paper import InputError, heads, loading

# files that hold weights in a way that is not read, and what their owner can do
OTHER_WEIGHTS = {
    "*.gguf": "weights for llama.cpp, as a rule quantised; give the checkpoint in safetensors that "
    "they were made from",
    "**/*_model_states.pt": "a shard of DeepSpeed's; run the zero_to_fp32.py beside it, which "
    "writes pytorch_model.bin",
    "**/*.distcp": "a shard of PyTorch's; run: python -m torch.distributed.checkpoint.format_utils "
    "dcp_to_torch",
}
# formats of safetensors that no model computes in
EIGHT_BITS = ("F8_E4M3", "F8_E5M2", "F8_E8M0", "I8", "U8")
SCALED = ("normalize_reward", "do_normalize")  # OpenRLHF's, Beaver's
# names what sentence-transformers puts before texts
PROMPTS = "config_sentence_transformers.json"


def read_json(path: Path) -> dict:
    """Return the object in a JSON file. InputError if there is none."""
    with loading.refusing(f"{path} cannot be read as JSON", "download it again"):
        return dict(json.loads(path.read_text(encoding="utf-8")))


def first_file(folder: Path, stem: str) -> list[Path]:
    """Return the file of weights with this stem, in safetensors or else pickled; [] if there is
    none.
    """
    both = [folder / f"{stem}{end}" for end in (".safetensors", ".bin")]
    return [path for path in both if path.is_file()][:1]


# --- before it is opened --------------------------------------------------------------------------


def refuse_other_weights(folder: Path) -> None:
    """Raise InputError for a folder whose weights are in a format that is not read."""
    if first_file(folder, "model") or first_file(folder, "pytorch_model"):
        return
    for pattern, remedy in OTHER_WEIGHTS.items():
        for path in sorted(folder.glob(pattern))[:1]:
            name = path.relative_to(folder).as_posix()
            raise InputError(f"{folder} holds {name}, {remedy}")


def refuse_foreign(files: loading.Files) -> None:
    """Raise InputError for a configuration or tensors that would give other rewards than those of
    the model as it was trained.
    """
    fields = read_json(files.folder / "config.json")
    scaled = [name for name in SCALED if fields.get(name)]
    prompts = files.folder / PROMPTS
    held = read_json(prompts) if prompts.is_file() else {}
    prompted = (held.get("prompts") or {}).get(held.get("default_prompt_name"))
    problem = ""
    if fields.get("quantization_config"):
        problem = "is quantised, which changes rewards; give the checkpoint in its full precision"
    elif scaled:
        problem = (
            f"normalises rewards ({scaled[0]} in config.json), which is not read here"
        )
    elif prompted:
        problem = (
            f"has a {PROMPTS} whose default_prompt_name puts {prompted!r} before texts, which is "
            "not read here; take default_prompt_name out there, and score texts that begin with it"
        )
    for name, (_, dtype, shape) in files.tensors.items():
        if 0 in shape:
            problem = (
                f"holds the empty tensor {name}, as DeepSpeed's ZeRO-3 leaves it; save again with "
                "stage3_gather_16bit_weights_on_model_save, or run zero_to_fp32.py"
            )
        elif dtype in EIGHT_BITS and name.endswith("weight"):
            problem = (
                f"has weights in 8 bits ({name}: {dtype}); give the checkpoint in the precision "
                "that it was trained in"
            )
    if problem:
        raise InputError(f"{files.folder} {problem}")


def refuse_headless(files: loading.Files) -> None:
    """Raise InputError if a checkpoint has no head that gives one reward, with what to do."""
    config = loading.config_of(files)
    own = loading.architecture_of(config)
    if heads.head_name_of(own, files.tensors):
        return
    problem = f"{files.folder}: {own} without a head of one reward that is read here"
    is_usual = own.endswith(("ForCausalLM", "ForSequenceClassification"))
    keys = heads.head_keys(files, config) if type(config) in MODEL_MAPPING else []
    if 0 < len(keys) < len(files.tensors):
        remedy = f"its head holds {keys[0]}: score its texts elsewhere (python -m audit export)"
    elif is_usual and config.num_labels == 1:
        remedy = (
            "config.json says one label, as of a reward model, so its head (score.weight) was lost "
            "where it was saved, such as by a merge of language models: save it again with its head"
        )
    else:
        remedy = (
            "read a judge (--head yes,no), or a policy (--reference model), or score its texts "
            "elsewhere (python -m audit export)"
        )
    raise InputError(f"{problem}; {remedy}")


def refuse_two_outputs(files: loading.Files) -> None:
    """Raise InputError if a language model's output is there under two names, of which transformers
    takes one.
    """
    keys = [key for key in files.tensors if key.startswith(heads.OUTPUTS)]
    parts = {key.rpartition(".")[2] for key in keys}  # weight, and perhaps bias
    if len(parts) < len(keys):
        raise InputError(
            f"{files.folder} holds two outputs, {' and '.join(keys)}; take the one out that the "
            "model was not trained with"
        )


def refuse_tokens_without_rows(
    tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig
) -> None:
    """Raise InputError if the tokenizer has ids beyond the rows of the embedding table."""
    rows = config.get_text_config().vocab_size
    beyond = {text: i for text, i in tokenizer.get_vocab().items() if i >= rows}
    if beyond:
        remedy = "give the tokenizer that the model was trained with"
        if beyond.keys() <= tokenizer.get_added_vocab().keys():
            in_order = ", ".join(sorted(beyond, key=lambda text: beyond[text]))
            remedy = (
                f"{in_order} was added later: add its row, too, by "
                "model.resize_token_embeddings(len(tokenizer)), and save the model again"
            )
        raise InputError(
            f"{tokenizer.name_or_path}: the tokenizer has ids up to {max(beyond.values())}, but "
            f"the model has only {rows} rows of embeddings; {remedy}"
        )


# --- the tokenizer's class ------------------------------------------------------------------------

# Transformers 5 rebuilds a tokenizer whose class has an __init__ of its own from vocabulary and
# merges. What tokenizer.json says beside them (normalizer, pre-tokenizer) is dropped. Texts that
# reach each stage of a tokenizer: digits, blanks, line breaks, compatibility characters, accents,
# capitals, punctuation, other scripts.
STAGES = (
    "2023 and 12345678",
    "a  b\tc ",
    "\n\n love\r\n",
    "\ufb01ne\u2460 \u00bd",
    "\u00c9mile caf\u00e9 e\u0301",
    "I Love LOVE don't DON'T",
    "!?... -- (x) </div> snake_case camelCase",
    "\u4f60\u597d \u041f\u0440\u0438 \U0001f600 \u2764\ufe0f\u200b\u00a0",
)


class Change(NamedTuple):
    """What the tokenizer's class in transformers makes of tokenizer.json.

    - other: the tokenizer as transformers opens it
    - text, ids, others: a text with other ids, its ids by the file, and its ids by `other`
    """

    other: PreTrainedTokenizerBase
    text: str
    ids: list[int]
    others: list[int]

    @property
    def line(self) -> str:
        """Return the change in one line."""
        name = type(self.other).__name__
        return (
            f"{name} of transformers drops parts of the tokenizer's files ({self.text!a} is "
            f"{self.ids[:4]} by the files and {self.others[:4]} by {name}); ids are as the files "
            "say, which PreTrainedTokenizerFast or transformers 4 gives elsewhere"
        )


def change_by_class(folder: Path) -> Change | None:
    """Return the first text of STAGES, with control tokens too, that has other ids by the class
    that transformers takes for a tokenizer; None if none has.
    """
    if not (folder / "tokenizer.json").is_file():
        return None
    by_file = loading.tokenizer_of(loading.Files(folder, ""))
    with loading.quiet_transformers():
        other = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    control = list(by_file.get_added_vocab())[:8]
    for text in (*STAGES, *(f"a {token}\nlove{token} 2" for token in control)):
        ids = by_file(text)["input_ids"]
        others = other(text)["input_ids"]
        if ids != others:
            return Change(other, text, ids, others)
    return None
