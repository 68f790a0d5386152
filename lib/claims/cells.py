"""A table of the paper beside the same table computed from scores, cell by cell."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from .. import InputError
from . import claims


def compare_cells(
    printed: pd.DataFrame, as_published: pd.DataFrame, corrected: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return one row per printed cell, row by row, with our two values and whether that of the
    published recipe agrees.

    Tables are matched by the names of rows and columns. Cells that the paper leaves blank are left
    out. A cell agrees if it is equal to the printed one; a cell that was not computed is missing,
    and does not agree.
    """
    tables = {"paper": printed, "as_published": as_published, "corrected": corrected}
    like = {"index": printed.index, "columns": printed.columns}
    flat = {
        name: np.full(printed.size, np.nan, dtype=object)
        if table is None
        else table.reindex(**like).to_numpy(dtype=object).ravel()
        for name, table in tables.items()
    }
    rows, columns = (
        [" ".join(map(str, label)) if isinstance(label, tuple) else str(label) for label in labels]
        for labels in printed.axes
    )
    cells = pd.DataFrame(
        {"row": np.repeat(rows, len(columns)), "column": columns * len(rows)} | flat
    )
    cells["agrees"] = cells["paper"].eq(cells["as_published"])
    return cells[cells["paper"].notna() & (cells["paper"] != "")].reset_index(drop=True)


def printed_lists(table: str, value: str = "text") -> pd.DataFrame:
    """Return the two ends of rankings as printed in Table 2 or A1 to A9, in the form of
    rankings.side_by_side().

    value: `text`; of Table 2 also `token_id` or `score`.
    """
    names = ("table_2", "tables_a1_to_a5", "tables_a6_a7", "tables_a8_a9")
    rows = pd.concat(claims.paper_table(name).assign(source=name) for name in names)
    rows["table"] = rows["table"].where(rows["source"] != "table_2", "2")
    rows = rows[rows["table"] == table].replace({"end": {"top": "optimal", "bottom": "pessimal"}})
    if rows.empty:
        raise InputError(f"'{table}' is no list of texts in data/paper; choose 2 or A1 to A9")
    rows = rows.assign(
        model=rows["nickname"].fillna(rows["model"]), text=rows["text"].fillna(rows["decoded"])
    )
    grid = rows.pivot_table(value, ["end", "position"], "model", aggfunc="first")[
        list(rows["model"].unique())
    ]
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

    def ends(of_models: Mapping[str, pd.Series]) -> pd.DataFrame:
        lists = {}
        for name, own in of_models.items():
            ordered = own.sort_values(ascending=False, kind="stable").index
            n = min(places, len(ordered))
            first = pd.MultiIndex.from_product([["optimal"], range(1, n + 1)])
            last = pd.MultiIndex.from_product([["pessimal"], range(n, 0, -1)])
            lists[name] = pd.Series(
                [*ordered[:n], *ordered[len(ordered) - n :]], first.append(last)
            )
        return pd.DataFrame(lists)

    present = printed[[name for name in printed if name in rewards]]
    cells = compare_cells(present, ends(rewards), ends(corrected) if corrected else None)
    shown = {*cells["paper"], *cells["as_published"]}
    of_text = {
        name: own[own.index.isin(shown)].groupby(level=0).agg(frozenset)
        for name, own in rewards.items()
    }
    ties = [
        bool(of_text[model].get(paper, frozenset()) & of_text[model].get(ours, frozenset()))
        for model, paper, ours in cells[["column", "paper", "as_published"]].itertuples(index=False)
    ]
    return cells.assign(agrees=cells["agrees"] | np.array(ties, dtype=bool))
