"""One reader: a model reads a prompt once, and then gives the rewards of replies, and their
gradients.

A row holds the tree of some replies behind the prompt, depth first. Under its mask a node sees the
prompt, its ancestors and itself, as in SpecInfer (Miao et al. 2023, section 4.2, arXiv 2305.09781).
The attention is transformers' own. Models that SHARES does not name read every conversation whole.
"""

import sys
from collections.abc import Callable, Sequence
from copy import deepcopy
from os.path import commonprefix
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from tqdm import tqdm
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel

from ..io import is_of_memory
from ..models.checkpoints import length_limit
from ..models.conversations import Ids, Inputs
from ..models.files import enough_memory
from ..models.hardware import release
from ..models.reward_models import RewardModel
from .products import computing

# Model types whose prompt may be read once. Each is compared with whole conversations that
# transformers' own class reads, in tests/scoring/test_reader.py.
SHARES: tuple[str, ...] = ("gemma", "gemma2", "gemma3_text", "granite", "llama")
SHARES += ("mistral", "olmo2", "phi3", "qwen2", "qwen3", "smollm3")
ATTENTIONS = ("eager", "sdpa")  # that obey the mask of a row
WIDTH = 128  # nodes of a row; it has more where replies are longer than half of it
TOKENS = {"cpu": 512, "mps": 8192, "cuda": 32768}  # read together
SLOWER = 1.5  # times as many tokens, from which on the user is told
TOLD: WeakSet[PreTrainedModel] = WeakSet()  # backbones whose slow reading was reported


Row = list[tuple[Ids, list[int]]]  # what is read, and the nodes of each reply


class Rows(NamedTuple):
    """Replies that are read together, or whole conversations of one length.

    - ids, depths: (rows, width), of each node its token, and its place in the reply
    - seen: (rows, width, width) bool, which nodes each node sees: its ancestors and itself; empty
      for whole conversations
    - replies: what is read; nodes: those of each, counted over all rows
    """

    ids: Tensor
    depths: Tensor
    seen: Tensor
    replies: list[Ids]
    nodes: list[list[int]]


