"""The scorecard's summaries: counts by word, and the word of a statement."""

import re

import pandas as pd
import pytest

from lib import ROOT
from lib.claims import claims, scorecard
from lib.claims.rules import HOLDS, NOT_SHOWN, NOT_TESTABLE, PARTLY

README = ROOT / "README.md"


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


def test_readme_has_the_words_of_the_committed_claims():
    committed = claims.published_table("claims").drop_duplicates("claim")
    word_of = committed.set_index("claim")["word"]
    shown = re.findall(
        r"^\| (.+?) \| \*\*(.+?)\*\* \|", README.read_text(), re.MULTILINE
    )
    expected = []
    for row in claims.paper_table("statements").itertuples():
        words = set(word_of[row.claims.split()])
        # a sentence that cannot be tested does not count where another can
        tested = words - {NOT_TESTABLE} or words
        several = PARTLY if tested & {HOLDS, PARTLY} else NOT_SHOWN
        expected.append((row.statement, several if len(tested) > 1 else tested.pop()))
    assert shown == expected
