"""Resampling with a bootstrap, and the 95% interval of its draws."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy import ndarray


def bootstrap(
    statistic: Callable[[ndarray], object],
    of: Sequence,
    resamples: int,
) -> ndarray:
    """Return a statistic of observations drawn with replacement, once per resample: (resamples,
    ...).

    `of`: the cluster of each observation, such as the stem of a word, or its number. As many
    clusters are drawn as there are, each with all its observations. `statistic` takes the places of
    the drawn observations, in order: integers from 0 on.
    """
    random = np.random.default_rng(0)
    codes, clusters = pd.factorize(np.array(of))
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
    ci_low, ci_high = np.nanquantile(draws, (0.025, 0.975), axis=0)
    return ci_low, ci_high
