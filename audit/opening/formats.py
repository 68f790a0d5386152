"""Weights in other formats (pickles, other tensor names), written once as ordinary checkpoints.

No code runs: torch reads pickles with weights_only. data/tensor_names.csv has the names.
"""

import json
import re
import shutil
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    MODEL_MAPPING,
    AutoTokenizer,
    PreTrainedConfig,
)

from ..paper import DATA, checkpoints, replacing
from ..paper import files as models_files

NAMES = DATA / "tensor_names.csv"
# Model type of a checkpoint -> the model type and the class of transformers that it is written for.
CLASSIFIERS = {"internlm2": ("llama", "LlamaForSequenceClassification")}
# what a dictionary of torch.save may hold weights under
NESTED = ("state_dict", "model_state_dict", "model", "module")
RESAVE = "save it with save_pretrained, which writes safetensors"
# in the names of what peft trained in full, beside what it replaces
SAVED = ".modules_to_save.default."
# of transformers' classifiers
HEADS = ("score.weight", "classifier.weight", "classifier.out_proj.weight")


def reason_to_convert(folder: Path, files: list[Path]) -> str:
    """Return why a checkpoint with these weights cannot be read as it is; "" if it can."""
    if any(path.suffix == ".bin" for path in files):
        return "its weights are pickled"
    config = models_files.read_json(folder / "config.json")
    if str(config.get("model_type")) in CLASSIFIERS:
        return "it names its tensors in its own way"
    if text_config(folder, config):
        return "it also reads pictures or sounds, and its language model is taken out"
    shapes = {
        name: stored.shape
        for path in files
        for name, stored in models_files.tensors_of_file(path).items()
    }
    if is_reward_head(shapes):
        return "its lm_head has a row for each reward, and no row for each token"
    kind = _kind_of(config)
    if any(SAVED in name or _ordinary_name(name, kind) != name for name in shapes):
        return "it names its tensors in its own way"
    return ""


def is_reward_head(shapes: dict[str, Sequence[int]]) -> bool:
    """Return whether an lm_head among tensors of these shapes has one or two rows, as a reward
    model's head.
    """
    return any(
        shape[0] <= 2
        for name, shape in shapes.items()
        if name.endswith("lm_head.weight")
    )


def text_config(folder: Path, config: dict) -> PreTrainedConfig | None:
    """Return the configuration of the language model in a model that reads more than text; None for
    other models.

    config: the content of the folder's config.json.
    """
    if not isinstance(config.get("text_config"), dict) or config.get(
        "is_encoder_decoder"
    ):
        return None
    whole = checkpoints.parsed_config(folder)
    text = whole.get_text_config()
    if text is whole or type(text) not in MODEL_MAPPING:
        return None
    return text


def convert(folder: Path, files: list[Path], target: Path) -> None:
    """Write a checkpoint as an ordinary one, under transformers' own names, into `target`. files:
    its weights.

    InternLM2 computes as Llama does, with queries, keys and values in one tensor, and is read at a
    token that is put after the conversation. Of models that also read pictures or sounds the part
    that reads text is written.
    """
    config = models_files.read_json(folder / "config.json")
    rows: dict[str, int] = {}  # of each head that is found
    with models_files.refusing(
        f"{folder} cannot be written under transformers' own names", "download it again"
    ):
        text = text_config(folder, config)
        names = {name for path in files for name in _names(path)}
        replaced = {name.replace(SAVED, ".") for name in names if SAVED in name}
        parts = (
            _renamed(read_tensors(path), config, text, replaced, rows) for path in files
        )
        write(target, parts, [folder])
        if config.get("model_type") == "internlm2":
            _end_with_token(target, config["reward_token_id"])
        write_json(target / "config.json", _ordinary_fields(config, text, rows))


