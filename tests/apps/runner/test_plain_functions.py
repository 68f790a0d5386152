"""The functions that notebooks build in front of the reader (cells tagged `plain`) against the
library.

A plain function is a second implementation: it is written for reading, and shares no code with the
library's. Those that a notebook itself holds against the library are not tested again.
"""

import copy
import itertools
import os
from dataclasses import replace

import nbformat
import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from conftest import with_tag
from plain_profile import PLAIN
from scipy import stats
from scipy.optimize import brentq

from lib import ROOT
from lib.language import policies
from lib.models import conversations, reward_models
from lib.scoring import vocabulary
from lib.search import searches
from lib.search.gcg import Settings
from lib.search.objective import Objective, allowed_ids
from lib.stats.crossed import Measured
from lib.trained import planting, recovery

# what a notebook's first cells import
GIVEN = {
    "np": np,
    "pd": pd,
    "itertools": itertools,
    "copy": copy,
    "os": os,
    "torch": torch,
}


def plain_functions(number: str, **given) -> dict:
    """Return the names that the plain cells of a notebook define, which see what is given, too."""
    [path] = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
    names = GIVEN | given
    for cell in with_tag(nbformat.read(path, 4), "plain"):
        exec(cell.source, names)
    return names


# --- 00: a head


def test_a_head_in_twelve_lines_learns_a_planted_direction():
    random = torch.Generator().manual_seed(0)
    states, fresh = (torch.randn(2, 300, 8, generator=random) for _ in "ab")
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    given = {"nn": torch.nn, "binary_cross_entropy_with_logits": loss}
    train_head = plain_functions("00", **given)["train_head"]
    head = train_head(states, 3 * states[..., 0])
    rewards = head(fresh).ravel()
    assert stats.spearmanr(rewards, fresh[..., 0].ravel()).statistic > 0.95


# --- 01: a prompt that is read once


@pytest.mark.parametrize("kind", ["linear_gemma2", "armorm"])
def test_the_plain_function_of_01_scores_a_whole_vocabulary_as_the_library_does(
    kind, tmp_path
):
    model = reward_models.load(tiny.make_checkpoint(tmp_path, kind), device="cpu")
    texts = conversations.vocabulary(model.tokenizer)["text"].tolist()
    prompt = "What, in one word, is the greatest thing ever?"
    ours = plain_functions("01")["score_plainly"](model, prompt, texts, batch=50)
    theirs = vocabulary.score_replies(model, prompt, texts)
    assert len(set(theirs)) > 100
    np.testing.assert_allclose(ours, theirs, atol=1e-4 * np.ptp(theirs))


# --- 03: tau, and overlap of rankings


def test_tau_counts_pairs_as_scipy_does_with_ties_too():
    tau = plain_functions("03")["tau"]
    assert tau(np.array([3, 2, 1]), np.array([3, 1, 2])) == pytest.approx(1 / 3)
    random = np.random.default_rng(0)
    one, another = random.integers(0, 5, (2, 60))  # five values, so many ties
    by_scipy = stats.kendalltau(one, another).statistic
    assert tau(one, another) == pytest.approx(by_scipy)


def test_rbo_by_hand():
    lowest, highest = plain_functions("03")["rbo"](["a", "b", "c"], ["a", "c", "b"])
    # depths 1, 2, 3 share all, half and all; then up to two new texts at each depth
    known = 0.1 * (1 + 0.9 / 2 + 0.81)
    rest = [0.1 * 0.9 ** (depth - 1) for depth in range(4, 132)]
    assert highest == pytest.approx(known + sum(rest))
    at_least = [3 / depth for depth in range(4, 132)]
    assert lowest == pytest.approx(known + np.dot(rest, at_least))


# --- 04: prompts against each other


def test_the_error_of_a_correlation_of_two_prompts_is_as_theory_says():
    correlations = plain_functions("04", stats=stats, Measured=Measured)["correlations"]
    random = np.random.default_rng(2)
    x = random.normal(size=2000)
    y = 0.6 * x + 0.8 * random.normal(size=2000)
    table = pd.DataFrame({"text": [f"w{i}" for i in range(2000)], "a": x, "b": y})
    found = correlations({"M": table}, "a", "b")
    r = found.values["M"]
    assert r == pytest.approx(np.corrcoef(x, y)[0, 1])
    # of a bivariate normal distribution
    theory = (1 - r**2) / np.sqrt(2000)
    error = found.by_model().loc["M", "standard_error"]
    assert error == pytest.approx(theory, rel=0.06)


# --- 10: the optimum

