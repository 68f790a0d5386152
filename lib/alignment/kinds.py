"""Kinds of items, and whether models undervalue a kind beyond what holds of everything that people rank so.

Models agree with people only so far, so they rank lower whatever people rank high, and higher what people rank low
(regression to the mean). So an item is compared with those that people rank next to it.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from .. import ROOT, InputError
from ..stats.crossed import Crossed, crossed, mean_influence
from . import human

NEIGHBOURS = 200
SEXUAL = (
    r"\b(?:sex|sexual|sexuality|orgasm|erotic|erotica|nude|nudity|pornography|masturbation|genital|penis|vagina|"
    r"breasts?|erection)\b"
)
FORMS = ("people", "state", "faith")
BY_KIND = ["kind", "items", "above", "ci_low", "ci_high", "p", "these_low", "these_high", "models", "of_models",
           "count_low", "count_high"]  # fmt: skip
# The nine that section 4.2 of the paper names, by the kind that it names them for.
NAMED = {
    "Universe": "nature", "Gravity": "nature", "Breathing": "nature", "Technology": "technology",
    "Electronics": "technology", "Computer": "technology", "Sex": "sexual content",
    "Human sexual activity": "sexual content", "Black people": "identity",
}  # fmt: skip


# --- which kind an item is ----------------------------------------------------------------------------------------


def identity_terms() -> pd.DataFrame:
    """Return names of groups of people: data/identity_terms.csv, columns term, group, title, form, source,
    minority, protected.

    The fifty terms of Dixon et al. 2018 (Measuring and mitigating unintended bias in text classification, AIES), and
    those of the same seven groups (sexuality, gender, ethnicity, nationality, religion, age, disability) that Smith et
    al. 2022 add (HolisticBias, EMNLP). title: under which an encyclopedia would have the group, whether or not anybody
    rated it. form: the title names `people`, a `state` (Homosexuality, Autism) or a `faith` (Judaism). The list was
    fixed before any score of its titles was looked at.

    minority: the group that the term names, of the thirteen of Hartvigsen et al. 2022 (ToxiGen, ACL); '' for none.
    protected: the same for the seven groups of Rottger et al. 2021 (HateCheck, ACL), a narrower list. Both columns were
    added after we had seen scores, by these lists alone.
    """
    return pd.read_csv(ROOT / "data" / "identity_terms.csv", keep_default_na=False)


def kinds_of(items: pd.Index, words: pd.Series, titles: bool = False, forms: Sequence[str] = ("people",)) -> pd.Series:
    """Return the kind of each item, '' for none: by a list of words (word -> kind), whatever its capitals.

    titles: for titles as an encyclopedia has them: `sexual content` by a pattern, and `identity` by the titles of
    identity_terms of these forms, in place of the list's.
    """
    kinds = pd.Series(items.str.lower().map(words), index=items).fillna("")
    if not titles:
        return kinds
    terms = identity_terms()
    listed = items.isin(terms.loc[terms["form"].isin(forms), "title"])
    kinds = kinds.mask(kinds == "identity", "").mask(listed, "identity")
    return kinds.mask(items.str.contains(SEXUAL, case=False), "sexual content")


def in_list(titles: pd.Index, column: str = "minority") -> pd.Series:
    """Return whether identity_terms has each title as one of a marginalised group: title -> bool, by that column."""
    return (identity_terms().set_index("title").loc[titles, column] != "").rename(column)


# --- beyond regression to the mean --------------------------------------------------------------------------------


def undervalued(
    people: pd.Series, rewards: pd.DataFrame, items: Sequence[str], among: pd.Index, neighbours: int = NEIGHBOURS
) -> pd.DataFrame:
    """Return the share of an item's neighbours in people's ranking that a model ranks above it: items x models.

    The share is .5 if the model treats the item like its neighbours, and larger if it undervalues the item. Ties count
    half. Neighbours are the items of `among` that are nearest in people's rank, with all that are as near as the last.
    Raise InputError for an item that nobody rated, or too few items to compare with.
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
    """Return `undervalued` of each item that has a kind, among those of none; kinds: item -> kind, '' for none."""
    kinds = kinds.reindex(people.index).fillna("")
    return undervalued(people, rewards, list(kinds.index[kinds != ""]), kinds.index[kinds == ""], **options)


