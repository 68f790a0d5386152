"""Rewards of replies by one pass over the stages of a model: the whole backbone at once, or one layer after another.

All conversations about one prompt share their beginning, so a stage reads that prefix once; every reply then costs only
its own tokens and the closing ones. Replies of one length form a batch without padding. Each reply attends to itself
and to the keys and values of the prefix, which are never copied.

If the weights fit into memory, the backbone is the only stage. Otherwise, every layer is a stage. A layer is read from
its file, reads the prefixes of all prompts and all replies, and is dropped. The hidden states wait in memory. Replies
whose states do not fit there together take turns, and each turn reads the weights again.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel

from .. import InputError
from ..io import is_of_memory
from ..models import checkpoints, hardware, shared_prefix
from ..models.conversations import Inputs
from ..models.hardware import one_thread
from ..models.layers import WORKING_MEMORY, Layers
from ..models.reward_models import RewardModel
from ..models.shared_prefix import Prefix
from . import shards, trees

TOKENS_PER_BATCH = {"cpu": 2048, "mps": 8192, "cuda": 32768}  # tokens of replies that go through a stage together
SMALL = 10_000_000  # parameters; a model with fewer computes on one thread
COMPARED = 4  # replies of each length from which some are read in both ways, to see that both agree
AGREED: WeakKeyDictionary[PreTrainedModel, int] = WeakKeyDictionary()  # backbone -> longest input on which both agreed
SAVE_EVERY = 300  # seconds, after which waiting hidden states are also written to files, at the end of a layer
SPARE = 100_000_000  # bytes of a disk that hidden states leave free
LITTLE = 100_000_000  # bytes of hidden states for which there is always room in the working memory


def fits_window(model: RewardModel, length: int) -> bool:
    """Return whether inputs of this length fit into the sliding window, so that tokens attend to all earlier ones."""
    window = getattr(model.backbone.config, "sliding_window", None)
    return window is None or length < window


def can_share_prefix(model: RewardModel, length: int) -> bool:
    """Return whether the states at the beginning of an input of this length do not depend on its length."""
    limit = checkpoints.length_limit(model.backbone.config)
    return fits_window(model, length) and (limit is None or length <= limit)


# --- replies to one prompt ----------------------------------------------------------------------------------------


class Reading:
    """A prompt as one stage has read it, and its replies, in batches: half as large after running out of memory."""

    shares_prefix = True  # the prompt is read once for all replies

    def __init__(self, model: RewardModel, inputs: Inputs, tokens_per_batch: int | None = None):
        device = torch.device(model.device).type
        self.model, self.inputs = model, inputs
        self.small = device == "cpu" and model.backbone.num_parameters() < SMALL
        self.tokens_per_batch = tokens_per_batch or TOKENS_PER_BATCH.get(device, 4096)
        self.stage: PreTrainedModel | None = None
        self.states: Tensor | None = None  # (prefix, d), as the stages so far put them out
        self.prefix: Prefix | None = None

    @torch.no_grad()
    def enter(self, layer: PreTrainedModel) -> None:
        """Let the next layer read the prompt's prefix. This layer then does all further work of this object."""
        if self.states is None:
            assert self.model.layers is not None
            self.states = self.model.layers.embed(torch.tensor([self.inputs.conversation.prefix_ids]))[0]
        length = len(self.inputs.prefix_ids)
        with one_thread(self.small):
            self.states, shared = shared_prefix.states_and_keys(layer, self.states[None], length)
            self.stage, self.prefix = layer, shared_prefix.prefix_of(self.model, self.inputs, self.states, shared)

    def advance(self, states: Tensor) -> None:
        """Replace hidden states of replies, (replies, length, d), by the output of this stage for them."""

        def through(part: slice) -> None:
            states[part] = self._after_prefix(states[part].to(self.model.device)).to(states.device)

        self._in_batches(states, through)

    def __call__(
        self, suffixes: Sequence[tuple[int, ...]] | np.ndarray | Tensor, states: Tensor | None = None
    ) -> np.ndarray:
        """Return the rewards of prefix + suffix, (n,) float32. The suffixes, ids, have one length.

        states: the input of the last stage for these suffixes if this is not the ids, (n, length, d).
        """
        ids = torch.as_tensor(suffixes, device=self.model.device)  # (n, length)

        def rewards(part: slice) -> Tensor:
            given = (ids[part],) if states is None else (states[part].to(self.model.device), ids[part])
            return self._rewards(*given).float()

        return torch.cat(self._in_batches(ids, rewards)).cpu().numpy()  # waits for the device once, not in each batch

    def of_pieces(self, pieces: list[Tensor]) -> np.ndarray:
        """Return the rewards of replies of several lengths, piece after piece."""
        return np.concatenate([self(piece) for piece in pieces])

    def _in_batches(self, rows: Tensor, function: Callable[[slice], Any]) -> list:
        """Return the function's results for slices of rows, (n, length, ...)."""
        results: list = []
        start = 0
        while start < len(rows):
            part = slice(start, min(len(rows), start + max(1, self.tokens_per_batch // rows.shape[1])))
            try:
                with torch.inference_mode(), one_thread(self.small):
                    results.append(function(part))
            except (RuntimeError, MemoryError) as error:
                self._use_smaller_batches(part.stop - start, error)
                continue
            start = part.stop
        return results

    def _use_smaller_batches(self, batch: int, error: RuntimeError | MemoryError) -> None:
        """Halve the tokens of a batch. If that cannot help, raise the error, in one line if possible."""
        if batch == 1 or not is_of_memory(error):
            with checkpoints.enough_memory("read one reply"):
                raise error
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        self.tokens_per_batch = max(1, self.tokens_per_batch // 2)

    def _rewards(self, suffixes: Tensor, ids: Tensor | None = None) -> Tensor:
        """Return rewards, (n,). The suffixes are ids, (n, length), or their embeddings or states, (n, length, d)."""
        return self._read(self._after_prefix(suffixes), suffixes if ids is None else ids)

    def _read(
        self, states: Tensor, ids: Tensor, norm: Callable[[Tensor], Tensor] = lambda states: states,
        gate: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Return the rewards that the head computes from normalised states, (n, length, d), of these ids."""
        assert self.prefix is not None and self.model.head is not None
        where, hidden = self._read_at(ids), self.prefix.hidden
        if where is None:
            read = states[:, -1]  # (n, d)
        else:
            read = states[torch.arange(len(where), device=states.device), where.clamp(min=0)]
            if len(hidden):  # where a reply and its closing are padding, the reward is read in the prefix
                read = torch.where((where < 0)[:, None], hidden[where.clamp(max=-1)], read)
        gate = self.prefix.gate if gate is None else gate
        return self.model.head(norm(read).float(), gate if self.prefix.length else self._gate(states))

    def read_off(self, ids: Tensor, states: Tensor, norm: Callable[[Tensor], Tensor]) -> np.ndarray:
        """Return the rewards as if the model ended after this stage, (n,) float32.

        The ids are (n, length), and `states` is this stage's output for them, (n, length, d). `norm` is the final norm.
        """
        assert self.states is not None
        gate, device = shared_prefix.prefix_of(self.model, self.inputs, norm(self.states)).gate, self.model.device

        def rewards(part: slice) -> Tensor:
            return self._read(states[part].to(device), ids[part].to(device), norm, gate).float()

        return torch.cat(self._in_batches(ids, rewards)).cpu().numpy()

    def _gate(self, states: Tensor) -> Tensor | None:
        """Return the gate from the states, (n, length, d), of conversations that begin alike and were read whole."""
        position, head = self.inputs.conversation.gate_position, self.model.head
        return None if position is None or head is None else head.gate(states[0, position].float())

    def _after_prefix(self, suffixes: Tensor) -> Tensor:
        assert self.prefix is not None and self.stage is not None
        return shared_prefix.states_after(self.stage, self.prefix.length, self.prefix.shared, suffixes)

    def _read_at(self, ids: Tensor) -> Tensor | None:
        """Return at which token of the suffix each reward is read, (n,); None if all are read at the last token.

        If only padding follows the prefix, the number is negative and the reward is read in the prefix.
        """
        pad = self.model.pad_token_id
        if pad is None or self.model.read_at != "last_not_pad" or not (ids[:, -1] == pad).any():
            return None
        prefix = torch.tensor([self.inputs.prefix_ids], dtype=ids.dtype, device=ids.device).expand(len(ids), -1)
        whole = torch.cat([prefix, ids], dim=1)
        positions = torch.arange(whole.shape[1], device=ids.device)
        return (positions * (whole != pad)).argmax(1) - len(self.inputs.prefix_ids)


class Scorer(Reading):
    """Rewards and gradients of replies to one prompt, by the whole backbone."""

    def __init__(self, model: RewardModel, inputs: Inputs, tokens_per_batch: int | None = None):
        if model.layers:
            raise InputError(
                f"{model.nickname} is read layer by layer, once for all replies; load it with stream=False"
            )
        super().__init__(model, inputs, tokens_per_batch)
        self.stage = model.backbone
        # Not inference_mode: gradients of replies pass through the prefix
        with checkpoints.enough_memory("read a prompt"), torch.no_grad():
            self.prefix = shared_prefix.read_prefix(model, inputs) if model.causal else None
            self.shares_prefix = self.prefix is not None and self._agrees_with_whole(self.prefix)

    def of_pieces(self, pieces: list[Tensor]) -> np.ndarray:
        """Return the rewards of replies of several lengths, piece after piece, with shared first tokens read once."""
        longest = max(piece.shape[1] for piece in pieces)
        length = len(self.inputs.prefix_ids)
        shares = self.shares_prefix and length and can_share_prefix(self.model, length + longest)
        if not shares or any(self._read_at(piece) is not None for piece in pieces):
            return super().of_pieces(pieces)
        rewards, order = [], []
        for rows, numbers in trees.rows_by_depth(pieces):
            rewards += self._in_batches(rows, partial(self._of_tree, rows))
            order.append(numbers)
        return torch.cat(rewards).cpu().numpy()[np.argsort(np.concatenate(order))]

    def _of_tree(self, rows: Tensor, part: slice) -> Tensor:
        """Return the rewards of a part of these replies, (n,) float32. See trees.tree_of for `rows`."""
        assert self.prefix is not None and self.model.head is not None
        states = trees.outputs(self.model.backbone, self.prefix, trees.tree_of(rows[part], self.model.device))
        return self.model.head(states.float(), self.prefix.gate).float()

    def gradient(self, suffix: Sequence[int]) -> Tensor:
        """Return the gradient of the reward of prefix + suffix by the suffix's embeddings, (length, d) float32.

        The embeddings are the outputs of the embedding module, which may differ from its table by a factor.
        """
        ids = torch.as_tensor(suffix, device=self.model.device)[None]
        return self.relaxed(self.model.backbone.get_input_embeddings()(ids), ids)[1][0]

    def relaxed(self, embeddings: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rewards for suffixes given as embeddings, (n,), and their gradient, (n, length, d), float32.

        The embeddings, (n, length, d), may be mixtures of tokens' embeddings. The ids, (n, length), decide where a
        reward is read.
        """
        embeddings = embeddings.detach().requires_grad_()
        with one_thread(self.small):
            rewards = self._rewards(embeddings, ids)
            gradient = torch.autograd.grad(rewards.sum(), embeddings)[0]
        return rewards.detach().float(), gradient.float()

    def _rewards(self, suffixes: Tensor, ids: Tensor | None = None) -> Tensor:
        if self.prefix is None or self.model.head is None:
            return self._classifier_rewards(suffixes)
        if self.shares_prefix and can_share_prefix(self.model, self.prefix.length + suffixes.shape[1]):
            return super()._rewards(suffixes, ids)
        states, where = self._whole(suffixes), self._read_at(suffixes if ids is None else ids)
        at = -1 if where is None else len(self.inputs.prefix_ids) + where
        read = states[torch.arange(len(states), device=states.device), at]
        return self.model.head(read.float(), self._gate(states))

    def _whole(self, suffixes: Tensor) -> Tensor:
        """Return the output at every position of conversations that are read in full, (n, prefix + length, d)."""
        return self.model.backbone(**self._with_prefix(suffixes), use_cache=False).last_hidden_state

    def _with_prefix(self, suffixes: Tensor) -> dict[str, Tensor]:
        prefix = torch.tensor([self.inputs.prefix_ids], device=suffixes.device)
        if suffixes.is_floating_point():
            prefix = self.model.backbone.get_input_embeddings()(prefix)
        whole = torch.cat([prefix.expand(len(suffixes), *prefix.shape[1:]), suffixes], dim=1)
        return {shared_prefix.input_name(suffixes): whole}

    def _classifier_rewards(self, suffixes: Tensor) -> Tensor:
        given, length = self._with_prefix(suffixes), len(self.inputs.prefix_ids) + suffixes.shape[1]
        given["attention_mask"] = torch.ones(len(suffixes), length, dtype=torch.long, device=suffixes.device)
        if getattr(self.model.backbone.config, "type_vocab_size", 0) > 1:
            in_reply = torch.arange(length, device=suffixes.device) >= len(self.inputs.conversation.prefix_ids)
            given["token_type_ids"] = in_reply.long().expand(len(suffixes), -1)
        return self.model.backbone(**given).logits[:, 0]

    def _agrees_with_whole(self, prefix: Prefix) -> bool:
        """Return whether a shared prefix gives the same results as reading in full, on a few of the longest inputs.

        A backbone that did is tried again for longer inputs only: on few replies to each of many prompts, this would be
        most of the work.
        """
        lengths = {len(suffix) for suffix in self.inputs.suffixes}
        length = max((n for n in lengths if can_share_prefix(self.model, prefix.length + n)), default=None)
        if length is None:
            return False
        backbone = self.model.backbone
        if prefix.length + length <= AGREED.get(backbone, 0):
            return True
        longest = [suffix for suffix in self.inputs.suffixes if len(suffix) == length][:COMPARED]
        ids = torch.tensor(longest, device=self.model.device)
        whole = self._whole(ids)[:, -1].float()  # (at most COMPARED, d)
        tolerance = 1e-3 if self.model.dtype == "float32" else 5e-2  # half precision reorders sums
        try:
            shared = shared_prefix.hidden_after(self.model, prefix, ids).float()
            by_tree = trees.outputs(backbone, prefix, trees.tree_of(ids.cpu(), self.model.device)).float()
        except (TypeError, ValueError, KeyError):
            return False  # an architecture without pluggable attention
        agrees = all(bool((states - whole).norm() <= tolerance * whole.norm()) for states in (shared, by_tree))
        if agrees:
            AGREED[backbone] = prefix.length + length
        return agrees


# --- replies to several prompts -----------------------------------------------------------------------------------


@dataclass
class Block:
    """Some of the replies to one prompt, which go through the stages together.

    - inputs: the prompt's inputs, with only a few replies of each length
    - shard: the indices of these replies
    - pieces: the ids after the prefix, (replies, length), one piece per length
    - file: where the rewards are kept; None keeps nothing
    - hidden: states after `passed` layers, (tokens, d), piece after piece
    """

    inputs: Inputs
    shard: np.ndarray
    pieces: list[Tensor]
    file: Path | None = None
    passed: int = 0
    hidden: Tensor | None = field(default=None, repr=False)

    @property
    def prompt(self) -> str:
        """The prompt of these replies."""
        return self.inputs.conversation.prompt

    @property
    def tokens(self) -> int:
        """The number of tokens after the prefix, in all replies together."""
        return sum(piece.numel() for piece in self.pieces)

    def states(self) -> Iterator[Tensor]:
        """Yield each piece's part of `hidden`, (replies, length, d)."""
        assert self.hidden is not None
        for piece, part in zip(self.pieces, self.hidden.split([p.numel() for p in self.pieces]), strict=True):
            yield part.view(*piece.shape, -1)


def block_of(inputs: Inputs, pieces: list[np.ndarray]) -> Block:
    """Return the replies of a shard as a block. pieces: indices of inputs of one length, as from shards.split."""
    ids = [torch.tensor([inputs.suffixes[i] for i in piece]) for piece in pieces]
    # Without the lists of all replies, of which many prompts would fill the memory
    some = [tuple(suffix) for piece in ids for suffix in piece[:COMPARED].tolist()]
    return Block(replace(inputs, suffixes=some, reply_ids=[]), np.concatenate(pieces), ids)


def reader_of(model: RewardModel) -> type[Reading]:
    """Return the class that reads prompts for this model; an implicit reward model names its own."""
    return getattr(model, "reader", Scorer)


def score(
    model: RewardModel, blocks: list[Block], tokens_per_batch: int | None = None, bar: tqdm | None = None,
    report: bool = False,
) -> Iterator[tuple[Block, np.ndarray]]:  # fmt: skip
    """Yield each block with its rewards, (replies,) float32, when it has passed the last stage.

    Weights that stay in files are read as few times as memory allows. A killed run continues at the layer whose states
    it saved. `report` says whether to print how the conversations are read, if this is unusual. InputError as for
    blocks_for_layers.
    """
    if not blocks:
        return
    layers, bar = model.layers, bar if bar is not None else tqdm(disable=True)
    kind = Reading if layers else reader_of(model)
    passes, folder = _plan(model, blocks, report and not bar.disable) if layers else ([blocks], None)
    for together in passes:
        inputs = {block.prompt: block.inputs for block in together}
        readings = {prompt: kind(model, each, tokens_per_batch) for prompt, each in inputs.items()}
        if report and together is passes[0]:
            _report_reading(model, readings[together[-1].prompt])
        whole = ((block, readings[block.prompt].of_pieces(block.pieces)) for block in together)
        for block, rewards in _by_layers(layers, together, readings, folder, bar) if layers else whole:
            if model.files:
                model.files.refuse_changed()
            yield block, rewards
            _forget_states(block)
            bar.update(0 if layers else len(block.shard))


def _by_layers(
    layers: Layers, blocks: list[Block], readings: dict[str, Reading], folder: Path | None, bar: tqdm
) -> Iterator[tuple[Block, np.ndarray]]:
    """Yield the blocks with their rewards, after all layers in turn. folder: None saves no hidden states."""
    saved_at = time.monotonic()
    for block in blocks:
        _load_states(block, readings[block.prompt].model)
    for number, layer in layers.each():
        bar.set_postfix_str(f"layer {number + 1} of {layers.count}")
        is_last, share = number == layers.count - 1, layers.bytes_of(number) / layers.bytes
        with checkpoints.enough_memory("hold two layers and the hidden states"):
            for reading in readings.values():
                reading.enter(layer)
        for block in blocks:
            if block.passed == number:
                rewards = through(block, readings[block.prompt], is_last)
                if rewards is not None:
                    yield block, rewards
            # In shares of replies, whose sum may come out a little too large
            bar.update(min(len(block.shard) * share, max(0, (bar.total or 0) - bar.n)))
        if folder and not is_last and time.monotonic() - saved_at > SAVE_EVERY:
            for block in blocks:
                _save_states(block)
            saved_at = time.monotonic()
        for reading in readings.values():
            reading.stage = None
        del layer  # before the layer after the next is read


def through(block: Block, reading: Reading, is_last: bool) -> np.ndarray | None:
    """Put the block through one more layer. After the last layer, return its rewards, (replies,) float32."""
    assert reading.model.layers is not None
    with checkpoints.enough_memory("hold two layers and the hidden states"):
        if block.hidden is None:
            with torch.no_grad():
                ids = torch.cat([piece.flatten() for piece in block.pieces])
                block.hidden = reading.model.layers.embed(ids).cpu()
        if is_last:
            return np.concatenate([reading(*part) for part in zip(block.pieces, block.states(), strict=True)])
        for states in block.states():
            reading.advance(states)
    block.passed += 1
    return None


def _report_reading(model: RewardModel, reading: Reading) -> None:
    """Print how conversations are read, if this is unusual."""
    if not (reading.shares_prefix if isinstance(reading, Scorer) else reading.inputs.prefix_ids):
        tqdm.write(f"{model.nickname}: every conversation is read whole, which is exact but slower")
    for line in model.readings(reading.inputs.conversation):
        tqdm.write(f"{model.nickname}: {line}")


# --- layers: which blocks go together, and the states that a killed run leaves ---------------------------------------


def blocks_for_layers(model: RewardModel, blocks: list[Block]) -> list[Block]:
    """Return the blocks as layers read them, with whole conversations if the model cannot share a prefix.

    InputError if the model has a sliding window shorter than a conversation.
    """
    whole = set()
    for block in blocks:
        length = len(block.inputs.prefix_ids) + max(piece.shape[1] for piece in block.pieces)
        if not fits_window(model, length):
            raise InputError(
                f"{model.nickname} looks back over fewer tokens than a conversation about {block.prompt[:50]!r} has, "
                "which is not read layer by layer here; shorten the prompt, or load the model with stream=False"
            )
        if not can_share_prefix(model, length):
            whole.add(block.prompt)
    return [_with_prefix(block) if block.prompt in whole else block for block in blocks]


def _with_prefix(block: Block) -> Block:
    """Return the block with the prompt's prefix as a part of every reply, so that nothing is shared."""
    prefix = torch.tensor(block.inputs.prefix_ids)
    pieces = [torch.cat([prefix.expand(len(piece), -1), piece], dim=1) for piece in block.pieces]
    return replace(block, inputs=replace(block.inputs, prefix_ids=()), pieces=pieces)


def _plan(model: RewardModel, blocks: list[Block], report: bool) -> tuple[list[list[Block]], Path | None]:
    """Return the blocks of each pass over the weights, and the folder for their states; None if it has no room."""
    assert model.layers is not None
    width = model.backbone.config.hidden_size * model.backbone.dtype.itemsize
    room = max(LITTLE, hardware.free() - 2 * model.layers.largest - WORKING_MEMORY)
    passes: list[list[Block]] = []
    most = taken = 0
    for block in sorted(
        blocks_for_layers(model, blocks), key=lambda block: not _saved_states(block)
    ):  # first what was begun
        size = block.tokens * width
        if not passes or taken + size > room:
            passes.append([])
            taken = 0
        passes[-1].append(block)
        taken += size
        most = max(most, taken)
    folder = next((block.file.parent for block in blocks if block.file), None)
    if folder and most > shutil.disk_usage(next(filter(Path.exists, (folder, *folder.parents)))).free - SPARE:
        folder = None
    if report:
        prompts, replies = len({block.prompt for block in blocks}), sum(len(block.shard) for block in blocks)
        tqdm.write(
            f"{model.nickname}: {describe_size(model.layers.bytes)} of weights are read {len(passes)} x, {replies:,} "
            f"inputs of {prompts} prompt{'s' * (prompts > 1)}; two layers take "
            f"{describe_size(2 * model.layers.largest)} of memory, hidden states {describe_size(most)} of it; "
            + (f"every {SAVE_EVERY // 60} minutes also in {folder}" if folder else "nowhere else")
        )
    return passes, folder


def describe_size(count: int) -> str:
    """Return a number of bytes in MB or GB."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def _save_states(block: Block) -> None:
    """Write the block's states to a file, and remove the states of earlier layers. InputError if the disk is full."""
    before = _saved_states(block)
    if block.file is None or block.hidden is None or block.passed in before:
        return
    shards.write(block.file.with_suffix(f".{block.passed:04d}.states"), block.hidden.view(torch.uint8).numpy())
    for old in before.values():
        old.unlink(missing_ok=True)


def _load_states(block: Block, model: RewardModel) -> None:
    """Load the block's saved states of the latest layer whose file is complete, if there is one."""
    for passed, file in sorted(_saved_states(block).items(), reverse=True):
        hidden = torch.empty(block.tokens, model.backbone.config.hidden_size, dtype=model.backbone.dtype)
        if shards.read(file, hidden.view(torch.uint8).numpy()):
            block.hidden, block.passed = hidden, passed
            return


def _saved_states(block: Block) -> dict[int, Path]:
    """Return the files of saved states by the number of layers passed."""
    files = block.file.parent.glob(f"{block.file.stem}.*.states") if block.file else ()
    return {int(file.suffixes[-2][1:]): file for file in files if file.suffixes[-2][1:].isdecimal()}


def _forget_states(block: Block) -> None:
    block.hidden = None
    for file in _saved_states(block).values():
        file.unlink(missing_ok=True)
