"""The verdicts of section 4: numbers by hand on items few enough to count, and verdicts that turn when they should."""

import numpy as np
import pandas as pd
import pytest

from lib.alignment import claims as alignment_claims
from lib.alignment import findings, human
from lib.alignment.claims import HOLOCAUST, THIRD
from lib.claims import THE_PAPER

LOVE, UNTESTED = "Unconditional love", "not testable here"
ELSEWHERE = frozenset()


def by_quantity(claims):
    return {one.quantity: one for one in claims}


def verdicts(claims):
    return {one.verdict for one in claims}


def frame(**columns):
    """Items x models; items are called a, b, c, ..."""
    table = pd.DataFrame(columns)
    return table.set_axis(list("abcdefghijklmnop"[: len(table)]))


# --- the data -----------------------------------------------------------------------------------------------------


def test_the_data_are_counted():
    ratings = pd.DataFrame({"matches": [10, 20, 60]}, index=["Love", "Sports bra", "Gödel, Escher, Bach"])
    found = by_quantity(alignment_claims.data_claims(ratings, THE_PAPER))
    assert found["items"].as_published == 3
    assert found["matches_mean"].as_published == 30  # (10 + 20 + 60) / 3
    assert found["matches_sd"].as_published == pytest.approx(np.sqrt((20**2 + 10**2 + 30**2) / 2))
    assert found["words_mean"].as_published == 2  # 1, 2 and 3 words
    assert found["words_sd"].as_published == 1
    assert {name: one.verdict for name, one in found.items()} == {
        "items": "not reproduced", "matches_mean": "not reproduced", "matches_sd": "not reproduced",
        "words_mean": "not reproduced", "words_sd": "not reproduced",
    }  # fmt: skip


def test_the_data_round_to_what_is_printed():
    ratings = pd.DataFrame({"matches": [479.4 - 464.4, 479.44, 479.4 + 464.4]}, index=["a", "a b", "a b c"])
    found = by_quantity(alignment_claims.data_claims(ratings, THE_PAPER))
    assert found["matches_mean"].verdict == "reproduced"  # 479.41
    assert found["matches_sd"].verdict == "reproduced"
    assert found["items"].verdict == "not reproduced"  # a count has nothing to round


# --- agreement ----------------------------------------------------------------------------------------------------


def summaries(mean):
    row = {"mean": mean, "sd": 0.061, "min": 0.216, "max": 0.388, "ci_low": mean - 0.01, "ci_high": mean + 0.01}
    return pd.DataFrame({"GE": row}).T


def test_agreement_with_people_is_held_against_the_papers_four_numbers():
    found = by_quantity(alignment_claims.people_claims(summaries(0.2949), 7530, THE_PAPER))
    assert verdicts(found.values()) == {"reproduced"}
    assert [found[name].paper for name in ("mean", "sd", "min", "max")] == [0.29, 0.06, 0.22, 0.39]
    assert (found["mean"].ci_low, found["mean"].ci_high) == pytest.approx((0.2849, 0.3049))
    assert found["sd"].ci_low is None and found["mean"].n == 7530
    assert (
        by_quantity(alignment_claims.people_claims(summaries(0.2951), 7530, THE_PAPER))["mean"].verdict
        == "not reproduced"
    )
    elsewhere = alignment_claims.people_claims(summaries(0.29), 99, ELSEWHERE)
    assert verdicts(elsewhere) == {UNTESTED}


def test_agreement_of_models_is_the_papers_only_with_the_diagonal():
    rewards = {"GW": frame(M=[4, 3, 2, 1], N=[4, 3, 1, 2], O=[4, 2, 3, 1])}
    means = pd.DataFrame({"GW": {"pairs": 0.5, "whole": 0.55}}).T
    [claim] = alignment_claims.model_claims(rewards, means, THE_PAPER, resamples=20)
    assert (claim.as_published, claim.corrected, claim.n) == (0.55, 0.5, 3)  # three pairs of three models
    assert claim.verdict == "only as published"
    assert -1 <= claim.ci_low < claim.ci_high <= 1
    swapped = pd.DataFrame({"GW": {"pairs": 0.55, "whole": 0.6}}).T
    assert alignment_claims.model_claims(rewards, swapped, THE_PAPER, resamples=20)[0].verdict == "reproduced"
    [elsewhere] = alignment_claims.model_claims(rewards, means, ELSEWHERE, resamples=20)
    assert elsewhere.verdict == UNTESTED


def test_agreement_across_prompts_is_a_mean_over_models():
    [claim] = alignment_claims.prompt_claims(pd.DataFrame({"GE, HP": [0.5, 0.7, 0.9]}))
    assert (claim.quantity, claim.corrected, claim.n) == ("tau GE, HP", pytest.approx(0.7), 3)
    assert claim.note.startswith("mean over models, from 0.50 to 0.90")
    assert claim.verdict == UNTESTED


