"""How rewards follow the frequency of words, with and without their sentiment held constant (section 3.3).

Observations are as in lib.framing.effects, with the columns `frequency` or `log_frequency`. The second half shows
confounding on the words of one model: columns `word, log_frequency, sentiment` and rewards by prompt.
"""

import numpy as np
import pandas as pd
from scipy import stats

from .. import InputError
from ..stats import crossed
from ..stats.crossed import Measured
from . import effects

CONTROLS = {
    "none": ("log_frequency",),
    "sentiment": ("log_frequency", "sentiment"),
    "bent": ("log_frequency", "is_positive", "positive_part", "negative_part"),
}
AT_MEAN = "at the mean sentiment"


def log_frequency(rows: pd.DataFrame, base: float = np.e) -> pd.DataFrame:
    """Return the observations with log_frequency, the log of `frequency` (per million words) to this base.

    With base 10, a slope is the reward per tenfold frequency. Words of frequency zero are left out.
    """
    positive = rows[rows["frequency"] > 0]
    return positive.assign(log_frequency=np.log(positive["frequency"]) / np.log(base))


def predictors(rows: pd.DataFrame, control: str = "none", *, length: bool = False) -> pd.DataFrame:
    """Return the predictors of a regression, log_frequency first: one row per observation.

    `control`: "none", "sentiment" (a straight line as in the paper) or "bent" (a slope for each sign and a step between
    them). `length`: the number of letters is held constant too.
    """
    if control not in CONTROLS:
        raise InputError(f"control must be one of {', '.join(CONTROLS)}, not {control!r}")
    if control == "bent":
        sentiment = rows["sentiment"]
        parts = {"positive_part": sentiment.clip(lower=0), "negative_part": sentiment.clip(upper=0)}
        rows = rows.assign(is_positive=sentiment > 0, **parts)
    columns = rows[list(CONTROLS[control])].astype(float)
    return columns.assign(length=rows["word"].str.len().astype(float)) if length else columns


def frequency_slopes(rows: pd.DataFrame, control: str = "none") -> pd.DataFrame:
    """Return effects.slopes() of reward on log frequency, as in Fig 3D, with control as in predictors()."""
    columns = predictors(rows, control)
    fits = effects.slopes(rows.assign(**columns), list(columns))
    return fits[fits["predictor"] == "log_frequency"].drop(columns="predictor").reset_index(drop=True)


def measured(rows: pd.DataFrame, control: str = "none", *, length: bool = False) -> dict[str, Measured]:
    """Return prompt -> the slope of each model on log frequency, with control and length as in predictors()."""
    columns = predictors(rows, control, length=length)
    return effects.measured(rows.assign(**columns), effects.whole_slope, list(columns))


# --- confounding by hand ------------------------------------------------------------------------------------------


def with_and_without(words: pd.DataFrame, prompt: str) -> pd.DataFrame:
    """Return the least-squares slope of reward on log frequency: columns estimate, ci_low, ci_high (HC3).

    Rows: `alone`, and `held`, with sentiment held constant.
    """
    x, control, y = (words[column].to_numpy(dtype=float) for column in ("log_frequency", "sentiment", prompt))
    rows = {}
    for name, controls in {"alone": None, "held": control[:, None]}.items():
        slope = float(crossed.slope(x, y, controls))
        half = stats.norm.ppf(0.975) * np.sqrt((crossed.slope_influence(x, y, controls) ** 2).sum())
        rows[name] = {"estimate": slope, "ci_low": slope - half, "ci_high": slope + half}
    return pd.DataFrame(rows).T


def held_constant(words: pd.DataFrame, prompt: str) -> pd.Series:
    """Return rewards minus the effect of sentiment at equal frequency: each word has the mean sentiment.

    Their slope on frequency is the slope of the regression on both.
    """
    x, sentiment, y = (words[column].to_numpy(dtype=float) for column in ("log_frequency", "sentiment", prompt))
    worth = float(crossed.slope(sentiment, y, x[:, None]))
    return words[prompt].astype(float) - worth * (words["sentiment"] - words["sentiment"].mean())


def three_words(words: pd.DataFrame, prompt: str) -> pd.DataFrame:
    """Return a rare, a middling and a frequent word: each is nearest to the means of its third in all numbers.

    Columns: `word, frequency, log_frequency, sentiment, reward`, and AT_MEAN, the reward at the mean sentiment.
    """
    shown = words.assign(reward=words[prompt].astype(float), **{AT_MEAN: held_constant(words, prompt)})
    columns = shown[["log_frequency", "sentiment", "reward"]]
    numbers = (columns - columns.mean()) / columns.std(ddof=0)
    third = pd.qcut(shown["log_frequency"].rank(method="first"), 3, labels=False)
    distance = (numbers - numbers.groupby(third).transform("mean")).pow(2).sum(axis=1)
    nearest = distance.groupby(third).idxmin()
    return shown.loc[nearest, ["word", "frequency", "log_frequency", "sentiment", "reward", AT_MEAN]]
