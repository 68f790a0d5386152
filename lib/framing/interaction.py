"""The framing of a prompt by signs alone: do the words that answer it spread more, whichever they are?

Asked for the best thing, rewards of positive words may spread more than those of negative ones; asked for the worst,
less. The interaction is the logarithm of the ratio of these spreads (SD), positive over negative words, under prompts
for good things minus that under prompts for bad ones. It needs no grades of sentiment, only signs, and no common scale.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from lib import InputError, display
from lib.framing import effects
from lib.prompts import cell, polarity

SCALES = ("rewards", "normal scores")
WORDS = ("all words", "without offensive")
OPPOSITES = {"best": "worst", "greatest": "terrible", "good": "bad"}


def interaction(spreads: Mapping[str, effects.Measured]) -> effects.Measured:
    """Of each model, the mean of log_spread_ratio over its prompts for good things minus that over its prompts for bad.

    spreads: prompt -> as from spreads(). 0: framing changes nothing; log 2: the ratio of spreads is twice as large when
    good things are asked for. Raises InputError without a prompt of each kind.
    """
    times = {side: sum(polarity(prompt) == side for prompt in spreads) for side in (1, -1)}
    if not all(times.values()):
        raise InputError("an interaction needs a prompt for good and one for bad things, as prompts=best,worst")
    weights = {prompt: polarity(prompt) / times[polarity(prompt)] for prompt in spreads}
    return effects.Measured(
        sum(weights[prompt] * one.values for prompt, one in spreads.items()),
        sum(weights[prompt] * one.influence for prompt, one in spreads.items()),
    )


def spreads(rows: pd.DataFrame, scale: str = "rewards") -> dict[str, effects.Measured]:
    """Prompt -> each model's log ratio of the spread of positive over that of negative words.

    scale: "rewards", or "normal scores": rewards are replaced by normal quantiles at their ranks, within each model and
    prompt, so that no tail is stretched and only their order counts.
    """
    return effects.measured(normal_scores(rows) if scale == "normal scores" else rows, effects.log_spread_ratio)


def normal_scores(rows: pd.DataFrame) -> pd.DataFrame:
    """The observations with normal quantiles at the ranks of their rewards, within model and prompt; ties share one."""
    rewards = rows.groupby(["model", "prompt"], sort=False)["reward"]
    share = (rewards.rank() - 0.5) / rewards.transform("size")
    return rows.assign(reward=stats.norm.ppf(share))


def pairs(prompts: Sequence[str]) -> list[tuple[str, str]]:
    """(good, bad) prompts of one wording each, best with worst first: then greatest with terrible, good with bad.

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
    """Name -> prompts: one wording, `best and worst`; and, where there are more, all pairs of wordings at once."""
    found = pairs(prompts)
    one = {" and ".join(found[0]): list(found[0])}
    return one | ({f"{len(found)} pairs": [p for pair in found for p in pair]} if len(found) > 1 else {})


def over_choices(
    joined: Mapping[str, Mapping[str, pd.DataFrame]], wordings: Mapping[str, Sequence[str]]
) -> pd.DataFrame:
    """The interaction for every lexicon, words, wording and scale: rows of effects.in_rows, as logarithms.

    joined: lexicon -> model -> words with sentiment, of which the sign is used. wordings: name -> prompts. Further
    columns: lexicon, words (WORDS), wording, scale (SCALES).
    """
    found = []
    prompts = sorted({prompt for of_wording in wordings.values() for prompt in of_wording})
    for lexicon, words, rows in _observed(joined, prompts):
        for scale in SCALES:
            of_prompt = spreads(rows, scale)
            for wording, chosen in wordings.items():
                one = interaction({prompt: of_prompt[prompt] for prompt in chosen})
                choice = {"lexicon": lexicon, "words": words, "wording": wording, "scale": scale}
                found.append(effects.in_rows(one).assign(**choice))
    return pd.concat(found, ignore_index=True)


def _observed(joined: Mapping, prompts: Sequence[str]) -> Iterator[tuple[str, str, pd.DataFrame]]:
    for lexicon, tables in joined.items():
        rows = effects.observations(tables, prompts)
        yield lexicon, WORDS[0], rows
        yield lexicon, WORDS[1], rows[~rows["word"].map(display.is_offensive)]


def few_words(words: pd.DataFrame, seed: int = 1) -> pd.DataFrame:
    """Four positive and four negative words, inoffensive, drawn at random; words: one row per word, with sentiment."""
    shown = words[~words["word"].map(display.is_offensive)]
    return shown.groupby(np.sign(shown["sentiment"])).sample(4, random_state=seed)


def ratios_by_hand(words: pd.DataFrame, prompts: Sequence[str]) -> pd.Series:
    """Prompt -> the standard deviation of positive words' rewards over that of negative ones'."""
    spread = words.groupby(np.sign(words["sentiment"]))[list(prompts)].std(ddof=0)
    return spread.loc[1] / spread.loc[-1]


def first_choice(framing: pd.DataFrame, lexicon: str) -> dict[str, pd.Series]:
    """Scale -> the row of sides() for this lexicon, all words and the first wording."""
    rows = framing[(framing["lexicon"] == lexicon) & (framing["words"] == WORDS[0])]
    return {scale: one.iloc[0] for scale, one in rows.groupby("scale", sort=False)}


def by_pair(rows: pd.DataFrame) -> pd.DataFrame:
    """The interaction of each pair of wordings: effects.in_rows with the columns good and bad (prompts)."""
    of_prompt = spreads(rows)
    found = [
        effects.in_rows(interaction({prompt: of_prompt[prompt] for prompt in pair})).assign(good=pair[0], bad=pair[1])
        for pair in pairs(list(of_prompt))
    ]
    return pd.concat(found, ignore_index=True)


def sides(over: pd.DataFrame) -> pd.DataFrame:
    """How many models lie above 0 in each choice, by their own intervals too: a row per choice of over_choices().

    Columns: the choice, models, n_above, n_clearly (the whole interval above 0), and of the mean over models estimate,
    ci_low, ci_high, new_low, new_high, as ratios, p (against a ratio of 1) and n (words).
    """
    keys = ["scale", "lexicon", "words", "wording"]
    models = over[over["model"] != effects.ALL]
    above = models.assign(n_above=models["estimate"] > 0, n_clearly=models["ci_low"] > 0)
    table = above.groupby(keys, sort=False)[["n_above", "n_clearly"]].sum()
    table.insert(0, "models", above.groupby(keys, sort=False).size())
    means = effects.as_ratios(over[over["model"] == effects.ALL].set_index(keys))
    table = table.join(means[["estimate", "ci_low", "ci_high", "new_low", "new_high", "p", "n"]])
    return table.reset_index().astype({"n_above": int, "n_clearly": int})
