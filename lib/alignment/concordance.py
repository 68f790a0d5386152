"""Kendall's tau between every two columns of a table, and how much each item moves it.

Tau is a mean over pairs of items. So an item moves it by the agreement of the item's pairs less the
agreement of all pairs (Hajek's projection of a U-statistic). With these influences, models and
items are both samples (lib.stats.crossed).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..stats.crossed import Cluster, Measured

PEOPLE = "people"
CELLS = 400_000  # signs at a time: 1.6 MB stay in a processor's cache


@dataclass(frozen=True)
class Agreement:
    """Kendall's tau-b between columns, and how much each item moves it.

    `taus`: columns x columns, in [-1, 1], NaN with a constant column. `influences` (items, columns,
    columns) are by the jackknife. `items`: their index. `cluster`: as in Measured.
    """

    taus: pd.DataFrame
    influences: np.ndarray
    items: pd.Index
    cluster: Cluster = list

    def with_others(self, column: str, others: Sequence[str]) -> Measured:
        """Return the taus of one column with others, and how much each item moves them."""
        columns = self.taus.columns
        at = columns.get_indexer(list(others))
        moved = self.influences[:, columns.get_loc(column), at]
        return Measured(
            self.taus[column].iloc[at],
            pd.DataFrame(moved, self.items, list(others)),
            cluster=self.cluster,
        )

    def pseudo_values(self, columns: Sequence[str]) -> Measured:
        """Return the jackknife's pseudo-value of each model: their mean is the mean tau of two
        different models.
        """
        count = len(columns)
        names = list(columns)
        others = ~np.eye(count, dtype=bool)
        rows = self.taus.columns.get_indexer(names)
        # without a model's tau with itself, (models, models) and (items, models, models)
        between = self.taus.to_numpy()[np.ix_(rows, rows)]
        between = np.where(others, between, 0)
        moved = self.influences[:, rows][:, :, rows]
        moved = np.where(others, moved, 0)
        # a model's mean tau with the others
        own = between.sum(axis=1) / (count - 1)
        own_moved = moved.sum(axis=2) / (count - 1)
        factor = 2 * (count - 1) / (count - 2)
        mean = own.mean()
        mean_moved = own_moved.mean(axis=1, keepdims=True)
        pseudo = mean + factor * (own - mean)
        pseudo_moved = mean_moved + factor * (own_moved - mean_moved)
        return Measured(
            pd.Series(pseudo, names),
            pd.DataFrame(pseudo_moved, self.items, names),
            cluster=self.cluster,
        )


def agreement(values: pd.DataFrame, cluster: Cluster = list) -> Agreement:
    """Return Kendall's tau-b between every two columns of values (items x columns), and how much
    each item moves it; there are at least three items. `cluster`: as in Measured.
    """
    # ranks are exact, and half the size
    ranked = values.rank().to_numpy(dtype=np.float32)
    n = len(ranked)
    # (items, columns, columns), a mean over pairs
    products = _products(ranked) / (n - 1)
    mean = products.mean(axis=0)  # (columns, columns)
    # the share of pairs that are not tied
    untied = np.diag(mean)
    spread = np.sqrt(np.outer(untied, untied))
    with np.errstate(invalid="ignore", divide="ignore"):
        taus = mean / spread
        # (items, columns), relative
        ties = np.diagonal(products, axis1=1, axis2=2)
        ties = ties / untied - 1
        ties_of_both = ties[:, :, None] + ties[:, None, :]
        beyond = (products - mean) / spread
        moved = beyond - taus * ties_of_both / 2
    names = list(values)
    return Agreement(
        pd.DataFrame(taus, names, names),
        2 * moved / (n - 2),
        values.index,
        cluster,
    )


def _products(ranked: np.ndarray) -> np.ndarray:
    """Return, for each item, the products of the signs of two columns, summed over its pairs:
    (items, columns, columns) from (items, columns).
    """
    n, columns = ranked.shape
    twice = 2 * ranked  # whole numbers, so different ones are at least 1 apart
    others = np.ascontiguousarray(twice.T)
    step = max(1, CELLS // (n * columns))
    chunks = []
    for start in range(0, n, step):
        signs = twice[start : start + step, :, None] - others  # (rows, columns, n)
        np.clip(signs, -1, 1, out=signs)
        # whole numbers below 2^24, so float32 is exact
        chunks.append(signs @ signs.transpose(0, 2, 1))
    return np.concatenate(chunks).astype(float)
