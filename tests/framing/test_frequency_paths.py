"""Specifications of frequency: the paper's own and ours among them, rules, and what is planted found by them."""

import numpy as np
import pandas as pd
import pytest

from lib.framing import effects, frequency, specifications
from lib.framing import frequency_specifications as questions
from lib.stats import multiverse
from lib.tables import lexicons


@pytest.fixture(scope="module")
def tables():
    """Three models of 500 words of AFINN, whose rewards rise with sentiment and by .3 per tenfold frequency."""
    random = np.random.default_rng(0)
    listed = lexicons.load("afinn").corrected.merge(lexicons.load("wordfreq").corrected, on="word")
    listed = listed.merge(lexicons.load("vader").corrected[["word"]], on="word")
    listed = listed[listed["word"].str.fullmatch("[a-z]+")].sample(500, random_state=0, ignore_index=True)
    keys = {"token_id": range(500), "token": listed["word"], "text": listed["word"], "reply_ids": "",
            "input_group": range(500)}  # fmt: skip
    known = 0.3 * np.log10(listed["frequency"].to_numpy())
    made = {}
    for name, scale in {"M": 1.0, "N": 50.0, "O": 0.02}.items():
        sides = {"best": 0.2, "worst": -0.2}
        rewards = {
            prompt: scale * (known + slope * listed["sentiment"].to_numpy() + random.normal(0, 0.5, 500))
            for prompt, slope in sides.items()
        }
        made[name] = pd.DataFrame(keys | rewards)
    return made


@pytest.fixture(scope="module")
def study(tables):
    return questions.Slopes(tables, bnc=False)


@pytest.fixture(scope="module")
def tried(study):
    return study.run()


def test_the_choices_are_those_that_make_sense(tables, tried):
    assert list(tried) == list(questions.PAPERS)
    assert {claim: len(table) for claim, table in tried.items()} == {
        "S3.freq.raw": 3 * 2 * 2 * 3 * 2,  # words, length, offensive, scale, two prompts
        "S3.freq.controlled": 2 * 2 * 2 * 2 * 3 * 2,  # two lexicons, and two controls
        "S3.freq.change": 2 * 2 * 2 * 2 * 3,  # under the prompt for bad things
    }
    good = {name: table.drop(columns="worst") for name, table in tables.items()}
    assert list(questions.Slopes(good, bnc=False).choices) == ["S3.freq.raw", "S3.freq.controlled"]
    other = {name: table.rename(columns={"best": "tea", "worst": "war"}) for name, table in tables.items()}
    assert questions.Slopes(other, bnc=False).run() == {}


def test_headwords_are_for_the_papers_own_recipe_only():
    for claim, path in questions.PAPERS.items():
        assert questions.excluded(path) is None and questions.excluded(questions.OURS[claim]) is None
        for other in (
            {"length": "letters"},
            {"offensive": "left out"},
            {"scale": specifications.RANKS},
            {"control": "bent"},
        ):
            assert "noun that is a verb twice" in questions.excluded(path | other)


@pytest.mark.parametrize("claim, control", [("S3.freq.raw", "none"), ("S3.freq.controlled", "sentiment")])
def test_our_specification_is_the_mean_slope_of_the_notebook(tables, study, tried, claim, control):
    ours = study.ours[claim] | {"adjective": "worst", "words": "AFINN"}
    row = multiverse.chosen(tried[claim], ours).iloc[0]
    joined = {
        name: lexicons.join(table, lexicons.load("wordfreq"), "corrected", control=lexicons.load("afinn"))
        for name, table in tables.items()
    }
    rows = effects.observations(joined, ["worst"], ["frequency", "sentiment"])
    rows = effects.standardised(frequency.log_frequency(rows, base=10))
    mean = effects.mean_of(effects.by_words(frequency.measured(rows, control))).loc["worst"]
    assert row[["estimate", "ci_low", "ci_high"]].tolist() == pytest.approx(
        mean[["estimate", "ci_low", "ci_high"]].tolist()
    )


