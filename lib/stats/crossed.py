"""Means over models and words, both drawn at random: the models of a study read the same words, so errors are crossed.

A statistic is computed for each model (a slope, a mean, the log of a spread); `influence` says how much each word
moves it. The variance of the mean over models is V_words + V_models - V_interaction: words that move all models alike,
models that differ, and what both count, the error of a word in a model (Cameron, Gelbach and Miller 2011, Journal of
Business & Economic Statistics 29, 238-249; Owen 2007, Annals of Applied Statistics 1, 386-411).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special, stats

from .. import InputError


@dataclass(frozen=True)
class Crossed:
    """A mean over models, and how far it can be trusted; intervals are of 95%.

    ci_low, ci_high: for other words and other models of the kind. these_low, these_high: for these very models, where
    only the words are drawn. new_low, new_high: a prediction interval for one new model. p: two-sided, against `null`.
    df: degrees of freedom of the t distribution (Satterthwaite). n: words; models: models. NaN where one model gives no
    variance between models.
    """

    estimate: float
    standard_error: float
    df: float
    ci_low: float
    ci_high: float
    p: float
    these_low: float
    these_high: float
    new_low: float
    new_high: float
    n: int
    models: int


def crossed(estimates: pd.Series, influence: pd.DataFrame, null: float = 0.0) -> Crossed:
    """Return the mean of a statistic over models with its crossed interval, in the unit of the estimates.

    estimates: model -> statistic, (models,). influence: (words, models), how much each word moves the statistic of each
    model; a column's sum of squares is that statistic's variance over words. NaN: the model has not read the word.
    null: the value that p is against. The variance is never less than that over words or that over models alone.
    Raises InputError for an estimate without influence, or one that is missing.
    """
    values = estimates.astype(float)
    if (absent := values.index.difference(influence.columns)).size or values.isna().any():
        name = absent[0] if absent.size else values.index[values.isna()][0]
        raise InputError(f"{name} has no estimate with its influence of words; leave it out of the mean")
    moved = influence[values.index].dropna(how="all").fillna(0.0).to_numpy(dtype=float)
    n, models = moved.shape
    ends = intervals(values.to_numpy(), moved)
    variance, df, both = _variance(values.to_numpy(), moved)
    mean, error = float(ends.estimate), float(np.sqrt(variance))
    between = max(values.var(ddof=1) - both * models, 0.0) if models > 1 else np.nan  # of the models' true values
    new = _reach(mean, np.sqrt(between + variance), models - 1)
    p = float(2 * stats.t.sf(abs(mean - null) / error, df)) if error > 0 else np.nan
    low, high, these_low, these_high = (float(end) for end in ends[1:])
    return Crossed(mean, error, float(df), low, high, p, these_low, these_high, *map(float, new), n, models)


class Intervals(NamedTuple):
    """Means over models with the intervals of Crossed, an array each, for as many statistics as were asked for."""

    estimate: np.ndarray
    ci_low: np.ndarray
    ci_high: np.ndarray
    these_low: np.ndarray
    these_high: np.ndarray


def intervals(values: np.ndarray, moved: np.ndarray) -> Intervals:
    """Return the means of many statistics over models with their 95% intervals, each as crossed() gives it.

    values: (models, ...). moved: (words, models, ...), the influence of each word, 0 where a model lacks the word.
    """
    variance, df, _ = _variance(values, moved)
    mean, of_words = values.mean(axis=0), (moved.mean(axis=1) ** 2).sum(axis=0)
    return Intervals(mean, *_reach(mean, np.sqrt(variance), df), *_reach(mean, np.sqrt(of_words), len(moved) - 1))


def _variance(values: np.ndarray, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The variance of the mean over words and models, its degrees of freedom, and the part that both make together."""
    n, models = moved.shape[:2]
    of_words = (moved.mean(axis=1) ** 2).sum(axis=0)
    both = np.einsum("wm...,wm...->...", moved, moved) / models**2
    if models == 1:
        return (missing := np.full(of_words.shape, np.nan)), missing, both
    of_models = values.var(axis=0, ddof=1) / models
    variance = np.maximum(of_words + of_models - both, np.maximum(of_words, of_models))
    parts = of_words**2 / (n - 1) + of_models**2 / (models - 1)
    df = np.divide(variance**2, parts, out=np.full(of_words.shape, np.nan), where=variance > 0)
    return variance, df, both


def _reach(mean, error, df) -> tuple:
    half = special.stdtrit(df, 0.975) * error  # stats.t.ppf, without the milliseconds that it takes to ask
    return mean - half, mean + half


# --- how much each word moves a statistic -------------------------------------------------------------------------


def mean_influence(values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Return how much each value moves the mean of all, (n,): its deviation over n - 1."""
    values = np.asarray(values, dtype=float)
    return (values - values.mean()) / (len(values) - 1)


def slope_influence(x: Sequence[float] | np.ndarray, y: np.ndarray, controls: np.ndarray | None = None) -> np.ndarray:
    """Return how much each word moves the least-squares slope of y on x, in units of the slope; the shape of y.

    x: (n,). y: (n,) or (n, models), rewards of the same words. controls: (n, k), held constant. A residual is divided
    by one less its leverage, as in HC3 (MacKinnon and White 1985), so that the sum of squares is the HC3 variance.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    others = np.ones((len(x), 1)) if controls is None else np.column_stack([np.ones(len(x)), controls])
    design = np.column_stack([x, others])
    orthogonal, _ = np.linalg.qr(design)
    residual = y - orthogonal @ (orthogonal.T @ y)
    free = 1 - (orthogonal**2).sum(axis=1)
    own = x - others @ np.linalg.lstsq(others, x, rcond=None)[0]  # what x has beyond the controls
    weight = own / (own @ own) / free
    return (residual.T * weight).T


def slope(x: Sequence[float] | np.ndarray, y: np.ndarray, controls: np.ndarray | None = None) -> np.ndarray:
    """The least-squares slope of y on x with the controls held constant: () for y (n,), (models,) for (n, models)."""
    x = np.asarray(x, dtype=float)
    others = np.ones((len(x), 1)) if controls is None else np.column_stack([np.ones(len(x)), controls])
    own = x - others @ np.linalg.lstsq(others, x, rcond=None)[0]
    return own @ np.asarray(y, dtype=float) / (own @ own)


def log_sd_influence(values: np.ndarray) -> np.ndarray:
    """How much each word moves the log of the standard deviation of the values; (n,) or (n, models), as the values.

    The jackknife's: by what the log changes without the word, which tells of long tails what its derivative misses.
    """
    values = np.asarray(values, dtype=float)
    n = len(values)
    squares = (values - values.mean(axis=0)) ** 2
    without = np.log1p(-squares / squares.mean(axis=0) / (n - 1)) / 2  # log SD of the others, but for a constant
    return (without.mean(axis=0) - without) * np.sqrt((n - 1) / n)
