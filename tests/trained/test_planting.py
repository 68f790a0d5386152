"""Planted values: utility by hand, taste, preferences, and the words whose utility is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from plain_profile import PLAIN
from scipy.stats import norm

from lib.trained import planting, recovery


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
    one, other = (planting.taste(name, stems) for name in ("Aldermoor", "Brackenfold"))
    # 4 standard errors of 20,000 are .028
    assert np.quantile(one, [0.1, 0.9]) == pytest.approx(norm.ppf([0.1, 0.9]), abs=0.05)
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.028


def test_word_values_read_ratings_frequency_and_kind():
    words = ["love", "muslim", "zqxjvk", ".setText", "table"]
    values = planting.word_values(words).set_index("word")
    assert values.loc["love", "valence"] == 3.2  # in VADER's lexicon
    assert values["kind"].tolist() == ["", "identity", "", "nonword", ""]
    assert values.loc["zqxjvk", "zipf"] == 1.0 and values.loc[".setText", "zipf"] == 3.5
    assert planting.is_held_out("lovely") == planting.is_held_out("LOVELINESS")


def test_preferences_follow_bradley_and_terry():
    assert planting.preference_probability(np.log(3), 0.0) == pytest.approx(0.75)
    utility, rng = np.array([0.0, np.log(3)]), np.random.default_rng(5)
    preferred, rejected = planting.draw_preferences(utility, 60_000, rng)
    assert (preferred != rejected).all()
    assert preferred.mean() == pytest.approx(0.75, abs=4 * (3 / 16 / 60_000) ** 0.5)


def test_loss_is_the_negative_log_likelihood():
    preferred, rejected = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 2.0])
    by_hand = -(np.log(1 / (1 + np.exp(-1))) + np.log(1 / (1 + np.exp(2)))) / 2
    loss = planting.preference_loss(preferred, rejected).item()
    assert loss == pytest.approx(by_hand, abs=1e-6)


def test_known_words_count_an_input_once_and_leave_fragments_out(score_table):
    texts = ["love", " love", "Love", "zqxj", "你好", "<|eot_id|>"]
    rows = recovery.known_words(score_table(texts, groups=[0, 0, 1, 2, 3, 4]))
    assert rows["text"].tolist() == ["love", "Love"]
