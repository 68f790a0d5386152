"""Inputs that are prepared once for all prompts: the same as those that are prepared for each."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from lib import InputError
from lib.models import conversations
from lib.scoring import engine, stages

PROMPTS = [
    "What is best?",
    " What, in one word, is the worst thing?\n",
    "a",
    "Émile said: <b>why</b>, love",
]
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
    assert (
        inputs.conversation == expected.conversation
        and inputs.prefix_ids == expected.prefix_ids
    )
    assert (
        inputs.suffixes == expected.suffixes and inputs.reply_ids == expected.reply_ids
    )
    np.testing.assert_array_equal(inputs.group, expected.group)


@pytest.mark.parametrize(("reply_mode", "bos"), [("text", "double"), ("ids", "single")])
@pytest.mark.parametrize("kind", KINDS)
def test_inputs_are_those_of_each_prompt_by_itself_and_are_prepared_once(
    model_of, full, kind, reply_mode, bos
):
    model = model_of(kind)
    replies = engine.replies_of(engine.tokens_of(model), reply_mode)
    inputs = list(
        engine.prepare(model, PROMPTS, replies, reply_mode=reply_mode, bos=bos)
    )
    # what an encoder reads is not cut at control tokens
    once = kind != "deberta" or reply_mode == "ids"
    assert full.count(len(replies)) == (1 if once else len(PROMPTS))
    for prompt, each in zip(PROMPTS, inputs, strict=True):
        assert_same(
            each, model.inputs_for(prompt, replies, reply_mode=reply_mode, bos=bos)
        )


def test_the_next_block_is_made_while_the_caller_computes_but_not_on_a_cpu(model_of):
    model = model_of("linear_llama")
    blocks = engine.blocks_of(
        model.inputs_for("Why?", [(i,) for i in range(40, 60)], reply_mode="ids"),
        most=5,
    )
    made = [threading.Event() for _ in blocks]

    def source():
        for block, event in zip(blocks, made, strict=True):
            yield block
            event.set()  # asked for the one after it

    on_gpu = replace(model, device="cuda")
    for number, block in enumerate(stages.made_ahead(on_gpu, source())):
        assert block is blocks[number]
        assert made[number].wait(timeout=10)  # without a further call by this thread
        assert [piece.tolist() for piece in block.ids()] == [
            piece.tolist() for piece in block.prepared
        ]
    for event in made:
        event.clear()
    assert (
        next(stages.made_ahead(model, source())) is blocks[0] and not made[0].is_set()
    )


def test_an_error_while_the_next_block_is_made_reaches_the_caller(model_of):
    def source():
        yield engine.blocks_of(
            model_of("linear_llama").inputs_for("Why?", [(40,)], reply_mode="ids")
        )[0]
        raise InputError("the tokenizer cannot read this")

    ahead = stages.made_ahead(
        replace(model_of("linear_llama"), device="cuda"), source()
    )
    next(ahead)
    with pytest.raises(InputError, match="cannot read this"):
        next(ahead)
