"""Streaming: rewards of many replies while the weights pass through once, layer by layer, all replies through each.

A layer is read from its file, reads every prompt's prefix and every reply, and is dropped; in between, the hidden
states of all replies wait. They wait in memory: replies that do not fit there together take turns, a pass over the
weights each. Or in files, from which a few at a time are read and to which they are written, where that moves fewer
bytes, which is where memory has room for less than half a layer. Files, not a mapped one: a full disk is then an error
and not a fault of the bus, and what a kill leaves is whole.
"""

import hashlib
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel

from lib import InputError, memory
from lib.cores import one_thread
from lib.files import replacing
from lib.models import shared_prefix
from lib.models.conversations import Inputs
from lib.models.layers import WORKING_MEMORY, Layers
from lib.models.reward_models import RewardModel
from lib.shards import DIGEST_BYTES

SAVE_EVERY = 300  # seconds, after which states that wait in memory are also written to files, at a layer's end
SPARE = 100_000_000  # bytes of a disk that hidden states leave free


@dataclass
class Block:
    """Replies of one length to one prompt. ids: what follows the prefix, (replies, length).

    file: where their rewards will be kept; hidden states wait beside it. None: nothing is kept.
    passed: through how many layers `hidden` has gone, (replies, length, d); None while it waits in a file.
    """

    inputs: Inputs
    ids: Tensor
    file: Path | None = None
    passed: int = 0
    hidden: Tensor | None = field(default=None, repr=False)

    @property
    def prompt(self) -> str:
        """The prompt that these are replies to."""
        return self.inputs.conversation.prompt


def rewards(
    model: RewardModel, blocks: list[Block], *, tokens_per_batch: int | None = None, progress: bool = True
) -> Iterator[tuple[int, np.ndarray]]:
    """The rewards of each block, (replies,) float32, with its place in the list; a block's files go once it is taken.

    In as few passes over the weights as memory and disk allow. InputError where a reply is longer than a sliding
    window, or hidden states fit nowhere.
    """
    layers = _layers_of(model, blocks)
    place_of = {id(block): place for place, block in enumerate(blocks)}
    groups, in_memory = plan(model, blocks)
    with tqdm(total=len(groups) * layers.bytes, unit="B", unit_scale=True, desc=model.nickname,
              disable=not progress) as bar:  # fmt: skip
        for group in groups:
            run = _Pass(model, group, in_memory, tokens_per_batch, bar)
            run.through_all_layers()
            for block in group:
                yield place_of[id(block)], run.rewards_of(block)
                run.forget(block)
            run.forget_prefixes()


def _layers_of(model: RewardModel, blocks: list[Block]) -> Layers:
    assert model.layers is not None
    for block in blocks:
        if not shared_prefix.fits_window(model, len(block.inputs.prefix_ids) + block.ids.shape[1]):
            raise InputError(
                f"{model.nickname} looks back over fewer tokens than a conversation about {block.prompt[:50]!r} has, "
                "which is not read layer by layer here; shorten the prompt, or say STREAM=0"
            )
    return model.layers


# --- what waits where ---------------------------------------------------------------------------------------------


def plan(model: RewardModel, blocks: list[Block]) -> tuple[list[list[Block]], bool]:
    """The blocks of each pass over the weights, and whether their states wait in memory; told, and what it takes."""
    layers, sizes = model.layers, [_bytes_of(model, block) for block in blocks]
    assert layers is not None
    room = memory.free() - 2 * layers.largest - WORKING_MEMORY
    by_memory = _grouped(blocks, sizes, room)
    moved_by_files = layers.bytes + 2 * layers.count * sum(sizes)
    folder = blocks[0].file.parent if blocks and blocks[0].file else None
    in_memory = folder is None or len(by_memory) * layers.bytes <= moved_by_files
    left = _free_disk(folder) - SPARE if folder else 0
    groups = by_memory if in_memory else _grouped(blocks, sizes, left)
    if not in_memory and max(sizes) > left:
        raise InputError(
            f"hidden states take {max(sizes) / 1e9:.1f} GB at a time, and {max(0, left) / 1e9:.1f} GB are free in "
            f"{folder}; free some, or memory"
        )
    return groups, in_memory


