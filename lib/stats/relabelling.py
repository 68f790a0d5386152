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

from .. import InputError
from . import resampling

EXACT = 10  # models, 3,628,800 relabellings: a tenth of a second
# orders that only swap equal models give the observed value up to rounding
SLACK = 1e-9


def p_of(
    matrix: pd.DataFrame,
    predictors: Mapping[str, pd.DataFrame],
    name: str,
    permutations: int = 10_000,
    seed: int = 0,
) -> float:
    """Return the two-sided permutation p of one of the predictors in the regression over pairs
    (MRQAP), in (0, 1].

    Double semi-partialling: the residual of the predictor given the others is permuted, and its t
    with the others in the model is compared with the observed one (Dekker, Krackhardt and Snijders
    2007, Psychometrika 72, 563-581). With one predictor this is Mantel's test (1967). p is the
    share of relabellings with as large a t. Above EXACT models these are `permutations` random ones
    and the observed one.
    """
    strengths = _strengths(*_residuals(matrix, predictors, name), permutations, seed)
    observed = next(strengths).item()
    reached = [block >= observed * (1 - SLACK) for block in strengths]
    return sum(block.sum() for block in reached) / sum(block.size for block in reached)


def size_of_mantel(
    matrix: pd.DataFrame,
    predictor: pd.DataFrame,
    permutations: int = 10_000,
    seed: int = 0,
) -> float:
    """Return how often Mantel's test finds p < .05 over all relabellings of the predictor, in [0,
    .05].

    Every relabelled predictor has the same distribution, so one enumeration gives the p of each.
    Ties make the share less than .05: there are only 210 ways to divide ten models into bases of
    four and six.
    """
    strengths = _strengths(
        *_residuals(matrix, {"x": predictor}, "x"), permutations, seed
    )
    next(strengths)
    every = np.sort(np.concatenate([block.ravel() for block in strengths]))
    reached = len(every) - np.searchsorted(every, every * (1 - SLACK))
    return float((reached / len(every) < 0.05).mean())