class Reader:
    """One prompt as a model has read it. A reply is what follows `inputs.prefix_ids`.

    - limit: how long replies may be that are read behind the prompt; 0 if conversations are read
      whole
    - tokens: read together; fewer once memory ran out
    - stage: what reads, a backbone or one layer
    - hidden, cache: the stage's output at the prompt, (prompt, d), and its keys and values there
    """

    usual = TOKENS
    per_shard = 8192  # replies of a vocabulary that are written together

    def __init__(self, model: RewardModel, inputs: Inputs, tokens: int | None = None):
        self.model, self.inputs = model, inputs
        self.stage: Any = model.backbone
        self.tokens = tokens or self.usual[torch.device(model.device).type]
        self.length = len(inputs.prefix_ids)
        skips = model.read_at == "last_not_pad"
        self.padding = model.pad_token_id if skips else None
        self.limit = max(0, self.longest(model.backbone.config) - self.length)
        self.hidden, self.cache = torch.empty(0), DynamicCache()
        self.read_prompt()

    def longest(self, config: PreTrainedConfig) -> int:
        """Return how many tokens a conversation may have that shares the prompt; 0 if none may."""
        both_ways = getattr(config, "use_bidirectional_attention", False)
        if both_ways or not getattr(config, "is_causal", True):
            return 0
        is_tested = config.model_type in SHARES
        if not is_tested or config._attn_implementation not in ATTENTIONS:
            return 0
        # 0 means none: see checkpoints.config_of
        window = getattr(config, "sliding_window", None) or sys.maxsize
        return min(window, length_limit(config) or sys.maxsize)

    def read_prompt(self) -> None:
        """Read the prompt, or report that every conversation is read whole."""
        if not self.limit:
            return self.report()
        with enough_memory("read a prompt"), computing(self.model):
            self.enter(torch.tensor([self.inputs.prefix_ids]))

    def report(self) -> None:
        """Print once per backbone that conversations are read whole, and what it costs."""
        replies = self.inputs.suffixes
        once = self.length + sum(map(len, replies))
        times = 1 + self.length * (len(replies) - 1) / once
        if times >= SLOWER and self.model.backbone not in TOLD:
            TOLD.add(self.model.backbone)
            tqdm.write(
                f"{self.model.nickname}: every conversation is read whole, which is exact but "
                f"reads {times:.1f} times as many tokens",
                file=sys.stderr,
            )

    @torch.no_grad()
    def enter(self, given: Tensor) -> None:
        """Let the stage read the prompt: its ids, or what the stage before made of them."""
        # without the config, so that layers with a sliding window keep every key
        self.cache = DynamicCache()
        out = self.call(given, past_key_values=self.cache, use_cache=True)
        [self.hidden] = out.last_hidden_state

    def call(self, given: Tensor, **others: Any) -> Any:
        """Return the stage's output for ids or embeddings."""
        name = "inputs_embeds" if given.is_floating_point() else "input_ids"
        return self.stage(**{name: given.to(self.model.device)}, **others)

    @torch.inference_mode()
    def rewards(self, replies: Sequence[Ids]) -> np.ndarray:
        """Return the rewards of replies, (n,) float32; (n, outputs) if the head has several."""
        found, order = self.in_batches(replies, self.rewards_of)
        # waits for the device once, not in each batch
        return torch.cat(found).float().cpu().numpy()[np.argsort(order)]

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
        # a reward that is read in the prompt depends on no reply
        total = self.read(rows, self.states(rows, given)).sum() + 0 * given.sum()
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
        cache = deepcopy(self.cache)
        cache.batch_repeat_interleave(len(seen))
        out = self.call(
            given,
            attention_mask=mask_of(self.stage, seen),
            position_ids=self.length + rows.depths.to(device),
            past_key_values=cache,
            use_cache=True,
        )
        return out.last_hidden_state

    def read(self, rows: Rows, states: Tensor) -> Tensor:
        """Return the rewards that the head computes from states, (rows, width, d)."""
        head: Any = self.model.head
        gate = self.inputs.conversation.gate_position
        at = list(map(self.place, rows.replies, rows.nodes))
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
    ) -> tuple[list, list[int]]:
        """Return what the function makes of the replies, in batches of rows that are halved for
        good when memory runs out, and the order in which they were read.

        alone: whether each reply has a row of its own
        """
        longest = max(map(len, replies))
        if longest > self.limit:
            self.limit = 0
        before = () if self.limit else self.inputs.prefix_ids
        read = [(*before, *reply) for reply in replies]
        lengths = [0 if self.limit else len(ids) for ids in read]
        order = sorted(range(len(read)), key=lambda i: (lengths[i], read[i]))
        width = 0 if alone or not self.limit else max(WIDTH, 2 * longest)
        rows = rows_of([read[i] for i in order], width)
        found: list = []
        done = 0
        while done < len(rows):
            some = rows[done : done + max(1, self.tokens // size_of(rows[done]))]
            if not self.limit:
                some = [row for row in some if size_of(row) == size_of(some[0])]
            try:
                with computing(self.model):
                    found.append(function(laid_out(some, self.limit > 0)))
                done += len(some)
                continue
            except (RuntimeError, MemoryError) as error:
                if len(some) == 1 or not is_of_memory(error):
                    with enough_memory("read one row of replies"):
                        raise
            # Out of the except clause, whose traceback holds the batch that was too large
            release()
            self.tokens = size_of(some[0]) * len(some) // 2
        return found, order


def rows_of(replies: Sequence[Ids], width: int) -> list[Row]:
    """Return sorted replies in rows of so many nodes at most; one that is longer has its own."""
    rows: list[Row] = []
    last: Ids = ()
    path: list[int] = []
    for reply in replies:
        shared = len(commonprefix([last, reply]))
        used = path[-1] + 1 if path else width
        if used + len(reply) - shared > width:
            rows.append([])
            used = shared = 0
        path = [*path[:shared], *range(used, used + len(reply) - shared)]
        rows[-1].append((reply, path))
        last = reply
    return rows


def size_of(row: Row) -> int:
    """Return how many nodes a row has."""
    return row[-1][1][-1] + 1


def laid_out(rows: list[Row], are_trees: bool = True) -> Rows:
    """Return rows as they are read, filled up to one width; what nodes see for trees alone."""
    width = max(map(size_of, rows))
    ids, depths = np.zeros((2, len(rows), width), np.int64)
    seen = np.tile(np.eye(width * are_trees, dtype=bool), (len(rows), 1, 1))
    replies: list[Ids] = []
    nodes: list[list[int]] = []
    for number, row in enumerate(rows):
        paths = [path for _, path in row]
        flat = [node for path in paths for node in path]
        ids[number, flat] = [token for reply, _ in row for token in reply]
        depths[number, flat] = [depth for path in paths for depth in range(len(path))]
        if are_trees:
            above = [
                (node, other)
                for path in paths
                for depth, node in enumerate(path)
                for other in path[:depth]
            ]
            seen[number][tuple(np.array(above, int).reshape(-1, 2).T)] = True
        replies += [reply for reply, _ in row]
        nodes += [[number * width + node for node in path] for path in paths]
    tensor = torch.from_numpy
    return Rows(tensor(ids), tensor(depths), tensor(seen), replies, nodes)


def mask_of(backbone: PreTrainedModel, seen: Tensor) -> Tensor:
    """Return the mask, (rows, 1, nodes, others), in which nodes see these others."""
    hidden = torch.finfo(backbone.dtype).min
    return torch.where(seen[:, None], 0.0, hidden).to(backbone.dtype)


def reader_of(model: RewardModel) -> type[Reader]:
    """Return the class that reads prompts for this model."""
    return model.reader or Reader