def _renamed(
    tensors: dict[str, Tensor],
    config: dict,
    text: PreTrainedConfig | None,
    replaced: set[str],
    rows: dict[str, int],
) -> dict[str, Tensor]:
    """Return the tensors of a file under transformers' own names; note the rows of heads in `rows`.

    replaced: names of tensors in whose place peft trained others.
    """
    kind = _kind_of(config) + " text_config" * bool(text)
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name in replaced:
            continue
        plain = name.replace(SAVED, ".")
        for part, its_rows in _apart(plain, tensor, config).items():
            if ordinary := _ordinary_name(part, kind):
                found[ordinary] = its_rows
    shapes: dict[str, Sequence[int]] = {
        name: tensor.shape for name, tensor in found.items()
    }
    if is_reward_head(shapes):
        found = {
            name.replace("lm_head.", "score."): tensor for name, tensor in found.items()
        }
        rows["lm_head"] = len(found["score.weight"])
    heads = {name: len(tensor) for name, tensor in found.items() if name in HEADS}
    rows.update(heads)
    return found


def _ordinary_fields(
    config: dict, text: PreTrainedConfig | None, rows: dict[str, int]
) -> dict:
    """Return the fields of config.json for what was written.

    text: see text_config. rows: of each head that was found; of "lm_head" if it is a reward
    model's.
    """
    architecture = _architecture_of(config)
    if config.get("model_type") in CLASSIFIERS:
        model_type, architecture = CLASSIFIERS[config["model_type"]]
        config = config | {"model_type": model_type, "num_labels": 1}
    if text is not None:
        labels = [number for name, number in rows.items() if name in HEADS]
        config, architecture = _text_fields(config, text, architecture)
        config |= label_fields(labels[0] if labels else 1)
    if "lm_head" in rows:
        language_model = r"(ForCausalLM|LMHeadModel|ForConditionalGeneration)$"
        backbone = re.sub(language_model, "", architecture)
        backbone = backbone.removesuffix("ForSequenceClassification")
        architecture = f"{backbone}ForSequenceClassification"
        config = config | {"num_labels": rows["lm_head"], "tie_word_embeddings": False}
    if architecture != "none":
        config = config | {"architectures": [architecture]}
    return {name: value for name, value in config.items() if name != "auto_map"}


def _text_fields(
    whole: dict, text: PreTrainedConfig, architecture: str
) -> tuple[dict, str]:
    """Return the fields of the part that reads text, and the name of its class."""
    backbone = MODEL_MAPPING[type(text)].__name__.removesuffix("Model")
    task = architecture.partition("For")[2].replace("ConditionalGeneration", "CausalLM")
    kept = ("dtype", "torch_dtype", "quantization_config", "tie_word_embeddings")
    own = {name: whole[name] for name in kept if whole.get(name) is not None}
    return text.to_dict() | own, f"{backbone}For{task or 'SequenceClassification'}"


def label_fields(labels: int) -> dict:
    """Return the fields of config.json for a classifier with so many outputs."""
    names = {str(i): f"LABEL_{i}" for i in range(labels)}
    return {"id2label": names, "label2id": {}, "num_labels": labels}


def _names(path: Path) -> list[str]:
    """Return the names of the tensors in a file. InputError as for read_tensors."""
    if path.suffix == ".bin":
        return list(_unpickled(path))
    with models_files.open_tensors(path) as tensors:
        return list(tensors.keys())


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file. InputError if a pickled one holds more than tensors: reading
    it could run code.
    """
    if path.suffix != ".bin":
        with models_files.refusing(f"{path} cannot be read as weights alone", RESAVE):
            return load_file(path)
    # no two share memory
    return {name: tensor.clone() for name, tensor in _unpickled(path).items()}


def _unpickled(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a pickled file, mapped into memory; also those of a dictionary that
    it holds by a name.
    """
    with models_files.refusing(f"{path} cannot be read as weights alone", RESAVE):
        held = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        inside = [
            held[name]
            for name in NESTED
            if isinstance(held, dict) and isinstance(held.get(name), dict)
        ]
        tensors = inside[0] if len(inside) == 1 else held
        if not all(isinstance(name, str) for name in tensors):
            raise TypeError("it names a tensor by what is no text")
        if not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
            raise TypeError("it holds something else under the name of a tensor")
        return tensors


