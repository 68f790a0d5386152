"""How rewards follow the frequency of words, with and without their sentiment held constant (section 3.3).

Observations are those of lib.framing.effects, with the columns `frequency` or `log_frequency`.
"""

import numpy as np
import pandas as pd

from lib import InputError
from lib.framing import effects


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


def frequency_slopes(rows: pd.DataFrame, control: str = "none", *, robust: bool = False) -> pd.DataFrame:
    """Slope of reward on log frequency per model and prompt, with or without sentiment held constant (Fig 3D).

    control: "none"; "sentiment", a straight line as in the paper; "bent", with a slope for each sign and a step between
    them, as notebook 04 finds it. As slopes(), without the rows of the controls.
    """
    if control not in CONTROLS:
        raise InputError(f"control must be one of {', '.join(CONTROLS)}, not {control!r}")
    predictors = CONTROLS[control]
    if control == "bent":
        sentiment = rows["sentiment"]
        parts = {"positive_part": sentiment.clip(lower=0), "negative_part": sentiment.clip(upper=0)}
        rows = rows.assign(is_positive=sentiment > 0, **parts)
    fits = effects.slopes(rows, predictors, robust=robust)
    return fits[fits["predictor"] == "log_frequency"].drop(columns="predictor").reset_index(drop=True)
