"""Weights that pass through once: the same rewards as in memory, in little memory and after any
interruption.
"""

import gc
import weakref
from collections import Counter

import numpy as np
import oracle
import pandas as pd
import pytest
import tiny
from conftest import refusal_of

from audit.opening import open_model as load
from audit.reading import by_layer, layers
from audit.reading.by_layer import LayerByLayer
from audit.reading.layers import Layers
from lib.models import conversations
from lib.scoring import reader, vocabulary

PROMPTS = {
    "greatest": "What, in one word, is the greatest thing ever?",
    "longer": "What, in one word and without thinking about it, is the greatest thing that was "
    "ever made?",
}
PROMPT = PROMPTS["greatest"]


@pytest.fixture
def in_parts(checkpoint):
    """The folder of a tiny checkpoint whose weights are in three files; a Gemma 2 has four
    layers.
    """

    def folder_of(kind="linear_llama"):
        fields = {"num_hidden_layers": 4} if kind == "linear_gemma2" else {}
        return checkpoint(kind, shards=3, **fields)

    return folder_of


@pytest.fixture
def both(in_parts):
    """A kind's model, its weights in memory and streamed."""

    def loaded(kind="linear_llama", **options):
        return [
            load(in_parts(kind), device="cpu", stream=stream, **options)
            for stream in (False, True)
        ]

    return loaded


@pytest.mark.parametrize(
    ("kind", "reply_mode", "options"),
    [
        ("linear_llama", "text", {}),
        ("armorm", "ids", {}),
        ("linear_gemma2", "ids", {}),
        ("linear_gemma2", "text", {"attention": "uncapped"}),
    ],
)
def test_rewards_are_those_of_weights_in_memory_and_of_the_oracle(
    in_parts, both, kind, reply_mode, options
):
    held, streamed = both(kind, **options)
    assert held.layers is None is not streamed.layers
    tokens = conversations.vocabulary(held.tokenizer)
    ids = [[i] for i in tokens["token_id"].tolist()]
    replies = tokens["text"].tolist() if reply_mode == "text" else ids
    expected = vocabulary.score_replies(held, PROMPT, replies, reply_mode=reply_mode)
    rewards = vocabulary.score_replies(streamed, PROMPT, replies, reply_mode=reply_mode)
    assert expected.std() > 0.1  # otherwise 1e-5 would say nothing
    most = 1e-5 * max(1, np.abs(expected).max())
    np.testing.assert_allclose(rewards, expected, atol=most, rtol=0)
    if not options:
        plain = oracle.rewards(
            in_parts(kind), PROMPT, replies[::17], reply_mode=reply_mode
        )
        np.testing.assert_allclose(rewards[::17], plain, atol=most, rtol=0)


def test_layers_that_attend_both_ways_read_whole_conversations(checkpoint):
    folder = checkpoint("linear_llama", is_causal=False)
    streamed = load(folder, device="cpu", stream=True)
    replies = ["love", "war and peace", "no"]
    expected = oracle.own_logits(folder, PROMPT, replies)[:, 0]
    with pytest.warns(UserWarning, match="read whole"):
        rewards = vocabulary.score_replies(streamed, PROMPT, replies)
    np.testing.assert_allclose(rewards, expected, atol=1e-5, rtol=0)


# --- one pass over the weights --------------------------------------------------------------------


@pytest.fixture
def reads(monkeypatch):
    """How often each layer was read."""
    counted, plain = Counter(), Layers._tensors

    def counting(self, number):
        counted[number] += 1
        return plain(self, number)

    monkeypatch.setattr(Layers, "_tensors", counting)
    return counted


def score(model, prompts, path):
    return vocabulary.score_vocabulary(model, prompts, path, progress=False)


