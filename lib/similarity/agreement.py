"""How alike the rewards of models are, by moments, rank correlations and overlap, with a map
(section 2.2).
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy import stats
from scipy.spatial.distance import squareform
from sklearn.manifold import MDS

from ..stats import resampling
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
    names = dict.fromkeys([*known, *tables])
    varied = {name: tables[name] for name in names if np.ptp(tables[name][prompt]) > 0}
    reason = ""
    if constant := [name for name in names if name not in varied]:
        reason = f"the rewards of {', '.join(constant)} are all equal"
    texts = []
    for table in varied.values():
        once = table["text"].drop_duplicates(keep=False)
        texts.append(set(once))
    if len(varied) < 2 or len(set.intersection(*texts)) < 10:
        return {}, "two models with ten texts in common are needed"
    return varied, reason


def moments(rewards: pd.DataFrame, resamples: int = 1000) -> pd.DataFrame:
    """Return mean, variance and skewness of each model's rewards with 95% bootstrap intervals over
    stems of tokens (Table 3).

    rewards: distinct inputs x models, because copies narrow the intervals. As in the paper,
    variance divides by n and skewness has no correction for bias.
    """
    values = rewards.to_numpy(dtype=float)

    def moments_of(drawn: np.ndarray) -> list[np.ndarray]:
        some = values[drawn]  # (texts, models)
        return [some.mean(axis=0), some.var(axis=0), stats.skew(some)]

    own = moments_of(np.arange(len(values)))
    of = stems(map(str, rewards.index))
    # (moments, models) each
    low, high = resampling.interval(resampling.bootstrap(moments_of, of, resamples))
    table = pd.DataFrame({"n": len(values)}, rewards.columns)
    for moment, *numbers in zip(MOMENTS, own, low, high, strict=True):
        columns = [moment, f"{moment}_ci_low", f"{moment}_ci_high"]
        table[columns] = np.transpose(numbers)
    return table


def skewness_influence(rewards: pd.DataFrame) -> pd.DataFrame:
    """Return how much each text moves the skewness g of each model's rewards, texts x models.

    It is (z^3 - 3 z - (3 z^2 - 1) g / 2) / (n - 1), with z the standardised rewards.
    """
    z = (rewards - rewards.mean()) / rewards.std(ddof=0)
    g = (z**3).mean()
    by_spread = (3 * z**2 - 1) * g / 2
    moved = z**3 - 3 * z - by_spread
    return moved / (len(z) - 1)


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


def model_map(matrix: pd.DataFrame) -> tuple[pd.DataFrame, float]:
    """Return the multidimensional scaling of 1 - similarity to two dimensions (Fig 2B), best of
    many random starts: x and y of each model, and Kruskal's stress-1.

    At stress 0 distances are exact, from about .2 on they are poor (Kruskal 1964). The plane is
    turned so that the widest spread lies along x, and the first model has no negative coordinate.
    """
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
    return positions, float(scaling.stress_)
