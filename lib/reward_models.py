"""Reward models: the registry, loading, saving, and rendering a conversation to ids.

A reward model here is a transformers backbone and a head (lib/heads.py). Weights come from safetensors only, by key,
and no remote code ever runs. Facts about the ten models of the paper are in data/reward_models.csv.
"""

import contextlib
import copy
import difflib
import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import huggingface_hub
import jinja2
import pandas as pd
import torch
import transformers
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging as transformers_logging

from lib import ROOT, InputError
from lib.heads import new_head

DATE = "26 Jul 2024"  # what the authors' transformers 4.43 rendered; Llama-3.2 templates otherwise print today's date
# Replies that share no first or last token, so that what stays the same around them is not the reply.
STAND_INS = ("Zqxjv", "7kW", "-x-", "love")
COMPUTED = ("rotary_emb.inv_freq", "attn.bias", "masked_bias")  # tensors of old checkpoints that models now compute
GATED = ("armorm", "qrm_llama", "qrm_gemma")  # heads whose gate reads the end of the user's turn
ARCHITECTURES = {  # config.architectures[0] of the checkpoints whose head is not one linear layer
    "armorm": "LlamaForRewardModelWithGating",
    "qrm_llama": "LlamaForRewardModelWithGating",
    "qrm_gemma": "Gemma2ForQuantileSequenceClassification",
    "urm": "LlamaForSequenceClassificationWithNormal_Weights",
}


@cache
def _registry() -> pd.DataFrame:
    return pd.read_csv(ROOT / "data" / "reward_models.csv", keep_default_na=False, index_col="nickname")


def registry() -> pd.DataFrame:
    """The known reward models, indexed by nickname: the paper's ten, current ones, and the project's own small ones.

    Columns: group (paper, current, embedded), hub_id, revision ('' where none is pinned), developer, base, version,
    parameters_b (billions), rewardbench_rank ('' where unranked), head, dtype, attention. Source: Table 1, model pages.
    """
    return _registry().copy()


def known(nicknames: Iterable[str]) -> pd.DataFrame:
    """The registry's rows for these models, in this order; blank where the registry does not hold a model."""
    rows = _registry().reindex(list(nicknames))
    return rows.fillna({column: "" for column in rows.columns if not pd.api.types.is_numeric_dtype(rows[column])})


# --- conversations ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Conversation:
    """A prompt rendered for one reward model, with a gap where the reply stands.

    before, after: the rendered text around the reply. prefix_ids + reply ids + closing_ids is the whole model input.
    header_ids: from the end of the user's turn to the reply; a gate reads the first of them, at gate_position in
    prefix_ids. Both are empty, respectively None, where no gate reads.
    """

    prompt: str
    bos: str
    before: str
    after: str
    prefix_ids: tuple[int, ...]
    closing_ids: tuple[int, ...]
    header_ids: tuple[int, ...] = ()
    gate_position: int | None = None


