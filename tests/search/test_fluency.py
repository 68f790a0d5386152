"""Fluent replies by a second count: one plain forward pass per token, a sort, a sum."""

from functools import cache

import numpy as np
import pytest
import tiny
import torch
from tiny_causal import make_causal
from transformers import AutoTokenizer

from lib import InputError
from lib.models import language_models, reward_models
from lib.search.as_text import RoundTrip
from lib.search.fluency import Fluency
from lib.search.gcg import Settings
from lib.search.objective import Objective, allowed_ids
from lib.search.searches import search

PROMPT = "What, in one word, is the greatest thing ever?"
FAMILIES = {"linear_llama": "llama", "linear_gemma2": "gemma2", "linear_qwen3": "qwen3"}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """kind -> (reward model, language model) of one tokenizer."""

    def of(kind):
        folder = tmp_path_factory.mktemp(kind)
        reward = reward_models.load(
            str(tiny.make_checkpoint(folder / "reward", kind)), device="cpu"
        )
        return reward, language_models.load(
            str(make_causal(folder / "language", FAMILIES[kind])), device="cpu"
        )

    return cache(of)


@pytest.fixture
def pair(models):
    return models("linear_llama")


@pytest.fixture
def ids(pair):
    """Sixty printable ids, ascending."""
    return np.sort(
        np.random.default_rng(0).choice(allowed_ids(pair[0]), 60, replace=False)
    )


def likelihoods(language_model, before, allowed):
    """Allowed id -> its probability among them after the prompt and these tokens, likeliest
    first.
    """
    with torch.no_grad():
        tokens = torch.tensor([[*language_model.encode(PROMPT), *before]])
        logits = language_model.model(tokens).logits[0, -1].double()
    weights = {i: float(logits[i].exp()) for i in allowed}
    total = sum(weights.values())
    return {
        i: weight / total
        for i, weight in sorted(weights.items(), key=lambda item: -item[1])
    }


def nucleus(language_model, before, allowed, top_p):
    """The ids of which those that are likelier have less than top_p in all."""
    inside, likelier = set(), 0.0
    for i, probability in likelihoods(language_model, before, allowed).items():
        # what is inside is not a matter of rounding
        assert abs(likelier - top_p) > 1e-6
        if likelier < top_p:
            inside.add(i)
        likelier += probability
    return inside


def is_fluent(language_model, reply, allowed, top_p):
    return all(
        reply[i] in nucleus(language_model, reply[:i], allowed, top_p)
        for i in range(len(reply))
    )


def some_replies(language_model, allowed, top_p, length, rng):
    """Replies of which about half are fluent: each token drawn from the nucleus, then one of
    them perhaps redrawn.
    """
    for number in range(12):
        reply = []
        for _ in range(length):
            reply.append(
                int(rng.choice(sorted(nucleus(language_model, reply, allowed, top_p))))
            )
        if number % 2:
            reply[rng.integers(length)] = int(rng.choice(allowed))
        yield reply


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_reply_is_fluent_if_every_token_is_in_its_nucleus(models, kind):
    model, language_model = models(kind)
    allowed = allowed_ids(model, "printable")
    for top_p in (0.3, 0.9):
        fluency = Fluency(language_model, model, PROMPT, allowed, top_p)
        replies = list(
            some_replies(
                language_model, allowed.tolist(), top_p, 3, np.random.default_rng(1)
            )
        )
        expected = [
            is_fluent(language_model, reply, allowed.tolist(), top_p)
            for reply in replies
        ]
        found = fluency(np.array(replies))
        assert found.dtype == bool and found.tolist() == expected
        assert 6 <= sum(expected) < 12


def test_a_prompt_whose_keys_cannot_be_kept_is_read_with_each_reply(pair, ids):
    kept, whole = (Fluency(pair[1], pair[0], PROMPT, ids) for _ in range(2))
    keys, after_prompt = kept._prompt_read
    assert keys is not None
    whole.__dict__["_prompt_read"] = None, after_prompt
    for length in (0, 1, 3):
        replies = np.random.default_rng(length).choice(ids, (5, length))
        found = [fluency._probabilities(replies) for fluency in (kept, whole)]
        assert found[0].shape == (5, length + 1, len(ids))
        torch.testing.assert_close(*found)


def test_swaps_tell_for_each_place_what_may_follow(pair):
    model, language_model = pair
    allowed = allowed_ids(model, "printable")
    fluency = Fluency(language_model, model, PROMPT, allowed, 0.8)
    reply = fluency.draw(3, np.random.default_rng(2))
    asked = np.unique([*allowed[::2], *reply])
    expected = [
        nucleus(language_model, reply[:i], allowed.tolist(), 0.8) for i in range(3)
    ]
    found = fluency.swaps(reply, asked)
    assert found.shape == (3, len(asked))
    assert [set(asked[row].tolist()) for row in found] == [
        inside & set(asked.tolist()) for inside in expected
    ]
    # staying is fluent
    assert all(found[i, np.searchsorted(asked, token)] for i, token in enumerate(reply))


