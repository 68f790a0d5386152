"""Checkpoints: how they are fetched, opened and checked. Weights come from safetensors, and no remote code runs."""

import contextlib
import copy
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import huggingface_hub
import torch
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError
from safetensors import SafetensorError, safe_open
from tqdm import tqdm
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.utils import logging as transformers_logging

from .. import ROOT, InputError
from ..io import Hashes, is_of_memory, state_of
from . import formats

AutoClass = type[AutoModel] | type[AutoModelForSequenceClassification] | type[AutoModelForCausalLM]
# What a checkpoint is read from: configuration, weights, tokenizer and templates.
READ = ("*.json", "*.safetensors", "*.model", "*.jinja", "*.txt", "*.tiktoken")
TEMPLATES = "additional_chat_templates/*.jinja"
NOT_READ = ("training.json", "generation_config.json")  # no reward depends on them
MOST_LAYERS, MOST_TOKENS = 1000, 10_000_000  # that any model may have; it is built before weights are looked at
_DIGESTS = Hashes(lambda: ROOT / "data" / "cache" / "digests.json")
OTHER_WEIGHTS = {  # files that hold weights in a way that is not read, and what their owner can do
    "*.gguf": "weights for llama.cpp, as a rule quantised; give the checkpoint in safetensors that they were made from",
    "**/*_model_states.pt": "a shard of DeepSpeed's; run the zero_to_fp32.py beside it, which writes pytorch_model.bin",
    "**/*.distcp": "a shard of PyTorch's; run: python -m torch.distributed.checkpoint.format_utils dcp_to_torch",
}
COMPUTED = ("rotary_emb.inv_freq", "attn.bias", "masked_bias")  # tensors of old checkpoints that models now compute


# --- one clear line -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def refusing(
    problem: str, remedy: str, errors: type[Exception] | tuple[type[Exception], ...] = Exception
) -> Iterator[None]:
    """Turn these errors into an InputError of one line: the problem, the error and the remedy."""
    try:
        yield
    except InputError:
        raise
    except errors as error:
        raise InputError(f"{problem} ({type(error).__name__}: {first_line(error)}); {remedy}") from error


def first_line(error: BaseException) -> str:
    """Return the first line of the error's message, at most 150 characters; the type's name if it is empty."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:150]


@contextlib.contextmanager
def enough_memory(what: str = "", line: str = "") -> Iterator[None]:
    """Turn running out of memory into one line: this one, or by default `there is too little memory to <what>`."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_of_memory(error):
            raise
        raise InputError(
            line
            or f"there is too little memory to {what}; free some, or use a larger machine, and run the same "
            "command again: what was scored is kept"
        ) from error


# --- files --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Files:
    """The files of a checkpoint that can change a reward.

    - revision: the commit on the hub and a hash of the files. For a local folder it is the hash alone.
    - states: for each file, the result of io.state_of before the file was hashed, and the SHA-256 of its content
    """

    folder: Path
    revision: str
    states: dict[Path, tuple[list[int], str]]

    def refuse_changed(self, *paths: Path) -> None:
        """Raise InputError if one of these files (by default of all files) has changed since it was hashed."""
        for path in paths or self.states:
            state, digest = self.states[path]
            with contextlib.suppress(OSError):  # it is gone
                now = state_of(path)
                # The last time alone also changes with permissions and links.
                if now == state or now[:-1] == state[:-1] and _hash_content(path) == digest:
                    continue
            raise InputError(
                f"{path} was changed while the model was in use, so that rewards would come from two models; load the "
                "model again, or run the same command again: what was scored before is kept"
            )


