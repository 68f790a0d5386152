"""Agreement between models against definitions written out, scipy, and theory; the map of models
by hand.
"""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lib.similarity import agreement

# --- moments --------------------------------------------------------------------------------------


def test_moments_of_four_rewards():
    found = agreement.moments({"M": [0, 0, 0, 4]}, resamples=10).loc["M"]
    assert found["n"] == 4
    assert found["mean"] == pytest.approx(1)
    # population variance, ddof 0
    assert found["variance"] == pytest.approx((3 * 1**2 + 3**2) / 4)
    assert found["skewness"] == pytest.approx((3 * (-1) ** 3 + 3**3) / 4 / 3**1.5)


def test_moments_agree_with_scipy_far_from_zero():
    rewards = -30_000 + 0.01 * np.random.default_rng(0).gamma(2, size=5000)
    found = agreement.moments({"M": rewards}, resamples=10).loc["M"]
    assert found["skewness"] == pytest.approx(stats.skew(rewards), rel=1e-6)
    assert found["variance"] == pytest.approx(rewards.var(), rel=1e-6)
    mirrored = agreement.moments({"M": -rewards}, resamples=10).loc["M"]
    assert mirrored["skewness"] == pytest.approx(-found["skewness"])
    for moment in ("mean", "variance", "skewness"):
        assert found[f"{moment}_ci_low"] < found[moment] < found[f"{moment}_ci_high"]


def test_the_influence_of_a_text_on_the_skewness_is_what_leaving_it_out_does():
    values = np.random.default_rng(1).normal(size=1000)
    without = np.array([stats.skew(np.delete(values, i)) for i in range(1000)])
    influence = agreement.skewness_influence(pd.DataFrame({"M": values}))[
        "M"
    ].to_numpy()
    # of up to .047
    assert influence == pytest.approx(stats.skew(values) - without, abs=0.0015)
    assert (influence**2).sum() == pytest.approx(
        0.999 * ((without - without.mean()) ** 2).sum(), rel=0.05
    )
    assert influence.sum() == pytest.approx(0, abs=1e-9)


def test_a_count_of_skewed_models_has_an_interval():
    random = np.random.default_rng(1)
    rewards = pd.DataFrame(
        {
            "right": random.gamma(1, size=300),
            "left": -random.gamma(1, size=300),
            "even": np.r_[-1.0:1.0:300j] ** 3,
        }
    )
    found = agreement.skews({"greatest": rewards}, {"greatest": rewards}, 400).loc[
        "greatest"
    ]
    even = stats.skew(rewards["even"]) > 0
    assert (found["n_positive"] - even, found["ci_low"], found["ci_high"]) == (1, 1, 2)
    assert found["as_published"] == found["n_positive"] and found["others"] == (
        "left" if even else "left, even"
    )
    assert found["mean"] == pytest.approx(stats.skew(rewards.to_numpy()).mean())


def test_a_flat_arrangement_is_mapped_without_stress(recwarn):
    # 3-4-5 triangle among them
    points = np.array([[0, 0], [0.3, 0], [0, 0.4], [0.5, 0.1], [0.2, 0.2]])
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    found = agreement.model_map(
        pd.DataFrame(1 - distances, list("abcde"), list("abcde"))
    )
    placed = found.positions.to_numpy()
    assert np.linalg.norm(placed[:, None] - placed[None], axis=2) == pytest.approx(
        distances, abs=1e-3
    )
    assert found.stress < 1e-3
    assert found.closeness.loc["b", "c"] == pytest.approx(1 - 0.5, abs=1e-3)
    assert not recwarn.list
    assert found.positions["x"].std() >= found.positions["y"].std()
    assert (found.positions.loc["a"] >= 0).all()


# --- what can be compared -------------------------------------------------------------------------


def table_of(rewards, texts=None):
    texts = texts or [f"t{i}" for i in range(len(rewards))]
    return pd.DataFrame(
        {"token_id": range(len(rewards)), "text": texts, "greatest": rewards}
    )


def test_what_cannot_be_compared_is_left_out_with_the_reason():
    varied, other = table_of(np.arange(20.0)), table_of(np.arange(20.0)[::-1])
    assert agreement.comparable({"a": varied, "b": other}, "greatest")[1] == ""
    kept, reason = agreement.comparable(
        {"a": varied, "b": other, "c": table_of(np.ones(20))}, "greatest"
    )
    assert list(kept) == ["a", "b"] and reason == "the rewards of c are all equal"
    assert agreement.comparable({"a": varied}, "greatest") == (
        {},
        "1 of the models can be compared, and 2 are needed",
    )
    elsewhere = table_of(np.arange(20.0), [f"u{i}" for i in range(20)])
    assert agreement.comparable({"a": varied, "b": elsewhere}, "greatest") == (
        {},
        "the models share 0 texts, and 10 are needed",
    )


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


def test_two_models_have_a_mean_without_an_interval():
    mean, *ends = agreement.mean_over_pairs(pd.DataFrame([[1, 0.4], [0.4, 1]]))
    assert mean == 0.4 and np.isnan(ends).all()
