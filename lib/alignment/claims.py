"""The claims of section 4, as rows for the scorecard, and the sentences that say what was found.

`papers` says whether the items are the paper's own (EloEverything). Only then are our numbers held against its: on
other items they are about something else, and the verdict is `not testable here`.
"""

from collections.abc import Mapping

import pandas as pd

from lib import rankings, resampling
from lib.alignment import human
from lib.claims import Claim, judge

UNTESTED = "not testable here"
TAU = {"mean": 0.29, "sd": 0.06, "min": 0.22, "max": 0.39}  # of models with people
TAU_OF_MODELS = 0.55
ENDS = {"high": 0.19, "low": 0.08}
FACTS = {"items": (7530, 0), "matches_mean": (479.4, 0.05), "matches_sd": (464.4, 0.05),
         "words_mean": (2.1, 0.05), "words_sd": (1.3, 0.05)}  # fmt: skip
FIRST = {"R-Lla-8B": "Sports bra", "F-Lla-8B-v0.1": "Gödel, Escher, Bach"}
LOVE, THIRD, HOLOCAUST = "Unconditional love", "Black people", "The Holocaust"
PLACES = f"position_{THIRD.lower().replace(' ', '_')}"


def _verdict(papers: bool, paper, as_published, corrected=None, *, within: float = 0.005) -> str:
    return judge(paper, as_published, corrected, within=within) if papers else UNTESTED


# --- claims -------------------------------------------------------------------------------------------------------


def of_data(ratings: pd.DataFrame, papers: bool) -> list[Claim]:
    """S4.data: how many items, their matches and words; ratings: by item, with `matches`. None elsewhere."""
    if not papers:
        return []
    words = pd.Series(ratings.index.str.split().str.len().to_numpy())
    ours = {"items": len(ratings), "matches_mean": ratings["matches"].mean(), "matches_sd": ratings["matches"].std(),
            "words_mean": words.mean(), "words_sd": words.std()}  # fmt: skip
    return [
        Claim("S4.data", name, paper=paper, as_published=ours[name], n=len(ratings),
              verdict=_verdict(papers, paper, ours[name], within=within))
        for name, (paper, within) in FACTS.items()
    ]  # fmt: skip


def of_people(summaries: pd.DataFrame, n: int, papers: bool) -> list[Claim]:
    """S4.tau.human: mean, sd, min and max of the models' taus with people; summaries: prompts x alignment.summary."""
    claims = []
    for prompt, found in summaries.iterrows():
        note = "the prompt that the paper's text names" if prompt == "GE" else ""
        for name, paper in TAU.items():
            ends = {"ci_low": found["ci_low"], "ci_high": found["ci_high"]} if name == "mean" else {}
            claims.append(Claim("S4.tau.human", name, prompt, paper=paper if papers else None, n=n, note=note, **ends,
                                as_published=found[name], verdict=_verdict(papers, paper, found[name])))  # fmt: skip
    return claims


def of_models(
    rewards: Mapping[str, pd.DataFrame], means: pd.DataFrame, papers: bool, resamples: int = 50
) -> list[Claim]:
    """S4.tau.models: the mean tau of models, its interval by items; means: prompts x alignment.matrix_means."""
    claims = []
    for prompt, found in means.iterrows():
        drawn = rankings.tau_resamples(rewards[prompt], resamples)[1]
        low, high = resampling.interval(drawn.mean(axis=1))
        claims.append(Claim("S4.tau.models", "mean", prompt, "", TAU_OF_MODELS if papers else None,
                            found["whole"], found["pairs"], low, high, n=drawn.shape[1],
                            verdict=_verdict(papers, TAU_OF_MODELS, found["whole"], found["pairs"]),
                            note="as published: the whole matrix, its diagonal included"))  # fmt: skip
    return claims


def of_prompts(across: pd.DataFrame) -> list[Claim]:
    """S4.prompts: each model with itself under another prompt, as from alignment.across_prompts; not testable."""
    note = "mean over models, from {:.2f} to {:.2f}; the numbers of Fig A6 are not at hand"
    return [
        Claim("S4.prompts", f"tau {pair}", corrected=column.mean(), n=len(column),
              note=note.format(column.min(), column.max()))
        for pair, column in across.items()
    ]  # fmt: skip


def of_tops(rewards: pd.DataFrame, prompt: str, papers: bool) -> list[Claim]:
    """S4.tops: how many models put the paper's item first, and whether two models do so with theirs. None elsewhere."""
    if not papers:
        return []
    first = human.tops(rewards)
    love = int((first["item"] == LOVE).sum())
    claims = [Claim("S4.tops", "n_unconditional_love", prompt, paper=5, as_published=love, n=rewards.shape[1],
                    verdict=judge(5, love, within=0))]  # fmt: skip
    for model, item in FIRST.items():
        tied = int(first.loc[(first["model"] == model) & (first["item"] == item), "tied"].sum())
        claims.append(Claim("S4.tops", "items tied for first", prompt, model, 1, tied, n=len(rewards),
                            verdict="reproduced" if tied else "not reproduced",
                            note=f"{item}; 0: it is not first; 2: one other item has the same reward"))  # fmt: skip
    return claims


