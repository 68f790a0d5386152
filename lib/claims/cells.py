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
    paper = printed.to_numpy(dtype=object)
    names = [pd.Index(axis).map(_joined) for axis in printed.axes]
    cells = pd.MultiIndex.from_product(names, names=["row", "column"])
    cells = cells.to_frame(index=False).assign(paper=paper.ravel())
    tables = {"as_published": as_published, "corrected": corrected}
    for name, table in tables.items():
        ours = pd.DataFrame() if table is None else table
        cells[name] = ours.reindex_like(printed).to_numpy(dtype=object).ravel()
    cells["agrees"] = cells["paper"].eq(cells["as_published"])
    is_printed = cells["paper"].notna() & (cells["paper"] != "")
    return cells[is_printed].reset_index(drop=True)


def _joined(label: object) -> str:
    return " ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def printed_lists(table: str, value: str = "text") -> pd.DataFrame:
    """Return the two ends of rankings as printed in Table 2 or A1 to A9, in the form of
    rankings.side_by_side().

    value: `text`; of Table 2 also `token_id` or `score`.
    """
    tables = [claims.paper_table("table_2").assign(table="2")]
    for name in ("tables_a1_to_a5", "tables_a6_a7", "tables_a8_a9"):
        tables.append(claims.paper_table(name))
    rows = pd.concat(tables)
    rows = rows[rows["table"] == table]
    names = {"top": "optimal", "bottom": "pessimal"}
    rows["end"] = rows["end"].replace(names)
    rows["model"] = rows["nickname"].fillna(rows["model"])
    rows["text"] = rows["text"].fillna(rows["decoded"])
    grid = rows.pivot_table(value, ["end", "position"], "model", aggfunc="first")
    grid = grid[rows["model"].unique()]
    return pd.concat([grid.loc[["optimal"]], grid.loc[["pessimal"]].iloc[::-1]])


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
        ends = {"optimal": ordered[:places], "pessimal": ordered[::-1][:places]}
        for end, texts in ends.items():
            ends[end] = pd.Series(texts, range(1, len(texts) + 1))
        lists[name] = pd.concat(ends)
    return pd.DataFrame(lists)


def _are_tied(cells: pd.DataFrame, rewards: Mapping[str, pd.Series]) -> np.ndarray:
    """Return whether the printed text and ours have a reward in common, for each cell."""
    shown = {*cells["paper"], *cells["as_published"]}
    known = {name: own[own.index.isin(shown)] for name, own in rewards.items()}
    tied = []
    for cell in cells.itertuples():
        own = known[cell.column]
        ours = own[own.index == cell.as_published]
        tied.append(own[own.index == cell.paper].isin(ours).any())
    return np.array(tied, dtype=bool)
