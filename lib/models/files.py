"""Files of checkpoints: found on the hub or in a folder, opened, and hashed. Each failure
becomes one line.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import huggingface_hub
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError
from safetensors import SafetensorError, safe_open
from torch import Tensor
from tqdm import tqdm
from transformers.utils import logging as transformers_logging

from .. import InputError
from ..io import is_of_memory
from ..tables import registry

# What a checkpoint is read from: configuration, weights, tokenizer and templates.
READ = ("*.json", "*.safetensors", "*.model", "*.jinja", "*.txt", "*.tiktoken")
# group of the registry -> what makes its models; small language models come with the embedded ones
MAKERS = {
    "embedded": "make reproduce",
    "human_ratings": "python -m lib.run human_ratings",
}
TEMPLATES = "additional_chat_templates/*.jinja"
PICKLED = ("pytorch_model*.bin", "value_head.bin", "adapter_model.bin")
NOT_READ = ("training.json", "generation_config.json")  # no reward depends on them
# files that hold weights in a way that is not read, and what their owner can do
OTHER_WEIGHTS = {
    "*.gguf": "weights for llama.cpp, as a rule quantised; give the checkpoint in safetensors that "
    "they were made from",
    "**/*_model_states.pt": "a shard of DeepSpeed's; run the zero_to_fp32.py beside it, which "
    "writes pytorch_model.bin",
    "**/*.distcp": "a shard of PyTorch's; run: python -m torch.distributed.checkpoint.format_utils "
    "dcp_to_torch",
    "*.pt": "a file of torch.save; if it holds the model's state_dict, name it pytorch_model.bin",
    "*.pth": "a file of torch.save; if it holds the model's state_dict, name it pytorch_model.bin",
}
# what a trainer keeps beside them
NO_WEIGHTS = ("optimizer.pt", "scheduler.pt", "rng_state.pth", "scaler.pt")
# formats of safetensors that no model computes in
EIGHT_BITS = ("F8_E4M3", "F8_E5M2", "F8_E8M0", "I8", "U8")


@contextlib.contextmanager
def refusing(
    problem: str,
    remedy: str,
    errors: type[Exception] | tuple[type[Exception], ...] = Exception,
) -> Iterator[None]:
    """Turn these errors into an InputError of one line: the problem, the error and the remedy."""
    try:
        yield
    except InputError:
        raise
    except errors as error:
        raise InputError(
            f"{problem} ({type(error).__name__}: {first_line(error)}); {remedy}"
        ) from error


def first_line(error: BaseException) -> str:
    """Return the first line of the error's message, at most 150 characters; the type's name if
    it is empty.
    """
    message = str(error).strip() or type(error).__name__
    return message.splitlines()[0][:150]


@contextlib.contextmanager
def enough_memory(what: str = "", line: str = "") -> Iterator[None]:
    """Turn running out of memory into one line: this one, or by default `there is too little
    memory to <what>`.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_of_memory(error):
            raise
        usual = (
            f"there is too little memory to {what}; free some, or use a larger machine, and "
            "run the same command "
        )
        raise InputError(line or f"{usual}again: what was scored is kept") from error


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers from printing reports and progress bars; what was loaded is checked
    here, more strictly.
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


# --- opened ---------------------------------------------------------------------------------------


def read_json(path: Path, remedy: str = "download it again") -> dict:
    """Return the object in a JSON file. InputError if there is no such file, or if it holds
    something else.
    """
    with refusing(f"{path} cannot be read as JSON", remedy):
        if not path.is_file():  # a pipe would be waited for
            raise FileNotFoundError("there is no such file")
        fields = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(fields, dict):
            raise TypeError("it holds no object")
    return fields


