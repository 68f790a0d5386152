"""The scorecard's summaries: counts by word, and the word of a statement."""

import pandas as pd
import pytest

from lib.claims import claims, scorecard


@pytest.fixture
def gathered() -> pd.DataFrame:
    blank = dict.fromkeys(claims.COLUMNS, "") | dict.fromkeys([*claims.NUMBERS, "p_corrected"])
    rows = [
        {"claim": "S1", "quantity": "gap", "word": "holds", "role": "primary"}
        | {"corrected": 0.5, "ci_low": 0.25, "ci_high": 0.75},
        {"claim": "S1", "quantity": "mean", "word": "holds", "paper": "0.29", "as_published": 0.2936},
        {"claim": "S2", "quantity": "gap", "word": "not shown"},
        {"claim": "S3", "quantity": "gap", "word": "not testable here"},
        {"claim": "S4", "quantity": "gap", "word": "beyond the paper"},
    ]
    table = pd.DataFrame([blank | row for row in rows])
    return table.astype(dict.fromkeys([*claims.NUMBERS, "p_corrected"], float))


@pytest.fixture(autouse=True)
def _declared(monkeypatch):
    def declared(claim, quantity, prompt="", model=""):
        return claims.Declared(claim, quantity, "", "", "", "", "rounds", 0.0, 0.0, "", f"the {quantity}", "")

    monkeypatch.setattr(claims, "declared", declared)


def test_sentences_are_counted_once_and_questions_of_ours_are_not(gathered):
    assert scorecard.counts(gathered).to_dict() == {
        "holds": 1, "partly": 0, "not shown": 1, "number only": 0, "not testable here": 1}  # fmt: skip


@pytest.mark.parametrize(
    "of, word",
    [("S1", "holds"), ("S2", "not shown"), ("S1 S2", "partly"), ("S1 S3", "holds"), ("S3", "not testable here")],
)
def test_a_statement_has_one_word_and_one_number(gathered, monkeypatch, of, word):
    row = {"statement": "A is B.", "claims": of, "claim": "S1", "prompt": "", "picture": "", "notebooks": "02"}
    rows = [row | {"quantity": "gap", "what": "of ten"}, row | {"quantity": "absent", "what": "of ten"}]
    monkeypatch.setattr(claims, "paper_table", lambda name: pd.DataFrame(rows))
    named, first = scorecard.statements(gathered).to_dict("records")
    assert named["word"] == word and named["number"] == first["number"] == "0.5 [0.25, 0.75]"
    assert (named["what"], first["what"]) == ("of ten", "the gap")  # the first primary quantity stands in


def test_every_statement_is_about_sentences_of_the_paper_and_its_number_is_declared(monkeypatch):
    monkeypatch.undo()
    table = claims.paper_table("statements")
    assert len(table) == 8
    assert {name for row in table["claims"] for name in row.split()} <= set(claims.listed().index)
    for row in table.itertuples():
        assert row.claim in row.claims.split()
