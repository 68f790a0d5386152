"""Tables as csv files for readers, which a spreadsheet opens without running a token such as
`=cmd|...!A0`.
"""

import re
from pathlib import Path

import pandas as pd
from pandas.api.types import is_numeric_dtype

from ..io import replacing

# a formula that calls something; apostrophes before it are kept apart from the one that is added
RUN_BY_SPREADSHEETS = re.compile(r"'*\s*[=+\-@＝＋－＠].*[(|!]", re.DOTALL)
# Python's csv quotes a cell that holds a character of this, as it must a lone CR; the sequence
# itself is no text.
ROW_END = "\r\udfff\n"


def write_csv(frame: pd.DataFrame, path: Path, digits: int = 7) -> Path:
    """Write the table and return its path; a named index is written, any other left out.

    Numbers have so many significant digits.
    """
    named = any(level is not None for level in frame.index.names)
    frame = frame.apply(
        lambda column: column if is_numeric_dtype(column) else column.map(as_text)
    )
    frame = frame.rename(index=as_text, columns=as_text).rename_axis(index=as_text)
    text = frame.to_csv(
        None, index=named, lineterminator=ROW_END, float_format=f"%.{digits}g"
    ).replace(ROW_END, "\n")
    with replacing(path) as part:
        part.write_bytes(text.encode("utf-8", "backslashreplace"))
    return path


def as_text(cell):
    """Return the cell; a text that calls something as a formula gets an apostrophe before it."""
    if isinstance(cell, str) and RUN_BY_SPREADSHEETS.match(cell):
        return f"'{cell}"
    return cell


def without_apostrophe(cell: str) -> str:
    """Return the cell as it was before `as_text`."""
    if RUN_BY_SPREADSHEETS.match(cell):
        return cell.removeprefix("'")
    return cell