def open_files(hub_id: str, revision: str, patterns: Sequence[str] = READ) -> Files:
    """Return the files of the checkpoint in a folder, or on the hub, from where they are downloaded once.

    `patterns` selects the files to download. The default is every file that a model needs. InputError if the checkpoint
    is not available.
    """
    folder, commit = Path(hub_id), ""
    if folder.is_absolute() and not folder.is_dir():
        raise InputError(f"no reward model in {folder}; if it is an embedded one, make it with: make reproduce")
    if not folder.is_dir():
        folder = _download(hub_id, revision, patterns)
        commit = f"{folder.name} "
    if patterns is READ:
        folder = _in_safetensors(folder)
    digest, states = _hash_of(folder)
    return Files(folder, f"{commit}{digest}", states)


def _download(hub_id: str, revision: str, patterns: Sequence[str]) -> Path:
    try:
        folder = huggingface_hub.snapshot_download(hub_id, revision=revision or None, allow_patterns=list(patterns))
        if patterns is READ and not any(Path(folder).glob("*.safetensors")):
            huggingface_hub.snapshot_download(hub_id, revision=Path(folder).name, allow_patterns=list(formats.PICKLED))
    except Exception as error:  # the network fails in many ways; each becomes one line
        raise InputError(_why_not_fetched(hub_id, error)) from error
    return Path(folder)


def _in_safetensors(folder: Path) -> Path:
    """Return a folder with the checkpoint as transformers' classes store it: this folder, or a converted copy."""
    formats.unpickle(folder)
    cache = ROOT / "data" / "cache"
    if formats.is_adapter(folder):
        base = open_files(formats.adapter_of(folder)["base_model_name_or_path"], "")
        made_from = hashlib.sha256(f"{_hash_of(folder)[0]} {base.revision}".encode()).hexdigest()[:16]
        tqdm.write(f"{folder} is an adapter; it is merged into {base.folder}, revision {base.revision}")
        return formats.merge(folder, base.folder, tensor_files(base.folder), cache / "merged" / made_from)
    with contextlib.suppress(InputError):  # what is wrong with the files is said by who opens them
        files = _weight_files(folder)
        if formats.needs_other_names(folder, files):
            target = cache / "renamed" / _hash_of(folder)[0].partition(":")[2]
            tqdm.write(f"{folder} names its tensors in its own way; it is written as transformers does in {target}")
            return formats.rename(folder, files, target)
    return folder


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


def _hash_of(folder: Path) -> tuple[str, dict[Path, tuple[list[int], str]]]:
    """Return a hash of the names and contents of all files that can change a reward, and the states of these files."""
    files = {path for pattern in (*READ, TEMPLATES) for path in folder.glob(pattern) if path.is_file()}
    digest, states = hashlib.sha256(), {}
    for path in sorted(file for file in files if file.name not in NOT_READ):
        with refusing(f"{path} cannot be read", "make it readable", OSError):
            states[path] = state_of(path), _hash_content(path)
            digest.update(os.fsencode(path.relative_to(folder)) + b"\0" + bytes.fromhex(states[path][1]))
    with contextlib.suppress(InputError):  # a folder that cannot be written: they are hashed again the next time
        _DIGESTS.keep()
    return f"sha256:{digest.hexdigest()[:16]}", states


def _hash_content(path: Path) -> str:
    """Return the SHA-256 of a file, in hex, kept until the file changes. OSError if there is no file."""

    def compute(path: Path) -> str:
        with path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()

    return _DIGESTS.of("content", path.absolute(), compute)


# --- how it is computed -------------------------------------------------------------------------------------------


