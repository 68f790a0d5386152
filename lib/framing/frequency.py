"""How rewards follow the frequency of words, with and without their sentiment held constant (section 3.3).

Observations are those of lib.framing.effects, with the columns `frequency` or `log_frequency`. The second half shows
confounding by hand, on the words of one model: columns word, log_frequency, sentiment, and rewards by prompt.
"""

import numpy as np
import pandas as pd
from scipy import stats

from .. import InputError
from ..stats import crossed
from . import effects
from .effects import Measured

CONTROLS = {
    "none": ("log_frequency",),
    "sentiment": ("log_frequency", "sentiment"),
    "bent": ("log_frequency", "is_positive", "positive_part", "negative_part"),
}
AT_MEAN = "at the mean sentiment"


def log_frequency(rows: pd.DataFrame, base: float = np.e) -> pd.DataFrame:
    """Return the observations with a column log_frequency: log of `frequency` (per million words) to this base.

    With base 10 a slope is reward per tenfold frequency. Words of frequency zero have no logarithm and are left out.
    """
    positive = rows[rows["frequency"] > 0]
    return positive.assign(log_frequency=np.log(positive["frequency"]) / np.log(base))


def predictors(rows: pd.DataFrame, control: str = "none", *, length: bool = False) -> pd.DataFrame:
    """Return the predictors of a regression, log_frequency first: one row per observation.

    control: "none"; "sentiment", a straight line as in the paper; "bent", with a slope for each sign and a step between
    them, as notebook 04 finds it. length: letters of the word are held constant too.
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
    """Return the least-squares slope of reward on log frequency per model and prompt, as the paper fits it (Fig 3D).

    control: as of predictors(). As effects.slopes(), without the rows of the controls.
    """
    columns = predictors(rows, control)
    fits = effects.slopes(rows.assign(**columns), list(columns))
    return fits[fits["predictor"] == "log_frequency"].drop(columns="predictor").reset_index(drop=True)


def measured(rows: pd.DataFrame, control: str = "none", *, length: bool = False) -> dict[str, Measured]:
    """Return prompt -> the slope of each model on log frequency, and how much each word moves it; see predictors()."""
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
    """Return rewards less what their sentiment is worth, at equal frequency, beyond the mean sentiment.

    The line of these rewards on frequency has the slope that the regression on both gives.
    """
    x, sentiment, y = (words[column].to_numpy(dtype=float) for column in ("log_frequency", "sentiment", prompt))
    worth = float(crossed.slope(sentiment, y, x[:, None]))
    return words[prompt].astype(float) - worth * (words["sentiment"] - words["sentiment"].mean())


def three_words(words: pd.DataFrame, prompt: str) -> pd.DataFrame:
    """Return a rare, a middling and a frequent word, each the most like the mean of its third in sentiment and reward.

    Columns: word, frequency, log_frequency, sentiment, reward, and AT_MEAN, the reward at the mean sentiment of all.
    """
    shown = words.assign(reward=words[prompt].astype(float), **{AT_MEAN: held_constant(words, prompt)})
    columns = shown[["log_frequency", "sentiment", "reward"]]
    numbers = (columns - columns.mean()) / columns.std(ddof=0)
    third = pd.qcut(shown["log_frequency"].rank(method="first"), 3, labels=False)
    off = (numbers - numbers.groupby(third).transform("mean")).pow(2).sum(axis=1)
    nearest = off.groupby(third).idxmin()
    return shown.loc[nearest, ["word", "frequency", "log_frequency", "sentiment", "reward", AT_MEAN]]