def open_tensors(path: Path) -> safe_open:
    """Return a safetensors file, open to be read."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    # not mapped: one that is cut short in use would end the process
    return safe_open(path, "pt", backend="pread")


class Stored(NamedTuple):
    """Where a tensor is stored, and what the header of its safetensors file says of it."""

    path: Path
    dtype: str
    shape: list[int]


def stored_tensors(folder: Path) -> dict[str, Stored]:
    """Return the tensors of the safetensors files that transformers reads, by name; print which
    files are not read.

    InputError if a file is missing or cut short, if two hold a tensor of one name, or if a tensor
    holds no numbers that can be read: see _refuse_unreadable.
    """
    files = weight_files(folder)
    beside = {
        path.name
        for pattern in ("*.safetensors", "pytorch_model*.bin")
        for path in folder.glob(pattern)
    }
    if others := sorted(beside - {path.name for path in files}):
        tqdm.write(
            f"{folder}: {', '.join(others)} is not part of the checkpoint, and is not read"
        )
    tensors: dict[str, Stored] = {}
    for path in files:
        of_file = tensors_of_file(path)
        problem = _unreadable(of_file)
        if twice := sorted(tensors.keys() & of_file.keys()):
            problem = (
                f"two files hold the tensor {twice[0]}; download the checkpoint again"
            )
        if problem:
            raise InputError(f"{folder}: {problem}")
        tensors |= of_file
    return tensors


def tensors_of_file(path: Path) -> dict[str, Stored]:
    """Return the tensors of a safetensors file, by name. InputError if it is cut short or
    pickled.
    """
    if path.suffix == ".bin":
        raise InputError(f"{path} is pickled; open it with audit.load")
    problem = f"{path} is not a whole safetensors file"
    torn = refusing(problem, "download it", (SafetensorError, OSError))
    with torn, open_tensors(path) as tensors:
        parts = {key: tensors.get_slice(key) for key in tensors.keys()}  # noqa: SIM118
        return {
            key: Stored(path, part.get_dtype(), part.get_shape())
            for key, part in parts.items()
        }


def _unreadable(tensors: dict[str, Stored]) -> str:
    """Return which of a file's tensors is empty, or holds 8 bits for each weight, and the remedy;
    "" if none is.
    """
    for key, (_, dtype, shape) in tensors.items():
        if 0 in shape:
            return (
                f"the tensor {key} is empty, as DeepSpeed's ZeRO-3 leaves it where a model is "
                "saved before its parts are gathered; save again with "
                "stage3_gather_16bit_weights_on_model_save, or run zero_to_fp32.py on the "
                "training's checkpoint"
            )
        if dtype in EIGHT_BITS and key.endswith("weight"):
            names = (f"{key}_scale", f"{key}.scale")
            scales = [name for name in tensors if name.startswith(names)]
            what = "without a scale, so that their size is unknown"
            if scales:
                what = f"with scales ({scales[0]})"
            return (
                f"its weights are in 8 bits ({key}: {dtype}) {what}; give the checkpoint in the "
                "precision that it was trained in"
            )
    return ""


def weight_files(folder: Path) -> list[Path]:
    """Return the files that hold the weights: safetensors, or without any what was pickled.

    InputError if there are none, if an index is broken or leads out of its folder, or if a file
    that it lists is missing.
    """
    head = first_file(folder, "value_head")
    problem = ""
    for whole in (folder / "model.safetensors", folder / "pytorch_model.bin"):
        index = folder / f"{whole.name}.index.json"
        if whole.is_file():
            return [whole, *head]
        if index.is_file():
            return [*_shards_of(index, whole.suffix), *head]
        others = sorted(
            path.name for path in folder.glob(f"*{whole.suffix}") if path not in head
        )
        if others:
            problem = (
                f"{others[0]}, but neither {whole.name} nor its index; download them"
            )
            break
    nothing = "no weights in safetensors; download them, or save with save_pretrained"
    raise InputError(f"{folder} holds {problem or other_weights(folder) or nothing}")


def other_weights(folder: Path) -> str:
    """Return the first file that holds weights in a way that is not read, and the remedy; "" if
    there is none.
    """
    for pattern, remedy in OTHER_WEIGHTS.items():
        found = [path for path in folder.glob(pattern) if path.name not in NO_WEIGHTS]
        if found:
            return f"{min(found).relative_to(folder).as_posix()}, {remedy}"
    return ""


def first_file(folder: Path, stem: str) -> list[Path]:
    """Return the file of weights with this stem, in safetensors or else pickled; [] if there is
    none.
    """
    both = [folder / f"{stem}{end}" for end in (".safetensors", ".bin")]
    return [path for path in both if path.is_file()][:1]


def _shards_of(index: Path, suffix: str) -> list[Path]:
    """Return the files that an index lists. InputError if it is broken, leads out of its folder, or
    lists a file that is missing.
    """
    names: set[str] = set()
    with contextlib.suppress(InputError, KeyError, TypeError, AttributeError):
        names = set(read_json(index)["weight_map"].values())
    # a name with a folder would lead elsewhere
    inside = [
        name
        for name in sorted(map(str, names))
        if Path(name).name == name and name.endswith(suffix)
    ]
    shards = [index.parent / name for name in inside]
    missing = [path for path in shards if not path.exists()]
    problem = ""
    if missing:
        number = shards.index(missing[0]) + 1
        problem = (
            f"{index.parent}: shard {number} of {len(shards)} is missing ({missing[0].name}); "
            "download it"
        )
    if not names or len(inside) < len(names):
        problem = (
            f"{index} does not say in which {suffix[1:]} file each tensor is; "
            "download it again"
        )
    if problem:
        raise InputError(problem)
    return shards


# --- a checkpoint's folder ------------------------------------------------------------------------


@dataclass(frozen=True)
class Files:
    """The files of a checkpoint that can change a reward, and what they say; each is read once.

    - revision: the commit, if it came from the hub, and a hash of the files
    - states: for each file its size, inode and times before it was hashed, and the SHA-256 of its
      content

    What they say is read when it is first needed, because a tokenizer is also opened alone.
    """

    folder: Path
    revision: str
    states: dict[Path, tuple[list[int], str]]

    @cached_property
    def config(self) -> dict:
        """Return the fields of config.json; empty if there is no such file."""
        return self._fields("config.json")

    @cached_property
    def tokenizer_config(self) -> dict:
        """Return the fields of tokenizer_config.json; empty if there is no such file."""
        return self._fields("tokenizer_config.json")

    @cached_property
    def tensors(self) -> dict[str, Stored]:
        """Return the stored tensors by name: see stored_tensors, also for its InputError."""
        return stored_tensors(self.folder)

    def _fields(self, name: str) -> dict:
        path = self.folder / name
        return read_json(path) if path.is_file() else {}

    def read_tensors(self, names: Mapping[str, str]) -> dict[str, Tensor]:
        """Return tensors in fp32. names: another name of each -> its name in the files. InputError
        as for refuse_changed.
        """
        tensors = {
            name: open_tensors(self.tensors[key].path).get_tensor(key).float()
            for name, key in names.items()
        }
        self.refuse_changed()
        return tensors

    def refuse_changed(self, *paths: Path) -> None:
        """Raise InputError if one of these files (by default of all files) has changed since it
        was hashed.
        """
        for path in paths or self.states:
            state, digest = self.states[path]
            with contextlib.suppress(OSError):  # it is gone
                now = _state_of(path)
                # The last time alone also changes with permissions and links.
                like_before = now[:-1] == state[:-1]
                if now == state or like_before and _hash_of(path) == digest:
                    continue
            raise InputError(
                f"{path} was changed while the model was in use, so that rewards would come from "
                "two models; load the model again, or run the same command again: what was scored "
                "before is kept"
            )


def open_files(hub_id: str, revision: str, patterns: tuple[str, ...] = READ) -> Files:
    """Return the files of a checkpoint in a folder or on the hub; InputError if it has none.

    patterns: of the files to download.
    """
    folder, commit = fetch(hub_id, revision, patterns)
    return files_of(folder, commit)


def fetch(
    hub_id: str, revision: str, patterns: tuple[str, ...] = READ
) -> tuple[Path, str]:
    """Return the folder with a checkpoint's files, and its commit if it came from the hub; "" for a
    local folder.

    `patterns` selects the files to download; pickled weights only come if READ finds no others.
    InputError if the checkpoint is not available, and for a revision of a local folder.
    """
    folder = Path(hub_id)
    if folder.is_dir():
        if revision:
            raise InputError(
                f"{hub_id} is a folder, which has no revision; leave revision out"
            )
        return folder, ""
    if folder.is_absolute():
        groups = registry.reward_models()["group"]
        maker = MAKERS.get(groups.get(folder.name), "make reproduce")
        raise InputError(
            f"no reward model in {folder}; if it is made here, make it with: {maker}"
        )
    try:
        place = huggingface_hub.snapshot_download(
            hub_id, revision=revision or None, allow_patterns=list(patterns)
        )
        if patterns is READ and not any(Path(place).glob("*.safetensors")):
            huggingface_hub.snapshot_download(
                hub_id, revision=Path(place).name, allow_patterns=list(PICKLED)
            )
    except Exception as error:  # the network fails in many ways; each becomes one line
        why = (
            f"the model hub cannot be reached for {hub_id}; connect, unset HF_HUB_OFFLINE, or "
            "give a local folder"
        )
        if isinstance(error, HFValidationError):
            why = f"'{hub_id}' is neither a folder nor a hub id (owner/name); check the name"
        elif isinstance(error, GatedRepoError):
            why = (
                f"{hub_id} is gated: accept its terms on its model page while logged in, then "
                "run: hf auth login"
            )
        elif isinstance(error, HfHubHTTPError):
            status = getattr(error.response, "status_code", "an error")
            why = (
                f"the model hub answered {status} for {hub_id}; check the name, or log in with: "
                "hf auth login"
            )
        elif isinstance(error, OSError) and error.errno is not None:
            why = (
                f"{hub_id} cannot be stored: {error.strerror}; make room or set HF_HOME to "
                "another folder"
            )
        raise InputError(why) from error
    return Path(place), Path(place).name


def files_of(folder: Path, commit: str = "") -> Files:
    """Return the files in a folder, hashed. commit: see fetch."""
    digest, states = hashed(folder)
    return Files(folder, f"{commit} {digest}".strip(), states)


def hashed(
    folder: Path, *patterns: str
) -> tuple[str, dict[Path, tuple[list[int], str]]]:
    """Return a hash of the names and contents of all files that can change a reward, and the states
    of these files.

    patterns: of further files, beside READ. InputError for what is no file, such as a pipe, which
    would be waited for.
    """
    found = {
        path
        for pattern in (*READ, TEMPLATES, *patterns)
        for path in folder.glob(pattern)
    }
    digest = hashlib.sha256()
    states = {}
    for path in sorted(file for file in found if file.name not in NOT_READ):
        with refusing(
            f"{path} cannot be read",
            "download it again, make it readable, or take it away",
            OSError,
        ):
            if not path.is_file():
                raise OSError("it is not a file")
            states[path] = _state_of(path), _hash_of(path)
        name = os.fsencode(path.relative_to(folder))
        of_file = bytes.fromhex(states[path][1])
        digest.update(name + b"\0" + of_file)
    return f"sha256:{digest.hexdigest()[:16]}", states


def _state_of(path: Path) -> list[int]:
    """Return a file's size, inode and times in nanoseconds, which change if the file does.
    OSError without a file.
    """
    status = path.stat()
    return [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def _hash_of(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
