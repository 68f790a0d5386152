"""Rankings on tables small enough to rank by eye."""

import numpy as np
import pandas as pd
import pytest

from lib import InputError, rankings


def small_table(**rewards):
    table = pd.DataFrame(rewards, dtype=np.float32)
    return table.assign(token_id=range(len(table)), text=list("abcdefgh")[: len(table)])


def test_ranks_share_the_average_and_ties_keep_id_order():
    order = rankings.ranked(small_table(greatest=[1, 5, 3, 3]), "greatest")
    assert order["text"].tolist() == ["b", "c", "d", "a"]
    assert order["rank"].tolist() == [1, 2.5, 2.5, 4]  # c and d share places 2 and 3


def test_ranks_do_not_depend_on_scale_or_row_order():
    table = small_table(greatest=[0.3, -1, 2, 7, 2.5])
    stretched = table.assign(greatest=np.exp(3 * table["greatest"]) - 8)
    shuffled = table.sample(frac=1, random_state=1)
    for other in (stretched, shuffled):
        assert rankings.ranked(other, "greatest")["text"].tolist() == ["d", "e", "c", "a", "b"]


def test_ends_are_the_top_and_the_bottom():
    found = rankings.ends(small_table(greatest=[4, 1, 3, 2, 0]), "greatest", 2)
    assert found["text"].tolist() == ["a", "c", "b", "e"]  # 4, 3 ... 1, 0
    assert found["end"].tolist() == ["optimal", "optimal", "pessimal", "pessimal"]
    with pytest.raises(InputError, match="5 tokens have no 3 optimal and 3 pessimal ones; choose n up to 2"):
        rankings.ends(small_table(greatest=[4, 1, 3, 2, 0]), "greatest", 3)


def test_side_by_side_counts_positions_from_each_end():
    tables = {"M": small_table(greatest=[4, 1, 3, 2]), "N": small_table(greatest=[1, 2, 3, 4])}
    grid = rankings.side_by_side(tables, "greatest", 2)
    assert grid["M"].tolist() == ["a", "c", "d", "b"]
    assert grid["N"].tolist() == ["d", "c", "b", "a"]
    assert grid.loc[("pessimal", 1), "M"] == "b"
    shared = pd.DataFrame({"M": [4, 1, 3, 2], "N": [1, 2, 3, 4]}, index=list("abcd"))
    pd.testing.assert_frame_equal(rankings.side_by_side_shared(shared, 2), grid)


def test_overlap_is_the_share_of_common_texts():
    rewards = pd.DataFrame({"M": [9, 8, 7, 0, 1], "N": [9, 1, 8, 7, 0], "O": [1, 0, 2, 9, 8]}, index=list("abcde"))
    top = rankings.overlap(rewards, 2)  # tops: ab, ac, de; bottoms: de, be, ab
    assert top.loc["M", "N"] == 1 / 2
    assert top.loc["M", "O"] == 0
    assert top.loc["N", "N"] == 1
    assert rankings.overlap(rewards, 2, "pessimal").loc["N", "O"] == 1 / 2  # b


def made_up_models(count):
    names = [f"m{i}" for i in range(count)]
    traits = {"base": ["x", "y"] * (count // 2), "developer": [f"d{i // 2}" for i in range(count)], "parameters_b": 1}
    return pd.DataFrame(traits, index=names)


def test_pairs_leave_out_the_diagonal_and_the_mirror():
    models = made_up_models(4)
    matrix = pd.DataFrame(np.arange(16).reshape(4, 4), models.index, models.index)
    found = rankings.pairs(matrix, models)
    assert found["value"].tolist() == [1, 2, 3, 6, 7, 11]  # above the diagonal, row by row
    assert found["same_base"].tolist() == [False, True, False, False, True, False]
    assert found["same_developer"].tolist() == [True, False, False, False, False, True]


def test_sharing_a_base_is_found_when_planted_and_not_otherwise():
    models = made_up_models(10)
    noise = np.random.default_rng(0).normal(0, 0.1, (10, 10))
    noise = pd.DataFrame(noise + noise.T, models.index, models.index)
    same_base = models["base"].to_numpy()[:, None] == models["base"].to_numpy()[None, :]
    planted = rankings.what_sharing_brings(noise + 0.5 * same_base, models, permutations=999).set_index("trait")
    null = rankings.what_sharing_brings(noise, models, permutations=999).set_index("trait")
    assert planted.loc["base", "difference"] - null.loc["base", "difference"] == pytest.approx(0.5)
    assert planted.loc["base", "p"] < 0.02  # 126 ways to split ten models into two fives, so about 1 / 126 at best
    assert null.loc["base", "p"] > 0.05
    assert planted.loc["base", ["pairs", "others"]].tolist() == [20, 25]
    assert "parameters_b" not in planted.index  # all models share it: there is nothing to compare
