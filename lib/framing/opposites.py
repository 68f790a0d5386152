"""Rewards under two prompts: do best and greatest agree, and is best the inverse of worst (Fig
4, Tables A8 and A9)?
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy import stats

from ..stats.crossed import Measured


def correlations(
    tables: Mapping[str, pd.DataFrame], first: str, second: str
) -> Measured:
    """Return Pearson's r between each model's rewards for two prompts, and how much each text
    moves it.
    """
    values, influence = {}, {}
    for name, table in tables.items():
        x, y = (
            stats.zscore(table[prompt].to_numpy(dtype=float))
            for prompt in (first, second)
        )
        values[name] = r = float((x * y).mean())
        moved = (x * y - r * (x**2 + y**2) / 2) / (len(x) - 1)
        influence[name] = pd.Series(moved).groupby(table["text"].to_numpy()).sum()
    return Measured(pd.Series(values), pd.DataFrame(influence))


def both_and_either(table: pd.DataFrame, good: str, bad: str) -> pd.DataFrame:
    """Return the score table with two more columns: `both` = good + bad, `either` = good - bad
    (Tables A8, A9).

    Rewards are not standardised, so the prompt with the larger spread decides.
    """
    x, y = (table[prompt].astype(float) for prompt in (good, bad))
    return table.assign(
        both=(x + y).astype(np.float32), either=(x - y).astype(np.float32)
    )


def corners(table: pd.DataFrame, good: str, bad: str, n: int = 3) -> pd.DataFrame:
    """Return the n most extreme tokens of each corner of Fig 4 (both, neither, good only, bad
    only), in order.

    A token must be extreme under both prompts: what counts is the smaller of its two distances from
    the mean, in standard deviations. Ties are in order of token_id; one row per distinct text.
    """
    ordered = table.sort_values("token_id")
    ordered = ordered[~ordered["text"].str.strip().duplicated()]
    x, y = (
        (ordered[p] - ordered[p].mean()) / ordered[p].std(ddof=0) for p in (good, bad)
    )
    ways = {
        "both": (x, y),
        "neither": (-x, -y),
        "good only": (x, -y),
        "bad only": (-x, y),
    }
    extreme = {
        corner: np.minimum(*way).sort_values(ascending=False, kind="stable")
        for corner, way in ways.items()
    }
    return pd.concat(
        [
            ordered.loc[way.index[:n]].assign(corner=corner)
            for corner, way in extreme.items()
        ],
        ignore_index=True,
    )
