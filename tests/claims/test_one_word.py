"""One word per sentence: committed claims, tables of executed notebooks and a second
implementation of the rules.
"""

import html
import json
import re

import pandas as pd
import pytest

from lib import ROOT
from lib.claims import claims

ROW, CELL = (
    re.compile(r"<tr>(.+?)</tr>", re.DOTALL),
    re.compile(r"<t[dh][^>]*>(.*?)</t[dh]>", re.DOTALL),
)
# a word in a text, with its sentence in a comment: partly<!-- S2.rsa.beyond -->
NAMED = re.compile(r"([a-z ]+)<!-- ([SA]\d[\w.]*) -->")
COMMITTED = claims.published_table("claims")
WORDS = COMMITTED.drop_duplicates("claim").set_index("claim")["word"]
NEEDS = claims.listed()["needs"]
# population -> what of the paper's own it has
HAVE = {"moral words": "words", "items": "items"}
ROLES = ("primary", "also", "printed")


def printed_tables(start: str) -> list[list[dict]]:
    """The tables with a column `word` that an executed notebook shows, as rows."""
    [path] = (ROOT / "notebooks").glob(f"{start}_*.ipynb")
    outputs = [
        output
        for cell in json.loads(path.read_text())["cells"]
        for output in cell.get("outputs", [])
    ]
    tables = []
    for shown in (
        "".join(output.get("data", {}).get("text/html", "")) for output in outputs
    ):
        rows = [
            [html.unescape(cell) for cell in CELL.findall(row)]
            for row in ROW.findall(shown)
        ]
        if rows and {"sentence", "word"} <= set(rows[0]):
            tables.append([dict(zip(rows[0], row, strict=True)) for row in rows[1:]])
    return tables


PRINTED = {
    start: printed_tables(start)
    for start in ("02", "03", "04", "05", "06", "07", "08", "09")
}


@pytest.mark.parametrize("start", PRINTED)
def test_a_notebook_shows_the_words_of_the_committed_claims(start):
    shown = {
        row["claim"]: row["word"]
        for table in PRINTED[start]
        for row in table
        if row["word"]
    }
    assert shown and shown == {claim: WORDS[claim] for claim in shown}


def test_the_scorecard_shows_every_sentence_with_the_word_of_the_committed_claims():
    card, says = printed_tables("11")[0], claims.listed()["says"]
    shown = {row["sentence"]: row["word"] for row in card}
    assert shown == {
        says[claim]: word for claim, word in WORDS.items() if word != "beyond the paper"
    }


def test_pages_and_notebooks_name_the_committed_word_of_a_sentence():
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "notebooks").rglob("*.ipynb")]
    named = [found for page in pages for found in NAMED.findall(page.read_text())]
    assert len(named) >= 6 and named == [(WORDS[claim], claim) for _, claim in named]


def test_readme_has_the_words_of_the_committed_claims():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| (.+?) \| \*\*(.+?)\*\* \|", readme, re.MULTILINE)
    expected = []
    for row in claims.paper_table("statements").itertuples():
        words = set(WORDS[row.claims.split()])
        # a sentence that cannot be tested does not count where another can
        tested = words - {"not testable here"} or words
        several = "partly" if tested & {"holds", "partly"} else "not shown"
        expected.append((row.statement, several if len(tested) > 1 else tested.pop()))
    assert shown == expected


PLACE = re.compile(r"\{([\w.]+)/(\w+)(?:/([^/:}]*))?(?:/([^/:}]*))?(?::(%|of|th))?\}")
NUMBER = r"(\S+?(?: \[[^\]]+\]| of \d+)?)"  # with its interval, or of how many
ORDINALS = ["", "first", "second", "third", "fourth"]


def committed_numbers(names: tuple[str, ...], how: str) -> list[float]:
    """The number of the claims that a place names, and its interval or how many there are."""
    row = COMMITTED
    for column, name in zip(claims.NAMES, names, strict=True):
        row = row[row[column] == name] if name else row
    row = row.iloc[0]
    value = row["as_published"] if pd.isna(row["corrected"]) else row["corrected"]
    if how == "of":
        return [value, row["n"]]
    ends = [row["ci_low"], row["ci_high"]] if row["ci_low"] < row["ci_high"] else []
    return [each * (100 if how == "%" else 1) for each in (value, *ends)]


