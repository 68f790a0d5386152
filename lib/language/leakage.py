"""How much of a reward ranking its base's log-probability explains, and how much of that is word
frequency.

If some of what the base knows leaks into the rewards, likely words are rewarded for being likely,
as the paper suspects where it finds a frequency bias (section 3.3).
"""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pandas as pd
from numpy import ndarray

from .. import DATA
from ..stats import rankings, resampling
from ..tables import lexicons, scores
from ..tables.stems import stems
from .policies import joined

SENTIMENT = ["positive", "negative"]
FEWEST = 10  # words; a rank correlation of fewer says nothing
HELD_CONSTANT = {
    "nothing": [],
    "sentiment": SENTIMENT,
    "sentiment and frequency": [*SENTIMENT, "frequency"],
}


def words(
    rewards: pd.DataFrame,
    log_probabilities: pd.DataFrame,
    prompts: Sequence[str],
) -> pd.DataFrame:
    """Return English words, one row each, with their reward and their log-probability for every
    prompt.

    Columns: `reward <prompt>` and `log_probability <prompt>`, where the probabilities of all tokens
    of one input, such as ` love` and `love`, are added up. `frequency` is log10 of occurrences per
    million words (wordfreq); other words are left out. `positive` and `negative` are the parts of
    VADER's mean rating, 0 for a word that it does not rate. InputError for tables that
    policies.joined refuses, fewer than ten words, or a column that cannot be ranked.
    """
    both = joined(rewards, log_probabilities, prompts).sort_values("token_id")
    inputs = both.drop_duplicates("input_group").set_index("input_group")
    for prompt in prompts:
        column = f"log_probability {prompt}"
        probability = np.exp(both[column]).groupby(both["input_group"]).sum()
        inputs[column] = np.log(probability)
    frequencies = lexicons.load("wordfreq")
    rows = lexicons.join(inputs.reset_index(), frequencies, "corrected")
    ratings = lexicons.load("vader").corrected.set_index("word")["sentiment"]
    rated = rows["word"].map(ratings).fillna(0.0)
    scores.refuse_few(rows, FEWEST, "English words among the tokens")
    rankings.refuse_constant(rows.filter(regex="^(reward|log_probability) "))
    return rows.assign(
        frequency=np.log10(rows["frequency"]),
        positive=rated.clip(lower=0),
        negative=rated.clip(upper=0),
    )


def explained(
    rows: pd.DataFrame,
    prompts: Sequence[str],
    resamples: int = 200,
) -> pd.DataFrame:
    """Return the rank correlation of reward and log-probability: one row per prompt and set of
    controls.

    `rho` is Spearman's, or the partial correlation, with a 95% percentile bootstrap over stems
    of words.
    """
    pairs = [[f"reward {prompt}", f"log_probability {prompt}"] for prompt in prompts]
    columns = [*sum(pairs, []), *SENTIMENT, "frequency"]
    covariance = rank_covariance(rows[columns].to_numpy(dtype=float))
    own = covariance(np.arange(len(rows)))
    draws = resampling.bootstrap(covariance, stems(rows["word"]), resamples)
    correlations = []
    for prompt, pair in zip(prompts, pairs, strict=True):
        for held, controls in HELD_CONSTANT.items():
            places = [columns.index(name) for name in [*pair, *controls]]
            rho = float(partial(own, places))
            ends = resampling.interval(partial(draws, places))
            correlations.append([prompt, held, rho, *ends, len(rows)])
    named = ["prompt", "held_constant", "rho", "ci_low", "ci_high", "n"]
    return pd.DataFrame(correlations, columns=named)


def partial(covariance: ndarray, columns: Sequence[int]) -> ndarray:
    """Return the correlation of the first two columns with the others held constant. covariance:
    (..., k, k).
    """
    chosen = np.array(columns)
    of_columns = covariance[..., chosen[:, None], chosen]
    precision = np.linalg.pinv(of_columns, hermitian=True)
    scale = precision[..., 0, 0] * precision[..., 1, 1]
    return -precision[..., 0, 1] / np.sqrt(scale)


def rank_covariance(values: ndarray) -> Callable[[ndarray], ndarray]:
    """Return a function that gives the covariance of the columns' ranks among drawn rows, (k, k).
    values: (n, k).

    Ranks are taken anew in each resample, ties sharing the average. One sort is enough: a resample
    only says how often each row counts.
    """
    codes = [np.unique(column, return_inverse=True)[1] for column in values.T]

    def covariance(drawn: ndarray) -> ndarray:
        times = np.bincount(drawn, minlength=len(values))
        ranks = []
        for code in codes:
            counts = np.bincount(code, weights=times)
            middle = counts.cumsum() - (counts - 1) / 2
            ranks.append(middle[code])
        return np.cov(ranks, fweights=times)

    return covariance


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
    return np.array([text.strip().lower() in listed for text in texts], dtype=bool)
