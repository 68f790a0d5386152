"""The claims of section 3: verdicts by the ends of intervals and by counts, on tables small enough to judge by eye."""

import pandas as pd
import pytest

from lib.claims import quantities
from lib.collection import Collection
from lib.framing import claims as framing
from lib.framing import effects

MODELS = frozenset({"models"})
PROMPTS = ["greatest", "best", "worst"]
LEXICONS = {"grades": "AFINN", "other": "VADER", "signs": "Bing"}


def by_prompt(prompts=PROMPTS, **columns):
    return pd.DataFrame(columns, index=pd.Index(prompts, name="prompt"))


def comparison(t=3.0, ci_low=0.1, n_steeper=9):
    return by_prompt(models=10, n_steeper=n_steeper, gap=0.2, ci_low=ci_low, ci_high=0.5, t=t, df=9, p=0.01,
                     p_wilcoxon=0.02)  # fmt: skip


def gap_of(ci_low=0.1):
    return by_prompt(estimate=0.2, ci_low=ci_low, ci_high=0.4, n=300)


def mixed_of(ci_low=0.1):
    return by_prompt(gap=0.25, ci_low=ci_low, ci_high=0.4, n=3000, p=0.001)


def comparisons(**others):
    table = comparison()
    same = {"published": table, "corrected": table, "published, absolute": table, "absolute": table, "clean": table}
    return same | {"figure": table.drop(index="best")} | others


def gaps_of(**others):
    return {"all": gap_of(), "clean": gap_of(), "other": gap_of(), "mixed": mixed_of()} | others


def verdicts(claims):
    return {one.quantity: one.verdict for one in claims}


# --- slopes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "published, corrected, verdict",
    [
        (0.1, 0.1, "reproduced"),
        (-0.1, 0.1, "reproduced"),
        (0.1, 0.0, "only as published"),
        (0.0, 0.0, "not reproduced"),
    ],
)
def test_a_steeper_side_is_judged_by_the_mean_gap(published, corrected, verdict):
    tests = comparisons(published=comparison(ci_low=published))
    claims = framing.slope_claims("greatest", tests, gap_of(corrected), MODELS)
    assert set(verdicts(claims).values()) == {verdict}
    assert [one.quantity for one in claims] == ["t", "p", "n_steeper", "p_wilcoxon", "gap"]
    assert [one.paper for one in claims] == [2.6, "< .05", 8, None, None]
    assert (claims[-1].corrected, claims[-1].ci_low, claims[-1].n) == (0.2, corrected, 300)
    untested = framing.slope_claims("greatest", tests, gap_of(corrected), frozenset())
    assert set(verdicts(untested).values()) == {"not testable here"}


def test_each_other_gap_is_judged_by_its_own_interval():
    gaps = gaps_of(clean=gap_of(-0.1))
    claims = framing.other_gap_claims("worst", comparisons(), gaps, LEXICONS, MODELS)
    assert verdicts(claims) == {
        "gap_mixed": "reproduced", "gap_without_offensive": "not reproduced", "gap_other_lexicon": "reproduced",
    }  # fmt: skip
    assert claims[1].note == "9 of 10 models steeper; p: paired t over models"
    assert (claims[0].corrected, claims[0].n, claims[0].p) == (0.25, 3000, 0.001)


def test_sizes_of_slopes_count_only_if_the_directions_are_right():
    sizes, figure = framing.absolute_claims("worst", comparisons(), gap_of(-0.1), MODELS)
    assert (sizes.quantity, sizes.verdict) == ("n_steeper_absolute", "only as published")
    assert (figure.as_published, figure.corrected, figure.verdict) == (3.0, None, "reproduced")
    wrong = comparisons(figure=comparison(t=-1.0, ci_low=-0.3))
    assert framing.absolute_claims("worst", wrong, gap_of(), MODELS)[1].verdict == "not reproduced"
    assert len(framing.absolute_claims("best", comparisons(), gap_of(), MODELS)) == 1  # not in this figure


# --- sentiment, spread, agreement ---------------------------------------------------------------------------------


