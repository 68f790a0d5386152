"""Layers read one by one: the weights of a decoder stay in their files, and one layer at a time is
in memory.

Each runs in a model of transformers with this layer only, on the states that the layer before it
returned.
"""

import contextlib
import copy
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch
from safetensors import safe_open
from torch import Tensor
from tqdm import tqdm
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel, initialization

from ..paper import InputError, loading

# Model types whose layers all do the same on the states of the one before, so that they can be run
# one by one.
ARCHITECTURES = ("gemma2", "llama", "mistral", "qwen2", "qwen3")
# bytes that reading replies takes beside weights and hidden states
WORKING_MEMORY = 1_000_000_000


@dataclass
class Layers:
    """The layers of a backbone in their files, and how they are run.

    - places: the file and the key of each tensor, by its name in the backbone
    """

    config: PreTrainedConfig
    places: dict[str, tuple[Path, str]]
    dtype: torch.dtype
    attention: str
    device: str

    @property
    def count(self) -> int:
        return self.config.num_hidden_layers

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
                tensors = coming.result()
                if number + 1 < self.count:
                    coming = reader.submit(self._tensors, number + 1)
                yield number, self._with(number, tensors)
                del tensors

    def final_norm(self) -> torch.nn.Module:
        """Return the norm that comes after the last layer, on the device."""
        norm = self._one_layer(self.count - 1).norm
        norm.load_state_dict({"weight": self._read("norm.weight")}, assign=True)
        return norm.to(self.device).requires_grad_(False)

    def _tensors(self, number: int) -> dict[str, Tensor]:
        """Return the tensors of a layer by their names in a backbone of one; the final norm goes
        with the last one.
        """
        own = f"layers.{number}."
        starts = (own, "norm.") if number == self.count - 1 else (own,)
        return {
            name.replace(own, "layers.0."): self._read(name).to(self.device)
            for name in self.places
            if name.startswith(starts)
        }

    def _with(self, number: int, tensors: dict[str, Tensor]) -> PreTrainedModel:
        model = self._one_layer(number)
        model.embed_tokens = torch.nn.Identity()
        if number < self.count - 1:
            model.norm = torch.nn.Identity()
        model.load_state_dict(tensors, assign=True)
        return model.to(self.device).eval().requires_grad_(False)

    def _one_layer(self, number: int) -> PreTrainedModel:
        """Return a backbone of one layer without weights."""
        config = copy.deepcopy(self.config)
        config.num_hidden_layers = config.vocab_size = 1
        config.pad_token_id = config.bos_token_id = config.eos_token_id = None
        if getattr(config, "layer_types", None):  # with or without a sliding window
            config.layer_types = [config.layer_types[number]]
        with loading.quiet_transformers(), initialization.no_init_weights():
            model = AutoModel.from_config(
                config, dtype=self.dtype, attn_implementation=self.attention
            )
        loading.forget_longest(model)
        return model

    def _read(self, name: str, rows: Tensor | None = None) -> Tensor:
        """Return a tensor, or these rows of it, in the dtype of the computation."""
        path, key = self.places[name]
        gone = loading.refusing(
            f"{path} cannot be read any more",
            "see that it is whole, and run the same command again: it goes on from there",
        )
        with gone, safe_open(path, "pt") as file:
            table = file.get_slice(key)
            if rows is None:
                held = table[:]
            else:
                held = torch.cat([table[row : row + 1] for row in rows.tolist()])
        return held.to(self.dtype)


def skeleton_of(source: loading.Source) -> PreTrainedModel:
    """Return the backbone without weights: its configuration, and its tensors' names and shapes."""
    # A copy, because what it computes in is written into it
    config = copy.deepcopy(source.config)
    how = {
        "dtype": getattr(torch, source.dtype),
        "attn_implementation": loading.without_cap(source.attention),
    }
    with (
        loading.quiet_transformers(),
        torch.device("meta"),
    ):
        return AutoModel.from_config(config, **how).eval()


def are_wanted(stream: bool | None, source: loading.Source) -> bool:
    """Return whether to read layers one by one; for `stream` None, whether the weights do not fit
    into memory.

    InputError if `stream` is True for a model whose layers cannot be read so.
    """
    kind = source.config.model_type
    can = kind in ARCHITECTURES
    if stream and not can:
        raise InputError(
            f"the layers of {kind} models are not read one by one here "
            f"(those of {', '.join(ARCHITECTURES)} are); leave stream out"
        )
    if stream is not None or not can:
        return bool(stream)
    skeleton = skeleton_of(source)
    needed = skeleton.num_parameters() * skeleton.dtype.itemsize
    # weights come to a device by way of the host
    left = min(map(free_memory, (source.device, "cpu"))) - WORKING_MEMORY
    if needed <= max(left, WORKING_MEMORY):  # below that, little is saved
        return False
    tqdm.write(
        f"{source.folder}: the weights take {needed / 1e9:.1f} GB, and {max(0, left) / 1e9:.1f} GB "
        "are free for them; so they are read layer by layer, once for all replies"
    )
    return True


def free_memory(device: str) -> int:
    """Return the bytes that are free on a device, and within the limit of a container."""
    if torch.device(device).type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    free = psutil.virtual_memory().available
    with contextlib.suppress(OSError, ValueError):  # no container, or "max"
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        free = min(free, limit - psutil.Process().memory_info().rss)
    return free


def open_layers(source: loading.Source) -> tuple[PreTrainedModel, Layers]:
    """Return the backbone without weights, and its layers in their files. InputError if a tensor
    is missing, misshapen or left over.
    """
    skeleton = skeleton_of(source)
    prefix = f"{skeleton.base_model_prefix}."
    expected = {name: [*held.shape] for name, held in skeleton.state_dict().items()}
    stored = {
        key.removeprefix(prefix): (key, tensor)
        for key, tensor in source.files.tensors.items()
        if key.startswith(prefix)
    }
    both = expected.keys() & stored.keys()
    report = {
        "missing_keys": expected.keys() - both,
        "mismatched_keys": [n for n in both if stored[n][1].shape != expected[n]],
        "unexpected_keys": stored.keys() - both,
    }
    loading.refuse_unloaded(source.folder, report)
    layers = Layers(
        config=source.config,
        places={name: (tensor.path, key) for name, (key, tensor) in stored.items()},
        dtype=skeleton.dtype,
        attention=loading.without_cap(source.attention),
        device=source.device,
    )
    return skeleton, layers
