"""Rankings on tables small enough to rank by eye."""

import numpy as np
import pandas as pd

from lib.stats import rankings


def small_table(**rewards):
    table = pd.DataFrame(rewards, dtype=np.float32)
    return table.assign(token_id=range(len(table)), text=list("abcdefgh")[: len(table)])


def test_ranks_share_the_average_and_ties_keep_id_order():
    order = rankings.ranked(small_table(greatest=[1, 5, 3, 3]), "greatest")
    assert order["text"].tolist() == ["b", "c", "d", "a"]
    assert order["rank"].tolist() == [1, 2.5, 2.5, 4]  # c and d share places 2 and 3


def test_ends_are_the_top_and_the_bottom():
    found = rankings.ends(small_table(greatest=[4, 1, 3, 2, 0]), "greatest", 2)
    assert found["text"].tolist() == ["a", "c", "b", "e"]  # 4, 3 ... 1, 0
    assert found["end"].tolist() == ["optimal", "optimal", "pessimal", "pessimal"]
    assert rankings.ends(small_table(greatest=[4, 1]), "greatest", 3).shape[0] == 2


def test_side_by_side_counts_positions_from_each_end():
    rewards = {"M": [4, 1, 3, 2], "N": [1, 2, 3, 4], "tied": [2, 2, 2, 2]}
    grid = rankings.side_by_side(pd.DataFrame(rewards, index=list("abcd")), 2)
    assert grid["M"].tolist() == ["a", "c", "d", "b"]
    assert grid["N"].tolist() == ["d", "c", "b", "a"]
    assert grid["tied"].tolist() == ["a", "b", "c", "d"]  # as they come
    assert grid.loc[("pessimal", 1), "M"] == "b"
