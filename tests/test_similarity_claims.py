"""The verdicts on section 2.2: bounds, numbers, and what a collection cannot say; the paper's Fig 2A through all."""

import numpy as np
import pandas as pd
import pytest

from lib.collection import ITEMS, Collection
from lib.models import reward_models
from lib.similarity import agreement, rsa
from lib.similarity import claims as similarity_claims
from lib.similarity.claims import PRINTED, Scope

VOCABULARY = Scope("greatest", 85_000, frozenset({"models", "vocabulary"}))
WORDS = Scope("greatest", 2_260, frozenset({"models"}))
OTHERS = Scope("greatest", 99, frozenset())


def moments(skewness, low):
    columns = ["mean", "mean_ci_low", "mean_ci_high", "variance", "variance_ci_low", "variance_ci_high"]
    table = pd.DataFrame(1.0, similarity_claims.figure_2a().index, columns)
    return table.assign(n=9, skewness=skewness, skewness_ci_low=low, skewness_ci_high=9.0)


def verdicts(claims, quantity):
    return {one.verdict for one in claims if one.quantity == quantity}


def test_a_model_whose_skewness_may_be_zero_is_not_counted():
    positive, doubtful = moments(0.5, 0.4), moments(0.5, [0.4] * 9 + [-0.1])
    assert verdicts(similarity_claims.moment_claims(positive, positive, WORDS), "n_positive") == {"reproduced"}
    claims = similarity_claims.moment_claims(positive, doubtful, WORDS)
    assert (claims[0].as_published, claims[0].corrected, claims[0].verdict) == (10, 9, "only as published")
    assert claims[0].note.endswith("R-Gem-2B; over 2,260 texts, not over a vocabulary")
    assert verdicts(similarity_claims.moment_claims(positive, positive, OTHERS), "n_positive") == {"not testable here"}


def test_moments_are_compared_only_over_a_vocabulary():
    same = moments(0.5, 0.4)
    same["skewness"] = [0.437, 0.071, 0.878, 1.117, 1.133, 1.763, 0.504, 1.672, 1.055, 9]  # Table 3, but for the last
    claims = similarity_claims.moment_claims(same, same, VOCABULARY)
    told = {one.model: one.verdict for one in claims if one.quantity == "skewness"}
    assert told.pop("R-Gem-2B") == "not reproduced"
    assert set(told.values()) == {"reproduced"}
    assert verdicts(similarity_claims.moment_claims(same, same, WORDS), "skewness") == {"not testable here"}


def test_tau_of_the_paper_itself_is_the_papers():
    matrix = similarity_claims.figure_2a()
    upper = np.triu_indices(10, 1)
    pairs = pd.DataFrame({"tau": matrix.to_numpy()[upper]}).assign(ci_low=lambda t: t["tau"] - 0.02, ci_high=1.0)
    draws = pd.DataFrame(np.tile(pairs["tau"], (3, 1)))
    claims = {one.quantity: one for one in similarity_claims.tau_claims(matrix, pairs, draws, VOCABULARY)}
    assert [claims[name].paper for name in ("mean", "min", "max")] == [0.311, 0.13, 0.57]
    assert all(one.verdict == "reproduced" and one.n == 45 for one in claims.values())
    assert claims["min"].ci_low == pytest.approx(0.11)
    claims = similarity_claims.tau_claims(matrix, pairs.assign(ci_low=-0.01), draws, WORDS)
    assert [one.verdict for one in claims] == ["not testable here", "only as published", "not testable here"]


def test_the_papers_own_figure_through_every_claim_of_the_regression():
    matrix = similarity_claims.figure_2a()
    traits = rsa.theoretical(reward_models.rows_of(matrix.index))
    summary = rsa.rsa_summary(matrix, traits)
    claims = {(one.claim, one.quantity): one for one in similarity_claims.rsa_claims(PRINTED, summary, 10, OTHERS)}
    told = {key: one.verdict for key, one in claims.items() if one.paper is not None}
    assert told["S2.rsa.simple", "p_developer"] == "only as published"
    assert {told["S2.rsa.simple", f"p_{trait}"] for trait in ("base", "parameters", "rank")} == {"reproduced"}
    assert told["S2.rsa.multiple", "p_rank"] == "only as published"
    assert {told["S2.rsa.multiple", f"p_{trait}"] for trait in ("developer", "parameters")} == {"reproduced"}
    for quantity in ("b_base", "b_rank", "r2"):
        assert told["S2.rsa.final", quantity] == "only as published"
    assert claims["S2.rsa.final", "b_rank"].ci_low < claims["S2.rsa.final", "b_rank"].corrected
    assert claims["S2.rsa.simple", "p_base_mantel"].as_published is None
    assert all(one.n == 45 for one in claims.values())


