"""Layers read one by one: the weights of a decoder stay in their files, and one layer at a time is
in memory.

Each runs in a model of transformers with this layer only, on the states that the layer before it
returned.
"""

import copy
import math
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor
from tqdm import tqdm
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel, initialization

from ..paper import InputError, checkpoints, hardware
from ..paper import files as models_files

# Model types whose layers all do the same on the states of the one before, so that they can be run
# one by one.
ARCHITECTURES = ("gemma2", "llama", "mistral", "qwen2", "qwen3")
# bytes that reading replies takes beside weights and hidden states
WORKING_MEMORY = 1_000_000_000
# part of the backbone -> number of the card that holds it
Layout = dict[str, int | str]


# --- layers ---------------------------------------------------------------------------------------


@dataclass
class Layers:
    """The layers of a backbone in their files, and how they are run.

    - files: the files of the checkpoint, which must not change during the run
    - places: the file and the key of each tensor, by its name in the backbone
    - sizes: the bytes of each tensor in `dtype`, by the same name
    - read_bytes: the number of bytes that were read so far
    - waited: the seconds that the computation waited for layers
    """

    files: models_files.Files
    config: PreTrainedConfig
    places: dict[str, tuple[Path, str]]
    sizes: dict[str, int]
    dtype: torch.dtype
    attention: str
    device: str
    read_bytes: int = field(default=0, init=False)
    waited: float = field(default=0.0, init=False)

    @property
    def count(self) -> int:
        return self.config.num_hidden_layers

    @property
    def bytes(self) -> int:
        """Return the bytes of all layers, without the embedding table."""
        return sum(self.bytes_of(number) for number in range(self.count))

    @property
    def largest(self) -> int:
        return max(self.bytes_of(number) for number in range(self.count))

    def bytes_of(self, number: int) -> int:
        """Return the bytes of one layer; the final norm goes with the last one."""
        return sum(self.sizes[name] for name in self._names(number))

    def embed(self, ids: Tensor) -> Tensor:
        """Return the input of the first layer for ids of any shape, (...) -> (..., d), on the
        device.

        Only the rows of the embedding table that occur are read.
        """
        rows, places = ids.unique(return_inverse=True)
        embedding = self._one_layer(0).get_input_embeddings()
        table = self._read("embed_tokens.weight", rows)
        embedding.weight = torch.nn.Parameter(table, requires_grad=False)
        return embedding.to(self.device)(places.to(self.device))

    def each(self) -> Iterator[tuple[int, PreTrainedModel]]:
        """Yield each layer: its number, and a backbone of this layer alone, in eval mode on the
        device.

        The last one ends with the final norm. While the caller computes with one, the next is read.
        """
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(self._tensors, 0)
            for number in range(self.count):
                started = time.monotonic()
                tensors = coming.result()
                self.waited += time.monotonic() - started
                if number + 1 < self.count:
                    coming = reader.submit(self._tensors, number + 1)
                yield number, self._with(number, tensors)
                del tensors

    def final_norm(self) -> torch.nn.Module:
        """Return the norm that comes after the last layer, on the device."""
        norm = self._one_layer(self.count - 1).norm
        norm.load_state_dict({"weight": self._read("norm.weight")}, assign=True)
        return norm.to(self.device).requires_grad_(False)

    # --- one layer ---

    def _names(self, number: int) -> list[str]:
        of_norm = (
            [name for name in self.sizes if name.startswith("norm.")]
            if number == self.count - 1
            else []
        )
        return [
            name for name in self.sizes if name.startswith(f"layers.{number}.")
        ] + of_norm

    def _tensors(self, number: int) -> dict[str, Tensor]:
        names = self._names(number)
        return {name: self._read(name).to(self.device) for name in names}

    def _with(self, number: int, tensors: dict[str, Tensor]) -> PreTrainedModel:
        model = self._one_layer(number)
        start = f"layers.{number}."
        of_layer = {
            name.removeprefix(start): tensor
            for name, tensor in tensors.items()
            if name.startswith(start)
        }
        model.layers[0].load_state_dict(of_layer, assign=True)
        model.embed_tokens = torch.nn.Identity()
        if number == self.count - 1:
            model.norm.load_state_dict({"weight": tensors["norm.weight"]}, assign=True)
        else:
            model.norm = torch.nn.Identity()
        model = model.to(self.device).eval().requires_grad_(False)
        return checkpoints.read_each_length_anew(model)

    def _one_layer(self, number: int) -> PreTrainedModel:
        """Return a backbone of one layer without weights."""
        config = copy.deepcopy(self.config)
        config.num_hidden_layers = config.vocab_size = 1
        config.pad_token_id = config.bos_token_id = config.eos_token_id = None
        if getattr(config, "layer_types", None):  # with or without a sliding window
            config.layer_types = [config.layer_types[number]]
        with checkpoints.quiet_transformers(), initialization.no_init_weights():
            return AutoModel.from_config(
                config, dtype=self.dtype, attn_implementation=self.attention
            )

    def _read(self, name: str, rows: Tensor | None = None) -> Tensor:
        """Return a tensor, or these rows of it, in the dtype of the computation."""
        path, key = self.places[name]
        remedy = (
            "see that it is there and whole, and run the same command again: it goes on "
            "from there"
        )
        gone = models_files.refusing(
            f"{path} cannot be read any more", remedy, (OSError, SafetensorError)
        )
        with gone, models_files.open_tensors(path) as file:
            table = file.get_slice(key)
            held = (
                table[:]
                if rows is None
                else torch.cat([table[row : row + 1] for row in rows.tolist()])
            )
        self.files.refuse_changed(path)
        self.read_bytes += held.nbytes
        return held.to(self.dtype)


