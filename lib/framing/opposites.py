"""Rewards under two prompts: do best and greatest agree, and is best the inverse of worst (Fig
4, Tables A8 and A9)?
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy import stats

from ..stats.crossed import Measured


def correlations(
    tables: Mapping[str, pd.DataFrame],
    first: str,
    second: str,
) -> Measured:
    """Return Pearson's r between each model's rewards for two prompts, and how much each text
    moves it.
    """
    values = {}
    influence = {}
    for name, table in tables.items():
        x = stats.zscore(table[first].to_numpy(dtype=float))
        y = stats.zscore(table[second].to_numpy(dtype=float))
        product = x * y
        r = float(product.mean())
        values[name] = r
        squares = x**2 + y**2
        moved = product - r * squares / 2
        moved = pd.Series(moved / (len(x) - 1))
        # copies of a text add up
        by_text = moved.groupby(table["text"].to_numpy())
        influence[name] = by_text.sum()
    return Measured(pd.Series(values), pd.DataFrame(influence))


def both_and_either(table: pd.DataFrame, good: str, bad: str) -> pd.DataFrame:
    """Return the score table with two more columns: `both` = good + bad, `either` = good - bad
    (Tables A8, A9).

    Rewards are not standardised, so the prompt with the larger spread decides.
    """
    x = table[good].astype(float)
    y = table[bad].astype(float)
    return table.assign(
        both=(x + y).astype(np.float32),
        either=(x - y).astype(np.float32),
    )


def corners(table: pd.DataFrame, good: str, bad: str, n: int = 3) -> pd.DataFrame:
    """Return the n most extreme tokens of each corner of Fig 4 (both, neither, good only, bad
    only), in order.

    A token must be extreme under both prompts: what counts is the smaller of its two distances from
    the mean, in standard deviations. Ties are in order of token_id; one row per distinct text.
    """
    ordered = table.sort_values("token_id")
    is_copy = ordered["text"].str.strip().duplicated()
    ordered = ordered[~is_copy]
    rewards = ordered[[good, bad]]
    z = (rewards - rewards.mean()) / rewards.std(ddof=0)
    x = z[good]
    y = z[bad]
    distances = {
        "both": np.minimum(x, y),
        "neither": np.minimum(-x, -y),
        "good only": np.minimum(x, -y),
        "bad only": np.minimum(-x, y),
    }
    listed = []
    for corner, distance in distances.items():
        ordered_by = distance.sort_values(ascending=False, kind="stable")
        extreme = ordered_by.index[:n]
        listed.append(ordered.loc[extreme].assign(corner=corner))
    return pd.concat(listed, ignore_index=True)
