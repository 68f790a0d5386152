"""A notebook states estimates; rules judge them; sentences get one word; the scorecard gathers
them.
"""

import numpy as np
import pandas as pd
import pytest

from lib import InputError
from lib.claims import claims, rules
from lib.tables.collection import (
    EMBEDDED,
    ITEMS,
    PUBLISHED,
    VOCABULARY,
    WORDS,
    Collection,
)

QUANTITIES = pd.DataFrame(
    [
        # claim, quantity, prompt, role, printed, rule, within, limit, said
        ("S1", "gap", "best", "primary", "", "above", None, 0, "gap"),
        ("S1", "gap_by_ranks", "best", "also", "", "above", None, 0, "by ranks"),
        ("S1", "gap_elsewhere", "", "also", "", "above", None, 0, "elsewhere"),
        ("S1", "beside", "", "shown", "", "", None, None, "beside"),
        ("S1", "count", "best", "printed", "8", "count", None, None, "models"),
        ("S2", "tau", "GE HP", "primary", "0.29", "rounds", 0.005, None, "tau"),
        ("S3", "b", "", "primary", "", "above", None, 0, "b"),
        ("S3", "p", "", "printed", "< .001", "bound", None, None, "p"),
        ("S4", "skew", "", "primary", "", "above", None, 0, "skew"),
        ("S5", "x", "", "primary", "", "above", None, 0, "first"),
        ("S5", "y", "", "primary", "", "above", None, 0, "second"),
        ("B1", "z", "", "primary", "", "above", None, 0, "ours"),
    ],
    columns=[
        "claim",
        "quantity",
        "prompt",
        "role",
        "printed",
        "rule",
        "within",
        "limit",
    ]
    + ["said"],
)
LISTED = pd.DataFrame(
    {
        "claim": ["S1", "S2", "S3", "S4", "S5", "S6", "B1"],
        "section": ["1", "1", "2", "2", "2", "3", rules.BEYOND],
        "says": "it is so",
        "needs": ["words", "items", "words", "vocabulary", "words", "weights", "words"],
        "why": "a long wait",
    }
)
SURE = {"corrected": 0.5, "ci_low": 0.4, "ci_high": 0.6}
UNSURE = {"corrected": 0.1, "ci_low": -0.1, "ci_high": 0.3}


@pytest.fixture
def paper(monkeypatch, tmp_path):
    """Sentences and quantities of our own, the paper's ten models, and an empty folder for what
    notebooks keep.
    """
    tables = {"claims": LISTED, "numbers": QUANTITIES.assign(model="", where="")}
    monkeypatch.setattr(claims, "paper_table", tables.__getitem__)
    claims.listed.cache_clear()
    monkeypatch.setattr(
        Collection, "holds_papers_models", property(lambda study: study.is_published)
    )
    monkeypatch.setattr(
        Collection, "claims", property(lambda study: tmp_path / study.name)
    )
    monkeypatch.setattr(claims, "published_table", lambda name: pd.DataFrame())
    yield tmp_path
    claims.listed.cache_clear()


def word(claim, *estimates, study=WORDS):
    return claims.state(study, "04", [{"claim": claim} | one for one in estimates]).loc[
        claim, "word"
    ]


def test_a_sentence_holds_if_its_interval_and_its_corrected_p_say_so(paper):
    gap = {"quantity": "gap", "prompt": "best"}
    assert word("S1", gap | SURE) == "holds"
    assert word("S1", gap | UNSURE) == "not shown"
    # the p is of a stricter test than the interval
    assert word("S1", gap | SURE | {"p": 0.2}) == "not shown"


@pytest.mark.parametrize(
    ("gap", "ranks", "elsewhere", "expected"),
    [
        (SURE, SURE, SURE, "holds"),
        (SURE, SURE, UNSURE, "partly"),  # another wording lowers
        (UNSURE, UNSURE, SURE, "partly"),  # and raises
        (UNSURE, UNSURE, UNSURE, "not shown"),
    ],
)
def test_another_scale_or_wording_counts_like_the_first_in_both_directions(
    paper, gap, ranks, elsewhere, expected
):
    about = {
        "gap": gap,
        "gap_by_ranks": ranks,
        "gap_elsewhere": elsewhere,
        "beside": UNSURE,
    }
    card = claims.state(
        WORDS,
        "04",
        [claims.estimate("S1", name, "best", **one) for name, one in about.items()],
    )
    assert card.loc["S1", "word"] == expected


def test_a_printed_number_counts_on_the_texts_that_it_is_about(paper):
    rows = [
        {"quantity": "gap", "prompt": "best"} | SURE,
        {"quantity": "count", "prompt": "best", "as_published": 5},
    ]
    # 5 of the models on words say nothing about 8 on the vocabulary
    assert word("S1", *rows) == "holds"
    assert word("S1", *rows, study=VOCABULARY) == "partly"
    rows[1]["as_published"] = 8
    assert word("S1", *rows, study=VOCABULARY) == "holds"