def test_each_prompt_costs_one_reading_of_the_weights(both, tmp_path, reads):
    held, streamed = both()
    whole = score(held, PROMPTS, tmp_path / "whole.parquet")
    table = score(streamed, PROMPTS, tmp_path / "table.parquet")
    pd.testing.assert_frame_equal(table, whole, atol=1e-5, rtol=0)
    assert reads == dict.fromkeys(range(streamed.layers.count), len(PROMPTS))
    # it goes on in memory, and all of it is there
    again = score(held, PROMPTS, tmp_path / "table.parquet")
    pd.testing.assert_frame_equal(again, table)


def test_at_most_two_layers_are_held_at_a_time(both, monkeypatch):
    """When one is put together, the one before is gone; only the next is being read."""
    _, streamed = both("linear_gemma2")
    made, held, plain = [], [], Layers._with

    def watched(self, number, tensors):
        gc.collect()
        held.append(sum(ref() is not None for ref in made))
        layer = plain(self, number, tensors)
        made.append(weakref.ref(layer.layers[0].mlp.up_proj.weight))
        return layer

    monkeypatch.setattr(Layers, "_with", watched)
    vocabulary.score_replies(streamed, PROMPT, ["love", "war"])
    assert held == [0, 0, 0, 0]


# --- which way ------------------------------------------------------------------------------------


def test_layers_are_read_one_by_one_where_weights_do_not_fit(
    in_parts, monkeypatch, capsys
):
    folder = str(in_parts("linear_llama"))
    assert load(folder, device="cpu").layers is None
    monkeypatch.setattr(layers, "WORKING_MEMORY", 10_000)
    held = load(folder, device="cpu", stream=False).backbone
    needed = sum(parameter.nbytes for parameter in held.parameters())
    for room, streamed in ((needed + 10_000, False), (needed + 9_999, True)):
        monkeypatch.setattr(layers, "free_memory", lambda device, room=room: room)
        assert (load(folder, device="cpu").layers is not None) == streamed
    assert "so they are read layer by layer" in capsys.readouterr().out
    assert load(folder, device="cpu", stream=False).layers is None


def test_an_encoder_is_refused(checkpoint):
    encoder = checkpoint("deberta")
    refusal_of(lambda: load(encoder, device="cpu", stream=True), "leave stream out")


def test_positions_beyond_a_dynamic_limit_are_those_of_each_conversation_alone(
    tmp_path,
):
    rope = {"rope_type": "dynamic", "factor": 8.0}
    fields = {"max_position_embeddings": 8, "rope_scaling": rope}
    folder = tiny.make_checkpoint(tmp_path, "linear_llama", template="llama3", **fields)
    model = load(folder, device="cpu", stream=True)
    replies = ["love", "the water and the forest " * 4]
    asked = [PROMPTS["longer"], "Why?"]
    inputs = [model.inputs_for(prompt, replies) for prompt in asked]
    found = np.concatenate(by_layer.score_inputs(model, inputs))
    expected = [
        oracle.rewards(folder, prompt, [reply])[0]
        for prompt in asked
        for reply in replies
    ]
    np.testing.assert_allclose(found, expected, atol=5e-5)
    assert np.ptp(expected) > 1


def test_out_of_memory_halves_the_batch(both, monkeypatch):
    held, streamed = both()
    ids = [[i] for i in range(5, 13)]  # two in each row
    expected = vocabulary.score_replies(held, PROMPT, ids, reply_mode="ids")
    plain, sizes = LayerByLayer.states, []
    monkeypatch.setattr(reader, "WIDTH", 4)

    def starved(self, rows, states):
        sizes.append(len(states))
        if len(states) > 2:
            raise RuntimeError(
                "DefaultCPUAllocator: not enough memory: you tried to allocate 99 bytes"
            )
        return plain(self, rows, states)

    monkeypatch.setattr(LayerByLayer, "states", starved)
    rewards = vocabulary.score_replies(streamed, PROMPT, ids, reply_mode="ids")
    np.testing.assert_allclose(rewards, expected, atol=1e-5)
    # and never tried the larger ones again
    assert sizes[:3] == [4, 2, 2] and max(sizes[1:]) == 2
