"""The paper's lists of tokens, as tables."""

import pandas as pd

from . import claims


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
