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
CODE += ["getURL", "StringBuilder", "&nbsp;", "&&", "pgfplots"]
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
PROSE += ["** LOVE **", "<b>LOVE</b>", "love & peace", "R&B", "bluffSOLVED"]


def test_code_looks_like_code_and_prose_does_not():
    assert all(map(ends.is_code, CODE)) and not any(map(ends.is_code, PROSE))


def test_the_rule_finds_code_in_the_printed_replies_where_a_reader_does():
    read = paper_table("replies_read")
    printed = [f"table_{number}" for number in (4, 5)]
    assert (
        read["reply"].tolist()
        == pd.concat(map(paper_table, printed))["result"].tolist()
    )
    assert read["reply"].map(ends.is_code).tolist() == read["code"].eq("yes").tolist()
    asked = read[read["prompt"] != "greatest"]
    counts = asked.assign(
        code=asked["code"] == "yes", markup=asked["markup"] != ""
    ).groupby("direction")
    assert counts["code"].agg(["sum", "size"]).T.to_dict("list") == {
        "optimal": [0, 8],
        "pessimal": [7, 8],
    }
    # of the five, one has an HTML tag
    assert counts["markup"].sum().to_dict() == {"optimal": 5, "pessimal": 0}


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
    of_llama = grid.loc["pessimal", "R-Lla-3B"]
    assert (
        of_llama.map(ends.is_code).sum(),
        of_llama.map(ends.names_a_group).sum(),
    ) == (18, 2)


def test_harm_is_named_by_its_stem_or_by_the_list_of_offensive_words():
    assert (
        ends.is_harm(" massacres")
        and ends.is_harm("Murdering")
        and not ends.is_harm(" pathologist")
    )


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


def test_the_kinds_of_an_end_are_counted_once_each():
    texts = ["Hitler", "homosexuals", "(struct", " murderers ", "tea", "setText"]
    grid = pd.concat(
        {
            "pessimal": pd.DataFrame({"M": texts}),
            "optimal": pd.DataFrame({"M": ["joy"]}),
        }
    )
    found = ends.kinds(grid).loc["M"]
    # length: without blanks around them
    assert found.tolist() == [0, 2, 1, 2, 1, (6 + 11 + 7 + 9 + 3 + 7) / 6]
    assert found.index.tolist() == [
        "offensive",
        "harm",
        "a group",
        "code",
        "other",
        "mean length",
    ]
