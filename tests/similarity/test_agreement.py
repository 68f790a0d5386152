"""Agreement between models against definitions written out, scipy, and theory; the map of models
by hand.
"""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.spatial.distance import pdist, squareform

from lib.similarity import agreement

# --- moments --------------------------------------------------------------------------------------


def test_moments_of_four_rewards():
    table = pd.DataFrame({"M": [0, 0, 0, 4]})
    found = agreement.moments(table, resamples=10).loc["M"]
    assert found["n"] == 4
    assert found["mean"] == pytest.approx(1)
    # population variance, ddof 0
    assert found["variance"] == pytest.approx((3 * 1**2 + 3**2) / 4)
    assert found["skewness"] == pytest.approx((3 * (-1) ** 3 + 3**3) / 4 / 3**1.5)


def test_the_influence_of_a_text_on_the_skewness_is_what_leaving_it_out_does():
    values = np.random.default_rng(1).normal(size=1000)
    without = np.array([stats.skew(np.delete(values, i)) for i in range(1000)])
    influence = agreement.skewness_influence(pd.DataFrame({"M": values}))[
        "M"
    ].to_numpy()
    # of up to .047
    assert influence == pytest.approx(stats.skew(values) - without, abs=0.0015)


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


def test_a_flat_arrangement_is_mapped_without_stress():
    # 3-4-5 triangle among them
    points = np.array([[0, 0], [0.3, 0], [0, 0.4], [0.5, 0.1], [0.2, 0.2]])
    similarity = pd.DataFrame(1 - squareform(pdist(points)))
    found, stress = agreement.model_map(similarity)
    assert pdist(found) == pytest.approx(pdist(points), abs=1e-3) and stress < 1e-3
    assert found["x"].std() >= found["y"].std() and (found.loc[0] >= 0).all()


def test_models_whose_rewards_are_all_equal_are_left_out():
    texts = [f"t{i}" for i in range(20)]
    rewards = {"a": range(20), "b": range(20, 0, -1), "c": [1] * 20}
    tables = {
        name: pd.DataFrame({"text": texts, "greatest": own})
        for name, own in rewards.items()
    }
    kept, reason = agreement.comparable(tables, "greatest")
    assert list(kept) == ["a", "b"] and reason == "the rewards of c are all equal"
