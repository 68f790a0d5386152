"""Checks of the files. They read headers and the head, and no other weights."""

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from ... import InputError
from ...models import checkpoints, hardware, layers, reward_models
from ...models.conversations import Conversation, OpenedTurn
from ...models.heads import LAYOUTS, Head, tensors_of_head
from .report import Row, note, ok, wrong

CAP = 50.0  # of Gemma-2's attention, in all models that were published
DTYPES = {"F64": "float64", "F32": "float32", "BF16": "bfloat16", "F16": "float16", "I64": "int64"}  # in a header
BESIDE = 1.2  # memory that scoring takes, as a share of the weights'; what a batch needs adapts itself


@dataclass(frozen=True)
class Tensors:
    """The headers of a checkpoint's files: the file, dtype and shape of each tensor, by its name."""

    file_of: dict[str, Path]
    dtypes: dict[str, str]
    shapes: dict[str, tuple[int, ...]]

    @property
    def parameters(self) -> int:
        """Return how many numbers they hold."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def embedding_rows(self, config: PreTrainedConfig) -> int:
        """Return how many rows the embedding table has, by config.json if no tensor has one of the usual names."""
        named = [key for key in self.shapes if key.endswith(("embed_tokens.weight", "word_embeddings.weight"))]
        return self.shapes[named[0]][0] if named else config.get_text_config().vocab_size

    def dtypes_of(self, keys: Iterable[str]) -> list[str]:
        """Return the dtypes of these tensors, the commonest first."""
        counted: Counter = Counter()
        for key in keys:
            counted[self.dtypes[key]] += math.prod(self.shapes[key])
        return [dtype for dtype, _ in counted.most_common()]


@dataclass(frozen=True)
class Files:
    """What was opened of a checkpoint."""

    folder: Path
    config: PreTrainedConfig
    tensors: Tensors
    head_name: str
    tokenizer: PreTrainedTokenizerBase
    opened: OpenedTurn | None


def read_headers(folder: Path) -> Tensors:
    """Return the headers of all files that transformers would read. InputError as for checkpoints.tensor_files."""
    file_of = checkpoints.tensor_files(folder)
    dtypes, shapes = {}, {}
    for path in sorted(set(file_of.values())):
        with safe_open(path, "pt") as tensors:
            for key in tensors.keys():  # noqa: SIM118  # not a mapping
                part = tensors.get_slice(key)
                dtypes[key] = DTYPES.get(part.get_dtype(), part.get_dtype())
                shapes[key] = tuple(part.get_shape())
    return Tensors(file_of, dtypes, shapes)


def size_of(dtype: str) -> int:
    """Return the bytes of a number; of a dtype that torch does not know, 1."""
    return getattr(getattr(torch, dtype, None), "itemsize", 1)


def configuration(folder: Path, config: PreTrainedConfig, head_name: str) -> Row:
    """Describe the architecture, and whether its repository asks to run its own code."""
    text = config.get_text_config()
    found = f"{checkpoints.architecture_of(config)}, {text.num_hidden_layers} layers of width {text.hidden_size}"
    if "auto_map" in json.loads((folder / "config.json").read_text(encoding="utf-8")):
        formula = "its head is read by its tensors' names and shapes"
        if head_name != "classifier" and not LAYOUTS[head_name].is_linear:
            formula = "its head is written in lib/models/heads.py from its formula"
        return note(f"{found}; the code in its repository is not run: {formula}",
                    "elsewhere say trust_remote_code=True, or another class is loaded without a word")  # fmt: skip
    return ok(found)


def weights(tensors: Tensors) -> Row:
    """Describe the number and size of tensors and files."""
    files, parameters = len(set(tensors.file_of.values())), tensors.parameters
    held = sum(math.prod(shape) * size_of(tensors.dtypes[key]) for key, shape in tensors.shapes.items())
    found = f"{len(tensors.shapes)} tensors in {files} safetensors file{'s' * (files > 1)}, {size(held)}"
    return ok(f"{found}, {parameters / 1e9:.2g} billion numbers", "", {"bytes": held, "parameters": parameters})


def head(files: Files, about: Conversation | None, label: int | None) -> Row:
    """Check whether the head is whole, and where its gate reads. about: a conversation, if one could be rendered."""
    config, head_name = files.config, files.head_name
    if head_name == "classifier":
        outputs = "one output" if label is None else f"its output {label} of {config.num_labels}"
        return ok(f"the encoder's own classifier, with {outputs}")
    tensors = tensors_of_head(config, files.tensors.file_of)
    module = reward_models.load_head(files.folder, tensors, config, head_name, label)
    found = f"{head_name}: {_sound(module)}" + (f", output {label}" if label is not None else "")
    if getattr(module, "std", 1.0) != 1.0 or getattr(module, "mean", 0.0) != 0.0:
        found += f", less {module.mean:g} and divided by {module.std:g}, as config.json says"
    if LAYOUTS[head_name].gated and about is not None:
        found += f"; its gate reads position {about.gate_position}, where the user's turn ends"
    if head_name == "urm_helpfulness":
        return note(f"{found}; helpfulness alone, as the paper's code read it, is not the reward", "leave --head out")
    if LAYOUTS[head_name].is_linear and config.num_labels != 1 and label is None:
        return note(f"{found}; config.json says {config.num_labels} labels, the head has one",
                    "elsewhere load with num_labels=1, or the head is drawn at random")  # fmt: skip
    return ok(found)


def _sound(head: Head) -> str:
    """Describe the head. InputError if it holds numbers that are not finite, or weights that are all zero."""
    held = {key: tensor for key, tensor in head.state_dict().items() if tensor.is_floating_point()}
    for key, tensor in held.items():
        if not torch.isfinite(tensor).all():
            raise InputError(f"{key} holds numbers that are not finite; download the checkpoint again")
        if key.endswith(".weight") and not tensor.any():
            raise InputError(f"{key} is zero throughout, so it was never trained; download the checkpoint again")
    reads = next(key for key in held if key.endswith(".weight"))
    others = f" and {len(held) - 1} other tensors" if len(held) > 1 else ""
    return f"{reads} of {' x '.join(map(str, held[reads].shape))}{others}"


def attention(files: Files, wanted: str | None, about: Conversation) -> Row:
    """Check that Gemma-2's soft-capping is there and runs. wanted: see reward_models.Options."""
    config, length = files.config, len(about.prefix_ids)
    wanted = checkpoints.set_attention(checkpoints.config_of(files.folder), wanted)  # which writes into its config
    window = getattr(config, "sliding_window", None)
    if checkpoints.soft_caps(config):
        cap = config.attn_logit_softcapping
        if wanted == "uncapped":
            return note("without soft-capping, as asked for and as the paper's code ran it",
                        "leave --attention out to score it as it was trained")  # fmt: skip
        if cap is None:
            return wrong("config.json says attn_logit_softcapping null, so nothing is capped",
                         f"Gemma-2 was trained with {CAP:g}: write that there")  # fmt: skip
        return ok(f"{wanted}, soft-capped at {cap:g}; sdpa would drop the cap, and is refused")
    if window and getattr(config, "use_sliding_window", True) and length > window:
        return note(f"{wanted}; the prompt's {length} ids do not fit its window of {window}")
    return ok(f"{wanted}; the architecture has no soft-capping")


