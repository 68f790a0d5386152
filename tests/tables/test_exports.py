"""Tables as csv files: they come back as they were, and no spreadsheet runs a cell of them,
wherever it cuts.
"""

import csv
import io
import re

import pandas as pd
import pytest

from lib.tables.exports import write_csv


def rows_of(path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_bytes().decode(), newline="")))


def test_a_lone_carriage_return_is_quoted(tmp_path):
    frame = pd.DataFrame(
        {"text": ["a\rb", "\r", "c\r\n", "d"], "n\r": 1},
        index=pd.Index(list("wx\ry"), name="i"),
    )
    path = write_csv(frame, tmp_path / "returns.csv")
    rows = rows_of(path)
    assert rows == [
        ["i", "text", "n\r"],
        ["w", "a\rb", "1"],
        ["x", "\r", "1"],
        ["\r", "c\r\n", "1"],
        ["y", "d", "1"],
    ]


CALLS = [
    "=cmd|'/C calc'!A0",
    '=HYPERLINK("http://x","y")',
    "@SUM(1)",
    "+f(",
    "-1+f(",
    " =f(",
    "＝f(",
]


def test_no_cell_is_a_formula_that_calls_anything(tmp_path):
    frame = pd.DataFrame(
        {"text": CALLS, "-f(x)": -1.5}, index=pd.Index(CALLS, name="=f(i)")
    )
    rows = rows_of(write_csv(frame, tmp_path / "calls.csv"))
    assert rows == [
        ["'=f(i)", "text", "'-f(x)"],
        *([f"'{call}", f"'{call}", "-1.5"] for call in CALLS),
    ]


def test_what_a_spreadsheet_computes_is_quoted(tmp_path):
    computed = ["=1+1", "=A1", '="a"&"b"', "-1+1", "+B2", " =2", "@C3"]
    plain = ["=None", "+1", "-0.5", "=>", "- b"]
    path = write_csv(
        pd.DataFrame({"head": [*computed, *plain]}), tmp_path / "computed.csv"
    )
    assert rows_of(path) == [
        ["head"],
        *([f"'{text}"] for text in computed),
        *([t] for t in plain),
    ]


@pytest.mark.parametrize("cut", [",", ";", "\t"])
def test_no_part_of_a_cell_is_a_formula_that_calls_anything_wherever_a_spreadsheet_cuts(
    tmp_path, cut
):
    calls = [
        "x;=cmd|'/C calc'!A0;y",
        "\t=f(",
        "\r\n=f(1)",
        "a\n+f(",
        'x;"=f(2)',
        "a; -f(;@f(",
        "=f(;=f(",
    ]
    path = write_csv(pd.DataFrame({"text": calls, "n": 1}), tmp_path / "parts.csv")
    cells = [
        cell
        for row in csv.reader(io.StringIO(path.read_text(), newline=""), delimiter=cut)
        for cell in row
    ]
    assert [cell for cell in cells if re.match(r"[\s\"]*[=+\-@]", cell)] == []
    # whatever quotes mean to it
    plain = [cell for line in path.read_text().splitlines() for cell in line.split(cut)]
    assert [
        cell for cell in plain if cut != "," and re.match(r"[\s\"]*[=+\-@]", cell)
    ] == []


def test_a_text_that_calls_nothing_stays(tmp_path):
    harmless = [
        "=None",
        "-=",
        "+1",
        "a=f(",
        "'=f(",
        "a; b",
        "x;=y",
        "a;-1",
        "f(x);y",
        "a\n- b",
        "x = (y)",
        "(a; b)",
    ]
    path = write_csv(pd.DataFrame({"text": harmless}), tmp_path / "harmless.csv")
    assert (
        pd.read_csv(path, dtype=str, keep_default_na=False)["text"].tolist() == harmless
    )
