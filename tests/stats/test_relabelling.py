"""Permutation tests: every relabelling against itertools, one regression each, scikit-bio, and
their size.
"""

import itertools

import numpy as np
import pandas as pd
import pytest
import skbio
from matrices import least_squares, random_matrices, reorder
from scipy.spatial.distance import squareform

from lib.similarity import factors
from lib.stats import relabelling, resampling
from lib.tables import registry


@pytest.mark.parametrize("models", [2, 3, 4, 5, 6])
def test_every_relabelling_comes_once(models):
    random = np.random.default_rng(models)
    square, *weights = random.normal(size=(4, models, models))
    square, weights = square + square.T, np.array([one + one.T for one in weights])
    first, second = np.triu_indices(models, 1)
    plain = [
        [
            (square[np.ix_(o, o)][first, second] * one[first, second]).sum()
            for one in weights
        ]
        for o in itertools.permutations(range(models))
    ]
    blocks = [
        block.reshape(3, -1).T for block in relabelling.every_product(square, weights)
    ]
    found = np.concatenate(blocks)
    assert found.shape == (len(plain), 3)
    assert found[np.lexsort(found.T)] == pytest.approx(
        np.array(plain)[np.lexsort(np.array(plain).T)]
    )
    assert blocks[0][0] == pytest.approx(plain[0])  # the first is the order as it is


def p_of_each(matrix, predictors, **options):
    return pd.Series(
        {
            name: relabelling.p_of(matrix, predictors, name, **options)
            for name in predictors
        }
    )


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
    t = [
        abs(
            least_squares(
                outcome,
                np.column_stack([reorder(residual, o).to_numpy()[upper], others]),
            )[1][0]
        )
        for o in orders
    ]
    return np.mean(np.array(t) >= t[0] * (1 - 1e-9))


@pytest.mark.parametrize("predictors", [1, 2, 3])
def test_mrqap_is_one_regression_per_relabelling(predictors):
    matrix, found = random_matrices(6, predictors, seed=predictors)
    p = p_of_each(matrix, found)
    orders = [list(order) for order in itertools.permutations(range(6))]
    for name in found:
        assert p[name] == pytest.approx(
            plain_semi_partial_p(matrix, found, name, orders), abs=1e-12
        )


def test_more_models_than_can_be_enumerated_are_relabelled_at_random(monkeypatch):
    monkeypatch.setattr(relabelling, "EXACT", 6)
    matrix, found = random_matrices(7, 2, seed=2)
    p = p_of_each(matrix, found, permutations=300)
    orders = resampling.orders(7, 300)
    assert len(orders) == 301 and (orders[0] == np.arange(7)).all()
    for name in found:
        assert p[name] == pytest.approx(
            plain_semi_partial_p(matrix, found, name, orders), abs=1e-12
        )


@pytest.mark.parametrize("seed", range(3))
def test_one_predictor_gives_the_p_of_scikit_bios_mantel(seed):
    matrix, predictors = random_matrices(9, 1, seed=seed)
    squares = [
        frame.to_numpy() - np.eye(9) * np.diag(frame)
        for frame in (matrix, predictors["x0"])
    ]
    _, theirs, _ = skbio.stats.distance.mantel(
        *map(skbio.DistanceMatrix, squares), permutations=20_000, seed=1
    )
    ours = p_of_each(matrix, predictors)["x0"]
    assert theirs == pytest.approx(
        ours, abs=4 * (ours * (1 - ours) / 20_000) ** 0.5 + 1 / 20_000
    )


def test_p_does_not_depend_on_scale_or_on_the_order_of_models():
    matrix, predictors = random_matrices(8, seed=2)
    p = p_of_each(matrix, predictors)
    scaled = {name: 3 + 100 * one for name, one in predictors.items()}
    assert p_of_each(0.1 * matrix - 5, scaled).to_dict() == p.to_dict()
    assert p_of_each(matrix.iloc[::-1, ::-1], predictors).to_dict() == p.to_dict()


def test_ten_models_are_enumerated_and_the_smallest_p_is_one_of_all():
    matrix, rank = (
        factors.printed_matrix(),
        factors.theoretical(registry.reward_model_rows(factors.printed_matrix().index))[
            "rank"
        ],
    )
    # so near that no other order of ten models is as near
    nearly = 0.9 * rank + 0.1 * matrix
    assert relabelling.p_of(nearly, {"rank": rank}, "rank") == 1 / 3_628_800
    base = factors.theoretical(registry.reward_model_rows(matrix.index))["base"]
    exactly = relabelling.p_of(base, {"base": base}, "base")
    # ten models, four of them of one base: 10! / (4! 6!) deals
    assert exactly == pytest.approx(1 / 210)


def test_the_size_of_mantels_test_is_the_share_of_shuffles_that_it_calls_significant():
    matrix, predictors = random_matrices(5, 1, seed=5)
    x = predictors["x0"]
    p = [
        relabelling.p_of(matrix, {"x": reorder(x, list(o))}, "x")
        for o in itertools.permutations(range(5))
    ]
    assert relabelling.size_of_mantel(matrix, x) == pytest.approx(
        np.mean(np.array(p) < 0.05)
    )


def test_the_interval_ends_where_p_of_the_matrix_without_the_effect_falls_below_the_level():
    random = np.random.default_rng(3)
    names = list("abcdefg")
    theory = pd.DataFrame(
        squareform(random.integers(0, 2, 21).astype(float)), names, names
    )
    other = pd.DataFrame(squareform(random.normal(size=21)), names, names)
    noise = pd.DataFrame(squareform(random.normal(size=21)), names, names)
    both = {"x": theory, "z": other}
    low, high = relabelling.interval(0.7 * theory + other + noise, both, "x", 0.9)
    shifted = relabelling.interval(5.7 * theory + other + noise, both, "x", 0.9)
    # an added effect moves both ends by as much
    assert shifted == pytest.approx((low + 5, high + 5), abs=0.005)
    for end, inwards in ((low, 0.005), (high, -0.005)):
        p = [
            relabelling.p_of((0.7 - d) * theory + other + noise, both, "x")
            for d in (end - inwards, end + inwards)
        ]
        # exact p of all 5,040 relabellings, outside and inside of the end
        assert p[0] < 0.1 <= p[1]
