"""Replies that begin alike share their first tokens, so each node of their tree is computed once,
for all of them.

As in SpecInfer (Miao et al. 2023, section 4.2, arXiv 2305.09781), a node attends to the prefix and
to its ancestors.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel

from ..models.shared_prefix import attend, attending


class Tree(NamedTuple):
    """The nodes of replies: each node is a token that follows its ancestors.

    A tuple, because accelerate moves the tensors in tuples to the device of each layer, and those
    in no dataclass.

    - ids: (nodes,)
    - ancestors: (nodes, depth), from the root to the node itself, padded in front; missing: bool,
      True for padding
    - leaves: (replies,), the node of each reply's last token
    """

    ids: Tensor
    ancestors: Tensor
    missing: Tensor
    leaves: Tensor


def rows_by_depth(pieces: list[Tensor]) -> Iterator[tuple[Tensor, np.ndarray]]:
    """Yield replies whose trees are equally deep, in the order of tree_of, and their numbers over
    all pieces.

    pieces: (replies, length) each. A tree holds the replies that have one first token.
    """
    counts = list(map(len, pieces))
    longest = max(piece.shape[1] for piece in pieces)
    rows = torch.full((sum(counts), longest), -1)
    for piece, part in zip(pieces, rows.split(counts), strict=True):
        part[:, : piece.shape[1]] = piece
    lengths = (rows >= 0).sum(1)
    _, first = rows[:, 0].unique(return_inverse=True)
    number_of_trees = int(first.max()) + 1
    deepest = torch.zeros(number_of_trees, dtype=torch.long)
    deepest = deepest.scatter_reduce(0, first, lengths, "amax")
    depths = deepest[first]  # of each reply's tree, (replies,)
    for depth in depths.unique().tolist():
        numbers = np.flatnonzero(depths == depth)
        ids = rows[numbers].numpy()
        numbers = numbers[np.lexsort(ids.T[::-1])]
        yield rows[numbers, :depth], numbers


def new_tokens(rows: np.ndarray) -> np.ndarray:
    """Return which tokens of sorted replies the reply before does not share, (n, longest) bool.

    rows: (n, longest) ids, padded at the end with -1.
    """
    is_new = np.ones(rows.shape, dtype=bool)
    # where a reply leaves the one before it, and from there on
    differs = rows[1:] != rows[:-1]
    is_new[1:] = np.logical_or.accumulate(differs, axis=1)
    return is_new & (rows >= 0)


def tree_of(suffixes: Tensor, device: str) -> Tree:
    """Return the tree of sorted suffixes, (n, longest) ids on the CPU, padded at the end with
    -1.
    """
    rows = suffixes.numpy()
    starts = new_tokens(rows)
    numbers = np.cumsum(starts).reshape(rows.shape) - 1
    node_of = np.where(starts, numbers, -1)
    # the last reply that had a node of its own there has this one too
    node_of = np.maximum.accumulate(node_of, axis=0)
    replies, depths = np.nonzero(starts)
    longest = rows.shape[1]
    # the node itself comes last
    places = np.arange(longest) - (longest - 1) + depths[:, None]
    ancestors = node_of[replies[:, None], places.clip(min=0)]
    last = (rows >= 0).sum(1) - 1
    leaves = node_of[np.arange(len(rows)), last]
    parts = (rows[starts], ancestors, places < 0, leaves)
    tensors = [torch.from_numpy(part).to(device) for part in parts]
    return Tree(*tensors)


def outputs(
    backbone: PreTrainedModel,
    length: int,
    shared: list[tuple[Tensor, Tensor]],
    tree: Tree,
) -> Tensor:
    """Return the backbone's output at the last token of each reply after a prefix of this
    length, (replies, d).
    """
    depths = (~tree.missing).sum(1, keepdim=True)
    positions = length + depths - 1
    with attending(backbone, "prefix_and_ancestors"):
        out = backbone(
            input_ids=tree.ids[:, None],
            position_ids=positions,
            use_cache=False,
            shared=shared,
            tree=tree,
        )
    return out.last_hidden_state[tree.leaves, 0]


def _attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    *,
    tree: Tree,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Return the attention of nodes to one prefix, to their ancestors and to themselves, (nodes, 1,
    heads, d).

    Query is (nodes, heads, 1, d). Key and value are (nodes, kv_heads, 1, d). For the rest see
    shared_prefix.attend.
    """
    # (kv_heads, nodes, d)
    keys = key[:, :, 0].transpose(0, 1)
    values = value[:, :, 0].transpose(0, 1)
    # (kv_heads, nodes, depth, d)
    keys = keys[:, tree.ancestors]
    values = values[:, tree.ancestors]
    unseen = tree.missing[:, None]
    return attend(module, query, keys, values, unseen, **kwargs)


AttentionInterface.register("prefix_and_ancestors", _attention)
