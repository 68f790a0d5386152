"""Tables of the paper, cell by cell: what agrees, what does not, and what was not computed."""

import pandas as pd

from lib.claims.cells import compare_cells


def test_texts_must_be_equal_blank_cells_are_not_asked_and_what_is_missing_does_not_agree():
    printed = pd.DataFrame({"A": [" love", "null", ""], "B": ["x", "y", "z"]})
    cells = compare_cells(
        printed,
        pd.DataFrame({"A": ["love", "null", "?"]}),
        pd.DataFrame({"A": ["c", "d", "e"]}),
    )
    # A0, B0, A1, B1, B2
    assert cells["agrees"].tolist() == [False, False, True, False, False]
    assert cells["corrected"].iloc[0] == "c" and cells["as_published"].isna().sum() == 3
