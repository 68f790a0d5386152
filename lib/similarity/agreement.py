"""How alike the rewards of models are, by moments, rank correlations and overlap, with a map
(section 2.2).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.manifold import MDS

from .. import InputError
from ..stats import resampling
from ..stats.crossed import crossed
from ..stats.relabelling import refuse_malformed
from ..tables import registry

MOMENTS = ["mean", "variance", "skewness"]


def comparable(
    tables: Mapping[str, pd.DataFrame], prompt: str
) -> tuple[dict[str, pd.DataFrame], str]:
    """Return the score tables whose rewards can be compared, and why others, or all, cannot (''
    where all can).

    Tables come back in the order of the registry, without models whose rewards are all equal. None
    is left where fewer than two models remain, or where they share fewer than ten texts.
    """
    known = [name for name in registry.reward_models().index if name in tables]
    tables = {name: tables[name] for name in [*known, *tables]}
    varied = {
        name: table for name, table in tables.items() if np.ptp(table[prompt]) > 0
    }
    constant = ", ".join(name for name in tables if name not in varied)
    reasons = [f"the rewards of {constant} are all equal"] if constant else []
    texts = [
        set(table["text"].drop_duplicates(keep=False)) for table in varied.values()
    ]
    if len(varied) < 2:
        reasons.append(f"{len(varied)} of the models can be compared, and 2 are needed")
    elif (shared := len(set.intersection(*texts))) < 10:
        reasons.append(f"the models share {shared} texts, and 10 are needed")
    else:
        return varied, "; ".join(reasons)
    return {}, "; ".join(reasons)


def moments(
    rewards: Mapping[str, np.ndarray], resamples: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Return mean, variance and skewness of each model's rewards with 95% bootstrap intervals over
    tokens (Table 3).

    rewards: model -> rewards of distinct inputs, because copies narrow the intervals. As in the
    paper, variance divides by n and skewness has no correction for bias. InputError for fewer than
    three rewards, or rewards that are all equal.
    """
    rows = {}
    for name, values in rewards.items():
        values = np.asarray(values, dtype=float)
        n, centre, spread = len(values), values.mean(), values.std()
        if n < 3 or np.ptp(values) == 0:
            raise InputError(
                f"the rewards of {name} ({n}) do not vary, so they have no skewness; leave it out"
            )
        ends = resampling.interval(
            _resampled_moments((values - centre)[:, None] / spread, resamples, seed)[
                :, 0
            ]
        )
        # of the standardised moments
        shift, scale = np.array([centre, 0, 0]), np.array([spread, spread**2, 1])
        low, high = (shift + scale * end for end in ends)
        rows[name] = [
            n,
            *np.column_stack(
                [[centre, spread**2, stats.skew(values)], low, high]
            ).ravel(),
        ]
    columns = [
        f"{moment}{end}" for moment in MOMENTS for end in ("", "_ci_low", "_ci_high")
    ]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["n", *columns])


