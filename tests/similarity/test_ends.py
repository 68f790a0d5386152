"""Optimal and pessimal texts: rules by eye, counts by hand, printed tables beside ours."""

import pandas as pd

from lib.claims import cells
from lib.claims.claims import paper_table
from lib.similarity import ends

CODE = [
    ".assertFalse",
    "(struct",
    "${",
    " &=",
    "<|end|>",
]
CODE += ["getURL", "StringBuilder", "&nbsp;", "&&"]
PROSE = [
    "love",
    " LOVE",
    "-Nazi",
    "don't",
    "N.Y.",
    "Gödel",
    "well-known",
    "3.5",
]
PROSE += ["** LOVE **", "love & peace", "R&B", "bluffSOLVED"]


def test_code_looks_like_code_and_prose_does_not():
    assert all(map(ends.is_code, CODE)) and not any(map(ends.is_code, PROSE))


def test_every_printed_pessimal_token_was_read_twice():
    read = paper_table("tokens_read").astype({"table": str})
    for table, size in (("A6", 200), ("2", 44)):
        rows = read[read["table"] == table]
        grid = rows.pivot_table("text", "position", "nickname", aggfunc="first")
        printed = cells.printed_lists(table).loc["pessimal"].sort_index()
        assert len(rows) == size and grid[printed.columns].eq(printed).all(axis=None)
    kinds = {"offensive", "harm", "group", "code", "other"}
    assert set(read["kind"]) == set(read["second"]) == kinds
    assert read["why"].str.split().map(len).between(1, 5).all()


def test_a_text_has_one_kind_in_both_tables_and_whatever_its_blanks_and_capitals():
    read = paper_table("tokens_read")
    word = read["text"].str.strip().str.casefold()
    assert read.groupby(word)[["kind", "second"]].nunique().eq(1).all(axis=None)


def test_every_printed_reply_was_read_twice():
    read = paper_table("replies_read")
    printed = pd.concat([paper_table("table_4"), paper_table("table_5")])
    assert read["reply"].tolist() == printed["result"].tolist()
    assert read[["code", "second"]].isin(["yes", "no"]).all(axis=None)
