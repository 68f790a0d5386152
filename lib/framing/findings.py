"""What framing and frequency come to, in words: sentences and titles whose numbers and judgements are computed."""

from collections.abc import Mapping, Sequence

import pandas as pd

from lib.framing.printed import STEEPER
from lib.prompts import polarity


def said(row: Mapping, sign: str = "") -> str:
    """An estimate with its interval, `0.40 (0.31 to 0.49)`; sign `+`: each number carries its own."""
    return "{estimate:{s}.2f} ({ci_low:{s}.2f} to {ci_high:{s}.2f})".format(
        s=sign, **{name: row[name] for name in ("estimate", "ci_low", "ci_high")}
    )


def side_of(row: Mapping) -> int:
    """1 where the whole interval lies above 0, -1 where it lies below, else 0."""
    return int(row["ci_low"] > 0) - int(row["ci_high"] < 0)


def grade_steps(graded: pd.DataFrame, prompt: str) -> str:
    """Whether the mean reward moves more from grade 1 to 2 or from -2 to -1; graded: effects.by_grade."""
    low, high = (graded.loc[end, prompt] - graded.loc[start, prompt] for start, end in ((-2, -1), (1, 2)))
    is_positive = abs(high) > abs(low)
    more = f"more among {'positive' if is_positive else 'negative'} words"
    asked = "the side asked for" if is_positive == (polarity(prompt) > 0) else "not the side asked for"
    return f"{prompt}: {low:+.2f} SD from -2 to -1, {high:+.2f} SD from 1 to 2: {more}, {asked}."


def bends(gaps: pd.DataFrame) -> str:
    """Where rewards bend at neutral words, prompts together; gaps: effects.mean_of of slope gaps, a row per prompt.

    `upwards for greatest and best, downwards for worst`: above 0, rewards rise more steeply, or fall less, among
    positive words.
    """
    return _by_side(gaps, {1: "upwards", -1: "downwards", 0: "neither way for certain"})


def more_or_less(slopes: pd.DataFrame) -> str:
    """Under which prompts slopes are above 0, below, or neither; slopes: effects.mean_of, a row per prompt."""
    return _by_side(slopes, {1: "more", -1: "less", 0: "neither more nor less for certain"})


def apart(gaps: pd.DataFrame) -> str:
    """Under which prompts positive words score higher than negative ones; gaps: effects.mean_of of mean gaps."""
    told = _by_side(gaps, {1: "higher", -1: "lower", 0: "neither higher nor lower for certain"})
    return f"Positive words score {told}"


def agree(both: Mapping, prompts: Sequence[str]) -> str:
    """Whether rewards for two prompts go together; both: the row of their mean correlation, with its interval."""
    told = "agree" if side_of(both) > 0 else "do not agree for certain"
    return f"{listed(prompts).capitalize()} {told}: mean r {said(both)}"


def _by_side(rows: pd.DataFrame, told: Mapping[int, str]) -> str:
    prompts = {word: [prompt for prompt, row in rows.iterrows() if side_of(row) == side] for side, word in told.items()}
    return ", ".join(f"{word} for {listed(of_side)}" for word, of_side in prompts.items() if of_side)


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def steeper(counts: pd.DataFrame) -> str:
    """In how many models the side asked for is steeper, beside what the paper prints; counts: effects.counts."""
    told = []
    for prompt, row in counts.iterrows():
        printed = f"; paper: {STEEPER[prompt]}" if prompt in STEEPER else ""
        told.append(f"{prompt} {row['count']} of {row['models']} ({row['ci_low']} to {row['ci_high']}{printed})")
    return "Models in which the side asked for is steeper: " + ", ".join(told)


def by_choice(gaps: pd.DataFrame) -> str:
    """How many choices of words say so, or the opposite, prompt by prompt; gaps: rows with prompt, ci_low, ci_high."""
    told = []
    for prompt, rows in gaps.groupby("prompt", sort=False):
        sides = [side_of(row) for _, row in rows.iterrows()]
        told.append(f"{prompt} in {sides.count(1)} of {len(sides)} choices, the opposite in {sides.count(-1)}")
    return "; ".join(told)


