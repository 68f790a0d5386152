"""Rewards after each layer, against transformers' own hidden states of whole conversations."""

import numpy as np
import pytest
import tiny
import torch

from audit.opening import open_model as load
from audit.reading.by_layer import rank_correlations, rewards_by_layer, settled_layers
from lib import InputError
from lib.scoring import vocabulary

PROMPT = "What, in one word, is the greatest thing ever?"
REPLIES = ["love", " love", "war", "", "peace and hope", "a b c", "Émile"]


def by_hidden_states(model, replies):
    """The head on the states after each layer, every conversation read whole, (layers, replies)."""
    inputs, columns = model.inputs_for(PROMPT, replies), []
    position, last = inputs.conversation.gate_position, len(model.backbone.layers)
    for group in inputs.group:
        ids = torch.tensor([inputs.prefix_ids + inputs.suffixes[group]])
        with torch.no_grad():
            states = model.backbone(ids, output_hidden_states=True).hidden_states[1:]
            normed = [
                states[k][0] if k == last - 1 else model.backbone.norm(states[k])[0]
                for k in range(last)
            ]
            at = model.read_at == "last_not_pad" and int(
                max(i for i, t in enumerate(ids[0]) if t != model.pad_token_id)
            )
            gates = [
                None if position is None else model.head.gate(each[position].float())
                for each in normed
            ]
            read = [each[at or -1][None].float() for each in normed]
            columns.append(
                [float(model.head(*given)) for given in zip(read, gates, strict=True)]
            )
    return np.array(columns).T


@pytest.mark.parametrize(
    "kind",
    [
        "linear_llama",
        "linear_gemma2",
        "linear_qwen3",
        "armorm",
        "qrm_gemma",
        "pad closes",
    ],
)
def test_every_layer_is_read_as_the_last_one_is(tmp_path, kind):
    pad = (
        {
            "pad_token_id": tiny.make_tokenizer("llama").convert_tokens_to_ids(
                "<|eot_id|>"
            )
        }
        if kind == "pad closes"
        else {}
    )
    folder = str(tiny.make_checkpoint(tmp_path, "linear_llama" if pad else kind, **pad))
    streamed, held = (
        load(folder, device="cpu", stream=stream) for stream in (True, False)
    )
    rewards, expected = (
        rewards_by_layer(streamed, PROMPT, REPLIES),
        by_hidden_states(held, REPLIES),
    )
    assert (
        len(rewards) == len(held.backbone.layers) > 1
        and np.ptp(expected, axis=0).max() > 0.1
    )
    np.testing.assert_allclose(
        rewards, expected, atol=1e-5 * max(1, np.abs(expected).max())
    )
    np.testing.assert_array_equal(
        rewards[-1], vocabulary.score_replies(streamed, PROMPT, REPLIES)
    )
    with pytest.raises(InputError, match="with --stream 1"):
        rewards_by_layer(held, PROMPT, REPLIES)


def test_a_rank_is_settled_where_it_comes_near_the_last_one_and_stays():
    rewards = np.array(
        [[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [0, 1, 2, 3]], dtype=float
    )
    assert settled_layers(rewards).tolist() == [3, 4, 4, 3]
    # the second layer has these one place off
    assert settled_layers(rewards, near=0.25).tolist() == [3, 1, 1, 3]
    assert rank_correlations(rewards)["rho"].tolist() == pytest.approx([1, -1, 0.8, 1])
