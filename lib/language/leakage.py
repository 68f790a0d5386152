"""How much of a reward ranking its base's log-probability explains, and how much of that is word
frequency.

If some of what the base knows leaks into the rewards, likely words are rewarded for being likely,
as the paper suspects where it finds a frequency bias (section 3.3).
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd
import pingouin
from scipy import stats

from .. import DATA, InputError
from ..stats import resampling
from ..tables import lexicons, scores

SENTIMENT, FREQUENCY = ["positive", "negative"], ["frequency"]
FEWEST = 10  # words; a rank correlation of fewer says nothing
HELD_CONSTANT = {
    "nothing": [],
    "sentiment": SENTIMENT,
    "sentiment and frequency": [*SENTIMENT, *FREQUENCY],
}


def words(
    rewards: pd.DataFrame, log_probabilities: pd.DataFrame, prompts: Sequence[str]
) -> pd.DataFrame:
    """Return English words, one row each, with their reward and their log-probability for every
    prompt.

    The tables have one vocabulary and all prompts; InputError otherwise. Columns: `reward <prompt>`
    and `log_probability <prompt>`, where the probabilities of all tokens of one input, such as `
    love` and `love`, are added up. `frequency` is log10 of occurrences per million words
    (wordfreq); other words are left out. `positive` and `negative` are the parts of VADER's mean
    rating, 0 for a word that it does not rate.
    """
    for name, table in (("rewards", rewards), ("log-probabilities", log_probabilities)):
        if missing := [prompt for prompt in prompts if prompt not in table]:
            raise InputError(
                f"the {name} have no prompt '{missing[0]}'; score both models for the same prompts"
            )
    inputs = _inputs_of_both(rewards, log_probabilities, prompts)
    rows = lexicons.join(inputs.reset_index(), lexicons.load("wordfreq"), "corrected")
    ratings = lexicons.load("vader").corrected
    rated = rows["word"].map(ratings.set_index("word")["sentiment"]).fillna(0.0)
    return rows.assign(
        frequency=np.log10(rows["frequency"]),
        positive=rated.clip(lower=0),
        negative=rated.clip(upper=0),
    )


def _inputs_of_both(
    rewards: pd.DataFrame, log_probabilities: pd.DataFrame, prompts: Sequence[str]
) -> pd.DataFrame:
    """Return one row per distinct input, indexed by input_group, with the columns of both tables as
    `words` names them.
    """
    as_rewards = {prompt: f"reward {prompt}" for prompt in prompts}
    as_logs = {prompt: f"log_probability {prompt}" for prompt in prompts}
    left = rewards[[*scores.COLUMNS, *prompts]].rename(columns=as_rewards)
    right = log_probabilities[["token_id", "token", *prompts]].rename(columns=as_logs)
    both = left.merge(
        right, on="token_id", suffixes=("", " predicted"), validate="one_to_one"
    )
    if both.empty or (both.pop("token predicted") != both["token"]).any():
        raise InputError(
            "the two models have different vocabularies; compare a reward model with the language "
            "model that it was made from"
        )
    groups = both["input_group"]
    inputs = (
        both.sort_values("token_id")
        .drop_duplicates("input_group")
        .set_index("input_group")
    )
    for column in as_logs.values():
        inputs[column] = np.log(
            np.exp(both[column].astype(float)).groupby(groups).sum()
        )
    return inputs


def explained(
    rows: pd.DataFrame, prompts: Sequence[str], resamples: int = 200, seed: int = 0
) -> pd.DataFrame:
    """Return the rank correlation of reward and log-probability: one row per prompt and set of
    controls.

    `rho` is Spearman's, or the partial correlation, with a 95% percentile bootstrap over words.
    `share` is rho squared. `tau` is Kendall's tau-b, where nothing is held constant. InputError
    where a column cannot be ranked.
    """
    pairs = {
        prompt: [f"reward {prompt}", f"log_probability {prompt}"] for prompt in prompts
    }
    columns = [
        *(name for pair in pairs.values() for name in pair),
        *HELD_CONSTANT["sentiment and frequency"],
    ]
    refuse_unranked(rows, prompts)
    draws, place = (
        rank_covariances(rows[columns].to_numpy(), resamples, seed),
        columns.index,
    )
    correlations = []
    for prompt, pair in pairs.items():
        for held, controls in HELD_CONSTANT.items():
            rho = pingouin.partial_corr(
                rows, *pair, controls or None, method="spearman"
            )["r"].item()
            ci_low, ci_high = resampling.interval(
                partial(draws, [*map(place, pair), *map(place, controls)])
            )
            tau = (
                np.nan
                if controls
                else stats.kendalltau(rows[pair[0]], rows[pair[1]]).statistic
            )
            numbers = {
                "rho": rho,
                "ci_low": ci_low,
                "ci_high": ci_high,
                "share": rho**2,
                "tau": tau,
                "n": len(rows),
            }
            correlations.append({"prompt": prompt, "held_constant": held} | numbers)
    return pd.DataFrame(correlations)


def partial(covariance: np.ndarray, columns: Sequence[int]) -> np.ndarray:
    """Return the correlation of the first two columns with the others held constant. covariance:
    (..., k, k).
    """
    chosen = np.array(columns)
    precision = np.linalg.pinv(covariance[..., chosen[:, None], chosen], hermitian=True)
    return -precision[..., 0, 1] / np.sqrt(precision[..., 0, 0] * precision[..., 1, 1])


def rank_covariances(values: np.ndarray, resamples: int, seed: int = 0) -> np.ndarray:
    """Return covariances of the columns' ranks in bootstrap resamples, (resamples, k, k), given
    values of shape (n, k).

    Ranks are taken anew in each resample, ties sharing the average. One sort is enough: a resample
    only says how often each row counts.
    """
    codes = [
        np.unique(column, return_inverse=True)[1]
        for column in np.asarray(values, dtype=float).T
    ]

    def covariance(drawn: np.ndarray) -> np.ndarray:
        times = np.bincount(drawn, minlength=len(values))
        return np.cov(np.array([_ranks(code, times) for code in codes]), fweights=times)

    return resampling.bootstrap(covariance, len(values), resamples, seed)


def _ranks(codes: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return each row's average rank among all drawn rows, (n,). codes: the values numbered in
    order.
    """
    counts = np.bincount(codes, weights=times)
    return (counts.cumsum() - (counts - 1) / 2)[codes]


def refuse_unranked(rows: pd.DataFrame, prompts: Sequence[str]) -> None:
    """Raise InputError for fewer than ten words, or a reward or log-probability that is missing
    or all equal.
    """
    scores.refuse_few(rows, FEWEST, "English words among the tokens")
    for column in (
        f"{kind} {prompt}"
        for prompt in prompts
        for kind in ("reward", "log_probability")
    ):
        if rows[column].isna().any() or rows[column].nunique() < 2:
            raise InputError(
                f"'{column}' is missing or all equal, so it ranks nothing; leave that prompt out"
            )


@cache
def function_words() -> frozenset[str]:
    """Return English function words in small letters, without pronouns that can be an answer,
    such as `nothing`.
    """
    return frozenset(
        pd.read_csv(DATA / "function_words.csv", keep_default_na=False)["word"]
    )


def is_function_word(texts: Sequence[str]) -> np.ndarray:
    """Return whether each trimmed text is a function word in any case, (n,) bool."""
    return np.array(
        [text.strip().lower() in function_words() for text in texts], dtype=bool
    )
