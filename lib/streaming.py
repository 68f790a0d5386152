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
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel

from lib import InputError, memory
from lib.cores import one_thread
from lib.files import replacing
from lib.models import checkpoints, shared_prefix
from lib.models.conversations import Inputs
from lib.models.layers import WORKING_MEMORY, Layers
from lib.models.reward_models import RewardModel
from lib.shards import DIGEST_BYTES

SAVE_EVERY = 300  # seconds, after which states that wait in memory are also written to files, at a layer's end
SPARE = 100_000_000  # bytes of a disk that hidden states leave free
LITTLE = 100_000_000  # bytes of hidden states for which there is always room in the working memory


@dataclass
class Block:
    """Some of the replies to one prompt, which go through the layers together.

    inputs: the prompt's, without the replies. shard: which of them these are. pieces: what follows the prefix, replies
    of one length each, (replies, length). file: where their rewards will be kept, and beside it hidden states; None:
    nothing is kept. passed: through how many layers `hidden` has gone, (tokens, d), piece after piece; None while it
    waits in a file.
    """

    inputs: Inputs
    shard: np.ndarray
    pieces: list[Tensor]
    file: Path | None = None
    passed: int = 0
    hidden: Tensor | None = field(default=None, repr=False)

    @property
    def prompt(self) -> str:
        """The prompt that these are replies to."""
        return self.inputs.conversation.prompt

    @property
    def tokens(self) -> int:
        """How many tokens follow the prefix, in all replies together."""
        return sum(piece.numel() for piece in self.pieces)

    def states(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Each piece and its part of `hidden`, (replies, length, d)."""
        assert self.hidden is not None
        parts = self.hidden.split([piece.numel() for piece in self.pieces])
        for piece, part in zip(self.pieces, parts, strict=True):
            yield piece, part.view(*piece.shape, -1)


def block_of(inputs: Inputs, pieces: list[np.ndarray], file: Path | None = None) -> Block:
    """The replies of a shard as a block. pieces: indices of the inputs of one length, as of shards.split."""
    ids = [torch.tensor([inputs.suffixes[i] for i in piece]) for piece in pieces]
    # Without the lists of all replies, of which many prompts would fill the memory
    return Block(replace(inputs, suffixes=[], reply_ids=[]), np.concatenate(pieces), ids, file)


def rewards(
    model: RewardModel, blocks: list[Block], *, tokens_per_batch: int | None = None, progress: bool = True
) -> Iterator[tuple[Block, np.ndarray]]:
    """Each block and its rewards, (replies,) float32; what was kept of its states goes once the next is asked for.

    In as few passes over the weights as memory and disk allow; a run that was killed goes on at the layer whose states
    it kept. InputError where a conversation is longer than a sliding window, or hidden states fit nowhere.
    """
    if not blocks:
        return
    layers, plan = _layers_of(model, blocks), plan_for(model, blocks)
    if progress:
        plan.tell(model)
    started, waited = time.monotonic(), layers.waited
    total = len(plan.passes) * layers.bytes
    with tqdm(total=total, unit="B", unit_scale=True, desc=model.nickname, disable=not progress) as bar:
        for together in plan.passes:
            run = _Pass(model, together, plan, tokens_per_batch, bar)
            run.through_all_layers()
            for block in together:
                yield block, run.rewards_of(block)
                _forget(block)
    if progress:
        _tell_waiting(layers.waited - waited, time.monotonic() - started)


def _layers_of(model: RewardModel, blocks: list[Block]) -> Layers:
    assert model.layers is not None
    for block in blocks:
        longest = max(piece.shape[1] for piece in block.pieces)
        if not shared_prefix.fits_window(model, len(block.inputs.prefix_ids) + longest):
            raise InputError(
                f"{model.nickname} looks back over fewer tokens than a conversation about {block.prompt[:50]!r} has, "
                "which is not read layer by layer here; shorten the prompt, or load the model with stream=False"
            )
    return model.layers


def _tell_waiting(waited: float, seconds: float) -> None:
    if waited > seconds / 2:
        tqdm.write(
            f"{waited:.0f} of {seconds:.0f} s went into waiting for weights: more replies, or more prompts, in one run "
            "would have cost little more"
        )


# --- what waits where ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """The blocks of each pass over the weights, and where their states wait: "memory" or "files".

    most: bytes of the states of one pass. folder: where they are kept, None where there is none or too little room.
    """

    passes: list[list[Block]]
    where: str
    most: int
    folder: Path | None

    def tell(self, model: RewardModel) -> None:
        """Print what will be read how often, and what memory and disk it takes."""
        assert model.layers is not None
        replies = sum(len(block.shard) for together in self.passes for block in together)
        prompts = len({block.prompt for together in self.passes for block in together})
        kept = f"; every {SAVE_EVERY // 60} minutes also in {self.folder}" if self.folder else ", and nowhere else"
        waiting = f"{size(self.most)} " + (f"of it{kept}" if self.where == "memory" else f"in {self.folder}")
        tqdm.write(
            f"{model.nickname}: {size(model.layers.bytes)} of weights are read {len(self.passes)} x, {replies:,} "
            f"inputs of {prompts} prompt{'s' * (prompts > 1)}; two layers take {size(2 * model.layers.largest)} of "
            f"memory, hidden states {waiting}"
        )


def size(count: int) -> str:
    """So many bytes, in MB or GB."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def plan_for(model: RewardModel, blocks: list[Block]) -> Plan:
    """Which blocks go through the layers together, and where they wait: as moves the fewest bytes.

    InputError where states are to wait in files, and the disk is too small for those of one block.
    """
    layers, sizes = model.layers, {id(block): _bytes_of(model, block) for block in blocks}
    assert layers is not None
    blocks = sorted(blocks, key=lambda block: not _kept(block))  # what an earlier run began comes first
    folder = next((block.file.parent for block in blocks if block.file), None)
    room = max(LITTLE, memory.free() - 2 * layers.largest - WORKING_MEMORY)
    by_memory = _grouped(blocks, sizes, room)
    by_files = layers.bytes + 2 * layers.count * sum(sizes.values())  # bytes moved, written and read again
    left = _free_disk(folder) - SPARE if folder else 0
    if folder is None or len(by_memory) * layers.bytes <= by_files:
        most = _most(by_memory, sizes)
        return Plan(by_memory, "memory", most, folder if most <= left else None)
    if max(sizes.values()) > left:
        raise InputError(
            f"hidden states take {size(max(sizes.values()))} at a time, but {size(max(0, left))} are free in {folder}, "
            "and less in memory; make room"
        )
    passes = _grouped(blocks, sizes, left)
    return Plan(passes, "files", _most(passes, sizes), folder)


def _grouped(blocks: list[Block], sizes: dict[int, int], room: int) -> list[list[Block]]:
    """The blocks in order, as many together as there is room for, but at least one."""
    groups: list[list[Block]] = []
    left = 0
    for block in blocks:
        if not groups or sizes[id(block)] > left:
            groups.append([])
            left = room
        groups[-1].append(block)
        left -= sizes[id(block)]
    return groups


def _most(groups: list[list[Block]], sizes: dict[int, int]) -> int:
    return max((sum(sizes[id(block)] for block in group) for group in groups), default=0)


def _bytes_of(model: RewardModel, block: Block) -> int:
    return block.tokens * model.backbone.config.hidden_size * model.backbone.dtype.itemsize


def _free_disk(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


# --- states in files ----------------------------------------------------------------------------------------------


def _keep(block: Block) -> None:
    """Write the block's states to a file, with a digest; what was kept of fewer layers goes. InputError: full disk."""
    assert block.hidden is not None
    before, file = _kept(block), _file_of(block, block.passed)
    content = _bytes(block.hidden)
    with replacing(file, size=block.hidden.nbytes) as part, part.open("wb") as out:
        out.write(content)
        out.write(hashlib.sha256(content).digest())
    for old in before.values():
        if old != file:
            old.unlink(missing_ok=True)


def _take_up(block: Block, width: int, dtype: torch.dtype) -> None:
    """Make the block's states those that were kept of the most layers and are whole, if there are any."""
    for passed, file in sorted(_kept(block).items(), reverse=True):
        hidden = torch.empty(block.tokens, width, dtype=dtype)
        with file.open("rb") as content:
            whole = content.readinto(_bytes(hidden)) == hidden.nbytes
            digest = content.read(DIGEST_BYTES + 1)
        if whole and hashlib.sha256(_bytes(hidden)).digest() == digest:
            block.hidden, block.passed = hidden, passed
            return
        tqdm.write(f"{file} is damaged, or of another size; its {len(block.shard)} replies begin again")
    block.hidden, block.passed = None, 0


def _bytes(hidden: Tensor) -> memoryview:
    """The tensor's own memory."""
    return hidden.view(torch.uint8).numpy().data.cast("B")


def _file_of(block: Block, passed: int) -> Path:
    assert block.file is not None
    return block.file.with_suffix(f".{passed:04d}.states")


def _kept(block: Block) -> dict[int, Path]:
    """Layers passed -> the file of states that was kept then."""
    if block.file is None:
        return {}
    files = block.file.parent.glob(f"{block.file.stem}.*.states")
    return {int(file.suffixes[-2][1:]): file for file in files if file.suffixes[-2][1:].isdecimal()}


def _forget(block: Block) -> None:
    block.hidden = None
    for file in _kept(block).values():
        file.unlink(missing_ok=True)


# --- one pass over the weights ------------------------------------------------------------------------------------


class _Pass:
    """All layers in turn, these blocks and their prompts' prefixes through each.

    Blocks of which an earlier run kept states wait until their layer's turn; prefixes begin anew, which costs little.
    """

    def __init__(self, model: RewardModel, blocks: list[Block], plan: Plan, tokens_per_batch: int | None, bar: tqdm):
        assert model.layers is not None
        self.model, self.layers, self.blocks, self.plan, self.bar = model, model.layers, blocks, plan, bar
        self.inputs = {block.prompt: block.inputs for block in blocks}
        device = torch.device(model.device).type
        self.small = device == "cpu" and model.backbone.num_parameters() < shared_prefix.SMALL
        self.tokens_per_batch = tokens_per_batch or shared_prefix.TOKENS_PER_BATCH.get(device, 4096)
        self.prefixes: dict[str, Tensor] = {}  # prompt -> hidden states, (prefix, d)
        self.kept_at = time.monotonic()

    @torch.no_grad()
    def through_all_layers(self) -> None:
        """Put prefixes and blocks through every layer. InputError where there is too little memory or disk."""
        with checkpoints.enough_memory("hold two layers and the hidden states"), one_thread(self.small):
            for block in self.blocks:
                self._take_up(block)
                if self.plan.where == "files":
                    block.hidden = None
            for prompt, inputs in self.inputs.items():
                self.prefixes[prompt] = self.layers.embed(torch.tensor([inputs.conversation.prefix_ids]))[0]
            for number, layer in self.layers.each():
                self.bar.set_postfix_str(f"layer {number + 1} of {self.layers.count}")
                self._through(number, layer)
                del layer  # before the one after the next is read

    def _through(self, number: int, layer: PreTrainedModel) -> None:
        """Put everything that has passed so many layers through this one."""
        keys = {}
        for prompt, hidden in self.prefixes.items():
            length = len(self.inputs[prompt].prefix_ids)
            self.prefixes[prompt], keys[prompt] = shared_prefix.states_and_keys(layer, hidden[None], length)
        tokens = sum(block.tokens for block in self.blocks)
        for block in self.blocks:
            if block.passed == number:
                self._advance(block, layer, keys[block.prompt])
            self.bar.update(self.layers.bytes_of(number) * block.tokens / tokens)
        if self.plan.where == "memory" and self.plan.folder and time.monotonic() - self.kept_at > SAVE_EVERY:
            for block in self.blocks:
                if block.passed not in _kept(block):
                    _keep(block)
            self.kept_at = time.monotonic()

    def _advance(self, block: Block, layer: PreTrainedModel, keys: list[tuple[Tensor, Tensor]]) -> None:
        """Put the block's hidden states through one more layer."""
        if block.passed == 0:
            block.hidden = self.layers.embed(torch.cat([piece.flatten() for piece in block.pieces])).cpu()
        self._fetch(block)
        for _, hidden in block.states():
            self._advance_piece(hidden, layer, len(block.inputs.prefix_ids), keys)
        block.passed += 1
        if self.plan.where == "files":
            _keep(block)
            block.hidden = None

    def _advance_piece(
        self, hidden: Tensor, layer: PreTrainedModel, length: int, keys: list[tuple[Tensor, Tensor]]
    ) -> None:
        """Overwrite states, (replies, length, d), by what the layer makes of them, in batches that fit into memory."""
        done = 0
        while done < len(hidden):
            batch = hidden[done : done + max(1, self.tokens_per_batch // hidden.shape[1])]
            try:
                out = shared_prefix.states_after(layer, length, keys, batch.to(self.model.device))
            except (RuntimeError, MemoryError) as error:
                self.tokens_per_batch = shared_prefix.smaller(self.tokens_per_batch, len(batch), error)
                continue
            batch.copy_(out)
            done += len(batch)

    def _take_up(self, block: Block) -> None:
        _take_up(block, self.model.backbone.config.hidden_size, self.model.backbone.dtype)

    def _fetch(self, block: Block) -> None:
        """See that the block's hidden states are in memory. InputError if their file is there no more."""
        if block.hidden is None:
            passed = block.passed
            self._take_up(block)
            if block.passed != passed or block.hidden is None:
                raise InputError(f"{_file_of(block, passed)} was damaged or removed; run the same command again")

    @torch.no_grad()
    def rewards_of(self, block: Block) -> np.ndarray:
        """(replies,) float32, once the block has gone through all layers."""
        self._fetch(block)
        model, found = self.model, []
        assert model.head is not None
        prefix = shared_prefix.prefix_of(model, block.inputs, self.prefixes[block.prompt])
        for ids, hidden in block.states():
            where = shared_prefix.read_at(ids.to(model.device), block.inputs.prefix_ids, model)
            read = shared_prefix.at(where, hidden.to(model.device), prefix)  # (replies, d)
            with one_thread(self.small):
                found.append(model.head(read.float(), prefix.gate).float().cpu().numpy())
        return np.concatenate(found)
