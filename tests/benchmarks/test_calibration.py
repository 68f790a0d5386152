"""Calibration: a balanced plan, estimators where the truth is known, null band and power, a run
that goes on.
"""

from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from benchmarks.calibration import __main__ as command
from benchmarks.calibration import estimators, measuring, method, plan, report
from lib.trained import reading, small_models
from lib.trained.planting import planted_utility

BY_NAME = {estimator.name: estimator for estimator in estimators.ESTIMATORS}


# --- the plan -------------------------------------------------------------------------------------


def test_every_eight_models_of_the_plan_are_balanced():
    models = plan.planned(400, seeds=0)
    assert len(models) == 400
    for start in range(0, 400, 8):
        block = [one.profile for one in models[start : start + 8]]
        assert sorted((one.base, one.k_hi - one.k_lo) for one in block) == [
            (base, gap) for base in ("gem", "lla") for gap in (0, 0.25, 0.5, 1)
        ]
        for trait, low, high in (("frequency", 0.2, 0.4), ("identity", 1.25, 2.5)):
            levels = Counter(getattr(one, trait) for one in block)
            assert levels == {0: 4, low: 2, high: 2}
        assert {one.k_hi + one.k_lo for one in block} == {2}


# --- estimators -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def words():
    return measuring.words()


def profile(**values):
    nothing = dict.fromkeys(
        ("frequency", "identity", "nature", "technology", "nonword", "label_noise"), 0.0
    )
    return replace(
        plan.planned(1, seeds=0)[0].profile,
        **nothing | {"k_hi": 1.5, "k_lo": 0.5} | values,
    )


def rewards_of(words, *profiles):
    """What models would give that learned the planted utility to the last digit, (words,
    prompts, models).
    """
    return np.stack(
        [[planted_utility(one, words, sign) for one in profiles] for sign in (1, 1, -1)]
    ).transpose(2, 0, 1)


def found_and_planted(name, words, *profiles):
    found, _ = estimators.estimate(BY_NAME[name], words, rewards_of(words, *profiles))
    utility = estimators.utilities(words, profiles)
    return found, estimators.planted(BY_NAME[name], words, profiles, utility)


@pytest.mark.parametrize("name", ["gap VADER greatest", "gap VADER worst"])
def test_a_gap_in_the_utility_itself_comes_back_whole(words, name):
    flat = profile(k_hi=1.0, k_lo=1.0)
    found, planted = found_and_planted(name, words, profile(), flat)
    assert found == pytest.approx(planted)
    assert planted[0] > 0.4 and planted[1] == 0


def test_a_frequency_slope_comes_back_where_sentiment_is_held_constant_on_both_sides(
    words,
):
    found, planted = found_and_planted(
        "frequency bent", words, profile(frequency=0.4), profile()
    )
    assert found == pytest.approx(planted, abs=1e-9)
    assert planted[0] > 0.1 and planted[1] == 0
    biased, _ = found_and_planted("frequency sentiment", words, profile())
    # one straight line of sentiment leaves the bend, which goes with frequency
    assert abs(biased[0]) > 0.01


def test_what_is_taken_off_groups_of_people_comes_back_where_frequency_is_held_constant(
    words,
):
    some = profile(identity=2.5, frequency=0.4), profile(frequency=0.2)
    found, planted = found_and_planted("identity frequency", words, *some)
    assert found == pytest.approx(planted, abs=1e-9)
    assert planted[0] < -1
    raw, _ = found_and_planted("identity raw", words, profile(frequency=0.4))
    # names of groups are rare, so a liking for common words looks like a dislike of groups
    assert raw[0] < -0.5


def test_framing_of_symmetric_utility_is_nothing_and_of_bent_twice_the_log_ratio_of_slopes(
    words,
):
    found, planted = found_and_planted(
        "framing VADER", words, profile(k_hi=1.0, k_lo=1.0), profile()
    )
    assert found[0] == pytest.approx(0, abs=1e-12) and planted[0] == 0
    assert found[1] == pytest.approx(planted[1])
    assert planted[1] == pytest.approx(2 * np.log(3))


# --- null band and power --------------------------------------------------------------------------


def test_the_band_holds_the_models_without_the_effect_and_power_counts_those_beyond():
    null, small, medium, large = range(101), [50, 98], [98, 99, 150, 97], [300]
    rows = [
        (level, planted, value)
        for level, planted, values in (
            (0, 0, null),
            (0.25, 10, small),
            (0.5, 20, medium),
            (1, 40, large),
        )
        for value in values
    ]
    table = pd.DataFrame(rows, columns=["level", "planted", "estimate"]).assign(
        control=""
    )
    made = method.by_sentence(
        pd.concat(
            [table.assign(estimator=sentence[3]) for sentence in method.SENTENCES]
        )
    )
    row = made[made["quantity"] == "gap"].iloc[0]
    # 0 to 100
    assert (row["null_low"], row["null_high"], row["null_models"]) == (2.5, 97.5, 101)
    # of 98, of 98, 99 and 150, of 300
    assert [row[f"power_{size}"] for size in method.SIZES] == [1 / 2, 3 / 4, 1]
    assert [row[f"size_{size}"] for size in method.SIZES] == [10, 20, 40]
    assert row["planted"] == pytest.approx((2 * 10 + 4 * 20 + 40) / 7)


# --- the report -----------------------------------------------------------------------------------


@pytest.fixture
def few_words(monkeypatch, words):
    """One word in twenty is learned and measured."""
    of_vocabulary, make_replies = reading.vocabulary_words, reading.make_replies
    monkeypatch.setattr(
        reading, "vocabulary_words", lambda tokenizer: of_vocabulary(tokenizer)[::20]
    )
    monkeypatch.setattr(small_models, "make_replies", partial(make_replies, phrases=40))
    few = words.iloc[::20].reset_index(drop=True)
    monkeypatch.setattr(measuring, "words", lambda: few)


@pytest.mark.nightly
def test_models_are_trained_measured_and_reported_and_the_next_run_trains_none(
    tmp_path, few_words, monkeypatch
):
    calibrate = partial(command.calibrate, 8, 1, folder=tmp_path, steps=3)
    made = calibrate()
    assert (made.n_models, len(made.trainings)) == (8, 10)  # and a seed of each control
    assert set(made.estimates["estimator"]) == set(BY_NAME)
    assert np.isfinite(made.estimates[["estimate", "planted", "standard_error"]]).all(
        None
    )
    monkeypatch.setattr(small_models, "train", None)  # nothing is there to be called
    pd.testing.assert_frame_equal(calibrate().estimates, made.estimates)
    report.write(made, tmp_path)
    found = report.read(tmp_path).estimates
    pd.testing.assert_frame_equal(found, made.estimates, check_dtype=False, rtol=1e-4)


def test_the_committed_page_and_table_follow_from_the_committed_estimates(tmp_path):
    committed = report.read()
    assert report.page(committed) == report.PAGE.read_text()
    report.write(committed, tmp_path)
    again, table = (folder / "method.csv" for folder in (tmp_path, report.TABLES))
    assert again.read_text() == table.read_text()
