"""The rules that make verdicts: each by hand, and every quantity declared once with what its rule needs."""

from fnmatch import fnmatchcase

import numpy as np
import pandas as pd
import pytest

from lib import ROOT
from lib.claims import claims, rules
from lib.claims.rules import Numbers

ENDS = ("high", "low")


def row(rule, printed="", within=np.nan, limit=np.nan, needs=""):
    return rules.Declared("S2.tau", "mean", "", "", "primary", printed, rule, within, limit, needs, "", "", "Fig 2A")


def side(declared, *numbers, **named):
    return rules.RULES[declared.rule](declared, Numbers(*numbers, **named))


@pytest.mark.parametrize(
    "printed, within, as_published, corrected, said",
    [
        ("0.29", 0.005, 0.294, None, "for"),  # nothing to correct
        ("0.29", 0.005, 0.296, None, "against"),
        ("0.29", 0.005, 0.285, None, "for"),  # exactly half a unit off
        ("0.55", 0.005, 0.554, 0.504, "only as published"),
        ("0.55", 0.005, 0.404, 0.552, "against"),  # the recipe that the paper names does not give its number
        ("0.55", 0.005, None, 0.552, "for"),
        ("5", 0, None, 6, "against"),
        ("1", 10, None, None, "undecided"),  # what is missing says nothing
        ("1", 10, np.nan, 2, "for"),
    ],
)
def test_a_printed_number_is_judged_by_its_rounding_alone(printed, within, as_published, corrected, said):
    assert side(row("rounds", printed, within), as_published, corrected, 0.0, 100.0) == said


@pytest.mark.parametrize(
    "printed, as_published, corrected, said",
    [
        ("< .001", 0.0005, 0.0005, "for"),
        ("< .001", 0.0005, 0.049, "only as published"),  # the bound is the printed one, not .05
        ("< .001", 0.002, 0.0001, "against"),
        ("< .10", 0.09, 0.09, "for"),
        ("> .10", 0.7, 0.11, "for"),
        ("> .10", 0.7, 0.09, "only as published"),
        ("< .001", None, 0.04, "against"),
    ],
)
def test_a_bound_is_judged_as_it_is_printed(printed, as_published, corrected, said):
    assert side(row("bound", printed), as_published, corrected) == said


@pytest.mark.parametrize("rule, signs", [("above", 1), ("below", -1)])
def test_an_interval_lies_on_one_side_of_a_limit_or_decides_nothing(rule, signs):
    declared = row(rule, limit=0.5)
    ends = {"for": (0.51, 0.7), "against": (0.3, 0.49), "undecided": (0.4, 0.6)}
    for said, (low, high) in ends.items():
        if signs < 0:
            low, high = 1 - high, 1 - low
        assert side(declared, 9.0, 9.0, low, high) == said  # whatever the number itself is
    assert side(declared, 0.9, 0.9) == "undecided"  # a number without an interval
    assert side(declared, 0.9, 0.9, 0.5, 0.5) == "undecided"  # the limit itself is on neither side


def test_places_and_facts_reach_to_their_limit():
    assert side(row("at most", limit=3), 3) == "for"  # a fact, for which nothing was sampled
    assert side(row("at most", limit=3), 4) == "against"
    assert side(row("at most", limit=3), 3, None, 1, 6) == "undecided"
    assert side(row("at least", limit=1), 1) == "for"
    assert side(row("at least", limit=1), 0) == "against"


@pytest.mark.parametrize(
    "printed, low, high, said",
    [
        ("8", 7, 9, "for"),
        ("8", 5, 9, "undecided"),  # five of ten are not on the side of eight
        ("8", 9, 10, "for"),  # more models than the printed majority: the sentence holds the more
        ("8", 6, 7, "against"),  # a majority, but fewer than the printed one
        ("2", 0, 1, "against"),  # fewer than a few is not the same more strongly
        ("2", 0, 4, "for"),
        ("2", 0, 5, "undecided"),
        ("5", 3, 6, "for"),  # half of the models have no other side
        ("5", 6, 8, "against"),
    ],
)
def test_a_count_is_judged_by_the_interval_of_the_count(printed, low, high, said):
    assert side(row("count", printed), None, 6, low, high, 10) == said


@pytest.mark.parametrize(
    "rule, ends, said",
    [
        ("all", (10, 10), "for"), ("all", (9, 10), "undecided"), ("all", (8, 9), "against"),
        ("most", (6, 9), "for"), ("most", (5, 9), "undecided"), ("most", (2, 5), "against"),
        ("at most half", (2, 5), "for"), ("at most half", (2, 6), "undecided"), ("at most half", (6, 9), "against"),
    ],
)  # fmt: skip
def test_all_and_most_models(rule, ends, said):
    assert side(row(rule), None, 7, *ends, 10) == said


