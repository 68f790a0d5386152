"""Checkpoints: fetched, hashed, and opened as transformers' own classes, from safetensors and
without remote code.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import huggingface_hub
import pandas as pd
import torch
from safetensors import safe_open
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging as transformers_logging

from .. import InputError
from ..io import is_of_memory

# What a checkpoint is read from: configuration, weights, tokenizer and templates.
READ = ("*.json", "*.safetensors", "*.model", "*.jinja", "*.txt", "*.tiktoken")
TEMPLATES = "additional_chat_templates/*.jinja"
NOT_READ = ("training.json", "generation_config.json")  # no reward depends on them
# Classes of tokenizers that obeyed add_bos_token and add_eos_token of tokenizer_config.json in
# transformers 4, whatever tokenizer.json says, and whether they add a bos where only the other one
# is given. Transformers 5 reads neither beside tokenizer.json.
ADDS_BOS = {
    "LlamaTokenizer": True,
    "CodeLlamaTokenizer": True,
    "GemmaTokenizer": True,
    "CohereTokenizer": True,
    "GPTNeoXTokenizer": False,
}
# Places of one fact in config.json, of which transformers 4 reads another one than 5
ONE_FACT = (
    r"(rope_\w+\.(full_attention\.)?|global_)?rope_theta|rotary_emb_base",
    r"rope_\w+\.sliding_attention\.rope_theta|local_rope_theta|rope_local_base_freq",
    r"(rope_\w+\.(full_attention\.)?)?partial_rotary_factor|rotary_pct",
    r"(rope_\w+\.)?original_max_position_embeddings",
    r"rope_scaling\.(rope_)?type",
    r"(torch_)?dtype",
)
OLD_LAYER_TYPES = ("sliding_window_pattern", "global_attn_every_n_layers")

# --- one line for what fails ----------------------------------------------------------------------


@contextlib.contextmanager
def refusing(problem: str, remedy: str) -> Iterator[None]:
    """Turn an error into an InputError of one line: the problem, the error and the remedy."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        message = " ".join(str(error).split())[:150]
        raise InputError(
            f"{problem} ({type(error).__name__}: {message}); {remedy}"
        ) from error


@contextlib.contextmanager
def enough_memory(what: str) -> Iterator[None]:
    """Turn running out of memory into one line: there is too little memory to <what>."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_of_memory(error):
            raise
        raise InputError(
            f"there is too little memory to {what}; free some, or use a larger machine, and run "
            "the same command again: what was scored is kept"
        ) from error


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers from printing reports and progress bars; what was loaded is checked here,
    more strictly.
    """
    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


# --- files ----------------------------------------------------------------------------------------


class Stored(NamedTuple):
    """Where a tensor is stored, and what the header of its safetensors file says of it."""

    path: Path
    dtype: str
    shape: list[int]


