"""Rewards under two prompts: do best and greatest agree, and is best the inverse of worst (Fig
4, Tables A8 and A9)?
"""

from collections.abc import Mapping

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
