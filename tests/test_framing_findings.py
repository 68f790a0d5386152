"""Sentences of framing, what is planted, and what stands beside the paper: words follow from numbers."""

import numpy as np
import pandas as pd
import pytest

from lib.collection import WORDS, Collection
from lib.framing import charts, confounding, effects, findings, planted, printed


def gaps(**prompts):
    """Gaps by prompt, each given by the ends of its interval."""
    rows = {
        prompt: {"estimate": np.mean(ends), "ci_low": ends[0], "ci_high": ends[1]} for prompt, ends in prompts.items()
    }
    return pd.DataFrame(rows).T.rename_axis("prompt")


def test_an_estimate_is_told_with_its_interval():
    row = gaps(best=(-0.1, 0.5)).loc["best"]
    assert findings.said(row) == "0.20 (-0.10 to 0.50)" and findings.said(row, "+") == "+0.20 (-0.10 to +0.50)"


def test_what_is_above_zero_has_its_interval_above_zero():
    found = gaps(greatest=(0.1, 0.5), best=(-0.1, 0.9), worst=(-0.5, -0.1))
    assert findings.bends(found) == "upwards for greatest, downwards for worst, neither way for certain for best"
    rows = pd.concat([found, gaps(best=(0.1, 0.2))]).reset_index()
    assert "best in 1 of 2 choices, the opposite in 0" in findings.by_choice(rows)


def test_a_step_between_grades_is_told_by_the_side_that_the_prompt_asks_for():
    graded = pd.DataFrame({"best": [0.0, 0.1, 0.5, 1.5], "worst": [0.0, 0.1, 0.5, 1.5]}, [-2.0, -1, 1, 2])
    best, worst = (findings.grade_steps(graded, prompt) for prompt in ("best", "worst"))
    assert best == "best: +0.10 SD from -2 to -1, +1.00 SD from 1 to 2: more among positive words, the side asked for."
    assert worst.endswith("more among positive words, not the side asked for.")
    assert findings.grade_steps(graded[::-1].set_axis(graded.index), "worst").endswith("words, the side asked for.")


def test_the_mean_of_a_grade_gives_every_model_one_voice():
    rows = pd.DataFrame(
        {
            "model": list("MMN"),
            "prompt": "best",
            "word": ["a", "b", "a"],
            "sentiment": [1.2, 0.8, 1.0],
            "reward": [1, 3, 8],
        }
    )
    graded = effects.by_grade(rows)
    assert graded.loc[1, "best"] == 5  # of 2 in M and 8 in N
    assert graded.loc[1, "words"] == 2


def test_planted_gaps_are_found_by_intervals_above_zero_and_the_control_is_told():
    by_word = pd.DataFrame({"model": ["M", "N", "O", effects.ALL], "prompt": "best", "estimate": [0.3, 0.1, 0.2, 0.2],
                            "ci_low": [0.2, -0.1, 0.1, 0.1], "ci_high": [0.4, 0.3, 0.3, 0.3]})  # fmt: skip
    ways = planted.beside_planted({"AFINN": by_word}, pd.Series({"M": 1.0, "N": 1.0, "O": 0.0}))
    assert list(ways["model"]) == ["M", "N", "O"]  # the mean is no model
    summary = planted.found_of_planted(ways)
    assert summary.loc[("AFINN", "best"), ["planted", "found", "control"]].tolist() == [2, 1, 0.2]
    told = "AFINN finds 1 of 2 planted gaps, and a gap where none was planted under best"
    assert planted.in_words(summary) == told and planted.in_words(pd.DataFrame()) == ""
    assert planted.recorded(summary, {"AFINN": "afinn"})["afinn_found_best"] == 1


# --- beside the paper ---------------------------------------------------------------------------------------------


def slopes_of(models, prompts=("best", "worst")):
    keys = pd.MultiIndex.from_product([prompts, models, ("positive", "negative")], names=["prompt", "model", "sign"])
    return pd.DataFrame({"slope": 1.0, "ci_low": 0.5, "ci_high": 1.5}, keys).reset_index()


def test_the_papers_slopes_and_the_published_ones_stand_beside_ours():
    beside = printed.slopes_beside("fig3c_slopes", "04_slopes_by_sign", slopes_of(("M", "N")), Collection("mine"))
    assert list(beside["source"].unique()) == [printed.PAPER, printed.SCORES, printed.HERE]
    assert list(beside["prompt"].unique()) == ["best", "worst"]  # those of ours, in their order
    paper = beside[beside["source"] == printed.PAPER]
    assert len(paper) == 40 and (paper["read"] == "hidden").sum() == 4
    one = paper.set_index(["prompt", "model", "sign"]).loc[("best", "S-Gem-27B", "negative")]
    assert (one.slope, one.ci_high - one.slope) == (1.0912, pytest.approx(0.0148))
    own = printed.slopes_beside("fig3c_slopes", "04_slopes_by_sign", slopes_of(("M", "N")), WORDS)
    assert list(own["source"].unique()) == [printed.PAPER, printed.HERE]  # not twice


