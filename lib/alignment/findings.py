"""What was found about models and people, in sentences."""

import pandas as pd

from lib.alignment import human
from lib.alignment.claims import HOLOCAUST


def people_in_words(summaries: pd.DataFrame, taus: pd.DataFrame) -> str:
    """A line per prompt: the mean tau with people, its interval, and the models that agree least and most."""
    return "\n".join(
        f"{prompt}: mean tau {row['mean']:.2f} [{row['ci_low']:.2f}, {row['ci_high']:.2f}], from {row['min']:.2f} "
        f"({taus[prompt].idxmin()}) to {row['max']:.2f} ({taus[prompt].idxmax()})."
        for prompt, row in summaries.iterrows()
    )


def raters_in_words(ceiling: float, with_half: pd.Series) -> str:
    """How well half of the raters, and models, agree with the other half."""
    return (
        f"Half of the raters with the other half: tau {ceiling:.2f}. Models with half of the raters: "
        f"{with_half.mean():.2f} on average, {with_half.max():.2f} at best."
    )


def prompts_in_words(across: pd.DataFrame) -> str:
    """The mean, the lowest and the highest tau of a model with itself, for each pair of prompts."""
    return "; ".join(f"{pair}: mean {c.mean():.2f}, from {c.min():.2f} to {c.max():.2f}" for pair, c in across.items())


def expectation_in_words(expected: pd.DataFrame, shares=(0.01, 0.1, 0.5, 0.9, 0.99)) -> str:
    """Where models are expected to rank an item that people rank so, at some shares of the list."""
    near = [(expected["people_rank"] - share * len(expected)).abs().idxmin() for share in shares]
    return "\n".join(
        f"An item that people rank {expected.loc[item, 'people_rank']:,.0f} of {len(expected):,} "
        f"is expected at {expected.loc[item, 'expected']:,.0f} by models."
        for item in near
    )


def holocaust_in_words(ranked: pd.DataFrame, last: int = 100) -> str:
    """Its rank by people and by models, beside the models' median for the items that people rate lowest."""
    models, items = ranked.drop(columns=human.PEOPLE), len(ranked)
    lowest = models.loc[ranked[human.PEOPLE].nlargest(last).index].median(axis=1).median()
    return (
        f"'{HOLOCAUST}': rank {ranked.loc[HOLOCAUST, human.PEOPLE]:,.0f} of {items:,} by people; by models "
        f"{', '.join(f'{rank:,.0f}' for rank in models.loc[HOLOCAUST])}: median {models.loc[HOLOCAUST].median():,.0f}. "
        f"Of the {last} items that people rate lowest the median is {lowest:,.0f}."
    )


def kinds_in_words(beyond: pd.DataFrame) -> str:
    """The kinds that are undervalued beyond regression to the mean (interval above .5), the most undervalued first."""
    undervalued = beyond[beyond["ci_low"] > 0.5].sort_values("above", ascending=False)
    return ", ".join(f"{row.kind} {row.above:.2f}" for row in undervalued.itertuples()) or "no kind"


def ends_in_words(at_ends: pd.DataFrame) -> str:
    """The gap between the two ends with its interval: between halves, and at the second cut."""
    halves, near = at_ends.iloc[-1], at_ends.iloc[1]
    gaps = [f"{r['difference']:+.3f} [{r['difference_ci_low']:.3f}, {r['difference_ci_high']:.3f}]"
            for r in (halves, near)]  # fmt: skip
    return f"Upper less lower half: {gaps[0]}; with {near['cut']:.0f} items at each end {gaps[1]}."


def planted_in_words(alone: pd.DataFrame, planted: pd.DataFrame) -> str:
    """For each kind in how many of the models that were given a penalty it lies above every model given none.

    alone: models x kinds, probability that a word of the kind is undervalued more. planted: the same of penalties.
    """
    lines = []
    for kind in alone:
        given = planted[kind] > 0
        without = alone.loc[~given, kind].max()
        above = alone.loc[given, kind] > without
        least = ", ".join(above.index[~above]) or "none"
        lines.append(f"{kind}: {above.sum()} of {len(above)} models with a penalty lie above the control "
                     f"({without:.2f}); not: {least}.")  # fmt: skip
    return "\n".join(lines)
