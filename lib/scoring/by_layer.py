"""Models read layer by layer: the weights pass through memory once for many replies, and each layer
reads all of them.

Rewards by layer: the final norm and the head read the states after each layer, as if the model
ended there. As in the logit lens (nostalgebraist 2020; Belrose et al. 2023, arXiv 2303.08112); no
head was trained on such states.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from .. import InputError
from ..models import checkpoints
from ..models.layers import Layers
from ..models.reward_models import RewardModel
from . import agreement, engine
from .agreement import can_share_prefix, fits_window
from .stages import Block, Scorer, report_readings

# of all replies; a rank that stays as near as this to the final one is settled
NEAR = 0.05
# tokens whose states wait while weights pass through once
TOKENS_PER_PASS = {"cpu": 2**15, "mps": 2**17, "cuda": 2**18}
HOLD = "hold two layers and the hidden states"


class LayerByLayer(Scorer):
    """One prompt as the layers have read it so far: `enter` lets the next layer read it.

    norm: what states pass before the head reads them. The last layer ends with the final norm.
    """

    pads = False
    by_layer = True
    norm: torch.nn.Module = torch.nn.Identity()

    def _read_prompt(self) -> None:
        """Read nothing yet: see enter."""

    def _states_to_enter(self) -> Tensor:
        """Return the output of the layer before at the prompt, (1, prompt, d); of the embeddings at
        first.
        """
        if len(self.hidden):
            return self.hidden[None]
        return layers_of(self.model).embed(super()._states_to_enter())

    def _rewards(self, suffixes: Tensor, ids: Tensor | None = None) -> Tensor:
        raise InputError(
            f"{self.model.nickname} is read layer by layer, once for all replies; load with "
            "--stream 0"
        )

    def _for_head(self, states: Tensor) -> Tensor:
        return self.norm(states).float()

    def advance(self, states: Tensor) -> None:
        """Replace hidden states of replies, (n, length, d), by the output of this layer for
        them.
        """

        def through(part: slice) -> None:
            before = states[part].to(self.model.device)
            states[part] = self._after_prefix(before).to(states.device)

        self._in_batches(states, through)

    def read_off(self, block: Block) -> np.ndarray:
        """Return the rewards of a block as if the model ended after this layer and `norm`,
        (replies,) float32.
        """
        device = self.model.device
        rewards = []
        pieces = block.ids()
        for ids, states in zip(pieces, block.states, strict=True):

            def of_part(
                part: slice,
                ids: Tensor = ids,
                states: Tensor = states,
            ) -> Tensor:
                after = states[part].to(device)  # (n, length, d)
                # of a whole conversation, all states are in `after`
                hidden = self.hidden if self.length else after[0]
                where = self._read_at(ids[part].to(device))
                return self._read(after, where, hidden).float()

            rewards += self._in_batches(ids, of_part)
        return torch.cat(rewards).cpu().numpy()

    @classmethod
    def each_block(
        cls,
        model: RewardModel,
        blocks: Iterable[Block],
        tokens_per_batch: int | None,
        bar: tqdm,
    ) -> Iterator[tuple[Block, np.ndarray]]:
        """Yield the blocks with their rewards; weights are read once for TOKENS_PER_PASS tokens."""
        last = layers_of(model).count - 1
        kind = torch.device(model.device).type
        most = TOKENS_PER_PASS.get(kind, 2**15)
        for number_of_pass, together in enumerate(_passes(blocks, most)):
            if number_of_pass == 0 and not bar.disable:
                _report_passes(model, together[0], most)
                report_readings(model, together[0].inputs, bar)
            for number, block, scorer in after_layers(
                model,
                together,
                tokens_per_batch,
                bar,
            ):
                if number == last:
                    yield block, scorer.read_off(block)


def layers_of(model: RewardModel) -> Layers:
    """Return the layers of a model in their files. InputError if it was loaded otherwise."""
    if model.layers is None:
        raise InputError(
            f"the layers of {model.nickname} are not read one by one; load its checkpoint with "
            "--stream 1"
        )
    return model.layers


def _report_passes(model: RewardModel, block: Block, most: int) -> None:
    layers = layers_of(model)
    tqdm.write(
        f"{model.nickname}: {layers.bytes / 1e9:.2g} GB of weights are read once for every "
        f"{most:,} tokens of replies; two layers take {2 * layers.largest / 1e9:.2g} GB of "
        "memory"
    )
    if reason := agreement.why_too_long(model, block.longest):
        tqdm.write(
            f"{model.nickname}: every conversation is read whole, which is exact but slower: "
            f"{reason}"
        )


def _passes(blocks: Iterable[Block], most: int) -> Iterator[list[Block]]:
    """Yield the blocks in lists of at most that many tokens, and at least one block."""
    together: list[Block] = []
    tokens = 0
    for block in blocks:
        suffixes = block.inputs.suffixes
        size = sum(len(piece) * len(suffixes[piece[0]]) for piece in block.pieces)
        if together and tokens + size > most:
            yield together
            together = []
            tokens = 0
        together.append(block)
        tokens += size
    if together:
        yield together


def after_layers(
    model: RewardModel,
    blocks: Sequence[Block],
    tokens_per_batch: int | None = None,
    bar: tqdm | None = None,
) -> Iterator[tuple[int, Block, LayerByLayer]]:
    """Yield each block after each layer, with the layer's number and the reader of the block's
    prompt.

    All weights are read once. InputError if the model has a sliding window shorter than a
    conversation.
    """
    layers = layers_of(model)
    bar = bar if bar is not None else tqdm(disable=True)
    blocks = [_for_layers(model, block) for block in blocks]
    readers = {
        _prompt_of(each): LayerByLayer(model, each.inputs, tokens_per_batch)
        for each in blocks
    }
    for number, layer in layers.each():
        bar.set_postfix_str(f"layer {number + 1} of {layers.count}")
        with checkpoints.enough_memory(HOLD):
            for reader in readers.values():
                reader.enter(layer)
        for block in blocks:
            reader = readers[_prompt_of(block)]
            with checkpoints.enough_memory(HOLD):
                _pass_through(reader, block)
            yield number, block, reader
            # In shares of replies, whose sum may come out a little too large
            share = len(block.shard) * layers.bytes_of(number) / layers.bytes
            left = max(0, (bar.total or 0) - bar.n)
            bar.update(min(share, left))
        for reader in readers.values():
            reader.stage = model.backbone
        del layer  # before the layer after the next is read


def _prompt_of(block: Block) -> tuple[tuple[int, ...], int]:
    """Return what blocks of one prompt share: its ids, and how many of them are read once."""
    return block.inputs.conversation.prefix_ids, len(block.inputs.prefix_ids)


def _pass_through(reader: LayerByLayer, block: Block) -> None:
    """Replace the states of a block by this layer's output for them; embed its ids at first."""
    if not block.states:
        ids = block.ids()
        with torch.no_grad():
            flat = torch.cat([piece.flatten() for piece in ids])
            hidden = layers_of(reader.model).embed(flat).cpu()  # (tokens, d)
        parts = hidden.split([piece.numel() for piece in ids])
        block.states = [
            part.view(*piece.shape, -1) for piece, part in zip(ids, parts, strict=True)
        ]
    for states in block.states:
        reader.advance(states)


