"""Replies packed into rows of about 256 tokens: the way of reading that a GPU is meant for.

A row holds many replies, and those that begin alike share their first tokens, as in trees. One mask
lets each token see the prompt, its ancestors and itself, so a fast attention over whole rows can be
used; where scores are capped, as in Gemma 2, the attention stays that of trees. Norms, MLPs and
rotary embeddings are compiled on a GPU. `open_model(..., packed=True)` asks for it.
Scorer is the reference, and faster on a CPU.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel

from ..models.shared_prefix import attending, refuse_unknown
from . import trees
from .stages import Scorer

WIDTH = 256  # tokens of a row; 512 and 1,024 took 1 and 4% longer on an H200
COMPILED = ("RMSNorm", "LayerNorm", "MLP")  # how the names of compiled classes end
# an owner, the name of its function, and this function compiled
Part = tuple[object, str, Callable]


class Rows(NamedTuple):
    """Replies as rows of nodes: each node is a token that follows its ancestors.

    - ids: (rows, width), 0 where a row is padded
    - depths: (rows, width), how many ancestors each node has
    - seen: (rows, width, width) bool, which nodes each node sees: its ancestors and itself
    - leaves: (replies,), the place of each reply's last token among all rows * width
    """

    ids: Tensor
    depths: Tensor
    seen: Tensor
    leaves: Tensor


def rows_of(suffixes: Tensor, device: str, width: int = WIDTH, least: int = 1) -> Rows:
    """Return sorted suffixes packed into rows of `width` tokens, so many rows at least.

    Suffixes are ids on the CPU, (n, longest), padded at the end with -1. A reply longer than the
    width widens all rows. A reply is never divided, and its first tokens are shared within a row.
    """
    tokens = suffixes.numpy()
    lengths = (tokens >= 0).sum(1)
    width = max(width, int(lengths.max()))
    is_new, row_of = _new_in_rows(tokens, lengths, width)
    column_of = _assign_columns(is_new, row_of)  # (n, longest)
    count = max(int(row_of[-1]) + 1, least)
    ids = np.zeros((count, width), dtype=np.int64)
    depths = np.zeros_like(ids)
    replies, depth_of = np.nonzero(is_new)  # of each node, in the order of the rows
    places = row_of[replies], column_of[is_new]
    ids[places] = tokens[is_new]
    depths[places] = depth_of
    seen = _seen(ids.shape, places, column_of[replies], depth_of, device)
    leaves = row_of * width + column_of[np.arange(len(tokens)), lengths - 1]
    parts = (torch.from_numpy(part).to(device) for part in (ids, depths, leaves))
    ids_of, depths_of, leaves_of = parts
    return Rows(ids_of, depths_of, seen, leaves_of)


def _new_in_rows(
    tokens: np.ndarray, lengths: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return which tokens no reply before in the same row has, (n, longest) bool, and the row of
    each reply, (n,).
    """
    is_new = trees.new_tokens(tokens)
    row_of = _assign_rows(is_new.sum(1), lengths, width)
    is_another = row_of[1:] != row_of[:-1]
    begins = np.append(True, is_another)
    is_new[begins] = tokens[begins] >= 0
    return is_new, row_of


def _assign_columns(is_new: np.ndarray, row_of: np.ndarray) -> np.ndarray:
    """Return the column of each token of each reply, (n, longest); a token that is shared has one.

    is_new: which tokens are nodes of their own, (n, longest). row_of: the row of each reply, (n,).
    """
    rows = row_of[np.nonzero(is_new)[0]]  # of each node
    all_rows = np.arange(row_of[-1] + 1)
    first_node = np.searchsorted(rows, all_rows)  # (rows,)
    column_of = np.full(is_new.shape, -1)
    number = np.arange(len(rows))
    column_of[is_new] = number - first_node[rows]
    # A reply that shares a token has it from the last one before it that had a new token there
    reply = np.arange(len(is_new))[:, None]
    source = np.where(is_new, reply, 0)
    source = np.maximum.accumulate(source, axis=0)
    return np.take_along_axis(column_of, source, axis=0)


def _seen(
    shape: tuple[int, ...],
    places: tuple[np.ndarray, np.ndarray],
    columns: np.ndarray,
    depths: np.ndarray,
    device: str,
) -> Tensor:
    """Return which nodes of a row each node sees, (rows, width, width) bool: its ancestors and
    itself.

    places: the row and the column of each node. columns: those of its reply's tokens, (nodes,
    longest). depths: (nodes,).
    """
    rows, width = shape
    itself = torch.eye(width, dtype=torch.bool, device=device)
    seen = itself.repeat(rows, 1, 1)
    nodes, ancestors = _pairs_of(columns, depths)
    pairs = (*(part[nodes] for part in places), ancestors)
    where = tuple(torch.from_numpy(part).to(device) for part in pairs)
    seen[where] = True
    return seen


def _assign_rows(new: np.ndarray, lengths: np.ndarray, width: int) -> np.ndarray:
    """Return the row of each reply, (n,): a row is filled in order until the next reply does not
    fit.
    """
    rows: list[int] = []
    row = 0
    used = 0
    counts = zip(new.tolist(), lengths.tolist(), strict=True)
    for more, whole in counts:
        if used and used + more <= width:
            used += more
        else:  # shares no tokens with the row before
            row += bool(used)
            used = whole
        rows.append(row)
    return np.array(rows)


