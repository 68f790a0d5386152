"""The claims of appendix A.1.2: what the printed tables come to, and what is made of counts and correlations."""

import numpy as np
import pandas as pd
import pytest

from lib import claims
from lib.language import claims as language_claims
from lib.language.claims import PRINTED


def test_printed_tables_are_counted_by_hand():
    found = language_claims.printed_function_words().set_index(["model", "prompt"])
    assert len(found) == 10 * 3 and (found["n"] == 20).all()
    # Table A1, gemma-2b: the function words are The I That What It You A Why No In How; the others are Well Oh God Love
    # Everything and signs.
    assert found.loc[("gemma-2b", "greatest"), "function_words"] == 11
    assert found.loc[("gemma-2b", "greatest"), "first"] == " The"
    assert found.loc[("gemma-2-27b-it", "greatest"), "first"] == "Love"
    assert found["kind"].value_counts().to_dict() == {"pretrained": 15, "instruction-tuned": 15}


def test_in_the_printed_tables_pretrained_models_have_more_function_words_than_their_tuned_ones():
    found = language_claims.printed_function_words().set_index(["model", "prompt"])["function_words"]
    for name in ("gemma-2b", "gemma-7b", "gemma-2-2b", "gemma-2-9b", "gemma-2-27b"):
        for prompt in ("greatest", "best", "worst"):
            assert found[name, prompt] > found[f"{name}-it", prompt]


@pytest.fixture
def counts(score_table):
    tables = {
        "A": score_table([" the", "of", "love"], greatest=[3, 2, 1]),
        "B": score_table([" the", "of", "love"], greatest=[1, 2, 3]),
    }
    return language_claims.count_function_words(tables, ["greatest"], {"A": "pretrained"}, n=2)


def test_counted_says_the_kind_of_each_model(counts):
    assert counts.set_index("model")["kind"].to_dict() == {"A": "pretrained", "B": "reward model"}
    assert counts.set_index("model")["function_words"].to_dict() == {"A": 2, "B": 1}


def test_one_model_of_each_kind_decides_nothing(counts):
    tested = language_claims.function_word_claims(counts, "models here", claims.THE_PAPER)
    first = [claim for claim in tested if claim.quantity == language_claims.FIRST]
    assert [(claim.claim, claim.corrected, claim.verdict) for claim in first] == [
        ("A1.logprobs", 1, "undecided"),
        ("A1.rewards", 0, "undecided"),
    ]
    assert (first[0].ci_low, first[0].ci_high) == pytest.approx((0.025, 1))  # one of one: .025 to the power of 1/1
    assert [claim.corrected for claim in tested if claim.quantity == "function_words_of_2"] == [2, 1]


def test_many_models_decide_on_the_side_on_which_they_are(counts):
    many = pd.concat([counts.assign(model=counts["model"] + str(i)) for i in range(10)])
    tested = language_claims.function_word_claims(many, "models here", claims.THE_PAPER)
    assert {claim.verdict for claim in tested if claim.quantity == language_claims.FIRST} == {"reproduced"}
    swapped = many.assign(first_is_function_word=~many["first_is_function_word"])
    tested = language_claims.function_word_claims(swapped, "models here", claims.THE_PAPER)
    assert {claim.verdict for claim in tested if claim.quantity == language_claims.FIRST} == {"not reproduced"}
    untested = language_claims.function_word_claims(many, "models here", frozenset())
    assert {claim.verdict for claim in untested} == {"not testable here"}


def test_numbers_of_the_printed_tables_are_as_published():
    found = language_claims.function_word_claims(language_claims.printed_function_words(), PRINTED, claims.THE_PAPER)
    assert all(claim.corrected is None and claim.as_published is not None for claim in found)
    assert {claim.population for claim in found} == {"printed tables"}
    first = {claim.note: claim for claim in found if claim.prompt == "greatest" and claim.quantity.startswith("models")}
    assert first[f"pretrained, {PRINTED}"].as_published == 4  # of five; gemma-2-27b says Love
    tuned = first[f"instruction-tuned, {PRINTED}"]
    assert (tuned.as_published, tuned.verdict) == (1, "undecided")  # of five, of which half is 2.5
    assert tuned.ci_high == pytest.approx(5 * 0.7164, abs=1e-3)


def test_leakage_is_the_mean_over_models_without_a_verdict():
    found = pd.DataFrame({"prompt": "greatest", "held_constant": "sentiment", "rho": [0.1, 0.2, 0.3]})
    beyond = pd.DataFrame({"prompt": ["greatest"] * 2, "apart": [True, False]})
    rho, apart = language_claims.leakage_claims(found, beyond)
    assert rho.corrected == pytest.approx(0.2) and rho.n == 3 and rho.verdict == "not testable here"
    half = 4.302653 * 0.1 / np.sqrt(3)  # t of two degrees of freedom, sd .1
    assert (rho.ci_low, rho.ci_high) == pytest.approx((0.2 - half, 0.2 + half))
    assert apart.corrected == 1 and apart.n == 2
    assert len(language_claims.leakage_claims(found, pd.DataFrame())) == 1