@pytest.mark.parametrize("top_p", [1e-9, 0.8])
def test_what_is_drawn_is_fluent(pair, ids, top_p):
    fluency = Fluency(pair[1], pair[0], PROMPT, ids, top_p)
    for length in (1, 4):
        drawn = [
            fluency.draw(length, np.random.default_rng(seed)) for seed in range(10)
        ]
        assert fluency(np.array(drawn)).all()
        assert {len(reply) for reply in drawn} == {length}
        assert drawn == [
            fluency.draw(length, np.random.default_rng(seed)) for seed in range(10)
        ]
        assert (len(set(drawn)) == 1) == (top_p == 1e-9)


def test_tokens_that_are_not_allowed_are_never_fluent(pair, ids):
    everything = allowed_ids(pair[0], "all")
    outside = np.setdiff1d(everything, ids)
    fluency, inner = Fluency(pair[1], pair[0], PROMPT, ids, 1), int(ids[30])
    for replies in (
        np.stack([outside, 0 * outside + inner], 1),
        np.stack([0 * outside + inner, outside], 1),
    ):
        assert not fluency(replies).any()
    swaps = fluency.swaps((inner, inner), everything)
    assert not swaps[:, np.isin(everything, outside)].any()
    assert swaps[:, np.isin(everything, ids)].all()


# --- two models -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def larger(tmp_path_factory):
    """A reward model whose tokenizer knows two tokens more than its language model, after the
    shared ones.
    """
    folder = tmp_path_factory.mktemp("larger")
    language_model = language_models.load(
        str(make_causal(folder / "language", "llama")), device="cpu"
    )
    shared = len(language_model.tokenizer)
    tiny.make_checkpoint(folder / "reward", "linear_llama", vocab_size=shared + 2)
    tokenizer = AutoTokenizer.from_pretrained(folder / "reward")
    assert tokenizer.add_tokens(["extra one", "extra two"]) == 2
    tokenizer.save_pretrained(folder / "reward")
    return (
        reward_models.load(str(folder / "reward"), device="cpu"),
        language_model,
        shared,
    )


def test_tokens_that_the_language_model_lacks_are_never_fluent(larger):
    model, language_model, shared = larger
    allowed = np.array([*range(40, 90), shared, shared + 1])
    fluency = Fluency(language_model, model, PROMPT, allowed, 1)
    lacking = np.array([[40, shared], [shared + 1, 41], [shared, shared], [40, 41]])
    assert fluency(lacking).tolist() == [False, False, False, True]
    assert fluency.swaps((40, 41), allowed)[:, -2:].sum() == 0
    with pytest.raises(
        InputError, match="no reply that the search would keep; give another"
    ):
        search(
            Objective(model, PROMPT, "optimal", allowed, fluency=fluency), [shared, 40]
        )


def test_another_tokenizer_is_refused(models, pair, ids, tmp_path):
    shifted = reward_models.load(
        str(tiny.make_checkpoint(tmp_path, "linear_llama", vocabulary=["zzz"])),
        device="cpu",
    )
    for model, language_model in [
        (pair[0], models("linear_qwen3")[1]),
        (shifted, pair[1]),
    ]:
        with pytest.raises(
            InputError,
            match="do not share a tokenizer; give the language model that .* was made from",
        ):
            Fluency(language_model, model, PROMPT, ids)


# --- searches -------------------------------------------------------------------------------------


class Recorded(Objective):
    """An objective that remembers every reply it was asked for."""

    def __init__(self, *args, reply_mode="ids", **kwargs):
        super().__init__(*args, reply_mode=reply_mode, **kwargs)
        self.batches = []

    def values(self, replies):
        self.batches.append(replies.copy())
        return super().values(replies)

    @property
    def asked(self):
        return np.concatenate(self.batches)


@pytest.mark.parametrize(
    ("method", "direction"),
    [("round robin", "pessimal"), ("GCG", "optimal"), ("sweeps", "pessimal")],
)
def test_a_fluent_search_scores_fluent_replies_alone(pair, ids, method, direction):
    model, language_model = pair
    fluency = Fluency(language_model, model, PROMPT, ids, 0.9)
    objective = Recorded(model, PROMPT, direction, ids, fluency=fluency)
    start = objective.draw(3, np.random.default_rng(0))
    found = search(objective, start, Settings(method, budget=40, width=8), certify=True)
    assert fluency(objective.asked).all()
    assert found.evaluations >= 5
    assert is_fluent(language_model, found.ids, ids.tolist(), 0.9)
    assert found.reward * objective.sign >= found.start_reward * objective.sign


def test_a_fluent_reply_also_survives_as_text(pair):
    model, language_model = pair
    allowed, survives = allowed_ids(model), RoundTrip(model, PROMPT)
    fluency = Fluency(language_model, model, PROMPT, allowed, 0.9)
    objective = Recorded(
        model, PROMPT, "optimal", allowed, fluency=fluency, reply_mode="text"
    )
    drawn = [fluency.draw(2, np.random.default_rng(seed)) for seed in range(40)]
    start = next(reply for reply in drawn if survives(np.array([reply]))[0])
    found = search(objective, start, Settings(budget=30, width=8), certify=True)
    assert fluency(objective.asked).all()
    assert survives(objective.asked).all()
    assert found.survives