def of_ends(at_ends: Mapping[str, pd.DataFrame], n: int, papers: bool) -> list[Claim]:
    """S4.asymmetry: tau at both ends for every cut of the first prompt; their difference for every prompt.

    at_ends: prompt -> alignment.at_ends, the last cut being the two halves, the second the one nearest to the paper.
    """
    main = next(iter(at_ends))
    claims, halves = [], at_ends[main].iloc[-1]
    for row in at_ends[main].to_dict("records"):
        for end, paper in ENDS.items():
            ours = row[f"{end}_tau"], halves[f"{end}_tau"]
            claims.append(Claim("S4.asymmetry", end, main, "", paper if papers else None, *ours,
                                row[f"{end}_ci_low"], row[f"{end}_ci_high"], n=int(row[f"{end}_items"]),
                                verdict=_verdict(papers, paper, *ours, within=0.01),
                                note=f"cut: {row['cut']} items at each end (its interval); "
                                "corrected: the two halves"))  # fmt: skip
    return claims + [_gap(prompt, rows, n, papers and prompt == main) for prompt, rows in at_ends.items()]


def _gap(prompt: str, rows: pd.DataFrame, n: int, tested: bool) -> Claim:
    near, halves = rows.iloc[1], rows.iloc[-1]
    paper = round(ENDS["high"] - ENDS["low"], 2)
    ours = near["difference"], halves["difference"]
    return Claim("S4.asymmetry", "difference", prompt, "", paper if tested else None, *ours,
                 halves["difference_ci_low"], halves["difference_ci_high"], n=n,
                 verdict=_verdict(tested, paper, *ours, within=0.01),
                 note=f"high less low; as published: {near['cut']:.0f} items at each end, the plain cut that comes "
                 "nearest to the paper; corrected: the two halves")  # fmt: skip


def of_kinds(raw: pd.DataFrame, beyond: pd.DataFrame, prompt: str, papers: bool) -> list[Claim]:
    """S4.undervalued by kind: alignment.by_kind of differences (raw) and of surprises (beyond), the same kinds."""
    claims = []
    for row, unadjusted in zip(beyond.itertuples(), raw.itertuples(), strict=True):
        told = (
            "reproduced" if row.ci_low > 0.5 else "only as published" if unadjusted.ci_low > 0.5 else "not reproduced"
        )
        claims.append(Claim("S4.undervalued", f"above_{row.kind.replace(' ', '_')}", prompt, "", None,
                            unadjusted.above, row.above, row.ci_low, row.ci_high, n=row.items,
                            verdict=told if papers else UNTESTED,
                            note="probability that an item of the kind is undervalued more than one of no kind "
                            "(.5 by chance); corrected: beyond regression to the mean"))  # fmt: skip
    return claims


def of_third(
    people: pd.Series, rewards: Mapping[str, pd.DataFrame], papers: bool, resamples: int = 200
) -> tuple[list[Claim], pd.DataFrame]:
    """S4.undervalued: the place of the item that the paper finds third, for every prompt and aggregate; and a table.

    The interval is over models drawn with replacement. The paper's number is about the first prompt. Both are empty
    where the items are not the paper's.
    """
    claims, table, main = [], [], next(iter(rewards))
    for prompt in rewards if papers else ():
        places = {name: human.discrepancies(people, rewards[prompt], name).loc[THIRD]
                  for name in human.AGGREGATES}  # fmt: skip
        for aggregate, place in places.items():
            drawn = human.positions_over_models(people, rewards[prompt], THIRD, aggregate, resamples)
            low, high = resampling.interval(drawn)
            told = _is_third(place, places[human.AGGREGATES[0]]) if prompt == main else UNTESTED
            claims.append(_place(prompt, aggregate, place, (low, high), len(people), told))
            table.append({"prompt": prompt, "aggregate": aggregate, "position": place["position"],
                          "ci_low": low, "ci_high": high, "by surprise": place["surprise_position"]})  # fmt: skip
    return claims, pd.DataFrame(table)


def _is_third(place: pd.Series, as_published: pd.Series) -> str:
    if place["position"] <= 3:
        return "reproduced"
    return "only as published" if as_published["position"] <= 3 else "not reproduced"


