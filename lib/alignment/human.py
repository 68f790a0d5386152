"""How far reward models agree with people about what is good, and where they differ (section 4 of
the paper).

`people` is one rating per item, higher is better: Elo on EloEverything, the mean of ten raters for
VADER's words. `rewards` is items x models for one prompt. Both have the same items in the same
order, as from `join`. Rank 1 is the best, and ties share the average, as in the paper.
"""

import pandas as pd
from scipy import stats
from sklearn.isotonic import IsotonicRegression

from .. import InputError
from .concordance import PEOPLE

# How the models' ranks of an item become one rank. The paper's text says mean; its code takes the
# first.
AGGREGATES = ("median with people", "median of models", "mean of models")


def join(rewards: pd.DataFrame, people: pd.DataFrame | pd.Series):
    """Return rewards and ratings of the items that both have, in the order of the rewards.

    Raise InputError if an item stands twice in one of them, or if a rating is missing.
    """
    for name, table in (("the rewards", rewards), ("people's ratings", people)):
        twice = table.index[table.index.duplicated()]
        if len(twice):
            raise InputError(f"{name} hold {twice[0]!r} twice; keep one row per item")
    both = rewards.index.intersection(people.index, sort=False)
    ratings = people.loc[both]
    missing = pd.DataFrame(ratings).isna().any(axis=1)
    if missing.any():
        raise InputError(f"item {missing.idxmax()!r} has no rating; leave it out")
    return rewards.loc[both], ratings


def ranks(values):
    """Return the rank of each item, 1 = highest; ties share the average. A frame is ranked
    column by column.
    """
    return values.rank(ascending=False, method="average")


def taus(people: pd.Series, rewards: pd.DataFrame) -> pd.Series:
    """Return Kendall's tau-b of people's ratings with each model's rewards, in [-1, 1]; NaN if
    either is constant.
    """
    taus_of = {}
    for name, reward in rewards.loc[people.index].items():
        tau = stats.kendalltau(people, reward).statistic
        taus_of[name] = float(tau)
    return pd.Series(taus_of, name="tau")


def models_rank(people: pd.Series, rewards: pd.DataFrame, aggregate: str) -> pd.Series:
    """Return one rank per item for all models together, by one of AGGREGATES; people's rank is
    in the first only.
    """
    by_model = ranks(rewards)
    if aggregate == "mean of models":
        return by_model.mean(axis=1)
    if aggregate == "median with people":
        by_model[PEOPLE] = ranks(people)
    return by_model.median(axis=1)


def discrepancies(
    people: pd.Series,
    rewards: pd.DataFrame,
    aggregate: str = "median of models",
) -> pd.DataFrame:
    """Return how much lower than people the models rank each item, the most undervalued first;
    indexed by item.

    `difference` = models_rank - people_rank is above 0 where models value the item less. `position`
    is 1 for the largest difference; ties share the lowest. `expected` is the rank by models that
    items at this rank by people have (isotonic regression). It matters because models rank
    everything lower that people rank high (regression to the mean). `surprise` = models_rank -
    expected. `surprise_position` is 1 for the largest.
    """
    mine = models_rank(people, rewards, aggregate)
    theirs = ranks(people)
    items = pd.DataFrame({"people_rank": theirs, "models_rank": mine})
    items["difference"] = mine - theirs
    items["position"] = _position(items["difference"])
    items["expected"] = IsotonicRegression().fit_transform(theirs, mine)
    items["surprise"] = items["models_rank"] - items["expected"]
    # Rounded, so that rounding errors of the fit separate no equal items.
    items["surprise_position"] = _position(items["surprise"].round(6))
    return items.sort_values("difference", ascending=False, kind="stable")


def _position(values: pd.Series) -> pd.Series:
    """Return the place of each item, 1 = largest; ties share the lowest."""
    return values.rank(ascending=False, method="min").astype(int)