def many(rows: pd.DataFrame, sign: str = "") -> str:
    """`best 0.40 (0.31 to 0.49), worst ...` of rows by prompt."""
    return ", ".join(f"{prompt} {said(row, sign)}" for prompt, row in rows.iterrows())


def ratios_in_words(ratios: pd.Series, pair: Sequence[str]) -> str:
    """The spread of positive over negative words under two prompts, and how many times the one is the other."""
    first, second = (ratios[prompt] for prompt in pair)
    return (
        f"spread of positive over negative words: {first:.2f} ({pair[0]}), {second:.2f} ({pair[1]}); the first is "
        f"{first / second:.2f} times the second"
    )


def paths_in_words(row: Mapping) -> str:
    """What the paths of a claim come to, in a title's words; row: of multiverse.summary."""
    sides = (f"{row[f'n_{side}'] / row['paths']:.0%} {side}" for side in ("for", "undecided", "against"))
    return f"of {row['paths']:,} paths {', '.join(sides)}; most turns on the {row['deciding']}"


def positive(slopes: pd.DataFrame) -> str:
    """In how many models the slope, and in how many its whole interval, lies above 0; slopes: model, prompt, slope."""
    told = []
    for prompt, rows in slopes.groupby("prompt", sort=False):
        told.append(f"{(rows['slope'] > 0).sum()} of {len(rows)} ({(rows['ci_low'] > 0).sum()} clearly) for {prompt}")
    return ", ".join(told)


def beyond_bias(slopes: pd.DataFrame, bias: pd.DataFrame) -> str:
    """Under how many prompts slopes lie above what a model without any planted bonus shows.

    bias: that model's slope, ci_low, ci_high by prompt; empty where it is not known.
    """
    known = slopes.index.intersection(bias.index)
    if known.empty:
        return "what the method finds where nothing was planted is not known yet"
    above = (slopes.loc[known, "ci_low"] > bias.loc[known, "ci_high"]).sum()
    return f"clearly more than in the small model without a planted bonus under {above} of {len(known)} prompts"


def inverse(both: Mapping) -> str:
    """What the correlations of a prompt with its like and with its opposite come to; both: their sum, in a row."""
    return "not the inverse" if both["ci_low"] > 0 else "as good as the inverse"


def grid(counted: pd.DataFrame) -> str:
    """Under how many prompts for bad things the side asked for is clearly less steep, by lexicon, with all words.

    counted: prompts and less_steep by polarity, lexicon and words.
    """
    rows = counted.loc[-1].xs("all words", level="words")
    told = [f"{row['less_steep']} of {row['prompts']} prompts by {name}" for name, row in rows.iterrows()]
    return f"Asked for bad things, the side asked for is clearly less steep under {listed(told)}"


def above_one(choices: pd.DataFrame) -> str:
    """In how many choices the whole interval of a ratio lies above 1; choices: rows with ci_low."""
    return f"above 1 in {(choices['ci_low'] > 1).sum()} of {len(choices)} choices"


def all_paths(summaries: pd.DataFrame) -> str:
    """What the paths of every prompt come to, in one sentence; summaries: rows of multiverse.summary, S3.slope.*."""
    sure = "Whichever way one asks" if summaries["n_for"].eq(summaries["paths"]).all() else "Not whichever way one asks"
    told = (f"{row['claim'].rpartition('.')[2]}, {paths_in_words(row)}" for row in summaries.to_dict("records"))
    return f"{sure}: {'; '.join(told)}"


def of_claim(row: Mapping, says: str) -> str:
    """A claim in its words, and what its paths come to; row: of multiverse.summary."""
    return f"{says}: {paths_in_words(row)}"


def how_firm(controls: Mapping[str, pd.DataFrame]) -> str:
    """Under how many controls and prompts the mean slope is clearly above 0, or below; frames of effects.mean_of."""
    every = pd.concat(controls)
    above, below = (every["ci_low"] > 0).sum(), (every["ci_high"] < 0).sum()
    return f"mean slope at equal sentiment: clearly above 0 in {above} of {len(every)}, below in {below}"
