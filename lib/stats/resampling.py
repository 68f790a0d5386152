"""Resampling with a bootstrap, the 95% interval of its draws, what an interval decides, and a
permutation test.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy import ndarray

INTERVAL = (0.025, 0.975)  # quantiles of draws that make a 95% interval


def bootstrap(
    statistic: Callable[[ndarray], object],
    of: int | Sequence,
    resamples: int,
    seed: int = 0,
) -> ndarray:
    """Return a statistic of observations drawn with replacement, once per resample: (resamples,
    ...).

    `of`: how many observations there are, or the cluster of each, such as the stem of a word. As
    many clusters are drawn as there are, each with all its observations. `statistic` takes the
    places of the drawn observations, in order: integers from 0 on.
    """
    random = np.random.default_rng(seed)
    codes, clusters = pd.factorize(
        np.arange(of) if isinstance(of, int) else np.array(of)
    )
    places, k = np.arange(len(codes)), len(clusters)
    draws = []
    for _ in range(resamples):
        times = np.bincount(random.integers(k, size=k), minlength=k)
        draws.append(statistic(np.repeat(places, times[codes])))
    return np.array(draws)


def interval(draws) -> tuple[ndarray, ndarray]:
    """Return ci_low and ci_high, the 2.5th and 97.5th percentiles of draws (resamples, ...); NaN
    draws are ignored.
    """
    draws = np.asarray(draws, dtype=float)
    ci_low, ci_high = np.nanquantile(draws, INTERVAL, axis=0)
    return ci_low, ci_high


def side(ci_low: float, ci_high: float, limit: float = 0.0) -> str:
    """Return "for" if the interval lies above the limit, "against" if below it; "undecided"
    otherwise, and for NaN.
    """
    if ci_low > limit:
        return "for"
    if ci_high < limit:
        return "against"
    return "undecided"


def orders(n: int, permutations: int) -> ndarray:
    """Return (permutations + 1, n): the observed order, 0 to n - 1, then random ones."""
    random = np.random.default_rng(0)
    observed = np.arange(n)
    copies = np.tile(observed, (permutations, 1))
    permuted = random.permuted(copies, axis=1)
    return np.vstack([observed, permuted])
