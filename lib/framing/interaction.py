"""The framing of a prompt by the signs of words alone: do rewards vary more among the words that answer the prompt?

The spread of rewards is their standard deviation. The log ratio is the logarithm of the spread of positive words over
the spread of negative words. The interaction is the log ratio under prompts for good things minus the log ratio under
prompts for bad things. It needs only the signs of sentiment, no grades and no common scale.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from .. import InputError
from ..stats.crossed import Measured
from ..tables.prompts import cell, polarity
from . import effects
from .effects import ALL

SCALES = ("rewards", "normal scores")
OPPOSITES = {"best": "worst", "greatest": "terrible", "good": "bad"}
ENDS = ["estimate", "ci_low", "ci_high", "these_low", "these_high", "new_low", "new_high"]


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


def spreads(rows: pd.DataFrame, scale: str = "rewards") -> dict[str, Measured]:
    """Return prompt -> each model's log ratio of the spread of positive words over the spread of negative words.

    `scale`: "rewards" or "normal scores". Normal scores are normal quantiles at the ranks of rewards within each model
    and prompt, so that only the order of rewards counts.
    """
    if scale == "normal scores":
        rewards = rows.groupby(["model", "prompt"], sort=False)["reward"]
        rows = rows.assign(reward=stats.norm.ppf((rewards.rank() - 0.5) / rewards.transform("size")))
    return effects.measured(rows, effects.log_spread_ratio)


def spread(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the spread of positive words over the spread of negative words: rows of effects.by_words, as ratios.

    A ratio over 1 is the paper's "more spread out" (section 3.1). The row ALL has the geometric mean of the ratios, and
    standard_error belongs to the log ratio.
    """
    return as_ratios(effects.by_words(spreads(rows)))


def as_ratios(logs: pd.DataFrame) -> pd.DataFrame:
    """Return rows of effects.by_words with estimate and interval ends as ratios instead of their logarithms."""
    return logs.assign(**np.exp(logs[ENDS]))


# --- choices of words, wordings and scale -------------------------------------------------------------------------


def pairs(prompts: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of prompts in one wording: best and worst, greatest and terrible, good and bad.

    Without such a pair, the first prompt for good things goes with the first one for bad things. Raise InputError
    without a prompt of each kind.
    """
    sides = {side: [prompt for prompt in prompts if polarity(prompt) == side] for side in (1, -1)}
    if not (sides[1] and sides[-1]):
        raise InputError("an interaction needs a prompt for good and one for bad things; score both: best, worst")
    of_cell = {cell(prompt): prompt for prompt in prompts}
    alike = [
        (of_cell[good, *wording], of_cell[bad, *wording])
        for good, bad in OPPOSITES.items()
        for wording in dict.fromkeys(parts[1:] for parts in of_cell)
        if (good, *wording) in of_cell and (bad, *wording) in of_cell
    ]
    return alike or [(sides[1][0], sides[-1][0])]


def wordings_of(prompts: Sequence[str]) -> dict[str, list[str]]:
    """Return name -> prompts of the first of pairs(), as `best and worst`, and of all pairs if there are more."""
    first, *others = matched = pairs(prompts)
    every = {f"{len(matched)} pairs": [prompt for pair in matched for prompt in pair]} if others else {}
    return {" and ".join(first): list(first)} | every


def over_choices(
    joined: Mapping[str, Mapping[str, pd.DataFrame]], wordings: Mapping[str, Sequence[str]]
) -> pd.DataFrame:
    """Return the interaction as rows of effects.in_rows for every lexicon, words, scale (SCALES) and wording.

    `joined`: as in effects.word_choices. `wordings`: name -> prompts.
    """
    tables = {}
    prompts = sorted({prompt for of_wording in wordings.values() for prompt in of_wording})
    for lexicon, words, rows in effects.word_choices(joined, prompts):
        for scale in SCALES:
            of_prompts = spreads(rows, scale)
            for wording, chosen in wordings.items():
                ratio = interaction({prompt: of_prompts[prompt] for prompt in chosen})
                tables[lexicon, words, scale, wording] = effects.in_rows(ratio)
    names = ["lexicon", "words", "scale", "wording"]
    return pd.concat(tables, names=names).reset_index(names).reset_index(drop=True)


def sides(over: pd.DataFrame) -> pd.DataFrame:
    """Return a row per choice of over_choices(): how many models lie above 0, and the mean over models as a ratio.

    Columns: the choice, `models, n_above, n_clearly`, then the mean's `estimate, ci_low, ci_high, new_low, new_high, p,
    n`. A model is clearly above 0 if its whole interval is. The p is against a ratio of 1, and n counts words.
    """
    keys = ["scale", "lexicon", "words", "wording"]
    models = over[over["model"] != ALL].assign(models=1)
    above = models.assign(n_above=models["estimate"] > 0, n_clearly=models["ci_low"] > 0)
    table = above.groupby(keys, sort=False)[["models", "n_above", "n_clearly"]].sum().astype(int)
    means = as_ratios(over[over["model"] == ALL].set_index(keys))
    return table.join(means[["estimate", "ci_low", "ci_high", "new_low", "new_high", "p", "n"]]).reset_index()