def test_what_cannot_be_said_here_is_not():
    matrix = similarity_claims.figure_2a()
    traits = rsa.theoretical(reward_models.rows_of(matrix.index))
    summary = rsa.rsa_summary(matrix, traits, 99)
    of_words = similarity_claims.rsa_claims("tau of words", summary, 10, WORDS)
    assert verdicts(of_words, "b_rank") == {"not testable here"}
    judged = [one.verdict for one in of_words if one.paper is not None and one.quantity.startswith("p_")]
    assert len(judged) == 16 and "not testable here" not in judged
    of_others = similarity_claims.rsa_claims("tau of others", summary, 10, OTHERS)
    assert {one.verdict for one in of_others} == {"not testable here"}
    found = agreement.model_map(matrix, starts=4)
    assert {one.verdict for one in similarity_claims.map_claims("others", found, traits, OTHERS, 99)} == {
        "not testable here"
    }
    stress, *nearer = similarity_claims.map_claims(PRINTED, found, traits, OTHERS, 999)
    assert stress.as_published == found.stress
    assert {one.quantity: one.verdict for one in nearer}["p_parameters"] == "reproduced"


def test_measures_that_do_not_go_with_tau_are_not_consistent():
    numbers = {"spearman": 0.998, "rbo": 0.29}
    spearman, rbo = similarity_claims.measure_claims(numbers, numbers, {"spearman": 0.001, "rbo": 0.06}, 45, WORDS)
    assert (spearman.verdict, rbo.verdict) == ("reproduced", "not reproduced")
    assert rbo.quantity == "r_rbo_tau" and rbo.as_published == 0.29


def test_what_is_not_a_vocabulary_is_named_in_every_note(monkeypatch):
    monkeypatch.setattr(Collection, "holds_papers_models", True)
    items = similarity_claims.scope(ITEMS, "GW", 7_530)
    assert items == Scope("GW", 7_530, {"models", "items"}, "items that people ranked")
    told = "over 7,530 items that people ranked, not over a vocabulary"
    matrix = similarity_claims.figure_2a()
    traits = rsa.theoretical(reward_models.rows_of(matrix.index))
    same, numbers = moments(0.5, 0.4), {"spearman": 0.9, "rbo": 0.3}
    pairs = pd.DataFrame({"tau": matrix.to_numpy()[np.triu_indices(10, 1)]}).assign(ci_low=0.1, ci_high=1.0)
    stated = similarity_claims.moment_claims(same, same, items)
    stated += similarity_claims.tau_claims(matrix, pairs, pd.DataFrame(np.tile(pairs["tau"], (3, 1))), items)
    stated += similarity_claims.measure_claims(numbers, numbers, numbers, 45, items)
    stated += similarity_claims.map_claims("tau", agreement.model_map(matrix, starts=2), traits, items, 19)
    stated += similarity_claims.rsa_claims("tau", rsa.rsa_summary(matrix, traits, 19), 10, items)
    assert len(stated) > 60
    assert {one.note.endswith(told) for one in stated} == {True}
    assert {one.prompt for one in stated} == {"GW"}
    assert VOCABULARY.note("found") == "found" and items.note() == told


def test_the_papers_own_figure_belongs_to_the_papers_prompt():
    assert WORDS.asks_as_the_paper and not Scope("GW", 7_530, frozenset()).asks_as_the_paper
    summary = rsa.rsa_summary(similarity_claims.figure_2a(), rsa.theoretical(
        reward_models.rows_of(similarity_claims.figure_2a().index)), 19)  # fmt: skip
    assert not any("vocabulary" in one.note for one in similarity_claims.rsa_claims(PRINTED, summary, 10, WORDS))
