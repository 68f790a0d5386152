"""The claims of section 4: numbers by hand on items few enough to count, and verdicts that turn when they should."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lib.alignment import claims as alignment_claims
from lib.alignment import concordance, human, kinds, matched, profiles
from lib.alignment.claims import HOLOCAUST, THIRD
from lib.claims import claims
from lib.claims.claims import THE_PAPER
from lib.claims.rules import OTHER, UNTESTABLE

LOVE = "Unconditional love"
ELSEWHERE, ON_WORDS = frozenset(), frozenset({"models"})


def judged(rows, own=THE_PAPER):
    """The rows with their verdicts, each with the fields of a claim; blank numbers are NaN."""
    return list(claims.judged(rows, own).itertuples())


def by_quantity(rows, own=THE_PAPER):
    return {claim.quantity: claim for claim in judged(rows, own)}


def verdicts(rows, own=THE_PAPER):
    return set(claims.judged(rows, own)["verdict"])


# --- the data -----------------------------------------------------------------------------------------------------


def test_the_data_are_counted():
    ratings = pd.DataFrame({"matches": [10, 20, 60]}, index=["Love", "Sports bra", "Gödel, Escher, Bach"])
    found = by_quantity(alignment_claims.data_claims(ratings))
    assert found["items"].as_published == 3
    assert found["comparisons"].as_published == 45  # each is a match of two items: (10 + 20 + 60) / 2
    assert found["matches_mean"].as_published == 30  # (10 + 20 + 60) / 3
    assert found["matches_sd"].as_published == pytest.approx(np.sqrt((20**2 + 10**2 + 30**2) / 2))
    assert found["words_mean"].as_published == 2  # 1, 2 and 3 words
    assert found["words_sd"].as_published == 1
    assert (found["matches_most"].as_published, found["matches_most"].note) == (60, "Gödel, Escher, Bach")
    assert (found["matches_fewest"].as_published, found["matches_fewest"].note) == (10, "Love")
    assert {claim.verdict for claim in found.values()} == {"not reproduced"}


def test_the_data_round_to_what_is_printed():
    ratings = pd.DataFrame({"matches": [479.4 - 464.4, 479.44, 479.4 + 464.4]}, index=["a", "a b", "a b c"])
    found = by_quantity(alignment_claims.data_claims(ratings))
    assert found["matches_mean"].verdict == "reproduced"  # 479.41
    assert found["matches_sd"].verdict == "reproduced"
    assert found["items"].verdict == "not reproduced"  # a count has nothing to round


# --- agreement ----------------------------------------------------------------------------------------------------


def summaries(mean, prompt="GE"):
    row = {"mean": mean, "sd": 0.061, "min": 0.216, "max": 0.388, "ci_low": mean - 0.01, "ci_high": mean + 0.01,
           "p": 0.001, "new_low": mean - 0.1, "new_high": mean + 0.1}  # fmt: skip
    return pd.DataFrame({prompt: row}).T


def test_agreement_with_people_is_held_against_the_papers_four_numbers():
    found = by_quantity(alignment_claims.people_claims(summaries(0.2949), 7530))
    assert {claim.verdict for claim in found.values()} == {"reproduced"}
    assert [found[name].paper for name in ("mean", "sd", "min", "max")] == [0.29, 0.06, 0.22, 0.39]
    assert (found["mean"].ci_low, found["mean"].ci_high) == pytest.approx((0.2849, 0.3049))
    assert np.isnan(found["sd"].ci_low) and found["mean"].n == 7530
    assert [found[name].role for name in ("mean", "sd")] == ["primary", "printed"]
    off = by_quantity(alignment_claims.people_claims(summaries(0.2951), 7530))
    assert off["mean"].verdict == "not reproduced"
    # The numbers of GW are printed, and the text names GE.
    both = pd.concat([summaries(0.263), summaries(0.294, "GW")])
    of_ge = by_quantity(alignment_claims.people_claims(both, 7530)[:4])
    assert (of_ge["mean"].as_published, of_ge["mean"].corrected) == (0.294, 0.263)
    assert of_ge["mean"].verdict == "only as published" and of_ge["sd"].verdict == "reproduced"
    assert verdicts(alignment_claims.people_claims(summaries(0.29), 99), ELSEWHERE) == {UNTESTABLE}
    # Of the wordings only the paper's own is judged, and the one whose numbers these are is told.
    assert verdicts(alignment_claims.people_claims(summaries(0.29, "HP"), 99)) == {UNTESTABLE}
    [of_gw, *_] = judged(alignment_claims.people_claims(summaries(0.29, "GW"), 99))
    assert (of_gw.role, of_gw.verdict) == ("sensitivity", "reproduced")


def studied(items=80, models=5, seed=0, apart=1.0, **prompts):
    """People, prompt -> items x models, and their agreement. apart: how far models lie apart under any prompt; prompts:
    name -> how much noise is in its rewards."""
    random = np.random.default_rng(seed)
    people = pd.Series(random.normal(size=items), [f"i{n}" for n in range(items)])
    own = apart * random.normal(size=(items, models))
    rewards = {prompt: pd.DataFrame(people.to_numpy()[:, None] + own + noise * random.normal(size=own.shape),
                                    people.index, [f"m{m}" for m in range(models)])
               for prompt, noise in prompts.items()}  # fmt: skip
    return people, rewards, concordance.agreement(concordance.together(people, rewards))


def test_agreement_of_models_is_the_papers_only_with_the_diagonal():
    _, rewards, agreed = studied(GE=0)
    rows = alignment_claims.model_claims(concordance.between_models(agreed, list(rewards["GE"]), ["GE"]), 5)
    [claim] = judged(rows)
    assert claim.as_published == pytest.approx((5 + 20 * claim.corrected) / 25)  # five ones, and twenty taus
    assert claim.n == 10 and claim.ci_low < claim.corrected < claim.ci_high  # ten pairs of five models
    assert claim.note == "as published: the whole matrix under GE, its diagonal included"
    assert claim.side == "against" and claim.verdict == "not reproduced"  # neither is .55
    assert verdicts(rows, ELSEWHERE) == {UNTESTABLE}


def test_a_ranking_carries_over_where_it_is_more_its_own_than_the_models():
    _, rewards, agreed = studied(GE=0.1, HP=0.1)
    every, pair = judged(alignment_claims.prompt_claims(agreed, list(rewards["GE"]), ["GE", "HP"]))
    assert (every.quantity, pair.quantity) == ("beyond models", "beyond models: GE, HP")
    assert every.corrected == pytest.approx(pair.corrected) and every.ci_low > 0  # there is one pair only
    assert (every.role, every.verdict, pair.role) == ("primary", "reproduced", "sensitivity")
    _, rewards, agreed = studied(apart=0.1, GE=0.1, HP=9)
    assert judged(alignment_claims.prompt_claims(agreed, list(rewards["GE"]), ["GE", "HP"]))[0].side == "against"


def rated(items=300, models=5):
    """Elo ratings and matches of some items, and rewards under two prompts that agree with them in part."""
    people, rewards, _ = studied(items=items, models=models, GE=0.5, HP=0.5)
    ratings = pd.DataFrame({"elo": 1200 + 120 * people, "matches": np.arange(6, items + 6)})
    return ratings, rewards


def test_what_we_add_on_ratings_has_an_interval_and_is_not_in_the_paper():
    ratings, rewards = rated()
    by_matches = human.taus_by_matches(ratings["elo"], rewards["GE"], ratings["matches"])
    rows = alignment_claims.reliability_claims(ratings)
    rows += alignment_claims.rows_of("S4.tau.matches", by_matches.assign(prompt="GE"))
    rows += alignment_claims.together_claims(ratings["elo"], rewards)
    assert verdicts(rows) == {"not in the paper"}
    assert all(row["ci_low"] <= row["corrected"] <= row["ci_high"] for row in rows)
    parts = [row["quantity"] for row in rows if row["claim"] == "S4.tau.matches"]
    assert parts == ["fewest matches", "middle", "most matches", "100 matches or more"]
    assert [row["n"] for row in rows if row["claim"] == "S4.reliability"] == [300, 100, 100, 100, 206]  # 100 to 305


def test_one_released_file_repeats_another():
    [row] = alignment_claims.file_claims()
    assert row["corrected"] == 1 and row["note"].endswith("rank_results_uf_13.csv = rank_results_uf_27.csv")
    assert verdicts([row]) == {"not in the paper"}


# --- what is first, and last --------------------------------------------------------------------------------------


def favourites(**first):
    """Rewards of four items by models, each of which puts the items named (ties included) on top."""
    items = [LOVE, "Sports bra", "Gödel, Escher, Bach", "Water"]
    return pd.DataFrame({name: [9.0 if item in tops else 1.0 for item in items] for name, tops in first.items()}, items)


def test_favourites_are_counted_and_their_ties_told():
    rewards = favourites(a=[LOVE], b=[LOVE, "Water"], **{"R-Lla-8B": ["Sports bra", "Water"], "F-Lla-8B-v0.1": [LOVE]})
    love, bra, book = judged(alignment_claims.top_claims(rewards, "GE"))
    assert (love.quantity, love.as_published, love.n) == ("n_unconditional_love", 3, 4)  # a tie for first counts
    assert love.note.startswith("2 of them rank it first alone")
    assert love.verdict == "not reproduced"
    assert (bra.model, bra.as_published, bra.verdict) == ("R-Lla-8B", 1, "reproduced")
    assert bra.note == "Sports bra: tied for first with 1 other"
    assert (book.model, book.as_published, book.verdict) == ("F-Lla-8B-v0.1", 2, "not reproduced")
    assert book.note == "Gödel, Escher, Bach: not first"
    alone = favourites(**{"R-Lla-8B": ["Sports bra"], "F-Lla-8B-v0.1": [LOVE]})
    assert alignment_claims.top_claims(alone, "GE")[1]["note"] == "Sports bra: first alone"


@pytest.mark.parametrize("count, verdict", [(5, "reproduced"), (6, "not reproduced"), (4, "not reproduced")])
def test_five_models_that_love_unconditionally_are_the_papers(count, verdict):
    rewards = favourites(**{f"m{i}": [LOVE] if i < count else ["Water"] for i in range(10)})
    assert judged(alignment_claims.top_claims(rewards, "GE"))[0].verdict == verdict


def lowest(above, models=10, items=300):
    """People, and models of which `above` rank HOLOCAUST, which people rank last, as the best of all."""
    names = [f"i{n}" for n in range(items - 1)] + [HOLOCAUST]
    people = pd.Series(np.arange(items, 0, -1.0), names)
    rewards = pd.DataFrame({f"m{m}": people.to_numpy() for m in range(models)}, names)
    rewards.loc[HOLOCAUST, [f"m{m}" for m in range(above)]] = items + 1.0
    return people, rewards


@pytest.mark.parametrize("above, verdict", [(10, "reproduced"), (9, "reproduced"), (8, "undecided"),
                                            (5, "undecided"), (1, "not reproduced")])  # fmt: skip
def test_the_holocaust_is_held_against_the_items_that_people_rate_lowest(above, verdict):
    people, rewards = lowest(above)
    rank, found = judged(alignment_claims.holocaust_claims(people, rewards, "GE"))
    assert (found.corrected, found.n, found.verdict) == (above, 10, verdict)
    assert (found.ci_low, found.ci_high) == kinds.count_interval(above, 10)
    assert (rank.as_published, rank.verdict) == (300, "not reproduced")  # of 300 items the last is not the 7,530th
    assert "of the 100 items that people rate lowest" in found.note


# --- two ends -----------------------------------------------------------------------------------------------------


def at_ends(*cuts):
    """Rows as of human.at_ends; cuts: (cut, high, low)."""
    rows = []
    for cut, high, low in cuts:
        row = {"cut": cut, "difference": high - low, "difference_ci_low": high - low - 0.1}
        row |= {"difference_ci_high": high - low + 0.1, "difference_p": 0.01}
        for end, tau in (("high", high), ("low", low)):
            row |= {f"{end}_tau": tau, f"{end}_ci_low": tau - 0.1, f"{end}_ci_high": tau + 0.1, f"{end}_items": cut}
        rows.append(row)
    return pd.DataFrame(rows)


def test_the_two_ends_are_judged_at_the_cut_that_is_near_and_their_gap_at_every_cut():
    rows = at_ends((50, 0.5, 0.1), (100, 0.184, 0.075), (3765, 0.2, 0.3))
    found = by_quantity(alignment_claims.end_claims(rows, "GE"))
    assert list(found) == ["high", "low", "difference_50", "difference_100", "difference_3765"]
    assert [found[end].verdict for end in ("high", "low")] == ["reproduced"] * 2  # .19 and .08, by a hundredth
    assert [found[f"difference_{cut}"].side for cut in (50, 100, 3765)] == ["for", "for", "undecided"]
    assert found["difference_100"].n == 100 and found["high"].role == "printed"
    assert verdicts(alignment_claims.end_claims(rows, "GE")[2:], ON_WORDS) == {OTHER}


def test_the_asymmetry_stands_or_falls_with_matched_pairs():
    people, rewards, _ = studied(items=400, models=6, GE=0.3)
    better = rewards["GE"].where(people > people.median(), np.random.default_rng(1).normal(size=(400, 6)))
    pairs = {"GE": matched.matched(people, better), "HP": matched.matched(people, rewards["GE"])}
    stated = judged(alignment_claims.matched_claims(pairs))
    assert [one.verdict for one in stated] == ["reproduced", "undecided"]
    assert [one.role for one in stated] == ["primary", "sensitivity"]
    assert stated[0].p < 0.05 < stated[1].p and stated[0].n == 400


# --- undervalued --------------------------------------------------------------------------------------------------


def kind_table(low, high=0.99, count=10):
    row = {"kind": "sexual content", "items": 9, "above": 0.7, "ci_low": low, "ci_high": high, "p": 0.01,
           "these_low": low, "these_high": high, "models": count, "of_models": 10, "count_low": 6.9,
           "count_high": 10.0}  # fmt: skip
    return pd.DataFrame([row])


@pytest.mark.parametrize("low, high, verdict", [(0.51, 0.9, "reproduced"), (0.4, 0.6, "undecided"),
                                                (0.1, 0.49, "not reproduced")])  # fmt: skip
def test_a_kind_is_undervalued_if_chance_lies_below_its_interval(low, high, verdict):
    raw = pd.Series({"sexual content": 0.8})
    above, models = judged(alignment_claims.kind_claims({"GE": kind_table(low, high)}, {"GE": raw}))
    assert (above.claim, above.quantity, above.role) == ("S4.undervalued.sexual", "above", "primary")
    assert (above.as_published, above.corrected, above.ci_low, above.n) == (0.8, 0.7, low, 9)
    assert above.verdict == verdict
    assert (models.corrected, models.n, models.verdict) == (10, 10, "reproduced")  # 6.9 to 10 of 10: most
    for prompt in ("HP", "GW"):
        other, _ = judged(alignment_claims.kind_claims({prompt: kind_table(low, high)}, {prompt: raw}))
        assert (other.verdict, other.role) == (verdict, "primary")
    assert verdicts(alignment_claims.kind_claims({"GE": kind_table(low, high)}, {"GE": raw}), ELSEWHERE) == {UNTESTABLE}


def test_kinds_that_the_paper_does_not_name_are_no_claims():
    table = kind_table(0.6).assign(kind="art")
    assert alignment_claims.kind_claims({"GE": table}, {"GE": pd.Series({"art": 1})}) == []


def test_marginalised_groups_are_compared_with_other_groups_per_prompt_and_over_prompts():
    titles = ["Black people", "Woman", "Lesbian", "Transgender", "Man", "Americans", "Canadians", "Zoomer"]
    random = np.random.default_rng(4)
    values = {prompt: pd.DataFrame(0.5 + 0.01 * random.normal(size=(8, 5)), titles, list("abcde"))
              for prompt in ("GE", "HP", "GW")}  # fmt: skip
    for table, gap in zip(values.values(), (0.1, 0.2, 0.3), strict=True):
        table.iloc[:4] += gap
    stated = by_quantity(alignment_claims.minority_claims(values, pd.Series("identity", titles)))
    assert stated["difference by minority"].corrected == pytest.approx(0.3, abs=0.02)  # the last prompt's, GW
    two, three = stated["difference by minority, mean"], stated["difference by minority, mean, prompts a sample"]
    assert two.corrected == pytest.approx(three.corrected) and two.corrected == pytest.approx(0.2, abs=0.02)
    assert two.p < 0.001 and three.ci_low < 0 < three.ci_high - 0.4  # three prompts that differ say little of others
    assert stated["difference by protected, mean"].verdict == "not in the paper"


def test_prompts_add_to_the_variance_what_they_were_made_to():
    random, kinds_of = np.random.default_rng(4), pd.Series("nature", [f"i{n}" for n in range(40)])
    values = {prompt: pd.DataFrame(mean + 0.1 * random.normal(size=(40, 6)), kinds_of.index)
              for prompt, mean in (("GE", 0.3), ("HP", 0.5), ("GW", 0.7))}  # fmt: skip
    stated = by_quantity(alignment_claims.factor_claims(values, kinds_of))
    assert stated["share of prompts: nature"].corrected > 0.95 and stated["share of words: nature"].corrected < 0.02
    shares = [claim.corrected for name, claim in stated.items() if name.startswith("share")]
    assert len(shares) == 3 and 0.95 < sum(shares) <= 1  # the rest is of interactions
    half = stats.t.ppf(0.975, 2) * 0.2 / np.sqrt(3)  # the three means have a standard deviation of .2
    assert stated["above: nature"].ci_high - 0.5 == pytest.approx(half, rel=0.1)
    assert alignment_claims.factor_claims({"GE": values["GE"]}, kinds_of) == []


def named_study(undervalued):
    names = [*kinds.NAMED, *(f"i{n}" for n in range(600))]
    people = pd.Series(np.arange(len(names), 0, -1.0), names)
    random = np.random.default_rng(2)
    rewards = pd.DataFrame({f"m{m}": people + 5 * random.normal(size=len(names)) for m in range(10)}, names)
    rewards.loc[list(undervalued)] -= 9999
    return people, rewards, people.index.difference(list(kinds.NAMED))


def test_the_nine_items_are_judged_together_and_each():
    people, rewards, among = named_study(kinds.NAMED)
    stated = judged(alignment_claims.named_claims(people, rewards, among, "GE"))
    assert [one.quantity for one in stated[:2]] == ["above", "above: Universe"] and len(stated) == 10
    assert (stated[0].corrected, stated[0].role) == (1, "primary")
    people, rewards, among = named_study(["Sex"])
    found = by_quantity(alignment_claims.named_claims(people, rewards, among, "GE"))
    assert found["above: Sex"].corrected > 0.9 > 0.5 > found["above: Universe"].corrected
    assert found["above: Sex"].verdict == UNTESTABLE  # named because they differ: numbers, and no test
    assert found["above: Sex"].note.startswith("people rank it 7, models 6")  # the seventh of 609 items
    assert "1. among the most undervalued" in found["above: Sex"].note


def undervaluing(place):
    """People and two models of ten items, of which THIRD is `place`th in the order of undervaluation."""
    items = [THIRD if n == place - 1 else f"i{n}" for n in range(10)]
    people = pd.Series(np.arange(10.0, 0, -1), items)  # ranks 1 to 10
    return people, {"GE": pd.DataFrame({"M": -people, "N": -people})}  # ranked the other way round: 10 to 1


@pytest.mark.parametrize("place, verdict", [(1, "reproduced"), (3, "reproduced"), (4, "not reproduced")])
def test_the_place_of_the_papers_third(place, verdict):
    people, rewards = undervaluing(place)
    table = alignment_claims.places_of_third(people, rewards, resamples=5)
    stated = judged(alignment_claims.rows_of("S4.undervalued.identity", table))
    assert [one.quantity for one in stated] == ["position_black_people"] * 3
    # The first aggregate is the paper's code; the two others are what its text could mean.
    assert [claim.as_published for claim in stated] == pytest.approx([place, np.nan, np.nan], nan_ok=True)
    assert [claim.corrected for claim in stated] == pytest.approx([np.nan, place, place], nan_ok=True)
    assert {claim.verdict for claim in stated} == {verdict}
    assert [note.partition(";")[0] for note in table["note"]] == [f"aggregate: {name}" for name in human.AGGREGATES]
    assert {(one.ci_low, one.ci_high) for one in stated} == {(place, place)}  # all models are alike
    assert {one.p for one in stated} == {2 / 6}  # of five draws and the ranking itself, all lie on one side


def model_that_ranks(items, **wanted):
    """Rewards of a model that gives some items these ranks and leaves the others in their order."""
    others = iter([item for item in items if item not in wanted])
    by_rank = {rank: item for item, rank in wanted.items()}
    order = [by_rank.get(rank) or next(others) for rank in range(1, len(items) + 1)]
    return pd.Series(range(len(items), 0, -1), order).reindex(items).astype(float)


def test_a_place_whose_interval_reaches_beyond_the_third_is_undecided():
    items = [THIRD, "a", "b", "c", *(f"i{n}" for n in range(96))]
    people = pd.Series(np.arange(100.0, 0, -1), items)  # ranks 1, 2, 3, 4, ...
    last, middle = {"a": 99, "b": 98, "c": 97}, {"a": 60, "b": 61, "c": 62}
    ranks = [last | {THIRD: 100}, last | {THIRD: 100}, middle | {THIRD: 100}, middle | {THIRD: 1}]
    rewards = pd.DataFrame({f"m{i}": model_that_ranks(items, **given) for i, given in enumerate(ranks)})
    table = alignment_claims.places_of_third(people, {"GE": rewards}, resamples=60)
    stated = judged(alignment_claims.rows_of("S4.undervalued.identity", table))
    # THIRD falls from 1 to a median of 100 but a mean of 75.25; a, b, c to medians up to 79.5 and means of 79.5.
    assert [np.nansum([claim.as_published, claim.corrected]) for claim in stated] == [1, 1, 4]
    assert all(one.ci_high > 3 for one in stated)  # without the three models that rank it last it is not third
    assert {claim.verdict for claim in stated} == {"undecided"}


# --- words --------------------------------------------------------------------------------------------------------


def test_two_models_lean_to_agency_or_not():
    random = np.random.default_rng(3)
    is_listed = pd.Series(np.arange(100) < 50, [f"w{n}" for n in range(100)])
    rewards = pd.DataFrame(random.normal(size=(100, 2)), is_listed.index, ["R-Gem-2B", "R-Lla-3B"])
    rewards["R-Lla-3B"] += 3.0 * is_listed
    # The paper says nothing of the worst.
    leans = dict.fromkeys(("greatest", "worst"), profiles.lean(rewards, is_listed))
    [claim] = judged(alignment_claims.asked(alignment_claims.profile_claims(leans)))
    assert (claim.claim, claim.role, claim.side) == ("S2.individualistic", "primary", "for")
    assert claim.corrected == pytest.approx(3, abs=0.7)
    assert alignment_claims.profile_claims({"greatest": profiles.lean(rewards[["R-Lla-3B"]], is_listed)}) == []


def test_every_claim_of_the_section_is_declared_and_listed_once():
    people, rewards, agreed = studied(items=600, models=4, GE=0.5, HP=0.5)
    kind = pd.Series(np.where(np.arange(600) < 40, "nature", ""), people.index)
    values = {prompt: kinds.undervalued_kinds(people, table, kind) for prompt, table in rewards.items()}
    by_kind = {prompt: kinds.by_kind(value, kind) for prompt, value in values.items()}
    pairs = {prompt: matched.matched(people, table) for prompt, table in rewards.items()}
    models, prompts = list(rewards["GE"]), list(rewards)
    rows = alignment_claims.people_claims(concordance.summaries(agreed, models, prompts), len(people))
    rows += alignment_claims.model_claims(concordance.between_models(agreed, models, prompts), len(models))
    rows += alignment_claims.prompt_claims(agreed, models, prompts)
    rows += alignment_claims.end_claims(human.at_ends(people, rewards["GE"], [100, 300]), "GE")
    rows += alignment_claims.matched_claims(pairs)
    rows += alignment_claims.kind_claims(by_kind, dict.fromkeys(prompts, pd.Series({"nature": 0.5})))
    stated = judged(alignment_claims.asked(rows))
    assert {one.claim for one in stated} <= set(claims.listed().index)
    keys = [(one.claim, one.quantity, one.prompt, one.model) for one in stated]
    assert len(set(keys)) == len(keys)
    # What the paper says nothing about is not stated: the numbers of HP, but for its kinds and its pairs of items.
    assert {one.claim for one in stated if one.prompt == "HP"} == {"S4.asymmetry", "S4.undervalued.nature"}
    assert {one.verdict for one in stated} <= {"reproduced", "not reproduced", "undecided", "only as published"}
    of_ge = [one for one in stated if one.prompt == "GE"]
    assert [one.claim for one in of_ge if one.role == "primary"] == [
        "S4.tau.human", "S4.tau.models", "S4.asymmetry", "S4.undervalued.nature",
    ]  # fmt: skip


# --- the paper's numbers, the published and ours ------------------------------------------------------------------


def test_affective_items_are_placed_by_the_models_median():
    names = ["Unconditional love", "Imagination", "Hope", "Happiness", *(f"i{n}" for n in range(396))]
    people = pd.Series(np.arange(400.0), names)
    rewards = pd.DataFrame({name: -np.arange(400.0) for name in "ABC"}, names)
    [claim] = alignment_claims.affective_claims(people, rewards, "GE")
    assert (claim["corrected"], claim["n"]) == (4, 4)  # places 1 to 4 of 400
    assert judged([claim])[0].verdict == UNTESTABLE  # they were named because they are high
    [claim] = alignment_claims.affective_claims(people, -rewards, "GE")
    assert claim["corrected"] == 0


def test_printed_taus_are_compared_with_the_published_scores_and_ours():
    ours = [claims.row("S4.tau.human", "mean", "GE", as_published=0.5), claims.row("S4.tau.human", "sd", "GW")]
    table = alignment_claims.printed_taus(claims.judged(ours), "GE").set_index(["claim", "quantity"])
    row = table.loc[("S4.tau.human", "mean")]
    assert (row["paper"], row["published GE"], row["published GW"], row["ours"]) == ("0.29", "0.26", "0.29", "0.50")
    assert table.loc[("S4.tau.models", "mean"), "paper"] == "0.55"
    assert table["ours"].drop(("S4.tau.human", "mean")).eq("").all()


def test_named_items_have_their_published_ranks_whatever_is_scored_here():
    ours = pd.DataFrame({"people_rank": [5.0, 6], "models_rank": [7.0, 8], "position": [1, 2]}, ["sex", "computer"])
    table = alignment_claims.named_ranks(ours, pd.Index(["computer"])).set_index("item")
    assert table.loc["Universe", "published: people"] == "1" and table.loc["Universe", "ours: people"] == ""
    assert table.loc["Sex", "ours: models"] == "7"
    assert table.loc["Computer", "ours: models"] == ""  # people did not rate the word
    assert table.loc["Black people", "the paper prints"] == "third most undervalued"


def test_cells_agree_by_the_papers_recipe_whatever_is_corrected():
    ratings = pd.DataFrame({"matches": [3195.0, 6.0], "elo": [1300, 1100]}, index=["Evolution", "Penile injury"])
    rows = alignment_claims.data_claims(ratings)
    [cells] = alignment_claims.cell_claims(claims.judged(rows, THE_PAPER), "data")
    # Of items, comparisons, the four moments and the two ends of the matches, only the two ends are as printed.
    assert (cells["claim"], cells["n"], cells["as_published"]) == ("S4.cells", 8, 2 / 8)
    assert "S4.data, items: computed '2', printed '7530'" in cells["note"]
    both = pd.concat([summaries(0.263), summaries(0.294, "GW")])
    judged_ = claims.judged(alignment_claims.people_claims(both, 7530), THE_PAPER)
    [cells] = alignment_claims.cell_claims(judged_, "taus")
    assert (cells["n"], cells["as_published"]) == (4, 1)  # under GW, which the paper computed; GE's .263 is ours
    both.loc["GW", "mean"] = 0.31
    [cells] = alignment_claims.cell_claims(claims.judged(alignment_claims.people_claims(both, 9), THE_PAPER), "taus")
    assert cells["as_published"] == 3 / 4
    assert alignment_claims.cell_claims(claims.judged([], THE_PAPER), "nothing") == []
