"""What all replies begin with is read once, with the prompt, and no reward changes."""

from dataclasses import replace

import numpy as np
import pytest

from lib.scoring import vocabulary

PROMPT = "What, in one word, is the greatest thing ever?"
BEGINNING = tuple(range(40, 60))
ENDINGS = [(), (3,), (5, 3), (5, 4), (6, 4, 3, 5), (6, 4, 3, 6)]
REPLIES = [BEGINNING + ending for ending in ENDINGS]
DECODERS = ["linear_llama", "linear_gemma2", "linear_qwen3", "urm", "qrm_llama"]


def whole(inputs):
    return [inputs.prefix_ids + suffix for suffix in inputs.suffixes]


@pytest.mark.parametrize("kind", DECODERS)
def test_rewards_are_those_of_replies_scored_one_at_a_time(model_of, kind):
    model = model_of(kind)
    together = vocabulary.score_replies(model, PROMPT, REPLIES, reply_mode="ids")
    alone = [
        vocabulary.score_replies(model, PROMPT, [reply], reply_mode="ids")[0]
        for reply in REPLIES
    ]
    assert np.std(alone) > 0.001
    spread = np.ptp(alone)
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-5 * spread)


def test_the_beginning_is_in_the_prefix_and_conversations_stay_the_same(model_of):
    model = model_of("linear_llama")
    inputs = model.inputs_for(PROMPT, REPLIES, reply_mode="ids")
    extended = vocabulary.extend_prefix(model, inputs)
    assert extended.prefix_ids == inputs.prefix_ids + BEGINNING
    assert extended.conversation.prefix_ids == extended.prefix_ids
    assert whole(extended) == whole(inputs)


def test_each_reply_keeps_an_id_where_one_is_the_beginning_of_the_others(model_of):
    model = model_of("linear_llama")
    inputs = model.inputs_for(PROMPT, ["good", "bad"])
    alike = replace(inputs, suffixes=[(7, 8), (7, 8, 9)])
    extended = vocabulary.extend_prefix(model, alike)
    assert extended.suffixes == [(8,), (8, 9)]


@pytest.mark.parametrize("kind", ["qrm_llama", "deberta"])
def test_what_reads_the_prompt_or_all_at_once_stays_whole(model_of, kind):
    model = model_of(kind)
    inputs = model.inputs_for(PROMPT, ["a good thing", "a good word"])
    assert vocabulary.extend_prefix(model, inputs) is inputs
