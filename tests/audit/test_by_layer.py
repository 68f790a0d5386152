"""Rewards after each layer, against transformers' own hidden states of whole conversations."""

import numpy as np
import pytest
import tiny
import torch
from conftest import refusal_of

from audit.opening import open_model as load
from audit.reading.by_layer import rewards_by_layer
from lib.scoring import vocabulary

PROMPT = "What, in one word, is the greatest thing ever?"
REPLIES = ["love", " love", "war", "", "peace and hope", "a b c", "Émile"]


def by_hidden_states(model, replies):
    """The head on the states after each layer, every conversation read whole, (layers, replies)."""
    inputs, columns = model.inputs_for(PROMPT, replies), []
    position = inputs.conversation.gate_position
    for group in inputs.group:
        ids = torch.tensor([inputs.prefix_ids + inputs.suffixes[group]])
        with torch.no_grad():
            read = model.backbone(ids, output_hidden_states=True).hidden_states[1:]
            # transformers gives the last states with their norm
            states = [
                *(model.backbone.norm(each)[0] for each in read[:-1]),
                read[-1][0],
            ]
            gate = None if position is None else model.head.gate
            rows = [
                model.head(each[-1:].float(), gate and gate(each[position].float()))
                for each in states
            ]
        columns.append([float(row) for row in rows])
    return np.array(columns).T


@pytest.mark.parametrize("kind", ["linear_llama", "linear_gemma2", "armorm"])
def test_every_layer_is_read_as_the_last_one_is(tmp_path, kind):
    folder = str(tiny.make_checkpoint(tmp_path, kind))
    streamed, held = (
        load(folder, device="cpu", stream=stream) for stream in (True, False)
    )
    rewards = rewards_by_layer(streamed, PROMPT, REPLIES)
    expected = by_hidden_states(held, REPLIES)
    assert len(rewards) == len(held.backbone.layers) > 1
    assert np.ptp(expected, axis=0).max() > 0.1
    most = 1e-5 * max(1, np.abs(expected).max())
    np.testing.assert_allclose(rewards, expected, atol=most)
    last = vocabulary.score_replies(streamed, PROMPT, REPLIES)
    np.testing.assert_array_equal(rewards[-1], last)
    refusal_of(lambda: rewards_by_layer(held, PROMPT, REPLIES), "--stream 1")
