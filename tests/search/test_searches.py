"""Searches against the whole truth: all replies of tiny models are scored."""

from dataclasses import replace
from functools import cache, partial
from itertools import product

import numpy as np
import oracle
import pytest
import tiny

from audit.opening import open_model
from lib import InputError
from lib.search import searches
from lib.search.gcg import Settings
from lib.search.objective import Objective, allowed_ids
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


def watched(objective):
    """Every batch of replies that the objective is asked for."""
    asked, values = [], objective.values
    objective.values = lambda replies: asked.append(replies) or values(replies)
    return asked


# --- the truth ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exhausted(smooth):
    """(direction, mode, n) -> objective, and the values of all its replies of n tokens by the
    oracle.
    """

    @cache
    def rewards(n, size):
        every = [*product(alphabet(smooth, size).tolist(), repeat=n)]
        typed = [oracle.comes_back(smooth.tokenizer, PROMPT, reply) for reply in every]
        found = oracle.rewards(
            smooth.hub_id, PROMPT, every, reply_mode="ids", batch=128
        )
        return {"ids": found, "text": found[np.array(typed)]}

    def of(direction, mode, n):
        size = {2: 32, 3: 10}[n]
        objective = objective_of(smooth, direction, size, mode)
        return objective, objective.sign * rewards(n, size)[mode]

    return of


def hits(objective, values, n, method, **settings):
    """In how many of six searches of a tenth of 1,024 replies the true optimum is found."""
    settings = Settings(method, budget=102, width=17, **settings)
    found = search(objective, some(objective, n), settings)
    rewards = [objective.sign * one.reward for one in found]
    assert max(rewards) < values.max() + 1e-4
    return sum(reward > values.max() - 1e-4 for reward in rewards)


@pytest.mark.parametrize(
    ("direction", "mode", "n"),
    [
        ("optimal", "ids", 2),
        ("pessimal", "text", 2),
        ("optimal", "text", 3),
        ("pessimal", "ids", 3),
    ],
)
def test_the_true_optimum_of_all_replies_is_found(exhausted, direction, mode, n):
    truth = exhausted(direction, mode, n)
    assert hits(*truth, n, "ours") >= 5
    assert hits(*truth, n, "Faster-GCG") >= 5
    assert hits(*truth, n, "GCG", top_k=4) >= 4
    if mode == "ids":
        assert hits(*truth, n, "random") <= 2  # by chance one in ten


# --- what a search promises -----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ours", "GCG", "Faster-GCG"])
def test_the_budget_holds_the_best_only_improves_and_the_seed_decides(model_of, method):
    objective = objective_of(model_of("linear_gemma2"), "pessimal", 20)
    [start] = some(objective, 3, 1)
    for budget in (1, 2, 17, 90):
        settings = Settings(method, budget=budget, width=16, patience=2)
        found, again = (search(objective, [start], settings)[0] for _ in range(2))
        assert found == again
        assert found.evaluations == budget
        counts, rewards = np.array(found.trace).T
        assert counts[0] == 1 and (np.diff(counts) > 0).all()
        assert (np.diff(rewards) < 0).all() and rewards[-1] == found.reward
        ends = -objective.values([start, found.ids])
        assert rewards[[0, -1]] == pytest.approx(ends, abs=1e-5)


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
        assert (found.ids, found.text) == (alone.ids, alone.text)
        assert found.reward == pytest.approx(alone.reward, abs=1e-5)
        assert [n for n, _ in found.trace] == [n for n, _ in alone.trace]


@pytest.mark.parametrize("method", ["ours", "Faster-GCG", "random"])
def test_a_search_of_everything_ends_and_scores_nothing_twice(model_of, method):
    asked = watched(objective := objective_of(model_of("linear_llama"), size=3))
    every = [*product(objective.allowed.tolist(), repeat=2)]
    [found] = search(objective, every[:1], Settings(method, budget=10_000))
    scored = sum(asked, [])
    assert found.evaluations == len(scored) == len({*scored})
    if method != "Faster-GCG":  # which has no restart
        assert sorted(scored) == every
        assert found.reward == pytest.approx(objective.values(every).max(), abs=1e-5)


def test_a_search_as_text_scores_only_what_a_person_could_type(model_of):
    model = model_of("linear_llama")
    asked = watched(
        objective := Objective(model, PROMPT, "pessimal", allowed_ids(model))
    )
    settings = Settings(budget=80, width=16, patience=1)
    [found] = search(objective, some(objective, 9, 1), settings)
    scored = sum(asked, [])
    assert len(scored) == found.evaluations == 80
    assert all(oracle.comes_back(model.tokenizer, PROMPT, reply) for reply in scored)
    with pytest.raises(InputError, match="does not survive as text"):
        search(objective, [model.tokenizer.convert_tokens_to_ids(["l", "ove"])])


def test_a_result_says_what_becomes_of_the_text(model_of):
    model = model_of("linear_llama")
    objective = Objective(model, PROMPT, "optimal", allowed_ids(model, "all"), "ids")
    read = model.tokenizer.convert_tokens_to_ids
    starts = [
        tuple(map(read, one.split())) for one in ("love Ġis", "l ove", "Ġis love")
    ]
    results = search(objective, starts, Settings(budget=1))
    assert [one.ids for one in results] == starts
    assert [one.text for one in results] == ["love is", "love", " islove"]
    assert [one.survives for one in results] == [True, False, False]
    rewards = [[one.reward, one.reward_of_text] for one in results]
    score = partial(oracle.rewards, model.hub_id, PROMPT)
    as_text = score([one.text for one in results])
    expected = np.stack([score(starts, reply_mode="ids"), as_text], axis=1)
    np.testing.assert_allclose(rewards, expected, atol=1e-5)


# --- where to start, and mistakes -----------------------------------------------------------------


def test_starts_of_each_kind_and_none_that_is_not_allowed(tmp_path):
    folder = tiny.make_checkpoint(tmp_path, "linear_llama", vocabulary=[" x"])
    model = open_model(str(folder), device="cpu")
    names = ["x", "Ġx", "love", "Ġis"]
    x, spaced, love, is_ = model.tokenizer.convert_tokens_to_ids(names)

    def of(ids, randoms=0):
        objective = Objective(model, PROMPT, "optimal", ids, reply_mode="ids")
        return searches.starts(objective, 3, sentence="love is", randoms=randoms)

    found = of(allowed_ids(model), randoms=2)
    assert found.pop("random 1") != found.pop("random 2")
    # the sentence is as long as it is
    assert found == {"x x x": (x, spaced, spaced), "sentence": (love, is_)}
    assert list(of([x, spaced, 40])) == ["x x x"]


def test_a_start_that_may_not_be_scored_is_refused(model_of):
    objective = Objective(model_of("linear_llama"), PROMPT, "optimal", range(40, 60))
    for start in [(), (40, 7)]:
        with pytest.raises(InputError, match="is empty or holds .*; give another"):
            search(objective, [start])
