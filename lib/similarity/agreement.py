"""How alike the rewards of models are (section 2.2)."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy import stats
from scipy.spatial.distance import squareform

from ..tables import registry


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
