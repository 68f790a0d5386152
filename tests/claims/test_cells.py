"""Tables of the paper, cell by cell: what agrees, what does not, and what was not computed."""

import pandas as pd

from lib.claims.cells import compare_cells

PRINTED = pd.DataFrame({"mean": [1.876, -9.274], "variance": [0.193, "<0.001"]}, ["N", "S"])
OURS = pd.DataFrame({"variance": [0.0004, 0.1934], "mean": [-9.2751, 1.8764]}, ["S", "N"])  # in another order


def test_a_number_agrees_if_it_rounds_to_the_printed_one_whatever_the_order_of_rows():
    cells = compare_cells(PRINTED, OURS, decimals=3)
    assert cells[["row", "column"]].agg(" ".join, axis=1).tolist() == ["N mean", "N variance", "S mean", "S variance"]
    assert cells["agrees"].tolist() == [True, True, False, True]  # -9.2751 rounds to -9.275, and 0.0004 is < 0.001


def test_texts_must_be_equal_blank_cells_are_not_asked_and_what_is_missing_does_not_agree():
    printed = pd.DataFrame({"A": [" love", "null", ""], "B": ["x", "y", "z"]})
    cells = compare_cells(printed, pd.DataFrame({"A": ["love", "null", "?"]}), pd.DataFrame({"A": ["c", "d", "e"]}))
    assert cells["agrees"].tolist() == [False, False, True, False, False]  # A0, B0, A1, B1, B2
    assert cells["corrected"].iloc[0] == "c" and cells["as_published"].isna().sum() == 3
