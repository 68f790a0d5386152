"""Tau between columns and its influences: against scipy, and by leaving items out."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

from lib.alignment import concordance
from lib.alignment.concordance import PEOPLE, agreement


def made_up(items=40, models=4, seed=0):
    """People and models with ties, and models that share more than what they share with people."""
    random = np.random.default_rng(seed)
    shared, people = random.normal(size=(2, items))
    table = {
        f"m{m}": (people + shared + random.normal(size=items)).round(1)
        for m in range(models)
    }
    return pd.DataFrame(
        table | {PEOPLE: people.round(1)}, [f"i{n}" for n in range(items)]
    )


def test_taus_are_scipys_ties_included():
    table = made_up().round(0)
    found = agreement(table).taus
    for a in table:
        for b in table:
            assert found.loc[a, b] == pytest.approx(
                kendalltau(table[a], table[b]).statistic, abs=1e-12
            )


def test_an_influence_is_what_leaving_the_item_out_changes():
    table = made_up(items=60)
    agreed = agreement(table)
    moved = agreed.with_others(PEOPLE, ["m0", "m1"]).influence
    for item in table.index[:10]:
        without = agreement(table.drop(index=item)).taus.loc[["m0", "m1"], PEOPLE]
        change = agreed.taus.loc[["m0", "m1"], PEOPLE] - without
        # themselves about .02
        assert moved.loc[item].to_numpy() == pytest.approx(change.to_numpy(), abs=0.002)
    assert moved.sum().abs().max() < 1e-9


def test_pseudo_values_are_the_jackknife_over_models():
    agreed, models = agreement(made_up(models=5)), [f"m{m}" for m in range(5)]

    def mean(some):
        return (
            agreed.taus.loc[some, some].to_numpy()[np.triu_indices(len(some), 1)].mean()
        )

    found = concordance.pseudo_values(agreed, models).values
    by_hand = [
        5 * mean(models) - 4 * mean([other for other in models if other != one])
        for one in models
    ]
    assert found.tolist() == pytest.approx(by_hand)
    assert found.mean() == pytest.approx(mean(models))


def test_the_mean_over_a_whole_matrix_counts_the_diagonal():
    names = list("abc")
    taus = pd.DataFrame([[1, 0.2, 0.4], [0.2, 1, 0.6], [0.4, 0.6, 1]], names, names)
    agreed = concordance.Agreement(taus, np.zeros((5, 3, 3)), pd.RangeIndex(5))
    means = concordance.between_models(agreed, {"GE": names}).loc["GE"]
    assert means["pairs"] == pytest.approx(0.4)  # (.2 + .4 + .6) / 3
    assert means["whole"] == pytest.approx((3 + 2 * 1.2) / 9)  # = .6


def test_a_prompt_that_changes_nothing_lies_beyond_models_and_another_question_below():
    rewards = made_up(items=300, models=6, seed=3).drop(columns=PEOPLE)
    other = np.random.default_rng(4).normal(size=rewards.shape)
    other = pd.DataFrame(other, rewards.index, rewards.columns)
    columns = [[f"{prompt}: {name}" for name in rewards] for prompt in "AB"]

    def found(second):
        both = [rewards.add_prefix("A: "), second.add_prefix("B: ")]
        agreed = agreement(pd.concat(both, axis=1))
        between = concordance.between_models(agreed, {"A": columns[0]})
        beyond = concordance.beyond_models(agreed, columns)
        return beyond, between.loc["A", "pairs"]

    same, between = found(rewards)
    assert same.estimate == pytest.approx(1 - between) and same.ci_low > 0
    asked, _ = found(other)
    assert asked.ci_high < 0