@dataclass(frozen=True)
class Files:
    """The folder of a checkpoint. revision: the commit, if it came from the hub, and a hash of the
    files that can change a reward.
    """

    folder: Path
    revision: str

    @cached_property
    def tensors(self) -> dict[str, Stored]:
        """Return the stored tensors by name. InputError if a file is missing or cut short."""
        return stored_tensors(weight_files(self.folder))

    def read(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Return tensors in fp32 by name."""
        found = {}
        for name in names:
            with safe_open(self.tensors[name].path, "pt") as file:
                found[name] = file.get_tensor(name).float()
        return found


def open_files(hub_id: str, revision: str, patterns: tuple[str, ...] = READ) -> Files:
    """Return the files of a checkpoint in a folder or on the hub: see fetch."""
    return files_of(*fetch(hub_id, revision, patterns))


def files_of(folder: Path, commit: str = "") -> Files:
    """Return the files in a folder, hashed. commit: see fetch."""
    return Files(folder, f"{commit} {hash_of(folder)}".strip())


def fetch(
    hub_id: str, revision: str, patterns: tuple[str, ...] = READ
) -> tuple[Path, str]:
    """Return the folder with a checkpoint's files, and its commit if it came from the hub; "" for a
    local folder.

    patterns: of the files to download. InputError if the checkpoint is not available, and for a
    revision of a local folder.
    """
    folder = Path(hub_id)
    if folder.is_dir():
        if revision:
            raise InputError(f"{hub_id} is a folder, which has no revision")
        return folder, ""
    if folder.is_absolute():
        raise InputError(
            f"no reward model in {folder}; if it is made here, make it with: make reproduce"
        )
    remedy = (
        "check the name, accept its terms on its model page, run: hf auth login, or give a local "
        "folder"
    )
    problem = f"{Path.cwd()} has no folder {hub_id}, and the model hub does not give it"
    with refusing(problem, remedy):
        place = huggingface_hub.snapshot_download(
            hub_id, revision=revision or None, allow_patterns=list(patterns)
        )
    return Path(place), Path(place).name


def hash_of(folder: Path, *patterns: str) -> str:
    """Return a hash of the names and contents of all files that can change a reward. patterns: of
    further files, beside READ.
    """
    found = {
        path
        for pattern in (*READ, TEMPLATES, *patterns)
        for path in folder.glob(pattern)
    }
    digest = hashlib.sha256()
    for path in sorted(file for file in found if file.name not in NOT_READ):
        with path.open("rb") as content:
            of_file = hashlib.file_digest(content, "sha256").digest()
        digest.update(os.fsencode(path.relative_to(folder)) + b"\0" + of_file)
    return f"sha256:{digest.hexdigest()[:16]}"


def weight_files(folder: Path, whole: str = "model.safetensors") -> list[Path]:
    """Return the files of weights that transformers reads, and a value head that was saved beside
    them. InputError if there are none.
    """
    names = [whole]
    if not (folder / whole).is_file():
        problem = f"{folder} holds no {whole}, nor its index"
        with refusing(problem, "download it, or see if audit.load opens the model"):
            of_tensors = json.loads((folder / f"{whole}.index.json").read_text())
            names = sorted(set(of_tensors["weight_map"].values()))
    head = folder / f"value_head{Path(whole).suffix}"
    return [folder / name for name in names] + [head] * head.is_file()


def stored_tensors(files: Iterable[Path]) -> dict[str, Stored]:
    """Return the tensors of safetensors files, by name. InputError if one is missing or cut
    short.
    """
    tensors = {}
    for path in files:
        with (
            refusing(f"{path} is not a whole safetensors file", "download it"),
            safe_open(path, "pt") as file,
        ):
            for key in file.keys():  # noqa: SIM118
                part = file.get_slice(key)
                tensors[key] = Stored(path, part.get_dtype(), part.get_shape())
    return tensors


# --- how it is computed ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """A checkpoint whose configuration is read, and how it is computed."""

    files: Files
    config: PreTrainedConfig
    device: str
    dtype: str
    attention: str | None

    @property
    def folder(self) -> Path:
        return self.files.folder


def open_source(
    files: Files, device: str | None, dtype: str, attention: str | None
) -> Source:
    """Return a checkpoint whose configuration is read. InputError if transformers does not know it.

    device, dtype, attention: see reward_models.Options.
    """
    config = config_of(files)
    device = device_for(device)
    dtype = dtype_for(dtype, device, config)
    return Source(files, config, device, dtype, set_attention(config, attention))


def config_of(files: Files) -> PreTrainedConfig:
    """Return the checkpoint's configuration. InputError if transformers does not know it without
    code of its repository.
    """
    problem = f"{files.folder} holds no config.json of a model that transformers has"
    remedy = "and code in its repository is not run; see if audit.load opens it"
    with refusing(problem, remedy), quiet_transformers():
        fields = json.loads((files.folder / "config.json").read_text("utf-8"))
        for part in (fields, fields.get("text_config") or {}):
            if twice := stated_twice(part):
                raise InputError(
                    f"{files.folder} states one fact twice in config.json ({' and '.join(twice)}), "
                    "of which transformers 4 and 5 read different ones; take the one out that the "
                    "model was not trained with"
                )
        return AutoConfig.from_pretrained(files.folder, trust_remote_code=False)


def stated_twice(fields: dict) -> list[str]:
    """Return the places of a fact that config.json states in two ways; [] for none."""
    # of nested fields, names such as rope_scaling.type
    places = pd.json_normalize(fields).iloc[0].dropna()
    for fact in ONE_FACT:
        named = places.filter(regex=f"^({fact})$")
        if len(named) and (named != named.iloc[0]).any():
            return named.index.tolist()
    # the old scaling wins, and the base of the new one is lost with it
    scaling, rope = fields.get("rope_scaling"), fields.get("rope_parameters")
    if scaling and rope and {"rope_theta": fields.get("rope_theta")} | scaling != rope:
        return ["rope_scaling", "rope_parameters"]
    old = [name for name in OLD_LAYER_TYPES if name in places]
    types = fields.get("layer_types")
    if old and types:
        others = {name: fields[name] for name in fields if name != "layer_types"}
        if AutoConfig.for_model(**others).layer_types != types:
            return [*old, "layer_types"]
    return []


def device_for(device: str | None) -> str:
    """Return the device, or for None the best one of this machine. InputError if it cannot be
    used.
    """
    if device is None:
        mps = "mps" if torch.backends.mps.is_available() else "cpu"
        return "cuda" if torch.cuda.is_available() else mps
    with refusing(f"device '{device}' cannot be used", "leave device out"):
        torch.empty(0, device=device)
    return device


def dtype_for(wanted: str, device: str, config: PreTrainedConfig) -> str:
    """Return the dtype to compute in: the wanted one, or for '' the checkpoint's; on a cpu
    float32 for float16.
    """
    dtype = wanted or str(config.dtype or "float32").removeprefix("torch.")
    if dtype not in ("float32", "bfloat16", "float16", "float64"):
        raise InputError(
            f"dtype must be 'float32', 'bfloat16' or 'float16', not {dtype!r}"
        )
    return "float32" if (device, dtype) == ("cpu", "float16") else dtype


def architecture_of(config: PreTrainedConfig) -> str:
    """Return the name of the class that the checkpoint was saved from, or "none"."""
    return (config.architectures or ["none"])[0]


def soft_caps(config: PreTrainedConfig) -> bool:
    """Return whether attention is soft-capped: in Gemma-2, and where the configuration names a
    cap (Gemma-3: none).
    """
    return (
        config.model_type == "gemma2"
        or getattr(config, "attn_logit_softcapping", None) is not None
    )


def set_attention(config: PreTrainedConfig, attention: str | None) -> str | None:
    """Return the attention to run, written into the config where soft-capping is to be dropped;
    None leaves it to transformers.
    """
    known = ("eager", "uncapped") if soft_caps(config) else ("eager", "sdpa")
    if attention not in (None, *known):
        raise InputError(
            f"attention must be {' or '.join(known)} for this model, not {attention!r}: sdpa drops "
            "soft-capping without a word, and 'uncapped' says so"
        )
    if attention == "uncapped":
        config.attn_logit_softcapping = None
    return attention or ("eager" if soft_caps(config) else None)


def without_cap(attention: str | None) -> str | None:
    """Return the name by which transformers knows a way of attention of set_attention."""
    return "eager" if attention == "uncapped" else attention


def length_limit(config: PreTrainedConfig) -> int | None:
    """Return how many tokens a conversation may have before its length changes all positions; None:
    no limit.

    Rotary embeddings of the kinds `dynamic` and `longrope` choose other frequencies for longer
    conversations.
    """
    rope = getattr(config, "rope_parameters", None) or {}
    # one, or one per kind of layer
    for each in (rope, *rope.values()):
        kind = each.get("rope_type") if isinstance(each, dict) else None
        if kind == "dynamic":
            return config.max_position_embeddings
        if kind == "longrope":
            return each["original_max_position_embeddings"]
    return None


# --- opened ---------------------------------------------------------------------------------------


def from_safetensors(
    kind: Any,
    files: Files,
    config: PreTrainedConfig,
    dtype: str,
    attention: str | None,
) -> tuple[PreTrainedModel, dict]:
    """Return the checkpoint as a model of this Auto class, without remote code, and the report of
    its loading.

    `attention` comes from set_attention, or is None where the architecture decides.
    """
    problem = f"{files.folder}: transformers opens no model"
    remedy = "download it again, or correct config.json"
    with refusing(problem, remedy), enough_memory("load it"), quiet_transformers():
        return kind.from_pretrained(
            files.folder,
            config=config,
            dtype=getattr(torch, dtype),
            attn_implementation=without_cap(attention),
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        )


def load_backbone(source: Source) -> PreTrainedModel:
    """Return the backbone with its weights, on the device and in eval mode."""
    backbone, report = from_safetensors(
        AutoModel, source.files, source.config, source.dtype, source.attention
    )
    # what has no such prefix is the head's
    refuse_unloaded(source.folder, report, f"{backbone.base_model_prefix}.")
    forget_longest(backbone)
    return ready(backbone, source.device)


def forget_longest(backbone: PreTrainedModel) -> None:
    """Let the frequencies of rotary positions not depend on the longest conversation so far."""
    rotary = getattr(backbone, "rotary_emb", None)
    if getattr(rotary, "rope_type", None) == "dynamic":
        backbone.register_forward_pre_hook(_forget_longest)


def _forget_longest(backbone: Any, _: tuple) -> None:
    rotary = backbone.rotary_emb
    rotary.max_seq_len_cached = rotary.original_max_seq_len
    rotary.inv_freq = rotary.original_inv_freq


def ready(model: PreTrainedModel, device: str) -> PreTrainedModel:
    """Return the same model on the device and in eval mode. InputError if it does not fit there."""
    with enough_memory(f"hold the model on {device}"):
        return model.to(device).eval()


def refuse_unloaded(folder: Path, report: dict, prefix: str = "") -> None:
    """Raise InputError if the loading report names a tensor that is missing or misshapen, or one
    with this prefix that is left over.
    """
    extra = [key for key in report["unexpected_keys"] if key.startswith(prefix)]
    for problem, wrong in (
        ("lacks", report["missing_keys"]),
        ("misshapes", report["mismatched_keys"]),
        ("has unexpected", extra),
    ):
        if wrong:
            raise InputError(
                f"{folder} {problem} tensors {min(map(str, wrong))}; check config.json and the "
                "revision, or download the checkpoint again"
            )


def tokenizer_of(
    files: Files, template: str | Path | None = None
) -> PreTrainedTokenizerBase:
    """Return the checkpoint's tokenizer, with the ids that tokenizer.json says, where there is one.

    template: a file with another chat template. Truncation, padding and the dropout of merges that
    the file asks for are left out: they are meant for training. InputError if transformers can open
    no tokenizer.
    """
    folder = files.folder
    # A class of its own rebuilds a tokenizer from vocabulary and merges, and drops what
    # tokenizer.json says beside them (normalizer, pre-tokenizer).
    has_file = (folder / "tokenizer.json").is_file()
    kind: Any = PreTrainedTokenizerFast if has_file else AutoTokenizer
    problem = f"{folder} holds no tokenizer that transformers can open"
    with refusing(problem, "save tokenizer.json there"), quiet_transformers():
        tokenizer = kind.from_pretrained(folder, trust_remote_code=False)
    if template is not None:
        with refusing(f"the chat template {template} cannot be read", "give a text"):
            tokenizer.chat_template = Path(template).read_text("utf-8-sig")
    if tokenizer.is_fast:
        backend = tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        if getattr(backend.model, "dropout", None):
            backend.model.dropout = None
        _obey_flags(tokenizer, folder / "tokenizer_config.json")
    return tokenizer


def _obey_flags(tokenizer: Any, file: Path) -> None:
    """Let the tokenizer add the begin and end tokens that this file asks for, if its class did so:
    see ADDS_BOS.
    """
    fields = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    kind = str(fields.get("tokenizer_class")).removesuffix("Fast")
    if kind in ADDS_BOS and fields.keys() & {"add_bos_token", "add_eos_token"}:
        tokenizer.add_bos_token = fields.get("add_bos_token", ADDS_BOS[kind])
        tokenizer.add_eos_token = fields.get("add_eos_token", False)
