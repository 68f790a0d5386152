"""The verdicts on section 2.2: sides of intervals, printed numbers, and what a collection cannot say."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lib.claims import claims
from lib.similarity import agreement, factors
from lib.similarity import claims as similarity_claims
from lib.similarity.claims import PRINTED
from lib.similarity.scopes import FIGURES as PRINTED_FIGURES
from lib.similarity.scopes import TABLES, Scope, papers_scope, scope
from lib.stats import pair_model
from lib.stats.crossed import Crossed
from lib.tables.collection import ITEMS, Collection

VOCABULARY = Scope("greatest", 85_000, frozenset({"models", "vocabulary"}))
WORDS = Scope("greatest", 2_260, frozenset({"models"}), "words")
OTHERS = Scope("greatest", 99, frozenset())
FIGURES = papers_scope(PRINTED_FIGURES)
TEN = factors.printed_matrix().index


def crossed(estimate, ci_low, ci_high):
    return Crossed(estimate, 0.1, 9, ci_low, ci_high, 0.01, ci_low, ci_high, ci_low - 1, ci_high + 1, 2_260, 10)


def skews(n_positive, ci_low, ci_high, prompt="greatest"):
    counts = {"as_published": 10, "n_positive": n_positive, "ci_low": ci_low, "ci_high": ci_high, "models": 10}
    mean = {"mean": 0.8, "mean_low": 0.5, "mean_high": 1.1, "new_low": -0.5, "new_high": 2.1, "p": 0.01, "n": 2_260}
    others = ", ".join(TEN[n_positive:]) or "none"
    return pd.DataFrame([counts | mean | {"others": others}], [prompt])


def judged(rows):
    table = claims.judged(rows).astype(object)
    return list(table.where(table.notna(), None).itertuples())


def by_quantity(rows):
    return {row.quantity: row for row in judged(rows)}


@pytest.fixture(scope="module")
def printed():
    return similarity_claims.analyse(factors.printed_matrix())


# --- skewness -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_positive", "low", "high", "verdict"),
    [(10, 10, 10, "reproduced"), (10, 9, 10, "undecided"), (9, 9, 10, "undecided"), (8, 7, 9, "not reproduced")],
)
def test_all_ten_lean_to_the_right_if_the_interval_of_the_count_is_all_ten(n_positive, low, high, verdict):
    found = by_quantity(similarity_claims.skew_claims(VOCABULARY, skews(n_positive, low, high)))
    assert found["n_positive"].verdict == verdict and found["n_positive"].role == "primary"
    assert found["n_positive"].corrected == (None if n_positive == 10 else n_positive)  # nothing to correct at ten
    assert found["mean_skewness"].verdict == "reproduced"


def test_skewness_over_words_is_told_to_be_on_other_texts():
    count, mean = judged(similarity_claims.skew_claims(WORDS, skews(9, 9, 10)))
    assert (count.verdict, count.side) == ("on other texts", "undecided")
    assert (mean.verdict, mean.side) == ("on other texts", "for")
    assert count.note == "of 10 models; not to the right: R-Gem-2B; over 2,260 words, not over a vocabulary"
    assert "a new model: -0.50 to 2.10" in mean.note
    assert judged(similarity_claims.skew_claims(OTHERS, skews(9, 9, 10)))[0].verdict == "not testable here"


def test_wordings_are_counted_by_what_they_ask_for():
    means = {"greatest": crossed(1, 0.5, 1.5), "best": crossed(0.2, -0.1, 0.5), "bad_world_one": crossed(1, 0.1, 2)}
    best, worst = judged(similarity_claims.wording_claims(means, WORDS))
    assert (best.claim, best.corrected, best.n) == ("S3.skew.best", 1, 2)
    assert (worst.claim, worst.corrected, worst.n) == ("S3.skew.worst", 1, 1)
    assert "least mean 0.20" in best.note


def test_the_released_table_speaks_for_the_vocabulary_and_moments_are_judged_by_rounding_alone(monkeypatch):
    table = claims.paper_table("table_3").set_index("nickname")[agreement.MOMENTS].astype(float)
    monkeypatch.setattr(similarity_claims, "released_moments", lambda: table)
    skew, *moments = judged(similarity_claims.released_claims())
    assert (skew.as_published, skew.verdict, skew.population) == (10, "reproduced", TABLES)
    assert len(moments) == 30 and {row.verdict for row in moments} == {"reproduced"}
    table.loc["R-Gem-2B", "skewness"] += 0.002
    verdicts = {(row.model, row.quantity): row.verdict for row in judged(similarity_claims.released_claims())[1:]}
    assert verdicts.pop(("R-Gem-2B", "skewness")) == "not reproduced"
    assert set(verdicts.values()) == {"reproduced"} and len(verdicts) == 29


# --- agreement ----------------------------------------------------------------------------------------------------


def tau_claims(matrix, here, reach=0.02, wordings=None):
    upper = np.triu_indices(len(matrix), 1)
    pairs = pd.DataFrame({"model_a": matrix.index[upper[0]], "model_b": matrix.index[upper[1]]})
    pairs = pairs.assign(tau=matrix.to_numpy()[upper])
    pairs = pairs.assign(ci_low=pairs["tau"] - reach, ci_high=pairs["tau"] + reach)
    draws = pd.DataFrame(np.tile(pairs["tau"], (3, 1)))
    return by_quantity(similarity_claims.tau_claims(matrix, matrix, pairs, draws, wordings, here))


def test_tau_of_the_paper_itself_is_the_papers():
    found = tau_claims(factors.printed_matrix(), VOCABULARY)
    assert [found[name].paper for name in ("mean", "min", "max")] == [0.311, 0.13, 0.57]
    assert {found[name].verdict for name in ("mean", "min", "max")} == {"reproduced"}
    assert found["mean"].ci_low < 0.311 < found["mean"].ci_high and found["mean"].corrected is None
    assert found["new_pair"].ci_low < found["mean"].ci_low  # one pair varies more than a mean
    printed = by_quantity(similarity_claims.printed_tau_claims())
    assert {one.verdict for one in printed.values()} == {"reproduced"} and printed["min"].ci_low is None


def test_a_lowest_tau_whose_interval_reaches_zero_is_undecided():
    found = tau_claims(factors.printed_matrix(), VOCABULARY, reach=0.14)
    assert found["min"].verdict == "undecided"
    assert tau_claims(factors.printed_matrix(), WORDS)["mean"].verdict == "on other texts"


def test_another_wording_against_another_model():
    wordings = pd.DataFrame({"tau": [0.9, 0.6, 0.3], "ci_low": [0.8, 0.5, 0.2], "ci_high": [1, 0.7, 0.4]},
                            index=["other wording", "other model", "difference"])  # fmt: skip
    found = tau_claims(factors.printed_matrix(), VOCABULARY, wordings=wordings)["other_wording_minus_other_model"]
    assert (found.corrected, found.ci_low, found.ci_high, found.verdict) == (0.3, 0.2, 0.4, "reproduced")
    assert "other wording 0.90, other model 0.60" in found.note


# --- regression ---------------------------------------------------------------------------------------------------


def test_the_papers_own_figure_through_every_claim_of_the_regression(printed):
    stated = judged(similarity_claims.rsa_claims(PRINTED, printed, FIGURES))
    told = {(one.claim, one.quantity): one for one in stated}
    assert len(told) == len(stated) and {one.population for one in stated} == {PRINTED_FIGURES}
    verdicts = {key: one.verdict for key, one in told.items()}
    for trait, verdict in {"base": "reproduced", "developer": "undecided", "parameters": "reproduced",
                           "rank": "reproduced"}.items():  # fmt: skip
        assert verdicts["S2.rsa.simple", f"b_{trait}"] == verdict
        assert verdicts["S2.rsa.simple", f"p_{trait}"] == "only as published"  # none below .001 by permutation
    assert verdicts["S2.rsa.multiple", "b_rank"] == "undecided"
    assert verdicts["S2.rsa.multiple", "p_rank"] == "only as published"
    assert {verdicts["S2.rsa.multiple", f"p_{trait}"] for trait in ("developer", "parameters")} == {"reproduced"}
    assert {verdicts["S2.rsa.final", name] for name in ("r2", "b_base", "b_rank")} == {"only as published"}
    assert {verdicts["S2.rsa.beyond", name] for name in ("b_base", "b_rank")} == {"reproduced"}
    assert told["S2.rsa.beyond", "b_base"].p == pytest.approx(0.0134, abs=5e-5)  # of all relabellings, not REML's .0003
    assert told["S2.rsa.beyond", "b_base"].role == "primary" and "S2.rsa.multiple b_developer" not in told


def test_p_of_the_base_beyond_the_developer_is_the_share_of_relabellings_that_move_the_contrast_as_far(printed):
    """The contrast of two coefficients is one coefficient of another regression with the same fit."""
    found = by_quantity(similarity_claims.developer_claims(PRINTED, printed, FIGURES))["base_minus_developer"]
    base, developer = printed.traits["base"], printed.traits["developer"]
    table = pair_model.fit(printed.matrix, {"base": base, "sum": base + developer}).table
    assert table.loc["base", ["b", "ci_low", "ci_high"]].tolist() == pytest.approx(
        [found.corrected, found.ci_low, found.ci_high]
    )
    assert 0 < found.p < 0.05


def test_the_margin_of_equivalence_is_stated_alone_and_with_the_base(printed):
    rows = [row for row in judged(similarity_claims.developer_claims(PRINTED, printed, FIGURES))
            if row.claim == "S2.equivalence"]  # fmt: skip
    assert [row.quantity for row in rows] == ["margin_alone", "margin_with_base"]
    assert 0.05 < rows[0].corrected < 0.2 and "90% interval by relabelling" in rows[0].note


def test_developers_and_maps_of_the_papers_own_figure(printed):
    found = by_quantity(similarity_claims.developer_claims(PRINTED, printed, FIGURES))
    assert found["base_minus_developer"].verdict == "reproduced" and found["b_developer"].verdict == "undecided"
    nearer = by_quantity(similarity_claims.map_claims(PRINTED, printed, FIGURES))
    assert {name: one.verdict for name, one in nearer.items()} == {
        "b_base": "reproduced", "b_developer": "undecided", "b_parameters": "reproduced"
    }  # fmt: skip
    some = replace(printed, traits={name: printed.traits[name] for name in ("base", "rank")})
    assert similarity_claims.developer_claims(PRINTED, some, FIGURES) == []


def test_measures_say_the_same_of_the_base_and_not_of_rank(printed):
    found = by_quantity(similarity_claims.measure_claims(printed.traits))
    assert {found[f"{name}_b_base"].verdict for name in ("spearman", "rbo")} == {"reproduced"}
    assert {found[f"{name}_b_rank"].verdict for name in ("spearman", "rbo")} == {"undecided"}
    assert found["r_rbo_tau"].as_published == pytest.approx(0.29, abs=0.001) and found["r_rbo_tau"].corrected is None


# --- all of them --------------------------------------------------------------------------------------------------


def everything(here, printed, monkeypatch):
    table = claims.paper_table("table_3").set_index("nickname")[agreement.MOMENTS].astype(float)
    monkeypatch.setattr(similarity_claims, "released_moments", lambda: table)
    upper = np.triu_indices(10, 1)
    pairs = pd.DataFrame({"model_a": TEN[upper[0]], "model_b": TEN[upper[1]], "tau": printed.matrix.to_numpy()[upper]})
    pairs = pairs.assign(ci_low=0.1, ci_high=1.0)
    draws = pd.DataFrame(np.tile(pairs["tau"], (3, 1)))
    rows = similarity_claims.distribution_claims(
        here, pd.concat([skews(9, 9, 10, here.prompt), skews(10, 10, 10, "best")]), {}, table,
        similarity_claims.table_3_cells(table, table),
    )  # fmt: skip
    cells = similarity_claims.figure_cells({"fig2a_tau": printed.matrix}, {"fig2a_tau": printed.matrix})
    taus = (printed.matrix, printed.matrix, pairs, draws, None)
    rows += similarity_claims.similarity_claims(here, taus, {PRINTED: printed, "tau here": printed}, cells)
    return judged(rows)


def test_where_the_vocabularies_are_the_papers_own_table_3_is_recomputed_and_not_read_again(printed, monkeypatch):
    stated = everything(VOCABULARY, printed, monkeypatch)
    moments = [row for row in stated if row.claim == "S2.moments"]
    assert len(moments) == 30 and {row.population for row in moments} == {""}
    shares = {row.quantity: row.as_published for row in stated if row.claim == "S2.cells"}
    assert shares == {"Table 3": 29 / 30, "Figure 2A": 1.0}  # the printed bound .001 is not below .001
    assert not any(row.claim == "S2.cells" for row in everything(WORDS, printed, monkeypatch))


def test_what_is_not_a_vocabulary_is_named_in_every_note(printed, monkeypatch):
    monkeypatch.setattr(Collection, "holds_papers_models", True)
    items = scope(ITEMS, "GW", 7_530)
    assert items == Scope("GW", 7_530, {"models", "items"}, "items that people ranked")
    stated = everything(items, printed, monkeypatch)
    told = "over 7,530 items that people ranked, not over a vocabulary"
    assert len(stated) > 30 and all(told in one.note for one in stated)
    assert not any(PRINTED in one.note for one in stated)  # the figure is about another prompt's texts
    assert {one.verdict for one in stated} == {"on other texts", "not in the paper"}


def test_printed_figures_stand_beside_the_papers_models_and_prompt_alone(printed, monkeypatch):
    populations = {one.population for one in everything(WORDS, printed, monkeypatch)}
    assert populations == {"", PRINTED_FIGURES, TABLES}
    assert {one.population for one in everything(OTHERS, printed, monkeypatch)} == {""}
    assert everything(Scope("best", 2_260, WORDS.own), printed, monkeypatch) == []  # section 2 says nothing of it
    kept = everything(WORDS, printed, monkeypatch)
    keys = [(one.claim, one.quantity, one.prompt, one.model, one.population) for one in kept]
    assert len(set(keys)) == len(keys)


def test_every_quantity_is_declared_and_every_declared_one_is_stated(printed, monkeypatch):
    stated = {(one.claim, one.quantity) for one in everything(WORDS, printed, monkeypatch)}
    mine = claims.quantities().query("claim.str.match('S2.(skew|moments|tau|mds|rsa|developer)|A1.correlations')")
    declared = set(zip(mine["claim"], mine["quantity"], strict=True)) - {("S2.rsa.stepwise", "keeps_base_and_rank")}
    undeclared = {claim for claim, _ in stated - declared}
    assert undeclared == {"S3.skew.best", "S2.lineage", "S2.equivalence"}  # the latter two are ours
    assert declared - stated == {("S2.tau", "other_wording_minus_other_model")}  # one prompt only, above
    assert ("S2.rsa.stepwise", "keeps_base_and_rank") not in stated  # notebook 09 states it
