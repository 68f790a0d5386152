"""Means over models and words: the variance of both, what words move, and intervals that hold
what they promise.
"""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

from lib import InputError
from lib.stats.crossed import (
    crossed,
    log_sd_influence,
    mean_influence,
    slope,
    slope_influence,
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
    # By hand: residuals added within a word, within a model, and alone; each with its factor for
    # few groups.
    pseudo = rewards.mean(axis=0) + n * moved
    residual = pseudo - rewards.mean()
    parts = [
        (residual.sum(axis=1) ** 2).sum() * n / (n - 1),
        (residual.sum(axis=0) ** 2).sum() * models / (models - 1),
    ]
    alone = (residual**2).sum() * n * models / (n * models - 1)
    variance = (sum(parts) - alone) / (n * models) ** 2
    assert found.estimate == pytest.approx(rewards.mean())
    assert found.standard_error == pytest.approx(np.sqrt(variance))
    assert found.ci_high - found.estimate == pytest.approx(
        stats.t.ppf(0.975, models - 1) * found.standard_error
    )


def test_if_all_models_are_one_the_interval_is_that_of_the_words():
    rng = np.random.default_rng(1)
    y = rng.normal(size=200)
    moved = table(np.column_stack([mean_influence(y)] * 5))
    found = crossed(pd.Series(y.mean(), index=NAMES[:5]), moved)
    assert found.standard_error == pytest.approx(y.std(ddof=1) / np.sqrt(200), rel=0.01)


def test_if_words_do_not_matter_the_interval_is_a_t_interval_over_models():
    values = pd.Series([1.0, 2.0, 3.0, 6.0], index=NAMES[:4])
    found = crossed(values, table(np.zeros((50, 4))))
    assert found.standard_error == pytest.approx(values.sem())


def test_a_word_that_a_model_has_not_read_moves_it_by_nothing():
    moved = table([[1.0, np.nan], [-1.0, 0.5], [np.nan, -0.5], [np.nan, np.nan]])
    found = crossed(pd.Series({"a": 0.0, "b": 2.0}), moved)
    assert found.n == 3  # the last word was read by none
    assert found == crossed(pd.Series({"a": 0.0, "b": 2.0}), moved.iloc[:3].fillna(0))


def test_an_estimate_that_is_missing_is_refused():
    with pytest.raises(InputError, match="b has no estimate"):
        crossed(pd.Series({"a": 0.0, "b": np.nan}), table(np.zeros((3, 2))))
    with pytest.raises(InputError, match="c has no estimate"):
        crossed(pd.Series({"a": 0.0, "c": 1.0}), table(np.zeros((3, 2))))


@pytest.mark.parametrize("with_controls", [False, True])
def test_a_slopes_influence_is_that_of_hc3(with_controls):
    rng = np.random.default_rng(2)
    x, controls = rng.normal(size=60), rng.normal(size=(60, 2))
    y = 2 * x + controls[:, 0] + rng.normal(size=60) * np.exp(x)
    design = [x, controls] if with_controls else [x]
    fit = sm.OLS(y, sm.add_constant(np.column_stack(design))).fit(cov_type="HC3")
    held = controls if with_controls else None
    assert slope(x, y, held) == pytest.approx(fit.params[1])
    assert np.sqrt((slope_influence(x, y, held) ** 2).sum()) == pytest.approx(
        fit.bse[1]
    )
    both = slope_influence(x, np.column_stack([y, 3 * y]), held)  # models side by side
    assert both[:, 1] == pytest.approx(3 * slope_influence(x, y, held))


def test_the_influence_on_a_log_sd_is_what_dropping_a_word_changes():
    y = np.random.default_rng(3).normal(size=400)
    dropped = [np.log(y.std()) - np.log(np.delete(y, i).std()) for i in range(len(y))]
    # of about 1e-3; they differ at order 1 / n^2
    assert np.abs(log_sd_influence(y) - dropped).max() < 2e-4
    assert np.corrcoef(log_sd_influence(y), dropped)[0, 1] > 0.9999


def simulated(rng, words: int, models: int, of_words: float, of_models: float) -> tuple:
    """The slopes of ten models on the grades of the same words, whose mean over words and models
    to come is 1.
    """
    x = rng.normal(size=words)
    own = 1 + of_models * rng.normal(size=models)  # each model's slope
    # what all models like or dislike about a word
    liked = of_words * rng.normal(size=words) * np.abs(x)
    y = x[:, None] * own + liked[:, None] + rng.normal(size=(words, models))
    return x, y


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("of_words", "of_models"), [(1.0, 0.0), (0.0, 0.1), (1.0, 0.2)]
)
def test_nineteen_of_twenty_intervals_hold_the_mean_of_words_and_models_to_come(
    of_words, of_models
):
    rng, runs, held = np.random.default_rng(4), 200, 0
    for _ in range(runs):
        x, y = simulated(rng, 300, 10, of_words, of_models)
        found = crossed(
            pd.Series(slope(x, y), index=NAMES), table(slope_influence(x, y))
        )
        held += found.ci_low <= 1 <= found.ci_high
    # two standard errors of a share of 200 below .95; t with 9 degrees is cautious
    assert held / runs >= 0.91
