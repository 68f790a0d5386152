"""The framing of a prompt by the signs of words alone: do rewards vary more among the words that answer the prompt?

The spread of rewards is their standard deviation. The log ratio is the logarithm of the spread of positive words over
the spread of negative words. The interaction is the log ratio under a prompt for good things minus the log ratio under
a prompt for bad things. It needs only the signs of sentiment, no grades and no common scale.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from .. import InputError
from ..stats.crossed import Measured
from ..tables.prompts import polarity
from . import effects

ENDS = ["estimate", "ci_low", "ci_high"]


def interaction(spreads: Mapping[str, Measured]) -> Measured:
    """Return each model's mean log_spread_ratio under prompts for good things minus the mean under prompts for bad.

    `spreads`: as from spreads(). log 2 means that the ratio of spreads is twice as large when good things are asked
    for. Raise InputError without a prompt of each kind.
    """
    times = {side: sum(polarity(prompt) == side for prompt in spreads) for side in (1, -1)}
    if not all(times.values()):
        raise InputError("an interaction needs a prompt for good and one for bad things, as prompts=best,worst")
    weights = {prompt: polarity(prompt) / times[polarity(prompt)] for prompt in spreads}
    return Measured(
        sum(weights[prompt] * spread.values for prompt, spread in spreads.items()),
        sum(weights[prompt] * spread.influence for prompt, spread in spreads.items()),
    )


def spreads(rows: pd.DataFrame) -> dict[str, Measured]:
    """Return prompt -> each model's log ratio of the spread of positive words over the spread of negative words."""
    return effects.measured(rows, effects.log_spread_ratio)


def as_ratios(logs: pd.DataFrame) -> pd.DataFrame:
    """Return rows of effects.by_words with estimate and interval ends as ratios instead of their logarithms.

    The mean over models becomes the geometric mean, and standard_error still belongs to the log ratio.
    """
    return logs.assign(**np.exp(logs[ENDS]))