def _pairs_of(columns: np.ndarray, depths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each node with each of its ancestors: numbers and the ancestors' columns, (pairs,).

    columns: those of the tokens of each node's reply, (nodes, longest). depths: (nodes,).
    """
    is_ancestor = np.arange(columns.shape[1]) < depths[:, None]
    nodes, places = np.nonzero(is_ancestor)
    return nodes, columns[nodes, places]


# --- attention ------------------------------------------------------------------------------------


def _attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    *,
    scaling: float,
    shared: list[tuple[Tensor, Tensor]],
    seen: Tensor,
    sliding_window: int | None = None,
    **others: object,
) -> tuple[Tensor, None]:
    """Return the attention of rows to one prefix and to what each node sees.

    The result is (rows, width, heads, d).
    Query is (rows, heads, width, d). Key and value are (rows, kv_heads, width, d). seen is (rows,
    1, width, prefix and width). For scaling and shared see shared_prefix.attend. ValueError for an
    argument that may change the result, such as the sinks of GPT-OSS (s_aux) or a soft cap. The
    window was compared with the longest reply before (stages.can_share_prefix).
    """
    refuse_unknown(others)
    # (kv_heads, prefix, d)
    prefix_key, prefix_value = shared[module.layer_idx]  # type: ignore[index]
    count = len(query)
    prefix_key = prefix_key.expand(count, -1, -1, -1)
    prefix_value = prefix_value.expand(count, -1, -1, -1)
    # (rows, kv_heads, prefix and width, d)
    keys = torch.cat([prefix_key, key], dim=2)
    values = torch.cat([prefix_value, value], dim=2)
    is_grouped = query.shape[1] > key.shape[1]
    out = scaled_dot_product_attention(
        query, keys, values, seen, scale=scaling, enable_gqa=is_grouped
    )
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register("packed_rows", _attention)


def outputs(
    backbone: PreTrainedModel,
    length: int,
    shared: list[tuple[Tensor, Tensor]],
    rows: Rows,
) -> Tensor:
    """Return the backbone's output at each reply's last token after a prefix of this length,
    (replies, d).
    """
    count, width = rows.ids.shape
    prefix = rows.seen.new_ones(count, width, length)
    # (rows, 1, width, prefix and width)
    seen = torch.cat([prefix, rows.seen], dim=2)[:, None]
    with attending(backbone, "packed_rows"):
        out = backbone(
            input_ids=rows.ids,
            position_ids=length + rows.depths,
            use_cache=False,
            shared=shared,
            seen=seen,
        )
    return out.last_hidden_state.flatten(0, 1)[rows.leaves]


# --- compiled parts -------------------------------------------------------------------------------


def parts_of(backbone: PreTrainedModel, backend: str = "inductor") -> list[Part]:
    """Return the compiled forward functions of norms and MLPs, and the compiled rotary embedding of
    this architecture.

    Each is compiled once per process, when it first runs.
    """
    classes = dict.fromkeys(type(module) for module in backbone.modules())
    functions: list[tuple[object, str]] = [
        (each, "forward") for each in classes if each.__name__.endswith(COMPILED)
    ]
    written_in = sys.modules[type(backbone).__module__]
    if hasattr(written_in, "apply_rotary_pos_emb"):
        functions.append((written_in, "apply_rotary_pos_emb"))
    return [
        (owner, name, _compiled(getattr(owner, name), backend))
        for owner, name in functions
    ]


@lru_cache(maxsize=64)
def _compiled(function: Callable, backend: str) -> Callable:
    return torch.compile(function, dynamic=True, backend=backend)


@contextlib.contextmanager
def computing_with(parts: Sequence[Part]) -> Iterator[None]:
    """Let these owners compute by the compiled functions."""
    usual = [getattr(owner, name) for owner, name, _ in parts]
    try:
        for owner, name, compiled in parts:
            setattr(owner, name, compiled)
        yield
    finally:
        for (owner, name, _), function in zip(parts, usual, strict=True):
            setattr(owner, name, function)


# --- the reader -----------------------------------------------------------------------------------


class PackedScorer(Scorer):
    """One prompt as a model has read it, as Scorer, with replies packed into rows. Gradients are
    Scorer's own.
    """

    agreed: ClassVar[WeakKeyDictionary[PreTrainedModel, int]] = WeakKeyDictionary()
    parts: Sequence[Part] = ()

    def _read_prompt(self) -> None:
        compiled = self.model.compiled
        if compiled is None:
            compiled = self.on_gpu
        if compiled:
            backend = "inductor" if self.on_gpu else "aot_eager"
            self.parts = parts_of(self.model.backbone, backend)
        super()._read_prompt()

    @property
    def on_gpu(self) -> bool:
        return torch.device(self.model.device).type == "cuda"

    @property
    def is_capped(self) -> bool:
        """Whether scores are capped, which scaled_dot_product_attention cannot do."""
        config = self.model.backbone.config
        return getattr(config, "attn_logit_softcapping", None) is not None

    def __call__(
        self, suffixes: Sequence[tuple[int, ...]] | np.ndarray | Tensor
    ) -> np.ndarray:
        """Return the rewards of prefix + suffix, (n,) float32. The suffixes, ids, have one
        length.
        """
        piece = torch.as_tensor(suffixes)
        if self.shares_first_tokens([piece]):
            return self.of_pieces([piece])
        return super().__call__(piece)

    def of_shared(self, suffixes: Tensor) -> Tensor:
        """Return the outputs at the last token of sorted suffixes, (n, d). See trees.tree_of for
        these.
        """
        with computing_with(self.parts):
            if self.is_capped:
                return super().of_shared(suffixes)
            # two rows at least: a part compiled for one row is another one than for several
            least = 2 if self.parts else 1
            rows = rows_of(suffixes, self.model.device, least=least)
            return outputs(self.model.backbone, self.length, self.shared, rows)
