"""One reader: a model reads a prompt once, and then gives the rewards of replies, and their
gradients.

A row holds the tree of some replies behind the prompt, depth first. Under its mask a node sees the
prompt, its ancestors and itself, as in SpecInfer (Miao et al. 2023, section 4.2, arXiv 2305.09781).
The attention is transformers' own. Models that SHARES does not name read every conversation whole.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import takewhile
from os.path import commonprefix
from typing import Any, ClassVar, NamedTuple
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel

from ..io import is_of_memory
from ..models import checkpoints
from ..models.conversations import Ids, Inputs
from ..models.files import refusing
from ..models.hardware import release
from ..models.reward_models import RewardModel
from . import products

# Model types whose prompt may be read once. Each is compared with whole conversations that
# transformers' own class reads, in tests/scoring/test_reader.py.
SHARES: tuple[str, ...] = ("gemma", "gemma2", "gemma3_text", "granite", "llama")
SHARES += ("mistral", "olmo2", "phi3", "qwen2", "qwen3", "smollm3")
FILES = "config.json or tokenizer.json"
ATTENTIONS = ("eager", "sdpa")  # that obey the mask of a row
WIDTH = 128  # nodes of a row; only a longer reply has more
TOKENS = {"cpu": 512, "mps": 8192, "cuda": 32768}  # read together
SLOWER = 1.5  # times as many tokens, from which on the user is told why
TOLD: WeakSet[PreTrainedModel] = WeakSet()  # backbones whose slow reading was reported


class Rows(NamedTuple):
    """Replies that are read together.

    - ids: (rows, width), of whole conversations or of what follows the prompt
    - depths: (rows, width), the place of each node in its reply
    - seen: (rows, width, width) bool, which nodes each node sees; None for whole conversations
    - replies: as they are read; nodes: those of each reply, counted over all rows
    """

    ids: Tensor
    depths: Tensor | None
    seen: Tensor | None
    replies: Sequence[Ids]
    nodes: list[list[int]]


class Part(NamedTuple):
    """Some of the replies to one prompt, by their numbers, and whatever goes along."""

    inputs: Inputs
    numbers: Sequence[int]
    about: Any = None

    @property
    def replies(self) -> list[Ids]:
        return [self.inputs.suffixes[number] for number in self.numbers]


class Reader:
    """One prompt as a model has read it. A reply is what follows `inputs.prefix_ids`.

    - limit: tokens up to which a conversation may share the prompt; 0 if none may, for this reason
    - tokens: read together; fewer once memory ran out
    - stage: what reads, a backbone or one layer
    - hidden, prompt: the stage's output at the prompt, (prompt, d), and the prompt's keys and
      values in each layer, (1, heads, prompt, d)
    """

    usual: ClassVar[dict[str, int]] = TOKENS
    per_shard = 8192  # replies of a vocabulary that are written together
    by_layer = False  # whether the weights pass through once for many replies
    extends = True  # whether what all replies begin with may be read with the prompt

    def __init__(self, model: RewardModel, inputs: Inputs, tokens: int | None = None):
        device = torch.device(model.device).type
        self.model, self.inputs = model, inputs
        self.length = len(inputs.prefix_ids)
        self.tokens = tokens or self.usual.get(device, 4096)
        self.pad = model.pad_token_id if model.read_at == "last_not_pad" else None
        self.stage: Any = model.backbone
        self.hidden = torch.empty(0)
        self.prompt: list[tuple[Tensor, Tensor]] = []
        self.limit, self.reason = self.limit_of(model.backbone.config)
        flown = len(inputs.conversation.prefix_ids) - self.length
        shortest = max(flown, min(map(len, inputs.suffixes)))
        if not self.length or not self.shares(shortest):
            self.limit = 0
        with checkpoints.enough_memory("read a prompt"), self.computing():
            self.read_prompt()

    def limit_of(self, config: PreTrainedConfig) -> tuple[int, str]:
        """Return how long a conversation may be that shares the prompt, and why not longer."""
        kind = config.model_type
        both_ways = getattr(config, "use_bidirectional_attention", False)
        if both_ways or not getattr(config, "is_causal", True):
            return 0, "its tokens attend to later ones"
        if kind not in SHARES or config._attn_implementation not in ATTENTIONS:
            return 0, f"no test compares {kind} models with a prompt that is read once"
        limits = {sys.maxsize: ""}
        # 0 means none: see checkpoints.config_of
        if window := getattr(config, "sliding_window", None):
            limits[window] = f"its sliding window has {window:,} tokens"
        if longest := checkpoints.length_limit(config):
            limits[longest] = f"beyond {longest:,} tokens its positions change"
        limit = min(limits)
        return limit, limits[limit]

    def read_prompt(self) -> None:
        if not self.limit:
            self.report()
            return
        with torch.no_grad():
            self.enter(torch.tensor([self.inputs.conversation.prefix_ids]))

    def shares(self, length: int) -> bool:
        """Return whether replies of this length are read behind the prompt."""
        return self.length + length <= self.limit

    def report(self) -> None:
        """Print once per backbone why conversations are read whole, and what it costs."""
        after = sum(map(len, self.inputs.suffixes))
        whole = self.length * len(self.inputs.suffixes) + after
        times = whole / (self.length + after)
        if times >= SLOWER and self.model.backbone not in TOLD:
            TOLD.add(self.model.backbone)
            tqdm.write(
                f"{self.model.nickname}: every conversation is read whole, which is exact but "
                f"reads {times:.1f} times as many tokens: {self.reason}",
                file=sys.stderr,
            )

    def enter(self, given: Tensor) -> None:
        """Let the stage read the prompt: its ids, or what the stage before made of them."""
        # without the config, so that layers with a sliding window keep every key
        cache = DynamicCache()
        out = self.call(given, past_key_values=cache, use_cache=True)
        [self.hidden] = out.last_hidden_state
        layers: list[Any] = list(cache.layers)
        kept = slice(self.length)
        self.prompt = [(x.keys[:, :, kept], x.values[:, :, kept]) for x in layers]

    def computing(self) -> AbstractContextManager:
        return products.computing(self.model, self.stage)

    def call(self, given: Tensor, **others: Any) -> Any:
        """Return the stage's output for ids or embeddings."""
        name = "inputs_embeds" if given.is_floating_point() else "input_ids"
        remedy = f"{FILES} is not what it was trained with: download them again"
        wrong = (KeyError, ValueError, TypeError, AttributeError, IndexError)
        with refusing("the model cannot read a prompt", remedy, wrong):
            return self.stage(**{name: given.to(self.model.device)}, **others)

    # --- rewards and gradients ---

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
        found, order = self.in_batches(replies, self._gradients_of, merges=False)
        gradients = [gradient for some in found for gradient in some]
        return [gradients[i] for i in np.argsort(order)]

    def _gradients_of(self, rows: Rows) -> list[Tensor]:
        embed = self.model.backbone.get_input_embeddings()
        given = embed(rows.ids.to(self.model.device)).detach().requires_grad_()
        # a reward that is read in the prompt depends on no reply
        total = self.read(rows, self.states(rows, given)).sum() + 0 * given.sum()
        [gradient] = torch.autograd.grad(total, given)
        flat = gradient.flatten(0, 1).float()
        return [flat[nodes] for nodes in rows.nodes]

    def states(self, rows: Rows, given: Tensor) -> Tensor:
        """Return the stage's output at every node, (rows, width, d), for ids or embeddings, or for
        what the stage before made of them.
        """
        if rows.seen is None:
            return self.call(given, use_cache=False).last_hidden_state
        assert rows.depths is not None
        seen = rows.seen.to(self.model.device)
        seen = torch.cat([seen.new_ones(*rows.ids.shape, self.length), seen], 2)
        copies = (len(rows.ids), -1, -1, -1)
        kept = [
            (key.expand(copies), value.expand(copies)) for key, value in self.prompt
        ]
        out = self.call(
            given,
            attention_mask=mask_of(self.stage, seen),
            position_ids=self.length + rows.depths.to(self.model.device),
            past_key_values=DynamicCache(kept),
            use_cache=True,
        )
        return out.last_hidden_state

    def read(self, rows: Rows, states: Tensor) -> Tensor:
        """Return the rewards that the head computes from states, (rows, width, d)."""
        head, gate = self.model.head, self.inputs.conversation.gate_position
        assert head is not None  # as every decoder's
        flat = states.flatten(0, 1)
        at = [self._place(rows, number) for number in range(len(rows.nodes))]
        if min(at) < 0:  # in the prompt, counted from its end
            flat = torch.cat([flat, self.hidden[: self.length]])
        read = flat[at].float()
        if gate is None:
            return head(read, None)
        if rows.seen is not None:
            return head(read, head.gate(self.hidden[gate].float()))
        gates = map(head.gate, states[:, gate].float())
        each = zip(read[:, None], gates, strict=True)
        return torch.cat([head(one, opening) for one, opening in each])

    def _place(self, rows: Rows, number: int) -> int:
        """Return at which node a reward is read: the last one, or the last that is no padding.
        Below 0 it is in the prompt.
        """
        reply, nodes = rows.replies[number], rows.nodes[number]
        at = len(reply) - 1
        while self.pad is not None and at > -self.length:
            if (reply if at >= 0 else self.inputs.prefix_ids)[at] != self.pad:
                break
            at -= 1
        if at >= 0:
            return nodes[at]
        return at if rows.seen is not None else nodes[0] + at

    # --- batches ---

    def in_batches(
        self,
        replies: Sequence[Ids],
        function: Callable[[Rows], Any],
        merges: bool = True,
    ) -> tuple[list, list[int]]:
        """Return what the function makes of the replies, in batches that are halved for good when
        memory runs out, and the order in which they were read.
        """
        replies = list(map(tuple, replies))
        whole = [0 if self.shares(len(reply)) else len(reply) for reply in replies]
        order = sorted(range(len(replies)), key=lambda i: (whole[i], replies[i]))
        found: list = []
        done = 0
        while done < len(order):
            rows = self.rows(
                [replies[i] for i in order[done : done + self.tokens]], merges
            )
            try:
                with self.computing():
                    found.append(function(rows))
                done += len(rows.nodes)
                continue
            except (RuntimeError, MemoryError) as error:
                if self.tokens == 1 or not is_of_memory(error):
                    with checkpoints.enough_memory("read one reply"):
                        raise
            # Out of the except clause, whose traceback holds the batch that was too large
            release()
            self.tokens = max(1, rows.ids.numel() // 2)
        return found, order

    def rows(self, replies: Sequence[Ids], merges: bool = True) -> Rows:
        """Return the first of these replies, in order, as they are read together."""
        length = len(replies[0])
        if not self.shares(length):
            size = self.length + length
            alike = list(takewhile(lambda reply: len(reply) == length, replies))
            alike = alike[: max(1, self.tokens // size)]
            ids = torch.tensor([self.inputs.prefix_ids + reply for reply in alike])
            ends = range(size, ids.numel() + 1, size)
            nodes = [list(range(end - length, end)) for end in ends]
            return Rows(ids, None, None, alike, nodes)
        behind = list(takewhile(lambda reply: self.shares(len(reply)), replies))
        width = max(length, min(self.tokens, max(WIDTH, *map(len, behind))))
        return rows_of(behind, width, max(1, self.tokens // width), merges)

    @classmethod
    def each(
        cls, model: RewardModel, parts: Iterable[Part], bar: tqdm
    ) -> Iterator[tuple[Part, np.ndarray]]:
        """Yield the parts with their rewards, one prompt after another."""
        reader = tokens = None
        for part in parts:
            if reader is None or reader.inputs is not part.inputs:
                reader = cls(model, part.inputs, tokens)
            yield part, reader.rewards(part.replies)
            tokens = reader.tokens  # fewer once memory ran out
            bar.update(len(part.numbers))


def mask_of(backbone: PreTrainedModel, seen: Tensor) -> Tensor:
    """Return the mask, (rows, 1, nodes, others), in which nodes see these others."""
    seen = seen[:, None]
    if backbone.config._attn_implementation != "eager":
        return seen
    mask = torch.zeros_like(seen, dtype=backbone.dtype)
    return mask.masked_fill_(~seen, torch.finfo(backbone.dtype).min)


def rows_of(replies: Sequence[Ids], width: int, most: int, merges: bool = True) -> Rows:
    """Return as many of these sorted replies as `most` rows of this width hold, from the first on.

    merges: whether replies that begin alike share nodes.
    """
    ids = np.zeros((most, width), np.int64)
    depths = np.zeros_like(ids)
    seen = np.tile(np.eye(width, dtype=bool), (most, 1, 1))
    row = used = 0
    nodes: list[list[int]] = []
    last: Ids = ()
    path: list[int] = []
    for reply in replies:
        shared = len(commonprefix([last, reply])) if merges else 0
        if used + len(reply) - shared > width:
            row, used, shared = row + 1, 0, 0
            if row == most or len(reply) > width:
                break
        path = path[:shared]
        for depth in range(shared, len(reply)):
            place = row, used
            ids[place], depths[place] = reply[depth], depth
            if depth:
                seen[place] |= seen[row, path[-1]]
            path.append(used)
            used += 1
        nodes.append([row * width + node for node in path])
        last = reply
    total = nodes[-1][-1] + 1
    rows = slice(-(-total // width))
    wide = slice(min(total, width))  # of a single row
    return Rows(
        torch.from_numpy(ids[rows, wide]),
        torch.from_numpy(depths[rows, wide]),
        torch.from_numpy(seen[rows, wide, wide]),
        replies[: len(nodes)],
        nodes,
    )


def reader_of(model: RewardModel) -> type[Reader]:
    """Return the class that reads prompts for this model."""
    return model.reader or Reader
