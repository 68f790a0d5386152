"""Permutation tests of similarity matrices: do shuffled names of models give as strong a relation
(section 2.2)?

Pairs that share a model are not independent, so models are permuted: rows and columns together. Up
to EXACT models every relabelling is enumerated. For more models they are drawn at random.
"""

import itertools
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from numpy import ndarray
from scipy.spatial.distance import squareform

from .. import InputError
from . import resampling

PERMUTATIONS = 10_000  # of more than EXACT models
EXACT = 10  # models, 3,628,800 relabellings: a tenth of a second
# orders that only swap equal models give the observed value up to rounding
SLACK = 1e-9

# trait -> similarity of models by this trait, models x models
Predictors = Mapping[str, pd.DataFrame]


def p_of(
    matrix: pd.DataFrame,
    predictors: Predictors,
    name: str,
    permutations: int = PERMUTATIONS,
) -> float:
    """Return the two-sided permutation p of one of the predictors in the regression over pairs
    (MRQAP), in (0, 1].

    Double semi-partialling: the residual of the predictor given the others is permuted, and its t
    with the others in the model is compared with the observed one (Dekker, Krackhardt and Snijders
    2007, Psychometrika 72, 563-581). With one predictor this is Mantel's test (1967). p is the
    share of relabellings with as large a t. Above EXACT models these are `permutations` random ones
    and the observed one.
    """
    shares, _ = _relabelled(matrix, predictors, name, permutations)
    return _p_without(0.0, shares)


def size_of_mantel(
    matrix: pd.DataFrame,
    predictor: pd.DataFrame,
    permutations: int = PERMUTATIONS,
) -> float:
    """Return how often Mantel's test finds p < .05 over all relabellings of the predictor, in [0,
    .05].

    Every relabelled predictor has the same distribution, so one enumeration gives the p of each.
    Ties make the share less than .05: there are only 210 ways to divide ten models into bases of
    four and six.
    """
    shares, _ = _relabelled(matrix, {"x": predictor}, "x", permutations)
    every = np.sort(np.abs(shares[0]))
    smaller = np.searchsorted(every, every * (1 - SLACK))
    return float((1 - smaller / len(every) < 0.05).mean())


def interval(
    matrix: pd.DataFrame,
    predictors: Predictors,
    name: str,
    level: float = 0.9,
) -> tuple[float, float]:
    """Return the smallest and the largest effect of a predictor that the test of `p_of` does not
    reject.

    An effect d is rejected if the matrix without it, matrix - d * predictor, gives p < 1 - level.
    All d are tested on the same relabellings: every one of up to EXACT models, else random ones.
    The ends are found by bisection, to a thousandth of their distance from the estimate.
    """
    shares, reach = _relabelled(matrix, predictors, name, PERMUTATIONS)
    estimate = float(shares[0, 0] / shares[1, 0])

    def end(step: float) -> float:
        near, far = estimate, estimate + step
        while _p_without(far, shares) >= 1 - level and abs(far) < 1e6 * reach:
            near, far = far, far + 2 * (far - estimate)
        for _ in range(10):
            middle = (near + far) / 2
            if _p_without(middle, shares) < 1 - level:
                far = middle
            else:
                near = middle
        return far

    return end(-reach), end(reach)


def as_square(pairs: ndarray) -> ndarray:
    """Return values of pairs i < j, row by row, as a symmetric matrix with a diagonal of zeros."""
    return squareform(pairs)


def _p_without(effect: float, shares: ndarray) -> float:
    """Return the share of relabellings that are as strong as the observed one, the first, once an
    effect is taken from the outcome. For shares see _relabelled.
    """
    strength = np.abs(shares[0] - effect * shares[1])
    return float((strength >= strength[0] * (1 - SLACK)).mean())


def _relabelled(
    matrix: pd.DataFrame, predictors: Predictors, name: str, permutations: int
) -> tuple[ndarray, float]:
    """Return the products of the relabelled predictor with the outcome and with itself, (2,
    orders), and the size of an effect that would explain the outcome alone.

    Each product is divided by the length that the other predictors leave of the relabelled one, so
    |t| rises with it. The first order is the observed one.
    """
    outcome, design = observations(matrix, predictors, "pairs")
    column = list(predictors).index(name)
    others = np.delete(design, column, axis=1)
    basis, _ = np.linalg.qr(np.column_stack([np.ones(len(outcome)), others]))
    both = np.column_stack([outcome, design[:, column]])
    free, residual = (both - basis @ (basis.T @ both)).T
    square = squareform(residual)
    weights = np.stack([squareform(each) for each in (free, residual, *basis.T)])
    if len(square) <= EXACT:
        blocks = every_product(square, weights)
    else:
        orders = resampling.orders(len(square), permutations)
        blocks = iter([products(square, weights, orders)])
    total = residual @ residual
    shares = []
    for block in blocks:
        sums = block.reshape(len(block), -1)
        left = total - (sums[2:] ** 2).sum(axis=0)
        shares.append(sums[:2] / np.sqrt(np.maximum(left, 1e-12 * total)))
    return np.hstack(shares), float(np.sqrt(free @ free / total))


