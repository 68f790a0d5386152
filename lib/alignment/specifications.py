"""The specifications of two questions of section 4 (see lib.stats.multiverse).

Do models agree with people more about what people like? Do they undervalue a kind of items?
"""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pandas as pd
from sklearn.isotonic import IsotonicRegression

from ..stats import multiverse
from ..stats.crossed import Measured, satterthwaite
from ..stats.multiverse import Specification
from . import human, kinds, matched

ALL, KNOWN = "all", f"on {human.MATCHES} matches or more"
ALONE, RAW, EXPECTED = "each model by itself", "raw", "beyond isotonic fit"
NEAR = {"beyond 200 neighbours": 200, "beyond 50 neighbours": 50}
TAU, BY_DISTANCE, BY_MATCHES = "tau-b", "pairs at equal distance", "pairs at equal distance and matches"
RESAMPLES = 60  # of models, for the aggregates
OURS = {"kind": {"rank of the models": ALONE, "undervalued": "beyond 200 neighbours", "items": ALL},
        "ends": {"compared by": BY_MATCHES, "ends": "halves", "items": ALL}}  # fmt: skip
PAPERS = {"kind": {"rank of the models": human.AGGREGATES[0], "undervalued": RAW, "items": ALL},
          "ends": {"compared by": TAU, "ends": "100 items", "items": ALL}}  # fmt: skip


def marked(table: pd.DataFrame, prompt: str) -> dict[str, dict]:
    """Return the options of our specification and of the paper's under one prompt, as `ours` and `papers`.

    Of several lists, the first counts. Without known matches, ours compares pairs by distance only. Where 100 items at
    each end are too many for the paper's, the smallest ends replace them.
    """
    question = "ends" if "ends" in table else "kind"
    first = {"prompt": prompt} | ({"list": table["list"].iloc[0]} if "list" in table else {})
    ours, papers = OURS[question] | first, PAPERS[question] | first
    if question == "ends":
        ours |= {} if BY_MATCHES in set(table["compared by"]) else {"compared by": BY_DISTANCE}
        papers |= {} if papers["ends"] in set(table["ends"]) else {"ends": table["ends"].iloc[-1]}
    return {"ours": ours, "papers": papers}


def _rated(people: pd.Series, matches: pd.Series | None, items: str) -> pd.Series:
    """Return the ratings of all items (ALL), or of the items with enough matches (KNOWN)."""
    return people if items == ALL or matches is None else people[matches.loc[people.index] >= human.MATCHES]


# --- two ends -----------------------------------------------------------------------------------------------------


def of_ends(
    people: pd.Series, rewards: Mapping[str, pd.DataFrame], matches: pd.Series | None = None,
    cuts: Sequence[int] = (1000, 500, 100),
) -> tuple[pd.DataFrame, pd.DataFrame]:  # fmt: skip
    """Return agreement with people at the high end less agreement at the low end, in tau, by every specification.

    The second table has each model's own estimate: specifications x models. A specification chooses the prompt, the
    ends (halves, or so many items at each end) and the items (all, or only items with many matches). It also compares
    ends by tau-b or by matched pairs. A share of matched pairs counts as tau: twice the share, less one.
    """
    by_model = []

    def estimate(chosen: dict) -> Specification:
        some, values = _rated(people, matches, chosen["items"]), rewards[chosen["prompt"]]
        cut = len(some) // 2 if chosen["ends"] == "halves" else int(chosen["ends"].split()[0].replace(",", ""))
        if chosen["compared by"] == TAU:
            difference = human.between_ends(some, values.loc[some.index], cut)
        else:
            both = some.nlargest(cut, keep="all").index.union(some.nsmallest(cut, keep="all").index, sort=False)
            inside = some.index[some.index.isin(both)]
            known = matches if chosen["compared by"] == BY_MATCHES else None
            pairs = matched.matched(some[inside], values.loc[inside], known)
            difference = Measured(2 * pairs.values, 2 * pairs.influence)
        by_model.append(difference.values)
        return Specification.of(difference.mean)

    is_known = matches is not None
    table = multiverse.run({
        "prompt": tuple(rewards), "compared by": (TAU, BY_DISTANCE, *([BY_MATCHES] if is_known else [])),
        "ends": ("halves", *(f"{cut:,} items" for cut in cuts if 4 * cut < len(people))),
        "items": (ALL, KNOWN) if is_known else (ALL,),
    }, estimate, claim="S4.asymmetry")  # fmt: skip
    return table, pd.DataFrame(by_model, table.index)


