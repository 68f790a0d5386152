"""How well raters agree with each other, and how well anything could agree with them."""

import itertools

import numpy as np
import pandas as pd
from scipy import stats

from lib import InputError


def split_half(ratings: pd.DataFrame) -> np.ndarray:
    """Kendall's tau-b between the means of two halves of the raters, for every way to halve them.

    ratings: items x raters, an even number of raters. Ten raters can be halved in 126 ways. This is no ceiling: each
    half errs, so whoever knows what raters have in common agrees with a half better than the other half does.
    """
    return np.array([stats.kendalltau(first, second).statistic for first, second in _halves(ratings)])


def _halves(ratings: pd.DataFrame):
    raters = ratings.shape[1]
    if raters < 2 or raters % 2:
        raise InputError(f"{raters} raters cannot be halved; give an even number of columns")
    # The first rater is always in the first half, so that no split comes twice.
    for others in itertools.combinations(range(1, raters), raters // 2 - 1):
        chosen = np.isin(range(raters), (0, *others))
        yield ratings.loc[:, chosen].mean(axis=1), ratings.loc[:, ~chosen].mean(axis=1)


def reliability(ratings: pd.DataFrame) -> float:
    """The share of the variance of the raters' mean that is no rater's error, at most 1 (intraclass correlation of the
    mean, ICC(1,k); Shrout and Fleiss 1979). ratings: items x raters. Spearman and Brown's formula applied to halves
    estimates the same."""
    error = ratings.var(axis=1, ddof=1).mean() / ratings.shape[1]
    return float(1 - error / ratings.mean(axis=1).var(ddof=1))


def ceiling(ratings: pd.DataFrame, simulations: int = 20, seed: int = 0) -> float:
    """The tau-b with the mean of the raters that a model reaches who knows exactly what raters have in common.

    By simulation: true ratings with the variance that is left without the raters' errors, and new raters who err as
    these ten do about the same item; the mean over simulations. ratings: items x raters.
    """
    random, values = np.random.default_rng(seed), ratings.to_numpy(dtype=float)
    items, raters = values.shape
    mean = values.mean(axis=1)
    truth = mean.mean() + np.sqrt(max(reliability(ratings), 0.0)) * (mean - mean.mean())
    # Residuals from a mean of ten are a little too small.
    errors = (values - mean[:, None]) * np.sqrt(raters / (raters - 1))
    taus = []
    for _ in range(simulations):
        drawn = np.take_along_axis(errors, random.integers(raters, size=(items, raters)), axis=1)
        taus.append(stats.kendalltau(truth, truth + drawn.mean(axis=1)).statistic)
    return float(np.mean(taus))
