"""Means over models and words that are both samples: all models read the same words, so their
errors are crossed.

Inflected forms (`love`, `loved`) are no independent words. So the influences of words with one stem
are added up before they are squared, here and nowhere else. A model's statistic plus n times the
influence of a stem is the stem's *pseudo-value*. Least squares of all pseudo-values on a constant
give the mean over models, and errors clustered by stem and by model its interval (Cameron, Gelbach
and Miller 2011, Journal of Business & Economic Statistics 29, 238-249).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy import ndarray
from scipy import stats

from ..tables.stems import stems

# names of words -> the cluster of each; `list` makes each word a cluster of its own
Cluster = Callable[[Iterable[str]], list[str]]


@dataclass(frozen=True)
class Crossed:
    """A mean over models with its 95% interval over words and models; NaN where one model gives no
    variance.

    `p`: two-sided, against `null`. `n` and `models`: how many clusters of words (stems) and how
    many models there are.
    """

    estimate: float
    standard_error: float
    ci_low: float
    ci_high: float
    p: float
    n: int
    models: int


@dataclass(frozen=True)
class Measured:
    """A statistic of each model, and how much each word (or item) moves it.

    `values`: model -> statistic. `influence`: words x models, NaN where a model has not read the
    word. Added up within clusters, the sum of squares of a column is the variance of that model's
    statistic over words. `cluster`: words of one stem are one cluster; names of items are no
    inflections, so items take `list`.
    """

    values: pd.Series
    influence: pd.DataFrame
    cluster: Cluster = field(default=stems, kw_only=True)

    @property
    def mean(self) -> Crossed:
        """Return the mean over models; words and models are both samples."""
        return crossed(self.values, self.influence, cluster=self.cluster)

    def by_model(self) -> pd.DataFrame:
        """Return each model's `estimate, standard_error, ci_low, ci_high, p, n`, all over clusters
        of words; intervals are 95%.

        The standard error of a slope is HC3's, added up within stems.
        """
        moved = _added_up(self.influence, self.cluster)
        n = moved.notna().sum()
        error = np.sqrt((moved**2).sum())
        half = stats.t.ppf(0.975, n - 1) * error
        t = self.values.abs() / error
        return pd.DataFrame(
            {
                "estimate": self.values,
                "standard_error": error,
                "ci_low": self.values - half,
                "ci_high": self.values + half,
                "p": 2 * stats.t.sf(t, n - 1),
                "n": n,
            }
        )

    def __sub__(self, other: "Measured") -> "Measured":
        """Return the difference of two statistics of the same models; a word may move only one
        of them.
        """
        return Measured(
            self.values - other.values,
            self.influence.sub(other.influence, fill_value=0.0),
            cluster=self.cluster,
        )


def crossed(
    estimates: pd.Series,
    influence: pd.DataFrame,
    null: float = 0.0,
    cluster: Cluster = stems,
) -> Crossed:
    """Return the mean of a statistic over models with its interval over words and models, t with
    models - 1 degrees.

    `estimates`, `influence` and `cluster`: as in Measured. `null`: the value that p is against. The
    variance is never less than the one over words or over models alone.
    """
    values = estimates.astype(float)
    # (clusters, models), without words that no model has read
    moved = _added_up(influence[values.index].dropna(how="all"), cluster)
    moved = moved.fillna(0.0).to_numpy(dtype=float)
    n, models = moved.shape
    mean = float(values.mean())
    if models == 1:
        return Crossed(mean, *[np.nan] * 4, n, models)
    # the difference of two-way clustering can fall below either part
    of_words = (moved.mean(axis=1) ** 2).sum()
    of_models = values.var(ddof=1) / models
    of_both = _clustered_variance(values.to_numpy() + n * moved)
    variance = max(of_both, of_words, of_models)
    error = float(np.sqrt(variance))
    half = float(stats.t.ppf(0.975, models - 1)) * error
    p = np.nan
    if error > 0:
        p = float(2 * stats.t.sf(abs(mean - null) / error, models - 1))
    return Crossed(mean, error, mean - half, mean + half, p, n, models)


def _added_up(influence: pd.DataFrame, cluster: Cluster) -> pd.DataFrame:
    """Return the influence of each cluster of words, clusters x models: what its words move
    together.
    """
    labels = np.array(cluster(map(str, influence.index.tolist())), dtype=object)
    return influence.groupby(labels, sort=False).sum(min_count=1)


def _clustered_variance(pseudo: ndarray) -> float:
    """Return the variance of the mean of pseudo-values (stems, models), clustered by both.

    Each part has its factor for few groups. What both parts count is taken off.
    """
    residual = pseudo - pseudo.mean()
    variance = 0.0
    both = residual.sum(axis=1), residual.sum(axis=0), residual.ravel()
    for sums, sign in zip(both, (1, 1, -1), strict=True):
        groups = len(sums)
        variance += sign * (sums @ sums) * groups / (groups - 1)
    return float(variance / pseudo.size**2)


def mean_influence(values):
    """Return how much each row moves the mean of its column: its deviation over n - 1. values:
    an array or a frame.
    """
    deviation = values - values.mean(axis=0)
    return deviation / (len(values) - 1)


def slope(
    x: ndarray, y: ndarray, controls: ndarray | None = None
) -> tuple[ndarray, ndarray]:
    """Return the least-squares slope of y on x, and how much each word moves it, in units of the
    slope and the shape of y.

    `x`: (n,). `y`: (n,) or (n, models) rewards of the same words. `controls`: (n, k), held
    constant. A residual is divided by one less its leverage, as in HC3 (MacKinnon and White 1985),
    so that the sum of squares of the influence is the HC3 variance.
    """
    others = np.ones((len(x), 1))
    if controls is not None:
        others = np.column_stack([others, controls])
    # the part of x that the controls do not predict
    own = x - others @ np.linalg.lstsq(others, x, rcond=None)[0]
    orthogonal, _ = np.linalg.qr(np.column_stack([x, others]))
    residual = y - orthogonal @ (orthogonal.T @ y)
    leverage = (orthogonal**2).sum(axis=1)
    weight = own / (own @ own)
    return weight @ y, (residual.T * weight / (1 - leverage)).T


def log_sd_influence(values: ndarray) -> ndarray:
    """Return how much each word moves the log of the standard deviation of the values, in their
    shape: (n, ...).

    It is the change of the log without the word (jackknife): for long tails a derivative would be
    too small.
    """
    n = len(values)
    squares = (values - values.mean(axis=0)) ** 2
    # log SD of the others, but for a constant
    without = np.log1p(-squares / squares.sum(axis=0) * (n / (n - 1))) / 2
    return (without.mean(axis=0) - without) * np.sqrt((n - 1) / n)
