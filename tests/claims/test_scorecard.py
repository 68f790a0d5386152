"""The scorecard: one line per sentence, by its primary rows, with Holm's correction over sentences."""

import pandas as pd
import pytest

from lib.claims import claims
from lib.claims.scorecard import counts, one_page, scorecard, tried
from lib.tables.collection import Collection

BLANK = dict.fromkeys(claims.COLUMNS, "") | dict.fromkeys(claims.NUMBERS)


def stated(claim, quantity, **more) -> dict:
    known = {"claim": claim, "quantity": quantity, "verdict": "not testable here", "evidence": "recomputed"}
    return BLANK | known | more


def table(*rows: dict) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=claims.COLUMNS).astype(dict.fromkeys(claims.NUMBERS, float))


def card(*rows: dict) -> pd.DataFrame:
    return scorecard(table(*rows))


def primary(claim, side, verdict=None, p=None, quantity="gap", **more) -> dict:
    said = {"for": "reproduced", "against": "not reproduced", "undecided": "undecided"}[side]
    ends = {"ci_low": 0.1, "ci_high": 0.2} if p is not None else {}
    more = ends | more
    return stated(claim, quantity, corrected=0.15, side=side, verdict=verdict or said, role="primary", p=p, **more)


def test_a_sentence_goes_by_its_primary_row_whatever_the_others_say():
    against = [stated("S2.tau", name, side="against", verdict="not reproduced") for name in ("min", "max")]
    row = card(primary("S2.tau", "for", p=0.001), *against).loc["S2.tau"]
    assert (row["side"], row["verdict"], row["against"], row["for"]) == ("for", "reproduced", 2, 0)
    assert (row["estimate"], row["ci_low"], row["section"]) == (0.15, 0.1, "2.2")


def test_a_sentence_that_joins_several_needs_all_and_shows_the_one_that_decides():
    rows = [primary("S3.freq.raw", "for", prompt="best"), primary("S3.freq.raw", "undecided", prompt="worst")]
    row = card(*rows).loc["S3.freq.raw"]
    assert (row["side"], row["verdict"], row["prompt"]) == ("undecided", "undecided", "worst")
    row = card(*rows, primary("S3.freq.raw", "against", prompt="greatest")).loc["S3.freq.raw"]
    assert (row["verdict"], row["prompt"]) == ("not reproduced", "greatest")


def test_rows_that_could_be_tested_best_decide():
    words = primary("S2.skew", "against", "on other texts", population="moral words")
    figure = primary("S2.skew", "for", population="figures")
    row = card(words, figure).loc["S2.skew"]
    assert (row["verdict"], row["population"]) == ("reproduced", "figures")
    row = card(words).loc["S2.skew"]
    assert (row["side"], row["verdict"]) == ("against", "on other texts")  # never `not reproduced`


def test_two_families_are_corrected_and_the_one_over_all_sentences_decides():
    claimed = ["S2.tau", "S2.mds", "S3.spread"]
    rows = [primary(claim, "for", p=p) for claim, p in zip(claimed, (0.001, 0.02, 0.03), strict=True)]
    result = card(*rows)
    assert result["p_all"].tolist() == pytest.approx([0.003, 0.04, 0.04])  # 3 p, 2 p, and never below the one before
    assert result["p_section"].tolist() == pytest.approx([0.002, 0.02, 0.03])  # two of section 2, one of section 3
    assert set(result["verdict"]) == {"reproduced"}
    result = card(*rows, primary("S3.slope.best", "for", p=0.04))
    last = result.loc["S3.slope.best"]
    assert (last["p_section"], last["p_all"]) == pytest.approx((0.06, 0.06))
    assert result["verdict"].to_dict() == {"S2.tau": "reproduced"} | dict.fromkeys(
        [*claimed[1:], "S3.slope.best"], "undecided"
    )


