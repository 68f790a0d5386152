"""Readers: how a model reads a prompt, and then gives the rewards of replies, and their gradients.

`Scorer` is the usual one: the whole backbone reads the beginning that all conversations about a
prompt share once, and a reply costs only what comes after it. Models of other kinds name a reader
of their own, which overrides what it does otherwise: encoders, by_layer, packed, implicit.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel

from .. import InputError
from ..io import is_of_memory
from ..models import checkpoints, shared_prefix
from ..models.conversations import Inputs
from ..models.hardware import one_thread, release
from ..models.reward_models import RewardModel
from . import agreement, trees
from .agreement import Reading, can_share_prefix

# tokens of replies that are read together
TOKENS_PER_BATCH = {"cpu": 2048, "mps": 8192, "cuda": 32768}
SMALL = 10_000_000  # parameters; a model with fewer computes on one thread
SLOWER = 1.5  # times as many tokens, from which on the user is told why
TOLD: WeakSet[PreTrainedModel] = WeakSet()  # backbones whose slow reading was reported


class Scorer:
    """One prompt as a model has read it: rewards of replies, and their gradients.

    `shares_prefix` says whether the prompt is read once for all replies, or again with each of
    them; `reason` says why. What other readers do otherwise:

    - replies_per_shard: of a vocabulary, written together; None for engine.REPLIES_PER_SHARD
    - pads: whether replies to several prompts may be read together, see padded
    - extends_prefix: whether what all replies begin with may be read with the prompt
    - computes_here: whether rewards are computed by this process
    - by_layer: whether weights pass through once for many replies
    """

    agreed: ClassVar = agreement.AGREED  # for this way of reading
    usual_tokens: ClassVar[dict[str, int]] = TOKENS_PER_BATCH
    replies_per_shard: ClassVar[int | None] = None
    pads: ClassVar[bool] = True
    extends_prefix: ClassVar[bool] = True
    computes_here: ClassVar[bool] = True
    by_layer: ClassVar[bool] = False

    def __init__(
        self,
        model: RewardModel,
        inputs: Inputs,
        tokens_per_batch: int | None = None,
    ):
        device = torch.device(model.device).type
        self.model = model
        self.inputs = inputs
        self.length = len(inputs.prefix_ids)
        self.tokens_per_batch = tokens_per_batch or self.usual_tokens.get(device, 4096)
        self.small = is_small(model)
        # what has read the prompt: a backbone, or one layer
        self.stage = model.backbone
        self.hidden = torch.empty(0)  # (prompt, d), the stage's output at the prompt
        # keys and values of the prefix in each layer of the stage
        self.shared: list[tuple[Tensor, Tensor]] = []
        self.shares_prefix = True
        self.reason = ""
        with checkpoints.enough_memory("read a prompt"):
            self._read_prompt()

    def _read_prompt(self) -> None:
        self.reason = self._reason_to_read_whole()
        self.shares_prefix = not self.reason
        if self.reason:
            self._report_whole_reading()

    def _reason_to_read_whole(self) -> str:
        """Return why the prefix is not shared, or "". InputError if the backbone cannot compute
        at all.
        """
        try:
            self.enter(self.model.backbone)
        except (InputError, *agreement.CANNOT_SHARE) as error:
            if is_of_memory(error):
                raise
            reason = agreement.of_architecture(self.model, error)
        else:
            reason = agreement.reason_to_read_whole(self)
        if reason:
            shortest = min(self.inputs.suffixes, key=len)
            with (
                shared_prefix.refusing_backbone(),
                torch.no_grad(),
                one_thread(self.small),
            ):
                ids = torch.tensor([shortest], device=self.model.device)
                self._whole(ids)
        return reason

    def _report_whole_reading(self) -> None:
        """Print once per backbone why every conversation is read in full, and how many more
        tokens this takes.
        """
        after = sum(map(len, self.inputs.suffixes))
        whole = self.length * len(self.inputs.suffixes) + after
        times = whole / (self.length + after)
        if times >= SLOWER and self.model.backbone not in TOLD:
            TOLD.add(self.model.backbone)
            line = (
                f"every conversation is read whole, which is exact but reads {times:.1f} times "
                "as many tokens"
            )
            tqdm.write(f"{self.model.nickname}: {line}: {self.reason}", file=sys.stderr)

    @classmethod
    def each_block(
        cls,
        model: RewardModel,
        blocks: Iterable["Block"],
        tokens_per_batch: int | None,
        bar: tqdm,
    ) -> Iterator[tuple["Block", np.ndarray]]:
        """Yield the blocks with their rewards, (replies,) float32, one prompt after another."""
        scorer = None
        for block in blocks:
            if scorer is None or scorer.inputs is not block.inputs:
                is_first = scorer is None
                scorer = cls(model, block.inputs, tokens_per_batch)
                if is_first:
                    report_readings(model, block.inputs, bar)
            yield block, scorer.of_pieces(block.ids())
            tokens_per_batch = scorer.tokens_per_batch  # smaller once memory ran out
            bar.update(len(block.shard))

    @classmethod
    def can_pad(cls, model: RewardModel, block: "Block") -> bool:
        """Return whether padding cannot change how the conversations of a block are read."""
        is_gated = block.inputs.conversation.gate_position is not None
        return not is_gated and can_share_prefix(model, block.longest)

    @torch.no_grad()  # not inference_mode: gradients of replies pass through the prefix
    def enter(self, stage: PreTrainedModel) -> None:
        """Let the backbone read the prompt. It then does all further work of this object."""
        states = self._states_to_enter()
        self.stage = stage
        with one_thread(self.small):
            self.hidden, self.shared = shared_prefix.states_and_keys(
                stage,
                states,
                self.length,
            )

    def _states_to_enter(self) -> Tensor:
        """Return the ids of the prompt, (1, prompt)."""
        return torch.tensor(
            [self.inputs.conversation.prefix_ids], device=self.model.device
        )

    def __call__(
        self, suffixes: Sequence[tuple[int, ...]] | np.ndarray | Tensor
    ) -> np.ndarray:
        """Return the rewards of prefix + suffix, (n,) float32. The suffixes, ids, have one
        length.
        """
        ids = torch.as_tensor(suffixes, device=self.model.device)  # (n, length)
        read = ids.shape[1]  # tokens per reply
        if not self._shares(read):
            read += self.length
        rewards = self._in_batches(
            ids, lambda part: self._rewards(ids[part]).float(), read
        )
        # waits for the device once, not in each batch
        return torch.cat(rewards).cpu().numpy()

    def of_pieces(self, pieces: list[Tensor]) -> np.ndarray:
        """Return the rewards of replies of several lengths, piece after piece, with shared first
        tokens read once.
        """
        if not self.shares_first_tokens(pieces):
            one_by_one = [Scorer.__call__(self, piece) for piece in pieces]
            return np.concatenate(one_by_one)
        rewards = []
        order = []
        for rows, numbers in trees.rows_by_depth(pieces):
            rewards += self._in_batches(rows, partial(self._of_part, rows))
            order.append(numbers)
        back = np.argsort(np.concatenate(order))
        return torch.cat(rewards).cpu().numpy()[back]

    def shares_first_tokens(self, pieces: list[Tensor]) -> bool:
        """Return whether replies that begin alike can be read with their first tokens shared."""
        longest = max(piece.shape[1] for piece in pieces)
        if not self.length or not self._shares(longest):
            return False
        if longest > agreement.DEEPEST:
            return False
        return all(self._read_at(piece) is None for piece in pieces)

    def _shares(self, length: int) -> bool:
        """Return whether suffixes of this length are read after the shared prefix."""
        return self.shares_prefix and can_share_prefix(self.model, self.length + length)

    def _of_part(self, rows: Tensor, part: slice) -> Tensor:
        """Return the rewards of a part of these replies, (n,) float32. See trees.tree_of for
        `rows`.
        """
        return self.read_shared(rows[part]).rewards

    def of_shared(self, suffixes: Tensor) -> Tensor:
        """Return the outputs at the last token of sorted suffixes, (n, d). See trees.tree_of for
        these.
        """
        tree = trees.tree_of(suffixes, self.model.device)
        return trees.outputs(self.model.backbone, self.length, self.shared, tree)

    def _in_batches(
        self,
        rows: Tensor,
        function: Callable[[slice], Any],
        read: int | None = None,
    ) -> list:
        """Return the function's results for slices of rows, (n, length, ...), halved for good when
        memory runs out.

        read: tokens that are read for each row, by default its length.
        """
        results: list = []
        start = 0
        read = read or rows.shape[1]
        while start < len(rows):
            count = max(1, self.tokens_per_batch // read)
            part = slice(start, min(len(rows), start + count))
            try:
                with torch.inference_mode(), one_thread(self.small):
                    results.append(function(part))
                start = part.stop
                continue
            except (RuntimeError, MemoryError) as error:
                if part.stop - start == 1 or not is_of_memory(error):
                    with checkpoints.enough_memory("read one reply"):
                        raise
            # Out of the except clause, whose traceback holds the tensors of the batch that was too
            # large
            release()
            tokens = (part.stop - start) * read
            self.tokens_per_batch = max(1, tokens // 2)
        return results

    def _rewards(self, suffixes: Tensor, ids: Tensor | None = None) -> Tensor:
        """Return rewards, (n,). The suffixes are ids, (n, length), or embeddings, (n, length,
        d), of these ids.
        """
        ids = suffixes if ids is None else ids
        where = self._read_at(ids)
        if self._shares(suffixes.shape[1]):
            return self._read(self._after_prefix(suffixes), where, self.hidden)
        states = self._whole(suffixes)  # (n, prefix + length, d)
        return self._read(states[:, self.length :], where, states[0])

    def _whole(self, suffixes: Tensor) -> Tensor:
        """Return the output at every position of conversations that are read in full, (n, prefix
        + length, d).
        """
        return self.model.backbone(
            **self._with_prefix(suffixes), use_cache=False
        ).last_hidden_state

    def _with_prefix(self, suffixes: Tensor) -> dict[str, Tensor]:
        prefix = torch.tensor(
            [self.inputs.prefix_ids],
            dtype=torch.long,
            device=suffixes.device,
        )
        if suffixes.is_floating_point():
            prefix = self.model.backbone.get_input_embeddings()(prefix)
        prefix = prefix.expand(len(suffixes), *prefix.shape[1:])
        whole = torch.cat([prefix, suffixes], dim=1)
        return {shared_prefix.input_name(suffixes): whole}

    def _after_prefix(self, suffixes: Tensor) -> Tensor:
        """Return the stage's output at every position of suffixes, (n, length, d)."""
        return shared_prefix.states_after(
            self.stage,
            self.length,
            self.shared,
            suffixes,
        )

    # --- one reading, for agreement ---

    def read_whole(self, ids: Tensor) -> Reading:
        """Return how suffixes, (n, length) ids, are read in full."""
        ids = ids.to(self.model.device)
        states = self._whole(ids)  # (n, prefix + length, d)
        after = states[:, self.length :]
        return self._reading(after, self._read_at(ids), states[0])

    def read_after_prefix(self, ids: Tensor) -> Reading:
        """Return how suffixes, (n, length) ids, are read after the shared prefix."""
        ids = ids.to(self.model.device)
        states = self._after_prefix(ids)
        return self._reading(states, self._read_at(ids), self.hidden)

    def read_shared(self, rows: Tensor) -> Reading:
        """Return how replies are read that share their first tokens. See trees.tree_of for
        `rows`.
        """
        last = self.of_shared(rows)  # (n, d)
        return self._reading(last[:, None], None, self.hidden)

    def _reading(self, states: Tensor, where: Tensor | None, hidden: Tensor) -> Reading:
        rewards = self._read(states, where, hidden).float()
        return Reading(states[:, -1].float(), rewards)

    def _read(self, states: Tensor, where: Tensor | None, hidden: Tensor) -> Tensor:
        """Return the rewards that the head computes from states, (n, length, d), at the tokens
        `where` (see _read_at).

        hidden: the states from the beginning of the conversation on, (prompt, d).
        """
        head = self.model.head
        gate = self.inputs.conversation.gate_position
        assert head is not None  # as every decoder's
        if where is None:
            read = states[:, -1]  # (n, d)
        else:
            replies = torch.arange(len(where), device=states.device)
            read = states[replies, where.clamp(min=0)]
            # where a reply and its closing are padding, the reward is read in the prefix
            if self.length:
                before = hidden[self.length + where.clamp(max=-1)]
                is_padding = (where < 0)[:, None]
                read = torch.where(is_padding, before, read)
        opening = None
        if gate is not None:  # the same for all replies
            opening = head.gate(self._for_head(hidden[gate]))
        return head(self._for_head(read), opening)

    def _for_head(self, states: Tensor) -> Tensor:
        return states.float()

    def _read_at(self, ids: Tensor) -> Tensor | None:
        """Return at which token of the suffix each reward is read, (n,); None if all are read at
        the last token.

        If only padding follows the prefix, the number is negative and the reward is read in the
        prefix.
        """
        pad = self.model.pad_token_id
        if (
            pad is None
            or self.model.read_at != "last_not_pad"
            or not (ids[:, -1] == pad).any()
        ):
            return None
        prefix = torch.tensor(
            [self.inputs.prefix_ids],
            dtype=ids.dtype,
            device=ids.device,
        ).expand(len(ids), -1)
        whole = torch.cat([prefix, ids], dim=1)  # (n, prefix + length)
        positions = torch.arange(whole.shape[1], device=ids.device)
        return (positions * (whole != pad)).argmax(1) - self.length

    def gradient(self, suffix: Sequence[int]) -> Tensor:
        """Return the gradient of the reward by the embedding module's outputs for the suffix,
        (length, d) float32.
        """
        return self.gradients(np.asarray(suffix)[None])[0]

    def gradients(self, suffixes: np.ndarray) -> Tensor:
        """Return the gradient of each suffix's own reward, (n, length, d) float32. The suffixes
        are (n, length) ids.
        """
        ids = torch.as_tensor(suffixes, device=self.model.device)
        embeddings = self.model.backbone.get_input_embeddings()(ids)
        _, gradient = self.relaxed(embeddings, ids)
        return gradient

    def relaxed(self, embeddings: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rewards for suffixes given as embeddings, (n,), and their gradient, (n,
        length, d), float32.

        The embeddings may be mixtures of tokens' embeddings. The ids, (n, length), decide where a
        reward is read.
        """
        embeddings = embeddings.detach().requires_grad_()
        with one_thread(self.small):
            rewards = self._rewards(embeddings, ids)
            [gradient] = torch.autograd.grad(rewards.sum(), embeddings)
        return rewards.detach().float(), gradient.float()


@dataclass
class Block:
    """Some of the replies to one prompt, which go through the stages together.

    - pieces: the indices of these replies in the inputs, one piece per length
    - file: where the rewards are kept; None keeps nothing
    - states: of each piece after the layers so far, (replies, length, d)
    - prepared: what `ids` returns, if it was made ahead
    """

    inputs: Inputs
    pieces: list[np.ndarray]
    file: Path | None = None
    states: list[Tensor] = field(default_factory=list, repr=False)
    prepared: list[Tensor] = field(default_factory=list, repr=False)

    @property
    def shard(self) -> np.ndarray:
        """The indices of all replies of the block, piece after piece."""
        return np.concatenate(self.pieces)

    @property
    def longest(self) -> int:
        """The number of tokens in the longest whole conversation."""
        return len(self.inputs.prefix_ids) + max(
            len(self.inputs.suffixes[piece[0]]) for piece in self.pieces
        )

    def ids(self) -> list[Tensor]:
        """Return the ids after the prefix, (replies, length), of each piece."""
        return self.prepared or [
            torch.tensor([self.inputs.suffixes[i] for i in piece])
            for piece in self.pieces
        ]


def extend_prefix(model: RewardModel, inputs: Inputs) -> Inputs:
    """Return the same inputs, with the ids that all suffixes begin with moved into the prefix.

    Each suffix keeps its last id. Nothing is moved where the model's reader needs the reply whole,
    or a gate reads at a place in the prefix.
    """
    has_gate = inputs.conversation.gate_position is not None
    if has_gate or not reader_of(model).extends_prefix or len(inputs.suffixes) < 2:
        return inputs
    shortest = min(map(len, inputs.suffixes))
    common = os.path.commonprefix(inputs.suffixes)[: shortest - 1]
    prefix = inputs.prefix_ids + tuple(common)
    return replace(
        inputs,
        conversation=replace(inputs.conversation, prefix_ids=prefix),
        prefix_ids=prefix,
        suffixes=[suffix[len(common) :] for suffix in inputs.suffixes],
    )


def made_ahead(model: RewardModel, blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks. On a device other than the CPU, a thread makes the next one while the
    caller computes.

    The thread also makes the ids of the next block, and what the next prompt reads.
    """
    on_cpu = torch.device(model.device).type == "cpu"
    if on_cpu or reader_of(model).by_layer:
        yield from blocks
        return
    source = iter(blocks)

    def next_block() -> Block | None:
        if (block := next(source, None)) is not None:
            block.prepared = block.ids()
        return block

    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next_block)
        while (block := coming.result()) is not None:
            coming = thread.submit(next_block)
            yield block


