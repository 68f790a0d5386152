"""Rankings of tokens: top and bottom tokens, models side by side, and how far two rankings
agree.
"""

import pandas as pd

from .. import InputError


def ranked(table: pd.DataFrame, prompt: str) -> pd.DataFrame:
    """Return the score table from optimal to pessimal, with a column `rank`: 1 = highest reward,
    ties share the mean.

    Ties are listed in order of token_id, so the order is the same on every machine.
    """
    rank = table[prompt].rank(ascending=False)
    return table.assign(rank=rank).sort_values(
        [prompt, "token_id"],
        ascending=[False, True],
        ignore_index=True,
    )


def ends(table: pd.DataFrame, prompt: str, n: int = 22) -> pd.DataFrame:
    """Return the n optimal and the n pessimal tokens, at most half of the table each, with `end` =
    optimal or pessimal (Table 2 has n = 22).
    """
    n = min(n, len(table) // 2)
    order = ranked(table, prompt)
    optimal = order.head(n).assign(end="optimal")
    pessimal = order.tail(n).assign(end="pessimal")
    return pd.concat([optimal, pessimal], ignore_index=True)


def side_by_side(
    tables: dict[str, pd.DataFrame],
    prompt: str,
    n: int = 22,
) -> pd.DataFrame:
    """Return the n optimal and n pessimal texts of every model on its own vocabulary, a column per
    model (Table A6).

    Index: (end, position). Position 1 is the most optimal or the most pessimal text.
    """
    texts = {}
    for name, table in tables.items():
        texts[name] = ends(table, prompt, n)["text"].array
    places = [*range(1, n + 1)]
    of_ends = [["optimal"] * n + ["pessimal"] * n, places + places[::-1]]
    index = pd.MultiIndex.from_arrays(of_ends, names=["end", "position"])
    return pd.DataFrame(texts, index)


def side_by_side_shared(rewards: pd.DataFrame, n: int = 22) -> pd.DataFrame:
    """Return the same on the texts that all models share (Table A7). `rewards`: texts x models."""
    tables = {}
    for name, reward in rewards.items():
        table = reward.rename("reward").rename_axis("text").reset_index()
        tables[name] = table.assign(token_id=table.index)
    return side_by_side(tables, "reward", n)


def tau_matrix(rewards: pd.DataFrame) -> pd.DataFrame:
    """Return Kendall's tau-b between each two models' rankings of the same texts, in [-1, 1],
    models x models (Fig 2A).

    `rewards`: texts x models. Tau-b leaves tied pairs out of its denominator; rewards in half
    precision have many.
    """
    # ranks sort faster than rewards, and tau depends on nothing else
    return rewards.rank(method="dense").corr("kendall")


def refuse_constant(values: pd.DataFrame) -> None:
    """Raise InputError for a column with missing or with only equal values: it ranks nothing."""
    for name, column in values.items():
        if column.isna().any() or column.nunique() < 2:
            raise InputError(
                f"the values of '{name}' are missing or all equal, so they rank nothing; leave it "
                "out"
            )
