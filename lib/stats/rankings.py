"""Rankings of tokens: top and bottom tokens, and models side by side."""

from collections.abc import Mapping

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


def side_by_side(rewards: Mapping[str, pd.Series], n: int = 22) -> pd.DataFrame:
    """Return the n optimal and n pessimal texts of every model, a column per model (Tables A6, A7).

    rewards: per model, its rewards by text, in the order in which ties are listed. A frame of texts
    x models is one, too. Index: (end, position). Position 1 is the most optimal or the most
    pessimal text.
    """
    texts = {}
    for name, reward in rewards.items():
        order = reward.sort_values(ascending=False, kind="stable").index
        texts[name] = [*order[:n], *order[-n:]]
    places = [*range(1, n + 1)]
    of_ends = [["optimal"] * n + ["pessimal"] * n, places + places[::-1]]
    index = pd.MultiIndex.from_arrays(of_ends, names=["end", "position"])
    return pd.DataFrame(texts, index)


def refuse_constant(values: pd.DataFrame) -> None:
    """Raise InputError for a column with missing or with only equal values: it ranks nothing."""
    for name, column in values.items():
        if column.isna().any() or column.nunique() < 2:
            raise InputError(
                f"the values of '{name}' are missing or all equal, so they rank nothing; leave it "
                "out"
            )