def test_a_number_that_comes_out_with_an_invalid_test_is_a_number_only(paper):
    rows = [{"quantity": "b"} | UNSURE, {"quantity": "p", "as_published": 0.0001}]
    assert word("S3", *rows, study=VOCABULARY) == "number only"
    rows[1]["as_published"] = 0.01
    assert word("S3", *rows, study=VOCABULARY) == "not shown"


def test_what_no_data_could_show_is_not_testable(paper):
    # it is about the vocabulary
    assert word("S4", {"quantity": "skew"} | SURE) == "not testable here"
    assert word("S4", {"quantity": "skew"} | SURE, study=VOCABULARY) == "holds"
    # from the paper's own table
    assert (
        word("S4", {"quantity": "skew", "evidence": claims.COUNTED} | SURE) == "holds"
    )
    assert word("S3", {"quantity": "b"}) == "not testable here"  # nothing was computed


def test_a_test_that_is_not_counted_leaves_the_family(paper):
    # the sentence is about the vocabulary, so this p-value corrects no other
    claims.state(WORDS, "02", [ONE, ONE | {"claim": "S4", "quantity": "skew"}])
    gathered = claims.gather(PUBLISHED).set_index("claim")["p_corrected"].dropna()
    assert gathered.to_dict() == {"S3": 0.04}


ONE = {
    "claim": "S3",
    "quantity": "b",
    "corrected": 1,
    "ci_low": 0.1,
    "ci_high": 1.9,
    "p": 0.04,
}
OTHER = {
    "claim": "S5",
    "quantity": "x",
    "corrected": 1,
    "ci_low": -1,
    "ci_high": 3,
    "p": 0.5,
}


def test_all_primary_tests_of_the_scorecard_are_corrected_together(paper, monkeypatch):
    claims.state(WORDS, "03", [ONE])
    claims.state(
        WORDS,
        "05",
        [
            OTHER,
            ONE | {"claim": "S1", "quantity": "gap", "prompt": "best"} | {"p": 0.01},
        ],
    )
    gathered = claims.gather(PUBLISHED).set_index("claim")["p_corrected"].dropna()
    # .04 x 3/2, .01 x 3/1, .5 x 3/3
    assert gathered.to_dict() == pytest.approx({"S3": 0.06, "S1": 0.03, "S5": 0.5})
    # A notebook that runs alone corrects with the other tests of the committed scorecard.
    monkeypatch.setattr(
        claims, "published_table", lambda name: claims.stated(WORDS, [ONE, OTHER])
    )
    # .04 x 2/1
    assert claims.state(WORDS, "03", [ONE]).loc["S3", "word"] == "not shown"
    # whatever else it tests
    assert claims.state(WORDS, "03", [ONE, OTHER]).loc["S3", "word"] == "not shown"


def test_models_other_than_the_papers_have_no_word(paper):
    assert (
        word("S1", {"quantity": "gap", "prompt": "best"} | SURE, study=EMBEDDED) == ""
    )


def test_a_question_of_ours_is_beyond_the_paper(paper):
    assert word("B1", {"quantity": "z"} | SURE) == rules.BEYOND


def test_an_estimate_that_nobody_declared_is_refused(paper):
    with pytest.raises(InputError, match="gap worst of S1 is not declared"):
        claims.state(WORDS, "04", [claims.estimate("S1", "gap", "worst")])


def test_the_scorecard_takes_each_sentence_from_the_data_that_can_test_it(paper):
    claims.state(
        WORDS,
        "02",
        [
            {"claim": "S4", "quantity": "skew"} | SURE,
            {"claim": "S3", "quantity": "b"} | SURE,
        ],
    )
    claims.state(
        ITEMS,
        "06",
        [{"claim": "S2", "quantity": "tau", "prompt": "GE", "as_published": 0.26}],
    )
    gathered = claims.gather(PUBLISHED)
    words = gathered.drop_duplicates("claim").set_index("claim")["word"]
    # In the paper's order; what nobody stated cannot be tested here, and a question of ours is left
    # out.
    assert list(words.index) == ["S1", "S2", "S3", "S4", "S5", "S6"]
    assert (
        words["S2"] == "not shown"
        and words["S3"] == "holds"
        and words["S6"] == "not testable here"
    )
    assert words["S4"] == "not testable here"
    claims.state(VOCABULARY, "02", [{"claim": "S4", "quantity": "skew"} | SURE])
    words = claims.gather(PUBLISHED).drop_duplicates("claim").set_index("claim")["word"]
    assert words["S4"] == "holds" and words["S3"] == "holds"