@dataclass(frozen=True)
class RewardModel:
    """A loaded reward model: backbone in its own dtype, head in fp32, both in eval mode on `device`.

    name: how it was asked for. revision: the commit on the hub, or a hash of the weights for a folder.
    head: None for encoders (BERT, DeBERTa), whose backbone is the whole model with its own classifier.
    """

    name: str
    nickname: str
    hub_id: str
    revision: str
    head_name: str
    dtype: str
    attention: str
    device: str
    tokenizer: transformers.PreTrainedTokenizerBase
    backbone: transformers.PreTrainedModel
    head: torch.nn.Module | None

    @property
    def causal(self) -> bool:
        """Whether a prefix means the same with and without what follows it, so that it can be computed once."""
        return self.head is not None

    def render(self, prompt: str, replies: list[str]) -> list[str]:
        """The conversations (prompt, reply) as text, by the model's own chat template with its date fixed."""
        turns = [[{"role": "user", "content": prompt}, {"role": "assistant", "content": r}] for r in replies]
        try:
            return self.tokenizer.apply_chat_template(turns, tokenize=False, date_string=DATE)
        except jinja2.TemplateError as error:
            raise InputError(f"{self.name}: the chat template fails ({first_line(error)}); give another one") from error

    def conversation(self, prompt: str, bos: str = "single") -> Conversation:
        """The prompt rendered with a gap for the reply.

        bos: "single" (one beginning-of-sequence token) or "double" (as the paper's code fed models whose template
        already holds one). InputError if the template leaves no place for the reply or adds what should not be there.
        """
        if bos not in ("single", "double"):
            raise InputError(f"bos must be 'single' or 'double', not {bos!r}")
        if not prompt.strip():
            raise InputError("the prompt is empty; give a question, for example one of data/prompts.csv")
        before, after, header = self._text_around_reply(prompt)
        whole = self._tokenise(prompt, list(STAND_INS), bos)
        prefix_ids, closing_ids = _common_prefix(whole), _common_prefix([ids[::-1] for ids in whole])[::-1]
        conversation = Conversation(prompt, bos, before, after, prefix_ids, closing_ids)
        if self.head_name not in GATED:
            return conversation
        header_ids = tuple(self.tokenizer(header, add_special_tokens=False)["input_ids"])
        position = self._only_position(header_ids, prefix_ids, "prompt")
        return replace(conversation, header_ids=header_ids, gate_position=position)

    def encode(self, conversation: Conversation, replies: list[str]) -> list[list[int]]:
        """The whole model input for each reply as text: chat template, then tokenisation of the whole (section 2).

        InputError for a reply that opens another turn where the head has a gate, which would read there.
        """
        wholes = self._tokenise(conversation.prompt, replies, conversation.bos)
        shortest = len(conversation.prefix_ids) + len(conversation.header_ids)
        for whole in wholes if conversation.header_ids else ():
            if len(whole) > shortest:
                self._only_position(conversation.header_ids, tuple(whole), "reply")
        return wholes

    def _tokenise(self, prompt: str, replies: list[str], bos: str) -> list[list[int]]:
        masks = {"return_attention_mask": False, "return_token_type_ids": False}
        if not self.tokenizer.chat_template:
            return self.tokenizer([prompt] * len(replies), list(replies), **masks)["input_ids"]
        texts = self.render(prompt, replies)
        if bos == "single" and self._adds_bos(texts[0]):
            texts = [text.removeprefix(self.tokenizer.bos_token) for text in texts]
        return self.tokenizer(texts, **masks)["input_ids"]

    def _adds_bos(self, text: str) -> bool:
        """Whether the tokenizer puts a bos of its own before text that already starts with one."""
        bos = self.tokenizer.bos_token
        return (
            bool(bos) and text.startswith(bos) and self.tokenizer(text)["input_ids"][1] == self.tokenizer.bos_token_id
        )

    def _text_around_reply(self, prompt: str) -> tuple[str, str, str]:
        """The rendered text before and after the reply, and the end of the former that follows the prompt."""
        if not self.tokenizer.chat_template:
            return f"{prompt}\n", "", ""  # encoders read the pair (prompt, reply); there is no text around it
        asked, replied = STAND_INS[0], STAND_INS[1]
        parts = self.render(asked, [replied])[0].partition(asked)[2].rpartition(replied)
        header, _, after = parts
        if self.render(asked, [STAND_INS[2]])[0].count(STAND_INS[2]) != 1 or not header:
            raise InputError(
                f"{self.name}: the chat template leaves no place for the reply, or more than one; give a checkpoint "
                "whose template prints the assistant's turn once, as it is"
            )
        if header.strip() in after:
            raise InputError(f"{self.name}: the chat template opens another turn after the reply; give another one")
        whole = self.render(prompt, [replied])[0]
        before = whole[: len(whole) - len(replied + after)]
        if not before.endswith((prompt + header, prompt.strip() + header)):
            raise InputError(f"{self.name}: the chat template drops or alters the prompt {prompt!r}; word it otherwise")
        return before, after, header

    def _only_position(self, pattern: tuple[int, ...], ids: tuple[int, ...], where: str) -> int:
        found = [i for i in range(len(ids)) if ids[i : i + len(pattern)] == pattern]
        if len(found) != 1:
            raise InputError(
                f"{self.name}: the user's turn ends {len(found)} times, so its gate has no single place to read; "
                f"take control strings out of the {where}"
            )
        return found[0]


def _common_prefix(sequences: list) -> tuple[int, ...]:
    """The longest sequence of ids that all sequences start with."""
    return tuple(os.path.commonprefix([list(s) for s in sequences]))


# --- loading ------------------------------------------------------------------------------------------------------