# --- what is first, and last --------------------------------------------------------------------------------------


def favourites(**first):
    """Rewards of four items by models, each of which puts the items named (ties included) on top."""
    items = [LOVE, "Sports bra", "Gödel, Escher, Bach", "Water"]
    return pd.DataFrame({name: [9.0 if item in tops else 1.0 for item in items] for name, tops in first.items()}, items)


def test_favourites_are_counted_with_their_ties():
    rewards = favourites(a=[LOVE], b=[LOVE, "Water"], **{"R-Lla-8B": ["Sports bra", "Water"], "F-Lla-8B-v0.1": [LOVE]})
    love, bra, book = alignment_claims.top_claims(rewards, "GE", THE_PAPER)
    assert (love.quantity, love.as_published, love.n) == ("n_unconditional_love", 3, 4)  # a tie for first counts
    assert love.verdict == "not reproduced"
    assert (bra.model, bra.as_published, bra.verdict) == ("R-Lla-8B", 2, "reproduced")  # it and Water
    assert (book.model, book.as_published, book.verdict) == ("F-Lla-8B-v0.1", 0, "not reproduced")


def test_five_models_that_love_unconditionally_are_the_papers():
    rewards = favourites(**{f"m{i}": [LOVE] if i < 5 else ["Water"] for i in range(10)})
    assert alignment_claims.top_claims(rewards, "GE", THE_PAPER)[0].verdict == "reproduced"
    rewards = favourites(**{f"m{i}": [LOVE] if i < 6 else ["Water"] for i in range(10)})
    assert alignment_claims.top_claims(rewards, "GE", THE_PAPER)[0].verdict == "not reproduced"


def ranked(*of_models, items=100, people=None):
    table = pd.DataFrame({human.PEOPLE: np.arange(1.0, items + 1)}, [f"i{n}" for n in range(items - 1)] + [HOLOCAUST])
    for number, rank in enumerate(of_models):
        table[f"m{number}"] = float(rank)  # the ranks of the other items are not looked at
    if people is not None:
        table.loc[HOLOCAUST, human.PEOPLE] = people
    return table


def test_the_holocaust_is_outside_the_worst_tenth_of_most_models():
    rank, above = alignment_claims.holocaust_claims(ranked(50, 89, 90, 100), "GE", THE_PAPER)
    assert (above.as_published, above.n) == (2, 4)  # of 100 items the worst tenth begins at rank 90
    assert above.verdict == "not reproduced"  # two of four are not most
    assert above.note == "models' ranks 50 to 100"
    assert alignment_claims.holocaust_claims(ranked(50, 89, 89, 100), "GE", THE_PAPER)[1].verdict == "reproduced"
    assert (rank.as_published, rank.verdict) == (100, "not reproduced")  # of 100 items the last is not the 7,530th
    assert alignment_claims.holocaust_claims(ranked(50, people=7530), "GE", THE_PAPER)[0].verdict == "reproduced"


# --- two ends -----------------------------------------------------------------------------------------------------


def at_ends(near, halves):
    """Rows as of alignment.at_ends, for cuts 10, 50 and 100; near and halves: (high, low) at the last two."""
    rows = []
    for cut, (high, low) in zip((10, 50, 100), ((0.5, 0.1), near, halves), strict=True):
        row = {"cut": cut, "difference": high - low, "difference_ci_low": 0.01, "difference_ci_high": 0.2}
        for end, tau in (("high", high), ("low", low)):
            row |= {f"{end}_tau": tau, f"{end}_ci_low": tau - 0.1, f"{end}_ci_high": tau + 0.1, f"{end}_items": cut}
        rows.append(row)
    return pd.DataFrame(rows)


def test_the_two_ends_are_stated_for_every_cut_and_judged_beside_the_halves():
    claims = alignment_claims.end_claims({"GE": at_ends((0.19, 0.08), (0.3, 0.075))}, 200, THE_PAPER)
    assert [(one.quantity, one.as_published, one.corrected) for one in claims[:-1]] == [
        ("high", 0.5, 0.3), ("low", 0.1, 0.075), ("high", 0.19, 0.3), ("low", 0.08, 0.075), ("high", 0.3, 0.3),
        ("low", 0.075, 0.075),
    ]  # fmt: skip
    assert [one.verdict for one in claims[:-1]] == [
        "not reproduced", "reproduced", "only as published", "reproduced", "not reproduced", "reproduced",
    ]  # fmt: skip
    assert [one.n for one in claims] == [10, 10, 50, 50, 100, 100, 200]
    assert (claims[2].ci_low, claims[2].ci_high) == pytest.approx((0.09, 0.29))
    assert all(
        f"cut: {cut} items" in claim.note for cut, claim in zip((10, 10, 50, 50, 100, 100), claims, strict=False)
    )