def precision(files: Files, dtype: str) -> Row:
    """Describe the precision of the weights in the files and in the computation."""
    config, tensors = files.config, files.tensors
    of_head = set() if files.head_name == "classifier" else set(tensors_of_head(config, tensors.file_of))
    stored, stored_head = tensors.dtypes_of(set(tensors.shapes) - of_head), tensors.dtypes_of(of_head)
    found = f"kept in {' and '.join(stored)}, computed in {dtype}" + ("; the head in float32" if of_head else "")
    declared = str(config.dtype or "").removeprefix("torch.")
    if dtype == "float16" and stored[0] in ("bfloat16", "float32"):
        return note(f"{found}: numbers beyond 65,504 become infinite", f"say --dtype {stored[0]}")
    if size_of(dtype) < size_of(stored[0]):
        return note(f"{found}: rounded", f"say --dtype {stored[0]} for rewards with fewer ties")
    if stored_head and stored_head[0] != stored[0]:
        found += f" (kept in {stored_head[0]})"
    if declared and declared != stored[0]:
        return note(f"{found}; config.json says {declared}", f"elsewhere dtype='auto' takes {declared}: name the dtype")
    return ok(found)


def memory(files: Files, device: str, dtype: str) -> Row:
    """Compare the memory that weights and scoring need with what is free on the device."""
    needed, free = files.tensors.parameters * size_of(dtype) * BESIDE, hardware.free(device)
    found = f"about {size(needed)} of {device} memory, {size(free)} are free"
    numbers = {"bytes needed": int(needed), "bytes free": free}
    if needed <= free:
        return ok(found, "", numbers)
    if layers.can_be_read_singly(files.config, files.head_name):
        return note(f"{found}: it is scored layer by layer, which needs room for two layers at a time",
                    "nothing to do: make score chooses that by itself, and STREAM=1 asks for it", numbers)  # fmt: skip
    return note(f"{found}; layers of such a model are not read one by one here",
                "use another device, or a machine with more", numbers)  # fmt: skip


def size(number: float) -> str:
    """Return a number of bytes in megabytes or gigabytes, with two digits or more."""
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.2g} MB"
