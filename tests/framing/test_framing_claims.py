"""The claims of section 3: tidy tables joined with what is declared, and the verdicts that follow."""

import pandas as pd
import pytest

from lib.claims.claims import beside_paper, judged, papers_own, quantities
from lib.framing import claims as framing
from lib.framing import effects
from lib.tables.collection import Collection

OWN = frozenset({"models", "vocabulary"})
WORDS = frozenset({"models"})  # the paper's models on other texts
PROMPTS = ["greatest", "best", "worst", "greatest_world_one"]  # of the last the paper says nothing
LEXICONS = {"grades": "AFINN", "other": "VADER", "signs": "Bing"}
COUNT = {"count": 9, "ci_low": 7, "ci_high": 10, "models": 10, "p_all": 0.02}


def by_prompt(prompts=PROMPTS, **columns):
    return pd.DataFrame(columns, index=pd.Index(prompts, name="prompt"))


def mean(ci_low=0.1, ci_high=0.4):
    middle = (ci_low + ci_high) / 2
    return by_prompt(estimate=middle, ci_low=ci_low, ci_high=ci_high, p=0.03, new_low=-0.5, new_high=0.9, n=300)


def comparison(t=3.0, ci_low=0.1):
    return by_prompt(models=10, n_steeper=9, gap=0.2, ci_low=ci_low, ci_high=0.5, t=t, df=9, p=0.01)


def spread(ci_low=1.1, estimate=1.2):
    table = mean(ci_low, 2.0).assign(estimate=estimate).reset_index()
    return pd.concat([table.assign(model="M", estimate=9.0), table.assign(model=effects.ALL)])


CHOICES = pd.concat(
    pd.DataFrame({"prompt": prompt, "estimate": [0.3, 0.2, 0.4, 0.1], "ci_low": [0.2, 0.05, 0.3, 0.02],
                  "ci_high": [0.4, 0.3, 0.5, 0.3], "p": [0.001, 0.02, 0.0001, 0.03], "n": [90, 70, 80, 60]})
    for prompt in PROMPTS
)  # fmt: skip


def framing_stated(gap=None, **others):
    """Everything that notebook 04 states about single prompts; others: tables that are not the usual ones."""
    names = ("steeper", "rising", "falling", "apart", "wider")
    counts = {name: by_prompt(**(COUNT | others.get(f"n_{name}", {}))) for name in names}
    counts["published"] = by_prompt(n_positive_significant=9, n_negative_significant=6)
    gaps = dict.fromkeys(("all", "without_offensive", "other_lexicon"), mean() if gap is None else gap)
    return framing.framing_claims(
        published=comparison(), gaps=gaps | {"choices": others.get("choices", CHOICES)}, counts=counts,
        apart=others.get("apart", mean()), spreads=others.get("spreads", (spread(), spread())), lexicons=LEXICONS,
    )  # fmt: skip


def robustness_stated(figure=(0.1, 0.2), gap=None, steeper=(7, 10), **others):
    """Everything that notebook 04b states about single prompts; figure: the range of p on the slopes of Fig 3C."""
    same = dict.fromkeys(("published", "corrected", "published, absolute", "absolute"), comparison()) | others
    f = by_prompt(t_models=3.0, t_words=2.5, f=3.7, df=30.0, p=0.06)
    low, high = figure
    drawn = by_prompt(models=10, hidden=4, t=1.5, t_low=1.2, t_high=1.8, p=(low + high) / 2, p_low=low, p_high=high)
    gaps = dict.fromkeys(("all", "disattenuated", "absolute"), mean() if gap is None else gap)
    sizes = by_prompt(**(COUNT | dict(zip(("ci_low", "ci_high"), steeper, strict=True))))
    return framing.robustness_claims(tests=same | {"min_f": f, "figure": drawn}, gaps=gaps, steeper_absolute=sizes)


def judge(rows, own=OWN):
    """Return (claim, quantity) -> its judged row; None where there is no number."""
    table = judged(rows, own).astype(object)
    return {(one.claim, one.quantity): one for one in table.where(table.notna(), None).itertuples(index=False)}