def test_what_was_counted_in_printed_tables_reaches_the_published_scorecard(paper):
    counted = {
        "claim": "S4",
        "quantity": "skew",
        "as_published": 3,
        "evidence": claims.COUNTED,
    }
    # the second is on small models
    claims.state(EMBEDDED, "08", [counted, {"claim": "S3", "quantity": "b"} | SURE])
    [kept] = (paper / PUBLISHED.name).glob("*.csv")
    assert claims.read_claims(kept, claims.KEPT)["claim"].tolist() == ["S4"]
    gathered = claims.gather(PUBLISHED).set_index("claim")
    assert (
        gathered.loc["S4", "word"] == "holds"
        and gathered.loc["S4", "population"] == "whole vocabularies"
    )


def test_claims_read_back_as_they_were_written(paper):
    row = {"claim": "S3", "quantity": "b", "remark": "null"} | SURE
    claims.state(WORDS, "02", [row])
    [path] = (paper / WORDS.name).glob("*.csv")
    [again] = claims.read_claims(path, claims.KEPT).itertuples()
    assert again.note == "null" and again.ci_low == 0.4 and np.isnan(again.as_published)


# --- rules ----------------------------------------------------------------------------------------


def number(rule, printed="", within=None, limit=None, **numbers):
    """A row of claims.declared with the numbers that it is given."""
    row = {"rule": rule, "paper": printed, "within": within, "limit": limit}
    numbers = dict.fromkeys(claims.NUMBERS) | numbers
    floats = dict.fromkeys([*claims.NUMBERS, "within", "limit"], float)
    return pd.DataFrame([row | numbers]).astype(floats)


ROUNDED = {"printed": "0.29", "within": 0.005}
ABOVE_0 = {"limit": 0, "corrected": 0.54, "ci_low": 0.48, "ci_high": 0.61}
BELOW_0 = {"limit": 0, "corrected": -1, "ci_low": -2}


@pytest.mark.parametrize(
    ("expected", "rule", "given"),
    [
        (True, "rounds", ROUNDED | {"as_published": 0.2936, "corrected": 0.9}),
        (False, "rounds", ROUNDED | {"as_published": 0.2632}),
        # 0.02% less: the same number
        (True, "rounds", {"printed": "1805124", "within": 0, "corrected": 1804776}),
        (True, "bound", {"printed": "< .05", "as_published": 0.01}),
        (False, "bound", {"printed": "> .10", "as_published": 0.01}),
        (True, "above", ABOVE_0),
        (False, "above", ABOVE_0 | {"limit": 0.5}),
        (True, "below", BELOW_0 | {"ci_high": -0.1}),
        (True, "at least", {"limit": 3, "corrected": 3}),
        (False, "more than", {"limit": 3, "corrected": 3}),
        (True, "count", {"printed": "8", "as_published": 8, "corrected": 2}),
        (True, "all", {"corrected": 10, "n": 10}),
        (False, "most", {"corrected": 5, "n": 10}),
        (True, "at most half", {"corrected": 5, "n": 10}),
        (None, "above", {"limit": 0}),
    ],
)
def test_rules(expected, rule, given):
    [says] = rules.judge(number(rule, **given))["says"]
    assert pd.isna(says) if expected is None else says == expected


def test_a_count_of_models_has_an_exact_interval():
    nine = rules.count_of_models(9, 10)
    # 9 or more, or 1 or fewer, of 10 fair coins: 2 x (10 + 1) ways
    assert nine["p"] == pytest.approx(22 / 1024)
    # a share of low gives nine or more of ten in 2.5% of samples
    low = nine["ci_low"] / 10
    assert 10 * low**9 * (1 - low) + low**10 == pytest.approx(0.025)


def test_the_p_that_an_interval_implies():
    # (.7 - .5) / .1 = 2 standard errors above the limit
    low, high = 0.7 - 1.959964 * 0.1, 0.7 + 1.959964 * 0.1
    sampled = number("above", limit=0.5, corrected=0.7, ci_low=low, ci_high=high)
    [sampled] = rules.judge(sampled).itertuples()
    assert rules.p_of_interval(sampled) == pytest.approx(0.0455, abs=1e-4)
    [counted] = rules.judge(number("above", limit=0.5, corrected=0.7)).itertuples()
    assert np.isnan(rules.p_of_interval(counted))


def test_every_declared_quantity_has_a_rule_a_role_and_a_sentence():
    table = claims.paper_table("numbers")
    assert set(table.loc[table["role"] != "shown", "rule"]) <= set(rules.RULES)
    assert set(table["role"]) == set(rules.ROLES)
    assert set(table["claim"]) <= set(claims.listed().index) and table["said"].all()