def interval(
    matrix: pd.DataFrame,
    predictors: Mapping[str, pd.DataFrame],
    name: str,
    level: float = 0.9,
    permutations: int = 10_000,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the smallest and the largest effect of a predictor that the test of `p_of` does not
    reject.

    An effect d is rejected if the matrix without it, matrix - d * predictor, gives p < 1 - level.
    All d are tested on the same relabellings: every one of up to EXACT models, else random ones.
    The ends are found by bisection, to a thousandth of their distance from the estimate.
    """
    free, residual, basis = _residuals(matrix, predictors, name)
    total = residual @ residual
    # Outcome and predictor, relabelled, as shares of the length that the other predictors leave:
    # blocks of (orders,)
    sums = _relabelled(residual, (free, residual, *basis.T), permutations, seed)
    observed, *blocks = [_shares_of_length(block, total) for block in sums]
    is_rejected = partial(_is_rejected, observed=observed, blocks=blocks, level=level)
    estimate, reach = free @ residual / total, np.sqrt(free @ free / total)
    return _end(estimate, -reach, is_rejected), _end(estimate, reach, is_rejected)


def _is_rejected(
    effect: float,
    observed: tuple[np.ndarray, np.ndarray],
    blocks: Sequence[tuple[np.ndarray, np.ndarray]],
    level: float,
) -> bool:
    """Return whether the test rejects an effect; for the arrays see `interval`."""
    outcome, own = observed
    bound = abs(outcome - effect * own).item() * (1 - SLACK)
    reached = [np.abs(outcome - effect * own) >= bound for outcome, own in blocks]
    return sum(map(np.count_nonzero, reached)) / sum(map(len, reached)) < 1 - level


def _end(estimate: float, reach: float, is_rejected: Callable[[float], bool]) -> float:
    """Return where effects begin to be rejected, seen from the estimate in the direction of
    reach.
    """
    near, far = estimate, estimate + reach
    while not is_rejected(far) and abs(far) < 1e6 * abs(reach):
        near, far = far, far + 2 * (far - estimate)
    for _ in range(10):
        middle = (near + far) / 2
        near, far = (near, middle) if is_rejected(middle) else (middle, far)
    return float(far)


def _relabelled(
    residual: np.ndarray, values: Sequence[np.ndarray], permutations: int, seed: int
) -> Iterator[np.ndarray]:
    """Yield the products of the relabelled residual with each of some values, all (pairs,): for the
    observed order, (values, 1), then for all orders, in blocks that hold the observed one again.
    """
    square = as_square(residual)
    weights = np.stack([as_square(each) for each in values])
    models = len(square)
    if models <= EXACT:
        yield products(square, weights, np.arange(models)[None])
        yield from every_product(square, weights)
    else:
        sums = products(square, weights, resampling.orders(models, permutations, seed))
        yield sums[:, :1]
        yield sums


def _shares_of_length(sums: np.ndarray, total: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the first two rows of `products`, divided by the length that the other rows leave of
    the predictor.

    sums: (2 + k, ...), products with the outcome, the predictor, and each basis vector of the
    others. total: the squared length of the predictor. Both arrays are flat.
    """
    sums = sums.reshape(len(sums), -1)
    length = np.sqrt(np.maximum(total - (sums[2:] ** 2).sum(axis=0), 1e-12 * total))
    return sums[0] / length, sums[1] / length


def _residuals(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], name: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what the other predictors leave of the outcome and of this one, (pairs,), and their
    basis, (pairs, k).
    """
    outcome, design = observations(matrix, predictors, "pairs")
    column = list(predictors).index(name)
    basis = np.linalg.qr(
        np.column_stack([np.ones(len(outcome)), np.delete(design, column, axis=1)])
    )[0]
    free, residual = (
        values - basis @ (basis.T @ values) for values in (outcome, design[:, column])
    )
    return free, residual, basis


def _strengths(
    free: np.ndarray,
    residual: np.ndarray,
    basis: np.ndarray,
    permutations: int,
    seed: int,
) -> Iterator[np.ndarray]:
    """Yield squared partial correlations, up to a factor: the observed one, then blocks of orders.
    |t| rises with them.

    For the arrays see _residuals.
    """
    total = residual @ residual
    for sums in _relabelled(residual, (free, *basis.T), permutations, seed):
        # squared length of the permuted residual beyond the others
        left = total - (sums[1:] ** 2).sum(axis=0)
        yield np.where(
            left > 1e-12 * total, sums[0] ** 2 / np.maximum(left, 1e-12 * total), 0.0
        )


def products(square: np.ndarray, weights: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Return the sum over pairs i < j of square[o_i, o_j] weights[:, i, j] for each order o: (m,
    orders).

    `square`: (n, n). `weights`: (m, places, places). Both are symmetric. `orders`: the label at
    each place, (orders, places).
    """
    first, second = np.triu_indices(weights.shape[1], 1)
    return weights[:, first, second] @ square[orders[:, first], orders[:, second]].T


def every_product(square: np.ndarray, weights: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the `products` of each of the n! orders, in blocks (m, a, b).

    A block puts one half of the labels into the first half of the places. Sums over pairs inside a
    half are computed once per order of that half. Sums across halves take one matrix product: 10!
    orders are 252 blocks of 120 x 120.
    """
    n = len(square)
    half = n // 2
    front = np.array(list(itertools.permutations(range(half))), dtype=int)
    back = np.array(list(itertools.permutations(range(n - half))), dtype=int)
    # (b, places x labels)
    one_hot = (
        (back[:, :, None] == np.arange(n - half)).astype(float).reshape(len(back), -1)
    )
    for labels in itertools.combinations(range(n), half):
        rest = np.array([label for label in range(n) if label not in labels], dtype=int)
        a, b = np.array(labels, dtype=int)[front], rest[back]
        within_a = products(square, weights[:, :half, :half], a)
        within_b = products(square, weights[:, half:, half:], b)
        # (m, places of the second half, a, labels of the second half)
        across = np.tensordot(
            weights[:, :half, half:], square[a][:, :, rest], axes=(1, 1)
        )
        across = (
            across.transpose(0, 2, 1, 3).reshape(len(weights), len(front), -1)
            @ one_hot.T
        )
        yield within_a[:, :, None] + within_b[:, None, :] + across


def as_square(values: np.ndarray) -> np.ndarray:
    """Return values of pairs (above the diagonal, row by row) as a symmetric matrix with zeros
    on its diagonal.
    """
    models = round((1 + (1 + 8 * len(values)) ** 0.5) / 2)
    square = np.zeros((models, models))
    square[np.triu_indices(models, 1)] = values
    return square + square.T


def observations(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], entries: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the outcome (n,) and the predictors (n, k) of a regression of a matrix.

    `entries`: "pairs" of different models (above the diagonal, row by row) or "all" of the matrix.
    Raise InputError for a malformed matrix, predictors of other models, or too few models to tell
    the predictors apart.
    """
    refuse_malformed(matrix)
    names = matrix.index
    chosen = (
        np.triu_indices(len(names), 1)
        if entries == "pairs"
        else np.indices(matrix.shape).reshape(2, -1)
    )
    columns = []
    for trait, theory in predictors.items():
        if set(theory.index) != set(names):
            raise InputError(
                f"the similarity matrix of {trait} is about other models; build it for these models"
            )
        columns.append(theory.loc[names, names].to_numpy(dtype=float)[tuple(chosen)])
    outcome = matrix.to_numpy(dtype=float)[tuple(chosen)]
    design = np.column_stack(columns) if columns else np.empty((len(outcome), 0))
    whole = np.column_stack([np.ones(len(outcome)), design])
    if np.linalg.matrix_rank(whole) < whole.shape[1] or len(outcome) <= whole.shape[1]:
        raise InputError(
            f"{len(names)} models are too few, or too alike, to tell apart "
            f"{', '.join(predictors)}; leave a predictor out"
        )
    return outcome, design


def can_be_told_apart(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame]
) -> bool:
    """Return whether this matrix can be regressed on these predictors together."""
    try:
        observations(matrix, predictors, "pairs")
    except InputError:
        return False
    return bool(predictors)


def refuse_malformed(matrix: pd.DataFrame) -> None:
    """Raise InputError unless the matrix is symmetric, with the same models on both sides."""
    values = matrix.to_numpy(dtype=float)
    # NaN is not close to NaN
    if list(matrix.index) != list(matrix.columns) or not np.allclose(values, values.T):
        raise InputError(
            "a similarity matrix needs the same models on both sides, and equal mirrored entries"
        )