def write(
    target: Path, parts: Iterable[dict[str, Tensor]], sources: list[Path]
) -> None:
    """Write tensors into the folder `target`, one part in memory at once. The first of two with one
    name counts.

    Tokenizer and templates are copied from `sources`; the last one counts. The caller writes
    config.json at the end, which shows that the checkpoint is complete.
    """
    weight_map: dict[str, str] = {}
    for number, part in enumerate(parts):
        name = f"model-{number:05d}.safetensors"
        tensors = {
            key: tensor.contiguous()
            for key, tensor in part.items()
            if key not in weight_map
        }
        with replacing(target / name) as file:
            save_file(tensors, file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(tensors, name)
    files = (path for source in sources for path in source.glob("*"))
    for path in files:
        beside = (
            path.suffix in (".json", ".jinja", ".model", ".txt")
            and ".index" not in path.name
        )
        if beside and path.name not in ("config.json", "adapter_config.json"):
            shutil.copy(path, target / path.name)
    write_json(
        target / "model.safetensors.index.json",
        {"metadata": {}, "weight_map": weight_map},
    )


def write_json(path: Path, content: dict) -> None:
    with replacing(path) as part:
        part.write_text(json.dumps(content))


# --- other names of tensors -----------------------------------------------------------------------


@cache
def rules(kind: str) -> list[tuple[str, str]]:
    """Return the patterns of data/tensor_names.csv for a kind of checkpoint, and what replaces
    each, in order.

    kind: its model type and its architecture, with a blank between.
    """
    table = pd.read_csv(NAMES, keep_default_na=False)
    table = table[
        [re.fullmatch(which, kind) is not None for which in table["applies_to"]]
    ]
    return list(zip(table["pattern"], table["replacement"], strict=True))


def _ordinary_name(name: str, kind: str) -> str:
    """Return the tensor's name in an ordinary checkpoint; "" for a tensor that is not read. See
    rules for `kind`.
    """
    for pattern, replacement in rules(kind):
        name = re.sub(pattern, replacement, name)
    return name


def _kind_of(config: dict) -> str:
    return f"{config.get('model_type')} {_architecture_of(config)}"


def _architecture_of(config: dict) -> str:
    named = config.get("architectures")
    if isinstance(named, list) and named:
        return str(named[0])
    return "none"


def _apart(name: str, tensor: Tensor, config: dict) -> dict[str, Tensor]:
    """Split a tensor of InternLM2 that holds queries, keys and values into three; return any other
    unchanged.

    Its rows, (kv_heads * (group + 2) * head_dim), hold for each key head the queries of its group,
    its key and its value.
    """
    start, wqkv, end = name.rpartition(".attention.wqkv.")
    if not wqkv:
        return {name: tensor}
    kv_heads = config["num_key_value_heads"]
    head_dim = config["hidden_size"] // config["num_attention_heads"]
    # (kv_heads, group + 2, head_dim, ...)
    rows = tensor.unflatten(0, (kv_heads, -1, head_dim))
    queries = rows[:, :-2]
    keys = rows[:, -2:-1]
    values = rows[:, -1:]
    parts = {"q": queries, "k": keys, "v": values}
    return {
        f"{start}.self_attn.{part}_proj.{end}": its_rows.flatten(0, 2)
        for part, its_rows in parts.items()
    }


def _end_with_token(folder: Path, token_id: int) -> None:
    """Let a checkpoint's chat template end with this token, at which its rewards are read."""
    settings = folder / "tokenizer_config.json"
    fields = models_files.read_json(settings)
    # a class of its repository, which is not run; tokenizer.json says the same
    fields.pop("auto_map", None)
    write_json(settings, fields | {"tokenizer_class": "PreTrainedTokenizerFast"})
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    token = tokenizer.convert_ids_to_tokens(token_id)
    tokenizer.add_special_tokens(
        {"additional_special_tokens": [token]}, replace_extra_special_tokens=False
    )
    tokenizer.chat_template += (
        "{% if not add_generation_prompt %}{{ '" + token + "' }}{% endif %}"
    )
    tokenizer.save_pretrained(folder)
