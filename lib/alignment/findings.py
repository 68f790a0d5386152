"""What was found about models and people, in sentences."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from lib import multiverse
from lib.alignment import human, kinds
from lib.alignment.claims import HOLOCAUST, LOWEST
from lib.alignment.concordance import PEOPLE
from lib.alignment.matched import Matched
from lib.alignment.profiles import ByBase
from lib.crossed import Crossed


def people_in_words(summaries: pd.DataFrame, taus: pd.DataFrame) -> str:
    """A line per prompt: the mean tau with people, its interval, one new model's, and who agrees least and most."""
    return "\n".join(
        f"{prompt}: mean tau {row['mean']:.2f} [{row['ci_low']:.2f}, {row['ci_high']:.2f}], from {row['min']:.2f} "
        f"({taus[prompt].idxmin()}) to {row['max']:.2f} ({taus[prompt].idxmax()}); one new model like these: "
        f"{row['new_low']:.2f} to {row['new_high']:.2f}."
        for prompt, row in summaries.iterrows()
    )


def raters_in_words(halves: float, ceiling: float, taus: pd.Series) -> str:
    """How well halves of the raters agree, what could be reached with all of them, and what models reach."""
    return (
        f"Half of the raters with the other half: tau {halves:.2f}. A model that knew exactly what raters have in "
        f"common would reach {ceiling:.2f} with their mean; models reach {taus.mean():.2f} on average "
        f"({taus.mean() / ceiling:.0%} of that), {taus.max():.2f} at best."
    )


def matches_in_words(by_matches: pd.DataFrame) -> str:
    """Whether agreement rises with the matches behind a rating, at every step or not; by_matches: human.taus_by."""
    taus = by_matches["tau"]
    told = f"From fewest to most matches the mean tau is {', '.join(f'{tau:.2f}' for tau in taus)}"
    if taus.is_monotonic_increasing:
        return f"{told}: it rises at every step, as it would if few matches made ratings noisy."
    first, last = by_matches.iloc[0], by_matches.iloc[-1]
    apart = first["ci_high"] < last["ci_low"]
    ends = "the two ends differ" if apart else "the intervals of the two ends overlap"
    return f"{told}: it does not rise at every step, and {ends}; how noisy ratings are cannot be read off these four."


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


def holocaust_in_words(people: pd.Series, rewards: pd.DataFrame, last: int = LOWEST) -> str:
    """Its rank by people, by models among all items, and by models among the items that people rate lowest."""
    by_people, by_models = human.ranks(people)[HOLOCAUST], human.ranks(rewards).loc[HOLOCAUST]
    lowest = kinds.place_among_lowest(people, rewards, HOLOCAUST, last)
    above = int((lowest < (last + 1) / 2).sum())
    low, high = kinds.count_interval(above, len(lowest))
    return (
        f"'{HOLOCAUST}': rank {by_people:,.0f} of {len(people):,} by people, {by_models.median():,.0f} by the median "
        f"model. Among the {last} that people rate lowest models rank it {', '.join(f'{r:.0f}' for r in lowest)}: "
        f"{above} of {len(lowest)} [{low:.1f}, {high:.1f}] above the median of these."
    )


def kinds_in_words(table: pd.DataFrame) -> str:
    """Each kind of kinds.by_kind with its interval: undervalued (above .5), overvalued (below) or undecided."""
    parts = []
    for row in table.sort_values("above", ascending=False).itertuples():
        side = "undervalued" if row.ci_low > 0.5 else "overvalued" if row.ci_high < 0.5 else "undecided"
        parts.append(f"{row.kind} {row.above:.2f} [{row.ci_low:.2f}, {row.ci_high:.2f}] {side}")
    return ", ".join(parts) or "no kind"


def undervalued_in_words(table: pd.DataFrame) -> str:
    """The kinds whose interval lies above .5, the most undervalued first; for a title."""
    rows = table[table["ci_low"] > 0.5].sort_values("above", ascending=False)
    return ", ".join(f"{row.kind} {row.above:.2f}" for row in rows.itertuples()) or "no kind"


def least_valued_in_words(table: pd.DataFrame) -> str:
    """The kind that is undervalued most, if any is beyond its interval: what stands above it; table: kinds.by_kind."""
    sure = table[table["ci_low"] > 0.5].sort_values("above")
    if not len(sure):
        return f"of {len(table)} kinds none is surely undervalued beyond what people rank alike"
    row = sure.iloc[-1]
    return (
        f"they value {row['kind']} least: {row['above']:.0%} [{row['ci_low']:.0%}, {row['ci_high']:.0%}] of what "
        f"people rank alike stands above it (n = {row['items']}; half by chance)"
    )


def ends_in_words(row: pd.Series, paper: tuple[float, float]) -> str:
    """The cut that comes nearest to the paper's two taus, with its difference; row: of human.at_ends."""
    return (
        f"Nearest to the paper's {paper[0]} and {paper[1]} come {row['cut']:.0f} items at each end: "
        f"{row['high_tau']:.2f} and {row['low_tau']:.2f}, difference {row['difference']:+.2f} "
        f"[{row['difference_ci_low']:.2f}, {row['difference_ci_high']:.2f}]."
    )