def _grouped(blocks: list[Block], sizes: list[int], room: int) -> list[list[Block]]:
    """The blocks in order, as many together as there is room for, but at least one."""
    groups: list[list[Block]] = []
    left = 0
    for block, size in zip(blocks, sizes, strict=True):
        if not groups or size > left:
            groups.append([])
            left = room
        groups[-1].append(block)
        left -= size
    return groups


def _bytes_of(model: RewardModel, block: Block) -> int:
    return block.ids.numel() * model.backbone.config.hidden_size * model.backbone.dtype.itemsize


def _free_disk(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


# --- one pass over the weights ------------------------------------------------------------------------------------


class _Pass:
    """All layers in turn, these blocks and their prompts' prefixes through each."""

    def __init__(
        self, model: RewardModel, blocks: list[Block], in_memory: bool, tokens_per_batch: int | None, bar: tqdm
    ):
        assert model.layers is not None
        self.model, self.layers, self.blocks, self.in_memory, self.bar = model, model.layers, blocks, in_memory, bar
        self.inputs = {block.prompt: block.inputs for block in blocks}
        device = torch.device(model.device).type
        self.small = device == "cpu" and model.backbone.num_parameters() < shared_prefix.SMALL
        self.tokens_per_batch = tokens_per_batch or shared_prefix.TOKENS_PER_BATCH.get(device, 4096)
        self.prefixes: dict[str, Tensor] = {}  # prompt -> hidden states, (prefix, d)

    @torch.no_grad()
    def through_all_layers(self) -> None:
        for prompt, inputs in self.inputs.items():
            self.prefixes[prompt] = self.layers.embed(torch.tensor([inputs.conversation.prefix_ids]))[0]
        for number, layer in self.layers.each():
            self.bar.set_postfix_str(f"layer {number + 1} of {self.layers.count}")
            with one_thread(self.small):
                self._through(number, layer)

    def _through(self, number: int, layer: PreTrainedModel) -> None:
        keys = {}
        for prompt, hidden in self.prefixes.items():
            length = len(self.inputs[prompt].prefix_ids)
            self.prefixes[prompt], keys[prompt] = shared_prefix.states_and_keys(layer, hidden[None], length)
        replies = sum(len(block.ids) for block in self.blocks)
        for block in self.blocks:
            if block.passed == number:
                self._advance(block, layer, keys[block.prompt])
            self.bar.update(self.layers.bytes_of(number) * len(block.ids) / replies)

    def _advance(self, block: Block, layer: PreTrainedModel, keys: list[tuple[Tensor, Tensor]]) -> None:
        """Put the block's hidden states through one more layer."""
        hidden = self.layers.embed(block.ids).cpu() if block.hidden is None else block.hidden
        length, done = len(block.inputs.prefix_ids), 0
        while done < len(hidden):
            batch = hidden[done : done + max(1, self.tokens_per_batch // hidden.shape[1])]
            try:
                out = shared_prefix.states_after(layer, length, keys, batch.to(self.model.device))
            except (RuntimeError, MemoryError) as error:
                self.tokens_per_batch = shared_prefix.smaller(self.tokens_per_batch, len(batch), error)
                continue
            batch.copy_(out)
            done += len(batch)
        block.hidden, block.passed = hidden, block.passed + 1

    @torch.no_grad()
    def rewards_of(self, block: Block) -> np.ndarray:
        """(replies,) float32, once the block has gone through all layers."""
        model, hidden = self.model, block.hidden
        assert model.head is not None and hidden is not None
        prefix = shared_prefix.prefix_of(model, block.inputs, self.prefixes[block.prompt])
        where = shared_prefix.read_at(block.ids, block.inputs.prefix_ids, model)
        with one_thread(self.small):
            read = shared_prefix.at(where, hidden, prefix)
            return model.head(read.to(model.device).float(), prefix.gate).float().cpu().numpy()

    def forget(self, block):
        block.hidden = None

    def forget_prefixes(self):
        pass