def _for_layers(model: RewardModel, block: Block) -> Block:
    """Return the block as layers read it: with whole conversations if the model cannot share a
    prefix.

    InputError if the model has a sliding window shorter than a conversation.
    """
    inputs = block.inputs
    if not fits_window(model, block.longest):
        raise InputError(
            f"{model.nickname} looks back over fewer tokens than a conversation about "
            f"{inputs.conversation.prompt[:50]!r} has, which is not read layer by layer here; "
            "shorten the prompt, or load the model with --stream 0"
        )
    if can_share_prefix(model, block.longest):
        return replace(block)
    suffixes = [inputs.prefix_ids + suffix for suffix in inputs.suffixes]
    whole = replace(inputs, prefix_ids=(), suffixes=suffixes)
    return replace(block, inputs=whole)


# --- rewards by layer -----------------------------------------------------------------------------


def rewards_by_layer(
    model: RewardModel,
    prompt: str,
    replies: Sequence[str],
    bos: str = "single",
) -> np.ndarray:
    """Return the rewards of these replies after each layer, (layers, replies) float32. The last row
    is final.

    InputError unless the model was loaded with stream=True.
    """
    layers = layers_of(model)
    inputs = model.inputs_for(prompt, replies, bos=bos)
    norm = layers.final_norm()
    shape = (layers.count, len(inputs.suffixes))
    rewards = np.empty(shape, dtype=np.float32)
    for number, block, reader in after_layers(model, engine.blocks_of(inputs)):
        is_last = number == layers.count - 1
        reader.norm = torch.nn.Identity() if is_last else norm
        rewards[number, block.shard] = reader.read_off(block)
    return rewards[:, inputs.group]


def rank_correlations(rewards: np.ndarray) -> pd.DataFrame:
    """Return Spearman's rho, in [-1, 1], of each layer's rewards with the final ones, by layer
    (from 1).

    rewards: (layers, replies), as from rewards_by_layer.
    """
    ranks = _ranks(rewards)
    final = ranks[-1]
    rho = [np.corrcoef(of_layer, final)[0, 1] for of_layer in ranks]
    layers = np.arange(1, len(rewards) + 1)
    return pd.DataFrame({"layer": layers, "rho": rho})


def settled_layers(rewards: np.ndarray, near: float = NEAR) -> np.ndarray:
    """Return for each reply the layer (from 1) from which its rank stays near its final rank,
    (replies,) int.

    `near` is the largest distance of the two ranks, as a share of all replies. Rewards are (layers,
    replies).
    """
    ranks = _ranks(rewards) / rewards.shape[1]
    is_near = np.abs(ranks - ranks[-1]) <= near  # (layers, replies)
    stays = np.logical_and.accumulate(is_near[::-1])
    return len(rewards) - stays.sum(0) + 1


def _ranks(rewards: np.ndarray) -> np.ndarray:
    """Return the rank of each reply within each layer, from 1; ties share the average."""
    return pd.DataFrame(rewards).rank(axis=1).to_numpy()
