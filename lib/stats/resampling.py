"""Resampling with a bootstrap, the 95% interval of its draws, what an interval decides, and a
permutation test.
"""

from collections.abc import Callable

import numpy as np

INTERVAL = (0.025, 0.975)  # quantiles of draws that make a 95% interval
# what an interval decides about a limit
FOR, UNDECIDED, AGAINST = SIDES = ("for", "undecided", "against")


def bootstrap(
    statistic: Callable[[np.ndarray], object], n: int, resamples: int, seed: int = 0
) -> np.ndarray:
    """Return a statistic of n observations drawn with replacement, once per resample: (resamples,
    ...).

    `statistic` takes the places of the drawn observations: (n,) integers from 0 to n - 1.
    """
    random = np.random.default_rng(seed)
    return np.array([statistic(random.integers(n, size=n)) for _ in range(resamples)])


def interval(draws) -> tuple[np.ndarray, np.ndarray]:
    """Return ci_low and ci_high, the 2.5th and 97.5th percentiles of draws (resamples, ...); NaN
    draws are ignored.
    """
    ci_low, ci_high = np.nanquantile(np.asarray(draws, dtype=float), INTERVAL, axis=0)
    return ci_low, ci_high


def side(ci_low: float, ci_high: float, limit: float = 0.0) -> str:
    """Return "for" if the interval lies above the limit, "against" if below it; "undecided"
    otherwise, and for NaN.
    """
    if ci_low > limit:
        return FOR
    return AGAINST if ci_high < limit else UNDECIDED


def orders(n: int, permutations: int, seed=0) -> np.ndarray:
    """Return (permutations + 1, n): the observed order, 0 to n - 1, then random ones."""
    shuffled = np.random.default_rng(seed).permuted(
        np.tile(np.arange(n), (permutations, 1)), axis=1
    )
    return np.vstack([np.arange(n), shuffled])