def _place(prompt: str, aggregate: str, place: pd.Series, ends: tuple, n: int, verdict: str) -> Claim:
    ours = "as_published" if aggregate == human.AGGREGATES[0] else "corrected"
    note = f"aggregate: {aggregate}; by surprise {place['surprise_position']:.0f}; interval over models"
    return Claim("S4.undervalued", PLACES, prompt, paper=None if verdict == UNTESTED else 3, ci_low=ends[0],
                 ci_high=ends[1], n=n, verdict=verdict, note=note, **{ours: int(place["position"])})  # fmt: skip


def of_holocaust(ranked: pd.DataFrame, prompt: str, papers: bool) -> list[Claim]:
    """S4.holocaust: its rank by people, and how many models do not have it in the worst tenth. None elsewhere.

    ranked: items x (people, then models), all items.
    """
    if not papers:
        return []
    ranks, items, n = ranked.loc[HOLOCAUST], len(ranked), ranked.shape[1] - 1
    models = ranks.drop(human.PEOPLE)
    above, last = int((models < 0.9 * items).sum()), int(ranks[human.PEOPLE])
    return [
        Claim("S4.holocaust", "people_rank", prompt, paper=7530, as_published=last, n=items,
              verdict=judge(7530, last, within=0)),
        Claim("S4.holocaust", "n_models_outside_worst_tenth", prompt, paper="most", as_published=above, n=n,
              verdict="reproduced" if above > n / 2 else "not reproduced",
              note=f"models' ranks {models.min():.0f} to {models.max():.0f}"),
    ]  # fmt: skip


# --- sentences ----------------------------------------------------------------------------------------------------


def told_of_people(summaries: pd.DataFrame, taus: pd.DataFrame) -> str:
    """A line per prompt: the mean tau with people, its interval, and the models that agree least and most."""
    return "\n".join(
        f"{prompt}: mean tau {row['mean']:.2f} [{row['ci_low']:.2f}, {row['ci_high']:.2f}], from {row['min']:.2f} "
        f"({taus[prompt].idxmin()}) to {row['max']:.2f} ({taus[prompt].idxmax()})."
        for prompt, row in summaries.iterrows()
    )


def told_of_raters(ceiling: float, with_half: pd.Series) -> str:
    """How well half of the raters, and models, agree with the other half."""
    return (
        f"Half of the raters with the other half: tau {ceiling:.2f}. Models with half of the raters: "
        f"{with_half.mean():.2f} on average, {with_half.max():.2f} at best."
    )


def told_of_prompts(across: pd.DataFrame) -> str:
    """The mean, the lowest and the highest tau of a model with itself, for each pair of prompts."""
    return "; ".join(f"{pair}: mean {c.mean():.2f}, from {c.min():.2f} to {c.max():.2f}" for pair, c in across.items())


def told_of_expectation(found: pd.DataFrame, shares=(0.01, 0.1, 0.5, 0.9, 0.99)) -> str:
    """Where models are expected to rank an item that people rank so, at some shares of the list."""
    near = [(found["people_rank"] - share * len(found)).abs().idxmin() for share in shares]
    return "\n".join(
        f"An item that people rank {found.loc[item, 'people_rank']:,.0f} of {len(found):,} "
        f"is expected at {found.loc[item, 'expected']:,.0f} by models."
        for item in near
    )


def told_of_holocaust(ranked: pd.DataFrame, last: int = 100) -> str:
    """Its rank by people and by models, beside the models' median for the items that people rate lowest."""
    models, items = ranked.drop(columns=human.PEOPLE), len(ranked)
    lowest = models.loc[ranked[human.PEOPLE].nlargest(last).index].median(axis=1).median()
    return (
        f"'{HOLOCAUST}': rank {ranked.loc[HOLOCAUST, human.PEOPLE]:,.0f} of {items:,} by people; by models "
        f"{', '.join(f'{rank:,.0f}' for rank in models.loc[HOLOCAUST])}: median {models.loc[HOLOCAUST].median():,.0f}. "
        f"Of the {last} items that people rate lowest the median is {lowest:,.0f}."
    )


def told_of_kinds(beyond: pd.DataFrame) -> str:
    """The kinds that are undervalued beyond regression to the mean (interval above .5), the most undervalued first."""
    found = beyond[beyond["ci_low"] > 0.5].sort_values("above", ascending=False)
    return ", ".join(f"{row.kind} {row.above:.2f}" for row in found.itertuples()) or "no kind"


def told_of_ends(at_ends: pd.DataFrame) -> str:
    """The gap between the two ends with its interval: between halves, and at the second cut."""
    halves, near = at_ends.iloc[-1], at_ends.iloc[1]
    gaps = [f"{r['difference']:+.3f} [{r['difference_ci_low']:.3f}, {r['difference_ci_high']:.3f}]"
            for r in (halves, near)]  # fmt: skip
    return f"Upper less lower half: {gaps[0]}; with {near['cut']:.0f} items at each end {gaps[1]}."


def told_of_planted(alone: pd.DataFrame, planted: pd.DataFrame) -> str:
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
