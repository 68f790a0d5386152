"""Confounding of word frequency with sentiment, by hand: three words and one model's scatter, with and without control.

Words are a frame of one model's words: columns word, log_frequency, sentiment, and rewards by prompt.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from lib import crossed
from lib.framing.findings import said

HELD = "at the mean sentiment"


class WithAndWithout(NamedTuple):
    """Slopes on log frequency of one model: a row each, `alone` and `held`, with estimate, ci_low, ci_high; and what a
    point of sentiment is worth at equal frequency."""

    slopes: pd.DataFrame
    worth: float


def with_and_without(words: pd.DataFrame, prompt: str) -> WithAndWithout:
    """The least-squares slope of reward on log frequency, alone and with sentiment held constant; HC3 intervals."""
    x, control, y = (words[column].to_numpy(dtype=float) for column in ("log_frequency", "sentiment", prompt))
    rows = {"alone": _slope(x, y, None), "held": _slope(x, y, control[:, None])}
    return WithAndWithout(pd.DataFrame(rows).T, float(crossed.slope(control, y, x[:, None])))


def _slope(x: np.ndarray, y: np.ndarray, controls: np.ndarray | None) -> dict[str, float]:
    slope = float(crossed.slope(x, y, controls))
    half = stats.norm.ppf(0.975) * np.sqrt((crossed.slope_influence(x, y, controls) ** 2).sum())
    return {"estimate": slope, "ci_low": slope - half, "ci_high": slope + half}


def held_constant(words: pd.DataFrame, prompt: str) -> pd.Series:
    """Rewards less what their sentiment is worth beyond the mean: their line on frequency has the controlled slope."""
    beyond = words["sentiment"] - words["sentiment"].mean()
    return words[prompt].astype(float) - with_and_without(words, prompt).worth * beyond


def three_words(words: pd.DataFrame, prompt: str) -> pd.DataFrame:
    """A rare, a middling and a frequent word, each the most like the mean of its third in sentiment and reward.

    Columns: word, frequency, log_frequency, sentiment, reward, and HELD, the reward at the mean sentiment of all words.
    """
    shown = words.assign(reward=words[prompt].astype(float), **{HELD: held_constant(words, prompt)})
    columns = shown[["log_frequency", "sentiment", "reward"]]
    numbers = (columns - columns.mean()) / columns.std(ddof=0)
    third = pd.qcut(shown["log_frequency"].rank(method="first"), 3, labels=False)
    off = (numbers - numbers.groupby(third).transform("mean")).pow(2).sum(axis=1)
    nearest = off.groupby(third).idxmin()
    return shown.loc[nearest, ["word", "frequency", "log_frequency", "sentiment", "reward", HELD]]


def by_hand(three: pd.DataFrame) -> str:
    """The slopes of the lines through three words, as their rewards are and at the mean sentiment."""
    alone, held = (np.polyfit(three["log_frequency"], three[column], 1)[0] for column in ("reward", HELD))
    return f"The line through the three rewards rises by {alone:+.2f} per tenfold frequency; {HELD}, by {held:+.2f}."


def in_words(slopes: pd.DataFrame) -> str:
    """What a control changes in one model; slopes: of WithAndWithout."""
    alone, held = slopes.loc["alone"], slopes.loc["held"]
    return f"per tenfold frequency {said(alone, '+')} reward, at equal sentiment {said(held, '+')}"
