"""Every reasonable way to ask two of section 4's questions: do models agree with people more about what people like,
and do they undervalue a kind of items? Paths are run and counted by lib.multiverse, and drawn by its charts."""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.isotonic import IsotonicRegression

from lib import multiverse
from lib.alignment import human, kinds, matched
from lib.crossed import Crossed
from lib.multiverse import Path

ALL, KNOWN, MATCHES = "all", "on 100 matches or more", 100
ALONE, RAW, EXPECTED = "each model by itself", "raw", "beyond isotonic fit"
NEAR = {"beyond 200 neighbours": 200, "beyond 50 neighbours": 50}
TAU, BY_DISTANCE, BY_MATCHES = "tau-b", "pairs at equal distance", "pairs at equal distance and matches"
RESAMPLES = 60  # of models, for the aggregates
OURS_KIND = {"rank of the models": ALONE, "undervalued": "beyond 200 neighbours", "items": ALL}
PAPERS_KIND = {"rank of the models": human.AGGREGATES[0], "undervalued": RAW, "items": ALL}
OURS_ENDS = {"compared by": BY_MATCHES, "ends": "halves", "items": ALL}
PAPERS_ENDS = {"compared by": TAU, "ends": "100 items", "items": ALL}


def _known(matches: pd.Series | None) -> tuple[str, ...]:
    return (ALL,) if matches is None else (ALL, KNOWN)


def _path(found: Crossed, null: float = 0.0, unit: float = 1.0) -> Path:
    return Path(*(unit * (number - null) for number in (found.estimate, found.ci_low, found.ci_high)))


def marked(table: pd.DataFrame, prompt: str) -> dict[str, dict]:
    """The options of our path and of the paper's under one prompt, as `ours` and `papers`, for multiverse's functions.

    Of lists the first is meant; where matches are not known, ours compares pairs by distance, and where the ends of the
    paper's path are too large, the smallest ends stand for them.
    """
    is_ends = "ends" in table
    first = {"list": table["list"].iloc[0]} if "list" in table else {}
    ours = {"prompt": prompt} | (OURS_ENDS if is_ends else OURS_KIND) | first
    papers = {"prompt": prompt} | (PAPERS_ENDS if is_ends else PAPERS_KIND) | first
    if is_ends and BY_MATCHES not in set(table["compared by"]):
        ours["compared by"] = BY_DISTANCE
    if is_ends and papers["ends"] not in set(table["ends"]):
        papers["ends"] = table["ends"].iloc[-1]
    return {"ours": ours, "papers": papers}


# --- two ends -----------------------------------------------------------------------------------------------------


def asymmetry_paths(
    people: pd.Series, rewards: Mapping[str, pd.DataFrame], matches: pd.Series | None = None,
    cuts: Sequence[int] = (1000, 500, 100),
) -> pd.DataFrame:  # fmt: skip
    """Agreement with people at the high end less that at the low one, in units of tau, by every path.

    Choices: prompt; compared by (tau-b within each end; pairs at equal distance, and on equally many matches, whose
    share of agreeing pairs counts as tau, twice the share less one); ends (halves, or so many items at each end); items
    (all, or those whose rating stands on 100 matches). people, matches: by item; rewards: prompt -> items x models.
    """

    def estimate(chosen: dict) -> Path:
        some = _items(people, matches, chosen["items"])
        cut = len(some) // 2 if chosen["ends"] == "halves" else int(chosen["ends"].split()[0].replace(",", ""))
        both = some.nlargest(cut, keep="all").index.union(some.nsmallest(cut, keep="all").index, sort=False)
        inside = some.index[some.index.isin(both)]
        opinion, values = some[inside], rewards[chosen["prompt"]].loc[inside]
        if chosen["compared by"] == TAU:
            row = human.at_ends(some, rewards[chosen["prompt"]].loc[some.index], [cut]).iloc[0]
            return Path(row["difference"], row["difference_ci_low"], row["difference_ci_high"])
        known = matches if chosen["compared by"] == BY_MATCHES else None
        return _path(matched.matched(opinion, values, known).mean, unit=2.0)

    ways = (TAU, BY_DISTANCE) if matches is None else (TAU, BY_DISTANCE, BY_MATCHES)
    ends = ("halves", *(f"{cut:,} items" for cut in cuts if 4 * cut < len(people)))
    choices = {"prompt": tuple(rewards), "compared by": ways, "ends": ends, "items": _known(matches)}
    return multiverse.run(choices, estimate)


def _items(people: pd.Series, matches: pd.Series | None, which: str) -> pd.Series:
    return people if which == ALL or matches is None else people[matches.loc[people.index] >= MATCHES]


# --- kinds --------------------------------------------------------------------------------------------------------


def excluded(chosen: dict) -> str | None:
    """Why a combination of kind_paths makes no sense, or None."""
    if chosen["rank of the models"] == human.AGGREGATES[0] and chosen["undervalued"] != RAW:
        return "the aggregate holds people's own ranks, from which the expectation is made"
    return None


