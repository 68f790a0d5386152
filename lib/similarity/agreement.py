"""How alike the rewards of models are, by moments, rank correlations and overlap, with a map
(section 2.2).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats
from scipy.spatial.distance import squareform
from sklearn.manifold import MDS

from ..stats import resampling
from ..stats.crossed import crossed
from ..stats.rankings import refuse_constant
from ..stats.relabelling import refuse_malformed
from ..tables import registry
from ..tables.stems import stems

MOMENTS = ["mean", "variance", "skewness"]


def comparable(
    tables: Mapping[str, pd.DataFrame],
    prompt: str,
) -> tuple[dict[str, pd.DataFrame], str]:
    """Return the score tables whose rewards can be compared, and why others, or all, cannot (''
    where all can).

    Tables come back in the order of the registry, without models whose rewards are all equal. None
    is left where fewer than two models remain, or where they share fewer than ten texts.
    """
    known = [name for name in registry.reward_models().index if name in tables]
    varied = {}
    constant = []
    for name in dict.fromkeys([*known, *tables]):
        if np.ptp(tables[name][prompt]) > 0:
            varied[name] = tables[name]
        else:
            constant.append(name)
    reasons = []
    if constant:
        reasons.append(f"the rewards of {', '.join(constant)} are all equal")
    if len(varied) < 2:
        reasons.append(f"{len(varied)} of the models can be compared, and 2 are needed")
        return {}, "; ".join(reasons)
    texts = []
    for table in varied.values():
        once = table["text"].drop_duplicates(keep=False)
        texts.append(set(once))
    shared = len(set.intersection(*texts))
    if shared < 10:
        reasons.append(f"the models share {shared} texts, and 10 are needed")
        return {}, "; ".join(reasons)
    return varied, "; ".join(reasons)


def moments(rewards: Mapping[str, np.ndarray], resamples: int = 1000) -> pd.DataFrame:
    """Return mean, variance and skewness of each model's rewards with 95% bootstrap intervals over
    stems of tokens (Table 3).

    rewards: model -> rewards of distinct inputs, because copies narrow the intervals. As in the
    paper, variance divides by n and skewness has no correction for bias. InputError for
    rewards that are missing or all equal.
    """
    rows = {}
    for name, values in rewards.items():
        values = pd.Series(values, dtype=float)
        n = len(values)
        centre = values.mean()
        spread = values.std(ddof=0)
        refuse_constant(pd.DataFrame({name: values}))
        z = (values - centre) / spread
        draws = _resampled_moments(z.to_frame(), resamples)[:, 0]
        low, high = resampling.interval(draws)
        # of the standardised moments
        shift = np.array([centre, 0, 0])
        scale = np.array([spread, spread**2, 1])
        # (moments, 3)
        numbers = np.column_stack(
            [
                [centre, spread**2, stats.skew(values)],
                shift + scale * low,
                shift + scale * high,
            ]
        )
        rows[name] = [n, *numbers.ravel()]
    columns = ["n"]
    for moment in MOMENTS:
        columns += [moment, f"{moment}_ci_low", f"{moment}_ci_high"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def _resampled_moments(z: pd.DataFrame, resamples: int) -> np.ndarray:
    """Return mean, variance and skewness of each resample of stems, (resamples, models, 3).

    z is standardised, texts x models, because powers of raw rewards would lose digits where their
    mean is far from 0.
    """
    n = len(z)
    of = stems(map(str, z.index))
    powers = np.stack([z, z**2, z**3], axis=2)
    powers = powers.reshape(n, -1)  # (n, models x 3)

    def sums(drawn: np.ndarray) -> np.ndarray:
        return np.bincount(drawn, minlength=n) @ powers / len(drawn)

    means = resampling.bootstrap(sums, of, resamples)
    means = means.reshape(resamples, -1, 3)
    first, second, third = np.moveaxis(means, 2, 0)
    variance = second - first**2
    # Few tokens can be drawn all alike; they have no skewness, and rounding must not give them one.
    spread = np.where(variance > 1e-12, variance, np.nan) ** 1.5
    skewness = (third - 3 * first * second + 2 * first**3) / spread
    return np.stack([first, variance, skewness], axis=2)


def skews(
    as_published: Mapping[str, pd.DataFrame],
    distinct: Mapping[str, pd.DataFrame],
    resamples: int = 1000,
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
        values = rewards.to_numpy(dtype=float)
        skewness = pd.Series(stats.skew(values), rewards.columns)
        z = _standardised(rewards)
        draws = _resampled_moments(z, resamples)[:, :, 2]
        positive = (draws > 0).sum(axis=1)
        ci_low, ci_high = resampling.interval(positive)
        published = stats.skew(as_published[prompt].to_numpy(dtype=float))
        mean = crossed(skewness, skewness_influence(rewards))
        is_positive = skewness > 0
        rows[prompt] = {
            "as_published": int((published > 0).sum()),
            "n_positive": int(is_positive.sum()),
            "models": len(skewness),
            "ci_low": int(ci_low),
            "ci_high": int(ci_high),
            "others": ", ".join(skewness.index[~is_positive]) or "none",
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
    z = _standardised(rewards)
    g = (z**3).mean()
    by_spread = (3 * z**2 - 1) * g / 2
    moved = z**3 - 3 * z - by_spread
    return moved / (len(z) - 1)


def _standardised(rewards: pd.DataFrame) -> pd.DataFrame:
    """Return rewards in standard deviations from their mean, by model (ddof 0)."""
    return (rewards - rewards.mean()) / rewards.std(ddof=0)


def mean_over_pairs(matrix: pd.DataFrame) -> tuple[float, float, float]:
    """Return the mean over pairs of different models, and its 95% interval for other models (NaN
    for under three).

    A model is in many pairs, so the interval is a jackknife over models (Arvesen 1969), t with
    models - 1 degrees.
    """
    k = len(matrix)
    values = matrix.to_numpy(dtype=float)
    mean = float(squareform(values, checks=False).mean())
    if k < 3:
        return mean, float("nan"), float("nan")
    # a model's mean with the others
    own = values.sum(axis=1) - values.diagonal()
    own = own / (k - 1)
    factor = 2 * (k - 1) / (k - 2)
    pseudo = mean + factor * (own - mean)
    quantile = stats.t.ppf(0.975, k - 1)
    scaled = quantile * pseudo.std(ddof=1)
    half = float(scaled / np.sqrt(k))
    return mean, mean - half, mean + half


def correlation(first: pd.DataFrame, second: pd.DataFrame) -> float:
    """Return Pearson's correlation of two matrices over pairs of different models; NaN for under
    3 pairs.
    """
    names = first.index
    if len(names) < 3:
        return float("nan")
    x = squareform(first, checks=False)
    y = squareform(second.loc[names, names], checks=False)
    return float(np.corrcoef(x, y)[0, 1])


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
        apart = points[:, None] - points[None]
        distances = np.linalg.norm(apart, axis=2)
        names = self.positions.index
        return pd.DataFrame(1 - distances, names, names)


def model_map(matrix: pd.DataFrame) -> ModelMap:
    """Return the multidimensional scaling of 1 - similarity to two dimensions (Fig 2B), best of
    many random starts.

    The plane is turned so that the widest spread lies along x, and the first model has no negative
    coordinate.
    """
    refuse_malformed(matrix)
    scaling = MDS(
        2,
        metric="precomputed",
        n_init=50,
        init="random",
        normalized_stress=True,
        eps=1e-9,
        max_iter=1000,
        random_state=0,
    )
    distances = 1 - matrix.to_numpy(dtype=float)
    points = scaling.fit_transform(distances)
    points = points - points.mean(axis=0)
    *_, axes = np.linalg.svd(points, full_matrices=False)
    points = points @ axes.T
    signs = np.where(points[0] < 0, -1, 1)
    points = points * signs
    positions = pd.DataFrame(points, matrix.index, ["x", "y"])
    return ModelMap(positions, float(scaling.stress_))
