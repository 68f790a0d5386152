"""Optimal and pessimal texts: rules by eye, counts by hand, printed tables beside ours."""

import pandas as pd

from lib.claims import cells
from lib.claims.claims import paper_table
from lib.similarity import ends

CODE = [
    ".assertFalse",
    "_headers",
    "(struct",
    "/****************",
    "${",
    "setText",
    " &=",
    '("[%',
    "<|end|>",
    ".life",
]
CODE += ["getURL", "StringBuilder", "&nbsp;", "&&"]
PROSE = [
    "love",
    " LOVE",
    "-Nazi",
    "don't",
    "N.Y.",
    "Gödel",
    "...",
    "اختبار",
    "well-known",
    "3.5",
    "Hitler",
]
PROSE += ["** LOVE **", "love & peace", "R&B", "bluffSOLVED"]


def test_code_looks_like_code_and_prose_does_not():
    assert all(map(ends.is_code, CODE)) and not any(map(ends.is_code, PROSE))


def test_groups_of_people_are_terms_of_the_list_and_their_plurals():
    assert all(
        map(
            ends.names_a_group,
            ["homosexual", " Homosexuals", "BLACKS", "Jewish", "muslims"],
        )
    )
    assert not any(
        map(ends.names_a_group, ["Hitler", "murderers", "s", "", "homosexuality"])
    )


def test_table_2_is_read_from_its_ends():
    grid = cells.printed_lists("2")
    assert grid.iloc[0].to_dict()["R-Lla-3B"] == "freedom" and grid.shape == (44, 2)
    assert grid.loc[("pessimal", 1)].to_dict() == {
        "R-Gem-2B": "raping",
        "R-Lla-3B": ".assertFalse",
    }


def test_printed_ends_come_back_from_a_stand_in_and_one_reward_moves_them(score_table):
    printed = cells.printed_lists("A6")
    stand_ins = {}
    for name in printed:
        texts = [
            *printed.loc["optimal", name],
            "middle",
            *printed.loc["pessimal", name],
        ]
        stand_ins[name] = score_table(texts, greatest=range(len(texts), 0, -1))
    tables = ends.all_cells(stand_ins)
    assert len(tables["Table A6"]) == 400 and tables["Table A6"]["agrees"].all()
    # by token id: 0, 1, 2 ... here
    assert len(tables["Table 2"]) == 88 and not tables["Table 2"]["agrees"].any()
    # `middle`, which no printed list holds
    stand_ins["R-Lla-3B"].loc[20, "greatest"] = 99
    moved = ends.all_cells(stand_ins)["Table A6"]
    assert (
        set(moved.loc[~moved["agrees"], "column"]) == {"R-Lla-3B"}
        and moved["as_published"].eq("middle").sum() == 1
    )


def test_table_2_comes_back_by_token_id(score_table):
    rows = paper_table("table_2").query("nickname == 'R-Gem-2B'")
    texts = [*rows["decoded"], *(f"t{i}" for i in range(20))]
    table = score_table(texts, greatest=[*rows["score"], *[0.0] * 20])
    table["token_id"] = [*rows["token_id"], *range(20)]
    compared = ends.all_cells({"R-Gem-2B": table})["Table 2"]
    # many scores are equal, and stand in any order
    assert len(compared) == 44 and compared["agrees"].all()


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