def test_a_sentence_about_other_texts_has_a_side_and_no_verdict():
    declared, ours = row("above", limit=0.0, needs="vocabulary"), Numbers(None, 1.0, 0.5, 1.5)
    assert rules.verdict(declared, ours, {"models", "vocabulary"}) == ("for", "reproduced")
    assert rules.verdict(declared, ours, {"models"}) == ("for", "on other texts")
    assert rules.verdict(declared, ours, set()) == ("for", "not testable here")


def test_what_is_printed_is_asked_of_the_papers_own_alone():
    declared = row("rounds", "0.31", 0.005, needs="vocabulary")
    assert rules.verdict(declared, Numbers(0.31), {"models", "vocabulary"}) == ("for", "reproduced")
    assert rules.verdict(declared, Numbers(0.31), {"models"}) == ("", "on other texts")
    assert rules.verdict(declared, Numbers(0.31, 0.2), {"vocabulary"}) == ("", "only as published")


# --- what is declared ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def declared():
    return claims.quantities()


def test_every_quantity_is_declared_once_for_a_claim_of_the_list(declared):
    assert set(declared["claim"]) <= set(claims.listed().index)
    keys = declared.assign(prompt=declared["prompt"].str.split()).explode("prompt").fillna({"prompt": ""})
    assert not keys.duplicated(["claim", "quantity", "prompt", "model"]).any()
    for _, group in keys.groupby(["claim", "quantity"]):  # a row for any prompt would hide one for a single prompt
        assert (group["prompt"] == "").all() or (group["prompt"] != "").all()
        assert (group["model"] == "").all() or (group["model"] != "").all() or group["claim"].iloc[0] == "S4.tops"


def test_every_sentence_has_a_primary_quantity_or_none_that_is_judged(declared):
    roles = declared.groupby("claim")["role"].agg(set)
    assert set(declared["role"]) <= {"primary", "printed", "sensitivity"}
    assert [claim for claim, of_claim in roles.items() if "primary" not in of_claim] == []


def test_every_rule_has_what_it_needs(declared):
    assert set(declared["rule"]) <= set(rules.RULES)
    by_rule = declared.groupby("rule")
    assert by_rule.get_group("rounds")["within"].notna().all()
    for name in ("above", "below", "at least", "at most"):
        assert by_rule.get_group(name)["limit"].notna().all()
    assert by_rule.get_group("bound")["printed"].str.fullmatch(r"[<>] [.][0-9]+").all()
    numbers = declared[declared["rule"].isin(["rounds", "count"]) & (declared["claim"] != "S2.moments")]
    assert pd.to_numeric(numbers["printed"]).notna().all()  # those of S2.moments are in table_3.csv
    assert set(declared["needs"]) == {"", *claims.THE_PAPER}
    assert not (declared["where"] == "").any()


def test_numbers_of_the_papers_figures_are_theirs(declared):
    tau = claims.paper_table("fig2a_tau").drop(columns="nickname").to_numpy()
    pairs = tau[np.triu_indices(10, 1)]
    of_tau = declared[(declared["claim"] == "S2.tau") & (declared["printed"] != "")]
    printed = of_tau.set_index("quantity")["printed"].astype(float)
    assert printed.to_dict() == {"mean": round(pairs.mean(), 3), "min": pairs.min(), "max": pairs.max()}
    assert [claims.declared("S4.asymmetry", end, "GE").printed for end in ENDS] == ["0.19", "0.08"]


@pytest.mark.parametrize("collection", ["embedded", "published"])
def test_every_committed_claim_has_the_number_and_the_kind_of_verdict_that_are_declared(collection):
    path = ROOT / "figures" / collection / "claims.csv"
    committed = pd.read_csv(path, dtype=str, keep_default_na=False)
    for stated in committed[committed["quantity"] != ""].itertuples():
        note = stated.note.removeprefix("published: ")
        kind = note.split(",")[0] if stated.claim in ("A1.logprobs", "A1.rewards") else ""
        how = claims.declared(stated.claim, stated.quantity, stated.prompt, stated.model or kind)
        if how is None:
            assert (stated.paper, stated.side) == ("", "")
            assert stated.verdict in (rules.UNTESTABLE, rules.OURS)
        elif stated.claim != "S2.moments":
            assert stated.paper.removesuffix(".0") == how.printed


def test_every_declared_quantity_is_stated_somewhere(declared):
    """A quantity that is renamed where it is computed would silently lose its verdict."""
    tables = [pd.read_csv(ROOT / "figures" / name / "claims.csv", dtype=str, keep_default_na=False)
              for name in ("embedded", "published")]  # fmt: skip
    stated = set(pd.concat(tables)[["claim", "quantity"]].itertuples(index=False, name=None))
    for row in declared.itertuples():
        assert any(row.claim == claim and fnmatchcase(quantity, row.quantity) for claim, quantity in stated), row
