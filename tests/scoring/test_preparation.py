"""Inputs that are prepared once for all prompts: the same as those that are prepared for each."""

import numpy as np
import pytest

from lib.models import conversations
from lib.scoring import engine

PROMPTS = ["What is best?", " What, in one word, is the worst thing?\n", "a", "Émile said: <b>why</b>, love"]
KINDS = ["linear_llama", "linear_gemma2", "armorm", "deberta"]


@pytest.fixture
def full(monkeypatch):
    """The number of replies of each call that prepares some in full."""
    counts, plain = [], conversations.inputs_for

    def counted(tokenizer, prompt, replies, **how):
        counts.append(len(replies))
        return plain(tokenizer, prompt, replies, **how)

    monkeypatch.setattr(conversations, "inputs_for", counted)
    return counts


def assert_same(inputs, expected):
    assert inputs.conversation == expected.conversation and inputs.prefix_ids == expected.prefix_ids
    assert inputs.suffixes == expected.suffixes and inputs.reply_ids == expected.reply_ids
    np.testing.assert_array_equal(inputs.group, expected.group)


@pytest.mark.parametrize(("reply_mode", "bos"), [("text", "double"), ("ids", "single")])
@pytest.mark.parametrize("kind", KINDS)
def test_inputs_are_those_of_each_prompt_by_itself_and_are_prepared_once(model_of, full, kind, reply_mode, bos):
    model = model_of(kind)
    replies = engine.replies_of(engine.tokens_of(model), reply_mode)
    inputs = list(engine.prepare(model, PROMPTS, replies, reply_mode=reply_mode, bos=bos))
    once = kind != "deberta" or reply_mode == "ids"  # what an encoder reads is not cut at control tokens
    assert full.count(len(replies)) == (1 if once else len(PROMPTS))
    for prompt, each in zip(PROMPTS, inputs, strict=True):
        assert_same(each, model.inputs_for(prompt, replies, reply_mode=reply_mode, bos=bos))
