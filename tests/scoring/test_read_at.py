"""Where a reward is read when the pad token also closes a reply: as the checkpoint's own class
in transformers does.
"""

import numpy as np
import oracle
import pytest
import tiny
import torch
from conftest import refusal_of
from transformers import AutoModelForSequenceClassification, CohereCompassTextConfig

from audit.opening import open_model as load
from lib.scoring import vocabulary
from lib.scoring.reader import Reader

PROMPT = "What, in one word, is the greatest thing ever?"
CLOSING = {"linear_llama": "<|eot_id|>", "linear_gemma2": "\n", "linear_qwen3": "Ċ"}


@pytest.fixture(scope="module", params=CLOSING)
def folder(request, tmp_path_factory):
    """A checkpoint whose pad token is the last token of every conversation."""
    kind = request.param
    pad = tiny.make_tokenizer(tiny.KINDS[kind][0]).convert_tokens_to_ids(CLOSING[kind])
    return tiny.make_checkpoint(tmp_path_factory.mktemp(kind), kind, pad_token_id=pad)


@pytest.fixture(scope="module")
def model(folder):
    return load(str(folder), device="cpu")


def test_rewards_are_read_where_transformers_reads_them(folder, model):
    pad, love = model.pad_token_id, model.tokenizer.convert_tokens_to_ids("love")
    replies = [[love], [], [pad], [pad, pad], [love, pad], [pad, love], [love] * 3]
    inputs = model.inputs_for(PROMPT, replies, reply_mode="ids")
    own = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    whole = [inputs.prefix_ids + suffix for suffix in inputs.suffixes]
    assert all(ids[-1] == pad for ids in whole)  # otherwise both rules are one
    with torch.no_grad():
        expected = np.array([float(own(torch.tensor([ids])).logits) for ids in whole])
    atol = 2e-5 * max(1, np.abs(expected).max())
    read = Reader(model, inputs)
    assert read.limit
    rewards = read.rewards(inputs.suffixes)
    np.testing.assert_allclose(rewards, expected, atol=atol, rtol=0)
    read.limit = 0  # whole
    again = read.rewards(inputs.suffixes)
    np.testing.assert_allclose(again, expected, atol=atol, rtol=0)
    last = load(str(folder), device="cpu", read_at="last")
    others = vocabulary.score_replies(last, PROMPT, replies, reply_mode="ids")
    assert np.abs(others - rewards[inputs.group]).max() > 0.1


def test_a_pooling_that_config_json_names_is_refused(tmp_path):
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
    of_layers = {"full_attention": rope, "sliding_attention": rope}
    how = tiny.TWO_LAYERS | {"rope_parameters": of_layers}
    for pooling in ("eos", "mean"):
        config = CohereCompassTextConfig(**how, pooling=pooling)
        config.num_labels = 1
        tiny.save_other(tmp_path / pooling, config, template="llama3")
    model = load(tmp_path / "eos", device="cpu")
    rewards = vocabulary.score_replies(model, PROMPT, ["love", "war"])
    own = oracle.own_logits(tmp_path / "eos", PROMPT, ["love", "war"])[:, 0]
    np.testing.assert_allclose(rewards, own, rtol=0, atol=1e-5)
    refusal_of(lambda: load(tmp_path / "mean", device="cpu"), "pooling 'mean'")


def test_no_gradient_reaches_what_comes_after_the_token_that_is_read(model):
    read = Reader(model, model.inputs_for(PROMPT, ["love"]))
    pad = model.pad_token_id
    gradient, of_pads = read.gradients([(5, pad, pad), (pad,)])
    assert (gradient[0] != 0).any() and not gradient[1:].any()
    # the prompt is read, whatever the reply
    assert not of_pads.any()
