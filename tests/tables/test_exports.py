"""Tables as csv files: they come back as they were, and no spreadsheet runs a cell of them,
wherever it cuts.
"""

import csv
import io

import pandas as pd

from lib.tables.exports import write_csv
from lib.tables.imports import csv_table


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


def test_a_text_that_calls_nothing_stays(tmp_path):
    harmless = ["=None", "-=", "+1", "a=f(", "a\n- b", "x = (y)", "(a; b)"]
    path = write_csv(pd.DataFrame({"text": harmless}), tmp_path / "harmless.csv")
    read = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert read["text"].tolist() == harmless


def test_texts_are_read_as_they_were_before_they_were_written(tmp_path):
    texts = [*CALLS, "'=f(", "''=f(", "'=1+1", "'tis f("]
    path = write_csv(pd.DataFrame({"=f(x)": texts}), tmp_path / "texts.csv")
    assert csv_table(path)["=f(x)"].tolist() == texts
