"""The rules that make verdicts: each by hand, and every quantity declared once with what its rule needs."""

from fnmatch import fnmatchcase

import numpy as np
import pandas as pd
import pytest

from lib import ROOT, claims, rules

ENDS = ("high", "low", "difference")


def row(rule, printed="", within=np.nan, limit=np.nan):
    return rules.Declared("S2.tau", "mean", "", "", printed, rule, within, limit, "", "", "", "Fig 2A")


@pytest.mark.parametrize(
    "printed, within, as_published, corrected, verdict",
    [
        ("0.29", 0.005, 0.294, None, "reproduced"),  # nothing to correct
        ("0.29", 0.005, 0.296, None, "not reproduced"),
        ("0.29", 0.005, 0.285, None, "reproduced"),  # exactly half a unit off
        ("0.55", 0.005, 0.554, 0.504, "only as published"),
        ("0.55", 0.005, 0.404, 0.552, "reproduced"),
        ("0.55", 0.005, 0.404, 0.463, "not reproduced"),
        ("5", 0, None, 6, "not reproduced"),
        ("5", 0, None, 5, "reproduced"),
        ("1", 10, None, None, "not reproduced"),  # what is missing agrees with nothing
        ("1", 10, np.nan, None, "not reproduced"),
        ("1", 10, 1, np.nan, "only as published"),
    ],
)
def test_a_number_is_reproduced_if_it_rounds_to_the_papers(printed, within, as_published, corrected, verdict):
    assert rules.judge(row("rounds", printed, within), as_published, corrected) == verdict


@pytest.mark.parametrize(
    "printed, limit, as_published, corrected, verdict",
    [
        ("< .001", 0.05, 0.0005, 0.0005, "reproduced"),
        ("< .001", 0.05, 0.0005, 0.049, "reproduced"),  # a corrected test is asked for significance, not for .001
        ("< .001", 0.05, 0.0005, 0.051, "only as published"),
        ("< .001", 0.05, 0.002, 0.0001, "not reproduced"),  # the paper's own recipe does not give its bound
        ("< .10", 0.10, 0.09, 0.09, "reproduced"),
        ("> .10", 0.10, 0.7, 0.11, "reproduced"),
        ("> .10", 0.10, 0.7, 0.09, "only as published"),
        ("< .001", 0.05, None, 0.04, "reproduced"),
        ("< .001", 0.05, None, 0.06, "not reproduced"),
    ],
)
def test_bounds(printed, limit, as_published, corrected, verdict):
    assert rules.judge(row("bound", printed, limit=limit), as_published, corrected) == verdict


@pytest.mark.parametrize(
    "rule, holds, fails",
    [
        ("above", 0.51, 0.5),
        ("below", 0.49, 0.5),
        ("at least", 0.5, 0.49),
        ("at most", 0.5, 0.51),
    ],
)
def test_a_side_of_a_limit(rule, holds, fails):
    declared = row(rule, limit=0.5)
    assert rules.judge(declared, fails, holds) == rules.judge(declared, holds) == "reproduced"
    assert rules.judge(declared, holds, fails) == "only as published"
    assert rules.judge(declared, fails, fails) == rules.judge(declared, None, fails) == "not reproduced"


@pytest.mark.parametrize(
    "rule, holds",
    [
        ("all", [10]),
        ("most", [6, 10]),  # of ten models five are not most
        ("at most half", [0, 5]),
        ("same half", [6, 10]),  # as the paper's eight
    ],
)
def test_counts_of_models(rule, holds):
    found = [count for count in (0, 5, 6, 10) if rules.judge(row(rule, "8"), count, n=10) == "reproduced"]
    assert found == holds


def test_half_of_an_odd_number_of_models():
    assert rules.judge(row("most"), 5, n=9) == "reproduced"
    assert rules.judge(row("at most half"), 5, n=9) == "not reproduced"


def test_every_rule_is_told_in_a_sentence():
    told = rules.listed()["holds if"]
    assert list(told.index) == list(rules.RULES)
    assert told.str.endswith(".").all() and told.str.split().str.len().min() >= 5


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


def test_every_rule_has_what_it_needs(declared):
    assert set(declared["rule"]) == set(rules.RULES)
    by_rule = declared.groupby("rule")
    assert by_rule.get_group("rounds")["within"].notna().all()
    for name in ("bound", "above", "below", "at least", "at most"):
        assert by_rule.get_group(name)["limit"].notna().all()
    assert by_rule.get_group("bound")["printed"].str.fullmatch(r"[<>] [.][0-9]+").all()
    numbers = declared[declared["rule"].isin(["rounds", "same half"]) & (declared["claim"] != "S2.moments")]
    assert pd.to_numeric(numbers["printed"]).notna().all()  # those of S2.moments are in table_3.csv
    assert set(declared["needs"]) == {"", *claims.THE_PAPER}
    assert not (declared["where"] == "").any()


def test_numbers_of_the_papers_figures_are_theirs(declared):
    tau = claims.paper_table("fig2a_tau").drop(columns="nickname").to_numpy()
    pairs = tau[np.triu_indices(10, 1)]
    printed = declared[declared["claim"] == "S2.tau"].set_index("quantity")["printed"].astype(float)
    assert printed.to_dict() == {"mean": round(pairs.mean(), 3), "min": pairs.min(), "max": pairs.max()}
    high, low, difference = (float(claims.declared("S4.asymmetry", end, "GE").printed) for end in ENDS)
    assert difference == pytest.approx(high - low)


@pytest.mark.parametrize("collection", ["embedded", "published"])
def test_every_committed_claim_has_the_number_and_the_kind_of_verdict_that_are_declared(collection):
    path = ROOT / "figures" / collection / "claims.csv"
    committed = pd.read_csv(path, dtype=str, keep_default_na=False)
    for stated in committed[committed["quantity"] != ""].itertuples():
        kind = stated.note.split(",")[0] if stated.claim == "A1.logprobs" else ""
        how = claims.declared(stated.claim, stated.quantity, stated.prompt, stated.model or kind)
        if how is None:
            assert (stated.verdict, stated.paper) == ("not testable here", "")
        elif stated.claim != "S2.moments":
            assert stated.paper.removesuffix(".0") == how.printed


def test_every_declared_quantity_is_stated_somewhere(declared):
    """A quantity that is renamed where it is computed would silently lose its verdict."""
    tables = [pd.read_csv(ROOT / "figures" / name / "claims.csv", dtype=str, keep_default_na=False)
              for name in ("embedded", "published")]  # fmt: skip
    stated = set(pd.concat(tables)[["claim", "quantity"]].itertuples(index=False, name=None))
    for row in declared.itertuples():
        assert any(row.claim == claim and fnmatchcase(quantity, row.quantity) for claim, quantity in stated), row
