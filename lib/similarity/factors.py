"""What models have in common: pairs of models, the theoretical matrices of section 2.2 and how they are coded."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from lib import InputError
from lib.similarity.agreement import refuse_malformed

TRAITS = ("base", "developer", "parameters_b")  # columns of the registry that two models can share

# --- pairs of models ----------------------------------------------------------------------------------------------


def pairs(matrix: pd.DataFrame, models: pd.DataFrame) -> pd.DataFrame:
    """One row per pair of different models: the matrix's entry, and whether they share base, developer, parameters.

    The diagonal and the mirrored triangle are not observations, so they are left out. models: a registry that holds
    the matrix's names.
    """
    a, b = np.triu_indices(len(matrix), 1)
    labels = models.loc[matrix.index, list(TRAITS)].to_numpy(dtype=object)
    same = {f"same_{trait}": labels[a, column] == labels[b, column] for column, trait in enumerate(TRAITS)}
    value = matrix.to_numpy()[a, b]
    return pd.DataFrame({"model_a": matrix.index[a], "model_b": matrix.index[b], "value": value} | same)


# --- theoretical matrices -----------------------------------------------------------------------------------------


def theoretical(
    models: pd.DataFrame, base: str = "family", parameters: str = "inverse", rank: str = "inverse"
) -> dict[str, pd.DataFrame]:
    """The theoretical similarity matrices of section 2.2: trait -> models x models, in [0, 1], 1 on the diagonal.

    base and developer: 1 where two models share it, else 0. parameters (billions; millions if no model has .1 billion)
    and rank (on RewardBench): as `near` codes them, by 1 / (1 + |a - b|) as published. A trait that is blank for a
    model, or the same for all pairs, is left out.

    models: rows of the registry. base: "family" (Gemma or Llama), which reproduces the published regression, or
    "release" (Llama 3 is not Llama 3.1), which Table 1 prints. parameters, rank: a name of CODINGS.
    """
    if base not in ("family", "release"):
        raise InputError(f"base must be 'family' or 'release', not {base!r}")
    bases = models["base"].str.split().str[0] if base == "family" else models["base"]
    values = {"base": _same(bases), "developer": _same(models["developer"])}
    billions = pd.to_numeric(models["parameters_b"], errors="coerce")
    billions = billions * (1000 if billions.max() < 0.1 else 1)  # in billions, small models are all alike
    values |= {"parameters": near(billions, parameters), "rank": near(models["rewardbench_rank"], rank)}
    upper = np.triu_indices(len(models), 1)
    varied = {trait: square for trait, square in values.items() if square is not None and np.ptp(square[upper]) > 0}
    return {trait: pd.DataFrame(square, models.index, models.index) for trait, square in varied.items()}


def _same(labels: pd.Series) -> np.ndarray | None:
    values = labels.to_numpy(dtype=object)
    return None if (values == "").any() or labels.isna().any() else (values[:, None] == values).astype(float)


def _apart(values: np.ndarray) -> np.ndarray:
    return np.abs(values[:, None] - values)


def _linear(values: np.ndarray) -> np.ndarray:
    apart = _apart(values)
    return 1 - apart / (apart.max() or 1)


CODINGS = {
    "inverse": lambda values: 1 / (1 + _apart(values)),  # as published
    "linear": _linear,  # 0 for the two that are farthest apart
    "log": lambda values: _linear(np.log(values)),
    "place": lambda values: _linear(pd.Series(values).rank().to_numpy()),  # places among these models, ties averaged
}


def near(numbers: pd.Series, coding: str = "inverse") -> np.ndarray | None:
    """How near each two models are in a number, (models, models), 1 for equal ones; None if one is missing.

    coding: a name of CODINGS: `inverse`, 1 / (1 + |a - b|), sees little but the nearest neighbours; `linear`,
    1 - |a - b| over the largest difference; `log` and `place`, the same of logarithms and of places among these models.
    """
    if coding not in CODINGS:
        raise InputError(f"a coding must be one of {', '.join(CODINGS)}, not {coding!r}")
    values = pd.to_numeric(numbers, errors="coerce").to_numpy(dtype=float)
    return None if np.isnan(values).any() else CODINGS[coding](values)


# --- observations -------------------------------------------------------------------------------------------------


def observations(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], entries: str
) -> tuple[np.ndarray, np.ndarray]:
    """The outcome (n,) and the predictors (n, k) of a regression of a matrix, checked that they can be fitted.

    entries: "pairs" of different models, above the diagonal, row by row; or "all" of the matrix. InputError for a
    malformed matrix, predictors of other models, or too few models to tell the predictors apart.
    """
    if entries not in ("pairs", "all"):
        raise InputError(f"entries must be 'pairs' or 'all', not {entries!r}")
    refuse_malformed(matrix)
    names = matrix.index
    chosen = np.triu_indices(len(names), 1) if entries == "pairs" else np.indices(matrix.shape).reshape(2, -1)
    columns = []
    for trait, theory in predictors.items():
        if set(theory.index) != set(names):
            raise InputError(f"the similarity matrix of {trait} is about other models; build it for these models")
        columns.append(theory.loc[names, names].to_numpy(dtype=float)[tuple(chosen)])
    outcome = matrix.to_numpy(dtype=float)[tuple(chosen)]
    design = np.column_stack(columns) if columns else np.empty((len(outcome), 0))
    whole = np.column_stack([np.ones(len(outcome)), design])
    if np.linalg.matrix_rank(whole) < whole.shape[1] or len(outcome) <= whole.shape[1]:
        raise InputError(
            f"{len(names)} models are too few, or too alike, to tell apart {', '.join(predictors)}; "
            "leave a predictor out"
        )
    return outcome, design


def can_be_told_apart(matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame]) -> bool:
    """Whether there are enough, and different enough, models to regress this matrix on these predictors jointly."""
    if not predictors:
        return False
    try:
        observations(matrix, predictors, "pairs")
    except InputError:
        return False
    return True
