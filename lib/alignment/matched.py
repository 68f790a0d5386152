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
from scipy.sparse import csc_array

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
    halves = {"upper": people > middle, "lower": people < middle}
    edges = _distance_edges([people[half] for half in halves.values()], distances)
    if matches is None:
        matches = pd.Series(0.0, people.index)
    matches = matches.loc[people.index]
    # 0, 1, 2; all the same if matches are alike
    thirds = matches.map(_cuts(matches, THIRDS).searchsorted)
    counted = {}
    for name, half in halves.items():
        given = people[half], rewards[half], thirds[half]
        counted[name] = _by_stratum(*given, edges)
    pairs = {name: count.sum(axis=0) for name, (count, _) in counted.items()}
    weight = _weights(*pairs.values())
    shares, influence = {}, []
    for name, half in halves.items():
        shares[name], moved = _of_half(*counted[name], weight)
        influence.append(pd.DataFrame(moved, people.index[half], rewards.columns))
    influence = pd.concat([influence[0], -influence[1]])
    influence = influence.reindex(people.index).fillna(0.0)
    by_model = pd.Series(weight @ (shares["upper"] - shares["lower"]), rewards.columns)
    strata = _strata_table(pairs, shares, weight, edges)
    return Matched(by_model, influence, strata, cluster=cluster)


def _of_half(
    count: ndarray, agreed: ndarray, weight: ndarray
) -> tuple[ndarray, ndarray]:
    """Return the share of pairs that each model orders as people do, (strata, models), and how much
    each item moves its weighted mean, (items, models).
    """
    n, pairs = len(count), np.maximum(count.sum(axis=0), 1)
    shares = agreed.sum(axis=0) / pairs[:, None]
    beyond = agreed - count[:, :, None] * shares  # (items, strata, models)
    moved = np.einsum("ism,s->im", beyond, weight / pairs)
    return shares, 2 * moved * (n - 1) / (n - 2)  # as if the item were left out


def _weights(upper: ndarray, lower: ndarray) -> ndarray:
    """Return the weight of each stratum from its pairs in both halves, (strata,); the sum is 1."""
    weight = upper * lower / np.maximum(upper + lower, 1)
    if not weight.any():
        raise InputError(
            "no two pairs of items, one in each half, are equally far apart; give more items"
        )
    return weight / weight.sum()


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


def _strata_table(
    pairs: dict[str, ndarray],
    shares: dict[str, ndarray],
    weight: ndarray,
    edges: ndarray,
) -> pd.DataFrame:
    """Return the strata that count, as `Matched` holds them."""
    distance, thirds = np.divmod(np.arange(len(weight)), THIRDS**2)
    table = pd.DataFrame({"distance up to": np.append(edges, np.inf)[distance]})
    table["thirds of matches"] = [
        f"{n // THIRDS + 1} and {n % THIRDS + 1}" for n in thirds
    ]
    for name, count in pairs.items():
        # both orders of a pair were counted
        table[f"{name}_pairs"] = (count / 2).astype(int)
        table[f"{name}_share"] = shares[name].mean(axis=1)
    table["weight"] = weight
    return table[weight > 0].reset_index(drop=True)


def _by_stratum(
    people: pd.Series, rewards: pd.DataFrame, thirds: pd.Series, edges: ndarray
) -> tuple[ndarray, ndarray]:
    """Return how many pairs each item of a half has in each stratum, (items, strata), and how many
    of them a model orders as people do, (items, strata, models).

    Strata are ordered by distance and then by the two thirds, the lower one first. Items of equal
    rating are no pair.
    """
    values, third = people.to_numpy(), thirds.to_numpy()
    n, n_strata = len(values), (len(edges) + 1) * THIRDS**2
    # (items, models): whole numbers, so different ones are at least 1 apart
    twice = (2 * rewards.rank()).to_numpy(np.float32)
    every = np.arange(n + 1)
    count, agreed = [], []
    for i, value in enumerate(values):
        ahead = value - values  # (items,)
        low = np.minimum(third[i], third)
        high = np.maximum(third[i], third)
        distance = np.searchsorted(edges, np.abs(ahead))
        stratum = (distance * THIRDS + low) * THIRDS + high
        pairs = np.bincount(stratum, ahead != 0, n_strata)
        signs = np.sign(ahead).astype(np.float32)
        # (strata, items): in its stratum, 1 or -1 as people order the pair, or 0
        by_people = csc_array((signs, stratum, every), (n_strata, n))
        # of each model, pairs in people's order less the others, (strata, models)
        more = by_people @ np.clip(twice[i] - twice, -1, 1)
        count.append(pairs)
        agreed.append((pairs[:, None] + more) / 2)
    return np.array(count), np.array(agreed)
