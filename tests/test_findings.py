"""Findings in sentences: the numbers of the claims, each in its words, and nothing that was not found."""

import pandas as pd
import pytest

from lib import ROOT, claims, findings
from lib.claims import Claim
from lib.collection import Collection


@pytest.fixture
def told(tmp_path, monkeypatch):
    """The sentence and the verdict of each claim that these rows come to, as a collection keeps them."""
    monkeypatch.setattr("lib.collection.ROOT", tmp_path)

    def found(*rows: Claim, collection="published-items") -> pd.DataFrame:
        claims.keep(Collection(collection), "06", list(rows))
        return findings.sentences(claims.gather(Collection(collection)))

    return found


def sentence(table: pd.DataFrame) -> str:
    [text] = table["found"]
    return text


# --- one number ---------------------------------------------------------------------------------------------------


def test_a_corrected_number_stands_with_its_interval_before_the_published_and_the_papers(told):
    mean = Claim("S4.tau.models", "mean", "GW", "", 0.55, 0.552, 0.502, 0.496, 0.509, verdict="only as published")
    assert sentence(told(mean)) == "Mean tau of two models: GW 0.50 [0.50, 0.51] (as published 0.55, paper 0.55)"


def test_a_published_number_stands_alone_where_nothing_is_corrected(told):
    mean = Claim("S4.tau.human", "mean", "GE", "", 0.29, 0.401, None, 0.39, 0.41, verdict="not reproduced")
    assert sentence(told(mean)) == "Mean tau of models with people: GE 0.40 [0.39, 0.41] (paper 0.29)"


def test_a_published_number_that_reads_the_same_is_not_repeated(told):
    same = Claim("S4.tau.models", "mean", "", "", 0.5, 0.502, 0.498, verdict="reproduced")
    assert sentence(told(same)) == "Mean tau of two models: 0.50 (paper 0.5)"
    other = Claim("S4.tau.models", "mean", "", "", 0.5, 0.506, 0.498, verdict="reproduced")
    assert sentence(told(other)) == "Mean tau of two models: 0.50 (as published 0.51, paper 0.5)"


def test_the_papers_number_is_left_out_where_it_cannot_be_compared(told):
    here = Claim("S4.tau.models", "mean", "greatest", "", 0.55, None, 0.592)
    assert sentence(told(here)) == "Mean tau of two models: greatest 0.59"


def test_counts_are_whole_numbers(told):
    items = Claim("S4.data", "items", paper=7530, as_published=7530, verdict="reproduced")
    assert sentence(told(items)) == "Items: 7530 (paper 7530)"  # neither 7530.00 nor 7530.0
    place = Claim("S4.undervalued", "position_black_people", "GE", corrected=12.5, verdict="not reproduced")
    assert sentence(told(place)) == "Place of Black people: GE 12"  # from ten on, no decimals


# --- several ------------------------------------------------------------------------------------------------------


def test_prompts_and_quantities_are_listed_in_the_order_of_the_phrases(told):
    rows = [
        Claim("S3.slope.worst", "gap_without_offensive", "worst", corrected=0.18),
        Claim("S3.slope.worst", "n_steeper", "worst", corrected=3),
        Claim("S3.slope.worst", "gap", "worst", corrected=-0.3, ci_low=-0.4, ci_high=-0.2),
    ]
    assert sentence(told(*rows)) == (
        "Models steeper among negative words: worst 3. Mean gap in slope: worst -0.30 [-0.40, -0.20]. "
        "The gap without offensive words: worst 0.18"
    )
    rows = [Claim("S4.tau.models", "mean", prompt, corrected=tau) for prompt, tau in {"GE": 0.1, "HP": 0.2}.items()]
    assert sentence(told(*rows)) == "Mean tau of two models: GE 0.10; HP 0.20"


def test_of_several_inputs_the_first_is_told_but_of_a_place_every_aggregate(told):
    r2 = [Claim("S2.rsa.final", "r2", corrected=number, note=note) for number, note in ((0.37, "a"), (0.91, "b"))]
    assert sentence(told(*r2)).endswith("by base and rank: 0.37")
    places = [Claim("S4.undervalued", "position_black_people", "GE", corrected=place, note=f"aggregate: {place}")
              for place in (3, 8)]  # fmt: skip
    assert sentence(told(*places)) == "Place of Black people: GE 3; GE 8"


def test_a_quantity_without_a_phrase_and_a_row_without_a_number_say_nothing(told):
    rows = [Claim("S4.tau.human", "sd", "GE", as_published=0.05), Claim("S4.tau.human", "mean", "GE")]
    assert told(*rows).empty


# --- the table ----------------------------------------------------------------------------------------------------


def test_the_table_has_the_claims_that_have_numbers_in_the_papers_order_with_their_verdicts(told):
    table = told(
        Claim("S4.tau.models", "mean", "GE", paper=0.55, corrected=0.55, verdict="reproduced"),
        Claim("S4.tau.models", "mean", "HP", paper=0.55, corrected=0.3, verdict="not reproduced"),
        Claim("S2.tau", "mean", corrected=0.31),
        Claim("S4.prompts", "tau GE, HP", corrected=0.7),
    )
    assert table["verdict"].to_dict() == {"S2.tau": "not testable here", "S4.tau.models": "in part"}
    assert list(table.index) == ["S2.tau", "S4.tau.models"] and table.index.name == "claim"


def test_every_phrase_is_about_a_claim_of_the_paper():
    assert set(findings.phrases()) <= set(claims.listed().index)


@pytest.mark.parametrize("collection", ["embedded", "published"])
def test_every_phrase_is_said_of_some_committed_claim(collection):
    """A quantity that is renamed where it is computed would silently leave its sentence."""

    committed = pd.read_csv(ROOT / "figures" / collection / "claims.csv", dtype={"paper": str}).fillna({"paper": ""})
    stated = set(zip(committed["claim"], committed["quantity"], strict=True))
    elsewhere = {"S4.data", "S4.tops", "S4.holocaust", "S4.undervalued"}  # about EloEverything's items alone
    phrases = {(claim, name) for claim, names in findings.phrases().items() for name in names
               if collection == "published" or claim not in elsewhere}  # fmt: skip
    assert phrases - stated == set()
