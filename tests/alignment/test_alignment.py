"""Agreement with people, on items few enough to count pairs by hand, and on planted truths."""

import numpy as np
import pandas as pd
import pytest

from lib import InputError
from lib.alignment import human


def people_of(*ratings, items="abcdefghij"):
    return pd.Series(ratings, index=list(items[: len(ratings)]), dtype=float)


def made_up(items=60, models=4, seed=0, noise=1.0):
    """People, and models that agree with them but for noise; ratings are rounded, so that some
    tie.
    """
    random = np.random.default_rng(seed)
    names = [f"i{n}" for n in range(items)]
    people = pd.Series(random.normal(size=items).round(1), index=names)
    rewards = {
        f"m{m}": people + noise * random.normal(size=items) for m in range(models)
    }
    return people, pd.DataFrame(rewards)


# --- joining --------------------------------------------------------------------------------------


def test_join_is_by_item_whatever_the_order():
    rewards = pd.DataFrame({"M": [1.0, 2, 3]}, index=["null", "b", "c"])
    people = pd.Series({"d": 9.0, "c": 7.0, "null": 8.0})
    kept, rated = human.join(rewards, people)
    assert kept["M"].to_dict() == {"null": 1, "c": 3}
    assert rated.to_dict() == {"null": 8, "c": 7}
    assert kept.index.equals(rated.index)


def test_join_refuses_an_item_that_stands_twice():
    rewards = pd.DataFrame({"M": [1.0, 2]}, index=["a", "a"])
    with pytest.raises(InputError, match="the rewards hold 'a' twice"):
        human.join(rewards, people_of(1, 2))


def test_the_three_aggregates():
    people = people_of(4, 3, 2, 1)
    rewards = pd.DataFrame(
        {"M": [1, 2, 3, 4], "N": [4, 3, 2, 1], "O": [1, 3, 2, 4]}, index=people.index
    )
    # ranks of a: people 1, models 4, 1, 4; of b: people 2, models 3, 2, 2
    assert human.models_rank(people, rewards, "median with people")[
        ["a", "b"]
    ].tolist() == [2.5, 2]
    assert human.models_rank(people, rewards, "median of models")[
        ["a", "b"]
    ].tolist() == [4, 2]
    assert human.models_rank(people, rewards, "mean of models")[
        ["a", "b"]
    ].tolist() == pytest.approx([3, 7 / 3])


def test_discrepancies_by_hand():
    people = people_of(4, 3, 2, 1)
    rewards = pd.DataFrame({"M": [1, 4, 3, 2]}, index=people.index)  # ranks 4, 1, 2, 3
    found = human.discrepancies(people, rewards)
    assert found["difference"].to_dict() == {"a": 3, "b": -1, "c": -1, "d": -1}
    assert found["position"].to_dict() == {"a": 1, "b": 2, "c": 2, "d": 2}
    assert found.index[0] == "a"
    # In people's order the models' ranks are 4, 1, 2, 3. 4 to 1 falls, so both get 2.5; 2 is below
    # that: all get 7/3.
    assert found["expected"].sort_index().tolist() == pytest.approx(
        [7 / 3, 7 / 3, 7 / 3, 3]
    )
    assert found["surprise"].to_dict() == pytest.approx(
        {"a": 5 / 3, "b": -4 / 3, "c": -1 / 3, "d": 0}
    )
    assert found["surprise_position"].to_dict() == {"a": 1, "b": 4, "c": 3, "d": 2}
    assert found["surprise"].sum() == pytest.approx(0)


def test_a_planted_undervaluation_comes_first():
    people, rewards = made_up(items=500, models=7, noise=0.5)
    hurt = list(people[(people > -0.3) & (people < 0.3)].index[:10])
    rewards.loc[hurt] -= 4
    for aggregate in human.AGGREGATES:
        found = human.discrepancies(people, rewards, aggregate)
        assert set(found.nsmallest(10, "surprise_position").index) == set(hurt)