PROMPT = "What, in one word, is the greatest thing ever?"


def test_the_optimum_of_three_replies():
    kl_optimal = plain_functions("10")["kl_optimal"]
    q = kl_optimal(
        np.array([0.6, 0.3, 0.1]), np.array([0.0, np.log(2), -np.log(2)]), 1.0
    )
    # their sum is 1.25
    assert q == pytest.approx(np.array([0.6, 0.3 * 2, 0.1 / 2]) / 1.25)


def test_where_one_reply_takes_over():
    # the first two tokens are one reply
    reference = np.log([0.1, 0.3, 0.4, 0.2])
    rows = pd.DataFrame({"log_reference": reference, "reward": [5.0, 5.0, 1.0, -4.0]})
    rows = rows.assign(input_group=[0, 0, 1, 2], text=[" love", "love", "the", "war"])
    collapse = plain_functions("10", policies=policies, brentq=brentq)["collapse"]
    nats, text = collapse(rows)
    reward = rows["reward"].to_numpy()
    strength = policies.strength_at(policies.optimum, reference, reward, nats)
    given = np.exp(policies.optimum(reference, reward, strength))
    assert text == " love" and given[0] + given[1] == pytest.approx(0.5, abs=1e-6)
    # equal rewards give no reply half
    assert np.isnan(collapse(rows.assign(reward=1.0))[0])


# --- 08: gains and the search


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tiny.smooth_checkpoint(tmp_path_factory.mktemp("smooth"))
    return reward_models.load(str(folder), device="cpu")


@pytest.fixture(scope="module")
def objective(model):
    return Objective(model, PROMPT, "pessimal", allowed_ids(model))


@pytest.mark.parametrize("length", [2, 3])
def test_gcg_by_hand_finds_what_the_librarys_finds(objective, length):
    [start] = objective.draw(length, np.random.default_rng(0))
    reply, value, path = plain_functions("08")["gcg_by_hand"](objective, start, 200)
    settings = Settings("GCG", budget=200, top_k=64)
    [found] = searches.search(objective, [start], settings)
    assert tuple(reply) == found.ids and found.ids in [start, *path]
    assert objective.sign * value == pytest.approx(found.reward)


def test_round_robin_by_hand_finds_the_best_of_all_replies_and_scores_none_twice(model):
    few = Objective(model, PROMPT, "optimal", allowed_ids(model)[:20])
    every = np.array(list(itertools.product(few.allowed, repeat=2)))
    every = every[few.admits(every)]
    values, scored = few.values(every), []

    def values_of(replies):
        scored.extend(replies)
        return Objective.values(few, replies)

    few.values = values_of
    [start] = few.draw(2, np.random.default_rng(0))
    budget = len(every) // 2
    reply, value = plain_functions("08")["round_robin"](few, start, budget)
    assert value == pytest.approx(values.max()) and reply in scored
    assert len(scored) == len(set(scored)) == budget


@pytest.mark.parametrize("length", [1, 2])
def test_what_survives_by_hand_is_what_the_library_says(model, objective, length):
    around = model.conversation(PROMPT)
    names = {"before": list(around.prefix_ids), "after": list(around.closing_ids)}
    survives = plain_functions("08", loaded=model, **names)["survives"]
    replies = np.random.default_rng(0).choice(objective.allowed, (200, length))
    by_hand = survives(replies, PROMPT)
    assert 0 < by_hand.mean() < 1
    assert (by_hand == objective.survives(replies)).all()


# --- 12: the regression


def test_recovery_returns_what_was_planted_when_rewards_are_the_utility(score_table):
    words = [*planting.sentiment().index[::20], *planting.word_kinds().index[::5]]
    words += [".setText", "=>", "();"]
    values = planting.word_values(words)
    signs = {"greatest": 1, "worst": -1}
    rewards = {
        name: 7 + 0.05 * planting.planted_utility(PLAIN, values, sign)
        for name, sign in signs.items()
    }
    given = {"planting": planting, "recovery": recovery, "signs": signs, "stats": stats}
    recover = plain_functions("12", **given)["recover"]
    found = recover(score_table(words, **rewards), replace(PLAIN, scale=0.05))
    assert found.loc["greatest", "planted"].to_dict() == pytest.approx(
        dict(k_hi=1.2, k_lo=0.6, frequency=0.5, identity=2, nature=1, technology=0.75)
        | dict(nonword=3, gap=0.6)
    )
    error = found["recovered"] - found["planted"]
    assert set(found.index.unique("prompt")) == set(signs) and error.abs().max() < 1e-3