# --- which way ------------------------------------------------------------------------------------


def skeleton_of(source: checkpoints.Source) -> PreTrainedModel:
    """Return the backbone without weights: its configuration, and its tensors' names and shapes."""
    # A copy, because what it computes in is written into it
    config = copy.deepcopy(source.config)
    how = {
        "dtype": getattr(torch, source.dtype),
        "attn_implementation": checkpoints.without_cap(source.attention),
    }
    with (
        checkpoints.quiet_transformers(),
        checkpoints.built_from(source.folder),
        torch.device("meta"),
    ):
        return AutoModel.from_config(config, **how).eval()


def bytes_needed(skeleton: PreTrainedModel) -> int:
    """Return the bytes of a backbone's weights in its dtype."""
    return skeleton.num_parameters() * skeleton.dtype.itemsize


def are_wanted(stream: bool | None, source: checkpoints.Source) -> bool:
    """Return whether to read layers one by one; for `stream` None, whether the weights do not fit
    into memory.

    InputError if `stream` is True for a model whose layers cannot be read so.
    """
    folder = source.folder
    kind = source.config.model_type
    can = kind in ARCHITECTURES
    if stream and not can:
        raise InputError(
            f"{folder}: the layers of {kind} models are not read one by one here "
            f"(those of {', '.join(ARCHITECTURES)} are); leave stream out"
        )
    if stream is not None or not can:
        return bool(stream)
    needed = bytes_needed(skeleton_of(source))
    # weights come to a device by way of the host
    for place in dict.fromkeys((source.device, "cpu")):
        left = hardware.free(place) - WORKING_MEMORY
        if needed > max(left, WORKING_MEMORY):  # below that, little is saved
            tqdm.write(
                f"{folder}: the weights take {needed / 1e9:.1f} GB, and {max(0, left) / 1e9:.1f} "
                f"GB are free for them on {place}; so they are read layer by layer, once for all "
                "replies"
            )
            return True
    return False


def open_layers(source: checkpoints.Source) -> tuple[PreTrainedModel, Layers]:
    """Return the backbone without weights, and its layers in their files. InputError if a tensor
    is missing, misshapen or left over.
    """
    skeleton = skeleton_of(source)
    prefix = f"{skeleton.base_model_prefix}."
    expected = {
        name: tuple(tensor.shape) for name, tensor in skeleton.state_dict().items()
    }
    stored = {
        key.removeprefix(prefix): (key, tensor)
        for key, tensor in source.tensors.items()
        if key.startswith(prefix)
    }
    both = expected.keys() & stored.keys()
    shapes = {name: tuple(stored[name][1].shape) for name in both}
    mismatched = [name for name in both if shapes[name] != expected[name]]
    report = {
        "missing_keys": expected.keys() - stored.keys(),
        "mismatched_keys": mismatched,
        "unexpected_keys": stored.keys() - expected.keys(),
    }
    checkpoints.refuse_unloaded(source.folder, report)
    kind = skeleton.dtype
    places = {name: (tensor.path, key) for name, (key, tensor) in stored.items()}
    layers = Layers(
        files=source.files,
        config=source.config,
        places=places,
        sizes={
            name: math.prod(shape) * kind.itemsize for name, shape in expected.items()
        },
        dtype=kind,
        attention=checkpoints.without_cap(source.attention),
        device=source.device,
    )
    return skeleton, layers


# --- several cards --------------------------------------------------------------------------------


def layout(source: checkpoints.Source, free: Mapping[int, int]) -> Layout | None:
    """Return which card holds which part if the first card is too small and all cards together
    suffice; else None.

    `free` holds the bytes that each card has for weights. accelerate assigns the parts, if it is
    installed.
    """
    if len(free) < 2 or source.config.model_type not in ARCHITECTURES:
        return None
    skeleton = skeleton_of(source)
    needed = bytes_needed(skeleton)
    if needed <= free[0] or needed > sum(free.values()):
        return None
    try:
        from accelerate import infer_auto_device_map
    except ImportError:
        tqdm.write(
            f"{source.folder}: the weights take {needed / 1e9:.1f} GB, which {len(free)} cards "
            "hold together; to use them all install accelerate (.venv/bin/python -m pip install "
            "-c requirements.lock -e '.[cards]')"
        )
        return None
    placed = infer_auto_device_map(
        skeleton,
        dict(free),
        no_split_module_classes=skeleton._no_split_modules,
        dtype=skeleton.dtype,
    )
    # A part that found no room is left to the host or the disk, from where it would be copied for
    # every batch.
    if set(placed.values()) <= set(free):
        return dict(placed)
    return None


def free_on_cards(device: str) -> dict[int, int]:
    """Return the bytes that each card has for weights; empty unless the device is `cuda`,
    without a number.
    """
    cards = (
        torch.cuda.device_count() if torch.device(device) == torch.device("cuda") else 0
    )
    return {
        card: hardware.free(f"cuda:{card}") - WORKING_MEMORY for card in range(cards)
    }
