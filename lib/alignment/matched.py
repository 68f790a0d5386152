"""Do models agree with people more about what people like than about what they dislike? Matched
pairs of items.

Tau at both ends of a ranking depends on the spread and the precision of ratings there. So we
compare pairs of items that people rate equally far apart, with ratings from equally many matches.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from .. import InputError
from ..stats.crossed import Measured


@dataclass(frozen=True)
class Matched(Measured):
    """The share of pairs that a model orders as people do, in the upper half of people's ranking
    less the lower half.

    `strata` has a row per stratum of pairs, with its distance, thirds of matches and weight
    (weights sum to 1). For each half it has the number of pairs and the share of them ordered as
    people do, as a mean over models.
    """

    strata: pd.DataFrame


def matched(
    people: pd.Series,
    rewards: pd.DataFrame,
    matches: pd.Series | None = None,
    distances: int = 10,
    kinds: int = 3,
) -> Matched:
    """Return the share of pairs ordered as people do, upper less lower half, at equal distance and
    equal matches.

    `people`: rating of each item. `rewards`: items x models. `matches`: item -> the number of
    matches of its rating, or None. Both items of a pair are in one half; items at the median are in
    neither. Ties count half. Strata are tenths of the distance between two ratings, by the thirds
    of matches of both items. A stratum with u and l pairs in the halves has the weight u l / (u +
    l). Raise InputError if no stratum has pairs of both halves.
    """
    middle = people.median()
    inside = {"upper": people > middle, "lower": people < middle}
    apart = []
    for is_in in inside.values():
        # they stand for the half, whatever its size
        some = np.quantile(people[is_in], np.linspace(0, 1, 400))
        apart.append(np.abs(some[:, None] - some)[np.triu_indices(400, 1)])
    edges = np.unique(np.quantile(np.concatenate(apart), np.linspace(0, 1, distances + 1)[1:-1]))
    known = np.zeros(len(people)) if matches is None else matches.loc[people.index].to_numpy()
    cuts = np.unique(np.quantile(known, np.linspace(0, 1, kinds + 1)[1:-1]))
    thirds = np.searchsorted(cuts, known, side="left")  # 0, 1, 2; all the same if matches are alike
    halves = {
        half: _Half.of(people[is_in], rewards[is_in], thirds[is_in.to_numpy()], edges, kinds)
        for half, is_in in inside.items()
    }
    upper, lower = halves.values()
    with np.errstate(invalid="ignore"):
        weight = np.nan_to_num(upper.pairs * lower.pairs / (upper.pairs + lower.pairs))  # (strata,)
    if not weight.any():
        raise InputError(
            "no two pairs of items, one in each half, are equally far apart; give more items"
        )
    weight = weight / weight.sum()
    influence = (
        pd.concat([upper.influence(weight), -lower.influence(weight)])
        .reindex(people.index)
        .fillna(0.0)
    )
    by_model = pd.Series(weight @ np.nan_to_num(upper.shares - lower.shares), rewards.columns)
    distance, pair = np.divmod(np.arange(len(weight)), kinds**2)
    strata = {
        "distance up to": np.append(edges, np.inf)[distance],
        "thirds of matches": [f"{third // kinds + 1} and {third % kinds + 1}" for third in pair],
    }
    for half, sums in halves.items():
        strata |= {
            f"{half}_pairs": (sums.pairs / 2).astype(int),
            f"{half}_share": sums.shares.mean(axis=1),
        }
    table = pd.DataFrame(strata).assign(weight=weight)[weight > 0].reset_index(drop=True)
    return Matched(by_model, influence, table)


@dataclass(frozen=True)
class _Half:
    """Sums over the ordered pairs of one half, and over the pairs of each item.

    `pairs`: (strata,). `shares`: (strata, models). `count`: (items, strata). `agreed`: (items,
    strata, models).
    """

    items: pd.Index
    models: pd.Index
    pairs: np.ndarray
    shares: np.ndarray
    count: np.ndarray
    agreed: np.ndarray

    @classmethod
    def of(
        cls,
        people: pd.Series,
        rewards: pd.DataFrame,
        thirds: np.ndarray,
        edges: np.ndarray,
        kinds: int,
    ):
        """Return all pairs of these items, summed by distance and then by the two thirds, the
        lower one first.
        """
        # (models, items)
        values, theirs = people.to_numpy(), rewards.rank().to_numpy(dtype=np.float32).T
        strata, models = (len(edges) + 1) * kinds**2, len(theirs)
        count, agreed = np.zeros((len(values), strata)), np.zeros((len(values), strata, models))
        shift = (strata + 1) * np.arange(models)[:, None]
        for i in range(len(values)):
            apart = values[i] - values
            low, high = np.minimum(thirds[i], thirds), np.maximum(thirds[i], thirds)
            code = (
                np.searchsorted(edges, np.abs(apart), side="left") * kinds**2 + low * kinds + high
            )
            code[apart == 0] = strata  # the item itself, or equal ratings: not a pair
            share = np.sign(theirs[:, [i]] - theirs) * np.sign(apart).astype(np.float32)
            flat = np.bincount((code + shift).ravel(), share.ravel(), (strata + 1) * models)
            count[i] = np.bincount(code, minlength=strata + 1)[:strata]
            agreed[i] = flat.reshape(models, strata + 1).T[:strata]
        agreed = (count[:, :, None] + agreed) / 2  # of signs, the share of agreeing pairs
        pairs = count.sum(axis=0)
        with np.errstate(invalid="ignore"):
            shares = agreed.sum(axis=0) / pairs[:, None]
        return cls(people.index, rewards.columns, pairs, shares, count, agreed)

    def influence(self, weight: np.ndarray) -> pd.DataFrame:
        """Return how much each item moves the weighted share of this half: items x models."""
        filled = weight > 0
        per_pair = weight[filled] / self.pairs[filled]
        # (items, strata, models)
        beyond = self.agreed[:, filled] - self.count[:, filled, None] * self.shares[filled]
        n = len(self.items)
        # as if the item were left out
        moved = 2 * np.einsum("ism,s->im", beyond, per_pair) * (n - 1) / (n - 2)
        return pd.DataFrame(moved, self.items, self.models)
