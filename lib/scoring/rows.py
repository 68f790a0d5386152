"""Rows: replies laid out to be read together behind one prompt.

A row holds the tree of some replies, depth first. Under its mask a node sees the prompt, its
ancestors and itself, as in SpecInfer (Miao et al. 2023, section 4.2, arXiv 2305.09781).
"""

from collections.abc import Sequence
from copy import copy
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicLayer, PreTrainedModel

from ..models.conversations import Ids

WIDTH = 128  # nodes of a row; it has more where replies are longer than half of it

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


class Prompt(DynamicLayer):
    """A layer's keys and values at the prompt. Rows see them, and are forgotten."""

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> Any:
        """Return these keys and values behind those of the prompt, which come first and stay."""
        layer = copy(self) if self.is_initialized else self
        layer.batch_repeat_interleave(len(keys))
        return DynamicLayer.update(layer, keys, values)


def rows_of(replies: Sequence[Ids], width: int) -> list[Row]:
    """Return sorted replies in rows of so many nodes at most; one that is longer has its own."""
    rows: list[Row] = []
    last: Ids = ()
    path: list[int] = []
    for reply in replies:
        shared = 0
        # as far as both have the same token; a slice beyond the end is empty
        while last[shared : shared + 1] == reply[shared : shared + 1] != ():
            shared += 1
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
    replies = [reply for row in rows for reply, _ in row]
    nodes = [
        [number * width + node for node in path]
        for number, row in enumerate(rows)
        for _, path in row
    ]
    each = np.array([*chain(*nodes)])
    depth = np.array([*chain(*map(range, map(len, nodes)))])
    ids, depths = np.zeros((2, len(rows), width), np.int64)
    ids.flat[each] = [*chain(*replies)]
    depths.flat[each] = depth
    seen = np.zeros((len(rows), width, width * are_trees), bool)
    if are_trees:
        sees = seen.reshape(-1, width)
        sees[each, each % width] = True
        # parents first; a node's parent stands before it in its path
        for below in range(1, depth.max() + 1):
            [at] = np.nonzero(depth == below)
            sees[each[at]] |= sees[each[at - 1]]
    tensor = torch.from_numpy
    return Rows(tensor(ids), tensor(depths), tensor(seen), replies, nodes)


def mask_of(backbone: PreTrainedModel, seen: Tensor) -> Tensor:
    """Return the mask, (rows, 1, nodes, others), in which nodes see these others."""
    hidden = torch.finfo(backbone.dtype).min
    return torch.where(seen[:, None], 0.0, hidden).to(backbone.dtype)
