"""Made-up similarity matrices of models, for tests of what agreement goes with."""

import numpy as np
import pandas as pd


def random_matrices(models=6, predictors=2, seed=0):
    """A symmetric matrix of noise that leans on the first of some random predictors."""
    random = np.random.default_rng(seed)
    names = list("abcdefghij")[:models]

    def noise():
        values = np.triu(random.normal(size=(models, models)), 1)
        return pd.DataFrame(values + values.T + np.eye(models), names, names)

    found = {f"x{i}": noise() for i in range(predictors)}
    return noise() + 0.7 * found["x0"], found


def reorder(matrix, order):
    return pd.DataFrame(
        matrix.to_numpy()[np.ix_(order, order)], matrix.index, matrix.index
    )


def least_squares(outcome, design):
    """b and t without a library: normal equations with an intercept, and textbook standard
    errors.
    """
    design = np.column_stack([np.ones(len(outcome)), design])
    inverse = np.linalg.inv(design.T @ design)
    b = inverse @ design.T @ outcome
    error = outcome - design @ b
    variance = error @ error / (len(outcome) - design.shape[1])
    return b[1:], (b / np.sqrt(variance * np.diag(inverse)))[1:]