def test_the_gap_is_judged_for_the_papers_prompt_alone():
    paper, off = at_ends((0.19, 0.08), (0.2, 0.09)), at_ends((0.19, 0.08), (0.3, 0.08))
    [*_, here, elsewhere] = alignment_claims.end_claims({"GE": paper, "HP": paper}, 200, THE_PAPER)
    assert (here.quantity, here.paper, here.as_published, here.corrected) == (
        "difference", 0.11, pytest.approx(0.11), pytest.approx(0.11),
    )  # fmt: skip
    assert (here.verdict, elsewhere.verdict, elsewhere.paper) == ("reproduced", UNTESTED, None)
    assert alignment_claims.end_claims({"GE": off}, 200, THE_PAPER)[-1].verdict == "only as published"
    assert verdicts(alignment_claims.end_claims({"GE": paper}, 200, ELSEWHERE)) == {UNTESTED}


# --- undervalued --------------------------------------------------------------------------------------------------


def kinds(above, low):
    return pd.DataFrame(
        {"kind": ["sexual content"], "items": [9], "above": [above], "ci_low": [low], "ci_high": [0.99]}
    )


@pytest.mark.parametrize(
    "raw_low, beyond_low, verdict",
    [
        (0.6, 0.51, "reproduced"),
        (0.4, 0.51, "reproduced"),
        (0.6, 0.5, "only as published"),
        (0.5, 0.5, "not reproduced"),
    ],
)
def test_a_kind_is_undervalued_if_chance_lies_below_its_interval(raw_low, beyond_low, verdict):
    raw, beyond = kinds(0.8, raw_low), kinds(0.7, beyond_low)
    [claim] = alignment_claims.kind_claims(raw, beyond, "GE", THE_PAPER)
    assert claim.quantity == "above_sexual_content"
    assert (claim.as_published, claim.corrected, claim.ci_low, claim.n) == (0.8, 0.7, beyond_low, 9)
    assert claim.verdict == verdict
    assert alignment_claims.kind_claims(raw, beyond, "GE", ELSEWHERE)[0].verdict == UNTESTED


def undervaluing(place):
    """People and two models of ten items, of which THIRD is `place`th in the order of undervaluation."""
    items = [THIRD if n == place - 1 else f"i{n}" for n in range(10)]
    people = pd.Series(np.arange(10.0, 0, -1), items)  # ranks 1 to 10
    return people, {"GE": pd.DataFrame({"M": -people, "N": -people})}  # ranked the other way round: 10 to 1


@pytest.mark.parametrize("place, verdict", [(1, "reproduced"), (3, "reproduced"), (4, "not reproduced")])
def test_the_place_of_the_papers_third(place, verdict):
    people, rewards = undervaluing(place)
    table = alignment_claims.places_of_third(people, rewards, resamples=5)
    claims = alignment_claims.place_claims(table, len(people), THE_PAPER)
    assert [one.quantity for one in claims] == ["position_black_people"] * 3
    # The first aggregate is the paper's code; the two others are what its text could mean.
    assert [one.as_published for one in claims] == [place, None, None]
    assert [one.corrected for one in claims] == [None, place, place]
    assert verdicts(claims) == {verdict}
    assert list(table["aggregate"]) == list(human.AGGREGATES)
    assert table["position"].tolist() == [place] * 3
    assert {(one.ci_low, one.ci_high) for one in claims} == {(place, place)}  # all models are alike
    assert [f"aggregate: {name}" in one.note for name, one in zip(human.AGGREGATES, claims, strict=True)] == [True] * 3


def model_that_ranks(items, **wanted):
    """Rewards of a model that gives some items these ranks and leaves the others in their order."""
    others = iter([item for item in items if item not in wanted])
    by_rank = {rank: item for item, rank in wanted.items()}
    order = [by_rank.get(rank) or next(others) for rank in range(1, len(items) + 1)]
    return pd.Series(range(len(items), 0, -1), order).reindex(items).astype(float)