def load(
    name: str | Path,
    *,
    device: str | None = None,
    dtype: str | None = None,
    attention: str | None = None,
    head: str | None = None,
) -> RewardModel:
    """The reward model of that nickname, hub id or folder, ready to score.

    device: None takes cuda, then mps, then cpu.
    dtype: None takes the registry's, then the checkpoint's; float16 becomes float32 on a cpu, where it is slow.
    attention: None takes the right one ("eager" for Gemma-2, whose soft-capping sdpa drops; "sdpa" otherwise);
    "uncapped" runs Gemma-2 without soft-capping, as the authors' code did.
    head: None reads it from the checkpoint; "urm_helpfulness" reads URM as the paper's code did.
    Raises InputError, one line with the remedy, for anything that is not there, not open, or not a reward model.
    """
    name = str(name)
    entry = find(name)
    folder, revision = fetch(entry["hub_id"], entry["revision"])
    config, keys = config_of(folder), tensor_files(folder)
    device = device_for(device)
    dtype = dtype_for(dtype or entry["dtype"], device, config)
    head_name = head or head_name_of(config, set(keys))
    _check_head_name(name, head_name, entry["head"], config)
    attention = set_attention(config, attention)
    tokenizer = _tokenizer(folder, head_name)
    load_parts = _load_classifier if head_name == "classifier" else _load_backbone_and_head
    backbone, head_module = load_parts(folder, config, keys, head_name, dtype, attention)
    if attention != "uncapped":
        attention = backbone.config._attn_implementation
    model = RewardModel(
        name, entry["nickname"], entry["hub_id"], revision, head_name, dtype, attention, device, tokenizer,
        backbone.to(device).eval(), head_module and head_module.to(device).eval(),
    )  # fmt: skip
    model.conversation("Why?")  # a template that cannot be used is told now, not after the first prompt
    return model


def find(name: str) -> dict:
    """What is known of the model of that nickname, hub id or folder: a row of the registry, or as much as is given."""
    return find_in(registry(), name, "reward model")


def find_in(models: pd.DataFrame, name: str, kind: str) -> dict:
    """What a registry of models of this kind holds of that nickname or hub id; of another, what its name says.

    A hub id or a folder that the registry does not hold has group `other` and '' in all other columns. InputError, with
    the nearest nickname, for what is neither.
    """
    models = models.reset_index()
    for column in ("nickname", "hub_id"):
        if len(rows := models[models[column] == name]):
            entry = rows.iloc[0].to_dict()
            if entry["group"] == "embedded":
                entry["hub_id"] = str(ROOT / entry["hub_id"])
            return entry
    if Path(name).is_dir() or "/" in name:
        given = {"nickname": Path(name).name, "hub_id": name, "group": "other"}
        return dict.fromkeys(models.columns, "") | given
    nearest = difflib.get_close_matches(name, models["nickname"], n=1, cutoff=0)[0]
    raise InputError(
        f"unknown {kind} '{name}'; did you mean '{nearest}'? Give a nickname of data/{kind.replace(' ', '_')}s.csv, "
        "a hub id (owner/name) or a folder"
    )


def fetch(hub_id: str, revision: str) -> tuple[Path, str]:
    """The folder that holds the checkpoint, and its resolved revision."""
    folder = Path(hub_id)
    if folder.is_dir():
        return folder, _weights_hash(folder)
    if folder.is_absolute():
        raise InputError(f"no reward model in {folder}; if it is an embedded one, make it with: make reproduce")
    patterns = ["*.json", "*.safetensors", "*.model", "*.jinja", "*.txt"]
    try:
        folder = Path(huggingface_hub.snapshot_download(hub_id, revision=revision or None, allow_patterns=patterns))
    except Exception as error:  # the network fails in many ways; each is told in one line
        raise InputError(_why_not_fetched(hub_id, error)) from error
    return folder, folder.name


def _why_not_fetched(hub_id: str, error: Exception) -> str:
    if isinstance(error, HFValidationError):
        return f"'{hub_id}' is neither a folder nor a hub id (owner/name); check the name"
    if isinstance(error, GatedRepoError):
        return f"{hub_id} is gated: accept its terms on its model page while logged in, then run: hf auth login"
    if isinstance(error, HfHubHTTPError):
        status = getattr(error.response, "status_code", "an error")
        return f"the model hub answered {status} for {hub_id}; check the name, or log in with: hf auth login"
    if isinstance(error, OSError) and error.errno is not None:
        return f"{hub_id} cannot be stored: {error.strerror}; make room or set HF_HOME to another folder"
    return f"the model hub cannot be reached for {hub_id}; connect, unset HF_HUB_OFFLINE, or give a local folder"


def _weights_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"sha256:{digest.hexdigest()[:16]}"


def device_for(device: str | None) -> str:
    """The device asked for, or for None the best there is. InputError if it cannot be used."""
    if device is None:
        mps = "mps" if torch.backends.mps.is_available() else "cpu"
        return "cuda" if torch.cuda.is_available() else mps
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device '{device}' cannot be used ({first_line(error)}); leave device out") from error
    return device


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:150]


