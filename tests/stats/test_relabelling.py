"""Permutation tests: one regression for each relabelling, exact p, and their size."""

import itertools

import numpy as np
import pandas as pd
import pytest
from matrices import least_squares, random_matrices, reorder
from scipy.spatial.distance import squareform

from lib.claims.claims import paper_table
from lib.similarity import factors
from lib.stats import relabelling
from lib.tables import registry


def p_of(matrix, predictors, name):
    return relabelling.p_of(relabelling.relabelled(matrix, predictors, name))


def plain_semi_partial_p(matrix, predictors, name, orders):
    """MRQAP without algebra: residuals by a regression, permuted as a matrix, and one regression
    per permutation.
    """
    upper = np.triu_indices(len(matrix), 1)
    outcome = matrix.to_numpy()[upper]
    others = [
        one.to_numpy()[upper] for other, one in predictors.items() if other != name
    ]
    others = np.column_stack(others) if others else np.empty((len(outcome), 0))
    with_intercept = np.column_stack([np.ones(len(outcome)), others])
    x = predictors[name].to_numpy()[upper]
    residual = np.zeros(matrix.shape)
    residual[upper] = x - with_intercept @ np.linalg.lstsq(with_intercept, x)[0]
    residual = pd.DataFrame(residual + residual.T, matrix.index, matrix.index)
    t = []
    for order in orders:
        moved = reorder(residual, order).to_numpy()[upper]
        t.append(abs(least_squares(outcome, np.column_stack([moved, others]))[1][0]))
    return np.mean(np.array(t) >= t[0] * (1 - 1e-9))


@pytest.mark.parametrize("predictors", [1, 3])
def test_mrqap_is_one_regression_per_relabelling(predictors):
    matrix, found = random_matrices(6, predictors, seed=predictors)
    for name in found:
        plain = plain_semi_partial_p(
            matrix, found, name, [*itertools.permutations(range(6))]
        )
        assert p_of(matrix, found, name) == pytest.approx(plain, abs=1e-12)


def test_more_models_than_can_be_enumerated_are_relabelled_at_random(monkeypatch):
    monkeypatch.setattr(relabelling, "EXACT", 6)
    monkeypatch.setattr(relabelling, "PERMUTATIONS", 300)
    relabelling.orders.cache_clear()
    matrix, found = random_matrices(7, 2, seed=2)
    orders = relabelling.orders(7).T
    assert len(orders) == 301 and (orders[0] == np.arange(7)).all()
    assert p_of(matrix, found, "x0") == pytest.approx(
        plain_semi_partial_p(matrix, found, "x0", orders), abs=1e-12
    )
    relabelling.orders.cache_clear()


def test_ten_models_are_enumerated_and_the_smallest_p_is_one_of_all():
    matrix = paper_table("fig2a_tau").set_index("nickname").rename_axis(None)
    theory = factors.theoretical(registry.reward_models(matrix.index))
    # so near that no other order of ten models is as near
    nearly = 0.9 * theory["rank"] + 0.1 * matrix
    assert p_of(nearly, {"rank": theory["rank"]}, "rank") == 1 / 3_628_800
    # ten models, four of them of one base: 10! / (4! 6!) deals
    base = theory["base"]
    assert p_of(base, {"base": base}, "base") == pytest.approx(1 / 210)


def test_the_size_of_mantels_test_is_the_share_of_shuffles_that_it_calls_significant():
    matrix, predictors = random_matrices(5, 1, seed=5)
    x = predictors["x0"]
    p = [
        p_of(matrix, {"x": reorder(x, list(o))}, "x")
        for o in itertools.permutations(range(5))
    ]
    shares = relabelling.relabelled(matrix, {"x": x}, "x")
    size = relabelling.size_of_mantel(shares)
    assert size == pytest.approx(np.mean(np.array(p) < 0.05))


def test_the_interval_ends_where_p_of_the_matrix_without_the_effect_falls_below_the_level():
    random = np.random.default_rng(3)
    names = list("abcdefg")
    theory, other, noise = (
        pd.DataFrame(squareform(some), names, names)
        for some in (random.integers(0, 2, 21) * 1.0, *random.normal(size=(2, 21)))
    )
    both = {"x": theory, "z": other}

    def interval(effect):
        matrix = effect * theory + other + noise
        return relabelling.interval(relabelling.relabelled(matrix, both, "x"))

    low, high = interval(0.7)
    # an added effect moves both ends by as much
    assert interval(5.7) == pytest.approx((low + 5, high + 5), abs=1e-9)
    for end, inwards in ((low, 1e-6), (high, -1e-6)):
        p = [
            p_of((0.7 - d) * theory + other + noise, both, "x")
            for d in (end - inwards, end + inwards)
        ]
        # exact p of all 5,040 relabellings, outside and inside of the end
        assert p[0] < 0.05 <= p[1]


def test_of_three_models_no_effect_is_rejected():
    matrix, predictors = random_matrices(3, 1, seed=0)
    shares = relabelling.relabelled(matrix, predictors, "x0")
    assert shares.shape == (2, 6)  # so p is 1/6 at least
    assert relabelling.interval(shares) == (-np.inf, np.inf)
