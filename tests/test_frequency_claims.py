"""The claims of section 3.3, on tables small enough to judge by eye."""

import pandas as pd
import pytest

from lib.collection import Collection
from lib.framing import frequency_claims

MODELS = frozenset({"models"})
PROMPTS = ["greatest", "best", "worst"]


def by_prompt(prompts=PROMPTS, **columns):
    return pd.DataFrame(columns, index=pd.Index(prompts, name="prompt"))


def slopes(count, slope=0.2, ci_low=0.1):
    return by_prompt(models=10, n_positive_significant=count, slope=slope, ci_low=ci_low, ci_high=0.3)


@pytest.mark.parametrize(
    "claim, published, corrected, verdict",
    [
        ("S3.freq.raw", 7, 6, "reproduced"),  # the paper's ten are more than half, and so are six
        ("S3.freq.raw", 7, 5, "only as published"),
        ("S3.freq.controlled", 0, 5, "reproduced"),  # the paper's two are not
        ("S3.freq.controlled", 6, 6, "not reproduced"),
    ],
)
def test_a_count_is_on_the_papers_side_of_half(claim, published, corrected, verdict):
    old, new = slopes(published).loc["best"], slopes(corrected).loc["best"]
    count, mean = frequency_claims.count_claims(claim, "best", old, new, MODELS)
    assert (count.as_published, count.corrected, count.verdict) == (published, corrected, verdict)
    assert (mean.corrected, mean.verdict) == (0.2, "reproduced")
    assert frequency_claims.count_claims(claim, "best", old, new, frozenset())[0].verdict == "not testable here"


def test_the_control_should_lower_slopes_for_good_things_and_raise_them_for_bad_ones():
    higher = by_prompt(models=10, gap=0.2, ci_low=0.1, ci_high=0.3, p=0.01)
    lower = by_prompt(models=10, gap=-0.2, ci_low=-0.3, ci_high=-0.1, p=0.01)
    assert [frequency_claims.change_claim(p, higher.loc[p], MODELS).verdict for p in PROMPTS] == [
        "not reproduced"
    ] * 2 + ["reproduced"]
    assert [frequency_claims.change_claim(p, lower.loc[p], MODELS).verdict for p in PROMPTS] == ["reproduced"] * 2 + [
        "not reproduced"
    ]


def test_the_bias_of_the_method_is_stated_where_it_is_known():
    counts = {"S3.freq.raw": (slopes(9), slopes(9)), "S3.freq.controlled": (slopes(2), slopes(2))}
    change = by_prompt(models=10, gap=0.2, ci_low=0.1, ci_high=0.3, p=0.01)
    bias = by_prompt(slope=0.01, ci_low=-0.1, ci_high=0.1, p=0.8)
    without = frequency_claims.frequency_claims(Collection("mine"), PROMPTS, counts=counts, change=change)
    stated = frequency_claims.frequency_claims(Collection("mine"), PROMPTS, counts=counts, change=change, bias=bias)
    [first, *_] = added = [one for one in stated if one.quantity == "bias"]
    assert len(stated) == len(without) + len(added) == 15 + 3
    assert (first.corrected, first.ci_low, first.p, first.verdict) == (0.01, -0.1, 0.8, "not testable here")
