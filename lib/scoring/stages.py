"""Rewards of replies by one pass over the stages of a model: the whole backbone at once, or one layer after another.

All conversations about one prompt share their beginning, so a stage reads that prefix once; every reply then costs only
its own tokens and the closing ones. Replies of one length form a batch without padding. Each reply attends to itself
and to the keys and values of the prefix, which are never copied.

If the weights fit into memory, the backbone is the only stage. Otherwise, every layer is a stage. A layer is read from
its file, reads the prefixes of all prompts and the replies of one pass, and is dropped. Their hidden states wait in
memory. The next replies read the weights again, which takes little of the time that the computation takes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
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
from ..models import checkpoints, shared_prefix
from ..models.conversations import Inputs
from ..models.hardware import one_thread
from ..models.reward_models import RewardModel
from ..models.shared_prefix import Prefix
from . import trees

TOKENS_PER_BATCH = {"cpu": 2048, "mps": 8192, "cuda": 32768}  # tokens of replies that go through a stage together
TOKENS_PER_PASS = {"cpu": 2**15, "mps": 2**17, "cuda": 2**18}  # whose states wait while weights pass through once
HOLD = "hold two layers and the hidden states"
SMALL = 10_000_000  # parameters; a model with fewer computes on one thread
COMPARED = 4  # of the longest replies, which are read in both ways, to see that both agree
AGREED: WeakKeyDictionary[PreTrainedModel, int] = WeakKeyDictionary()  # backbone -> longest input on which both agreed


def fits_window(model: RewardModel, length: int) -> bool:
    """Return whether inputs of this length fit into the sliding window, so that tokens attend to all earlier ones."""
    window = getattr(model.backbone.config, "sliding_window", None)
    return window is None or length < window


def can_share_prefix(model: RewardModel, length: int) -> bool:
    """Return whether the states at the beginning of an input of this length do not depend on its length."""
    limit = checkpoints.length_limit(model.backbone.config)
    return fits_window(model, length) and (limit is None or length <= limit)


class Batches:
    """How many tokens are computed together: half as many after running out of memory, and then for good."""

    def __init__(self, model: RewardModel, tokens: int | None = None):
        device = torch.device(model.device).type
        self.tokens = tokens or TOKENS_PER_BATCH.get(device, 4096)
        self.small = device == "cpu" and model.backbone.num_parameters() < SMALL

    def results(self, lengths: Sequence[int], function: Callable[[slice], Any]) -> list:
        """Return the function's results for slices of rows. A slice is as many rows as its first one's length allows.

        lengths: of each row, in tokens; none is longer than the row before it.
        """
        results: list = []
        start = 0
        while start < len(lengths):
            part = slice(start, min(len(lengths), start + max(1, self.tokens // lengths[start])))
            try:
                with torch.inference_mode(), one_thread(self.small):
                    results.append(function(part))
            except (RuntimeError, MemoryError) as error:
                self._use_smaller_batches(part.stop - start, error)
                continue
            start = part.stop
        return results

    def _use_smaller_batches(self, rows: int, error: RuntimeError | MemoryError) -> None:
        """Halve the tokens of a batch. If that cannot help, raise the error, in one line if possible."""
        if rows == 1 or not is_of_memory(error):
            with checkpoints.enough_memory("read one reply"):
                raise error
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        self.tokens = max(1, self.tokens // 2)


class Scorer:
    """One prompt as a model has read it: rewards of replies, and their gradients.

    The whole backbone reads the prompt at once. Of a model that is read layer by layer, `enter` lets a layer read it.
    `shares_prefix` says whether the prompt is read once for all replies, or again with each of them.
    """

    def __init__(self, model: RewardModel, inputs: Inputs, tokens_per_batch: int | None = None):
        self.model, self.inputs = model, inputs
        self.batches = Batches(model, tokens_per_batch)
        self.stage: PreTrainedModel | None = None
        self.states: Tensor | None = None  # (prefix, d), as the layers so far put them out
        self.prefix: Prefix | None = None
        self.shares_prefix = True
        if not model.layers:
            # Not inference_mode: gradients of replies pass through the prefix
            with checkpoints.enough_memory("read a prompt"), torch.no_grad():
                self._read_prompt()

    def _read_prompt(self) -> None:
        self.stage = self.model.backbone
        self.prefix = shared_prefix.read_prefix(self.model, self.inputs) if self.model.causal else None
        self.shares_prefix = self.prefix is not None and self._agrees_with_whole(self.prefix)

    # --- rewards of the whole backbone ---

    def __call__(self, suffixes: Sequence[tuple[int, ...]] | np.ndarray | Tensor) -> np.ndarray:
        """Return the rewards of prefix + suffix, (n,) float32. The suffixes, ids, have one length."""
        ids = torch.as_tensor(suffixes, device=self.model.device)  # (n, length)
        rewards = self._in_batches(ids, lambda part: self._rewards(ids[part]).float())
        return torch.cat(rewards).cpu().numpy()  # waits for the device once, not in each batch

    def of_pieces(self, pieces: list[Tensor]) -> np.ndarray:
        """Return the rewards of replies of several lengths, piece after piece, with shared first tokens read once."""
        longest = len(self.inputs.prefix_ids) + max(piece.shape[1] for piece in pieces)
        by_tree = self.prefix is not None and self.prefix.length and self.shares_prefix
        by_tree = by_tree and can_share_prefix(self.model, longest)
        if not by_tree or any(self._read_at(piece) is not None for piece in pieces):
            return np.concatenate([self(piece) for piece in pieces])
        rewards, order = [], []
        for rows, numbers in trees.rows_by_depth(pieces):
            rewards += self._in_batches(rows, partial(self._of_tree, rows))
            order.append(numbers)
        return torch.cat(rewards).cpu().numpy()[np.argsort(np.concatenate(order))]

    def _of_tree(self, rows: Tensor, part: slice) -> Tensor:
        """Return the rewards of a part of these replies, (n,) float32. See trees.tree_of for `rows`."""
        assert self.prefix is not None and self.model.head is not None
        states = trees.outputs(self.model.backbone, self.prefix, trees.tree_of(rows[part], self.model.device))
        return self.model.head(states.float(), self.prefix.gate).float()  # (n, d) -> (n,)

    def _in_batches(self, rows: Tensor, function: Callable[[slice], Any]) -> list:
        """Return the function's results for slices of rows, (n, length, ...)."""
        return self.batches.results([rows.shape[1]] * len(rows), function)

    def _rewards(self, suffixes: Tensor, ids: Tensor | None = None) -> Tensor:
        """Return rewards, (n,). The suffixes are ids, (n, length), or embeddings, (n, length, d), of these ids."""
        ids, length = suffixes if ids is None else ids, len(self.inputs.prefix_ids)
        if self.model.layers:
            raise InputError(
                f"{self.model.nickname} is read layer by layer, once for all replies; load it with stream=False"
            )
        if not self.model.causal:
            return self._classifier_rewards(suffixes)
        if self.shares_prefix and can_share_prefix(self.model, length + suffixes.shape[1]):
            assert self.prefix is not None
            return self._read(self._after_prefix(suffixes), ids, self.prefix.hidden)
        states = self._whole(suffixes)  # (n, prefix + length, d)
        return self._read(states[:, length:], ids, states[0, :length])

    def _classifier_rewards(self, suffixes: Tensor) -> Tensor:
        given, length = self._with_prefix(suffixes), len(self.inputs.prefix_ids) + suffixes.shape[1]
        given["attention_mask"] = torch.ones(len(suffixes), length, dtype=torch.long, device=suffixes.device)
        if getattr(self.model.backbone.config, "type_vocab_size", 0) > 1:
            in_reply = torch.arange(length, device=suffixes.device) >= len(self.inputs.conversation.prefix_ids)
            given["token_type_ids"] = in_reply.long().expand(len(suffixes), -1)
        return self.model.backbone(**given).logits[:, 0]

    def _whole(self, suffixes: Tensor) -> Tensor:
        """Return the output at every position of conversations that are read in full, (n, prefix + length, d)."""
        return self.model.backbone(**self._with_prefix(suffixes), use_cache=False).last_hidden_state

    def _with_prefix(self, suffixes: Tensor) -> dict[str, Tensor]:
        prefix = torch.tensor([self.inputs.prefix_ids], dtype=torch.long, device=suffixes.device)
        if suffixes.is_floating_point():
            prefix = self.model.backbone.get_input_embeddings()(prefix)
        whole = torch.cat([prefix.expand(len(suffixes), *prefix.shape[1:]), suffixes], dim=1)
        return {shared_prefix.input_name(suffixes): whole}

    def _after_prefix(self, suffixes: Tensor) -> Tensor:
        assert self.prefix is not None and self.stage is not None
        return shared_prefix.states_after(self.stage, self.prefix.length, self.prefix.shared, suffixes)

    # --- where a reward is read ---

    def _read(
        self, states: Tensor, ids: Tensor, hidden: Tensor, norm: Callable[[Tensor], Tensor] = lambda states: states
    ) -> Tensor:
        """Return the rewards that the head computes from states, (n, length, d), of these ids, (n, length).

        hidden: the states of the prefix, (prefix, d). norm: what the states still have to pass.
        """
        head, where, gate = self.model.head, self._read_at(ids), self.inputs.conversation.gate_position
        assert head is not None
        if where is None:
            read = states[:, -1]  # (n, d)
        else:
            read = states[torch.arange(len(where), device=states.device), where.clamp(min=0)]
            if len(hidden):  # where a reply and its closing are padding, the reward is read in the prefix
                read = torch.where((where < 0)[:, None], hidden[where.clamp(max=-1)], read)
        if gate is None:
            return head(norm(read).float(), None)
        opening = hidden[gate] if gate < len(hidden) else states[0, gate - len(hidden)]  # (d,), the same in all rows
        return head(norm(read).float(), head.gate(norm(opening).float()))

    def _read_at(self, ids: Tensor) -> Tensor | None:
        """Return at which token of the suffix each reward is read, (n,); None if all are read at the last token.

        If only padding follows the prefix, the number is negative and the reward is read in the prefix.
        """
        pad = self.model.pad_token_id
        if pad is None or self.model.read_at != "last_not_pad" or not (ids[:, -1] == pad).any():
            return None
        prefix = torch.tensor([self.inputs.prefix_ids], dtype=ids.dtype, device=ids.device).expand(len(ids), -1)
        whole = torch.cat([prefix, ids], dim=1)  # (n, prefix + length)
        positions = torch.arange(whole.shape[1], device=ids.device)
        return (positions * (whole != pad)).argmax(1) - len(self.inputs.prefix_ids)

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

    # --- gradients ---

    def gradient(self, suffix: Sequence[int]) -> Tensor:
        """Return the gradient of the reward of prefix + suffix by the suffix's embeddings, (length, d) float32.

        The embeddings are the outputs of the embedding module, which may differ from its table by a factor.
        """
        ids = torch.as_tensor(suffix, device=self.model.device)[None]  # (1, length)
        return self.relaxed(self.model.backbone.get_input_embeddings()(ids), ids)[1][0]

    def relaxed(self, embeddings: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rewards for suffixes given as embeddings, (n,), and their gradient, (n, length, d), float32.

        The embeddings, (n, length, d), may be mixtures of tokens' embeddings. The ids, (n, length), decide where a
        reward is read.
        """
        embeddings = embeddings.detach().requires_grad_()
        with one_thread(self.batches.small):
            rewards = self._rewards(embeddings, ids)
            gradient = torch.autograd.grad(rewards.sum(), embeddings)[0]
        return rewards.detach().float(), gradient.float()

    # --- layer by layer ---

    @torch.no_grad()
    def enter(self, layer: PreTrainedModel) -> None:
        """Let the next layer read the prompt's prefix. This layer then does all further work of this object."""
        if self.states is None:
            assert self.model.layers is not None
            self.states = self.model.layers.embed(torch.tensor([self.inputs.conversation.prefix_ids]))[0]
        length = len(self.inputs.prefix_ids)
        with one_thread(self.batches.small):
            self.states, shared = shared_prefix.states_and_keys(layer, self.states[None], length)
        self.stage, self.prefix = layer, Prefix(length, shared, None, self.states[:length])

    def advance(self, states: Tensor) -> None:
        """Replace hidden states of replies, (n, length, d), by the output of this layer for them."""

        def through(part: slice) -> None:
            states[part] = self._after_prefix(states[part].to(self.model.device)).to(states.device)

        self._in_batches(states, through)

    def read_off(
        self, ids: Tensor, states: Tensor, norm: Callable[[Tensor], Tensor] = lambda states: states
    ) -> np.ndarray:
        """Return the rewards as if the model ended after this layer and then the norm, (n,) float32.

        The ids are (n, length), and `states` is this layer's output for them, (n, length, d).
        """
        assert self.prefix is not None
        hidden, device = self.prefix.hidden, self.model.device

        def rewards(part: slice) -> Tensor:
            return self._read(states[part].to(device), ids[part].to(device), hidden, norm).float()

        return torch.cat(self._in_batches(ids, rewards)).cpu().numpy()


# --- replies to several prompts -----------------------------------------------------------------------------------


@dataclass
class Block:
    """Some of the replies to one prompt, which go through the stages together.

    - inputs: the prompt's inputs, the same object in all of its blocks
    - pieces: the indices of these replies in the inputs, one piece per length
    - file: where the rewards are kept; None keeps nothing
    - states: of each piece after the layers so far, (replies, length, d)
    """

    inputs: Inputs
    pieces: list[np.ndarray]
    file: Path | None = None
    states: list[Tensor] = field(default_factory=list, repr=False)

    @property
    def prompt(self) -> str:
        """The prompt of these replies."""
        return self.inputs.conversation.prompt

    @property
    def shard(self) -> np.ndarray:
        """The indices of all replies of the block, piece after piece."""
        return np.concatenate(self.pieces)

    @property
    def longest(self) -> int:
        """The number of tokens in the longest whole conversation."""
        return len(self.inputs.prefix_ids) + max(len(self.inputs.suffixes[piece[0]]) for piece in self.pieces)

    @property
    def sizes(self) -> list[int]:
        """The number of tokens after the prefix in each piece."""
        return [len(piece) * len(self.inputs.suffixes[piece[0]]) for piece in self.pieces]

    def ids(self) -> list[Tensor]:
        """Return the ids after the prefix, (replies, length), of each piece."""
        return [torch.tensor([self.inputs.suffixes[i] for i in piece]) for piece in self.pieces]


def reader_of(model: RewardModel) -> type[Scorer]:
    """Return the class that reads prompts for this model; an implicit reward model names its own."""
    return getattr(model, "reader", Scorer)


def score(
    model: RewardModel, blocks: Iterable[Block], tokens_per_batch: int | None = None, bar: tqdm | None = None,
    report: bool = False,
) -> Iterator[tuple[Block, np.ndarray]]:  # fmt: skip
    """Yield each block with its rewards, (replies,) float32, when it has passed the last stage.

    Blocks of one prompt follow each other. `report` says whether to print how the conversations are read, if this is
    unusual. InputError as for after_layers, and if a file of the model has changed.
    """
    ways = _by_layers if model.layers else _at_once
    for block, rewards in ways(model, blocks, tokens_per_batch, bar if bar is not None else tqdm(disable=True), report):
        if model.files:
            model.files.refuse_changed()
        yield block, rewards


def _at_once(
    model: RewardModel, blocks: Iterable[Block], tokens_per_batch: int | None, bar: tqdm, report: bool
) -> Iterator[tuple[Block, np.ndarray]]:
    """Yield the blocks with their rewards by the whole backbone."""
    scorer = None
    for block in blocks:
        if scorer is None or scorer.inputs is not block.inputs:
            size = scorer.batches.tokens if scorer else tokens_per_batch  # smaller ones if memory ran out
            is_first, scorer = scorer is None, reader_of(model)(model, block.inputs, size)
            if report and is_first:
                _report_reading(model, block.inputs, scorer.shares_prefix)
        yield block, scorer.of_pieces(block.ids())
        bar.update(len(block.shard))


def _by_layers(
    model: RewardModel, blocks: Iterable[Block], tokens_per_batch: int | None, bar: tqdm, report: bool
) -> Iterator[tuple[Block, np.ndarray]]:
    """Yield the blocks with their rewards by layers, whose weights are read once for TOKENS_PER_PASS tokens."""
    layers, most = model.layers, TOKENS_PER_PASS.get(torch.device(model.device).type, 2**15)
    assert layers is not None
    for together in _passes(blocks, most):
        if report:
            tqdm.write(
                f"{model.nickname}: {describe_size(layers.bytes)} of weights are read once for every {most:,} tokens "
                f"of replies; two layers take {describe_size(2 * layers.largest)} of memory"
            )
            _report_reading(model, together[0].inputs, can_share_prefix(model, together[0].longest))
            report = False
        for number, block, scorer in after_layers(model, together, tokens_per_batch, bar):
            if number == layers.count - 1:
                parts = zip(block.ids(), block.states, strict=True)
                yield block, np.concatenate([scorer.read_off(*part) for part in parts])


def _passes(blocks: Iterable[Block], most: int) -> Iterator[list[Block]]:
    """Yield the blocks in lists of at most that many tokens, and at least one block."""
    together: list[Block] = []
    for block in blocks:
        if together and sum(sum(each.sizes) for each in (*together, block)) > most:
            yield together
            together = []
        together.append(block)
    if together:
        yield together


def after_layers(
    model: RewardModel, blocks: Sequence[Block], tokens_per_batch: int | None = None, bar: tqdm | None = None
) -> Iterator[tuple[int, Block, Scorer]]:
    """Yield each block after each layer, with the layer's number and the scorer of the block's prompt.

    All weights are read once. InputError if the model has a sliding window shorter than a conversation.
    """
    layers, bar = model.layers, bar if bar is not None else tqdm(disable=True)
    assert layers is not None
    blocks = [_for_layers(model, block) for block in blocks]
    keys = [(block.prompt, len(block.inputs.prefix_ids)) for block in blocks]
    scorers = {key: Scorer(model, block.inputs, tokens_per_batch) for key, block in zip(keys, blocks, strict=True)}
    for number, layer in layers.each():
        bar.set_postfix_str(f"layer {number + 1} of {layers.count}")
        share = layers.bytes_of(number) / layers.bytes
        with checkpoints.enough_memory(HOLD):
            for scorer in scorers.values():
                scorer.enter(layer)
        for key, block in zip(keys, blocks, strict=True):
            with checkpoints.enough_memory(HOLD):
                block.states = block.states or _embedded(model, block)
                for states in block.states:
                    scorers[key].advance(states)
            yield number, block, scorers[key]
            # In shares of replies, whose sum may come out a little too large
            bar.update(min(len(block.shard) * share, max(0, (bar.total or 0) - bar.n)))
        for scorer in scorers.values():
            scorer.stage = None
        del layer  # before the layer after the next is read


@torch.no_grad()
def _embedded(model: RewardModel, block: Block) -> list[Tensor]:
    """Return the input of the first layer, (replies, length, d) for each piece."""
    assert model.layers is not None
    pieces = block.ids()
    hidden = model.layers.embed(torch.cat([piece.flatten() for piece in pieces])).cpu()  # (tokens, d)
    return [part.view(*piece.shape, -1) for piece, part in zip(pieces, hidden.split(block.sizes), strict=True)]


def _for_layers(model: RewardModel, block: Block) -> Block:
    """Return the block as layers read it: with whole conversations if the model cannot share a prefix.

    InputError if the model has a sliding window shorter than a conversation.
    """
    if not fits_window(model, block.longest):
        raise InputError(
            f"{model.nickname} looks back over fewer tokens than a conversation about {block.prompt[:50]!r} has, "
            "which is not read layer by layer here; shorten the prompt, or load the model with stream=False"
        )
    if can_share_prefix(model, block.longest):
        return replace(block)
    inputs = block.inputs
    suffixes = [inputs.prefix_ids + suffix for suffix in inputs.suffixes]
    return replace(block, inputs=replace(inputs, prefix_ids=(), suffixes=suffixes))


def _report_reading(model: RewardModel, inputs: Inputs, shares_prefix: bool) -> None:
    """Print how conversations are read, if this is unusual."""
    if not shares_prefix:
        tqdm.write(f"{model.nickname}: every conversation is read whole, which is exact but slower")
    for line in model.readings(inputs.conversation):
        tqdm.write(f"{model.nickname}: {line}")


def describe_size(count: int) -> str:
    """Return a number of bytes in MB or GB."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
