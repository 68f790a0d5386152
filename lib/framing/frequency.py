"""How rewards follow the frequency of words, with and without their sentiment held constant (section 3.3).

Observations are those of lib.framing.effects, with the columns `frequency` or `log_frequency`. `measured` gives slopes
and the influence of every word on them, and so crossed intervals, counts with intervals, and what a control changes on
the same words.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from lib import InputError, crossed
from lib.framing import effects
from lib.framing.effects import Measured


def log_frequency(rows: pd.DataFrame, base: float = np.e) -> pd.DataFrame:
    """The observations with a column log_frequency: the logarithm of `frequency` (per million words) to this base.

    With base 10 a slope is reward per tenfold frequency. Words of frequency zero have no logarithm and are left out.
    """
    positive = rows[rows["frequency"] > 0]
    return positive.assign(log_frequency=np.log(positive["frequency"]) / np.log(base))


CONTROLS = {
    "none": ("log_frequency",),
    "sentiment": ("log_frequency", "sentiment"),
    "bent": ("log_frequency", "is_positive", "positive_part", "negative_part"),
}


def predictors(rows: pd.DataFrame, control: str = "none", *, length: bool = False) -> pd.DataFrame:
    """The predictors of a regression, log_frequency first: one row per observation.

    control: "none"; "sentiment", a straight line as in the paper; "bent", with a slope for each sign and a step between
    them, as notebook 04 finds it. length: letters of the word are held constant too.
    """
    if control not in CONTROLS:
        raise InputError(f"control must be one of {', '.join(CONTROLS)}, not {control!r}")
    if control == "bent":
        sentiment = rows["sentiment"]
        parts = {"positive_part": sentiment.clip(lower=0), "negative_part": sentiment.clip(upper=0)}
        rows = rows.assign(is_positive=sentiment > 0, **parts)
    found = rows[list(CONTROLS[control])].astype(float)
    return found.assign(length=rows["word"].str.len().astype(float)) if length else found


def frequency_slopes(rows: pd.DataFrame, control: str = "none") -> pd.DataFrame:
    """Least-squares slope of reward on log frequency per model and prompt, as the paper fits it (Fig 3D).

    control: as of predictors(). As effects.slopes(), without the rows of the controls.
    """
    held = predictors(rows, control)
    rows = rows.assign(**held)
    fits = effects.slopes(rows, list(held.columns))
    return fits[fits["predictor"] == "log_frequency"].drop(columns="predictor").reset_index(drop=True)


# --- words and models both drawn ----------------------------------------------------------------------------------


def measured(rows: pd.DataFrame, control: str = "none", *, length: bool = False) -> dict[str, Measured]:
    """Prompt -> the slope of each model on log frequency, and how much each word moves it (HC3); see predictors().

    A word in several rows is one word: their influences are added.
    """
    held = predictors(rows, control, length=length)
    found: dict[str, tuple[dict, dict]] = {}
    for (prompt, name), group in rows.groupby(["prompt", "model"], sort=False):
        x, *others = held.loc[group.index].to_numpy().T
        controls, y = np.column_stack(others) if others else None, group["reward"].to_numpy(dtype=float)
        values, influence = found.setdefault(prompt, ({}, {}))
        values[name] = float(crossed.slope(x, y, controls))
        moved = crossed.slope_influence(x, y, controls)
        influence[name] = pd.Series(moved, group["word"]).groupby(level=0).sum()
    return {prompt: Measured(pd.Series(values), pd.DataFrame(moved)) for prompt, (values, moved) in found.items()}


def change(before: Mapping[str, Measured], after: Mapping[str, Measured]) -> dict[str, Measured]:
    """Prompt -> slopes after less slopes before, of the same models and words, with the influence of each word."""
    return {
        prompt: Measured(after[prompt].values - one.values, after[prompt].influence - one.influence)
        for prompt, one in before.items()
    }


def by_words(found: Mapping[str, Measured]) -> pd.DataFrame:
    """A slope per model and prompt with its interval over words, and their mean, crossed (row effects.ALL).

    Columns: as of effects.by_words.
    """
    return pd.concat([effects.in_rows(one).assign(prompt=prompt) for prompt, one in found.items()], ignore_index=True)[
        ["prompt", *effects.IN_ROWS]
    ]


def counts(found: Mapping[str, Measured]) -> pd.DataFrame:
    """How many models have a slope significantly above 0 (p < .05), with its interval over words, by prompt.

    Columns: count, ci_low, ci_high, models; see effects.count.
    """
    rows = {prompt: effects.count(one, significant=True) for prompt, one in found.items()}
    return pd.DataFrame(rows).T.rename_axis("prompt")
