"""Values, gains and what survives, by second counts: the oracle, finite differences, brute
force.
"""

import unicodedata

import numpy as np
import oracle
import pytest
import tiny

from lib.search.objective import DIRECTIONS, Objective, allowed_ids

PROMPT = "What, in one word, is the greatest thing ever?"
KINDS = ["linear_gemma2", "armorm", "deberta"]


def objective_of(model, direction="optimal", reply_mode="ids", step=1):
    ids = allowed_ids(model)[::step]
    return Objective(model, PROMPT, direction, ids, reply_mode=reply_mode)


def drawn(ids, lengths):
    rng = np.random.default_rng(1)
    return [tuple(rng.choice(ids, n).tolist()) for n in lengths]


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_the_oracles_rewards_with_the_sign_of_the_direction(model_of, kind):
    model = model_of(kind)
    replies = drawn(allowed_ids(model), [2, 2, 3, 20, 1, 20])
    expected = oracle.rewards(model.hub_id, PROMPT, replies, reply_mode="ids")
    assert expected.std() > 0.01  # otherwise 1e-5 would say little
    for direction, sign in DIRECTIONS.items():
        values = objective_of(model, direction).values(replies)
        within = 1e-5 * max(1, np.abs(expected).max())
        np.testing.assert_allclose(values, sign * expected, atol=within, rtol=0)


def nudged(objective, reply, place, step):
    """The value of the reply with the embedding of one of its tokens moved by a step."""
    from_end = len(reply) + len(objective.conversation.closing_ids) - place

    def move(module, arguments, output):
        moved = output.clone()
        moved[:, -from_end] += step
        return moved

    module = objective.model.backbone.get_input_embeddings()
    hook = module.register_forward_hook(move)
    value = objective.values([reply])[0]
    hook.remove()
    return value


def slope(objective, reply, place, towards):
    """The slope by central differences, from two steps to none (Richardson)."""
    wide, narrow = (
        sum(
            way * nudged(objective, reply, place, way * size * towards)
            for way in (1, -1)
        )
        / (2 * size)
        for size in (0.01, 0.005)
    )
    return (4 * narrow - wide) / 3


@pytest.mark.parametrize("kind", KINDS)
def test_gains_are_the_slopes_towards_other_embeddings(model_of, kind):
    objective = objective_of(model_of(kind), "pessimal", step=25)
    replies = drawn(objective.allowed, [3, 2])  # of two lengths at once
    for reply, gains in zip(replies, objective.gains(replies), strict=True):
        slopes = [
            [
                slope(objective, reply, place, there - here)
                for there in objective.embeddings
            ]
            for place, here in enumerate(objective.embed(reply))
        ]
        within = 0.01 * np.abs(gains).max()
        assert within > 1e-5
        np.testing.assert_allclose(gains, slopes, atol=within, rtol=0)
    whole = objective.gains(replies, centred=False)[1]
    shift = whole - gains  # of the present token: the same for all swaps of a place
    assert np.ptp(shift, axis=1).max() < 0.1 * within


# --- which replies --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["linear_llama", "linear_gemma2", "linear_qwen3", "deberta"]
)
def test_what_survives_is_what_comes_back_within_the_whole_conversation(model_of, kind):
    model = model_of(kind)
    objective = objective_of(model, reply_mode="text")
    replies = drawn(allowed_ids(model), [1, 2, 3] * 50)
    expected = [oracle.comes_back(model.tokenizer, PROMPT, reply) for reply in replies]
    assert 5 < sum(expected) < 145
    assert objective.survives(replies).tolist() == expected
    for _ in range(2):  # tried, and then known
        assert objective.admits(replies).tolist() == expected
    assert objective_of(model).admits(replies).all()


HIDDEN = ["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"]  # categories of Unicode


def shows(text):
    hidden = [c for c in text if c == "\ufffd" or unicodedata.category(c) in HIDDEN]
    return text.strip() != "" and {*hidden} <= {" "}


def test_allowed_ids_by_a_second_count(model_of):
    model = model_of("linear_qwen3")
    vocabulary = model.tokenizer.get_vocab()
    special = {*tiny.QWEN_CONTROL, "<think>", "</think>"}
    plain = {i for token, i in vocabulary.items() if token not in special}
    printable = {i for i in plain if shows(model.tokenizer.decode([i]))}
    assert len(vocabulary) > len(plain) > len(printable) > 50
    sets = {"all": vocabulary.values(), "no specials": plain, "printable": printable}
    for which, ids in sets.items():
        assert allowed_ids(model, which).tolist() == sorted(ids)