@contextlib.contextmanager
def quiet_transformers():
    """While this lasts, transformers prints neither reports nor progress bars."""
    # It reports head tensors as unexpected in a backbone; what was loaded is checked here, and more strictly.
    verbosity, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


def dtype_for(wanted: str, device: str, config) -> str:
    """The dtype to compute in: the wanted one, or for '' the checkpoint's; float16 becomes float32 on a cpu."""
    dtype = wanted or str(config.dtype or "float32").removeprefix("torch.")
    if dtype not in ("float32", "bfloat16", "float16", "float64"):
        raise InputError(f"dtype must be 'float32', 'bfloat16' or 'float16', not {dtype!r}")
    return "float32" if (device, dtype) == ("cpu", "float16") else dtype


def config_of(folder: Path):
    """The checkpoint's configuration. InputError if it has none, or one that transformers does not know."""
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder} holds no config.json; give the folder of a saved transformers checkpoint")
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except (ValueError, KeyError, OSError) as error:
        raise InputError(
            f"{folder}/config.json is not of an architecture that transformers knows ({first_line(error)}); "
            "give a *ForSequenceClassification checkpoint, or a newer transformers"
        ) from error


def tensor_files(folder: Path) -> dict[str, Path]:
    """Which safetensors file holds each tensor of the checkpoint. InputError if one is missing or cut short."""
    index = folder / "model.safetensors.index.json"
    listed = set(json.loads(index.read_text())["weight_map"].values()) if index.is_file() else set()
    files = sorted({*folder.glob("*.safetensors"), *(folder / name for name in listed)})
    if not files:
        pickled = "only pickled weights, which can run code," if list(folder.glob("*.bin*")) else "no weights"
        raise InputError(f"{folder} holds {pickled} and no safetensors; convert them, or download them again")
    found = {}
    for path in files:
        try:
            with safe_open(path, "pt") as tensors:
                found |= dict.fromkeys(tensors.keys(), path)
        except (SafetensorError, OSError) as error:
            raise InputError(f"{path} is not a whole safetensors file ({first_line(error)}); download it") from error
    return found


def head_name_of(config, keys: set[str]) -> str:
    """The name of the head that a checkpoint holds, read from its config's architecture and its tensors' keys."""
    architecture = (config.architectures or ["none"])[0]
    if architecture == ARCHITECTURES["armorm"]:
        return "qrm_llama" if hasattr(config, "num_quantiles") else "armorm"
    for head_name in ("qrm_gemma", "urm"):
        if architecture == ARCHITECTURES[head_name]:
            return head_name
    if not architecture.endswith("ForSequenceClassification"):
        raise InputError(
            f"architecture {architecture} is not a reward model; give a *ForSequenceClassification checkpoint"
        )
    # Decoders name their head `score`; encoders (BERT, DeBERTa) have a pooler and a `classifier`.
    return "classifier" if any(key.startswith("classifier.") for key in keys) else "linear"


def _check_head_name(name: str, head_name: str, expected: str, config) -> None:
    if expected and head_name not in (expected, "urm_helpfulness"):
        raise InputError(
            f"{name}: the checkpoint is a {config.architectures[0]} with head {head_name}, but data/reward_models.csv "
            f"says {expected}; correct the row or the revision"
        )
    if head_name == "urm_helpfulness" and config.architectures[0] != ARCHITECTURES["urm"]:
        raise InputError(f"{name}: head 'urm_helpfulness' reads URM only; leave head out")


def set_attention(config, attention: str | None) -> str:
    """The attention to run, written into the config where soft-capping is to be dropped."""
    may_cap = hasattr(config, "attn_logit_softcapping")  # Gemma-2
    if attention == "uncapped":
        if not may_cap:
            raise InputError("attention 'uncapped' is for Gemma-2 models, which alone soft-cap; leave attention out")
        config.attn_logit_softcapping = None
    elif may_cap and attention == "sdpa":
        raise InputError("sdpa silently drops Gemma-2's soft-capping; leave attention out, or say 'uncapped'")
    elif attention not in (None, "eager", "sdpa"):
        raise InputError(f"attention must be 'eager', 'sdpa' or 'uncapped', not {attention!r}")
    return attention or ("eager" if may_cap else "sdpa")


def tokenizer_of(folder: Path):
    """The checkpoint's tokenizer. InputError if it has none that transformers can open."""
    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{folder} holds no tokenizer that transformers can open ({first_line(error)}); save tokenizer.json there"
        ) from error


