"""The scorecard's summaries: counts by word, and the word of a statement."""

import pandas as pd
import pytest

from lib import InputError
from lib.claims import claims, scorecard


@pytest.fixture
def gathered() -> pd.DataFrame:
    blank = dict.fromkeys(claims.COLUMNS, "") | dict.fromkeys(
        [*claims.NUMBERS, "p_corrected"]
    )
    rows = [
        {"claim": "S1", "quantity": "gap", "word": "holds", "role": "primary"}
        | {"corrected": 0.5, "ci_low": 0.25, "ci_high": 0.75},
        {
            "claim": "S1",
            "quantity": "mean",
            "word": "holds",
            "paper": "0.29",
            "as_published": 0.2936,
        },
        {"claim": "S2", "quantity": "gap", "word": "not shown"},
        {"claim": "S3", "quantity": "gap", "word": "not testable here"},
        {"claim": "S4", "quantity": "gap", "word": "beyond the paper"},
    ]
    table = pd.DataFrame([blank | row for row in rows])
    return table.astype(dict.fromkeys([*claims.NUMBERS, "p_corrected"], float))


def test_sentences_are_counted_once_and_questions_of_ours_are_not(gathered):
    assert scorecard.counts(gathered).to_dict() == {
        "holds": 1,
        "partly": 0,
        "not shown": 1,
        "number only": 0,
        "not testable here": 1,
    }


def test_words_are_counted_for_each_evidence(gathered):
    gathered["evidence"] = [
        "released rewards",
        "printed tables",
        "printed tables",
        "",
        "",
    ]
    table = scorecard.counts_by_evidence(gathered.assign(role="primary"))
    assert table.loc["holds"].to_dict() == {
        "all": 1,
        "printed tables": 0,
        "released rewards": 1,
        "own run": 0,
    }
    assert table.loc["not testable here"].to_dict() == {
        "all": 1,
        "printed tables": 0,
        "released rewards": 0,
        "own run": 0,
    }


def test_stricter_corrections_keep_fewer_tests(monkeypatch):
    p = [0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205, 0.212, 0.216]
    monkeypatch.setattr(claims, "primary_tests", lambda table: table["p"] < 2)
    kept = scorecard.corrections(pd.DataFrame({"p": p}))
    # BH: the largest i with p_i <= .05 i / 10 is 2 (.008 <= .01). BY: divided by 1 + 1/2 + ... +
    # 1/10 = 2.93, it is 1. Holm: .001 <= .05 / 10, .008 > .05 / 9.
    assert kept.tolist() == [10, 2, 1, 1]


@pytest.mark.parametrize(
    "of, word",
    [
        ("S1", "holds"),
        ("S2", "not shown"),
        ("S1 S2", "partly"),
        ("S1 S3", "holds"),
        ("S3", "not testable here"),
    ],
)
def test_a_statement_has_one_word_and_a_sentence_of_numbers(
    gathered, monkeypatch, of, word
):
    row = {
        "statement": "A is B.",
        "claims": of,
        "sentence": "It is {S1/gap}.",
        "picture": "",
        "notebooks": "02",
    }
    monkeypatch.setattr(claims, "paper_table", lambda name: pd.DataFrame([row]))
    [shown] = scorecard.statements(gathered).to_dict("records")
    assert (shown["word"], shown["sentence"]) == (word, "It is 0.50 [0.25, 0.75].")


@pytest.mark.parametrize(
    "name, shown",
    [
        ("S1/gap:%", "50% [25%, 75%]"),
        ("S5/models//old:of", "3 of 10"),
        ("S5/models:of", "3 of 10"),
        ("S5/models//new:th", "12th"),
        ("S5/models/best/old:th", "third"),
        ("S1/mean", "0.29"),
    ],
)
def test_a_name_in_a_sentence_becomes_its_number(gathered, name, shown):
    blank = dict.fromkeys(claims.COLUMNS, "") | dict.fromkeys(
        [*claims.NUMBERS, "p_corrected"]
    )
    models = [
        blank
        | {
            "claim": "S5",
            "quantity": "models",
            "prompt": "best",
            "model": model,
            "corrected": n,
            "n": 10,
        }
        for model, n in (("old", 3), ("new", 12))
    ]
    table = pd.concat(
        [gathered, pd.DataFrame(models).astype({"ci_low": float, "ci_high": float})]
    )
    assert scorecard.filled("{" + name + "}", table) == shown


def test_a_limit_just_below_0_is_not_shown_as_0(gathered):
    gathered.loc[0, ["corrected", "ci_low", "ci_high"]] = 0.085, -0.0004, 0.168
    assert scorecard.filled("{S1/gap}", gathered) == "0.085 [-0.0004, 0.168]"


def test_the_other_sentences_are_counted_by_word(gathered):
    gathered["evidence"] = ["released rewards", *[""] * 4]
    assert scorecard.counted(gathered.assign(role="primary")) == (
        "Of 3 sentences of the paper: *holds* 1, *not shown* 1, *not testable here* 1."
    )


def test_a_name_without_a_number_is_refused(gathered):
    with pytest.raises(InputError, match="no number {S1/absent} in the claims"):
        scorecard.filled("It is {S1/absent}.", gathered)


def test_every_statement_is_about_sentences_of_the_paper_and_its_numbers_are_declared():
    table = claims.paper_table("statements")
    assert len(table) == 8
    assert {name for row in table["claims"] for name in row.split()} <= set(
        claims.listed().index
    )
    for row in table.itertuples():
        found = [each.groups("")[:4] for each in scorecard.NAMED.finditer(row.sentence)]
        named = claims.declared(pd.DataFrame(found, columns=claims.NAMES))
        assert named["role"].notna().all()
        assert set(named["claim"]) <= set(row.claims.split())
