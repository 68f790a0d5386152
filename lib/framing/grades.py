"""How well a lexicon's grades are known, and what slopes would be on grades without error.

A slope on noisy grades is too small, by the share of the grades' variance that is not noise (attenuation). If grades of
one sign are noisier, a gap between the slopes hides or appears. VADER states each word's ten ratings, from which the
noise of their mean follows.
"""

import numpy as np
import pandas as pd

from lib import lexicons
from lib.framing import effects


def with_error(words: pd.DataFrame) -> pd.DataFrame:
    """VADER's words with a column grade_error: the standard error of the mean of their ten ratings, in points.

    words: a frame with the column `word`; those that VADER lacks are left out.
    """
    ratings = lexicons.vader_ratings()
    each = ratings[lexicons.RATERS]
    errors = ratings.assign(grade_error=each.std(axis=1, ddof=1) / np.sqrt(each.shape[1]))
    return words.merge(errors[["word", "grade_error"]], on="word", validate="many_to_one")


def reliability(words: pd.DataFrame) -> pd.DataFrame:
    """By sign (index: positive, negative): n, sd of the grades, error (root mean square), reliability, in (0, 1].

    words: one row per word, with sentiment and grade_error. reliability = 1 - mean squared error / variance of the
    grades: what a slope on these grades is of the slope on grades without error (Fuller 1987, Measurement Error Models,
    section 1.1). The errors are taken to be independent of rewards. Error also moves words near 0 to the other
    sign, which this leaves out; VADER holds few such words.
    """
    sign = np.sign(words["sentiment"]).map({1.0: "positive", -1.0: "negative"})
    rows = {}
    for name, group in words.groupby(sign):
        variance, noise = group["sentiment"].var(ddof=1), (group["grade_error"] ** 2).mean()
        rows[name] = {
            "n": len(group),
            "sd": np.sqrt(variance),
            "error": np.sqrt(noise),
            "reliability": 1 - noise / variance,
        }
    return pd.DataFrame(rows).T.rename_axis("sign").loc[["positive", "negative"]]


def disattenuated_gap(reliability: pd.Series) -> effects.Statistic:
    """effects.slope_gap with each slope divided by the reliability of its sign's grades, and its influence.

    reliability: by sign, `positive` and `negative`; taken as known.
    """

    def statistic(sentiment: np.ndarray, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        shrunk = np.where(sentiment > 0, reliability["positive"], reliability["negative"])
        return effects.slope_gap(sentiment * shrunk, reward)  # a slope on k x is 1 / k of that on x

    return statistic