class KindPaths:
    """Whether models undervalue a kind, by every path; aggregates are made once for all kinds.

    people: rating by item; rewards: prompt -> items x models; lists: name -> kinds of the items, '' for none, by which
    list of words or titles; matches: on how many matches a rating stands, or None.
    """

    def __init__(
        self, people: pd.Series, rewards: Mapping[str, pd.DataFrame], lists: Mapping[str, pd.Series],
        matches: pd.Series | None = None,
    ):  # fmt: skip
        self.people, self.rewards, self.lists, self.matches = people, rewards, lists, matches
        self.ranked, self.surprised, self.neighbours = cache(self._ranked), cache(self._surprised), cache(self._near)

    def run(self, kind: str) -> pd.DataFrame:
        """A row per path. Estimates: the probability that an item of the kind is undervalued more than one of none, or
        than those that people rank alike, less one half. Choices: prompt; rank of the models (an aggregate, or each
        model by itself); undervalued (raw or beyond what is expected); list; items. Lists that lack the kind, or have
        what another has, are left out."""
        choices = {
            "prompt": tuple(self.rewards), "rank of the models": (*human.AGGREGATES, ALONE),
            "undervalued": (RAW, EXPECTED, *NEAR), "items": _known(self.matches),
        }  # fmt: skip
        only, *others = self._lists_of(kind)
        choices |= {"list": (only, *others)} if others else {}
        return multiverse.run(choices, lambda chosen: self._estimate(kind, {"list": only} | chosen), excluded)

    def _lists_of(self, kind: str) -> tuple[str, ...]:
        seen: dict[tuple, str] = {}
        for name, kinds_of in self.lists.items():
            if len(members := kinds_of.index[kinds_of == kind]) > 1:
                seen.setdefault(tuple(members), name)
        return tuple(seen.values())

    def _estimate(self, kind: str, chosen: dict) -> Path:
        shares = self._shares(kind, chosen)  # items x models, or items x (the aggregate, then its resamples)
        if chosen["rank of the models"] == ALONE:
            return _path(kinds.mean_over_items(pd.DataFrame(shares).rename(columns=str)), null=0.5)
        count, models = len(shares), next(iter(self.rewards.values())).shape[1]
        mean = shares[:, 0].mean() - 0.5
        if models < 2:
            return Path(mean)
        of_items, of_models = shares[:, 0].var(ddof=1) / count, shares[:, 1:].mean(axis=0).var(ddof=1)
        variance = of_items + of_models
        df = variance**2 / (of_items**2 / (count - 1) + of_models**2 / (models - 1)) if variance else 1.0
        half = stats.t.ppf(0.975, df) * np.sqrt(variance)
        return Path(mean, mean - half, mean + half)

    def _shares(self, kind: str, chosen: dict) -> np.ndarray:
        """How undervalued each item of the kind is, .5 by chance: (items, columns of `ranked`)."""
        which, listed = chosen["items"], self.lists[chosen["list"]]
        people = _items(self.people, self.matches, which)
        of_kind = np.flatnonzero(listed.loc[people.index] == kind)
        of_none = np.flatnonzero(listed.loc[people.index] == "")
        key = chosen["prompt"], chosen["rank of the models"], which
        if (way := chosen["undervalued"]) in NEAR:
            ranked, near = self.ranked(*key), self.neighbours(kind, chosen["list"], which, NEAR[way])
            return np.array([(1 + np.sign(ranked[at] - ranked[beside]).mean(axis=0)) / 2
                             for at, beside in zip(of_kind, near, strict=True)])  # fmt: skip
        values = (
            self.surprised(*key) if way == EXPECTED else self.ranked(*key) - human.ranks(people).to_numpy()[:, None]
        )
        return np.column_stack([
            stats.percentileofscore(column[of_none], column[of_kind], kind="mean") / 100 for column in values.T
        ])  # fmt: skip

    def _ranked(self, prompt: str, aggregate: str, which: str) -> np.ndarray:
        """(items, models) ranks of each model; or (items, 1 + RESAMPLES) of an aggregate: as it is, then over models
        drawn with replacement."""
        people = _items(self.people, self.matches, which)
        rewards = self.rewards[prompt].loc[people.index]
        if aggregate == ALONE:
            return human.ranks(rewards).to_numpy()
        random, models = np.random.default_rng(0), rewards.shape[1]
        draws = [np.arange(models), *(random.integers(models, size=models) for _ in range(RESAMPLES))]
        ranks, theirs = human.ranks(rewards).to_numpy(), human.ranks(people).to_numpy()
        if aggregate == "mean of models":
            return np.column_stack([ranks[:, drawn].mean(axis=1) for drawn in draws])
        also = [theirs] if aggregate == human.AGGREGATES[0] else []
        return np.column_stack([np.median(np.column_stack([ranks[:, drawn], *also]), axis=1) for drawn in draws])

    def _surprised(self, prompt: str, aggregate: str, which: str) -> np.ndarray:
        """What of each column of `ranked` is left beyond the isotonic fit to people's ranks."""
        theirs = human.ranks(_items(self.people, self.matches, which)).to_numpy()
        ranked = self.ranked(prompt, aggregate, which)
        return np.column_stack([mine - IsotonicRegression().fit(theirs, mine).predict(theirs) for mine in ranked.T])

    def _near(self, kind: str, listed: str, which: str, neighbours: int) -> list[np.ndarray]:
        """For each item of the kind the rows of the items of no kind that people rank next to it, as kinds.undervalued
        finds them."""
        people = _items(self.people, self.matches, which)
        places, of = human.ranks(people).to_numpy(), self.lists[listed].loc[people.index]
        none, near = np.flatnonzero(of == ""), []
        for at in np.flatnonzero(of == kind):
            apart = np.abs(places[none] - places[at])
            near.append(none[apart <= np.partition(apart, neighbours - 1)[neighbours - 1]])
        return near
