"""Texts and csv tables that a reader gives: a file is understood whole, or refused with the line
that is not.
"""

import codecs
import csv
import io
from pathlib import Path

import pandas as pd

from .. import InputError


def read_text(file: Path) -> str:
    """Return a text in UTF-8 or UTF-16, without its byte order mark. OSError or ValueError for
    any other file.
    """
    if not file.is_file():  # a folder, or a pipe, which would be waited for
        raise FileNotFoundError("there is no such file")
    if file.stat().st_size > 2e9:  # in memory it takes several times as much
        raise ValueError("it has more than 2 GB; give it in parts")
    content = file.read_bytes()
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if is_utf16 else "utf-8-sig")


def csv_table(text: str) -> pd.DataFrame:
    """Return the cells of a csv as texts: lines x names. ValueError for what can be read in two
    ways, with its line.
    """
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))

    def parsed(trims: bool = False) -> list[tuple[int, list[str]]]:
        reader = csv.reader(
            io.StringIO(text, newline=""), strict=True, skipinitialspace=trims
        )
        try:
            return [(reader.line_num, cells) for cells in reader if cells]
        except csv.Error as error:
            raise ValueError(f"line {reader.line_num}: {error}") from error

    rows = parsed()
    names = rows.pop(0)[1] if rows else []
    if len(set(names)) < len(names):
        raise ValueError("two columns have one name")
    for line, cells in rows:
        problem = ""
        if len(cells) != len(names):
            problem = f": {len(cells)} fields instead of {len(names)}; quote texts with commas"
        elif [cell.lstrip("\ufeff") for cell in cells] == names:
            problem = " repeats the names of the columns; take it out"
        if problem:
            raise ValueError(f"line {line}{problem}")
    pairs = zip(rows, parsed(trims=True)[1:], strict=False)
    for (line, cells), (_, trimmed) in pairs:
        if [cell.lstrip(" ") for cell in cells] != [
            cell.lstrip(" ") for cell in trimmed
        ]:
            raise ValueError(
                f"line {line}: a blank before a quote; put the quote next to the comma"
            )
    return pd.DataFrame(
        [cells for _, cells in rows], [line for line, _ in rows], names, dtype=object
    )


def read_columns(file: str | Path, *columns: str) -> pd.DataFrame:
    """Return these columns of a csv as texts: lines x columns. In their names, capitals and blanks
    around do not count.

    InputError for what is no such csv.
    """
    wanted = ",".join(columns)
    try:
        table = csv_table(read_text(Path(file)))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{file} cannot be read ({error}); give a csv in UTF-8 with columns {wanted}"
        ) from error
    names = [name.strip().lower() for name in table]
    problem = ""
    if any(names.count(column) != 1 for column in columns):
        problem = f"has no columns {wanted}, once each; head it with: {wanted}"
    elif table.empty:
        problem = "has a head and no rows; add some"
    if problem:
        raise InputError(f"{file} {problem}")
    return table.set_axis(names, axis=1)[list(columns)]
