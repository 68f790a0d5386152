"""Models read layer by layer: the weights pass through memory once for many replies, and each layer
reads all of them.

Rewards by layer: the final norm and the head read the states after each layer, as if the model
ended there. As in the logit lens (nostalgebraist 2020; Belrose et al. 2023, arXiv 2303.08112); no
head was trained on such states.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from ..paper import InputError, RewardModel, files, hardware, io, products, vocabulary
from ..paper import reader as scoring_reader
from .layers import Layers

# of all replies; a rank that stays as near as this to the final one is settled
NEAR = 0.05
# tokens whose states wait while weights pass through once
TOKENS_PER_PASS = {"cpu": 2**15, "mps": 2**17, "cuda": 2**18}
HOLD = "hold two layers and the hidden states"


class LayerByLayer(scoring_reader.Reader):
    """One prompt as the layers have read it so far, and the replies of one part.

    - norm: what states pass before the head reads them. The last layer ends with the final norm.
    - held: the rows of the replies, and their states on the CPU; order: the replies' numbers
    - at_once: how many rows a layer reads at once; fewer once memory ran out
    """

    norm: torch.nn.Module = torch.nn.Identity()
    held: Sequence[tuple[scoring_reader.Rows, Tensor]] = ()
    at_once = 2**30
    order: Sequence[int] = ()

    def read_prompt(self) -> None:
        """Read nothing yet: see through."""

    def rewards(self, replies: Sequence[tuple[int, ...]]) -> np.ndarray:
        raise InputError(
            f"{self.model.nickname} is read layer by layer, once for all replies; load with "
            "--stream 0"
        )

    gradients = rewards  # type: ignore[assignment]

    def hold(self, part: vocabulary.Part) -> None:
        """Put the replies of a part into rows, and embed them."""
        batches, self.order = self.in_batches(part.replies, lambda rows: rows)
        ids = torch.cat([rows.ids.flatten() for rows in batches])
        with torch.no_grad():
            flat = layers_of(self.model).embed(ids).cpu()  # (tokens, d)
        sizes = [rows.ids.numel() for rows in batches]
        each = zip(batches, flat.split(sizes), strict=True)
        self.held = [(rows, some.unflatten(0, rows.ids.shape)) for rows, some in each]

    @torch.inference_mode()
    def through(self, layer: torch.nn.Module) -> None:
        """Let the next layer read the prompt and the replies; rows are halved for good when memory
        runs out.
        """
        self.stage = layer
        with (
            products.computing(self.model),
            files.enough_memory("read one row of replies"),
        ):
            if self.limit:
                prompt = torch.tensor([self.inputs.prefix_ids])
                first = not len(self.hidden)
                embed = layers_of(self.model).embed
                self.enter(embed(prompt) if first else self.hidden[None])
            self.held = [(rows, self.in_pieces(rows, some)) for rows, some in self.held]

    def in_pieces(self, rows: scoring_reader.Rows, states: Tensor) -> Tensor:
        """Return the states of some rows after the stage, read in pieces of `at_once` rows."""
        found: list[Tensor] = []
        while (start := sum(map(len, found))) < len(states):
            some = slice(start, start + self.at_once)
            piece = rows._replace(depths=rows.depths[some], seen=rows.seen[some])
            try:
                found.append(self.states(piece, states[some]).cpu())
                continue
            except (RuntimeError, MemoryError) as error:
                if len(states[some]) == 1 or not io.is_of_memory(error):
                    raise
            # out of the except clause, whose traceback holds what was too large
            hardware.release()
            self.at_once = len(states[some]) // 2
        return torch.cat(found)

    @torch.inference_mode()
    def read_off(self) -> np.ndarray:
        """Return the rewards of the replies as if the model ended after this layer and `norm`,
        (replies,) float32.
        """
        found = [self.read(*each).float().cpu() for each in self.held]
        return torch.cat(found).numpy()[np.argsort(self.order)]

    def read(self, rows: scoring_reader.Rows, states: Tensor) -> Tensor:
        prompt = self.hidden
        if len(prompt):
            self.hidden = self.norm(prompt)
        rewards = super().read(rows, self.norm(states.to(self.model.device)))
        self.hidden = prompt
        return rewards

    @classmethod
    def each(
        cls, model: RewardModel, parts: Iterable[vocabulary.Part], bar: tqdm
    ) -> Iterator[tuple[vocabulary.Part, np.ndarray]]:
        """Yield the parts with their rewards; weights are read once for TOKENS_PER_PASS tokens."""
        last = layers_of(model).count - 1
        kind = torch.device(model.device).type
        most = TOKENS_PER_PASS.get(kind, 2**15)
        for number_of_pass, together in enumerate(_passes(parts, most)):
            if number_of_pass == 0 and not bar.disable:
                _report_passes(model, most)
            for number, part, reader in after_layers(model, together, bar):
                if number == last:
                    yield part, reader.read_off()


def layers_of(model: RewardModel) -> Layers:
    """Return the layers of a model in their files. InputError if it was loaded otherwise."""
    if model.layers is None:
        raise InputError(
            f"the layers of {model.nickname} are not read one by one; load its checkpoint with "
            "--stream 1"
        )
    return model.layers


def _report_passes(model: RewardModel, most: int) -> None:
    layers = layers_of(model)
    tqdm.write(
        f"{model.nickname}: {layers.bytes / 1e9:.2g} GB of weights are read once for every "
        f"{most:,} tokens of replies; two layers take {2 * layers.largest / 1e9:.2g} GB of "
        "memory"
    )


def _passes(
    parts: Iterable[vocabulary.Part], most: int
) -> Iterator[list[vocabulary.Part]]:
    """Yield the parts in lists of at most that many tokens, and at least one part."""
    together: list[vocabulary.Part] = []
    tokens = 0
    for part in parts:
        size = sum(map(len, part.replies))
        if together and tokens + size > most:
            yield together
            together = []
            tokens = 0
        together.append(part)
        tokens += size
    if together:
        yield together


def after_layers(
    model: RewardModel, parts: Sequence[vocabulary.Part], bar: tqdm | None = None
) -> Iterator[tuple[int, vocabulary.Part, LayerByLayer]]:
    """Yield each part after each layer, with the layer's number and the reader of the part.

    All weights are read once.
    """
    layers = layers_of(model)
    bar = bar if bar is not None else tqdm(disable=True)
    readers = [LayerByLayer(model, part.inputs) for part in parts]
    for number, layer in layers.each():
        bar.set_postfix_str(f"layer {number + 1} of {layers.count}")
        for part, reader in zip(parts, readers, strict=True):
            with files.enough_memory(HOLD):
                if number == 0:
                    if not reader.limit:
                        reader.report()
                    reader.hold(part)
                reader.through(layer)
            yield number, part, reader
            # In shares of replies, whose sum may come out a little too large
            share = len(part.replies) * layers.bytes_of(number) / layers.bytes
            left = max(0, (bar.total or 0) - bar.n)
            bar.update(min(share, left))
            reader.stage = model.backbone
        del layer  # before the layer after the next is read


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
    parts = [vocabulary.Part(inputs, inputs.suffixes)]
    for number, _, reader in after_layers(model, parts):
        is_last = number == layers.count - 1
        reader.norm = torch.nn.Identity() if is_last else norm
        rewards[number] = reader.read_off()
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
