"""Permutation tests of similarity matrices: do shuffled names of models give as strong a relation
(section 2.2)?

Pairs that share a model are not independent, so models are permuted: rows and columns together. Up
to EXACT models every relabelling is enumerated. For more models they are drawn at random.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

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

Two = tuple[ndarray, ndarray]
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
    residuals = _residuals(matrix, predictors, name)
    strengths = _strengths(*residuals, permutations)
    bound = next(strengths).item() * (1 - SLACK)
    reached = relabellings = 0
    for block in strengths:
        reached += np.count_nonzero(block >= bound)
        relabellings += block.size
    return reached / relabellings


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
    residuals = _residuals(matrix, {"x": predictor}, "x")
    _, *blocks = _strengths(*residuals, permutations)
    every = np.concatenate([block.ravel() for block in blocks])
    every.sort()
    smaller = np.searchsorted(every, every * (1 - SLACK))
    p = (len(every) - smaller) / len(every)
    return float((p < 0.05).mean())


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
    free, residual, basis = _residuals(matrix, predictors, name)
    total = residual @ residual
    values = (free, residual, *basis.T)
    sums = _relabelled(residual, values, PERMUTATIONS)
    # Outcome and predictor, relabelled, as shares of the length that the other predictors leave:
    # blocks of (orders,)
    observed, *blocks = [_shares_of_length(block, total) for block in sums]
    is_rejected = partial(_is_rejected, observed=observed, blocks=blocks, level=level)
    estimate = free @ residual / total
    reach = np.sqrt(free @ free / total)
    low = _end(estimate, -reach, is_rejected)
    high = _end(estimate, reach, is_rejected)
    return low, high


def _is_rejected(
    effect: float,
    observed: Two,
    blocks: Sequence[Two],
    level: float,
) -> bool:
    """Return whether the test rejects an effect; for the arrays see `interval`."""
    outcome, own = observed
    distance = abs(outcome - effect * own).item()
    bound = distance * (1 - SLACK)
    reached = relabellings = 0
    for outcome, own in blocks:
        strength = np.abs(outcome - effect * own)
        reached += np.count_nonzero(strength >= bound)
        relabellings += len(strength)
    return reached / relabellings < 1 - level


def as_square(pairs: ndarray) -> ndarray:
    """Return values of pairs i < j, row by row, as a symmetric matrix with a diagonal of zeros."""
    return squareform(pairs)


def _end(estimate: float, reach: float, is_rejected: Callable[[float], bool]) -> float:
    """Return where effects begin to be rejected, seen from the estimate in the direction of
    reach.
    """
    near = estimate
    far = estimate + reach
    farthest = 1e6 * abs(reach)
    while not is_rejected(far) and abs(far) < farthest:
        near = far
        far += 2 * (far - estimate)
    for _ in range(10):
        middle = (near + far) / 2
        if is_rejected(middle):
            far = middle
        else:
            near = middle
    return float(far)


def _relabelled(
    residual: ndarray,
    values: Sequence[ndarray],
    permutations: int,
) -> Iterator[ndarray]:
    """Yield the products of the relabelled residual with each of some values, all (pairs,): for the
    observed order, (values, 1), then for all orders, in blocks that hold the observed one again.
    """
    square = as_square(residual)
    weights = np.stack([as_square(each) for each in values])
    models = len(square)
    if models <= EXACT:
        observed = np.arange(models)[None]
        yield products(square, weights, observed)
        yield from every_product(square, weights)
    else:
        orders = resampling.orders(models, permutations)
        sums = products(square, weights, orders)
        yield sums[:, :1]
        yield sums


def _shares_of_length(sums: ndarray, total: float) -> Two:
    """Return the first two rows of `products`, divided by the length that the other rows leave of
    the predictor.

    sums: (2 + k, ...), products with the outcome, the predictor, and each basis vector of the
    others. total: the squared length of the predictor. Both arrays are flat.
    """
    sums = sums.reshape(len(sums), -1)
    explained = (sums[2:] ** 2).sum(axis=0)
    length = np.sqrt(np.maximum(total - explained, 1e-12 * total))
    return sums[0] / length, sums[1] / length


def _residuals(
    matrix: pd.DataFrame,
    predictors: Predictors,
    name: str,
) -> tuple[ndarray, ndarray, ndarray]:
    """Return what the other predictors leave of the outcome and of this one, (pairs,), and their
    basis, (pairs, k).
    """
    outcome, design = observations(matrix, predictors, "pairs")
    column = list(predictors).index(name)
    intercept = np.ones(len(outcome))
    others = np.delete(design, column, axis=1)
    others = np.column_stack([intercept, others])
    basis, _ = np.linalg.qr(others)
    own = design[:, column]
    free = outcome - basis @ (basis.T @ outcome)
    residual = own - basis @ (basis.T @ own)
    return free, residual, basis


def _strengths(
    free: ndarray,
    residual: ndarray,
    basis: ndarray,
    permutations: int,
) -> Iterator[ndarray]:
    """Yield squared partial correlations, up to a factor: the observed one, then blocks of orders.
    |t| rises with them.

    For the arrays see _residuals.
    """
    total = residual @ residual
    least = 1e-12 * total
    for sums in _relabelled(residual, (free, *basis.T), permutations):
        # squared length of the permuted residual beyond the others
        explained = (sums[1:] ** 2).sum(axis=0)
        left = total - explained
        strength = sums[0] ** 2 / np.maximum(left, least)
        yield np.where(left > least, strength, 0.0)


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
    front = _every_order(half)
    back = _every_order(n - half)
    # (b, places x labels)
    one_hot = np.eye(n - half)[back]
    one_hot = one_hot.reshape(len(back), -1)
    weights_a = weights[:, :half, :half]
    weights_b = weights[:, half:, half:]
    weights_across = weights[:, :half, half:]
    for labels in itertools.combinations(range(n), half):
        first = np.array(labels, dtype=int)
        second = np.setdiff1d(np.arange(n), first)
        a = first[front]
        within_a = products(square, weights_a, a)
        within_b = products(square, weights_b, second[back])
        # (a, places of the first half, labels of the second half)
        between = square[a][:, :, second]
        # (m, places of the second half, a, labels of the second half)
        across = np.tensordot(weights_across, between, axes=(1, 1))
        across = across.transpose(0, 2, 1, 3)
        across = across.reshape(len(weights), len(front), -1)
        across = across @ one_hot.T
        within = within_a[:, :, None] + within_b[:, None, :]
        yield within + across


def _every_order(n: int) -> ndarray:
    """Return the n! orders of 0 to n - 1, (n!, n)."""
    orders = itertools.permutations(range(n))
    return np.array(list(orders), dtype=int)


def observations(matrix: pd.DataFrame, predictors: Predictors, entries: str) -> Two:
    """Return the outcome (n,) and the predictors (n, k) of a regression of a matrix.

    `entries`: "pairs" of different models (above the diagonal, row by row) or "all" of the matrix.
    Raise InputError for a malformed matrix, predictors of other models, or too few models to tell
    the predictors apart.
    """
    refuse_malformed(matrix)
    names = matrix.index
    chosen = np.triu_indices(len(names), 1)
    if entries == "all":
        places = np.indices(matrix.shape)
        chosen = tuple(places.reshape(2, -1))
    outcome = matrix.to_numpy(dtype=float)[chosen]
    columns = [np.ones(len(outcome))]
    for theory in predictors.values():
        similarity = theory.reindex(index=names, columns=names)
        refuse_malformed(similarity)  # NaN for a model that it lacks
        columns.append(similarity.to_numpy(dtype=float)[chosen])
    design = np.column_stack(columns)
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
