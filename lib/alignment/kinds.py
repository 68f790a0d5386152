"""Kinds of items, and whether models undervalue a kind beyond regression to the mean.

Models agree with people only in part. So they rank everything lower that people rank high, and
higher what people rank low (regression to the mean). An item is therefore compared with items that
people rank alike.
"""

import numpy as np
import pandas as pd

from .. import DATA, InputError
from ..stats.crossed import Cluster, crossed, mean_influence
from . import human

NEIGHBOURS = 200
SEXUAL = (
    r"\b(?:sex|sexual|sexuality|orgasm|erotic|erotica|nude|nudity|pornography|masturbation|genital|"
    r"penis|vagina|breasts?|erection)\b"
)
BY_KIND = ["kind", "items", "above", "ci_low", "ci_high", "p", "models", "of_models"]


def identity_terms() -> pd.DataFrame:
    """Return names of groups of people: data/identity_terms.csv, whose sources data/README.md
    names.

    `title`: the group's title in an encyclopedia. `form`: the title names `people`, a `state`
    (Autism) or a `faith` (Judaism). `minority`: the term's group among ToxiGen's thirteen, or ''.
    `protected`: the same, for HateCheck's seven. The list was fixed before we saw scores; we added
    the last two columns after that.
    """
    return pd.read_csv(DATA / "identity_terms.csv", keep_default_na=False)


def kinds_of(items: pd.Index, words: pd.Series, titles: bool = False) -> pd.Series:
    """Return the kind of each item by a list of words (word -> kind), whatever its capitals; '' for
    none.

    `titles`: items are titles of an encyclopedia. Then a pattern decides what is `sexual content`,
    and the titles of identity_terms of the form `people` decide what is `identity`.
    """
    lower = items.str.lower()
    kinds = pd.Series(lower.map(words), index=items)
    kinds = kinds.fillna("")
    if not titles:
        return kinds
    terms = identity_terms()
    people = terms.loc[terms["form"] == "people", "title"]
    kinds = kinds.mask(kinds == "identity", "")
    kinds = kinds.mask(items.isin(people), "identity")
    is_sexual = items.str.contains(SEXUAL, case=False)
    return kinds.mask(is_sexual, "sexual content")


def undervalued_kinds(
    people: pd.Series,
    rewards: pd.DataFrame,
    kinds: pd.Series,
    neighbours: int = NEIGHBOURS,
) -> pd.DataFrame:
    """Return the share of an item's neighbours that a model ranks above it: items with a kind x
    models.

    `kinds`: item -> kind or ''. Neighbours are the items without a kind that are nearest in
    people's rank; ties with the last one are included. The share is .5 if the model treats the item
    like its neighbours, and larger if it undervalues the item. Ties count half. Raise InputError if
    there are too few items to compare with.
    """
    kind_of = kinds.reindex(people.index).fillna("")
    has_kind = (kind_of != "").to_numpy()
    count = np.count_nonzero(~has_kind)
    if count < neighbours:
        raise InputError(
            f"{count} items are too few to find {neighbours} like each; ask for fewer neighbours"
        )
    places = human.ranks(people).to_numpy()
    theirs = rewards.to_numpy(dtype=float)
    shares = []
    for at in np.flatnonzero(has_kind):
        apart = np.abs(places - places[at])
        apart[has_kind] = np.inf
        farthest = np.partition(apart, neighbours - 1)[neighbours - 1]
        near = theirs[apart <= farthest]  # (neighbours, models)
        signs = np.sign(near - theirs[at])
        above = signs.mean(axis=0)
        shares.append((above + 1) / 2)
    items = people.index[has_kind]
    return pd.DataFrame(shares, items, rewards.columns, dtype=float)


def by_kind(
    values: pd.DataFrame, kinds: pd.Series, cluster: Cluster = list
) -> pd.DataFrame:
    """Return whether models undervalue a kind: a row per kind of two items or more.

    `values`: as from `undervalued_kinds`. `kinds`: item -> kind. `cluster`: as in Measured. `above`
    is the mean over items and models, with its interval over items and models, cut at 0 and 1, and
    p against .5. `models` counts the models above .5 among `of_models`.
    """
    rows = []
    by = kinds.loc[values.index]
    for kind, group in values.groupby(by, sort=True):
        if len(group) < 2:
            continue
        of_models = group.mean()
        mean = crossed(of_models, mean_influence(group), 0.5, cluster)
        row = {
            "kind": kind,
            "items": len(group),
            "above": mean.estimate,
            "ci_low": max(mean.ci_low, 0.0),
            "ci_high": min(mean.ci_high, 1.0),
            "p": mean.p,
            "models": int((of_models > 0.5).sum()),
            "of_models": len(of_models),
        }
        rows.append(row)
    return pd.DataFrame(rows, columns=BY_KIND)