def test_readme_has_the_numbers_of_the_committed_claims():
    """data/paper/statements.csv says which number stands at which place of a sentence."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    sentences = re.findall(r"^\| .+? \| \*\*.+?\*\* \| (.+?) \|", readme, re.MULTILINE)
    table = claims.paper_table("statements")
    for shown, sentence in zip(sentences, table["sentence"], strict=True):
        around = map(re.escape, re.split(r"\{.+?\}", sentence))
        found = re.fullmatch(NUMBER.join(around), shown)
        for text, place in zip(found.groups(), PLACE.findall(sentence), strict=True):
            *names, how = place
            numbers = committed_numbers(tuple(names), how)
            if how == "th":
                assert text == ORDINALS[int(numbers[0])]
                continue
            for digits, number in zip(
                re.findall(r"-?[\d.]+", text), numbers, strict=True
            ):
                half = 0.5 / 10 ** len(digits.partition(".")[2])
                assert float(digits) == pytest.approx(number, abs=half + 1e-9)


# --- the rules, written again ---------------------------------------------------------------------


def supports(row, rule: str, printed: str, within: str, limit: str) -> bool:
    """Whether a number says what the sentence says, by the descriptions of the rules in
    lib/claims/rules.py.
    """
    recipe = row.corrected if pd.isna(row.as_published) else row.as_published
    main = row.as_published if pd.isna(row.corrected) else row.corrected
    low, high = (main, main) if pd.isna(row.ci_low) else (row.ci_low, row.ci_high)
    if rule == "rounds":
        return abs(recipe - float(printed)) <= max(
            float(within) + 1e-9, abs(float(printed)) / 1000
        )
    if rule == "bound":
        return (recipe < float(printed[1:])) == printed.startswith("<")
    if rule in ("count", "all", "most", "at most half"):
        half = main - row.n / 2
        return {
            "count": recipe == pd.to_numeric(printed, "coerce"),
            "all": main == row.n,
            "most": half > 0,
            "at most half": half <= 0,
        }[rule]
    at = float(limit)
    return {
        "above": low > at,
        "below": high < at,
        "at least": main >= at,
        "more than": main > at,
    }[rule]


def word_again(rows: pd.DataFrame) -> str:
    """The word of one sentence from its rows, which have `says` and `has_texts`."""
    of_role = {role: rows[rows["role"] == role] for role in ROLES}
    if not of_role["primary"]["has_texts"].all() or not len(of_role["primary"]):
        return "not testable here"
    says = {
        role: of["says"][of["has_texts"]].astype(bool).tolist()
        for role, of in of_role.items()
    }
    tested = says["primary"] + says["also"]
    if any(tested):
        return "holds" if all(tested + says["printed"]) else "partly"
    return "number only" if says["printed"] and all(says["printed"]) else "not shown"


def test_a_second_implementation_of_the_rules_gives_every_word():
    table = COMMITTED[COMMITTED["word"] != "beyond the paper"].copy()
    rows = table[table["role"].isin(ROLES)].copy()
    rows = claims.declared(rows.drop(columns=["paper", "role"]))
    rows["says"] = [
        supports(row, row.rule, row.paper, row.within, row.limit)
        for row in rows.itertuples()
    ]
    rows["has_texts"] = [
        row.evidence == claims.COUNTED
        or HAVE[row.population] == NEEDS[row.claim]
        and (row.role, row.population) != ("printed", "moral words")
        for row in rows.itertuples()
    ]
    rows["says"] &= ~(rows["role"].ne("primary") & (rows["p"] >= 0.05))
    tests = rows[(rows["role"] == "primary") & rows["p"].notna() & rows["has_texts"]]
    smallest, ordered = 1.0, tests["p"].sort_values(ascending=False)
    for rank, (place, p) in zip(
        range(len(ordered), 0, -1), ordered.items(), strict=True
    ):
        # Benjamini and Hochberg's steps, from the largest p
        smallest = min(smallest, p * len(ordered) / rank)
        rows.loc[place, "says"] &= smallest < 0.05
        assert rows.loc[place, "p_corrected"] == pytest.approx(smallest, rel=1e-4)
    again = {claim: word_again(of_claim) for claim, of_claim in rows.groupby("claim")}
    absent = dict.fromkeys(set(table["claim"]) - set(again), "not testable here")
    assert (
        again | absent
        == table.drop_duplicates("claim").set_index("claim")["word"].to_dict()
    )
