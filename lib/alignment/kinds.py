"""Kinds of items, and whether models undervalue a kind beyond regression to the mean.

Models agree with people only in part. So they rank everything lower that people rank high, and
higher what people rank low (regression to the mean). An item is therefore compared with items that
people rank alike.
"""

import numpy as np
import pandas as pd

from .. import DATA, InputError
from . import human

NEIGHBOURS = 200
SEXUAL = (
    r"\b(?:sex|sexual|sexuality|orgasm|erotic|erotica|nude|nudity|pornography|masturbation|genital|"
    r"penis|vagina|breasts?|erection)\b"
)


def kinds_of(items: pd.Index, words: pd.Series, titles: bool = False) -> pd.Series:
    """Return the kind of each item by a list of words (word -> kind), whatever its capitals; '' for
    none.

    `titles`: items are titles of an encyclopedia. Then a pattern decides what is `sexual content`,
    and the titles of data/identity_terms.csv of the form `people` decide what is `identity`.
    """
    lower = items.str.lower()
    kinds = pd.Series(lower.map(words), index=items)
    kinds = kinds.fillna("")
    if not titles:
        return kinds
    terms = pd.read_csv(DATA / "identity_terms.csv", keep_default_na=False)
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
