"""Sections of Markdown files are made from claims, and those of README and docs are what the committed claims give."""

import pandas as pd
import pytest

from lib import ROOT, InputError
from lib.claims import claims, sections

PAGE = "# Title\n\n<!-- {0}: begin -->\nold 99\n<!-- {0}: end -->\n\nProse 42.\n"


@pytest.fixture
def gathered():
    numbers = {"corrected": 0.64, "ci_low": 0.55, "ci_high": 0.73, "n": 22}
    lowest = {"as_published": 0.13, "judged": (0.125, 0.135), "population": "figures (printed)"}
    rows = [claims.row("S4.undervalued.identity", "above", "GE", p=0.003, **numbers),
            claims.row("S4.undervalued.identity", "above", "HP", p=0.36, corrected=0.55, ci_low=0.44, ci_high=0.67),
            claims.row("S2.tau", "min", **lowest)]  # fmt: skip
    return claims.judged(rows, claims.THE_PAPER, "items").astype(dict.fromkeys(claims.NUMBERS, float))


def test_counts_stand_by_evidence_and_are_never_added_up(gathered):
    page = sections.refreshed(PAGE.format("counts"), gathered)
    assert "old 99" not in page and page.startswith("# Title") and page.endswith("Prose 42.\n")
    lines = page.split("\n")
    assert lines[3] == "| evidence | which is | reproduced | undecided |"
    assert [line.split(" | ")[0][2:] for line in lines[5:7]] == ["recomputed", "counted"]
    assert [line.removesuffix(" |").split(" | ")[2:] for line in lines[5:7]] == [["0", "1"], ["1", "0"]]


def test_a_sentence_shows_every_prompt_that_it_must_hold_under(gathered):
    page = sections.refreshed(PAGE.format("sentences S4.undervalued.identity"), gathered)
    assert "| Models undervalue identity groups" in page and "| **undecided** | recomputed |" in page
    assert "GE: 0.64 [0.55, 0.73], n = 22" in page and "HP: 0.55 [0.44, 0.67]" in page
    assert sections.refreshed(page, gathered) == page
    changed = sections.refreshed(page, gathered.replace({"corrected": {0.55: 0.56}}))
    assert "HP: 0.56 [0.44, 0.67]" in changed


def test_a_finding_has_the_numbers_of_its_claim_and_is_refused_where_the_verdict_differs():
    committed = sections.committed()
    if committed.empty:
        pytest.skip("figures/published/claims.csv is missing; run: make published")
    page = sections.refreshed(PAGE.format("findings framing"), committed)
    rows = (committed["claim"] == "S3.framing.interaction") & (committed["population"] == "moral words")
    changed = committed.assign(corrected=committed["corrected"].where(~rows, 9.25))
    assert "9.2 [" not in page and "9.2 [" in sections.refreshed(page, changed)
    judged = committed.assign(verdict=committed["verdict"].where(~rows, "undecided"))
    with pytest.raises(
        InputError, match="'framing' was written for the verdict 'on other texts'.*write the sentence anew"
    ):
        sections.refreshed(page, judged)


def test_an_unknown_claim_and_a_missing_section_are_named(gathered):
    with pytest.raises(InputError, match="'S9.none' is no claim of data/paper/claims.csv"):
        sections.refreshed(PAGE.format("sentences S9.none"), gathered)
    with pytest.raises(InputError, match="no section 'counts'; write <!-- counts: begin -->"):
        sections.replace_section("nothing", "counts", "")


@pytest.mark.parametrize("name", sections.PAGES)
def test_the_committed_pages_are_what_the_committed_claims_give(name):
    if not set(claims.COLUMNS) <= set(claims.published_table("claims").columns):
        pytest.skip("figures/published/claims.csv is of an older form; run: make published")
    text = (ROOT / name).read_text()
    assert sections.SECTION.search(text)
    assert sections.refreshed(text, sections.committed()) == text


def test_a_table_as_markdown():
    table = pd.DataFrame({"a": ["x"], "b": [0.12345]})
    assert sections.markdown(table) == "| a | b |\n| --- | --- |\n| x | 0.123 |"