def test_what_the_paper_prints_stands_beside_the_published_scores_and_ours():
    ours = pd.DataFrame(
        {"claim": ["S3.slope.greatest"] * 3, "quantity": ["gap", "t", "gap_other_lexicon"], "prompt": "greatest",
         "role": ["primary", "printed", "sensitivity"], "paper": [None, 2.6, None], "as_published": [0.1, 3.0, None],
         "corrected": [0.25, None, 0.2], "ci_low": [0.1, None, 0.1], "ci_high": [0.4, None, 0.3], "side": "for",
         "verdict": "not testable here"}
    )  # fmt: skip
    table = printed.side_by_side(ours)
    assert table["quantity"].tolist() == ["gap", "t"]  # what the paper neither asks nor prints is left out
    assert table[printed.PAPER].tolist() == ["", "2.6"]
    assert table[printed.HERE].tolist() == ["0.25 (0.1 to 0.4)", "3"]
    assert table[printed.SCORES].str.match(r"-?[\d.]+").all()  # as committed


def test_words_of_the_corner_are_found_whatever_their_case_and_blanks():
    four = pd.DataFrame({"text": [" Depends", "tea", "mud", "joy"], "best": [3.0, 0, 0, 1], "worst": [3.0, 0, 0, 1]})
    tables = {"M": four, "N": pd.DataFrame({"text": ["depends", "tea"], "best": [0.0, 1], "worst": [1.0, 0]})}
    found = printed.corner_places(tables, "best", "worst", ("depends", "sonder"))
    assert found.loc["depends", ["models", "both"]].tolist() == [2, 1]  # above the mean of both in M alone
    assert found.loc["depends", "best"] == pytest.approx((1 + 0.5) / 2)
    assert found.loc["sonder", ["models", "both"]].tolist() == [0, 0] and np.isnan(found.loc["sonder", "best"])


def test_the_authors_table_holds_two_of_the_three_words():
    listed = printed.released_models()
    assert listed["depends"] > 0 and listed["impossible"] > 0 and np.isnan(listed["sonder"])


# --- confounding --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def words():
    """Frequent words are more positive, and the reward follows sentiment alone."""
    random = np.random.default_rng(0)
    log_frequency = random.normal(0, 1, 500)
    sentiment = 1.5 * log_frequency + random.normal(0, 1, 500)
    names = [f"w{number}" for number in range(500)]
    table = pd.DataFrame({"word": names, "log_frequency": log_frequency, "sentiment": sentiment})
    return table.assign(frequency=10**log_frequency, best=2 * sentiment + random.normal(0, 0.5, 500))


def test_a_slope_that_is_sentiments_goes_with_the_control(words):
    sides = confounding.with_and_without(words, "best")
    assert sides.slopes.loc["alone", "ci_low"] > 2.5  # 2 x 1.5 is what sentiment makes of it
    assert sides.slopes.loc["held", "ci_low"] < 0 < sides.slopes.loc["held", "ci_high"]
    assert sides.worth == pytest.approx(2, abs=0.1)
    line = np.polyfit(words["log_frequency"], confounding.held_constant(words, "best"), 1)
    assert line[0] == pytest.approx(sides.slopes.loc["held", "estimate"])  # Frisch, Waugh and Lovell


def test_three_words_tell_the_same_as_all(words):
    three = confounding.three_words(words, "best")
    assert three["log_frequency"].is_monotonic_increasing and len(three) == 3
    rises = np.polyfit(three["log_frequency"], three["reward"], 1)[0]
    assert f"rises by {rises:+.2f}" in confounding.by_hand(three) and rises > 2
    assert abs(np.polyfit(three["log_frequency"], three[confounding.HELD], 1)[0]) < 0.5


def test_the_chart_of_confounding_draws_each_word_twice_and_both_lines(words):
    sides = confounding.with_and_without(words, "best")
    figure = charts.draw_confounding(words, "best", sides.slopes, title="T", lexicon="L")
    for panel, row in zip(figure.axes, ("alone", "held"), strict=True):
        *dots, line = panel.lines
        assert sum(len(one.get_xdata()) for one in dots) == 500
        slope = np.diff(line.get_ydata()) / np.diff(line.get_xdata())
        assert slope == pytest.approx(sides.slopes.loc[row, "estimate"])