def is_small(model: RewardModel) -> bool:
    """Return whether a model computes on one thread, because it is small and on the CPU."""
    is_on_cpu = torch.device(model.device).type == "cpu"
    return is_on_cpu and model.backbone.num_parameters() < SMALL


def reader_of(model: RewardModel) -> type[Scorer]:
    """Return the class that reads prompts for this model."""
    return model.reader or Scorer


def score(
    model: RewardModel,
    blocks: Iterable[Block],
    tokens_per_batch: int | None = None,
    bar: tqdm | None = None,
    way: Callable | None = None,
) -> Iterator[tuple[Block, np.ndarray]]:
    """Yield each block with its rewards, (replies,) float32, when they are known.

    Blocks of one prompt follow each other. `way` is padded.score, or None for the reader's own.
    With a bar, print how the conversations are read, if this is unusual. InputError for rewards
    that are not finite, and if a file of the model has changed.
    """
    bar = bar if bar is not None else tqdm(disable=True)
    way = way or reader_of(model).each_block
    for block, rewards in way(model, blocks, tokens_per_batch, bar):
        if model.files:
            model.files.refuse_changed()
        _refuse_not_finite(model, block, rewards)
        yield block, rewards


def _refuse_not_finite(model: RewardModel, block: Block, rewards: np.ndarray) -> None:
    bad = np.argwhere(~np.isfinite(rewards))
    if len(bad):
        number = block.shard[bad[0][0]]
        prompt = block.inputs.conversation.prompt
        ids = list(block.inputs.reply_ids[number])
        # In float32 the weights themselves are the likely cause, not their dtype.
        wider = {
            "float16": "--dtype bfloat16 or --dtype float32",
            "bfloat16": "--dtype float32",
            "the server's dtype": "float32 on the server",
        }.get(model.dtype)
        damaged = (
            f"its weights may be damaged, since it is computed in {model.dtype}: download "
            "the checkpoint again"
        )
        raise InputError(
            f"the reward of the reply {model.tokenizer.decode(ids)[:80]!r} to the prompt "
            f"{prompt[:80]!r} is {rewards[tuple(bad[0])]} (its token ids: {str(ids[:8])[1:-1]}); "
            + (f"load the model with {wider}" if wider else damaged)
        )


def report_readings(model: RewardModel, inputs: Inputs, bar: tqdm) -> None:
    """Print where such conversations are read and how they end, if this is unusual and a bar is
    shown.
    """
    for line in () if bar.disable else model.readings(inputs.conversation):
        tqdm.write(f"{model.nickname}: {line}")
