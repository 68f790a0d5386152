"""How rewards follow the frequency of words, with and without their sentiment held constant
(section 3.3).

Observations are as in lib.framing.effects, with the columns `frequency` or `log_frequency`.
"""

import numpy as np
import pandas as pd

from ..stats.crossed import Measured
from . import effects

CONTROLS = {
    "none": ("log_frequency",),
    "sentiment": ("log_frequency", "sentiment"),
    "bent": ("log_frequency", "is_positive", "positive_part", "negative_part"),
}


def log_frequency(rows: pd.DataFrame, base: float = np.e) -> pd.DataFrame:
    """Return the observations with log_frequency, the log of `frequency` (per million words) to
    this base.

    With base 10, a slope is the reward per tenfold frequency. Words of frequency zero are left out.
    """
    known = rows[rows["frequency"] > 0]
    natural = np.log(known["frequency"])
    return known.assign(log_frequency=natural / np.log(base))


def predictors(rows: pd.DataFrame, control: str = "none") -> pd.DataFrame:
    """Return the predictors of a regression, log_frequency first: one row per observation.

    `control`: "none", "sentiment" (a straight line as in the paper) or "bent" (a slope for each
    sign and a step between them).
    """
    if control == "bent":
        sentiment = rows["sentiment"]
        rows = rows.assign(
            is_positive=sentiment > 0,
            positive_part=sentiment.clip(lower=0),
            negative_part=sentiment.clip(upper=0),
        )
    return rows[list(CONTROLS[control])].astype(float)


def measured(rows: pd.DataFrame, control: str = "none") -> dict[str, Measured]:
    """Return prompt -> the slope of each model on log frequency, with control as in
    predictors().
    """
    columns = predictors(rows, control)
    rows = rows.assign(**columns)
    return effects.measured(rows, effects.whole_slope, list(columns))
