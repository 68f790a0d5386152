"""Sentences of framing, what is planted, and what stands beside the paper: words follow from numbers."""

import numpy as np
import pandas as pd
import pytest

from lib.collection import WORDS, Collection
from lib.framing import charts, confounding, effects, findings, interaction, planted, printed


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


def test_titles_say_no_more_than_the_interval():
    found = gaps(greatest=(0.1, 0.5), best=(-0.1, 0.9), worst=(-0.5, -0.1))
    told = "Positive words score higher for greatest, lower for worst, neither higher nor lower for certain for best"
    assert findings.apart(found) == told
    prompts = ("greatest", "best")
    assert findings.agree(found.loc["greatest"], prompts) == "Greatest and best agree: mean r 0.30 (0.10 to 0.50)"
    assert findings.agree(found.loc["best"], prompts).startswith("Greatest and best do not agree for certain: mean r")


def test_a_count_of_models_has_its_interval_and_the_papers_count_where_there_is_one():
    counts = pd.DataFrame({"count": [8, 3], "ci_low": [2, 1], "ci_high": [9, 5], "models": 10}, ["greatest", "fine"])
    told = "Models in which the side asked for is steeper: greatest 8 of 10 (2 to 9; paper: 8), fine 3 of 10 (1 to 5)"
    assert findings.steeper(counts) == told


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
    counted = printed.side_by_side(ours.assign(paper=[8.0, np.nan, np.nan]))
    assert counted[printed.PAPER].tolist() == ["8", ""]  # a count as the paper prints it
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


# --- sentences that gather ----------------------------------------------------------------------------------------


def test_lists_are_joined_as_one_speaks():
    assert [findings.listed(words) for words in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
    assert findings.more_or_less(gaps(best=(0.1, 0.2), worst=(0.1, 0.3))) == "more for best and worst"


def test_paths_are_told_by_their_sides_and_what_decides():
    row = {
        "claim": "S3.slope.best",
        "paths": 200,
        "n_for": 100,
        "n_undecided": 80,
        "n_against": 20,
        "deciding": "scale",
    }
    told = "of 200 paths 50% for, 40% undecided, 10% against; most turns on the scale"
    assert findings.paths_in_words(row) == told
    assert findings.all_paths(pd.DataFrame([row])) == f"Not whichever way one asks: best, {told}"
    every = row | {"n_for": 200, "n_undecided": 0, "n_against": 0}
    assert findings.all_paths(pd.DataFrame([every])).startswith("Whichever way one asks: best")


def test_the_grid_counts_prompts_for_bad_things_with_all_words():
    keys = pd.MultiIndex.from_product([[1, -1], ["AFINN", "VADER"], ["all words", "without offensive"]],
                                      names=["polarity", "lexicon", "words"])  # fmt: skip
    counted = pd.DataFrame({"prompts": 27, "less_steep": range(8)}, keys)
    told = "Asked for bad things, the side asked for is clearly less steep under 4 of 27 prompts by AFINN and 6 of 27"
    assert findings.grid(counted) == f"{told} prompts by VADER"


def test_a_slope_counts_as_more_than_bias_only_where_the_intervals_lie_apart():
    bias = gaps(best=(-0.1, 0.1), worst=(0.0, 0.3))
    told = findings.beyond_bias(gaps(best=(0.2, 0.3), worst=(0.2, 0.5)), bias)
    assert told == "clearly more than in the small model without a planted bonus under 1 of 2 prompts"
    assert findings.beyond_bias(bias, pd.DataFrame()).endswith("is not known yet")


def test_the_interaction_is_recorded_for_the_control_and_the_least_planted():
    ratios = pd.DataFrame({"model": ["M", "N", "O", effects.ALL], "estimate": np.log([3.0, 2.0, 1.5, 2.1])})
    ends = dict.fromkeys(("ci_low", "ci_high", "these_low", "these_high", "new_low", "new_high"), 0.0)
    found = planted.interactions(ratios.assign(**ends), pd.Series({"M": 1.0, "N": 0.8, "O": 0.0}))
    assert found == {"framing_control": 1.5, "framing_least_planted": 2.0}


def test_slopes_stand_beside_the_planted_bonus_and_the_control_is_the_bias():
    slopes = pd.DataFrame({"prompt": "best", "model": ["M", "N", "O", effects.ALL], "estimate": [0.3, 0.2, 0.05, 0.2],
                           "ci_low": [0.2, 0.0, 0.01, 0.1], "ci_high": [0.4, 0.4, 0.09, 0.3]})  # fmt: skip
    profiles = pd.DataFrame({"frequency": [0.4, 0.3, 0.0], "control": ["", "", "nothing but sentiment"]}, list("MNO"))
    recovered = planted.bonus_beside_slopes(slopes, profiles)
    assert recovered["control"].tolist() == [False, False, True]
    told = planted.bias_in_words(recovered)
    assert "the control's slope is +0.050 (+0.010 to +0.090), a bias" in told and "1 of 2 others lie above" in told
    assert planted.bonus_recorded(recovered) == {"bias_best": 0.05, "spearman_best": 1.0, "planted_slope_best": 0.25}
    assert planted.bonus_title(recovered).startswith("Models with a larger planted bonus show a steeper slope")


def test_a_few_words_by_hand_are_inoffensive_and_give_the_ratio_of_spreads():
    words = pd.DataFrame({"word": [f"w{i}" for i in range(9)] + ["fuck"], "sentiment": [1.0] * 5 + [-2.0] * 5,
                          "best": [1.0, 2, 3, 4, 5, 0, 0, 2, 2, 9]})  # fmt: skip
    few = interaction.few_words(words)
    assert len(few) == 8 and "fuck" not in set(few["word"])
    ratio = interaction.ratios_by_hand(words[words["word"] != "fuck"], ["best"])["best"]
    assert ratio == pytest.approx(np.sqrt(2) / 1)  # SD of 1 to 5 is root 2, of 0 0 2 2 is 1
    assert effects.one_of_each_grade(words)["word"].tolist() == ["w5", "w0"]
