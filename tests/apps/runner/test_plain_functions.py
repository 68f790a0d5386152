"""The functions that notebooks build in front of the reader (cells tagged `plain`) against the
library.

A plain function is a second implementation: it is written for reading, and shares no code with the
library's.
"""

import copy
import itertools
import os

import nbformat
import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from conftest import with_tag
from scipy import stats

from lib import ROOT
from lib.alignment import kinds
from lib.framing import effects
from lib.language import policies
from lib.models import conversations, reward_models
from lib.models.reward_models import load
from lib.scoring import vocabulary
from lib.search import searches
from lib.search.gcg import Settings
from lib.search.objective import Objective, allowed_ids
from lib.similarity import factors, rsa
from lib.stats import crossed

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


@pytest.fixture(scope="module")
def similarity():
    return plain_functions("03")


@pytest.fixture(scope="module")
def framing():
    return plain_functions("04")


@pytest.fixture(scope="module")
def undervalued():
    return plain_functions("07")


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


# --- 03: tau, and relabelling


def test_tau_counts_pairs_as_scipy_does_with_ties_too(similarity):
    assert similarity["tau"](np.array([3, 2, 1]), np.array([3, 1, 2])) == pytest.approx(
        1 / 3
    )
    random = np.random.default_rng(0)
    one, another = random.integers(0, 5, (2, 60))  # five values, so many ties
    by_scipy = stats.kendalltau(one, another).statistic
    assert similarity["tau"](one, another) == pytest.approx(by_scipy)


def test_relabelling_every_way_gives_the_exact_p_of_the_library(similarity):
    random = np.random.default_rng(1)
    for n, k in ((7, 3), (8, 4)):
        values = random.uniform(size=(n, n))
        taus = (values + values.T) / 2
        is_gemma = np.arange(n) < k
        names = [f"m{i}" for i in range(n)]
        matrix = pd.DataFrame(taus, names, names)
        theory = factors.same_label(
            pd.Series(np.where(is_gemma, "Gemma", "Llama"), names)
        )
        by_library = rsa.effects(matrix, {"base": theory}).loc["base"]
        observed = similarity["base_difference"](taus, is_gemma[:, None] == is_gemma)
        assert observed == pytest.approx(by_library["b"])
        assert similarity["exact_p"](taus, is_gemma) == pytest.approx(by_library["p"])


# --- 04: slopes, and words as a sample


@pytest.fixture(scope="module")
def words() -> pd.DataFrame:
    """Observations of six models on 80 words, with slopes of 0.5 and 0.2 and noise of the words."""
    random = np.random.default_rng(3)
    grades = random.choice([-4, -3, -2, -1, 1, 2, 3, 4], 80).astype(float)
    true = np.where(grades > 0, 0.5, 0.2) * grades
    of_words = random.normal(size=80)  # what all models make of a word
    rewards = true[:, None] + of_words[:, None] + random.normal(scale=0.5, size=(80, 6))
    wide = pd.DataFrame(rewards, columns=[f"m{i}" for i in range(6)])
    wide = wide.assign(word=[f"w{i}" for i in range(80)], sentiment=grades)
    long = wide.melt(["word", "sentiment"], var_name="model", value_name="reward")
    return long.assign(prompt="best")


def test_the_mean_gap_by_hand_is_the_librarys(framing, words):
    gaps = words.groupby("model")[["sentiment", "reward"]].apply(framing["slope_gap"])
    by_library = effects.gaps(effects.slopes_by_sign(words)).set_index("model")["gap"]
    assert gaps.to_dict() == pytest.approx(by_library.to_dict())
    mean = effects.measured(words, effects.slope_gap)["best"].mean.estimate
    assert gaps.mean() == pytest.approx(mean)


def test_drawing_words_and_models_gives_about_the_librarys_standard_errors(
    framing, words
):
    wide = words.pivot_table("reward", ["word", "sentiment"], "model")
    grades = wide.index.get_level_values("sentiment").to_numpy()
    # two words have one stem; the library is told by their names
    stem = np.repeat(np.arange(40), 2)
    names = [f"w{i}ax{end}" for i in range(40) for end in ("", "s")]

    def drawn(models: bool, of_words: bool) -> float:
        draws = framing["resampled_gaps"](
            wide.to_numpy(), grades, stem, models, of_words
        )
        return draws.std()

    gaps, influence = effects.slope_gap(grades, wide.to_numpy())
    both = crossed.crossed(
        pd.Series(gaps), pd.DataFrame(influence, names)
    ).standard_error
    of_models = gaps.std() / len(gaps) ** 0.5
    assert drawn(True, False) == pytest.approx(of_models, rel=0.15)
    assert drawn(True, True) == pytest.approx(both, rel=0.15)
    # noise of the words was planted in all models
    assert of_models < drawn(False, True) / 2


# --- 07: neighbours of an item


def test_the_share_of_neighbours_above_an_item_is_the_librarys_with_ties_too(
    undervalued,
):
    random = np.random.default_rng(5)
    items = pd.Index([f"i{n}" for n in range(60)])
    people = pd.Series(random.integers(0, 30, 60).astype(float), items)
    rewards = pd.DataFrame(random.integers(0, 6, (60, 3)), items, ["a", "b", "c"])
    of_kind = pd.Series(np.where(np.arange(60) % 6 == 0, "kind", ""), items)
    by_library = kinds.undervalued_kinds(people, rewards, of_kind, neighbours=10)
    place = people.rank(ascending=False)
    for item, model in itertools.product(by_library.index, rewards):
        by_hand = undervalued["share_above"](item, place, rewards[model], of_kind, 10)
        assert by_hand == pytest.approx(by_library.loc[item, model])


# --- 10: the optimum

PROMPT = "What, in one word, is the greatest thing ever?"
LOG_REFERENCE = np.log(np.random.default_rng(0).dirichlet(np.ones(500)))
REWARD = np.random.default_rng(1).normal(size=500)


def test_the_optimum_of_three_replies():
    kl_optimal = plain_functions("10")["kl_optimal"]
    q = kl_optimal(
        np.array([0.6, 0.3, 0.1]), np.array([0.0, np.log(2), -np.log(2)]), 1.0
    )
    # their sum is 1.25
    assert q == pytest.approx(np.array([0.6, 0.3 * 2, 0.1 / 2]) / 1.25)


def test_beta_by_bisection_is_the_librarys(nats=1.0):
    beta = plain_functions("10")["beta_at"](np.exp(LOG_REFERENCE), REWARD, nats)
    strength = policies.strength_at(policies.optimum, LOG_REFERENCE, REWARD, nats)
    assert 1 / beta == pytest.approx(strength, rel=1e-6)


# --- 08: gains and the search


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load(
        str(tiny.smooth_checkpoint(tmp_path_factory.mktemp("smooth"))), device="cpu"
    )


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


@pytest.mark.parametrize("length", [1, 2])
def test_what_survives_by_hand_is_what_the_library_says(model, objective, length):
    around = model.conversation(PROMPT)
    names = {"before": list(around.prefix_ids), "after": list(around.closing_ids)}
    survives = plain_functions("08", loaded=model, **names)["survives"]
    replies = np.random.default_rng(0).choice(objective.allowed, (200, length))
    by_hand = survives(replies, PROMPT)
    assert 0 < by_hand.mean() < 1
    assert (by_hand == objective.survives(replies)).all()
