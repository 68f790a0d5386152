"""A table of the paper beside the same table computed from scores, cell by cell."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from . import claims


def compare_cells(
    printed: pd.DataFrame,
    as_published: pd.DataFrame,
    corrected: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return one row per printed cell, row by row, with our two values and whether that of the
    published recipe agrees.

    Tables are matched by the names of rows and columns. Cells that the paper leaves blank are left
    out. A cell agrees if it is equal to the printed one; a cell that was not computed is missing,
    and does not agree.
    """
    if corrected is None:
        corrected = pd.DataFrame()
    rows = list(map(_joined, printed.index))
    columns = list(map(_joined, printed.columns))
    cells = pd.DataFrame(
        {
            "row": np.repeat(rows, len(columns)),
            "column": columns * len(rows),
            "paper": _flat(printed, printed),
            "as_published": _flat(as_published, printed),
            "corrected": _flat(corrected, printed),
        }
    )
    cells["agrees"] = cells["paper"].eq(cells["as_published"])
    is_printed = cells["paper"].notna() & (cells["paper"] != "")
    return cells[is_printed].reset_index(drop=True)


def _flat(table: pd.DataFrame, printed: pd.DataFrame) -> np.ndarray:
    """Return the cells of a table that are printed, row by row; missing where it has none."""
    same = table.reindex_like(printed)
    return same.to_numpy(dtype=object).ravel()


def _joined(label) -> str:
    if isinstance(label, tuple):
        return " ".join(map(str, label))
    return str(label)


def printed_lists(table: str, value: str = "text") -> pd.DataFrame:
    """Return the two ends of rankings as printed in Table 2 or A1 to A9, in the form of
    rankings.side_by_side().

    value: `text`; of Table 2 also `token_id` or `score`.
    """
    table_2 = claims.paper_table("table_2")
    tables = [table_2.assign(table="2")]
    for name in ("tables_a1_to_a5", "tables_a6_a7", "tables_a8_a9"):
        tables.append(claims.paper_table(name))
    rows = pd.concat(tables)
    rows = rows[rows["table"] == table]
    names = {"top": "optimal", "bottom": "pessimal"}
    rows["end"] = rows["end"].replace(names)
    rows["model"] = rows["nickname"].fillna(rows["model"])
    rows["text"] = rows["text"].fillna(rows["decoded"])
    places = ["end", "position"]
    grid = rows.pivot_table(value, places, "model", aggfunc="first")
    grid = grid[list(rows["model"].unique())]
    optimal = grid.loc[["optimal"]]
    pessimal = grid.loc[["pessimal"]]
    return pd.concat([optimal, pessimal.iloc[::-1]])


def compare_lists(
    printed: pd.DataFrame,
    rewards: Mapping[str, pd.Series],
    corrected: Mapping[str, pd.Series] | None = None,
) -> pd.DataFrame:
    """Return compare_cells() of the two ends of rankings. Of tied texts any order is right, so a
    tie agrees too.

    rewards, corrected: model -> rewards by text, in order of token_id. Models without rewards are
    left out.
    """
    places = printed.index.get_level_values("position").max()
    cells = compare_cells(
        printed[[name for name in printed if name in rewards]],
        _ends(rewards, places),
        _ends(corrected or {}, places),
    )
    cells["agrees"] |= _are_tied(cells, rewards)
    return cells


def _ends(rewards: Mapping[str, pd.Series], places: int) -> pd.DataFrame:
    """Return the texts at both ends of each model's ranking, in the form of printed_lists()."""
    lists = {}
    for name, own in rewards.items():
        ordered = own.sort_values(ascending=False, kind="stable").index
        n = min(places, len(ordered))
        listed = {}
        for place in range(1, n + 1):
            listed["optimal", place] = ordered[place - 1]
        for place in range(n, 0, -1):
            listed["pessimal", place] = ordered[-place]
        lists[name] = pd.Series(listed)
    return pd.DataFrame(lists)


def _are_tied(cells: pd.DataFrame, rewards: Mapping[str, pd.Series]) -> np.ndarray:
    """Return whether the printed text and ours have a reward in common, for each cell."""
    shown = {*cells["paper"], *cells["as_published"]}
    rewards_of = {}
    for name, own in rewards.items():
        of_shown = own[own.index.isin(shown)]
        by_text = of_shown.groupby(level=0)
        rewards_of[name] = by_text.agg(set).to_dict()
    tied = []
    for cell in cells.itertuples():
        known = rewards_of[cell.column]
        printed = known.get(cell.paper, set())
        ours = known.get(cell.as_published, set())
        tied.append(not printed.isdisjoint(ours))
    return np.array(tied, dtype=bool)