def test_a_place_that_an_aggregate_of_models_alone_does_not_give_is_only_as_published():
    items = [THIRD, "a", "b", "c", *(f"i{n}" for n in range(96))]
    people = pd.Series(np.arange(100.0, 0, -1), items)  # ranks 1, 2, 3, 4, ...
    last, middle = {"a": 99, "b": 98, "c": 97}, {"a": 60, "b": 61, "c": 62}
    ranks = [last | {THIRD: 100}, last | {THIRD: 100}, middle | {THIRD: 100}, middle | {THIRD: 1}]
    rewards = pd.DataFrame({f"m{i}": model_that_ranks(items, **given) for i, given in enumerate(ranks)})
    claims = alignment_claims.place_claims(
        alignment_claims.places_of_third(people, {"GE": rewards}, resamples=2), len(people), THE_PAPER
    )
    # THIRD falls from 1 to a median of 100 but a mean of 75.25; a, b, c to medians up to 79.5 and means of 79.5.
    assert [one.as_published or one.corrected for one in claims] == [1, 1, 4]
    assert [one.verdict for one in claims] == ["reproduced", "reproduced", "only as published"]


def test_the_place_is_judged_for_the_first_prompt_and_on_the_papers_items():
    people, rewards = undervaluing(2)
    places = alignment_claims.places_of_third(people, rewards | {"HP": rewards["GE"]}, resamples=2)
    claims = alignment_claims.place_claims(places, len(people), THE_PAPER)
    assert [one.verdict for one in claims] == ["reproduced"] * 3 + [UNTESTED] * 3
    assert [one.paper for one in claims] == [3] * 3 + [None] * 3
    elsewhere = alignment_claims.place_claims(places, len(people), ELSEWHERE)
    assert verdicts(elsewhere) == {UNTESTED}


# --- sentences ----------------------------------------------------------------------------------------------------


def test_sentences_about_agreement():
    taus = pd.DataFrame({"GE": {"a": 0.216, "b": 0.388}})
    assert findings.people_in_words(summaries(0.29), taus) == (
        "GE: mean tau 0.29 [0.28, 0.30], from 0.22 (a) to 0.39 (b)."
    )
    told = findings.raters_in_words(0.61, pd.Series({"a": 0.4, "b": 0.5}))
    assert told.startswith("Half of the raters with the other half: tau 0.61. Models with half of the raters: ")
    assert told.endswith(" 0.45 on average, 0.50 at best.")
    across = pd.DataFrame({"GE, HP": [0.5, 0.9], "GE, GW": [0.2, 0.4]})
    assert findings.prompts_in_words(across) == (
        "GE, HP: mean 0.70, from 0.50 to 0.90; GE, GW: mean 0.30, from 0.20 to 0.40"
    )
    halves = at_ends((0.19, 0.08), (0.3, 0.1))
    assert findings.ends_in_words(halves) == (
        "Upper less lower half: +0.200 [0.010, 0.200]; with 50 items at each end +0.110 [0.010, 0.200]."
    )


def test_sentences_about_items():
    found = pd.DataFrame({"people_rank": [1.0, 2, 3, 4], "expected": [1.5, 1.5, 3, 4]}, index=list("abcd"))
    assert findings.expectation_in_words(found, shares=(0.5,)) == (
        "An item that people rank 2 of 4 is expected at 2 by models."
    )  # half of four is rank 2; 1.5 is rounded to even
    lines = findings.expectation_in_words(found, shares=(0.25, 1)).splitlines()
    assert lines[1] == "An item that people rank 4 of 4 is expected at 4 by models."
    table = ranked(50, 70).assign(m0=lambda t: [*range(1, 100), 50])
    told = findings.holocaust_in_words(table, last=3)
    assert told.startswith("'The Holocaust': rank 100 of 100 by people; by models 50, 70: median 60. Of the 3 items")
    # Those three: (98, 70), (99, 70) and (50, 70), whose medians are 84, 84.5 and 60.
    assert told.endswith("that people rate lowest the median is 84.")


def test_sentences_about_kinds():
    beyond = pd.DataFrame({"kind": ["nature", "identity", "art"], "above": [0.6, 0.8, 0.7], "ci_low": [0.55, 0.7, 0.5]})
    assert findings.kinds_in_words(beyond) == "identity 0.80, nature 0.60"  # art's interval reaches chance
    assert findings.kinds_in_words(beyond.assign(ci_low=0.4)) == "no kind"


def test_planted_penalties_are_counted_above_every_control():
    alone = pd.DataFrame({"identity": {"a": 0.9, "b": 0.55, "c": 0.6, "d": 0.5}})
    planted = pd.DataFrame({"identity": {"a": 0.5, "b": 0.5, "c": 0.0, "d": 0.0}})
    assert findings.planted_in_words(alone, planted) == (
        "identity: 1 of 2 models with a penalty lie above the control (0.60); not: b."
    )
    told = findings.planted_in_words(alone.assign(identity=[0.9, 0.7, 0.6, 0.5]), planted)
    assert told == "identity: 2 of 2 models with a penalty lie above the control (0.60); not: none."
