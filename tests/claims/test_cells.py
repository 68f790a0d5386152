"""Tables of the paper, cell by cell: what agrees, what does not, and what was not computed."""

import numpy as np
import pandas as pd

from lib.claims.cells import below_diagonal, compare_cells, summary

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


def test_each_pair_of_a_matrix_is_one_cell():
    matrix = pd.DataFrame([[1, 0.2, 0.3], [0.2, 1, 0.4], [0.3, 0.4, 1]], list("abc"), list("abc"))
    cells = compare_cells(below_diagonal(matrix), matrix, decimals=2)
    assert (cells["row"] + cells["column"]).tolist() == ["ba", "ca", "cb"] and cells["agrees"].all()


def test_the_summary_counts_and_names_the_first_that_differs():
    tables = {"Table 3": compare_cells(PRINTED, OURS, decimals=3), "Fig 0": compare_cells(OURS, OURS, decimals=3)}
    told = summary(tables)
    assert told["share"].tolist() == [0.75, 1.0] and told["cells"].tolist() == [4, 4]
    assert told["first"].tolist() == ["S, mean: computed -9.275, printed -9.274", ""]
    assert np.isnan(summary({"none": compare_cells(OURS.head(0), OURS, decimals=3)}).loc["none", "share"])
