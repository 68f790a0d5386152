"""Models read layer by layer: the weights pass through memory once for many replies, and each layer
reads all of them.

Rewards by layer: the final norm and the head read the states after each layer, as if the model
ended there. As in the logit lens (nostalgebraist 2020; Belrose et al. 2023, arXiv 2303.08112); no
head was trained on such states.
"""

import gc
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from ..paper import InputError, RewardModel, conversations, io, products
from ..paper import reader as scoring_reader

# tokens whose states wait while weights pass through once
TOKENS_PER_PASS = {"cpu": 2**15, "mps": 2**17, "cuda": 2**18}


class LayerByLayer(scoring_reader.Reader):
    """One prompt as the layers have read it so far, and replies that follow it.

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
        if not self.limit:
            self.report()

    @property
    def per_shard(self) -> int:  # type: ignore[override]
        """Return with how many replies the tokens of a pass are reached."""
        suffixes = self.inputs.suffixes
        most = TOKENS_PER_PASS[torch.device(self.model.device).type]
        return max(1, most * len(suffixes) // sum(map(len, suffixes)))

    def rewards(self, replies: Sequence[conversations.Ids]) -> np.ndarray:
        self.hold(replies)
        for _ in after_layers([self]):
            pass
        return self.read_off()

    def gradients(self, replies: Sequence[conversations.Ids]) -> list[Tensor]:
        raise InputError(
            f"{self.model.nickname} is read layer by layer, without gradients; load with --stream 0"
        )

    def hold(self, replies: Sequence[conversations.Ids]) -> None:
        """Put replies into rows, and embed them."""
        self.hidden = torch.empty(0)
        batches, self.order = self.in_batches(replies, lambda rows: rows)
        ids = torch.cat([rows.ids.flatten() for rows in batches])
        flat = self.model.layers.embed(ids).cpu()  # (tokens, d)
        sizes = [rows.ids.numel() for rows in batches]
        each = zip(batches, flat.split(sizes), strict=True)
        self.held = [(rows, some.unflatten(0, rows.ids.shape)) for rows, some in each]

    def through(self, layer: torch.nn.Module) -> None:
        """Let the next layer read the prompt and the replies; rows are halved for good when memory
        runs out.
        """
        self.stage = layer
        if self.limit:
            given = self.hidden[None]
            if not len(self.hidden):
                given = self.model.layers.embed(torch.tensor([self.inputs.prefix_ids]))
            self.enter(given)
        self.held = [(rows, self.in_pieces(rows, some)) for rows, some in self.held]
        self.stage = self.model.backbone

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
            release()
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


def after_layers(readers: Sequence[LayerByLayer]) -> Iterator[int]:
    """Let each layer read what the readers of one model hold, and yield its number. All weights
    are read once.
    """
    model = readers[0].model
    with tqdm(total=model.layers.count, unit=" layers", leave=False) as bar:
        for number, layer in model.layers.each():
            with torch.inference_mode(), products.computing(model):
                for reader in readers:
                    reader.through(layer)
            del layer  # before the layer after the next is read
            bar.update()
            yield number


def score_inputs(
    model: RewardModel, inputs: Sequence[conversations.Inputs]
) -> list[np.ndarray]:
    """Return the rewards of the replies to each prompt, (replies,) float32. The weights are read
    once for as many prompts as the tokens of a pass allow.
    """
    most = TOKENS_PER_PASS[torch.device(model.device).type]
    sizes = np.cumsum([sum(map(len, each.suffixes)) for each in inputs])
    passes = (sizes - 1) // most
    found = []
    for number in np.unique(passes):
        some = [each for each, of in zip(inputs, passes, strict=True) if of == number]
        readers = [LayerByLayer(model, each) for each in some]
        for reader in readers:
            reader.hold(reader.inputs.suffixes)
        for _ in after_layers(readers):
            pass
        found += [reader.read_off()[reader.inputs.group] for reader in readers]
    return found


def rewards_by_layer(
    model: RewardModel, prompt: str, replies: Sequence[str], bos: str = "single"
) -> np.ndarray:
    """Return the rewards of these replies after each layer, (layers, replies) float32. The last row
    is final.

    InputError unless the model was loaded with stream=True.
    """
    if model.layers is None:
        raise InputError(f"load {model.nickname} with --stream 1 to see its layers")
    inputs = model.inputs_for(prompt, replies, bos=bos)
    norm = model.layers.final_norm()
    rewards = []
    reader = LayerByLayer(model, inputs)
    reader.hold(inputs.suffixes)
    for number in after_layers([reader]):
        is_last = number == model.layers.count - 1
        reader.norm = torch.nn.Identity() if is_last else norm
        rewards.append(reader.read_off())
    return np.array(rewards)[:, inputs.group]


def release() -> None:
    """Give back the memory of objects that are no longer used, on cards too."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
