"""Tau between columns and its influences: against scipy, and by leaving items out."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

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

    found = agreed.pseudo_values(models).values
    by_hand = [
        5 * mean(models) - 4 * mean([other for other in models if other != one])
        for one in models
    ]
    assert found.tolist() == pytest.approx(by_hand)
    assert found.mean() == pytest.approx(mean(models))