def device_for(device: str | None) -> str:
    """Return the device, or for None the best one of this machine. InputError if it cannot be used."""
    if device is None:
        mps = "mps" if torch.backends.mps.is_available() else "cpu"
        return "cuda" if torch.cuda.is_available() else mps
    with refusing(f"device '{device}' cannot be used", "leave device out", (RuntimeError, AssertionError)):
        torch.empty(0, device=device)
    return device


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers from printing reports and progress bars."""
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


def dtype_for(wanted: str, device: str, config: PreTrainedConfig) -> str:
    """Return the dtype to compute in: the wanted one, or for '' the checkpoint's.

    float16 becomes float32 on a cpu, and a line says so.
    """
    dtype = wanted or str(config.dtype or "float32").removeprefix("torch.")
    if dtype not in ("float32", "bfloat16", "float16", "float64"):
        raise InputError(f"dtype must be 'float32', 'bfloat16' or 'float16', not {dtype!r}")
    if (device, dtype) != ("cpu", "float16"):
        return dtype
    tqdm.write(
        "float16 is computed in float32 on a cpu, which takes twice the memory; DTYPE=bfloat16 takes half of that, "
        "with rewards that repeat less exactly"
    )
    return "float32"


def config_of(folder: Path) -> PreTrainedConfig:
    """Return the checkpoint's configuration.

    Raises InputError if there is none, if transformers cannot read it, or if `_problem_of` finds a problem.
    """
    place = folder / "config.json"
    if not place.is_file():
        if any(folder.glob("*.gguf")):
            _weight_files(folder)  # says what these are
        raise InputError(f"{folder} holds no config.json; give the folder of a saved transformers checkpoint")
    try:
        with quiet_transformers():
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # what is not checked there fails in as many ways as there are fields
        message = " ".join(str(error).split()).partition(". ")[0][:150]
        raise InputError(
            f"{place} is not of an architecture that transformers knows ({message}), and code in its "
            "repository is not run; give another checkpoint, or install a newer transformers"
        ) from error
    if problem := _problem_of(config):
        raise InputError(f"{folder} {problem}")
    config.return_dict = True  # False changes no number, but what a model's outputs are called
    return config


def _problem_of(config: PreTrainedConfig) -> str:
    """Return why a configuration is not supported here, with the remedy; "" if it is supported."""
    text, window, named = config.get_text_config(), getattr(config, "sliding_window", None), config.architectures or []
    if text is not config:
        return (
            f"is a {config.model_type} model that reads pictures too, and only Gemma-3's are read here; save its "
            "language model with the head as a checkpoint of its own"
        )
    if getattr(config, "quantization_config", None) is not None:
        return "is quantised, which changes rewards; give the checkpoint in its full precision"
    if getattr(config, "transformers_weights", None) is not None:
        return "names a weights file of its own in config.json; call it model.safetensors instead"
    if not isinstance(window, int | None):
        return f"has a config.json where sliding_window is {window!r}; write a number of tokens, or null"
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        return f"has a config.json where architectures is {named!r}; write the name of its class, or null"
    for name, most in {"num_hidden_layers": MOST_LAYERS, "vocab_size": MOST_TOKENS}.items():
        size = getattr(config, name, 1)
        if not isinstance(size, int) or not 1 <= size <= most:
            return f"has a config.json where {name} is {size!r}, which no model has; download it again"
    return ""


def architecture_of(config: PreTrainedConfig) -> str:
    """Return the name of the class that the checkpoint was saved from; "none" if its configuration does not say."""
    named = config.architectures
    return str(named[0]) if isinstance(named, list) and named else "none"


def tensor_files(folder: Path) -> dict[str, Path]:
    """Return which safetensors file holds each tensor, of the files that transformers reads.

    Other safetensors files are named in a printed line.

    Raises InputError if one is missing or cut short, or if two hold a tensor of one name.
    """
    files = _weight_files(folder)
    if others := sorted({path.name for path in folder.glob("*.safetensors")} - {path.name for path in files}):
        tqdm.write(f"{folder}: {', '.join(others)} is not part of the checkpoint, and is not read")
    file_of: dict[str, Path] = {}  # a tensor's name -> its file
    for path in files:
        torn = refusing(f"{path} is not a whole safetensors file", "download it", (SafetensorError, OSError))
        with torn, open_tensors(path) as tensors:
            keys = tensors.keys()
        if twice := sorted(file_of.keys() & set(keys)):
            raise InputError(f"{folder}: two files hold the tensor {twice[0]}; download the checkpoint again")
        file_of |= dict.fromkeys(keys, path)
    return file_of


def _weight_files(folder: Path) -> list[Path]:
    """Return the files that transformers reads, in its order: model.safetensors, or without it those of the index.

    Raises InputError if there are none, or if the index is broken or leads out of its folder.
    """
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    head = [path for path in [folder / "value_head.safetensors"] if path.is_file()]  # LLaMA-Factory's
    if whole.is_file():
        return [whole, *head]
    if index.is_file():
        try:
            names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
            inside = all(Path(name).name == name and name.endswith(".safetensors") for name in names)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            names, inside = set(), False
        if not names or not inside:  # a name with a folder would lead elsewhere
            raise InputError(f"{index} does not say in which safetensors file each tensor is; download it again")
        return [*(folder / name for name in sorted(names)), *head]
    if others := sorted(path.name for path in folder.glob("*.safetensors")):
        raise InputError(f"{folder} holds {others[0]}, but neither model.safetensors nor its index; download them")
    for pattern, remedy in OTHER_WEIGHTS.items():
        if others := sorted(path.relative_to(folder).as_posix() for path in folder.glob(pattern)):
            raise InputError(f"{folder} holds {others[0]}, {remedy}")
    raise InputError(f"{folder} holds no weights in safetensors; download them, or save them with save_pretrained")


def soft_caps(config: PreTrainedConfig) -> bool:
    """Return whether attention is soft-capped: in Gemma-2, and where the configuration names a cap (Gemma-3: none)."""
    return config.model_type == "gemma2" or getattr(config, "attn_logit_softcapping", None) is not None


def set_attention(config: PreTrainedConfig, attention: str | None) -> str:
    """Return the attention to run, written into the config where soft-capping is to be dropped."""
    capped = soft_caps(config)
    if attention == "uncapped":
        if not capped:
            raise InputError("attention 'uncapped' is for models that soft-cap, as Gemma-2; leave attention out")
        config.attn_logit_softcapping = None
    elif capped and attention == "sdpa":
        raise InputError("sdpa silently drops Gemma-2's soft-capping; leave attention out, or say 'uncapped'")
    elif attention not in (None, "eager", "sdpa"):
        raise InputError(f"attention must be 'eager', 'sdpa' or 'uncapped', not {attention!r}")
    return attention or ("eager" if capped else "sdpa")


def from_safetensors(
    kind: AutoClass, folder: Path, config: PreTrainedConfig, dtype: str, attention: str | None,
    layout: dict | None = None,
) -> tuple[PreTrainedModel, dict]:  # fmt: skip
    """Return the checkpoint as a model of this Auto class, without remote code, and the report of its loading.

    With `attention` None, the architecture decides; other values come from set_attention. `layout` comes from
    layers.layout.
    """
    how = {"dtype": getattr(torch, dtype), "attn_implementation": "eager" if attention == "uncapped" else attention}
    with quiet_transformers(), built_from(folder):
        with torch.device("meta"):  # only to learn which class it is
            own = type(kind.from_config(copy.deepcopy(config), trust_remote_code=False, **how))
        opened = [open_tensors(path) for path in _weight_files(folder)]
        tensors = {key: file.get_slice(key) for file in opened for key in file.keys()}  # noqa: SIM118
        model, report = own.from_pretrained(
            None, config=config, state_dict=tensors, output_loading_info=True, ignore_mismatched_sizes=True, **how,
            **({"device_map": layout} if layout else {}),
        )  # fmt: skip
    return read_each_length_anew(model), report


def length_limit(config: PreTrainedConfig) -> int | None:
    """Return how many tokens a conversation may have before its length changes all positions; None: no limit.

    Rotary embeddings of the kinds `dynamic` and `longrope` choose other frequencies for longer conversations, also at
    their beginning.
    """
    rope = getattr(config, "rope_parameters", None) or {}
    ropes = [rope, *(value for value in rope.values() if isinstance(value, dict))]  # one, or one per kind of layer
    limits = [config.max_position_embeddings for rope in ropes if "dynamic" in str(rope.get("rope_type"))]
    limits += [rope["original_max_position_embeddings"] for rope in ropes if rope.get("rope_type") == "longrope"]
    return min(limits, default=None)


def read_each_length_anew(model: PreTrainedModel) -> PreTrainedModel:
    """Return the same model. What it computes no longer depends on the longest conversation that it has read before.

    transformers keeps the frequencies of the longest one until a conversation comes that is shorter than the limit.
    """

    def forget(*_: object) -> None:
        for module in model.modules():
            if not hasattr(module, "original_max_seq_len"):
                continue
            for name in [*vars(module), *dict(module.named_buffers(recurse=False))]:
                if name.endswith("max_seq_len_cached"):
                    setattr(module, name, module.original_max_seq_len)
                elif name.endswith("original_inv_freq"):
                    with torch.inference_mode(False):  # so that it can be changed in any mode
                        setattr(module, name.replace("original_", ""), getattr(module, name).clone())

    if length_limit(model.config) is not None:
        model.register_forward_pre_hook(forget)
    return model


@contextlib.contextmanager
def built_from(folder: Path) -> Iterator[None]:
    """Turn a failure to build a model into one line: too little memory, or a config.json that is wrong."""
    gigabytes = sum(path.stat().st_size for path in folder.glob("*.safetensors")) / 1e9
    memory = (
        f"{folder} does not fit into memory: its weights take {gigabytes:.1f} GB on disk, and twice that in float32 if "
        "they are kept in half precision; use a GPU or a machine with more"
    )
    # What a configuration may say wrong fails in as many ways as there are fields.
    wrong = f"{folder}: no model can be built from config.json"
    with refusing(wrong, "correct it, or download the checkpoint again"), enough_memory(line=memory):
        yield


def ready(model: PreTrainedModel, device: str) -> PreTrainedModel:
    """Return the same model on the device and in eval mode. InputError if it does not fit there."""
    gigabytes = model.get_memory_footprint() / 1e9
    with enough_memory(line=f"the model does not fit on {device}: it takes {gigabytes:.1f} GB; use a larger one"):
        return model.to(device).eval()


def refuse_unloaded(folder: Path, report: dict, extra: Iterable[str], head_name: str = "") -> None:
    """Raise InputError if the loading report names a tensor that is missing or misshapen, or if any is left over.

    head_name: the head that the tensors belong to; "" for the tensors of the backbone.
    """
    misshapen = [key[0] if isinstance(key, tuple) else str(key) for key in report["mismatched_keys"]]
    extra = [key for key in extra if not key.endswith(COMPUTED)]
    what, whose = ("head tensors", f" for head {head_name}") if head_name else ("tensors", "")
    for problem, wrong in (("lacks", report["missing_keys"]), ("misshapes", misshapen), ("has unexpected", extra)):
        if wrong:
            raise InputError(
                f"{folder} {problem} {what} {', '.join(sorted(wrong)[:3])}{whose}; check config.json and the revision, "
                "or download the checkpoint again"
            )


def open_tensors(path: Path) -> safe_open:
    """Return a safetensors file, open to be read.

    It is not mapped into memory, since a mapped file that is cut short while it is in use ends the process.
    """
    return safe_open(path, "pt", backend="pread")


def shape_of(path: Path, key: str) -> tuple[int, ...]:
    """Return the shape of the tensor of that name in a safetensors file."""
    with open_tensors(path) as tensors:
        return tuple(tensors.get_slice(key).get_shape())


def read_tensor(path: Path, key: str) -> torch.Tensor:
    """Return the tensor of that name in a safetensors file, in the file's dtype."""
    with open_tensors(path) as tensors:
        return tensors.get_tensor(key)