def _tokenizer(folder: Path, head_name: str):
    tokenizer = tokenizer_of(folder)
    if head_name == "classifier" and tokenizer.pad_token_id is None:
        raise InputError(f"{folder}: the tokenizer has no pad token, which an encoder needs; name one in its config")
    if head_name != "classifier" and not tokenizer.chat_template:
        raise InputError(
            f"{folder}: the tokenizer has no chat template; save one beside it as chat_template.jinja, "
            "the one that the reward model was trained with"
        )
    return tokenizer


def from_safetensors(
    kind: type, folder: Path, config, dtype: str, attention: str | None
) -> tuple[torch.nn.Module, dict]:
    """The checkpoint as a model of this Auto class, without remote code, and the report of its loading.

    attention: as from set_attention; None leaves it to the architecture.
    """
    with quiet_transformers():
        return kind.from_pretrained(
            folder, config=config, dtype=getattr(torch, dtype), use_safetensors=True, trust_remote_code=False,
            attn_implementation="eager" if attention == "uncapped" else attention, output_loading_info=True,
            ignore_mismatched_sizes=True,
        )  # fmt: skip


def _load_backbone_and_head(folder: Path, config, keys: dict, head_name: str, dtype: str, attention: str):
    backbone, report = from_safetensors(AutoModel, folder, config, dtype, attention)
    prefix = f"{backbone.base_model_prefix}."
    ours = {key for key in keys if key.startswith(prefix)}
    known = {f"{prefix}{key}" for key in backbone.state_dict()}
    refuse_unloaded(folder, report, ours - known)
    return backbone, _load_head({key: path for key, path in keys.items() if key not in ours}, config, head_name)


def _load_classifier(folder: Path, config, keys: dict, head_name: str, dtype: str, attention: str):
    if config.num_labels != 1:
        raise InputError(f"{folder}: the classifier has {config.num_labels} labels; a reward model has one")
    model, report = from_safetensors(AutoModelForSequenceClassification, folder, config, dtype, None)
    refuse_unloaded(folder, report, report["unexpected_keys"])
    return model, None


def refuse_unloaded(folder: Path, report: dict, extra: Iterable[str]) -> None:
    """InputError if the loading report names a tensor that is missing or misshapen, or if any is left over."""
    misshapen = [key[0] if isinstance(key, tuple) else str(key) for key in report["mismatched_keys"]]
    extra = [key for key in extra if not key.endswith(COMPUTED)]
    for problem, wrong in (("lacks", report["missing_keys"]), ("misshapes", misshapen), ("has unexpected", extra)):
        if wrong:
            raise InputError(
                f"{folder} {problem} tensors {', '.join(sorted(wrong)[:3])}; check config.json, or download it again"
            )


def _load_head(keys: dict[str, Path], config, head_name: str) -> torch.nn.Module:
    head = new_head(head_name, config)
    expected = {k: v for k, v in head.state_dict().items() if not k.endswith("num_batches_tracked")}
    found = {key for key in keys if not key.startswith("lm_head.") and not key.endswith("num_batches_tracked")}
    for problem, wrong in (("lacks", expected.keys() - found), ("has unexpected", found - expected.keys())):
        if wrong:
            raise InputError(
                f"the checkpoint {problem} head tensors {', '.join(sorted(wrong)[:4])} for head {head_name}; "
                "check the revision, or download the checkpoint again"
            )
    tensors = {key: _read_tensor(keys[key], key).float() for key in expected}
    for key, tensor in tensors.items():
        if tensor.shape != expected[key].shape:
            raise InputError(
                f"head tensor {key} has shape {tuple(tensor.shape)}, but head {head_name} needs "
                f"{tuple(expected[key].shape)}; check the revision and config.json"
            )
    head.load_state_dict(tensors, strict=False)
    return head


def _read_tensor(path: Path, key: str) -> torch.Tensor:
    with safe_open(path, "pt") as tensors:
        return tensors.get_tensor(key)


# --- saving -------------------------------------------------------------------------------------------------------


def save(folder: Path, backbone, head: torch.nn.Module, head_name: str, tokenizer) -> None:
    """Write a reward model as a standard checkpoint, with the key names and architecture name of the released ones."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"model.{key}": tensor for key, tensor in backbone.state_dict().items()} | head.state_dict()
    save_file(
        {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    family = type(backbone).__name__.removesuffix("Model")
    config = copy.deepcopy(backbone.config)
    config.num_labels = head.score.out_features if hasattr(head, "score") else 1
    config = config.to_dict() | {"architectures": [ARCHITECTURES.get(head_name, f"{family}ForSequenceClassification")]}
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True, default=str) + "\n")
    tokenizer.save_pretrained(folder)
