"""Lists of words: planted leans are found, controls hold, differences by base are exact; intervals by simulation."""

import itertools

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from lib import InputError
from lib.alignment import profiles

MODELS = ["R-Gem-2B", "S-Gem-27B", "N-Gem-27B", "S-Gem-27B-v0.2", "R-Lla-3B", "R-Lla-8B", "N-Lla-8B", "L-Lla-8B"]


def spoken(random, lean=0.0, words=200, by_base=0.0):
    """Rewards of words x models; the first half of the words is one list, the second another."""
    names = [f"w{n}" for n in range(words)]
    is_listed = pd.Series(np.arange(words) < words / 2, names)
    llama = np.array(["Lla" in name for name in MODELS])
    own = lean + by_base * llama + random.normal(scale=0.2, size=len(MODELS))
    rewards = np.outer(is_listed, own) + random.normal(size=(words, 1)) + random.normal(size=(words, len(MODELS)))
    return pd.DataFrame(rewards, names, MODELS), is_listed


def test_a_lean_is_a_difference_of_means_and_with_controls_a_coefficient():
    random = np.random.default_rng(1)
    rewards, is_listed = spoken(random, lean=0.5)
    plain = profiles.lean(rewards, is_listed)
    assert plain.values["R-Lla-3B"] == pytest.approx(
        rewards.loc[is_listed, "R-Lla-3B"].mean() - rewards.loc[~is_listed, "R-Lla-3B"].mean()
    )
    held = pd.DataFrame({"length": random.integers(3, 9, len(rewards)) + 2.0 * is_listed}, rewards.index)
    design = sm.add_constant(pd.concat([is_listed.astype(float).rename("one"), held], axis=1))
    fitted = sm.OLS(rewards["R-Lla-3B"], design).fit(cov_type="HC3")
    found = profiles.lean(rewards, is_listed, held)
    assert found.values["R-Lla-3B"] == pytest.approx(fitted.params["one"])
    error = np.sqrt((found.influence["R-Lla-3B"] ** 2).sum())
    assert error == pytest.approx(fitted.bse["one"], rel=1e-6)
    with pytest.raises(InputError, match="3 words against 7"):
        profiles.lean(rewards.head(10), pd.Series([True] * 3 + [False] * 7, rewards.index[:10]))


def test_words_of_both_lists_or_none_are_left_out():
    rewards, is_listed = spoken(np.random.default_rng(2), words=40)
    lists = pd.DataFrame({"A": is_listed, "B": ~is_listed})
    lists.loc["w0", "B"] = True
    lists.loc["w39", "B"] = False
    found = profiles.against(rewards, lists)
    assert len(found.influence) == 38 and not found.influence.index.isin(["w0", "w39"]).any()


def test_standardised_rewards_do_not_depend_on_the_models_scale():
    rewards, _ = spoken(np.random.default_rng(3))
    pd.testing.assert_frame_equal(profiles.standardised(rewards), profiles.standardised(rewards * 7 - 3))
    assert profiles.standardised(rewards).std(ddof=1).tolist() == pytest.approx([1] * 8)


def test_a_difference_by_base_is_tested_by_all_ways_to_name_the_models():
    rewards, is_listed = spoken(np.random.default_rng(4), by_base=2.0)
    one = profiles.lean(rewards, is_listed)
    is_llama = profiles.bases(MODELS) == "Llama"
    found = profiles.by_base(one, is_llama)
    assert found.estimate == pytest.approx(one.values[is_llama].mean() - one.values[~is_llama].mean())
    assert found.ci_low > 1 and found.ways == 70  # 8 choose 4
    assert found.p == pytest.approx(2 / 70)  # the observed one, and its mirror
    brute = [abs(one.values.iloc[list(some)].mean() - one.values.drop(one.values.index[list(some)]).mean())
             for some in itertools.combinations(range(8), 4)]  # fmt: skip
    assert found.p == pytest.approx(np.mean(np.array(brute) >= abs(found.estimate) - 1e-12))
    with pytest.raises(InputError, match="needs two models of each"):
        profiles.by_base(one, pd.Series([True] + [False] * 7, MODELS))


def test_intervals_by_base_hold_what_was_planted_for_new_words_and_models():
    random, held, ps = np.random.default_rng(5), [], []
    is_llama = profiles.bases(MODELS) == "Llama"
    for _ in range(300):
        rewards, is_listed = spoken(random, words=60, by_base=0.0)
        found = profiles.by_base(profiles.lean(rewards, is_listed), is_llama)
        held.append(found.ci_low <= 0 <= found.ci_high)
        ps.append(found.p)
    # Four models a side: Welch's interval by itself holds .97 here, and no variance is taken below either of the two.
    assert 0.93 <= np.mean(held) <= 0.995
    assert np.mean(np.array(ps) <= 0.1) == pytest.approx(0.1, abs=0.05)


def test_controls_know_words_and_say_which_are_rated():
    held = profiles.controls(pd.Index(["love", "the", "qzxv"]))
    assert list(held) == ["frequency", "letters", "sentiment", "rated"]
    assert held["frequency"].idxmax() == "the" and held["frequency"].idxmin() == "qzxv"
    assert held["letters"].tolist() == [4, 3, 4]
    assert held.loc["love", "sentiment"] > 3 and held["rated"].tolist() == [1, 0, 0]


def test_the_difference_of_two_models_and_tables():
    rewards, is_listed = spoken(np.random.default_rng(6), lean=1.0)
    one = profiles.lean(rewards, is_listed)
    apart = profiles.between_two(one, "R-Lla-3B", "R-Gem-2B")
    assert apart.estimate == pytest.approx(one.values["R-Lla-3B"] - one.values["R-Gem-2B"])
    gap = rewards["R-Lla-3B"] - rewards["R-Gem-2B"]  # the words are shared, so it is their difference that varies
    error = np.sqrt(gap[is_listed].var(ddof=1) / is_listed.sum() + gap[~is_listed].var(ddof=1) / (~is_listed).sum())
    assert apart.ci_high - apart.ci_low == pytest.approx(2 * 1.972 * error, rel=0.02)
    table = profiles.in_table(profiles.profile(rewards, is_listed.to_frame("one")))
    assert table.loc[0, "above"] == pytest.approx(one.values.mean())
    assert table.loc[0, "ci_low"] < table.loc[0, "these_low"] < table.loc[0, "above"]
    assert (one.by_model()["ci_low"] < one.values).all()
