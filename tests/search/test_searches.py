"""Searches against the whole truth: all replies of tiny models are scored."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import oracle
import pytest
import tiny
import torch

from lib import InputError
from lib.apps.owner.opening import open_model
from lib.scoring import engine
from lib.search import searches
from lib.search.gcg import Settings
from lib.search.objective import DIRECTIONS, Objective, allowed_ids
from lib.search.searches import search

PROMPT = "What, in one word, is the greatest thing ever?"


@pytest.fixture(scope="module")
def smooth(tmp_path_factory):
    folder = tiny.smooth_checkpoint(tmp_path_factory.mktemp("smooth"))
    return open_model(str(folder), device="cpu")


def alphabet(model, size=32):
    """Printable ids drawn at random, ascending."""
    ids = allowed_ids(model)
    return np.sort(np.random.default_rng(0).choice(ids, size, replace=False))


def objective_of(model, direction="optimal", size=32, reply_mode="ids"):
    ids = alphabet(model, size)
    return Objective(model, PROMPT, direction, ids, reply_mode=reply_mode)


def some(objective, n=2, count=6):
    return objective.draw(n, np.random.default_rng(1), count)


# --- the truth ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exhausted(smooth):
    """(direction, mode, n) -> objective, and the value of its best reply of n tokens by the oracle."""

    @cache
    def rewards(n, size):
        every = [*product(alphabet(smooth, size).tolist(), repeat=n)]
        folder = smooth.hub_id
        rewards = oracle.rewards(folder, PROMPT, every, reply_mode="ids", batch=128)
        typed = [oracle.comes_back(smooth.tokenizer, PROMPT, reply) for reply in every]
        return rewards, np.array(typed)

    def of(direction, mode, n):
        size = {2: 32, 3: 10}[n]
        objective = objective_of(smooth, direction, size, mode)
        values, typed = rewards(n, size)
        values = objective.sign * (values if mode == "ids" else values[typed])
        assert len(values) > 60
        return objective, values

    return of


def hits(objective, values, n, method, **settings):
    """In how many of six searches of a tenth of 1,024 replies the true optimum is found."""
    settings = Settings(method, budget=102, width=17, **settings)
    found = search(objective, some(objective, n), settings)
    rewards = [objective.sign * one.reward for one in found]
    assert max(rewards) < values.max() + 1e-4
    return sum(reward > values.max() - 1e-4 for reward in rewards)


@pytest.mark.parametrize("mode", ["ids", "text"])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("n", [2, 3])
def test_the_true_optimum_of_all_replies_is_found(exhausted, direction, mode, n):
    truth = exhausted(direction, mode, n)
    assert hits(*truth, n, "ours") >= 5
    assert hits(*truth, n, "Faster-GCG") >= 5
    assert hits(*truth, n, "GCG", top_k=4) >= 4
    if mode == "ids":
        assert hits(*truth, n, "random") <= 2  # by chance one in ten


def test_the_wrong_sign_costs_the_pessimal_search_alone(exhausted):
    wrong = {way: exhausted(way, "ids", 2) for way in DIRECTIONS}
    assert hits(*wrong["optimal"], 2, "Faster-GCG, wrong sign") >= 5
    assert hits(*wrong["pessimal"], 2, "Faster-GCG, wrong sign") <= 1


@pytest.mark.parametrize("method", ["ours", "Faster-GCG", "GCG"])
def test_the_least_reward_is_minus_the_greatest_of_the_negated_model(model_of, method):
    model = model_of("linear_llama")
    negated = replace(model, head=type(model.head)(model.backbone.config))
    with torch.no_grad():
        negated.head.score.weight.copy_(-model.head.score.weight)
    settings = Settings(method, budget=70, width=16)
    worst, best = objective_of(model, "pessimal"), objective_of(negated)
    pairs = zip(
        *(search(one, some(one, 3), settings) for one in (worst, best)), strict=True
    )
    for low, high in pairs:
        assert (low.ids, low.reward) == (high.ids, -high.reward)
        assert low.trace == tuple((count, -reward) for count, reward in high.trace)


# --- what a search promises -----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ours", "GCG", "Faster-GCG"])
def test_the_budget_holds_the_best_only_improves_and_the_seed_decides(model_of, method):
    objective = objective_of(model_of("linear_gemma2"), "pessimal", 20)
    starts = some(objective, 3, 2)
    for budget in (1, 2, 17, 90):
        settings = Settings(method, budget=budget, width=16, patience=2)
        for start, found, again in zip(
            starts,
            search(objective, starts, settings),
            search(objective, starts, settings),
            strict=True,
        ):
            assert replace(found, seconds=0) == replace(again, seconds=0)
            assert found.evaluations == budget
            counts, rewards = np.array(found.trace).T
            assert (
                counts[0] == 1 and (np.diff(counts) > 0).all() and counts[-1] <= budget
            )
            assert rewards[0] == pytest.approx(-objective.values([start])[0], abs=1e-5)
            assert (np.diff(rewards) < 0).all() and rewards[-1] == found.reward
            assert found.reward == pytest.approx(
                -objective.values([found.ids])[0], abs=1e-5
            )


@pytest.mark.parametrize(
    ("method", "mode"), [("ours", "text"), ("GCG", "ids"), ("Faster-GCG", "ids")]
)
def test_searches_at_once_find_what_each_finds_alone(model_of, method, mode):
    objective = objective_of(model_of("linear_gemma2"), reply_mode=mode)
    settings = Settings(method, budget=80, width=12, patience=2, seed=3)
    starts = [*some(objective, 3, 3), *some(objective, 2, 1)]
    for number, found in enumerate(search(objective, starts, settings)):
        own = replace(settings, seed=3 + number)
        [alone] = search(objective, [starts[number]], own)
        assert found.settings == own == alone.settings
        assert (found.ids, found.gradients) == (alone.ids, alone.gradients)
        assert found.reward == pytest.approx(alone.reward, abs=1e-5)
        assert [n for n, _ in found.trace] == [n for n, _ in alone.trace]


def test_eight_searches_ask_the_model_hardly_more_often_than_one(model_of):
    objective, asked = objective_of(model_of("linear_llama")), []
    for name in ("values", "gains"):
        usual = getattr(objective, name)
        setattr(objective, name, lambda *given, f=usual: asked.append(f) or f(*given))
    passes = []
    for count in (1, 8):
        search(objective, some(objective, 3, count), Settings(budget=97))
        passes.append(len(asked))
        asked.clear()
    assert passes[0] <= passes[1] <= 1.5 * passes[0]


@pytest.mark.parametrize("method", ["ours", "Faster-GCG", "random"])
def test_a_search_of_everything_ends_and_scores_nothing_twice(model_of, method):
    objective, asked = objective_of(model_of("linear_llama"), size=3), []
    values = objective.values
    objective.values = lambda replies: asked.extend(replies) or values(replies)
    every = [*product(objective.allowed.tolist(), repeat=2)]
    [found] = search(objective, every[:1], Settings(method, budget=10_000))
    assert found.evaluations == len(asked) == len({*asked}) <= 9
    if method != "Faster-GCG":  # which has no restart
        assert sorted(asked) == every
        assert found.reward == pytest.approx(values(every).max(), abs=1e-5)


def test_a_search_as_text_scores_only_what_a_person_could_type(model_of):
    model, asked = model_of("linear_llama"), []
    objective = Objective(model, PROMPT, "pessimal", allowed_ids(model))
    values = objective.values
    objective.values = lambda replies: asked.extend(replies) or values(replies)
    [found] = search(
        objective, some(objective, 9, 1), Settings(budget=80, width=16, patience=1)
    )
    assert len(asked) == found.evaluations == 80
    assert all(oracle.comes_back(model.tokenizer, PROMPT, reply) for reply in asked)
    assert found.survives and found.reward == pytest.approx(
        found.reward_of_text, abs=1e-4
    )


def test_a_result_says_what_becomes_of_the_text(model_of):
    model = model_of("linear_llama")
    objective = Objective(model, PROMPT, "optimal", allowed_ids(model, "all"), "ids")
    tokens = [["love", "Ġis"], ["l", "ove"], ["Ġlove", "Ġis"], ["<|eot_id|>", "love"]]
    starts = [model.tokenizer.convert_tokens_to_ids(one) for one in tokens]
    results = search(objective, starts, Settings(budget=1))
    texts = ["".join(one).replace("Ġ", " ") for one in tokens]
    assert [one.text for one in results] == texts
    assert [[*one.ids] for one in results] == starts
    as_ids = engine.score_replies(model, PROMPT, starts, reply_mode="ids")
    as_text = engine.score_replies(model, PROMPT, texts)
    assert [one.reward for one in results] == pytest.approx(as_ids, abs=1e-5)
    assert [one.reward_of_text for one in results] == pytest.approx(as_text, abs=1e-5)
    for ids, one in zip(starts, results, strict=True):
        assert one.survives == oracle.comes_back(model.tokenizer, PROMPT, ids)
        assert one.survives == (abs(one.reward - one.reward_of_text) < 1e-5)
    assert {one.survives for one in results} == {True, False}


# --- where to start, and mistakes -----------------------------------------------------------------


def test_starts_of_each_kind_and_none_that_is_not_allowed(tmp_path):
    folder = tiny.make_checkpoint(tmp_path, "linear_llama", vocabulary=[" x"])
    model = open_model(str(folder), device="cpu")
    x, spaced, love, is_ = model.tokenizer.convert_tokens_to_ids(
        ["x", "Ġx", "love", "Ġis"]
    )

    def of(ids, randoms=0):
        objective = Objective(model, PROMPT, "optimal", ids, reply_mode="ids")
        return searches.starts(objective, 3, sentence="love is", randoms=randoms)

    found = of(allowed_ids(model), randoms=2)
    assert list(found) == ["x x x", "sentence", "random 1", "random 2"]
    assert found["x x x"] == (x, spaced, spaced)
    assert found["sentence"] == (love, is_)  # as long as it is
    assert len(found["random 1"]) == 3 and found["random 1"] != found["random 2"]
    assert list(of([x, spaced, 40])) == ["x x x"]
    assert list(of([x, love, is_])) == ["sentence"]
    assert list(of([40, 41])) == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"reply_mode": "token ids"},
            "reply_mode must be one of text, ids, not 'token ids'",
        ),
        (
            {"direction": "best"},
            "direction must be one of optimal, pessimal, not 'best'",
        ),
        ({"allowed": [40]}, "has 1 of the 1 allowed tokens; allow two or more"),
        ({"allowed": [40, 9999]}, "has 1 of the 2 allowed tokens; allow two or more"),
        (
            {"start": ()},
            r"the start \(\) is empty or holds .* not allowed; give another",
        ),
        ({"start": (40, 7)}, r"the start \(40, 7\) .* not allowed; give another"),
        (
            {"reply_mode": "text", "allowed": range(400), "start": (260, 261)},
            "does not survive",
        ),
        ({"method": "gcg"}, "method must be one of ours, .*, not 'gcg'"),
        ({"budget": 0}, "budget must be 1 or more, not 0"),
    ],
)
def test_mistakes_name_their_remedy(model_of, given, told):
    usual = {
        "direction": "optimal",
        "allowed": range(40, 60),
        "start": (40, 40),
        "reply_mode": "ids",
    }
    setup = usual | given
    settings = {key: value for key, value in given.items() if key not in usual}
    with pytest.raises(InputError, match=told):
        objective = Objective(
            model_of("linear_llama"),
            PROMPT,
            setup["direction"],
            setup["allowed"],
            setup["reply_mode"],
        )
        search(objective, [setup["start"]], Settings(**settings))