# --- kinds --------------------------------------------------------------------------------------------------------


def excluded(chosen: dict) -> str | None:
    """Return why a combination of choices about a kind makes no sense, or None."""
    if chosen["rank of the models"] == human.AGGREGATES[0] and chosen["undervalued"] != RAW:
        return "the aggregate contains people's own ranks, on which the expectation is based"
    return None


class Shares:
    """How undervalued items are: the share of items of no kind (all, or items that people rank alike) ranked above.

    `people`: rating by item. `rewards`: prompt -> items x models. `matches`: number of matches of a rating, or None.
    `resamples`: how often models are resampled for the interval of an aggregate.
    """

    def __init__(self, people: pd.Series, rewards: Mapping[str, pd.DataFrame], matches: pd.Series | None = None,
                 resamples: int = RESAMPLES):  # fmt: skip
        self.people, self.rewards, self.matches, self.resamples = people, rewards, matches, resamples
        self.choices = {
            "prompt": tuple(rewards), "rank of the models": (*human.AGGREGATES, ALONE),
            "undervalued": (RAW, EXPECTED, *NEAR), "items": (ALL,) if matches is None else (ALL, KNOWN),
        }  # fmt: skip
        # Kinds and lists of words share these steps.
        self._ranks, self._beyond, self._near = cache(self._ranks), cache(self._beyond), cache(self._near)

    def of(self, chosen: Mapping, items: pd.Index, none: pd.Index) -> pd.DataFrame:
        """Return the shares of these items among the items of no kind, by one specification: items x columns.

        Columns are models, or an aggregate and its resamples. Items with too few matches are left out.
        """
        some, way = _rated(self.people, self.matches, chosen["items"]), chosen["undervalued"]
        items, none = (index.intersection(some.index, sort=False) for index in (items, none))
        prompt, aggregate = chosen["prompt"], chosen["rank of the models"]
        if way in NEAR:
            return self._near(chosen["items"], way, tuple(items), tuple(none))[prompt][aggregate]
        values = self._beyond(prompt, aggregate, chosen["items"], way)
        among, own = (values.loc[names].to_numpy().T for names in (none, items))
        return pd.DataFrame(np.transpose([*map(_percentiles, among, own)]), items, values.columns)

    def estimate(self, chosen: Mapping, shares: pd.DataFrame) -> Specification:
        """Return the mean of shares less one half, with items and models as samples. `shares`: as from `of`."""
        if chosen["rank of the models"] == ALONE:
            return Specification.of(kinds.mean_over_items(shares), null=0.5)
        models = self.rewards[chosen["prompt"]].shape[1]
        count, mean = len(shares), shares.iloc[:, 0].mean() - 0.5
        if models < 2:
            return Specification(mean)
        of_items, of_models = shares.iloc[:, 0].var(ddof=1) / count, shares.iloc[:, 1:].mean().var(ddof=1)
        half = 0.0
        if variance := of_items + of_models:
            half, _ = satterthwaite(variance, (of_items, of_models), (count - 1, models - 1))
        return Specification(mean, mean - half, mean + half)

    def _ranks(self, prompt: str, aggregate: str, items: str) -> pd.DataFrame:
        """Return items x models ranks; or the ranks of an aggregate of these models, then of resampled models."""
        people = _rated(self.people, self.matches, items)
        ranks = human.ranks(self.rewards[prompt].loc[people.index])
        if aggregate == ALONE:
            return ranks
        random, values = np.random.default_rng(0), ranks.to_numpy()
        models = values.shape[1]
        draws = [np.arange(models), *(random.integers(models, size=models) for _ in range(self.resamples))]
        also = [human.ranks(people).to_numpy()] if aggregate == human.AGGREGATES[0] else []
        middle = np.mean if aggregate == "mean of models" else np.median
        return pd.DataFrame({place: middle(np.column_stack([values[:, drawn], *also]), axis=1)
                             for place, drawn in enumerate(draws)}, people.index)  # fmt: skip

    def _beyond(self, prompt: str, aggregate: str, items: str, way: str) -> pd.DataFrame:
        """Return the ranks by models less the ranks by people, or less the ranks that an isotonic fit expects."""
        ranks, theirs = self._ranks(prompt, aggregate, items), human.ranks(_rated(self.people, self.matches, items))
        if way == RAW:
            return ranks.sub(theirs, axis=0)
        return ranks.apply(lambda mine: mine - IsotonicRegression().fit(theirs, mine).predict(theirs))

    def _near(self, which: str, way: str, items: tuple, none: tuple) -> pd.DataFrame:
        """Return the shares among neighbours for every prompt and rank of the models, which share their neighbours."""
        people, aggregates = _rated(self.people, self.matches, which), (*human.AGGREGATES[1:], ALONE)
        tables = {(prompt, aggregate): -self._ranks(prompt, aggregate, which)
                  for prompt in self.rewards for aggregate in aggregates}  # fmt: skip
        return kinds.undervalued(people, pd.concat(tables, axis=1), list(items), pd.Index(none), NEAR[way])


