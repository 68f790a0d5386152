"""Means over words, models and prompts, all three samples: what each of them adds to the uncertainty.

The variance of a mean is the sum over single factors, less the sum over pairs of factors, plus the part of all three
(method of moments of the crossed random-effects design; Searle, Casella and McCulloch 1992, Variance Components,
chapter 5; Judd, Westfall and Kenny 2017, Annual Review of Psychology 68, 601-625). `lib.stats.crossed` is the case of
two factors. Few prompts leave few degrees of freedom, so intervals are wide.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from .. import InputError
from . import resampling
from .crossed import satterthwaite

FACTORS = ("words", "models", "prompts")


@dataclass(frozen=True)
class ThreeFactors:
    """A mean over models and prompts with its 95% interval.

    `p`: two-sided, against `null`. `df`: Satterthwaite's degrees of freedom. `of_mean`: the shares of words, models,
    prompts and `interactions` in the variance of the mean. Shares sum to 1. `of_score`: the same for the score of one
    word by one model under one prompt. `n`: words.
    """

    estimate: float
    ci_low: float
    ci_high: float
    p: float
    df: float
    of_mean: pd.Series
    of_score: pd.Series
    n: int


def three_factors(estimates: np.ndarray, influence: np.ndarray, null: float = 0.0) -> ThreeFactors:
    """Return the mean of a statistic over models and prompts, with words, models and prompts as samples.

    `estimates`: (models, prompts). `influence` (words, models, prompts) is as in crossed.Measured. Raise InputError for
    fewer than two models or prompts.
    """
    models, prompts = estimates.shape
    words = len(influence)
    if min(models, prompts) < 2:
        raise InputError(f"{models} models and {prompts} prompts do not vary; score two of each at least")
    mean = estimates.mean()
    of_model, of_prompt = estimates.mean(axis=1), estimates.mean(axis=0)
    rest = estimates - of_model[:, None] - of_prompt + mean
    moved = influence.mean(axis=(1, 2))
    by_model, by_prompt = influence.mean(axis=2) - moved[:, None], influence.mean(axis=1) - moved[:, None]
    by_both = influence - moved[:, None, None] - by_model[:, :, None] - by_prompt[:, None, :]
    cells = models * prompts * (models - 1) * (prompts - 1)
    single = np.array([(moved**2).sum(), of_model.var(ddof=1) / models, of_prompt.var(ddof=1) / prompts])
    pairs = {"words, models": (by_model**2).sum() / (models * (models - 1)),
             "words, prompts": (by_prompt**2).sum() / (prompts * (prompts - 1)),
             "models, prompts": (rest**2).sum() / cells}  # fmt: skip
    triple = (by_both**2).sum() / cells
    variance = max(single.sum() - sum(pairs.values()) + triple, *single)
    half, df = satterthwaite(variance, single, np.array([words, models, prompts]) - 1)
    p = float(2 * stats.t.sf(abs(mean - null) / np.sqrt(variance), df)) if variance else np.nan
    own = {name: value - sum(both for pair, both in pairs.items() if name in pair) + triple
           for name, value in zip(FACTORS, single, strict=True)}  # fmt: skip
    interactions = {pair: both - triple for pair, both in pairs.items()} | {"words, models, prompts": triple}
    counts = dict(zip(FACTORS, (words, models, prompts), strict=True))
    of_mean = _shares(own, interactions)
    of_score = _shares({name: own[name] * counts[name] for name in own},
                       {pair: part * np.prod([counts[name] for name in pair.split(", ")])
                        for pair, part in interactions.items()})  # fmt: skip
    return ThreeFactors(float(mean), float(mean - half), float(mean + half), p, df, of_mean, of_score, words)


def _shares(own: dict[str, float], interactions: dict[str, float]) -> pd.Series:
    """Return the share of each part in the variance; estimates below 0 count as 0."""
    parts = pd.Series(own | {"interactions": sum(max(part, 0.0) for part in interactions.values())}).clip(lower=0.0)
    return parts / parts.sum() if parts.sum() else parts


def share_intervals(
    estimates: np.ndarray, influence: np.ndarray, resamples: int = 200, seed: int = 0
) -> tuple[pd.Series, pd.Series]:
    """Return ci_low and ci_high (95%) of `of_mean` by factor, from a bootstrap over words and models.

    Arguments as in three_factors. There are too few prompts to resample, so the intervals are for these prompts.
    """
    random, (words, models) = np.random.default_rng(seed), influence.shape[:2]
    draws = []
    for _ in range(resamples):
        some_words, some_models = random.integers(words, size=words), random.integers(models, size=models)
        if len(set(some_models)) > 1:
            moved = influence[some_words][:, some_models]
            resampled = three_factors(estimates[some_models] + moved.sum(axis=0), moved - moved.mean(axis=0))
            draws.append(resampled.of_mean[list(FACTORS)])
    low, high = resampling.interval(np.array(draws))
    return pd.Series(low, FACTORS), pd.Series(high, FACTORS)
