"""Means over models and words: the variance of both, what words move, and intervals that hold
what they promise.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

from lib.stats.crossed import (
    Measured,
    crossed,
    mean_influence,
    slope,
)

NAMES = list("abcdefghij")


def table(values) -> pd.DataFrame:
    return pd.DataFrame(values, columns=NAMES[: np.shape(values)[1]])


def test_a_mean_over_words_and_models_has_the_variance_of_a_two_way_table():
    rng = np.random.default_rng(0)
    n, models = 40, 5
    rewards = (
        rng.normal(size=(n, 1)) + rng.normal(size=models) + rng.normal(size=(n, models))
    )
    moved = np.column_stack([mean_influence(column) for column in rewards.T])
    found = crossed(pd.Series(rewards.mean(axis=0), NAMES[:models]), table(moved))
    # least squares on a constant, with errors clustered by word and by model
    pseudo = rewards.mean(axis=0) + n * moved
    groups = np.indices(pseudo.shape).reshape(2, -1).T
    fit = sm.OLS(pseudo.ravel(), np.ones(pseudo.size)).fit(
        cov_type="cluster", cov_kwds={"groups": groups}
    )
    variance = fit.cov_params()[0, 0]
    assert found.estimate == pytest.approx(rewards.mean())
    assert found.standard_error == pytest.approx(np.sqrt(variance))
    assert found.ci_high - found.estimate == pytest.approx(
        stats.t.ppf(0.975, models - 1) * found.standard_error
    )


def test_if_words_do_not_matter_the_interval_is_a_t_interval_over_models():
    values = pd.Series([1.0, 2.0, 3.0, 6.0], index=NAMES[:4])
    found = crossed(values, table(np.zeros((50, 4))))
    assert found.standard_error == pytest.approx(values.sem())


def test_a_word_that_a_model_has_not_read_moves_it_by_nothing():
    moved = table([[1.0, np.nan], [-1.0, 0.5], [np.nan, -0.5], [np.nan, np.nan]])
    found = crossed(pd.Series({"a": 0.0, "b": 2.0}), moved)
    assert found.n == 3  # the last word was read by none
    assert found == crossed(pd.Series({"a": 0.0, "b": 2.0}), moved.iloc[:3].fillna(0))


def test_what_words_of_one_stem_move_is_added_up_before_it_is_squared():
    values = pd.Series({"a": 1.0, "b": 3.0})
    moved = pd.DataFrame(
        {"a": [3.0, 1.0, -4.0], "b": [1.0, 0.0, -1.0]}, ["loved", " LOVES", "damn"]
    )
    found = Measured(values, moved)
    of_a, of_b = found.by_model().to_dict("records")
    assert of_a["standard_error"] == pytest.approx(32**0.5)  # (3 + 1)^2 + 4^2
    assert of_b["standard_error"] == pytest.approx(2**0.5)
    assert (of_a["n"], found.mean.n) == (2, 2)  # love and damn
    of_stems = pd.DataFrame({"a": [4.0, -4.0], "b": [1.0, -1.0]}, ["love", "damn"])
    assert found.mean == crossed(values, of_stems)
    assert (found - found).by_model()["n"].tolist() == [2, 2]
    # names of items are no inflections
    of_items = replace(found, cluster=list)
    assert of_items.by_model()["standard_error"]["a"] == pytest.approx(26**0.5)
    assert (of_items.mean.n, (of_items - of_items).mean.n) == (3, 3)


@pytest.mark.parametrize("with_controls", [False, True])
def test_a_slopes_influence_is_that_of_hc3(with_controls):
    rng = np.random.default_rng(2)
    x, controls = rng.normal(size=60), rng.normal(size=(60, 2))
    y = 2 * x + controls[:, 0] + rng.normal(size=60) * np.exp(x)
    design = [x, controls] if with_controls else [x]
    fit = sm.OLS(y, sm.add_constant(np.column_stack(design))).fit(cov_type="HC3")
    held = controls if with_controls else None
    found, moved = slope(x, y, held)
    assert found == pytest.approx(fit.params[1])
    assert np.sqrt((moved**2).sum()) == pytest.approx(fit.bse[1])
    _, both = slope(x, np.column_stack([y, 3 * y]), held)  # models side by side
    assert both[:, 1] == pytest.approx(3 * moved)


ENDINGS = ["", "s", "ed", "ing"]  # of words with one stem


def simulated(rng, of_words: float, of_models: float) -> tuple:
    """The slopes of ten models on the grades of about 300 words of 120 stems, whose mean over stems
    and models to come is 1.
    """
    forms = rng.integers(1, 5, size=120)
    words = [f"w{i}ax{end}" for i, n in enumerate(forms) for end in ENDINGS[:n]]
    stem = np.repeat(np.arange(120), forms)
    # words of one stem have nearly one grade, and are liked alike
    x = rng.normal(size=120)[stem] + 0.3 * rng.normal(size=len(stem))
    liked = rng.normal(size=120)[stem] * np.abs(x)
    own = 1 + of_models * rng.normal(size=10)  # each model's slope
    alone = rng.normal(size=(len(stem), 10))
    y = x[:, None] * own + of_words * liked[:, None] + alone
    slopes, moved = slope(x, y)
    return Measured(pd.Series(slopes, NAMES), pd.DataFrame(moved, words, NAMES))


@pytest.mark.nightly
def test_nineteen_of_twenty_intervals_hold_the_mean_of_stems_and_models_to_come():
    rng, runs, by_stem, by_word = np.random.default_rng(4), 300, 0, 0
    for _ in range(runs):
        found = simulated(rng, of_words=1.0, of_models=0.2)
        stems, words = found.mean, replace(found, cluster=list).mean
        by_stem += stems.ci_low <= 1 <= stems.ci_high
        by_word += words.ci_low <= 1 <= words.ci_high
    # two standard errors of a share of 300 below .95; t with 9 degrees is cautious
    assert by_stem / runs >= 0.925
    # intervals by word take inflected forms for independent words
    assert (by_stem - by_word) / runs >= 0.05