def by_kind(values: pd.DataFrame, kinds: pd.Series) -> pd.DataFrame:
    """Return whether models undervalue a kind; one row per kind of two items or more.

    values: items x models, as from `undervalued`; kinds: item -> kind. Columns: kind and items (how many). above is the
    mean over items and models. Its interval ci_low, ci_high and its p against .5 treat both as samples; these_low and
    these_high treat items only. Intervals end at 0 and 1. models counts the models above .5, of of_models; count_low
    and count_high are the exact interval of this count for models like these.
    """
    rows = []
    for kind, group in values.groupby(kinds.loc[values.index], sort=True):
        if len(group) < 2:
            continue
        mean, count = mean_over_items(group), int((group.mean() > 0.5).sum())
        ends = np.clip([mean.ci_low, mean.ci_high], 0.0, 1.0), np.clip([mean.these_low, mean.these_high], 0.0, 1.0)
        counts = count, group.shape[1], *count_interval(count, group.shape[1])
        rows.append((kind, len(group), mean.estimate, *ends[0], mean.p, *ends[1], *counts))
    return pd.DataFrame(rows, columns=BY_KIND)


def mean_over_items(values: pd.DataFrame) -> Crossed:
    """Return the mean of items x models against .5, items and models both samples; two items at least."""
    if len(values) < 2:
        raise InputError(f"{len(values)} item of a kind says nothing of the kind; leave it out")
    influence = pd.DataFrame({name: mean_influence(values[name]) for name in values}, values.index)
    return crossed(values.mean(), influence, null=0.5)


def between_groups(values: pd.DataFrame, is_first: pd.Series) -> tuple[pd.Series, pd.DataFrame]:
    """Return each model's mean over some items less that over the others, and how much each item moves it.

    values: items x models; is_first: item -> bool. The influence is items x models, as crossed takes it. InputError if
    a side has fewer than two items.
    """
    first = is_first.loc[values.index].to_numpy(dtype=bool)
    if min(first.sum(), (~first).sum()) < 2:
        raise InputError(f"{first.sum()} items against {(~first).sum()}: give two on each side at least")
    parts = [sign * (some - some.mean()) / (len(some) - 1) for sign, some in ((1, values[first]), (-1, values[~first]))]
    return values[first].mean() - values[~first].mean(), pd.concat(parts).loc[values.index]


def mean_over_models(values: pd.Series) -> tuple[float, float, float]:
    """Return the mean over models of one number each, and its 95% interval for models like these (t distribution)."""
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean()), float(values.mean() - half), float(values.mean() + half)


def count_interval(count: int, models: int) -> tuple[float, float]:
    """Return the exact 95% interval of a count of models, for as many models like these (Clopper and Pearson 1934)."""
    low, high = proportion_confint(count, models, method="beta")
    return float(low * models), float(high * models)


def raw_kinds(values: pd.Series, kinds: pd.Series) -> pd.Series:
    """Return how likely an item of a kind has a larger value than one of none: Mann and Whitney's U, a share of pairs.

    values: one number per item, as a discrepancy; kinds: item -> kind, '' for none. Kind -> share, .5 by chance.
    """
    kinds = kinds.reindex(values.index).fillna("")
    none = values[kinds == ""]
    of_kind = values[kinds != ""].groupby(kinds[kinds != ""])
    return of_kind.apply(lambda some: stats.percentileofscore(none, some, kind="mean").mean() / 100)


def place_among_lowest(people: pd.Series, rewards: pd.DataFrame, item: str, last: int = 100) -> pd.Series:
    """Return the rank of an item among the `last` items that people rate lowest (with those tied), by model.

    1 = best of them. Raises InputError if it is not one of them.
    """
    lowest = people.nsmallest(last, keep="all").index
    if item not in lowest:
        raise InputError(f"{item!r} is not among the {last} items that people rate lowest; take more of them")
    return human.ranks(rewards.loc[lowest]).loc[item].rename("rank")
