"""The framing of a prompt by signs alone: do the words that answer it spread more, whichever they are?

Asked for the best thing, rewards of positive words may spread more than those of negative ones; asked for the worst,
less. The interaction is the logarithm of the ratio of these spreads (SD), positive over negative words, under prompts
for good things minus that under prompts for bad ones. It needs no grades of sentiment, only signs, and no common scale.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from .. import InputError
from ..tables.prompts import cell, polarity
from . import effects
from .effects import ALL

SCALES = ("rewards", "normal scores")
OPPOSITES = {"best": "worst", "greatest": "terrible", "good": "bad"}
ENDS = ["estimate", "ci_low", "ci_high", "these_low", "these_high", "new_low", "new_high"]


def interaction(spreads: Mapping[str, effects.Measured]) -> effects.Measured:
    """Return each model's mean log_spread_ratio over prompts for good things minus that over prompts for bad ones.

    spreads: prompt -> as from spreads(). 0: framing changes nothing; log 2: the ratio of spreads is twice as large when
    good things are asked for. Raises InputError without a prompt of each kind.
    """
    times = {side: sum(polarity(prompt) == side for prompt in spreads) for side in (1, -1)}
    if not all(times.values()):
        raise InputError("an interaction needs a prompt for good and one for bad things, as prompts=best,worst")
    weights = {prompt: polarity(prompt) / times[polarity(prompt)] for prompt in spreads}
    return effects.Measured(
        sum(weights[prompt] * spread.values for prompt, spread in spreads.items()),
        sum(weights[prompt] * spread.influence for prompt, spread in spreads.items()),
    )


def spreads(rows: pd.DataFrame, scale: str = "rewards") -> dict[str, effects.Measured]:
    """Return prompt -> each model's log ratio of the spread of positive over that of negative words.

    scale: "rewards", or "normal scores": rewards are replaced by normal quantiles at their ranks, within each model and
    prompt (ties share one), so that no tail is stretched and only their order counts.
    """
    if scale == "normal scores":
        rewards = rows.groupby(["model", "prompt"], sort=False)["reward"]
        rows = rows.assign(reward=stats.norm.ppf((rewards.rank() - 0.5) / rewards.transform("size")))
    return effects.measured(rows, effects.log_spread_ratio)


def spread(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the ratio of the SD of rewards among positive words to that among negative ones, with its 95% interval.

    Columns: those of effects.by_words, with the ratio as estimate; standard_error is that of the log ratio. The row ALL
    has the geometric mean of the ratios. A ratio over 1 is the paper's "more spread out" (section 3.1); it does not
    depend on the scale of a model's rewards.
    """
    return as_ratios(effects.by_words(spreads(rows)))


def as_ratios(logs: pd.DataFrame) -> pd.DataFrame:
    """Return rows of effects.by_words with estimate and interval ends as ratios instead of their logarithms."""
    return logs.assign(**{column: np.exp(logs[column]) for column in ENDS})


# --- choices of words, wordings and scale -------------------------------------------------------------------------


def pairs(prompts: Sequence[str]) -> list[tuple[str, str]]:
    """Return (good, bad) prompts of one wording: best and worst first, then greatest and terrible, good and bad.

    Where no two prompts are worded alike, the first for good things goes with the first for bad ones. Raises InputError
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
    """Return name -> prompts: one wording, `best and worst`, and, where there are more, all pairs of wordings."""
    first, *others = matched = pairs(prompts)
    every = {f"{len(matched)} pairs": [prompt for pair in matched for prompt in pair]} if others else {}
    return {" and ".join(first): list(first)} | every


def over_choices(
    joined: Mapping[str, Mapping[str, pd.DataFrame]], wordings: Mapping[str, Sequence[str]]
) -> pd.DataFrame:
    """Return the interaction for every lexicon, words, wording and scale: rows of effects.in_rows, as logarithms.

    joined: lexicon -> model -> words with sentiment, of which the sign is used. wordings: name -> prompts. Further
    columns: lexicon, words (effects.WORDS), wording, scale (SCALES).
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
    """Return how many models lie above 0 in each choice of over_choices(), by their own intervals too: a row each.

    Columns: the choice, models, n_above, n_clearly (the whole interval above 0), and of the mean over models estimate,
    ci_low, ci_high, new_low, new_high, as ratios, p (against a ratio of 1) and n (words).
    """
    keys = ["scale", "lexicon", "words", "wording"]
    models = over[over["model"] != ALL].assign(models=1)
    above = models.assign(n_above=models["estimate"] > 0, n_clearly=models["ci_low"] > 0)
    table = above.groupby(keys, sort=False)[["models", "n_above", "n_clearly"]].sum().astype(int)
    means = as_ratios(over[over["model"] == ALL].set_index(keys))
    return table.join(means[["estimate", "ci_low", "ci_high", "new_low", "new_high", "p", "n"]]).reset_index()
