"""Csv tables that a reader gives."""

from pathlib import Path

import pandas as pd

from .. import InputError
from .exports import without_apostrophe


def csv_table(file: Path) -> pd.DataFrame:
    """Return the cells of a csv in UTF-8 as texts, without the apostrophe that write_csv puts
    before formulas; OSError or ValueError for what is none and for a row with more cells than
    names.
    """
    cells = pd.read_csv(
        file, header=None, dtype=str, keep_default_na=False, encoding="utf-8-sig"
    )
    cells = cells.map(without_apostrophe)
    return cells[1:].set_axis(list(cells.iloc[0]), axis=1)


def read_columns(file: str | Path, *columns: str) -> pd.DataFrame:
    """Return these columns of a csv as texts. InputError for what is no such csv."""
    try:
        return csv_table(Path(file))[list(columns)]
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{file} cannot be read ({reason}); give a csv in UTF-8 with columns "
            f"{','.join(columns)}"
        ) from error