def counted(positive, negative=0):
    return pd.DataFrame({"prompt": PROMPTS, "models": 10, "n_positive_significant": positive,
                         "n_negative_significant": negative})  # fmt: skip


def test_all_models_must_rise_for_good_things_and_most_fall_for_bad_ones():
    apart = gap_of()
    for count, verdict in ((10, "reproduced"), (9, "not reproduced")):
        rising = framing.sentiment_claims("best", (counted(9), counted(count)), apart, LEXICONS, MODELS)[0]
        assert (rising.quantity, rising.paper, rising.verdict) == ("n_positive_significant", 10, verdict)
    for count, verdict in ((6, "reproduced"), (5, "not reproduced")):
        falling = framing.sentiment_claims("worst", (counted(0, 0), counted(0, count)), apart, LEXICONS, MODELS)[0]
        assert (falling.quantity, falling.corrected, falling.verdict) == ("n_negative_significant", count, verdict)


def test_the_two_signs_lie_apart_in_the_direction_of_the_prompt():
    counts = counted(10), counted(10)
    above, below = gap_of(), by_prompt(estimate=-0.2, ci_low=-0.4, ci_high=-0.1, n=300)
    for prompt, apart, verdict in (
        ("best", above, "reproduced"),
        ("best", below, "not reproduced"),
        ("worst", below, "reproduced"),
        ("worst", above, "not reproduced"),
    ):
        assert framing.sentiment_claims(prompt, counts, apart, LEXICONS, MODELS)[1].verdict == verdict


def spread_of(ci_low):
    models, ratios = ["a", "b", effects.ALL], [1.5, 0.9, 1.2]
    rows = {"model": models, "prompt": "best", "ratio": ratios, "ci_low": ci_low, "ci_high": 2.0, "n": 300}
    return pd.DataFrame(rows)


def test_the_spread_is_wider_if_the_interval_of_the_ratio_lies_above_one():
    ratio, wider = framing.spread_claims("best", spread_of(1.1), spread_of(1.1), MODELS)
    assert (ratio.as_published, ratio.corrected, ratio.verdict) == (1.2, 1.2, "reproduced")
    assert (wider.corrected, wider.n, wider.verdict) == (1, 2, "reproduced")  # judged by the ratio, not by one of two
    assert framing.spread_claims("best", spread_of(1.1), spread_of(1.0), MODELS)[0].verdict == "only as published"


@pytest.mark.parametrize(
    "lowest, of_best, of_worst",
    [
        (0.81, "reproduced", "reproduced"),
        (0.8, "not reproduced", "reproduced"),
        (-0.79, "not reproduced", "reproduced"),
        (-0.8, "not reproduced", "not reproduced"),  # that would be the inverse
    ],
)
def test_agreement_of_two_prompts_is_judged_by_the_model_in_which_it_is_lowest(lowest, of_best, of_worst):
    table = pd.DataFrame({"pearson": [0.95, lowest], "tau": [0.7, 0.5]})
    pairs = {("best", "greatest"): table, ("worst", "best"): table}
    claims = framing.agreement_claims(pairs, MODELS)
    assert [one.verdict for one in claims] == [of_best, of_worst]
    assert claims[0].corrected == pytest.approx(0.6) and claims[0].note.startswith("with greatest; ")


def test_the_section_states_every_quantity_that_is_declared():
    stated = framing.framing_claims(
        Collection("mine"), PROMPTS, tests=comparisons(figure=comparison()), gaps=gaps_of(),
        counts=(counted(10), counted(10)), mean_gaps=gap_of(),
        spreads=(pd.concat([spread_of(1.1), spread_of(1.1).assign(prompt="greatest")]),) * 2,
        agreement={pair: pd.DataFrame({"pearson": [0.9], "tau": [0.7]}) for pair in (("best", "greatest"),
                                                                                     ("worst", "best"))},
        lexicons=LEXICONS,
    )  # fmt: skip
    declared = quantities().query("claim.str.startswith('S3') and not claim.str.startswith('S3.freq')")
    assert {(one.claim, one.quantity) for one in stated} == set(
        zip(declared["claim"], declared["quantity"], strict=True)
    )
    assert {one.verdict for one in stated} == {"not testable here"}  # these are not the paper's models
