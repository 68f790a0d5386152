"""Replies as a tree: each node once, and rewards as if every reply had been read by itself."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.scoring import stages, trees

PROMPT = "What, in one word, is the greatest thing ever?"
REPLIES = st.lists(
    st.lists(st.integers(3, 6), min_size=1, max_size=5).map(tuple),
    min_size=1,
    max_size=12,
    unique=True,
)


@pytest.fixture(
    scope="module",
    params=["linear_llama", "linear_gemma2", "linear_qwen3", "qrm_llama"],
)
def model(request, model_of):
    return model_of(request.param)


def pieces_of(replies):
    return [
        torch.tensor([s for s in replies if len(s) == length])
        for length in sorted(set(map(len, replies)))
    ]


def test_a_tree_that_one_can_draw():
    rows = torch.tensor([[5, 1, -1], [5, 2, 1], [5, 2, 3], [6, 1, -1]])
    tree = trees.tree_of(rows, "cpu")
    assert tree.ids.tolist() == [5, 1, 2, 1, 3, 6, 1]
    assert tree.leaves.tolist() == [1, 3, 4, 6]
    paths = [
        row[~gone].tolist()
        for row, gone in zip(tree.ancestors, tree.missing, strict=True)
    ]
    assert paths == [[0], [0, 1], [0, 2], [0, 2, 3], [0, 2, 4], [5], [5, 6]]


@settings(deadline=None)
@given(replies=REPLIES)
def test_every_reply_is_the_way_to_its_leaf_and_no_node_is_there_twice(replies):
    pieces, seen = pieces_of(replies), []
    flat = [tuple(row) for piece in pieces for row in piece.tolist()]
    for rows, numbers in trees.rows_by_depth(pieces):
        tree = trees.tree_of(rows, "cpu")
        paths = [
            tuple(tree.ids[row[~gone]].tolist())
            for row, gone in zip(tree.ancestors, tree.missing, strict=True)
        ]
        assert [paths[leaf] for leaf in tree.leaves] == [
            flat[number] for number in numbers
        ]
        seen += paths
    assert (
        len(seen)
        == len(set(seen))
        == len({s[: k + 1] for s in flat for k in range(len(s))})
    )


@pytest.mark.parametrize("tokens_per_batch", [None, 6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rewards_are_those_of_replies_read_by_themselves(
    model, dtype, tokens_per_batch
):
    rng = np.random.default_rng(0)
    replies = list(
        {tuple(rng.integers(40, 44, rng.integers(1, 6)).tolist()) for _ in range(120)}
    )
    wide = model.backbone.to(dtype)
    try:
        inputs = model.inputs_for(PROMPT, replies, reply_mode="ids")
        pieces = pieces_of(inputs.suffixes)
        scorer = stages.Scorer(model, inputs, tokens_per_batch)
        assert scorer.shares_prefix
        rewards, alone = (
            scorer.of_pieces(pieces),
            np.concatenate([scorer(piece) for piece in pieces]),
        )
    finally:
        wide.to(torch.float32)
    assert alone.std() > 0.01
    np.testing.assert_allclose(
        rewards,
        alone,
        rtol=0,
        atol=1e-5 if dtype == torch.float32 else 1e-6 * np.ptp(alone),
    )