def _percentiles(among: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the share of `among` below each value, (values,); ties count half."""
    ordered = np.sort(among)
    return (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / (2 * len(ordered))


def of_kinds(shares: Shares, lists: Mapping[str, pd.Series], names: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Return whether models undervalue each of these kinds, by every specification: kind -> table.

    `lists`: name -> kinds of the items, '' for none. An estimate is the probability that an item of the kind is
    undervalued more than an item of no kind, less one half. Lists with the same items of a kind count once.
    """
    tables = {}
    for kind in names:
        different: dict[tuple, str] = {}
        for name, kinds_of in lists.items():
            if len(members := kinds_of.index[kinds_of == kind]) > 1:
                different.setdefault(tuple(members), name)
        only, *others = different.values()

        def estimate(chosen: dict, kind=kind, only=only) -> Specification:
            kinds_of = lists[chosen.get("list", only)]
            is_of = kinds_of.index[kinds_of == kind], kinds_of.index[kinds_of == ""]
            return shares.estimate(chosen, shares.of(chosen, *is_of))

        of_list = {"list": (only, *others)} if others else {}
        claim = f"S4.undervalued.{kind.split()[0]}"
        tables[kind] = multiverse.run(shares.choices | of_list, estimate, excluded, claim)
    return tables


def placebos(shares: Shares, items: pd.Index, none: pd.Index, draws: int, seed: int = 0) -> np.ndarray:
    """Return items of no kind that people rank next to the items of a kind: (draws, items), positions in `none`.

    A placebo is one of the NEIGHBOURS nearest items. It has enough matches if its item has. No placebo is drawn twice
    in a draw. So placebos differ from the kind in their subject, but not in people's ratings.
    """
    random, places = np.random.default_rng(seed), human.ranks(shares.people)
    is_known = places.index.isin(_rated(shares.people, shares.matches, KNOWN).index)
    known, near = pd.Series(is_known, places.index), []
    for item in items:
        apart = (places[none] - places[item]).abs().where((known[none] == known[item]), np.inf).to_numpy()
        near.append(np.flatnonzero(apart <= np.partition(apart, kinds.NEIGHBOURS - 1)[kinds.NEIGHBOURS - 1]))
    drawn = np.zeros((draws, len(items)), dtype=int)
    for row in drawn:
        is_free = np.ones(len(none), dtype=bool)
        for place in random.permutation(len(items)):
            row[place] = random.choice(near[place][is_free[near[place]]])
            is_free[row[place]] = False
    return drawn


def joint_p_of_kinds(
    tables: Mapping[str, pd.DataFrame], shares: Shares, lists: Mapping[str, pd.Series], draws: int = 499
) -> dict[str, float]:
    """Return the p of all specifications of each kind together (multiverse.joint_p): kind -> p.

    `tables`: as from `of_kinds`. `lists`: the same as there, the widest last. `draws` times, placebos replace the items
    of the kind in every specification.
    """
    widest = list(lists.values())[-1]
    none, point = widest.index[widest == ""], Shares(shares.people, shares.rewards, shares.matches, resamples=0)
    of_none = cache(lambda *options: point.of(dict(zip(shares.choices, options, strict=True)), none, none).mean(axis=1)
                    .reindex(none).to_numpy())  # fmt: skip
    result = {}
    for kind, table in tables.items():
        members = widest.index[widest == kind]
        drawn, null = placebos(shares, members, none, draws), []
        for chosen in table.to_dict("records"):
            kinds_of = lists[chosen["list"]] if "list" in chosen else widest
            inside = drawn[:, (kinds_of.loc[members] == kind).to_numpy()]
            null.append(np.nanmean(of_none(*[chosen[name] for name in shares.choices])[inside], axis=1) - 0.5)
        result[kind] = multiverse.joint_p(table["estimate"].to_numpy(), np.array(null).T)
    return result
