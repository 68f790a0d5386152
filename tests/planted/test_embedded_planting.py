"""Planted values: utility by hand, taste, profiles, preferences, and their recovery from a score
table.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from plain_profile import PLAIN
from scipy.stats import norm

from lib.planted import planting, recovery


def test_planted_utility_by_hand():
    values = pd.DataFrame(
        {
            "valence": [3.0, -2.0, 0.0, 0.0, 0.0, 0.0],
            "zipf": [4.5, 2.5, 3.5, 4.5, 3.5, 3.5],
            "kind": ["", "", "identity", "nature", "technology", "nonword"],
            "stem": list("abcdef"),
        }
    )
    good = [1.2 * 3 + 0.5, -0.6 * 2 - 0.5, -2.0, 0.5 - 1.0, -0.75, -3.0]
    bad = [-0.6 * 3 + 0.5, 1.2 * 2 - 0.5, -2.0, 0.5 - 1.0, -0.75, -3.0]
    assert planting.planted_utility(PLAIN, values, 1) == pytest.approx(good)
    assert planting.planted_utility(PLAIN, values, -1) == pytest.approx(bad)
    noisy = replace(PLAIN, label_noise=0.5)
    difference = planting.planted_utility(noisy, values, 1) - good
    assert difference == pytest.approx(0.5 * planting.taste("Testerly", values["stem"]))


def test_taste_is_standard_normal_and_each_developers_own():
    stems = [f"s{i}" for i in range(20_000)]
    one, other = (
        planting.taste("Aldermoor", stems),
        planting.taste("Brackenfold", stems),
    )
    assert abs(one.mean()) < 4 / 20_000**0.5 and abs(one.std() - 1) < 4 / 40_000**0.5
    assert np.quantile(one, [0.1, 0.9]) == pytest.approx(norm.ppf([0.1, 0.9]), abs=0.05)
    assert abs(np.corrcoef(one, other)[0, 1]) < 4 / 20_000**0.5


def test_word_values_read_ratings_frequency_and_kind():
    values = planting.word_values(
        ["love", "muslim", "zqxjvk", ".setText", "table"]
    ).set_index("word")
    assert values.loc["love", "valence"] == 3.2  # in VADER's lexicon
    assert values["kind"].tolist() == ["", "identity", "", "nonword", ""]
    assert values.loc["zqxjvk", "zipf"] == 1.0 and values.loc[".setText", "zipf"] == 3.5


def test_preferences_follow_bradley_and_terry():
    assert planting.preference_probability(1.0, 1.0) == 0.5
    assert planting.preference_probability(np.log(3), 0.0) == pytest.approx(0.75)
    utility, pairs = np.array([0.0, 1.0, 2.5]), 60_000
    preferred, rejected = planting.draw_preferences(
        utility, pairs, np.random.default_rng(5)
    )
    assert (preferred != rejected).all()
    for a, b in ((0, 1), (0, 2), (1, 2)):
        wins, losses = (
            ((preferred == b) & (rejected == a)).sum(),
            ((preferred == a) & (rejected == b)).sum(),
        )
        p, n = 1 / (1 + np.exp(utility[a] - utility[b])), wins + losses
        assert abs(wins / n - p) < 4 * (p * (1 - p) / n) ** 0.5


def test_loss_is_the_negative_log_likelihood():
    preferred, rejected = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 2.0])
    by_hand = -(np.log(1 / (1 + np.exp(-1))) + np.log(1 / (1 + np.exp(2)))) / 2
    assert planting.preference_loss(preferred, rejected).item() == pytest.approx(
        by_hand, abs=1e-6
    )


def test_recovery_returns_what_was_planted_when_rewards_are_the_utility(score_table):
    words = [
        *planting.sentiment().index[::20],
        *planting.word_kinds().index[::5],
        ".setText",
        "=>",
        "();",
    ]
    values = planting.word_values(words)
    profile = replace(PLAIN, scale=0.05)
    rewards = {
        name: 7 + 0.05 * planting.planted_utility(PLAIN, values, s)
        for name, s in (("greatest", 1), ("worst", -1))
    }
    found = recovery.recover(score_table(words, **rewards), profile)
    known = found.drop(index="skew", level="value")
    assert known["recovered"].to_numpy() == pytest.approx(
        known["planted"].to_numpy(), abs=1e-3
    )
    skews = found.xs("skew", level="value")
    assert skews["recovered"].to_numpy() == pytest.approx(
        skews["planted"].to_numpy(), abs=1e-3
    )


def test_recovery_counts_an_input_once_and_leaves_fragments_out(score_table):
    table = score_table(
        ["love", " love", "Love", "zqxj", "你好", "<|eot_id|>"],
        groups=[0, 0, 1, 2, 3, 4],
    )
    rows = recovery.planted_table(table, PLAIN)
    assert rows["text"].tolist() == ["love", "Love"]