def test_a_sentence_of_several_prompts_has_the_largest_p_or_the_smallest_against_it_times_their_number():
    rows = [primary("S3.freq.raw", "for", prompt=prompt, p=p) for prompt, p in {"best": 0.001, "worst": 0.03}.items()]
    assert card(*rows).loc["S3.freq.raw", "p_all"] == 0.03
    against = primary("S3.freq.raw", "against", prompt="greatest", p=0.01)
    result = card(*rows, against).loc["S3.freq.raw"]
    assert (result["p"], result["verdict"]) == (pytest.approx(0.03), "not reproduced")


def test_every_sentence_of_the_paper_belongs_to_a_family():
    family = claims.families()
    assert set(family) == {"section 2", "section 3", "section 4", "section 5", "appendix", ""}
    ours = claims.listed()["says"].str.startswith("Not in the paper")
    assert (family[ours] == "").all() and (family[~ours] != "").all()


def test_raw_scores_decide_before_printed_tables_and_what_is_counted_is_never_added_up():
    printed = primary("S2.tau", "for", evidence="counted", population="figures (printed)")
    raw = primary("S2.tau", "undecided", evidence="recomputed", population="vocabulary")
    result = card(printed, raw, primary("S2.mds", "for", evidence="counted"))
    assert result.loc["S2.tau", ["evidence", "verdict", "population"]].tolist() == [
        "recomputed", "undecided", "vocabulary"]  # fmt: skip
    numbers = counts(result)
    assert numbers.index.tolist() == ["recomputed", "counted"]
    assert numbers.to_dict("list") == {"reproduced": [0, 1], "undecided": [1, 0]}


def test_printed_numbers_have_no_p_and_are_not_corrected():
    exact = stated("S4.data", "items", as_published=7530, side="for", verdict="reproduced", role="primary", p=0.5)
    row = card(exact).loc["S4.data"]  # a p beside a number without an interval is of something else
    assert pd.isna(row["p_all"]) and row["verdict"] == "reproduced" and row["estimate"] == 7530


def test_a_sentence_that_no_row_asks_about_is_not_testable():
    row = card(stated("S5.objective", "", note="needs weights")).loc["S5.objective"]
    assert (row["side"], row["verdict"]) == ("", "not testable here")


def test_a_row_that_we_add_is_shown_with_its_number_and_no_verdict_on_the_paper():
    row = card(stated("C.coverage", "coverage", corrected=0.95, verdict="not in the paper")).loc["C.coverage"]
    assert (row["side"], row["verdict"], row["estimate"]) == ("", "not in the paper", 0.95)


# --- on one page --------------------------------------------------------------------------------------------------


def test_the_page_has_an_estimate_both_corrected_p_values_and_the_evidence():
    result = card(
        primary("S3.slope.best", "for", "on other texts", p=0.01, prompt="best", n=640, population="moral words"),
        primary("S2.tau", "for", p=0.001),
        stated("S5.objective", ""),
    )
    page = one_page(result).set_index("claim")
    row = page.loc["S3.slope.best"]
    assert row["estimate"] == "mean gap in slope, best: 0.15 [0.1, 0.2], n = 640"
    assert (row["p (section)"], row["p (all)"], row["on"]) == ("0.01", "0.01", "moral words")
    assert (row["evidence"], row["side"], row["verdict"]) == ("recomputed", "for", "on other texts")
    assert page.loc["S5.objective", ["estimate", "p (all)", "side"]].tolist() == ["", "", ""]


def test_specifications_are_gathered_from_all_parts_of_the_published_scores(tmp_path, monkeypatch):
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    assert tried(Collection("published")).empty
    for name in ("words", "items"):
        folder = Collection(f"published-{name}").figures
        folder.mkdir(parents=True)
        (folder / "04_specifications.csv").write_text("claim,counted,n_for\nS3.slope.best,3,2\n")
    found = tried(Collection("published"))
    assert found["population"].tolist() == ["items", "moral words"]
    assert found["n_for"].tolist() == [2, 2]
