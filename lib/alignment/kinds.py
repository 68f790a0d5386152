"""Kinds of items, and whether models undervalue a kind beyond regression to the mean.

Models agree with people only in part. So they rank everything lower that people rank high, and higher what people rank
low (regression to the mean). An item is therefore compared with items that people rank alike.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from .. import ROOT, InputError
from ..stats.crossed import Crossed, Measured, crossed, mean_influence
from . import human

NEIGHBOURS = 200
SEXUAL = (
    r"\b(?:sex|sexual|sexuality|orgasm|erotic|erotica|nude|nudity|pornography|masturbation|genital|penis|vagina|"
    r"breasts?|erection)\b"
)
FORMS = ("people", "state", "faith")
BY_KIND = ["kind", "items", "above", "ci_low", "ci_high", "p", "models", "of_models"]
# The nine items that section 4.2 of the paper names, and the kinds that it names them for.
NAMED = {
    "Universe": "nature", "Gravity": "nature", "Breathing": "nature", "Technology": "technology",
    "Electronics": "technology", "Computer": "technology", "Sex": "sexual content",
    "Human sexual activity": "sexual content", "Black people": "identity",
}  # fmt: skip


# --- which kind an item is ----------------------------------------------------------------------------------------


def identity_terms() -> pd.DataFrame:
    """Return names of groups of people from data/identity_terms.csv.

    Columns: `term, group, title, form, source, minority, protected`. The terms are from Dixon et al. 2018 (Measuring
    and mitigating unintended bias in text classification, AIES) and Smith et al. 2022 (HolisticBias, EMNLP; of the same
    seven groups). `title`: the group's title in an encyclopedia. `form`: the title names `people`, a `state` (Autism)
    or a `faith` (Judaism). The list was fixed before we saw scores.

    `minority`: the group of the term among the thirteen of Hartvigsen et al. 2022 (ToxiGen, ACL), or ''. `protected`:
    the same for the seven groups of Rottger et al. 2021 (HateCheck, ACL). We added these two columns after seeing
    scores.
    """
    return pd.read_csv(ROOT / "data" / "identity_terms.csv", keep_default_na=False)


def kinds_of(items: pd.Index, words: pd.Series, titles: bool = False, forms: Sequence[str] = ("people",)) -> pd.Series:
    """Return the kind of each item by a list of words (word -> kind), whatever its capitals; '' for none.

    `titles`: items are titles of an encyclopedia. Then a pattern decides what is `sexual content`, and the titles of
    identity_terms of these forms decide what is `identity`.
    """
    kinds = pd.Series(items.str.lower().map(words), index=items).fillna("")
    if not titles:
        return kinds
    terms = identity_terms()
    listed = items.isin(terms.loc[terms["form"].isin(forms), "title"])
    kinds = kinds.mask(kinds == "identity", "").mask(listed, "identity")
    return kinds.mask(items.str.contains(SEXUAL, case=False), "sexual content")


def in_list(titles: pd.Index, column: str = "minority") -> pd.Series:
    """Return title -> whether it names a marginalised group, by this column of identity_terms."""
    return (identity_terms().set_index("title").loc[titles, column] != "").rename(column)


# --- beyond regression to the mean --------------------------------------------------------------------------------


def undervalued(
    people: pd.Series, rewards: pd.DataFrame, items: Sequence[str], among: pd.Index, neighbours: int = NEIGHBOURS
) -> pd.DataFrame:
    """Return the share of an item's neighbours in people's ranking that a model ranks above it: items x models.

    The share is .5 if the model treats the item like its neighbours, and larger if it undervalues the item. Ties count
    half. Neighbours are the nearest items of `among` in people's rank; ties with the last one are included. Raise
    InputError for an item that nobody rated, or too few items to compare with.
    """
    if missing := [item for item in items if item not in people.index]:
        raise InputError(f"no item {missing[0]!r} among the {len(people)} that people rated; check its spelling")
    if len(among) - among.isin(items).any() < neighbours:
        raise InputError(f"{len(among)} items are too few to find {neighbours} like each; ask for fewer neighbours")
    place, others = human.ranks(people), people.index.isin(among)
    places, theirs = place.to_numpy(), rewards.to_numpy(dtype=float)
    shares = []
    for item in items:
        at = people.index.get_loc(item)
        apart = np.where(others, np.abs(places - places[at]), np.inf)
        apart[at] = np.inf
        near = theirs[apart <= np.partition(apart, neighbours - 1)[neighbours - 1]]  # (neighbours, models)
        shares.append((np.sign(near - theirs[at]).mean(axis=0) + 1) / 2)
    return pd.DataFrame(shares, pd.Index(items, dtype=object), rewards.columns, dtype=float)


def undervalued_kinds(people: pd.Series, rewards: pd.DataFrame, kinds: pd.Series, **options) -> pd.DataFrame:
    """Return `undervalued` of each item with a kind, among items without one. `kinds`: item -> kind or ''."""
    kinds = kinds.reindex(people.index).fillna("")
    return undervalued(people, rewards, list(kinds.index[kinds != ""]), kinds.index[kinds == ""], **options)


def by_kind(values: pd.DataFrame, kinds: pd.Series) -> pd.DataFrame:
    """Return whether models undervalue a kind: a row per kind of two items or more.

    `values`: items x models, as from `undervalued`. `kinds`: item -> kind. `above` is the mean over items and models,
    with its interval over items and models, cut at 0 and 1, and p against .5. `models` counts the models above .5 among
    `of_models`.
    """
    rows = []
    for kind, group in values.groupby(kinds.loc[values.index], sort=True):
        if len(group) < 2:
            continue
        mean, count = mean_over_items(group), int((group.mean() > 0.5).sum())
        low, high = np.clip([mean.ci_low, mean.ci_high], 0.0, 1.0)
        rows.append((kind, len(group), mean.estimate, low, high, mean.p, count, group.shape[1]))
    return pd.DataFrame(rows, columns=BY_KIND)


def mean_over_items(values: pd.DataFrame) -> Crossed:
    """Return the mean of items x models against .5, items and models both samples; two items at least."""
    if len(values) < 2:
        raise InputError(f"{len(values)} item of a kind says nothing of the kind; leave it out")
    return crossed(values.mean(), mean_influence(values), null=0.5)


def between_groups(values: pd.DataFrame, is_first: pd.Series) -> Measured:
    """Return each model's mean over some items less its mean over the others, and how much each item moves it.

    `values`: items x models. `is_first`: item -> bool. Raise InputError if a group has fewer than two items.
    """
    first = is_first.loc[values.index].to_numpy(dtype=bool)
    if min(first.sum(), (~first).sum()) < 2:
        raise InputError(f"{first.sum()} items against {(~first).sum()}: give two on each side at least")
    parts = [mean_influence(values[first]), -mean_influence(values[~first])]
    return Measured(values[first].mean() - values[~first].mean(), pd.concat(parts).loc[values.index])


def raw_kinds(values: pd.Series, kinds: pd.Series) -> pd.Series:
    """Return kind -> the share of pairs in which an item of the kind has a larger value than an item of no kind.

    This is Mann and Whitney's U as a share, .5 by chance. `values`: a number per item. `kinds`: item -> kind, '' for
    none.
    """
    kinds = kinds.reindex(values.index).fillna("")
    none = values[kinds == ""]
    of_kind = values[kinds != ""].groupby(kinds[kinds != ""])
    return of_kind.apply(lambda some: stats.percentileofscore(none, some, kind="mean").mean() / 100)


def place_among_lowest(people: pd.Series, rewards: pd.DataFrame, item: str, last: int = 100) -> pd.Series:
    """Return each model's rank of an item among the `last` items that people rate lowest (and ties); 1 = best.

    Raise InputError if it is not one of them.
    """
    lowest = people.nsmallest(last, keep="all").index
    if item not in lowest:
        raise InputError(f"{item!r} is not among the {last} items that people rate lowest; take more of them")
    return human.ranks(rewards.loc[lowest]).loc[item].rename("rank")