def matched_in_words(matched: dict[str, Matched]) -> str:
    """A line per prompt: upper less lower half, for models like these and for these very models."""
    lines = []
    for prompt, one in matched.items():
        found = one.mean
        lines.append(f"{prompt}: {found.estimate:+.3f} [{found.ci_low:.3f}, {found.ci_high:.3f}] for models like "
                     f"these, [{found.these_low:.3f}, {found.these_high:.3f}] for these {found.models}.")  # fmt: skip
    return "\n".join(lines)


def halves_in_words(found: Crossed, who: str) -> str:
    """Whether pairs of the upper half are ordered as people order them more often, if that is sure, for a title.

    found: upper less lower half, Matched.mean. who: the people, as `people`.
    """
    interval = f"{found.estimate:+.3f} [{found.ci_low:.3f}, {found.ci_high:.3f}]"
    if found.ci_low <= 0 <= found.ci_high:
        return f"Equally far apart, which half's pairs are more often ordered as {who} do is undecided: {interval}"
    how = "more" if found.ci_low > 0 else "less"
    return f"Equally far apart, pairs of the upper half are ordered as {who} do {how} often: {interval}"


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


def base_in_words(found: ByBase, prompt: str) -> str:
    """Whether Llama's models lean to agency more than Gemma's, for a title."""
    side = "Llama's lean more to agency" if found.ci_low > 0 else "Gemma's do" if found.ci_high < 0 else "undecided"
    return (
        f"Agency against communion, Llama's models less Gemma's: {found.estimate:+.2f} [{found.ci_low:.2f}, "
        f"{found.ci_high:.2f}], p = {found.p:.2f} ({prompt}): {side}"
    )


def foundations_in_words(table: pd.DataFrame, prompt: str) -> str:
    """The lists that models reward most and least beyond other words, for a title; table: profiles.in_table."""
    best, worst = table.loc[table["above"].idxmax()], table.loc[table["above"].idxmin()]
    return (
        f"Rewarded most beyond other words: {best['kind']} ({best['above']:+.2f}); least: {worst['kind']} "
        f"({worst['above']:+.2f}, {prompt})"
    )


def paths_in_words(claim: str, table: pd.DataFrame) -> str:
    """On how many of its paths a claim of section 4 holds, for a title; table: as from multiverse.run."""
    said = "agreement is higher at the upper end"
    if claim != "S4.asymmetry":
        said = f"{claim.rsplit('.', 1)[1]} is undervalued"
    return f"On {(table['side'] == 'for').mean():.0%} of {len(table)} paths {said}"


# --- what a figure shows, for whoever cannot see it ---------------------------------------------------------------


def matrix_in_words(matrix: pd.DataFrame) -> str:
    """From which tau to which two models agree, and models with people; matrix: rankings.tau_matrix with people."""
    models, theirs = matrix.drop(index=PEOPLE, columns=PEOPLE), matrix[PEOPLE].drop(PEOPLE)
    pairs = models.to_numpy()[np.triu_indices(len(models), 1)]
    return (
        f"Two models agree at tau {pairs.min():.2f} to {pairs.max():.2f}, models with people at {theirs.min():.2f} "
        f"({theirs.idxmin()}) to {theirs.max():.2f} ({theirs.idxmax()})."
    )


def cuts_in_words(at_ends: Mapping[str, pd.DataFrame]) -> str:
    """For each prompt the mean tau at the two ends, with the fewest and with the most items; of human.at_ends."""
    parts = []
    for prompt, rows in at_ends.items():
        few, many = (
            f"{row['cut']:.0f} items {row['high_tau']:.2f} and {row['low_tau']:.2f}"
            for _, row in rows.iloc[[0, -1]].iterrows()
        )
        parts.append(f"{prompt}: at {few}, at {many}")
    return f"Mean tau with people at the upper and at the lower end, {'; '.join(parts)}."


def strips_in_words(items: pd.DataFrame, kind_of: pd.Series) -> str:
    """The median surprise of each kind of items, and of those of none; items: of human.discrepancies."""
    names = kind_of.reindex(items.index).fillna("").replace("", "no kind")
    medians = items["surprise"].groupby(names).median().sort_values(ascending=False)
    told = ", ".join(f"{kind} {median:+,.0f}" for kind, median in medians.items())
    return f"Median rank by models less what is expected (above 0: undervalued): {told}."


def moves_in_words(ranked: pd.DataFrame, groups: Mapping[str, Sequence[str]]) -> str:
    """From which mean rank by people to which by the median model each group of items goes; ranked: people first."""
    parts = []
    for name, items in groups.items():
        rows = ranked.loc[list(items)]
        parts.append(f"{name}: {rows.iloc[:, 0].mean():,.0f} to {rows.iloc[:, 1:].median(axis=1).mean():,.0f}")
    return f"Mean rank of each panel's items by people, then by the median model: {'; '.join(parts)}."


def sides_in_words(table: pd.DataFrame) -> str:
    """On which sides the paths of a claim lie, and the choice that decides most; table: of multiverse.run."""
    row = multiverse.shares(table).loc["all"]
    told = f"{row['for']:.0%} for, {row['undecided']:.0%} undecided, {row['against']:.0%} against"
    return f"Of {len(table)} paths {told}; the choice of {multiverse.deciding(table)['choice'].iloc[0]} explains most."
