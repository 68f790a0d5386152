"""Paths: every combination once, sides by intervals, shares by hand, and the choice that decides."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from lib import InputError
from lib.stats import multiverse
from lib.stats.multiverse import Specification

CHOICES = {"lexicon": ["AFINN", "VADER"], "scale": ["raw", "ranks", "standardised"]}


def around(estimate, half=1.0):
    return Specification(estimate, estimate - half, estimate + half)


def run(effects, excluded=lambda taken: None):
    return multiverse.run(CHOICES, lambda taken: around(sum(effects.get(option, 0) for option in taken.values())),
                          excluded)  # fmt: skip


def test_there_is_a_row_for_every_combination_that_is_not_excluded():
    table = run({"VADER": 2.0, "raw": -4.0})
    assert table[["lexicon", "scale"]].drop_duplicates().shape == (2 * 3, 2)
    assert table["estimate"].tolist() == [-4, 0, 0, -2, 2, 2]
    assert table["side"].tolist() == ["against", "undecided", "undecided", "against", "for", "for"]
    assert (table["ci_high"] - table["ci_low"] == 2).all()

    def rule(taken):
        return "raw grades of VADER" if taken == {"lexicon": "VADER", "scale": "raw"} else None

    assert run({"VADER": 2.0}, rule)["estimate"].tolist() == [0, 0, 0, 2, 2]


def test_a_test_without_an_interval_says_itself_what_it_decides():
    tests = {"t": Specification(1.0), "permutation": Specification(1.0, side="for")}
    assert multiverse.run({"test": list(tests)}, lambda taken: tests[taken["test"]])["side"].tolist() == [
        "undecided", "for"]  # fmt: skip


def test_paths_without_estimate_and_rules_without_paths_are_refused():
    with pytest.raises(
        InputError, match="the specification lexicon AFINN, scale raw has no estimate; exclude it by a rule"
    ):
        multiverse.run(CHOICES, lambda taken: around(np.nan))
    with pytest.raises(InputError, match="no specification is left"):
        run({}, lambda taken: "none makes sense")


def test_shares_by_hand():
    table = run({"VADER": 2.0, "raw": -4.0})
    assert multiverse.shares(table).loc["all"].tolist() == [6, 2 / 6, 2 / 6, 2 / 6]
    by = multiverse.shares(table, "lexicon")
    assert by.loc["AFINN"].tolist() == [3, 0, 2 / 3, 1 / 3]
    assert by.loc["VADER"].tolist() == [3, 2 / 3, 0, 1 / 3]
    assert multiverse.shares(table, ["scale"]).index.tolist() == ["raw", "ranks", "standardised"]


def test_what_reports_an_effect_too_often_and_what_is_the_same_twice_does_not_count():
    table = run({"VADER": 2.0, "raw": -4.0}).assign(size=[0.05, 0.05, 0.44, np.nan, 0.03, 0.081])
    # Estimates -4, 0, 0, -2, 2, 2: the first, the second and the fifth have a rate near .05.
    assert multiverse.counted(table).index.tolist() == [0, 1, 4]
    assert multiverse.counted(table.assign(size=0.05))["estimate"].tolist() == [-4, 0, -2, 2]
    row = multiverse.summary("S3.slope.best", table, joint=0.02)
    assert (row["specifications"], row["counted"], row["n_for"], row["n_against"]) == (6, 3, 1, 1)
    assert multiverse.sentence(row).startswith("3 of 6 specifications have a false-positive rate near .05: 1 for, 1 un")
    none = multiverse.summary("S3.slope.best", table.assign(size=np.nan))
    assert "none of 6 specifications is known" in multiverse.sentence(none) and none["by_level"] == ""


def test_false_positive_rates_are_those_that_were_measured():
    rate = multiverse.false_positive_rate
    way = {"lexicon": "VADER", "inference": "words and models", "scale": "ranks"}
    assert 0.02 < rate("S3.slope.worst", way) < 0.08 < rate("S3.slope.greatest", way)
    assert rate("S2.rsa.simple", {"factor": "base", "test": "all entries, as published"}) > 0.9
    assert np.isnan(rate("S3.slope.worst", way | {"lexicon": "Bing"})) and np.isnan(rate("S4.asymmetry", {}))


def test_the_joint_test_by_hand():
    null = np.array([[0.0, 0.0, 0.0], [3.0, 3.0, 9.0], [-1.0, 2.0, 1.0]])  # medians 0, 3, 1
    assert multiverse.joint_p(np.array([1.0, 2.0, 5.0]), null) == 2 / 4  # 2 itself, and 3
    assert multiverse.joint_p(np.array([9.0, 9.0, 0.0]), null) == 1 / 4
    assert multiverse.joint_p(np.array([9.0, -1.0, -1.0]), null) == 1  # one specification among three decides nothing


def test_the_joint_test_turns_the_signs_of_models_in_all_ways():
    by_model = np.array([[1.0, 2], [3, 1], [2, 2]])  # three models x two specifications, all above 0
    assert multiverse.joint_p_of_signs(by_model) == 1 / 8  # of 2 ^ 3 ways none else is as large
    assert multiverse.joint_p_of_signs(-by_model) == 1


def test_the_joint_test_of_nothing_is_right_one_time_in_twenty():
    random = np.random.default_rng(0)
    p = [multiverse.joint_p(values[0], values[1:]) for values in random.normal(size=(400, 100, 3))]
    assert np.mean(np.array(p) < 0.05) == pytest.approx(0.05, abs=0.03)


def test_the_choice_that_decides_by_hand():
    found = multiverse.deciding(run({"VADER": 2.0})).set_index("choice")
    assert found["share"].to_dict() == pytest.approx({"lexicon": 1, "scale": 0, "together": 0})
    assert found["df"].to_dict() == {"lexicon": 1, "scale": 2, "together": 2}  # of 5
    both = multiverse.deciding(run({"VADER": 2.0, "raw": -4.0})).set_index("choice")["share"]
    # Lexicon: six values 1 from the mean; scale: two values 8/3 from it, four 4/3: squares 6 and 64/3 of 82/3.
    assert both.to_dict() == pytest.approx({"scale": 64 / 82, "lexicon": 18 / 82, "together": 0})
    assert multiverse.deciding(run({}))["share"].isna().all()  # all paths agree


def test_shares_of_variance_are_those_of_statsmodels_where_paths_are_excluded():
    random = np.random.default_rng(0)
    table = run({"VADER": 2.0, "raw": -4.0}, lambda taken: "x" if taken == {"lexicon": "VADER", "scale": "raw"} else "")
    table["estimate"] += random.normal(size=len(table))
    other = anova_lm(ols("estimate ~ C(lexicon) + C(scale)", table).fit(), typ=2)["sum_sq"]
    found = multiverse.deciding(table).set_index("choice")["share"]
    total = ((table["estimate"] - table["estimate"].mean()) ** 2).sum()
    assert [found["lexicon"], found["scale"]] == pytest.approx([other["C(lexicon)"] / total, other["C(scale)"] / total])


def test_the_summary_counts_sides_and_names_two_paths():
    table = run({"VADER": 2.0, "raw": -4.0}).assign(size=0.05)
    table["estimate"] += np.arange(6) * 1e-6  # no two results are the same
    row = multiverse.summary("S3.slope.worst", table, ours={"lexicon": "VADER", "scale": "ranks"},
                             papers={"lexicon": "AFINN"})  # fmt: skip
    joint = row.pop("joint_p")
    assert np.isnan(joint) and row == {
        "claim": "S3.slope.worst", "specifications": 6, "counted": 6, "n_for": 2, "n_undecided": 2, "n_against": 2,
        "papers": "undecided/against", "ours": "for", "deciding": "scale", "deciding_share": pytest.approx(64 / 82),
        "by_level": "raw: 0% for (2); ranks: 50% for (2); standardised: 50% for (2)"}  # fmt: skip
    assert multiverse.summary("S3.slope.worst", table)["ours"] == ""
    with pytest.raises(InputError, match="'word' is no choice of these specifications; choose among lexicon, scale"):
        multiverse.chosen(table, {"word": "love"})
    with pytest.raises(InputError, match="no specification has lexicon Bing"):
        multiverse.chosen(table, {"lexicon": "Bing"})
    assert pd.DataFrame([row]).columns[0] == "claim"
