"""Pairs of items that are alike in all but the end of people's ranking: counted by hand, and on
planted asymmetries.
"""

import itertools

import numpy as np
import pandas as pd
import pytest

from lib import InputError
from lib.alignment.matched import matched


def test_pairs_are_counted_within_the_halves():
    # In the upper half the first model orders as people do, in the lower half the other way round.
    people = pd.Series([8.0, 7, 6, 5, 4, 3, 2, 1], list("abcdefgh"))
    rewards = pd.DataFrame(
        {"M": [8, 7, 6, 5, 1, 2, 3, 4], "N": [1] * 8}, index=people.index
    )
    found = matched(people, rewards, distances=1)
    assert found.values.to_dict() == {"M": 1, "N": 0}  # shares 1 and 0; .5 and .5
    [row] = found.strata.to_dict("records")
    # four items make six pairs
    assert (row["upper_pairs"], row["lower_pairs"], row["weight"]) == (6, 6, 1)
    # means of 1 and .5, of 0 and .5
    assert (row["upper_share"], row["lower_share"]) == (0.75, 0.25)


def brute_force(people, reward, matches, edges, cuts):
    """The same difference, pair by pair."""
    middle, sums = people.median(), {}
    for a, b in itertools.combinations(people.index, 2):
        if people[a] == people[b] or (people[a] - middle) * (people[b] - middle) <= 0:
            continue
        thirds = sorted(int(np.searchsorted(cuts, matches[item])) for item in (a, b))
        stratum = (int(np.searchsorted(edges, abs(people[a] - people[b]))), *thirds)
        agrees = (
            1 + np.sign(people[a] - people[b]) * np.sign(reward[a] - reward[b])
        ) / 2
        sums.setdefault(stratum, {1: [], -1: []})[
            int(np.sign(people[a] - middle))
        ].append(agrees)
    both = {s: halves for s, halves in sums.items() if halves[1] and halves[-1]}
    weights = {
        s: len(h[1]) * len(h[-1]) / (len(h[1]) + len(h[-1])) for s, h in both.items()
    }
    total = sum(weights.values())
    return sum(
        weights[s] / total * (np.mean(h[1]) - np.mean(h[-1])) for s, h in both.items()
    )


def test_a_second_implementation_finds_the_same():
    random = np.random.default_rng(1)
    people = pd.Series(random.normal(size=60).round(1), [f"i{n}" for n in range(60)])
    rewards = pd.DataFrame(
        {"M": people + random.normal(size=60), "N": random.normal(size=60).round(0)}
    )
    matches = pd.Series(random.integers(5, 500, 60), people.index)
    found = matched(people, rewards, matches, distances=4)
    edges = sorted(set(found.strata["distance up to"]))[:-1]
    cuts = np.quantile(matches, [1 / 3, 2 / 3])
    for name in rewards:
        assert found.values[name] == pytest.approx(
            brute_force(people, rewards[name], matches, edges, cuts)
        )


def test_influences_are_what_leaving_an_item_of_each_half_out_changes():
    random = np.random.default_rng(2)
    people = pd.Series(np.sort(random.normal(size=201)), [f"i{n}" for n in range(201)])
    rewards = pd.DataFrame({"M": people + random.normal(size=201)})
    # one stratum, so that no limit of distances moves
    found = matched(people, rewards, distances=1)
    # one of each half: the median stays
    both = [[people.index[n], people.index[-1 - 2 * n]] for n in range(40)]
    left_out = [
        found.values["M"]
        - matched(people.drop(two), rewards.drop(index=two), distances=1).values["M"]
        for two in both
    ]
    assert found.influence.loc[
        [one for two in both for one in two], "M"
    ].to_numpy().reshape(40, 2).sum(axis=1) == pytest.approx(
        np.array(left_out), abs=0.001
    )
    assert np.std(left_out) > 0.003  # several times the tolerance
    assert found.influence.sum().abs().max() < 1e-9


def test_matched_pairs_see_no_asymmetry_where_only_the_spread_differs():
    """An upper half that is spread out more has a higher tau, though models are equally good at
    any given distance.
    """
    random = np.random.default_rng(4)
    values = np.concatenate([random.uniform(0, 4, 700), random.uniform(-1, 0, 700)])
    people = pd.Series(values, [f"i{n}" for n in range(1400)])
    rewards = pd.DataFrame(
        {f"m{m}": values + random.normal(size=1400) for m in range(5)}, people.index
    )
    assert abs(matched(people, rewards, distances=20).mean.estimate) < 0.02
    blurred = rewards.where(people > 0, rewards + random.normal(size=rewards.shape) * 2)
    assert matched(people, blurred, distances=20).mean.ci_low > 0.01


def test_matched_pairs_see_no_asymmetry_where_only_the_matches_differ():
    """Ratings of the lower half stand on fewer matches, so they err more; the models are as good
    everywhere.
    """
    random = np.random.default_rng(5)
    truth = random.uniform(-1, 1, 1600)
    few = random.random(1600) < np.where(truth > 0, 0.2, 0.8)
    people = pd.Series(
        truth + np.where(few, 0.5, 0.05) * random.normal(size=1600),
        [f"i{n}" for n in range(1600)],
    )
    rewards = pd.DataFrame(
        {f"m{m}": truth + 0.3 * random.normal(size=1600) for m in range(5)},
        people.index,
    )
    matches = pd.Series(np.where(few, 10, 1000), people.index)
    plain, known = (
        matched(people, rewards).mean.estimate,
        matched(people, rewards, matches).mean.estimate,
    )
    assert plain > 0.03 and abs(known) < plain / 2


def test_halves_without_pairs_at_equal_distance_are_refused():
    people = pd.Series([9.0, 9, 9, 5, 3, 2])
    with pytest.raises(InputError, match="no two pairs of items, one in each half"):
        matched(people, pd.DataFrame({"M": people}))