# --- the join -----------------------------------------------------------------------------------------------------


def test_a_row_is_made_for_every_prompt_that_is_declared():
    rows = framing.rows_of("S3.slope.{}", "gap", mean(), note="N")
    assert [each["claim"] for each in rows] == ["S3.slope.greatest", "S3.slope.best", "S3.slope.worst"]
    assert rows[0] == {"claim": "S3.slope.greatest", "quantity": "gap", "prompt": "greatest", "model": "", "note": "N",
                       "corrected": 0.25, "ci_low": 0.1, "ci_high": 0.4, "p": 0.03, "n": 300}  # fmt: skip
    [single] = framing.rows_of("S3.slope.{}", "p", by_prompt(estimate=[0.04, 1, 1, 1], models=10))
    assert (single["prompt"], single["corrected"], single["n"]) == ("greatest", 0.04, 10)  # of no other is p printed
    [missing] = framing.rows_of("S3.freq.change", "change", mean().assign(estimate=float("nan")))
    assert missing["prompt"] == "worst" and "corrected" not in missing


@pytest.mark.parametrize(
    "ci_low, ci_high, verdict",
    [(0.1, 0.4, "reproduced"), (-0.1, 0.4, "undecided"), (-0.4, -0.1, "not reproduced")],
)
def test_a_steeper_side_is_judged_by_the_mean_gap(ci_low, ci_high, verdict):
    rows, key = framing_stated(mean(ci_low, ci_high)), ("S3.slope.worst", "gap")
    first = judge(rows)[key]
    assert (first.verdict, first.role, first.n) == (verdict, "sensitivity", 300)
    assert first.note == "a new model: -0.50 to 0.90"
    other = judge(rows, WORDS)[key]
    side = {"reproduced": "for", "not reproduced": "against"}.get(verdict, "undecided")
    assert (other.verdict, other.side) == ("on other texts", side)
    assert judge(rows, frozenset())[key].verdict == "not testable here"


def test_what_is_printed_for_greatest_is_judged_as_printed():
    found = judge(robustness_stated())
    assert found["S3.slope.greatest", "t"].verdict == "not reproduced"  # 3.0 is not 2.6
    assert found["S3.slope.greatest", "p"].verdict == "reproduced"  # .01 as published, .03 corrected
    assert found["S3.slope.greatest", "p_min_f"].verdict == "not reproduced"  # .06
    near = robustness_stated(published=comparison(t=2.64), corrected=comparison(t=2.56))
    assert judge(near)["S3.slope.greatest", "t"].verdict == "reproduced"


def test_no_p_counts_for_a_gap_of_the_wrong_sign():
    found = judge(robustness_stated(gap=mean(-0.4, -0.1)))
    p = found["S3.slope.greatest", "p"]
    assert (p.as_published, p.corrected, p.verdict) == (0.01, 1.0, "only as published")
    assert found["S3.slope.greatest", "p_min_f"].corrected == 1.0


@pytest.mark.parametrize(
    "ends, verdict",
    [((6, 10), "reproduced"), ((4, 9), "undecided"), ((0, 7), "not reproduced"), ((9, 10), "reproduced")],
)
def test_a_count_is_judged_by_its_interval(ends, verdict):
    """Of eight printed: a smaller count speaks against, a larger one for, and one that reaches half does not decide."""
    rows = framing_stated(n_steeper={"count": 8, "ci_low": ends[0], "ci_high": ends[1]})
    assert judge(rows)["S3.slope.greatest", "n_steeper"].verdict == verdict


def test_the_sentence_about_slopes_needs_every_choice():
    def judged_by(**columns):
        return judge(framing_stated(choices=CHOICES.assign(**columns)))["S3.slope.worst", "gap_every_choice"]

    one = judged_by()
    assert (one.role, one.verdict, one.ci_low, one.ci_high) == ("primary", "reproduced", 0.02, 0.5)
    assert (one.p, one.n, one.corrected) == (0.03, 60, pytest.approx(0.25))  # the largest p, the fewest words
    assert one.note.startswith("4 choices of lexicon and words, 4 above 0 and 0 below")
    assert judged_by(ci_low=[0.2, -0.05, 0.3, 0.02] * len(PROMPTS)).verdict == "undecided"
    apart = judged_by(estimate=[-0.3, 0.2, 0.4, 0.1] * len(PROMPTS), ci_low=[-0.4, 0.05, 0.3, 0.02] * len(PROMPTS))
    assert (apart.verdict, apart.p) == ("undecided", 1.0)