def products(square: ndarray, weights: ndarray, orders: ndarray) -> ndarray:
    """Return the sum over pairs i < j of square[o_i, o_j] weights[:, i, j] for each order o: (m,
    orders).

    `square`: (n, n). `weights`: (m, places, places). Both are symmetric. `orders`: the label at
    each place, (orders, places).
    """
    first, second = np.triu_indices(weights.shape[1], 1)
    relabelled = square[orders[:, first], orders[:, second]]  # (orders, pairs)
    return weights[:, first, second] @ relabelled.T


def every_product(square: ndarray, weights: ndarray) -> Iterator[ndarray]:
    """Yield the `products` of each of the n! orders, in blocks (m, a, b).

    A block puts one half of the labels into the first half of the places. Sums over pairs inside a
    half are computed once per order of that half. Sums across halves take one matrix product: 10!
    orders are 252 blocks of 120 x 120.
    """
    n = len(square)
    half = n // 2
    front, back = (
        np.array([*itertools.permutations(range(size))], dtype=int)
        for size in (half, n - half)
    )
    one_hot = np.eye(n - half)[back].reshape(len(back), -1)  # (b, places x labels)
    weights_a, weights_b = weights[:, :half, :half], weights[:, half:, half:]
    weights_across = weights[:, :half, half:]
    for labels in itertools.combinations(range(n), half):
        first = np.array(labels, dtype=int)
        second = np.setdiff1d(np.arange(n), first)
        within_a = products(square, weights_a, first[front])
        within_b = products(square, weights_b, second[back])
        # (a, places of the first half, labels of the second half)
        between = square[first[front]][:, :, second]
        # (m, a, places x labels of the second half)
        across = np.einsum("mpq,apl->maql", weights_across, between, optimize=True)
        across = across.reshape(len(weights), len(front), -1) @ one_hot.T
        yield within_a[:, :, None] + within_b[:, None, :] + across


def observations(
    matrix: pd.DataFrame, predictors: Predictors, entries: str
) -> tuple[ndarray, ndarray]:
    """Return the outcome (n,) and the predictors (n, k) of a regression of a matrix.

    `entries`: "pairs" of different models (above the diagonal, row by row) or "all" of the matrix.
    Raise InputError for a malformed matrix, predictors of other models, or too few models to tell
    the predictors apart.
    """
    names = matrix.index
    chosen = np.triu_indices(len(names), 1)
    if entries == "all":
        chosen = tuple(np.indices(matrix.shape).reshape(2, -1))
    columns = []
    # NaN for a model that a theory lacks
    theories = [each.reindex(names, columns=names) for each in predictors.values()]
    for each in (matrix, *theories):
        refuse_malformed(each)
        columns.append(each.to_numpy(dtype=float)[chosen])
    outcome, *others = columns
    design = np.column_stack([np.ones(len(outcome)), *others])
    n, k = design.shape
    if n <= k or np.linalg.matrix_rank(design) < k:
        raise InputError(
            f"{len(names)} models are too few, or too alike, to tell apart "
            f"{', '.join(predictors)}; leave a predictor out"
        )
    return outcome, design[:, 1:]


def can_be_told_apart(matrix: pd.DataFrame, predictors: Predictors) -> bool:
    """Return whether this matrix can be regressed on these predictors together."""
    try:
        observations(matrix, predictors, "pairs")
    except InputError:
        return False
    return bool(predictors)


def refuse_malformed(matrix: pd.DataFrame) -> None:
    """Raise InputError unless the matrix is symmetric, with the same models on both sides."""
    values = matrix.to_numpy(dtype=float)
    has_same_models = matrix.index.equals(matrix.columns)
    # NaN is not close to NaN
    if not has_same_models or not np.allclose(values, values.T):
        raise InputError(
            "a similarity matrix needs the same models on both sides, and equal mirrored entries"
        )
