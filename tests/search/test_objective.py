"""Values, gains and what survives, by second counts: the oracle, finite differences, brute force."""

import unicodedata

import numpy as np
import oracle
import pytest
import tiny
from safetensors.torch import load_file

from lib import InputError
from lib.apps.owner.opening import open_model
from lib.search.objective import DIRECTIONS, Objective, allowed_ids

PROMPT = "What, in one word, is the greatest thing ever?"
KINDS = ["linear_gemma2", "armorm", "deberta"]


def objective_of(model, direction="optimal", ids=None, reply_mode="ids"):
    ids = allowed_ids(model) if ids is None else ids
    return Objective(model, PROMPT, direction, ids, reply_mode=reply_mode)


def drawn(ids, lengths, seed=1):
    """Replies of these lengths."""
    rng = np.random.default_rng(seed)
    return [tuple(rng.choice(ids, n).tolist()) for n in lengths]


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_the_oracles_rewards_with_the_sign_of_the_direction(tmp_path, kind):
    folder = tiny.make_checkpoint(tmp_path, kind)
    model = open_model(str(folder), device="cpu")
    replies = drawn(allowed_ids(model), [2, 2, 3, 20, 1, 20])
    expected = oracle.rewards(folder, PROMPT, replies, reply_mode="ids")
    assert expected.std() > 0.01  # otherwise 1e-5 would say little
    within = {"atol": 1e-5 * max(1, np.abs(expected).max()), "rtol": 0}
    for direction, sign in DIRECTIONS.items():
        values = objective_of(model, direction).values(replies)
        np.testing.assert_allclose(values, sign * expected, **within)


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
    """The value's slope by central differences, extrapolated from two steps to none (Richardson)."""
    wide, narrow = (
        (
            nudged(objective, reply, place, s * towards)
            - nudged(objective, reply, place, -s * towards)
        )
        / (2 * s)
        for s in (0.01, 0.005)
    )
    return (4 * narrow - wide) / 3


@pytest.mark.parametrize("kind", KINDS)
def test_gains_are_the_slopes_towards_other_embeddings(model_of, kind):
    model = model_of(kind)
    objective = objective_of(model, "pessimal", allowed_ids(model)[5:60:6])
    replies = drawn(objective.allowed, [3, 2])  # of two lengths at once
    for reply, gains in zip(replies, objective.gains(replies), strict=True):
        here = objective.embed(reply)
        slopes = [
            [
                slope(objective, reply, place, there - here[place])
                for there in objective.embeddings
            ]
            for place in range(len(reply))
        ]
        assert np.abs(gains).max() > 1e-3
        np.testing.assert_allclose(
            gains, slopes, atol=0.01 * np.abs(gains).max(), rtol=0
        )


def test_gains_that_are_not_centred_lack_what_the_present_token_takes_away(model_of):
    objective = objective_of(model_of("linear_gemma2"))
    [reply] = drawn(objective.allowed, [3])
    [gains], [whole] = objective.gains([reply]), objective.gains([reply], centred=False)
    stays = np.searchsorted(objective.allowed, reply)
    np.testing.assert_allclose(
        whole - gains,
        np.tile(whole[range(3), stays][:, None], len(gains[0])),
        atol=1e-5,
    )
    assert np.abs(gains[range(3), stays]).max() < 1e-5 < np.abs(whole).max()


def test_distances_are_those_of_the_table_as_the_model_scales_it(tmp_path):
    folder = tiny.make_checkpoint(tmp_path, "linear_gemma2")
    objective = objective_of(open_model(str(folder), device="cpu"))
    weights = load_file(folder / "model.safetensors")["model.embed_tokens.weight"]
    table = 48**0.5 * weights.numpy()  # Gemma multiplies by the root of the width
    [reply] = drawn(objective.allowed, [2])
    moves = table[objective.allowed][None] - table[list(reply)][:, None]
    np.testing.assert_allclose(
        objective.distances(reply), np.linalg.norm(moves, axis=2), atol=1e-3
    )


def test_rewards_that_are_not_finite_name_the_reply(model_of):
    objective = objective_of(model_of("linear_llama"))
    objective.reader = type(
        "Reader", (), {"rewards": lambda self, suffixes: np.array([1, np.nan])}
    )()
    with pytest.raises(
        InputError, match=r"reply \[41, 42\] is not finite; load the model with"
    ):
        objective.values([(40, 41), (41, 42)])


# --- which replies --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["linear_llama", "linear_gemma2", "linear_qwen3", "deberta"]
)
def test_what_survives_is_what_comes_back_within_the_whole_conversation(model_of, kind):
    model = model_of(kind)
    replies = drawn(allowed_ids(model), [1, 2, 3] * 100)
    expected = [oracle.comes_back(model.tokenizer, PROMPT, reply) for reply in replies]
    assert 5 < sum(expected) < 295
    objective = objective_of(model, reply_mode="text")
    assert objective.survives(replies).tolist() == expected
    assert objective.admits(replies).tolist() == expected
    assert objective_of(model).admits(replies).all()


def test_what_a_template_trims_survives_where_the_template_keeps_it(model_of, tmp_path):
    trims, file = model_of("linear_llama"), tmp_path / "keeps.jinja"
    file.write_text(trims.tokenizer.chat_template.replace("| trim", ""))
    keeps = open_model(trims.hub_id, device="cpu", template=file)
    spaced = [(trims.tokenizer.get_vocab()["\u0120is"],)]
    assert not objective_of(trims).survives(spaced)[0]
    assert objective_of(keeps).survives(spaced)[0]


@pytest.mark.parametrize(
    ("kind", "n"), [("linear_llama", 20), ("linear_gemma2", 2), ("linear_qwen3", 5)]
)
def test_random_replies_survive_and_text_is_the_default(model_of, kind, n):
    model = model_of(kind)
    objective = Objective(model, PROMPT, "optimal", allowed_ids(model))
    replies = objective.draw(n, np.random.default_rng(0), 6)
    assert len({*replies}) == 6 and {len(reply) for reply in replies} == {n}
    assert all(oracle.comes_back(model.tokenizer, PROMPT, reply) for reply in replies)


SPECIAL = {
    "linear_llama": {*tiny.LLAMA_CONTROL, "[PAD]"},
    "linear_qwen3": {*tiny.QWEN_CONTROL, "<think>", "</think>"},
    "deberta": {*tiny.DEBERTA_CONTROL},
}
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}  # categories of Unicode


def shows(text):
    return text.strip() != "" and all(
        c == " " or c != "\ufffd" and unicodedata.category(c) not in HIDDEN
        for c in text
    )


@pytest.mark.parametrize("kind", SPECIAL)
def test_allowed_ids_by_a_second_count(model_of, kind):
    tokenizer = model_of(kind).tokenizer
    vocabulary = tokenizer.get_vocab()
    plain = {i for token, i in vocabulary.items() if token not in SPECIAL[kind]}
    printable = {i for i in plain if shows(tokenizer.decode([i]))}
    expected = {
        "all": {*vocabulary.values()},
        "no specials": plain,
        "printable": printable,
    }
    for which, ids in expected.items():
        assert allowed_ids(model_of(kind), which).tolist() == sorted(ids)
    assert len(vocabulary) > len(plain) > len(printable) > 50
