"""Leakage: the join by hand, rank correlations against pingouin and scipy, planted truths both
ways, function words.
"""

import numpy as np
import pandas as pd
import pingouin
import pytest
from scipy import stats

from lib.language import leakage

PROMPTS = ["greatest"]


def planted(frequency_bonus: float, n: int = 3000) -> pd.DataFrame:
    """Words whose log-probability follows frequency, and whose reward follows sentiment and what
    is planted.
    """
    random = np.random.default_rng(0)
    # own: what the base knows beyond frequency
    frequency, own = random.standard_normal(n), random.standard_normal(n)
    # nice words are more frequent
    valence = random.standard_normal(n) + 0.3 * frequency
    reward = (
        1.5 * valence.clip(min=0)
        + 0.5 * valence.clip(max=0)
        + frequency_bonus * frequency
    )
    return pd.DataFrame(
        {
            "word": [f"w{i}" for i in range(n)],
            "reward greatest": reward + 0.5 * random.standard_normal(n),
            "log_probability greatest": 2 * frequency + own - 10,
            "frequency": frequency,
            "positive": valence.clip(min=0),
            "negative": valence.clip(max=0),
        }
    )


def rho_of(rows: pd.DataFrame, held: str) -> pd.Series:
    return (
        leakage.explained(rows, PROMPTS, resamples=200)
        .set_index("held_constant")
        .loc[held]
    )


@pytest.fixture
def tables(score_table):
    """A reward model that reads ` love` and `love` as one input, and the log-probabilities of
    its base.
    """
    texts = [" love", "love", "the", "murder", "zqxjvk", "Love"]
    rewards = score_table(
        texts, groups=[0, 0, 1, 2, 3, 4], greatest=[5, 5, 1, -4, 0, 9]
    )
    return rewards, score_table(
        texts, greatest=np.log([0.1, 0.3, 0.4, 0.05, 0.1, 0.05])
    )


def test_words_are_one_row_each_and_forms_add_up(tables, monkeypatch):
    monkeypatch.setattr(leakage, "FEWEST", 3)
    found = leakage.words(*tables, PROMPTS).set_index("word")
    # zqxjvk is no word; Love is love spelled otherwise
    assert sorted(found.index) == ["love", "murder", "the"]
    assert found.loc["love", "log_probability greatest"] == pytest.approx(
        np.log(0.1 + 0.3), abs=1e-6
    )
    assert found.loc["love", "reward greatest"] == 5
    assert (
        found.loc["love", "positive"] == pytest.approx(3.2)
        and found.loc["love", "negative"] == 0
    )
    assert (
        found.loc["murder", "negative"] == pytest.approx(-3.7)
        and found.loc["murder", "positive"] == 0
    )
    assert found.loc["the", ["positive", "negative"]].tolist() == [0, 0]  # not rated
    # 5% of English text
    assert found.loc["the", "frequency"] == pytest.approx(4.73, abs=0.05)


@pytest.mark.parametrize("held", list(leakage.HELD_CONSTANT))
def test_partial_correlation_is_pingouins(held):
    rows = planted(0.3, n=200).round(1)  # rounded, so that there are ties
    pair = ["reward greatest", "log_probability greatest"]
    controls = leakage.HELD_CONSTANT[held]
    expected = pingouin.partial_corr(rows, *pair, controls or None, method="spearman")
    assert rho_of(rows, held)["rho"] == pytest.approx(expected["r"].item(), abs=1e-9)


def test_covariances_are_those_of_resampled_rows_ranked_anew():
    values = np.random.default_rng(1).integers(0, 9, (50, 3))  # many ties
    covariance, random = leakage.rank_covariance(values), np.random.default_rng(7)
    for _ in range(5):
        drawn = random.integers(50, size=50)
        ranks = stats.rankdata(values[drawn], axis=0)
        assert covariance(drawn) == pytest.approx(np.cov(ranks, rowvar=False))


def test_a_frequency_bonus_shows_at_equal_sentiment_and_not_at_equal_frequency():
    rows = planted(frequency_bonus=0.3)
    assert rho_of(rows, "sentiment")["ci_low"] > 0.2
    at_equal_frequency = rho_of(rows, "sentiment and frequency")
    assert at_equal_frequency["ci_low"] < 0 < at_equal_frequency["ci_high"]


def test_without_a_bonus_only_the_uncontrolled_correlation_shows():
    rows = planted(frequency_bonus=0.0)
    assert rho_of(rows, "nothing")["ci_low"] > 0.1  # nice words are frequent
    for held in ("sentiment", "sentiment and frequency"):
        # 3 standard errors of 3,000 words: 3 / sqrt(3000) = .055
        assert abs(rho_of(rows, held)["rho"]) < 0.06


def test_function_words_are_known_in_any_case_and_with_a_space():
    texts = [" The", "of", "Ġof", "LOVE", " nothing", "", "theatre"]
    assert leakage.is_function_word(texts).tolist() == [
        True,
        True,
        False,
        False,
        False,
        False,
        False,
    ]
