"""What models have in common: pairs, theoretical matrices, their codings by hand."""

import numpy as np
import pandas as pd

from lib.similarity import factors
from lib.tables import registry


def test_pairs_leave_out_the_diagonal_and_the_mirror():
    names = ["m0", "m1", "m2", "m3"]
    matrix = pd.DataFrame(np.arange(16).reshape(4, 4), names, names)
    found = factors.pairs(matrix)
    # above the diagonal, row by row
    assert found["value"].tolist() == [1, 2, 3, 6, 7, 11]
    assert found.loc[3, ["model_a", "model_b"]].tolist() == ["m1", "m2"]


def test_similarities_by_hand():
    models = registry.reward_models(
        ["N-Gem-27B", "S-Gem-27B", "S-Lla-8B-v0.2", "R-Lla-8B"]
    )
    found = factors.theoretical(models)
    assert found["base"].loc["N-Gem-27B"].tolist() == [1, 1, 0, 0]
    assert found["developer"].loc["S-Gem-27B"].tolist() == [0, 1, 1, 0]
    # 27 and 8 billion
    assert found["parameters"].loc["N-Gem-27B"].tolist() == [1, 1, 1 / 20, 1 / 20]
    # ranks 2, 5, 10, 17
    assert found["rank"].loc["N-Gem-27B"].tolist() == [1, 1 / 4, 1 / 9, 1 / 16]
    assert found["base"].loc["S-Lla-8B-v0.2", "R-Lla-8B"] == 1


def test_traits_that_are_unknown_or_the_same_for_all_are_left_out():
    models = registry.reward_models(["N-Gem-27B", "S-Gem-27B", "a model of one's own"])
    assert factors.theoretical(models) == {}
    models = registry.reward_models(["N-Gem-27B", "S-Gem-27B", "S-Gem-27B-v0.2"])
    # all are 27 billion Gemmas
    assert list(factors.theoretical(models)) == ["developer", "rank"]
