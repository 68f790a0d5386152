"""Framing: means of grades, the paper and the published scores, confounding by hand, the funnel."""

import numpy as np
import pandas as pd
import pytest

from lib.claims.claims import THE_PAPER, judged
from lib.framing import charts, effects, frequency, opposites, recomputed
from lib.tables.collection import WORDS, Collection


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


# --- beside the paper ---------------------------------------------------------------------------------------------


def slopes_of(models, prompts=("best", "worst")):
    keys = pd.MultiIndex.from_product([prompts, models, ("positive", "negative")], names=["prompt", "model", "sign"])
    return pd.DataFrame({"slope": 1.0, "ci_low": 0.5, "ci_high": 1.5}, keys).reset_index()


def test_the_papers_slopes_and_the_published_ones_stand_beside_ours():
    ours = slopes_of(("M", "N"))
    beside = recomputed.slopes_with_paper("fig3c_slopes", "04_slopes_by_sign", ours, Collection("mine"))
    assert list(beside["source"].unique()) == [recomputed.PAPER, recomputed.SCORES, recomputed.HERE]
    assert list(beside["prompt"].unique()) == ["best", "worst"]  # those of ours, in their order
    paper = beside[beside["source"] == recomputed.PAPER]
    assert len(paper) == 40 and (paper["read"] == "hidden").sum() == 4
    one = paper.set_index(["prompt", "model", "sign"]).loc[("best", "S-Gem-27B", "negative")]
    assert (one.slope, one.ci_high - one.slope) == (1.0912, pytest.approx(0.0148))
    own = recomputed.slopes_with_paper("fig3c_slopes", "04_slopes_by_sign", slopes_of(("M", "N")), WORDS)
    assert list(own["source"].unique()) == [recomputed.PAPER, recomputed.HERE]  # not twice


def test_words_of_the_corner_are_found_whatever_their_case_and_blanks():
    four = pd.DataFrame({"text": [" Depends", "tea", "mud", "joy"], "best": [3.0, 0, 0, 1], "worst": [3.0, 0, 0, 1]})
    tables = {"M": four, "N": pd.DataFrame({"text": ["depends", "tea"], "best": [0.0, 1], "worst": [1.0, 0]})}
    found = opposites.corner_places(tables, "best", "worst", ("depends", "sonder"))
    assert found.loc["depends", ["models", "both"]].tolist() == [2, 1]  # above the mean of both in M alone
    assert found.loc["depends", "best"] == pytest.approx((1 + 0.5) / 2)
    assert found.loc["sonder", ["models", "both"]].tolist() == [0, 0] and np.isnan(found.loc["sonder", "best"])


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
    slopes = frequency.with_and_without(words, "best")
    assert slopes.loc["alone", "ci_low"] > 2.5  # 2 x 1.5 is what sentiment makes of it
    assert slopes.loc["held", "ci_low"] < 0 < slopes.loc["held", "ci_high"]
    line = np.polyfit(words["log_frequency"], frequency.held_constant(words, "best"), 1)
    assert line[0] == pytest.approx(slopes.loc["held", "estimate"])  # Frisch, Waugh and Lovell


def test_three_words_tell_the_same_as_all(words):
    three = frequency.three_words(words, "best")
    assert three["log_frequency"].is_monotonic_increasing and len(three) == 3
    rises = np.polyfit(three["log_frequency"], three["reward"], 1)[0]
    assert rises > 2
    assert abs(np.polyfit(three["log_frequency"], three[frequency.AT_MEAN], 1)[0]) < 0.5


def test_the_chart_of_confounding_draws_each_word_twice_and_both_lines(words):
    slopes = frequency.with_and_without(words, "best")
    figure = charts.draw_confounding(words, "best", slopes, title="T", lexicon="L")
    for panel, row in zip(figure.axes, ("alone", "held"), strict=True):
        *dots, line = panel.lines
        assert sum(len(one.get_xdata()) for one in dots) == 500
        slope = np.diff(line.get_ydata()) / np.diff(line.get_xdata())
        assert slope == pytest.approx(slopes.loc[row, "estimate"])


# --- the funnel of Fig 4 ----------------------------------------------------------------------------------------------


def frames(best, worst):
    words = [f"w{i}" for i in range(len(best))]
    return {
        name: pd.DataFrame({"A": values, "B": values}, words) for name, values in (("best", best), ("worst", worst))
    }


def test_the_funnel_by_hand():
    best = np.arange(40.0)  # a twentieth of 40 words is two: 0, 1 at the low end, 38, 39 at the high one
    worst = best.copy()
    worst[[38, 39, 10, 11]] = best[[10, 11, 38, 39]]  # high for best is no longer high for worst
    rewards = frames(best, worst)
    assert opposites.in_both(rewards["best"], rewards["worst"], "low").mean().tolist() == [1, 1]
    assert opposites.in_both(rewards["best"], rewards["worst"], "high").mean().tolist() == [0, 0]
    shares = judged(opposites.funnel_claims(rewards, THE_PAPER)).set_index("quantity")
    assert shares.loc["low_less_high"].corrected == 1
    assert shares.loc["high_for_both"].corrected == 0


def test_prompts_that_have_nothing_in_common_are_no_funnel():
    random = np.random.default_rng(5)
    rewards = {p: pd.DataFrame(random.normal(size=(2000, 8)), columns=list("ABCDEFGH")) for p in ("best", "worst")}
    shares = judged(opposites.funnel_claims(rewards, THE_PAPER)).set_index("quantity")
    assert shares.loc["low_less_high"].side == "undecided"
    assert shares.loc["high_for_both"].corrected == pytest.approx(opposites.TAIL, abs=0.02)  # one in twenty by chance