def _resampled_moments(z: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Return mean, variance and skewness of each resample of tokens, (resamples, models, 3).

    z is standardised, (n, models), because powers of raw rewards would lose digits where their mean
    is far from 0.
    """
    n = len(z)
    powers = np.stack([z, z**2, z**3], axis=2).reshape(n, -1)  # (n, models x 3)
    sums = resampling.bootstrap(
        lambda drawn: np.bincount(drawn, minlength=n) @ powers, n, resamples, seed
    )
    first, second, third = np.moveaxis((sums / n).reshape(resamples, -1, 3), 2, 0)
    variance = second - first**2
    # Few tokens can be drawn all alike; they have no skewness, and rounding must not give them one.
    spread = np.where(variance > 1e-12, variance, np.nan) ** 1.5
    skewness = (third - 3 * first * second + 2 * first**3) / spread
    return np.stack([first, variance, skewness], axis=2)


def skews(
    as_published: Mapping[str, pd.DataFrame],
    distinct: Mapping[str, pd.DataFrame],
    resamples: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return in how many models rewards are skewed to the right, and the mean skewness: one row per
    prompt.

    Both arguments map a prompt to rewards, texts x models. `as_published` has the texts as the
    paper takes them, where ` love` and `love` are two. `distinct` has trimmed texts. The column
    as_published counts over the first, all others are about the second. n_positive has an interval
    over texts, and mean has one over texts and models.
    """
    rows = {}
    for prompt, rewards in distinct.items():
        skewness = pd.Series(stats.skew(rewards.to_numpy(dtype=float)), rewards.columns)
        z = (rewards - rewards.mean()) / rewards.std(ddof=0)
        skewed = (
            _resampled_moments(z.to_numpy(dtype=float), resamples, seed)[:, :, 2] > 0
        )
        ci_low, ci_high = resampling.interval(skewed.sum(axis=1))
        published = stats.skew(as_published[prompt].to_numpy(dtype=float))
        mean = crossed(skewness, skewness_influence(rewards))
        rows[prompt] = {
            "as_published": int((published > 0).sum()),
            "n_positive": int((skewness > 0).sum()),
            "models": len(skewness),
            "ci_low": int(ci_low),
            "ci_high": int(ci_high),
            "others": ", ".join(skewness.index[skewness <= 0]) or "none",
            "n": mean.n,
            "p": mean.p,
            "mean": mean.estimate,
            "mean_low": mean.ci_low,
            "mean_high": mean.ci_high,
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("prompt")


def skewness_influence(rewards: pd.DataFrame) -> pd.DataFrame:
    """Return how much each text moves the skewness g of each model's rewards, texts x models.

    It is (z^3 - 3 z - (3 z^2 - 1) g / 2) / (n - 1), with z the standardised rewards.
    """
    z = (rewards - rewards.mean()) / rewards.std(ddof=0)
    return (z**3 - 3 * z - (3 * z**2 - 1) * (z**3).mean() / 2) / (len(z) - 1)


def mean_over_pairs(matrix: pd.DataFrame) -> tuple[float, float, float]:
    """Return the mean over pairs of different models, and its 95% interval for other models (NaN
    for under three).

    A model is in many pairs, so the interval is a jackknife over models (Arvesen 1969), t with
    models - 1 degrees.
    """
    k, values = len(matrix), matrix.to_numpy(dtype=float)
    mean = float(values[np.triu_indices(k, 1)].mean())
    if k < 3:
        return mean, float("nan"), float("nan")
    # a model's mean with the others
    own = (values.sum(axis=1) - values.diagonal()) / (k - 1)
    pseudo = mean + 2 * (k - 1) / (k - 2) * (own - mean)
    half = stats.t.ppf(0.975, k - 1) * pseudo.std(ddof=1) / np.sqrt(k)
    return mean, float(mean - half), float(mean + half)


def correlation(first: pd.DataFrame, second: pd.DataFrame) -> float:
    """Return Pearson's correlation of two matrices over pairs of different models; NaN for under
    3 pairs.
    """
    upper = np.triu_indices(len(first), 1)
    values = [
        matrix.loc[first.index, first.index].to_numpy(dtype=float)[upper]
        for matrix in (first, second)
    ]
    return float(np.corrcoef(values)[0, 1]) if len(upper[0]) > 2 else float("nan")


@dataclass(frozen=True)
class ModelMap:
    """Models as points of the plane whose distances come near 1 - similarity.

    stress is Kruskal's stress-1. At 0 distances are exact, from about .2 on they are poor (Kruskal
    1964).
    """

    positions: pd.DataFrame
    stress: float

    @property
    def closeness(self) -> pd.DataFrame:
        """Return 1 - distance on the map, models x models: what the map says the similarity is."""
        points = self.positions.to_numpy()
        distances = np.linalg.norm(points[:, None] - points[None], axis=2)
        return pd.DataFrame(1 - distances, self.positions.index, self.positions.index)


def model_map(matrix: pd.DataFrame, starts: int = 50, seed: int = 0) -> ModelMap:
    """Return the multidimensional scaling of 1 - similarity to two dimensions (Fig 2B), best of
    many random starts.

    The plane is turned so that the widest spread lies along x, and the first model has no negative
    coordinate.
    """
    names = matrix.index
    refuse_malformed(matrix)
    distances = 1 - matrix.to_numpy(dtype=float)
    scaling = MDS(
        2,
        metric="precomputed",
        n_init=starts,
        init="random",
        normalized_stress=True,
        eps=1e-9,
        max_iter=1000,
        random_state=seed,
    )
    points = scaling.fit_transform(distances)
    points = points - points.mean(axis=0)
    points = points @ np.linalg.svd(points, full_matrices=False)[2].T
    points = points * np.where(points[0] < 0, -1, 1)
    return ModelMap(pd.DataFrame(points, names, ["x", "y"]), float(scaling.stress_))
