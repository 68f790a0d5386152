"""What models have in common: pairs, theoretical matrices, their codings by hand; what cannot be
fitted is refused.
"""

import numpy as np
import pandas as pd
import pytest
from matrices import made_up_models, random_matrices

from lib import InputError
from lib.similarity import agreement, factors, rsa
from lib.stats import relabelling
from lib.tables import registry


def test_pairs_leave_out_the_diagonal_and_the_mirror():
    models = made_up_models(4)
    matrix = pd.DataFrame(np.arange(16).reshape(4, 4), models.index, models.index)
    found = factors.pairs(matrix)
    # above the diagonal, row by row
    assert found["value"].tolist() == [1, 2, 3, 6, 7, 11]
    assert found.loc[3, ["model_a", "model_b"]].tolist() == ["m1", "m2"]


def test_similarities_by_hand():
    models = registry.reward_model_rows(
        ["N-Gem-27B", "S-Gem-27B", "S-Lla-8B-v0.2", "R-Lla-8B"]
    )
    found = factors.theoretical(models)
    assert found["base"].loc["N-Gem-27B"].tolist() == [1, 1, 0, 0]
    assert found["developer"].loc["S-Gem-27B"].tolist() == [0, 1, 1, 0]
    # 27 and 8 billion
    assert found["parameters"].loc["N-Gem-27B"].tolist() == [
        1,
        1,
        1 / (1 + 19),
        1 / (1 + 19),
    ]
    # ranks 2, 5, 10, 17
    assert found["rank"].loc["N-Gem-27B"].tolist() == [1, 1 / 4, 1 / 9, 1 / 16]
    assert found["base"].loc["S-Lla-8B-v0.2", "R-Lla-8B"] == 1
    small = factors.theoretical(
        models.assign(parameters_b=[0.001, 0.003, 0.003, 0.002])
    )["parameters"]
    # millions
    assert small.loc["N-Gem-27B"].round(9).tolist() == [
        1,
        round(1 / 3, 9),
        round(1 / 3, 9),
        1 / 2,
    ]


def test_traits_that_are_unknown_or_the_same_for_all_are_left_out():
    models = registry.reward_model_rows(
        ["N-Gem-27B", "S-Gem-27B", "a model of one's own"]
    )
    assert factors.theoretical(models) == {}
    models = registry.reward_model_rows(["N-Gem-27B", "S-Gem-27B", "S-Gem-27B-v0.2"])
    # all are 27 billion Gemmas
    assert list(factors.theoretical(models)) == ["developer", "rank"]
    assert list(factors.theoretical(models.assign(rewardbench_rank=["", 2, 3]))) == [
        "developer"
    ]


def test_matrices_that_cannot_be_compared_are_refused():
    matrix, predictors = random_matrices(5)
    lopsided = matrix.copy()
    lopsided.iloc[0, 1] += 1
    missing = matrix.copy()
    missing.iloc[0, 1] = missing.iloc[1, 0] = np.nan
    for wrong in (lopsided, missing, matrix.iloc[:, ::-1]):
        with pytest.raises(InputError, match="needs the same models on both sides"):
            rsa.regress(wrong, predictors)
        with pytest.raises(InputError, match="needs the same models on both sides"):
            agreement.model_map(wrong)
    renamed = predictors["x0"].rename(index={"a": "z"}, columns={"a": "z"})
    with pytest.raises(InputError, match="needs the same models on both sides"):
        relabelling.p_of(matrix, {"x0": renamed}, "x0")
    with pytest.raises(
        InputError, match="5 models are too few, or too alike, to tell apart x0, copy"
    ):
        rsa.regress(matrix, {"x0": predictors["x0"], "copy": predictors["x0"]})


def test_too_few_models_are_not_told_apart():
    matrix = factors.printed_matrix()
    for count, enough in [(2, False), (3, False), (10, True)]:
        names = matrix.index[:count]
        traits = factors.theoretical(registry.reward_model_rows(names))
        assert relabelling.can_be_told_apart(matrix.loc[names, names], traits) == enough
