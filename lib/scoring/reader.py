"""One reader: a model reads a prompt once, and then gives the rewards of replies, and their
gradients.

Replies are read in rows, behind the prompt's cache, by transformers' own attention. Models that
SHARES does not name read every conversation whole.
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from tqdm import tqdm
from transformers import Cache, PreTrainedConfig

from .. import InputError
from ..io import is_of_memory
from ..models.conversations import Ids, Inputs
from ..models.loading import enough_memory, length_limit
from ..models.reward_models import RewardModel
from .products import computing
from .rows import WIDTH, Prompt, Rows, laid_out, mask_of, rows_of, size_of

# Model types whose prompt may be read once. Each is compared with whole conversations that
# transformers' own class reads, in tests/scoring/test_reader.py.
SHARES = (
    "gemma",
    "gemma2",
    "gemma3_text",
    "granite",
    "llama",
    "mistral",
    "olmo2",
    "phi3",
    "qwen2",
    "qwen3",
    "smollm3",
)
ATTENTIONS = ("eager", "sdpa")  # that obey the mask of a row
TOKENS = {"cpu": 512, "mps": 8192, "cuda": 16384}  # read together
# a bar on a terminal, for what takes longer than this many seconds
BAR: dict = {"unit": " replies", "leave": False, "delay": 5, "disable": None}


class Reader:
    """One prompt as a model has read it. A reply is what follows `inputs.prefix_ids`.

    - limit: how long replies may be that are read behind the prompt; 0 if conversations are read
      whole
    - tokens: read together; half as many once memory ran out
    - stage: what reads, a backbone or one layer
    - hidden, cache: the stage's output at the prompt, (prompt, d), and its keys and values there
    """

    usual = TOKENS
    per_shard = 8192  # replies of a vocabulary that are written together

    def __init__(self, model: RewardModel, inputs: Inputs):
        self.model, self.inputs = model, inputs
        self.stage: Any = model.backbone
        self.tokens = self.usual[torch.device(model.device).type]
        self.length = len(inputs.prefix_ids)
        skips = model.read_at == "last_not_pad"
        self.padding = model.pad_token_id if skips else None
        self.limit = max(0, self.longest(model.backbone.config) - self.length)
        self.hidden, self.cache = torch.empty(0), Cache([])
        self.read_prompt()

    def longest(self, config: PreTrainedConfig) -> int:
        """Return how many tokens a conversation may have that shares the prompt; 0 if none may."""
        both_ways = getattr(config, "use_bidirectional_attention", False)
        if both_ways or not getattr(config, "is_causal", True):
            return 0
        if config.model_type not in SHARES:
            return 0
        if config._attn_implementation not in ATTENTIONS:
            return 0
        # 0 means none: see loading.config_of
        window = getattr(config, "sliding_window", None) or sys.maxsize
        return min(window, length_limit(config) or sys.maxsize)

    def read_prompt(self) -> None:
        """Read the prompt, or say that every conversation is read whole."""
        if not self.limit:
            return self.report()
        with computing(self.model):
            self.enter(torch.tensor([self.inputs.prefix_ids]))

    def report(self) -> None:
        """Say, once for a model, that conversations are read whole."""
        warnings.warn(
            f"{self.model.nickname}: every conversation is read whole, which is exact but slower",
            stacklevel=2,
        )

    @torch.no_grad()
    def enter(self, given: Tensor) -> None:
        """Let the stage read the prompt: its ids, or what the stage before made of them."""
        # without the config, so that layers with a sliding window keep every key
        self.cache = Cache(layer_class_to_replicate=Prompt)
        out = self.call(given, past_key_values=self.cache, use_cache=True)
        [self.hidden] = out.last_hidden_state

    def call(self, given: Tensor, **others: Any) -> Any:
        """Return the stage's output for ids or embeddings."""
        name = "inputs_embeds" if given.is_floating_point() else "input_ids"
        return self.stage(**{name: given.to(self.model.device)}, **others)

    @torch.inference_mode()
    def rewards(self, replies: Sequence[Ids]) -> np.ndarray:
        """Return the rewards of replies, (n,) float32; (n, outputs) if the head has several.

        InputError for rewards that are not finite.
        """
        found, order = self.in_batches(replies, self.rewards_of)
        # waits for the device once, not in each batch
        rewards = torch.cat(found).float().cpu().numpy()
        if not np.isfinite(rewards).all():
            raise InputError(
                f"{self.model.nickname} gives rewards that are not finite; load it with dtype "
                "float32, or download it again: its weights may be damaged"
            )
        return rewards[np.argsort(order)]

    def rewards_of(self, rows: Rows) -> Tensor:
        return self.read(rows, self.states(rows, rows.ids))

    def gradients(self, replies: Sequence[Ids]) -> list[Tensor]:
        """Return the gradient of each reply's reward by the embedding module's outputs for it,
        (length, d) float32.
        """
        found, order = self.in_batches(replies, self.gradients_of, alone=True)
        gradients = [gradient for some in found for gradient in some]
        return [gradients[i] for i in np.argsort(order)]

    def gradients_of(self, rows: Rows) -> list[Tensor]:
        embed = self.model.backbone.get_input_embeddings()
        given = embed(rows.ids.to(self.model.device)).detach().requires_grad_()
        total = self.read(rows, self.states(rows, given)).sum()
        [gradient] = torch.autograd.grad(total, given)
        flat = gradient.flatten(0, 1).float()
        start = 0 if self.limit else self.length
        return [flat[nodes[start:]] for nodes in rows.nodes]

    def states(self, rows: Rows, given: Tensor) -> Tensor:
        """Return the stage's output at every node, (rows, width, d), for ids or embeddings, or for
        what the stage before made of them.
        """
        if not self.limit:
            return self.call(given, use_cache=False).last_hidden_state
        device = self.model.device
        seen = pad(rows.seen.to(device), (self.length, 0), value=True)
        out = self.call(
            given,
            attention_mask=mask_of(self.stage, seen),
            position_ids=self.length + rows.depths.to(device),
            past_key_values=self.cache,
            use_cache=True,
        )
        return out.last_hidden_state

    def read(self, rows: Rows, states: Tensor) -> Tensor:
        """Return the rewards that the head computes from states, (rows, width, d)."""
        head: Any = self.model.head
        gate = self.inputs.conversation.gate_position
        at = [*map(self.place, rows.replies, rows.nodes)]
        flat = torch.cat([states.flatten(0, 1), self.hidden.to(states)])
        read = flat[at].float()
        if gate is None:
            return head(read, None)
        opening = self.hidden[gate, None] if self.limit else states[:, gate]
        each = zip(read.chunk(len(opening)), opening.float(), strict=True)
        return torch.cat([head(some, head.gate(state)) for some, state in each])

    def place(self, reply: Ids, nodes: list[int]) -> int:
        """Return at which node a reward is read: the last one, or the last that is no padding.
        Below 0 it is in the prompt, counted from its end.
        """
        ids, at = self.inputs.prefix_ids + reply, -1
        while ids[at] == self.padding:
            at -= 1
        return [*range(-self.length, 0), *nodes][at]

    def in_batches(
        self, replies: Sequence[Ids], function: Callable, alone: bool = False
    ) -> tuple[list, list]:
        """Return what the function makes of the replies, in batches of rows that are halved for
        good when memory runs out, and the order in which they were read.

        alone: whether each reply has a row of its own
        """
        longest = max(map(len, replies))
        if longest > self.limit:
            self.limit = 0
        read = [*map(tuple, replies)]
        width = 0 if alone else max(WIDTH, 2 * longest)
        if not self.limit:
            read = [self.inputs.prefix_ids + reply for reply in read]
            width = 0
        order = sorted(range(len(read)), key=read.__getitem__)
        if not self.limit:
            order.sort(key=lambda i: len(read[i]))
        rows = rows_of([read[i] for i in order], width)
        found: list = []
        bar = tqdm(total=len(read), **BAR)
        while rows:
            some = rows[: max(1, self.tokens // size_of(rows[0]))]
            if not self.limit:  # conversations of one length
                some = [row for row in some if size_of(row) == size_of(some[0])]
            try:
                with computing(self.model):
                    found.append(function(laid_out(some, self.limit > 0)))
                rows = rows[len(some) :]
                bar.update(sum(map(len, some)))
            except (RuntimeError, MemoryError) as error:
                if len(some) == 1 or not is_of_memory(error):
                    with enough_memory("read one row of replies"):
                        raise
                self.tokens = size_of(some[0]) * len(some) // 2
        bar.close()
        return found, order


def reader_of(model: RewardModel) -> type[Reader]:
    """Return the class that reads prompts for this model."""
    return model.reader or Reader