def test_raw_slopes_are_tested_over_models_and_keep_the_scale_of_each(tables, tried):
    raw = tried["S3.freq.controlled"].query("scale == 'raw' and words == 'AFINN' and control == 'straight'").iloc[0]
    joined = {
        name: lexicons.join(table, lexicons.load("wordfreq"), "corrected", control=lexicons.load("afinn"))
        for name, table in tables.items()
    }
    rows = frequency.log_frequency(effects.observations(joined, ["best"], ["frequency", "sentiment"]), base=10)
    slopes = effects.count_positive(frequency.frequency_slopes(rows, "sentiment")).iloc[0]
    assert raw["estimate"] / raw["ci_low"] == pytest.approx(slopes["slope"] / slopes["ci_low"])


def test_a_planted_bonus_is_found_at_equal_sentiment_and_the_control_changes_what_sentiment_brings(tried):
    controlled = tried["S3.freq.controlled"].query("scale != 'raw'")
    assert (controlled["side"] == "for").all()
    assert controlled.query("length == 'free'")["estimate"].min() > 0.2
    change = (
        tried["S3.freq.change"].query("scale != 'raw'").set_index(["words", "control", "length", "offensive", "scale"])
    )
    raw, held = (
        tried[claim].query("adjective == 'worst' and scale != 'raw'") for claim in ("S3.freq.raw", "S3.freq.controlled")
    )
    keys = ["words", "length", "offensive", "scale"]
    merged = held.merge(raw, on=keys, suffixes=("_held", "_free")).set_index(["words", "control", *keys[1:]])
    expected = (merged["estimate_held"] - merged["estimate_free"]).loc[change.index]
    assert change["estimate"].to_numpy() == pytest.approx(expected.to_numpy())


# --- all specifications at once -----------------------------------------------------------------------------------


def test_dealing_out_frequencies_keeps_them_and_gives_spellings_of_a_word_one():
    rows = pd.DataFrame({"word": ["a", "b", "b", "c"], "log_frequency": [1.0, 2.0, 2.0, 3.0]})
    keys = questions.Keys(500)
    dealt = keys.dealt(rows)
    assert dealt.shape == (4, 500) and (dealt[1] == dealt[2]).all()
    assert (np.sort(dealt[[0, 1, 3]], axis=0) == [[1], [2], [3]]).all()
    assert (dealt[0] == 1).mean() == pytest.approx(1 / 3, abs=0.08)
    # The same word keeps its keys, whichever other words there are.
    again = keys.dealt(rows.iloc[[3, 0]])
    assert ((again[0] > again[1]) == (dealt[3] > dealt[0])).all()


def test_slopes_on_the_observed_frequencies_are_the_estimates_that_the_specifications_have(study, tried):
    for claim, table in tried.items():
        row = table.iloc[-1]
        means = study.dealt_means(*(row[name] for name in questions.OF_WORDS))[claim, row.get("control", "none")]
        place = study.cells[row["adjective"], row["superlative"], row["style"]]
        assert means[0, place] == pytest.approx(row["estimate"])
        assert means[1:, place].mean() == pytest.approx(0, abs=0.05)


def test_all_specifications_together_find_the_planted_bonus_and_nothing_in_rewards_of_other_words(tables, study, tried):
    table = tried["S3.freq.controlled"].query("scale == 'ranks' and length == 'free' and offensive == 'kept'")
    assert study.joint_test("S3.freq.controlled", table) == 1 / (questions.DRAWS + 1)
    order = np.random.default_rng(3).permutation(500)
    other = {name: own.assign(**{prompt: own[prompt].to_numpy()[order] for prompt in ("best", "worst")})
             for name, own in tables.items()}  # fmt: skip
    assert 0.02 < questions.Slopes(other, bnc=False).joint_test("S3.freq.controlled", table) < 1