def test_sizes_of_slopes_are_asked_for_worst_alone():
    found = judge(robustness_stated(gap=mean(-0.4, -0.1), steeper=(4, 6), absolute=comparison(ci_low=-0.1)))
    assert {key[1]: one.verdict for key, one in found.items() if key[1].endswith("absolute")} == {
        "gap_absolute": "not reproduced", "t_absolute": "undecided", "n_steeper_absolute": "reproduced"}  # fmt: skip
    t = found["S3.slope.worst", "t_absolute"]
    assert (t.as_published, t.corrected, t.p, t.ci_low) == (3.0, 3.0, 0.01, None)  # judged by the gap's interval


@pytest.mark.parametrize(
    "prompt, p, verdict",
    [("worst", (0.1, 0.2), "not reproduced"), ("worst", (0.01, 0.2), "undecided"),
     ("greatest", (0.01, 0.04), "reproduced")],
)  # fmt: skip
def test_the_figure_decides_only_where_all_that_can_be_read_agrees(prompt, p, verdict):
    found = judge(robustness_stated(figure=p), frozenset())
    one = found[f"S3.slope.{prompt}", "p_from_figure"]
    assert (one.verdict, one.population) == (verdict, "printed figures") and "t from 1.20 to 1.80" in one.note
    t = found["S3.slope.greatest", "t_from_figure"]
    assert (t.paper, t.as_published, t.verdict) == (2.6, 1.5, "not reproduced")


# --- sentiment, spread --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ends, verdict", [((10, 10), "reproduced"), ((8, 10), "undecided"), ((6, 9), "not reproduced")]
)
def test_rewards_rise_in_all_models_or_not(ends, verdict):
    rows = framing_stated(n_rising={"count": ends[1], "ci_low": ends[0], "ci_high": ends[1]})
    one = judge(rows)["S3.sentiment", "n_positive_significant"]
    assert (one.verdict, one.role, one.as_published, one.p) == (verdict, "primary", 9, 0.02)


@pytest.mark.parametrize(
    "ends, greatest, worst",
    [((0.1, 0.4), "reproduced", "not reproduced"), ((-0.4, -0.1), "not reproduced", "reproduced"),
     ((-0.4, 0.1), "undecided", "undecided")],
)  # fmt: skip
def test_the_two_signs_lie_apart_in_the_direction_of_the_prompt(ends, greatest, worst):
    found = judge(framing_stated(apart=mean(*ends), n_falling={"count": 6, "ci_low": 5, "ci_high": 8}))
    assert found["S3.sentiment", "positive_minus_negative"].verdict == greatest
    assert found["S3.sentiment.worst", "positive_minus_negative"].verdict == worst
    assert found["S3.sentiment.worst", "n_negative_significant"].verdict == "undecided"  # five are not most


def test_the_spread_is_wider_if_the_interval_of_the_ratio_lies_above_one():
    ratio = judge(framing_stated())["S3.spread", "ratio"]
    assert (ratio.as_published, ratio.corrected, ratio.verdict) == (1.2, None, "reproduced")  # nothing was corrected
    other = judge(framing_stated(spreads=(spread(), spread(0.9, 1.3))))["S3.spread", "ratio"]
    assert (other.corrected, other.verdict) == (1.3, "undecided")


# --- interaction, agreement ---------------------------------------------------------------------------------------


