"""Csv tables that a reader gives."""

from pathlib import Path

import pandas as pd

from .. import InputError


def csv_table(file: Path) -> pd.DataFrame:
    """Return the cells of a csv in UTF-8 as texts: rows x names; the first row is 2, as names are
    row 1. OSError or ValueError for what is none, and for a row with more cells than names.
    """
    cells = pd.read_csv(
        file, header=None, dtype=str, keep_default_na=False, encoding="utf-8-sig"
    )
    if cells.iloc[0].duplicated().any():
        raise ValueError("two columns have one name")
    if cells.apply(lambda column: column.str.match(' +"')).any(axis=None):
        raise ValueError("a blank before a quote; put the quote next to the comma")
    cells.index += 1
    return cells[1:].set_axis(list(cells.iloc[0]), axis=1)


def read_columns(file: str | Path, *columns: str) -> pd.DataFrame:
    """Return these columns of a csv as texts: lines x columns. In their names, capitals and blanks
    around do not count.

    InputError for what is no such csv.
    """
    wanted = ",".join(columns)
    try:
        table = csv_table(Path(file))
        table.columns = table.columns.str.strip().str.lower()
        if table.empty or not table.columns.is_unique:
            raise ValueError("it has no rows, or two columns of one name")
        return table[list(columns)]
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{file} cannot be read ({reason}); give a csv in UTF-8 with columns {wanted}"
        ) from error
