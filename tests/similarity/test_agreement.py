"""Agreement between models against definitions written out, scipy, and theory."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lib.similarity import agreement

# --- moments --------------------------------------------------------------------------------------


def test_the_influence_of_a_text_on_the_skewness_is_what_leaving_it_out_does():
    values = np.random.default_rng(1).gamma(4, size=1000)  # skewed by 1.2
    without = np.array([stats.skew(np.delete(values, i)) for i in range(1000)])
    influence = agreement.skewness_influence(pd.DataFrame({"M": values}))[
        "M"
    ].to_numpy()
    # of up to .17; with the other sign of the skewness, up to .13 off
    assert influence == pytest.approx(stats.skew(values) - without, abs=0.012)


def test_the_mean_over_pairs_has_the_interval_of_leaving_models_out():
    random = np.random.default_rng(0)
    values = random.uniform(size=(5, 5))
    matrix = pd.DataFrame((values + values.T) / 2)

    def mean_of(kept: list[int]) -> float:
        return np.mean([matrix.loc[i, j] for i, j in itertools.combinations(kept, 2)])

    without = [mean_of([j for j in range(5) if j != i]) for i in range(5)]
    # the jackknife's definition
    pseudo = 5 * mean_of(list(range(5))) - 4 * np.array(without)
    half = stats.t.ppf(0.975, 4) * stats.sem(pseudo)
    mean, ci_low, ci_high = agreement.mean_over_pairs(matrix)
    assert mean == pytest.approx(mean_of(list(range(5))))
    assert (ci_low, ci_high) == pytest.approx(
        (pseudo.mean() - half, pseudo.mean() + half)
    )


def test_models_whose_rewards_are_all_equal_are_left_out():
    texts = [f"t{i}" for i in range(20)]
    rewards = {"a": range(20), "b": range(20, 0, -1), "c": [1] * 20}
    tables = {
        name: pd.DataFrame({"text": texts, "greatest": own})
        for name, own in rewards.items()
    }
    kept, reason = agreement.comparable(tables, "greatest")
    assert list(kept) == ["a", "b"] and reason == "the rewards of c are all equal"
