"""Do models agree with people more about what people like than about what they dislike? Matched
pairs of items.

Tau at both ends of a ranking depends on the spread and the precision of ratings there. So we
compare pairs of items that people rate equally far apart, with ratings from equally many matches.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy import ndarray

from .. import InputError
from ..stats.crossed import Cluster, Measured

THIRDS = 3  # classes of the number of matches


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
    cluster: Cluster = list,
) -> Matched:
    """Return the share of pairs ordered as people do, upper less lower half, at equal distance and
    equal matches.

    `people`: rating of each item. `rewards`: items x models. `matches`: item -> the number of
    matches of its rating, or None. `cluster`: as in Measured. Both items of a pair are in one half;
    items at the median are in neither. Ties count half. Strata are tenths of the distance between
    two ratings, by the thirds of matches of both items. A stratum with u and l pairs in the halves
    has the weight u l / (u + l). Raise InputError if no stratum has pairs of both halves.
    """
    middle = people.median()
    is_upper = people > middle
    is_lower = people < middle
    halves = [people[is_upper], people[is_lower]]
    edges = _distance_edges(halves, distances)
    if matches is None:
        matches = pd.Series(0.0, people.index)
    matches = matches.loc[people.index]
    # 0, 1, 2; all the same if matches are alike
    thirds = matches.map(_cuts(matches, THIRDS).searchsorted)
    upper = _Half.of(people[is_upper], rewards[is_upper], thirds[is_upper], edges)
    lower = _Half.of(people[is_lower], rewards[is_lower], thirds[is_lower], edges)
    weight = _weights(upper, lower)
    of_upper = upper.influence(weight)
    influence = pd.concat([of_upper, -lower.influence(weight)])
    influence = influence.reindex(people.index).fillna(0.0)
    difference = np.nan_to_num(upper.shares - lower.shares)  # (strata, models)
    by_model = pd.Series(weight @ difference, rewards.columns)
    strata = _strata_table(upper, lower, weight, edges)
    return Matched(by_model, influence, strata, cluster=cluster)


def _cuts(values: ndarray, parts: int) -> ndarray:
    """Return the quantiles that cut values into so many parts; equal ones once."""
    shares = np.linspace(0, 1, parts + 1)
    quantiles = shares[1:-1]
    return np.unique(np.quantile(values, quantiles))


def _distance_edges(halves: Sequence[pd.Series], distances: int) -> ndarray:
    """Return the limits between classes of distance. Both halves count alike, whatever their
    size.
    """
    apart = []
    for half in halves:
        quantiles = np.linspace(0, 1, 400)
        some = np.quantile(half, quantiles)  # these stand for the half
        pairs = np.triu_indices(len(some), 1)
        distance = np.abs(some[:, None] - some)
        apart.append(distance[pairs])
    return _cuts(np.concatenate(apart), distances)


def _weights(upper: "_Half", lower: "_Half") -> ndarray:
    """Return the weight of each stratum, (strata,); the sum is 1."""
    product = upper.pairs * lower.pairs
    total = upper.pairs + lower.pairs
    with np.errstate(invalid="ignore"):
        weight = np.nan_to_num(product / total)
    if not weight.any():
        raise InputError(
            "no two pairs of items, one in each half, are equally far apart; give more items"
        )
    return weight / weight.sum()


def _strata_table(
    upper: "_Half",
    lower: "_Half",
    weight: ndarray,
    edges: ndarray,
) -> pd.DataFrame:
    """Return the strata that count, as `Matched` holds them."""
    stratum = np.arange(len(weight))
    distance, thirds = np.divmod(stratum, THIRDS**2)
    limits = np.append(edges, np.inf)
    table = pd.DataFrame({"distance up to": limits[distance]})
    table["thirds of matches"] = [
        f"{n // THIRDS + 1} and {n % THIRDS + 1}" for n in thirds
    ]
    for name, half in (("upper", upper), ("lower", lower)):
        # both orders of a pair were counted
        table[f"{name}_pairs"] = (half.pairs / 2).astype(int)
        table[f"{name}_share"] = half.shares.mean(axis=1)
    table["weight"] = weight
    return table[weight > 0].reset_index(drop=True)


def _strata_of_pairs(
    i: int,
    values: ndarray,
    thirds: ndarray,
    edges: ndarray,
) -> ndarray:
    """Return the stratum of the pair of item i with each item, (items,). What is no pair, the item
    itself or an equal rating, gets the number after the last stratum.
    """
    apart = np.abs(values[i] - values)
    distance = np.searchsorted(edges, apart, side="left")
    low = np.minimum(thirds[i], thirds)
    high = np.maximum(thirds[i], thirds)
    stratum = (distance * THIRDS + low) * THIRDS + high
    stratum[apart == 0] = (len(edges) + 1) * THIRDS**2
    return stratum


def _sums(stratum: ndarray, values: ndarray, bins: int) -> ndarray:
    """Return the sums by stratum, (models, bins), of values (models, items)."""
    models = len(values)
    offset = bins * np.arange(models)
    bin_of = stratum + offset[:, None]  # (models, items)
    sums = np.bincount(bin_of.ravel(), values.ravel(), bins * models)
    return sums.reshape(models, bins)


@dataclass(frozen=True)
class _Half:
    """Sums over the ordered pairs of one half, and over the pairs of each item.

    `pairs`: (strata,). `shares`: (strata, models). `count`: (items, strata). `agreed`: (items,
    strata, models).
    """

    items: pd.Index
    models: pd.Index
    pairs: ndarray
    shares: ndarray
    count: ndarray
    agreed: ndarray

    @classmethod
    def of(
        cls,
        people: pd.Series,
        rewards: pd.DataFrame,
        thirds: pd.Series,
        edges: ndarray,
    ) -> "_Half":
        """Return all pairs of these items, summed by distance and then by the two thirds, the
        lower one first.
        """
        values = people.to_numpy()
        ranks = rewards.rank().to_numpy(dtype=np.float32).T  # (models, items)
        strata = (len(edges) + 1) * THIRDS**2
        count = []
        signs = []
        for i, value in enumerate(values):
            stratum = _strata_of_pairs(i, values, thirds.to_numpy(), edges)  # (items,)
            counted = np.bincount(stratum, minlength=strata + 1)
            count.append(counted[:strata])
            theirs = np.sign(value - values).astype(np.float32)
            ours = np.sign(ranks[:, [i]] - ranks)
            agrees = ours * theirs  # (models, items)
            agreed = _sums(stratum, agrees, strata + 1)
            signs.append(agreed[:, :strata].T)
        count = np.array(count, dtype=float)
        # of signs, the number of agreeing pairs
        signs = np.array(signs)
        agreed = (count[:, :, None] + signs) / 2
        pairs = count.sum(axis=0)
        with np.errstate(invalid="ignore"):
            shares = agreed.sum(axis=0) / pairs[:, None]
        return cls(people.index, rewards.columns, pairs, shares, count, agreed)

    def influence(self, weight: ndarray) -> pd.DataFrame:
        """Return how much each item moves the weighted share of this half: items x models."""
        filled = weight > 0
        per_pair = weight[filled] / self.pairs[filled]
        expected = self.count[:, filled, None] * self.shares[filled]
        beyond = self.agreed[:, filled] - expected  # (items, strata, models)
        n = len(self.items)
        moved = np.einsum("ism,s->im", beyond, per_pair)
        # as if the item were left out
        moved = 2 * moved * (n - 1) / (n - 2)
        return pd.DataFrame(moved, self.items, self.models)
