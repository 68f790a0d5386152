"""Permutation tests of similarity matrices: do shuffled names of models give as strong a relation
(section 2.2)?

Pairs that share a model are not independent, so models are permuted: rows and columns together. Up
to EXACT models every relabelling is tried. For more models they are drawn at random.
"""

from collections.abc import Mapping
from functools import cache

import numpy as np
import pandas as pd
from numpy import ndarray
from scipy.spatial.distance import squareform

PERMUTATIONS = 10_000  # of more than EXACT models
EXACT = 10  # models, 3,628,800 relabellings: a few seconds
AT_ONCE = 1_000  # relabellings, as a processor keeps their pairs at hand
# orders that only swap equal models give the observed value up to rounding
SLACK = 1e-9

# trait -> similarity of models by this trait, models x models
Predictors = Mapping[str, pd.DataFrame]


@cache
def orders(n: int) -> ndarray:
    """Return relabellings of n models, (n, orders): every one, or random ones. The first is the
    observed order.
    """
    if n <= EXACT:
        every = np.zeros((0, 1), np.int8)
        for models in range(1, n + 1):
            each = []
            for first in range(models):  # then the others, in each of their orders
                others = every + (every >= first)
                each.append(np.insert(others, 0, first, axis=0))
            every = np.hstack(each)
        return every
    random = np.random.default_rng(0)
    observed = np.arange(n)
    permuted = random.permuted(np.tile(observed, (PERMUTATIONS, 1)), axis=1)
    return np.vstack([observed, permuted]).T


def relabelled(matrix: pd.DataFrame, predictors: Predictors, name: str) -> ndarray:
    """Return the products of a relabelled predictor with the outcome and with itself, (2, orders).

    Double semi-partialling: the residual of the predictor given the others is permuted (Dekker,
    Krackhardt and Snijders 2007, Psychometrika 72, 563-581). Each product is divided by the length
    that the other predictors leave of the relabelled one, so |t| rises with it.
    """
    outcome, design = observations(matrix, predictors, "pairs")
    column = 1 + list(predictors).index(name)
    basis, _ = np.linalg.qr(np.delete(design, column, axis=1))
    both = np.column_stack([outcome, design[:, column]])
    free, residual = (both - basis @ (basis.T @ both)).T
    weights = np.vstack([free, residual, basis.T])  # (2 + k, pairs)
    square = squareform(residual)
    first, second = np.triu_indices(len(square), 1)
    total = residual @ residual
    every = orders(len(square))
    shares = []
    for start in range(0, every.shape[1], AT_ONCE):
        some = every[:, start : start + AT_ONCE]
        # (pairs, orders)
        moved = square.take(len(square) * some[first] + some[second])
        sums = weights @ moved
        left = total - (sums[2:] ** 2).sum(axis=0)
        shares.append(sums[:2] / np.sqrt(np.maximum(left, 1e-12 * total)))
    return np.hstack(shares)


def p_of(shares: ndarray, effect: float = 0.0) -> float:
    """Return the two-sided permutation p of a predictor in the regression over pairs (MRQAP), in
    (0, 1], once an effect is taken from the outcome. For `shares` see relabelled.

    p is the share of relabellings that are as strong as the observed one. With one predictor this
    is Mantel's test (1967).
    """
    strength = np.abs(shares[0] - effect * shares[1])
    return float((strength >= strength[0] * (1 - SLACK)).mean())


def size_of_mantel(shares: ndarray) -> float:
    """Return how often Mantel's test finds p < .05 over all relabellings of the predictor, in [0,
    .05].

    Every relabelled predictor has the same distribution, so one enumeration gives the p of each.
    Ties make the share less than .05: there are only 210 ways to divide ten models into bases of
    four and six.
    """
    every = np.sort(np.abs(shares[0]))
    smaller = np.searchsorted(every, every * (1 - SLACK))
    return float((1 - smaller / len(every) < 0.05).mean())


def interval(shares: ndarray) -> tuple[float, float]:
    """Return the smallest and the largest effect that the test does not reject: p >= .05. They are
    infinite where no effect is rejected.

    A relabelling with the products a and c (`shares`, see relabelled) is as strong as the observed
    order, with a_0 and c_0, for every effect between (a_0 - a) / (c_0 - c) and (a_0 + a) / (c_0 +
    c). All of these ranges hold the estimate, a_0 / c_0, so p falls on both sides of it, and each
    end is the end of a range.
    """
    a, c = shares
    # orders that only swap equal models are as strong for any effect
    others = np.abs(c) < c[0] * (1 - SLACK)
    needed = -(-len(c) // 20) - np.count_nonzero(~others)
    if needed <= 0:
        return -np.inf, np.inf
    a, c, a_0, c_0 = a[others], c[others], a[0], c[0]
    one, other = (a_0 - a) / (c_0 - c), (a_0 + a) / (c_0 + c)
    low = np.partition(np.minimum(one, other), needed - 1)[needed - 1]
    high = np.partition(np.maximum(one, other), -needed)[-needed]
    return float(low), float(high)


def observations(
    matrix: pd.DataFrame, predictors: Predictors, entries: str
) -> tuple[ndarray, ndarray]:
    """Return the outcome (n,) and the design (n, 1 + k) of a regression of a matrix: an intercept,
    then the predictors.

    `entries`: "pairs" of different models (above the diagonal, row by row) or "all" of the matrix.
    """
    names = matrix.index
    chosen = np.triu_indices(len(names), 1)
    if entries == "all":
        chosen = tuple(np.indices(matrix.shape).reshape(2, -1))
    theories = [each.loc[names, names] for each in predictors.values()]
    columns = [each.to_numpy(dtype=float)[chosen] for each in (matrix, *theories)]
    outcome, *others = columns
    return outcome, np.column_stack([np.ones(len(outcome)), *others])