def sides_of(**low):
    """Rows of interaction.sides; low: the lower ends, `rewards` or `normal`, where they are not 2."""
    rows = [
        {"scale": scale, "lexicon": lexicon, "words": words, "wording": wording, "models": 10, "n_above": 10,
         "n_clearly": 10, "estimate": 3.0, "ci_low": low.get(scale.split()[0], 2.0), "ci_high": 4.0, "new_low": 1.5,
         "new_high": 6.0, "p": 0.001, "n": 300}
        for scale in ("rewards", "normal scores")
        for lexicon in ("AFINN", "Bing")
        for words in ("all words", "without offensive")
        for wording in ("best and worst", "27 pairs")
    ]  # fmt: skip
    return pd.DataFrame(rows)


MODELS = pd.Series({"count": 10, "ci_low": 10, "ci_high": 10, "models": 10})


def test_the_interaction_is_judged_by_signs_and_counts_every_choice():
    found = {
        key[1]: one for key, one in judge(framing.interaction_claims(sides_of(normal=0.9), MODELS, "Bing")).items()
    }
    assert {name: one.verdict for name, one in found.items()} == {
        "ratio": "reproduced", "ratio_without_offensive": "reproduced", "ratio_of_normal_scores": "undecided",
        "ratio_many_wordings": "reproduced", "n_models": "reproduced", "n_choices": "reproduced",
    }  # fmt: skip
    assert found["ratio"].note == "Bing, best and worst, all words; a new model: 1.50 to 6.00"
    assert found["ratio"].n == 300 and found["ratio_many_wordings"].note.startswith("Bing, 27 pairs, all words")
    assert (found["n_choices"].corrected, found["n_choices"].n) == (8, 8)  # of rewards; normal scores are no choice
    weaker = judge(framing.interaction_claims(sides_of(rewards=0.9), MODELS, "Bing"))
    assert weaker["S3.framing.interaction", "n_choices"].verdict == "not reproduced"
    assert weaker["S3.framing.interaction", "ratio"].verdict == "undecided"


def agreement_stated(lowest, sum_low):
    alike = pd.DataFrame({"model": ["a", "b", effects.ALL], "pearson": [0.95, lowest, 0.9], "tau": 0.7,
                          "ci_low": [0.94, lowest - 0.05, 0.8], "ci_high": [0.96, lowest + 0.05, 0.95], "p": 0.001,
                          "n": 2000})  # fmt: skip
    inverse = {"model": effects.ALL, "estimate": 0.6, "ci_low": sum_low, "ci_high": 1.2, "p": 0.1, "n": 9}
    return framing.agreement_claims(alike, pd.DataFrame([inverse]))


def test_agreement_is_above_zero_in_every_model_and_the_inverse_is_a_sum_of_zero():
    found = judge(agreement_stated(0.02, -0.1))
    assert {key: one.verdict for key, one in found.items()} == {
        ("S3.framing.corr", "mean"): "reproduced", ("S3.framing.corr", "lowest"): "undecided",
        ("S3.framing.inverse", "sum"): "undecided",
    }  # fmt: skip
    assert found["S3.framing.corr", "lowest"].note == "b"


def test_words_of_the_corner_are_those_that_the_table_can_hold():
    found = judge(framing.corner_claims(pd.Series({"depends": 5, "impossible": 0, "sonder": 0}), 10), frozenset())
    assert {key[1]: one.verdict for key, one in found.items()} == {
        "n_words": "not reproduced", "n_depends": "reproduced", "n_impossible": "not reproduced"}  # fmt: skip
    both = framing.corner_claims(pd.Series({"depends": 5, "impossible": 6, "sonder": 0}), 10)
    words = judge(both, frozenset())["S3.framing.corner", "n_words"]
    assert (words.as_published, words.n, words.verdict, words.role) == (2, 2, "reproduced", "primary")


# --- frequency ----------------------------------------------------------------------------------------------------


def frequency_stated(ci_low=0.1, ends=(6, 10), bias=None):
    claims = ("S3.freq.raw", "S3.freq.controlled")
    counts = by_prompt(count=8, ci_low=ends[0], ci_high=ends[1], models=10)
    return framing.frequency_claims(
        published=dict.fromkeys(claims, by_prompt(n_positive_significant=7)), counts=dict.fromkeys(claims, counts),
        slopes=dict.fromkeys(claims, mean(ci_low, ci_low + 0.2)), change=mean(ci_low, ci_low + 0.2),
        bias=pd.DataFrame() if bias is None else bias,
    )  # fmt: skip


