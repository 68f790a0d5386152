"""Replies packed into rows: every token sees what it should, and rewards and gradients are
Scorer's.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AttentionInterface, AutoModel, MistralConfig, Qwen2Config

from lib.apps.owner.opening import open_model as load
from lib.scoring import engine, packed, stages

PROMPT = "What, in one word, is the greatest thing ever?"
TEXTS = ["love", " hate and war", "你好", "", "love of war", "love and peace", " x"]
REPLIES = st.lists(
    st.lists(st.integers(3, 6), min_size=1, max_size=5).map(tuple),
    min_size=1,
    max_size=30,
)
FAMILIES = [
    "linear_llama",
    "linear_gemma2",
    "linear_qwen3",
    "qrm_llama",
    "qrm_gemma",
    "mistral",
    "qwen2",
]
SHAPE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.3,
}
CONFIGS = {"mistral": MistralConfig, "qwen2": Qwen2Config}


@pytest.fixture(scope="module", params=FAMILIES)
def model(request, model_of):
    if request.param not in CONFIGS:
        return model_of(request.param)
    llama = model_of("linear_llama")
    vocabulary, width = llama.backbone.embed_tokens.weight.shape
    shape = SHAPE | {"vocab_size": vocabulary, "hidden_size": width}
    torch.manual_seed(0)
    backbone = AutoModel.from_config(
        CONFIGS[request.param](**shape), attn_implementation="sdpa"
    ).eval()
    return replace(llama, backbone=backbone.requires_grad_(False))


def random_replies(seed=0):
    rng = np.random.default_rng(seed)
    return list(
        {tuple(rng.integers(40, 44, rng.integers(1, 6)).tolist()) for _ in range(120)}
    )


# --- rows -----------------------------------------------------------------------------------------


def test_rows_that_one_can_draw():
    suffixes = torch.tensor([[5, 1, -1], [5, 2, 1], [5, 2, 3], [6, 1, -1]])
    rows = packed.rows_of(suffixes, "cpu", width=5)
    # 5 1 2 1 3, of which 2 follows 5; then 6 1 does not fit
    assert rows.ids.tolist() == [[5, 1, 2, 1, 3], [6, 1, 0, 0, 0]]
    assert rows.depths.tolist() == [[0, 1, 1, 2, 2], [0, 1, 0, 0, 0]]
    assert rows.leaves.tolist() == [1, 3, 4, 6]
    assert [row.nonzero().flatten().tolist() for row in rows.seen[0]] == [
        [0],
        [0, 1],
        [0, 2],
        [0, 2, 3],
        [0, 2, 4],
    ]
    assert [row.nonzero().flatten().tolist() for row in rows.seen[1]] == [
        [0],
        [0, 1],
        [2],
        [3],
        [4],
    ]


@settings(deadline=None)
@given(replies=REPLIES, width=st.integers(1, 20))
def test_what_each_reply_sees_in_its_row_is_the_reply(replies, width):
    longest = max(map(len, replies))
    suffixes = torch.tensor(
        [[*reply, *[-1] * (longest - len(reply))] for reply in sorted(replies)]
    )
    rows = packed.rows_of(suffixes, "cpu", width)
    here = rows.ids.shape[1]
    assert here == max(width, longest)
    for reply, leaf in zip(sorted(replies), rows.leaves.tolist(), strict=True):
        row, column = divmod(leaf, here)
        path = rows.seen[row, column].nonzero().flatten()
        assert tuple(rows.ids[row, path].tolist()) == reply
        assert rows.depths[row, path].tolist() == list(range(len(reply)))
        for depth, place in enumerate(path):  # an ancestor sees the beginning alone
            assert (
                rows.seen[row, place].nonzero().flatten().tolist()
                == path[: depth + 1].tolist()
            )


def test_wide_rows_hold_no_token_twice():
    replies = sorted(random_replies())
    longest = max(map(len, replies))
    suffixes = torch.tensor(
        [[*reply, *[-1] * (longest - len(reply))] for reply in replies]
    )
    wide, narrow = (packed.rows_of(suffixes, "cpu", width) for width in (10_000, 16))
    nodes = len({reply[: k + 1] for reply in replies for k in range(len(reply))})
    assert (wide.depths > 0).sum() + len({reply[0] for reply in replies}) == nodes
    assert len(wide.ids) == 1 and len(narrow.ids) >= nodes / 16


# --- rewards --------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [8, 256])
def test_rewards_of_ids_are_those_of_replies_read_by_themselves(
    model, width, monkeypatch
):
    monkeypatch.setattr(packed.rows_of, "__defaults__", (width, 1))
    inputs = model.inputs_for(PROMPT, random_replies(), reply_mode="ids")
    pieces = [piece for block in engine.blocks_of(inputs) for piece in block.ids()]
    scorer, usual = packed.PackedScorer(model, inputs), stages.Scorer(model, inputs)
    assert scorer.shares_first_tokens(pieces)
    alone = np.concatenate([usual(piece) for piece in pieces])
    assert alone.std() > 0.01
    np.testing.assert_allclose(
        scorer.of_pieces(pieces), alone, rtol=0, atol=1e-5 * max(1, np.abs(alone).max())
    )
    np.testing.assert_allclose(
        scorer(pieces[-1]),
        usual(pieces[-1]),
        rtol=0,
        atol=1e-5 * max(1, np.abs(alone).max()),
    )


def test_rewards_of_texts_and_gradients_are_the_same(model):
    rewards = [
        engine.score_replies(replace(model, reader=reader), PROMPT, TEXTS)
        for reader in (None, packed.PackedScorer)
    ]
    np.testing.assert_allclose(
        rewards[1], rewards[0], rtol=0, atol=1e-5 * max(1, np.abs(rewards[0]).max())
    )
    inputs = model.inputs_for(PROMPT, [(40,)], reply_mode="ids")
    suffixes = np.array([[40, 41, 42], [50, 51, 52]])
    usual, rows = stages.Scorer(model, inputs), packed.PackedScorer(model, inputs)
    assert torch.equal(rows.gradients(suffixes), usual.gradients(suffixes))
    one_by_one = torch.stack([usual.gradient(suffix) for suffix in suffixes.tolist()])
    scale = float(one_by_one.abs().max())
    assert scale > 0
    torch.testing.assert_close(
        usual.gradients(suffixes), one_by_one, rtol=0, atol=1e-5 * scale
    )


def test_rows_are_what_computes_the_rewards_of_a_model_that_is_loaded_so(
    checkpoint, monkeypatch
):
    calls, usual = [], packed.outputs
    monkeypatch.setattr(
        packed,
        "outputs",
        lambda *args, **how: calls.append(args) or usual(*args, **how),
    )
    model = load(str(checkpoint("linear_llama")), device="cpu", packed=True)
    engine.score_replies(model, PROMPT, TEXTS)
    assert calls


def test_an_attention_with_an_argument_that_is_not_known_is_read_as_usual(
    model_of, monkeypatch
):
    llama, usual = model_of("linear_llama"), packed._attention
    inputs = llama.inputs_for(PROMPT, random_replies(), reply_mode="ids")
    pieces = [piece for block in engine.blocks_of(inputs) for piece in block.ids()]
    monkeypatch.setattr(packed.PackedScorer, "agreed", {})
    AttentionInterface.register(
        "packed_rows", lambda *args, **how: usual(*args, s_aux=torch.zeros(4), **how)
    )
    try:
        scorer = packed.PackedScorer(llama, inputs)
    finally:
        AttentionInterface.register("packed_rows", usual)
    assert not scorer.shares_first_tokens(pieces)


def test_conversations_beyond_the_sliding_window_are_read_as_usual(model_of):
    gemma = model_of("linear_gemma2")
    window, gemma.backbone.config.sliding_window = (
        gemma.backbone.config.sliding_window,
        8,
    )
    try:
        inputs = gemma.inputs_for(PROMPT, [(40, 41)], reply_mode="ids")
        scorer = packed.PackedScorer(gemma, inputs)
        assert not scorer.shares_first_tokens([torch.tensor([[40, 41]])])
    finally:
        gemma.backbone.config.sliding_window = window


def test_rows_refuse_scores_that_are_capped(model_of):
    gemma = model_of("linear_gemma2")
    inputs = gemma.inputs_for(PROMPT, random_replies(), reply_mode="ids")
    scorer = packed.PackedScorer(gemma, inputs)
    assert scorer.is_capped and scorer.shares_prefix
    rows = packed.rows_of(torch.tensor([[40]]), "cpu")
    with pytest.raises(ValueError, match="softcap"):
        packed.outputs(gemma.backbone, scorer.length, scorer.shared, rows)


def test_compiled_parts_are_given_two_rows_or_more():
    one = torch.tensor([[40]])
    alone, padded = packed.rows_of(one, "cpu"), packed.rows_of(one, "cpu", least=2)
    assert len(alone.ids) == 1 and len(padded.ids) == 2
    assert torch.equal(padded.ids[:1], alone.ids) and not padded.ids[1].any()
    assert torch.equal(padded.leaves, alone.leaves)


# --- compiled parts -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["linear_llama", "linear_gemma2"])
def test_compiled_parts_compute_the_same_and_are_taken_out_again(model_of, kind):
    model = model_of(kind)
    inputs = model.inputs_for(PROMPT, random_replies(), reply_mode="ids")
    pieces = [piece for block in engine.blocks_of(inputs) for piece in block.ids()]
    scorer = packed.PackedScorer(replace(model, compiled=True), inputs)
    owners = {owner for owner, _, _ in scorer.parts}
    assert {
        type(model.backbone.norm),
        type(model.backbone.layers[0].mlp),
    } < owners and len(scorer.parts) == 3
    before = type(model.backbone.norm).forward
    rewards = scorer.of_pieces(pieces)
    assert type(model.backbone.norm).forward is before
    expected = stages.Scorer(model, inputs).of_pieces(pieces)
    np.testing.assert_allclose(
        rewards, expected, rtol=0, atol=1e-5 * max(1, np.abs(expected).max())
    )
    again = packed.PackedScorer(replace(model, compiled=True), inputs)
    # compiled once
    assert [part[2] for part in again.parts] == [part[2] for part in scorer.parts]
    assert not packed.PackedScorer(model, inputs).parts  # by default on cuda alone
