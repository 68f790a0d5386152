"""Means over models and words that are both samples: all models read the same words, so their errors are crossed.

A statistic is computed for each model (a slope, a mean, the log of a spread); `influence` is how much each word moves
it. The variance of the mean over models is V_words + V_models - V_interaction. V_words comes from words that move all
models alike, V_models from models that differ. Both contain V_interaction, the error of a word in a model (Cameron,
Gelbach and Miller 2011, Journal of Business & Economic Statistics 29, 238-249; Owen 2007, Annals of Applied Statistics
1, 386-411).
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
    """A mean over models with 95% intervals; NaN where one model gives no variance between models.

    `ci_low` and `ci_high`: words and models are samples. `these_low` and `these_high`: only words are a sample.
    `new_low` and `new_high`: a prediction interval for one new model. `p`: two-sided, against `null`. `df`:
    Satterthwaite's degrees of freedom. `n` and `models`: how many words and models there are.
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


@dataclass(frozen=True)
class Measured:
    """A statistic of each model, and how much each word (or item) moves it.

    `values`: model -> statistic. `influence`: words x models, NaN where a model has not read the word. The sum of
    squares of a column is the variance of that model's statistic over words.
    """

    values: pd.Series
    influence: pd.DataFrame

    @property
    def standard_error(self) -> pd.Series:
        """Return the standard error of each model's statistic over words (HC3 for slopes)."""
        return np.sqrt((self.influence**2).sum())

    @property
    def words(self) -> pd.Series:
        """Return how many words each model has read."""
        return self.influence.notna().sum()

    @property
    def mean(self) -> Crossed:
        """Return the mean over models; words and models are both samples."""
        return crossed(self.values, self.influence)

    def by_model(self) -> pd.DataFrame:
        """Return each model's `estimate, standard_error, ci_low, ci_high, p, n`, all over words; intervals are 95%."""
        error, df = self.standard_error, self.words - 1
        half = stats.t.ppf(0.975, df) * error
        p = 2 * stats.t.sf(self.values.abs() / error, df)
        return pd.DataFrame({"estimate": self.values, "standard_error": error, "ci_low": self.values - half,
                             "ci_high": self.values + half, "p": p, "n": self.words})  # fmt: skip

    def __sub__(self, other: "Measured") -> "Measured":
        """Return the difference of two statistics of the same models; a word may move only one of them."""
        return Measured(self.values - other.values, self.influence.sub(other.influence, fill_value=0.0))


def crossed(estimates: pd.Series, influence: pd.DataFrame, null: float = 0.0) -> Crossed:
    """Return the mean of a statistic over models with its crossed interval, in the unit of the estimates.

    `estimates` and `influence`: as in Measured. `null`: the value that p is against. The variance is never less than
    the one over words or over models alone. Raise InputError for an estimate that is missing, or that has no influence.
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
    """Means over models of several statistics with the intervals of Crossed: an array each."""

    estimate: np.ndarray
    ci_low: np.ndarray
    ci_high: np.ndarray
    these_low: np.ndarray
    these_high: np.ndarray


def intervals(values: np.ndarray, moved: np.ndarray) -> Intervals:
    """Return the means of many statistics over models with their 95% intervals, each as crossed() gives it.

    `values`: (models, ...). `moved` (words, models, ...) is the influence of each word, 0 where a model lacks the word.
    """
    variance, df, _ = _variance(values, moved)
    mean, of_words = values.mean(axis=0), (moved.mean(axis=1) ** 2).sum(axis=0)
    return Intervals(mean, *_reach(mean, np.sqrt(variance), df), *_reach(mean, np.sqrt(of_words), len(moved) - 1))


def _variance(values: np.ndarray, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the variance of the mean, its degrees of freedom, and V_interaction."""
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


def satterthwaite(variance: float, parts: Sequence[float], freedom: Sequence[int]) -> tuple[float, float]:
    """Return half the width of the 95% interval of an estimate, and its degrees of freedom; NaN without variance.

    `parts`: the independent parts of the variance, each with its degrees of freedom (Satterthwaite 1946).
    """
    df = variance**2 / sum(part**2 / own for part, own in zip(parts, freedom, strict=True)) if variance else np.nan
    return float(stats.t.ppf(0.975, df) * np.sqrt(variance)), float(df)


# --- how much each word moves a statistic -------------------------------------------------------------------------


def mean_influence(values):
    """Return how much each row moves the mean of its column: its deviation over n - 1. values: an array or a frame."""
    return (values - values.mean(axis=0)) / (len(values) - 1)


def slope_influence(x: Sequence[float] | np.ndarray, y: np.ndarray, controls: np.ndarray | None = None) -> np.ndarray:
    """Return how much each word moves the least-squares slope of y on x, in units of the slope; the shape of y.

    `x`: (n,). `y`: (n,) or (n, models) rewards of the same words. `controls`: (n, k), held constant. A residual is
    divided by one less its leverage, as in HC3 (MacKinnon and White 1985), so that the sum of squares is the HC3
    variance.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    others, own = _beyond(x, controls)
    orthogonal, _ = np.linalg.qr(np.column_stack([x, others]))
    residual = y - orthogonal @ (orthogonal.T @ y)
    weight = own / (own @ own) / (1 - (orthogonal**2).sum(axis=1))
    return (residual.T * weight).T


def slope(x: Sequence[float] | np.ndarray, y: np.ndarray, controls: np.ndarray | None = None) -> np.ndarray:
    """Return the least-squares slope of y on x with the controls held constant; arguments as in slope_influence."""
    _, own = _beyond(np.asarray(x, dtype=float), controls)
    return own @ np.asarray(y, dtype=float) / (own @ own)


def _beyond(x: np.ndarray, controls: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return an intercept with the controls, (n, 1 + k), and the part (n,) of x that they do not predict."""
    others = np.ones((len(x), 1)) if controls is None else np.column_stack([np.ones(len(x)), controls])
    return others, x - others @ np.linalg.lstsq(others, x, rcond=None)[0]


def log_sd_influence(values: np.ndarray) -> np.ndarray:
    """Return how much each word moves the log of the standard deviation of the values, in their shape: (n, ...).

    It is the change of the log without the word (jackknife): for long tails a derivative would be too small.
    """
    n = len(values)
    squares = (values - values.mean(axis=0)) ** 2
    without = np.log1p(-squares / squares.mean(axis=0) / (n - 1)) / 2  # log SD of the others, but for a constant
    return (without.mean(axis=0) - without) * np.sqrt((n - 1) / n)