def judged_by_prompt(rows, own=OWN):
    return {(one.claim, one.quantity, one.prompt): one for one in judged(rows, own).itertuples()}


@pytest.mark.parametrize("ci_low, verdict", [(0.1, "reproduced"), (-0.1, "undecided"), (-0.3, "not reproduced")])
def test_a_slope_and_what_the_control_changes_are_judged_by_their_intervals(ci_low, verdict):
    found = judged_by_prompt(frequency_stated(ci_low))
    assert found["S3.freq.raw", "slope", "best"].verdict == verdict
    assert found["S3.freq.change", "change", "worst"].verdict == verdict
    assert {one.verdict for one in judged_by_prompt(frequency_stated(ci_low), WORDS).values()} == {"on other texts"}


@pytest.mark.parametrize(
    "prompt, ends, verdict",
    [
        ("greatest", (6, 10), "reproduced"),  # the paper's eight of ten is among them
        ("greatest", (5, 10), "undecided"),  # but so is half
        ("greatest", (2, 7), "not reproduced"),
        ("best", (6, 9), "not reproduced"),  # ten of ten
    ],
)
def test_a_count_of_frequency_is_judged_by_its_interval(prompt, ends, verdict):
    one = judged_by_prompt(frequency_stated(ends=ends))["S3.freq.raw", "n_positive_significant", prompt]
    assert (one.as_published, one.corrected, one.verdict) == (7, 8, verdict)


def test_the_bias_of_the_method_stands_beside_slopes_at_equal_sentiment():
    found = judged_by_prompt(frequency_stated(bias=by_prompt(["best"], slope=0.01, ci_low=-0.1, ci_high=0.1)))
    assert "a model without a bonus: +0.010 (-0.100 to +0.100)" in found["S3.freq.controlled", "slope", "best"].note
    assert "bonus" not in found["S3.freq.raw", "slope", "best"].note
    assert "bonus" not in found["S3.freq.controlled", "slope", "worst"].note  # none is known for this prompt


# --- the whole section --------------------------------------------------------------------------------------------


def test_the_section_states_every_quantity_that_is_declared_once_and_none_of_them_twice():
    rows = framing_stated() + robustness_stated() + frequency_stated() + agreement_stated(0.9, 0.1)
    rows += framing.interaction_claims(sides_of(), MODELS, "Bing")
    stated = judged(rows)
    table = quantities()
    pattern = r"S3\.(sentiment|spread|slope|freq|framing\.(interaction|corr|inverse))"
    is_here = table["claim"].str.match(pattern)
    declared = [(one.claim, one.quantity, prompt) for one in table[is_here].itertuples()
                for prompt in one.prompt.split() or [""]]  # fmt: skip
    assert sorted(stated[["claim", "quantity", "prompt"]].itertuples(index=False, name=None)) == sorted(declared)
    primary = table[is_here & (table["role"] == "primary")]
    assert not primary["claim"].duplicated().any() and set(primary["claim"]) == set(stated["claim"])
    is_of_figure = stated["population"] == framing.PRINTED
    assert set(stated.loc[~is_of_figure, "verdict"]) == {"not testable here"}  # not the paper's models
    assert set(stated.loc[is_of_figure, "quantity"]) == {"t_from_figure", "p_from_figure"}
    assert papers_own(Collection("mine")) == frozenset()


def test_what_the_paper_asks_or_prints_stands_beside_the_published_scores():
    table = judged(framing_stated() + robustness_stated(), OWN)
    shown = beside_paper(table).set_index(["claim", "quantity"])
    assert ("S3.slope.greatest", "gap") not in shown.index  # neither asked nor printed
    assert shown.loc[("S3.slope.greatest", "n_steeper"), "paper"] == 8
    assert shown.loc[("S3.slope.worst", "gap_every_choice"), "corrected"] == "0.25"
    assert shown.loc[("S3.slope.worst", "n_steeper"), "published scores"] == "0"  # as committed
