"""How much of a reward ranking its base's log-probability explains, and how much of that is word
frequency.

If some of what the base knows leaks into the rewards, likely words are rewarded for being likely,
as the paper suspects where it finds a frequency bias (section 3.3).
"""

import itertools
from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd
import pingouin
from numpy import ndarray
from scipy import stats

from .. import DATA, InputError
from ..stats import rankings, resampling
from ..tables import lexicons, scores
from ..tables.stems import stems
from . import policies

SENTIMENT = ["positive", "negative"]
FREQUENCY = ["frequency"]
FEWEST = 10  # words; a rank correlation of fewer says nothing
HELD_CONSTANT = {
    "nothing": [],
    "sentiment": SENTIMENT,
    "sentiment and frequency": [*SENTIMENT, *FREQUENCY],
}


def words(
    rewards: pd.DataFrame,
    log_probabilities: pd.DataFrame,
    prompts: Sequence[str],
) -> pd.DataFrame:
    """Return English words, one row each, with their reward and their log-probability for every
    prompt.

    The tables have one vocabulary and all prompts; InputError otherwise. Columns: `reward <prompt>`
    and `log_probability <prompt>`, where the probabilities of all tokens of one input, such as `
    love` and `love`, are added up. `frequency` is log10 of occurrences per million words
    (wordfreq); other words are left out. `positive` and `negative` are the parts of VADER's mean
    rating, 0 for a word that it does not rate.
    """
    inputs = _inputs_of_both(rewards, log_probabilities, prompts)
    frequencies = lexicons.load("wordfreq")
    rows = lexicons.join(inputs.reset_index(), frequencies, "corrected")
    ratings = lexicons.load("vader").corrected.set_index("word")["sentiment"]
    rated = rows["word"].map(ratings).fillna(0.0)
    return rows.assign(
        frequency=np.log10(rows["frequency"]),
        positive=rated.clip(lower=0),
        negative=rated.clip(upper=0),
    )


def _inputs_of_both(
    rewards: pd.DataFrame,
    log_probabilities: pd.DataFrame,
    prompts: Sequence[str],
) -> pd.DataFrame:
    """Return one row per distinct input, indexed by input_group, with the columns of both tables as
    `words` names them.
    """
    for prompt in prompts:
        policies.refuse_missing(rewards, log_probabilities, prompt)
    left = rewards[[*scores.COLUMNS, *prompts]]
    right = log_probabilities[["token_id", "token", *prompts]]
    both = left.rename(columns={prompt: f"reward {prompt}" for prompt in prompts})
    logs = {prompt: f"log_probability {prompt}" for prompt in prompts}
    both = both.merge(
        right.rename(columns=logs),
        on="token_id",
        suffixes=("", " predicted"),
        validate="one_to_one",
    )
    if both.empty or (both.pop("token predicted") != both["token"]).any():
        raise InputError(
            "the two models have different vocabularies; compare a reward model with the language "
            "model that it was made from"
        )
    groups = both["input_group"]
    first = both.sort_values("token_id").drop_duplicates("input_group")
    inputs = first.set_index("input_group")
    for column in logs.values():
        probability = np.exp(both[column].astype(float))
        inputs[column] = np.log(probability.groupby(groups).sum())
    return inputs


def explained(
    rows: pd.DataFrame,
    prompts: Sequence[str],
    resamples: int = 200,
) -> pd.DataFrame:
    """Return the rank correlation of reward and log-probability: one row per prompt and set of
    controls.

    `rho` is Spearman's, or the partial correlation, with a 95% percentile bootstrap over stems
    of words.
    `share` is rho squared. `tau` is Kendall's tau-b, where nothing is held constant. InputError
    for fewer than ten words, or a column that cannot be ranked.
    """
    refuse_unranked(rows, prompts)
    pairs = [[f"reward {prompt}", f"log_probability {prompt}"] for prompt in prompts]
    columns = [*itertools.chain(*pairs), *SENTIMENT, *FREQUENCY]
    draws = rank_covariances(rows[columns].to_numpy(), resamples, stems(rows["word"]))
    correlations = []
    for prompt, pair in zip(prompts, pairs, strict=True):
        for held, controls in HELD_CONSTANT.items():
            fit = pingouin.partial_corr(
                rows,
                *pair,
                controls or None,
                method="spearman",
            )
            rho = fit["r"].item()
            places = [columns.index(name) for name in [*pair, *controls]]
            ci_low, ci_high = resampling.interval(partial(draws, places))
            tau = np.nan
            if not controls:
                of_pair = [rows[name] for name in pair]
                tau = stats.kendalltau(*of_pair).statistic
            numbers = {
                "prompt": prompt,
                "held_constant": held,
                "rho": rho,
                "ci_low": ci_low,
                "ci_high": ci_high,
                "share": rho**2,
                "tau": tau,
                "n": len(rows),
            }
            correlations.append(numbers)
    return pd.DataFrame(correlations)


def partial(covariance: ndarray, columns: Sequence[int]) -> ndarray:
    """Return the correlation of the first two columns with the others held constant. covariance:
    (..., k, k).
    """
    chosen = np.array(columns)
    of_columns = covariance[..., chosen[:, None], chosen]
    precision = np.linalg.pinv(of_columns, hermitian=True)
    scale = precision[..., 0, 0] * precision[..., 1, 1]
    return -precision[..., 0, 1] / np.sqrt(scale)


def rank_covariances(
    values: ndarray,
    resamples: int,
    clusters: int | Sequence,
    seed: int = 0,
) -> ndarray:
    """Return covariances of the columns' ranks in bootstrap resamples, (resamples, k, k), given
    values of shape (n, k); clusters as in resampling.bootstrap.

    Ranks are taken anew in each resample, ties sharing the average. One sort is enough: a resample
    only says how often each row counts.
    """
    codes = []
    for column in np.asarray(values, dtype=float).T:
        _, code = np.unique(column, return_inverse=True)
        codes.append(code)

    def covariance(drawn: ndarray) -> ndarray:
        times = np.bincount(drawn, minlength=len(values))
        ranks = np.array([_ranks(code, times) for code in codes])
        return np.cov(ranks, fweights=times)

    return resampling.bootstrap(covariance, clusters, resamples, seed)


def _ranks(codes: ndarray, times: ndarray) -> ndarray:
    """Return each row's average rank among all drawn rows, (n,). codes: the values numbered in
    order.
    """
    counts = np.bincount(codes, weights=times)
    middle = counts.cumsum() - (counts - 1) / 2
    return middle[codes]


def refuse_unranked(rows: pd.DataFrame, prompts: Sequence[str]) -> None:
    """Raise InputError for fewer than ten words, or a reward or log-probability that is missing
    or all equal.
    """
    scores.refuse_few(rows, FEWEST, "English words among the tokens")
    for prompt in prompts:
        ranked = rows[[f"reward {prompt}", f"log_probability {prompt}"]]
        rankings.refuse_constant(ranked)


@cache
def function_words() -> frozenset[str]:
    """Return English function words in small letters, without pronouns that can be an answer,
    such as `nothing`.
    """
    table = pd.read_csv(DATA / "function_words.csv", keep_default_na=False)
    return frozenset(table["word"])


def is_function_word(texts: Sequence[str]) -> ndarray:
    """Return whether each trimmed text is a function word in any case, (n,) bool."""
    listed = function_words()
    is_listed = [text.strip().lower() in listed for text in texts]
    return np.array(is_listed, dtype=bool)
