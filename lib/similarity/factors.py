"""What models have in common: pairs of models, the theoretical matrices of section 2.2, and
lineage.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd


def pairs(matrix: pd.DataFrame) -> pd.DataFrame:
    """Return one row per pair of different models, with the matrix's entry as value."""
    a, b = np.triu_indices(len(matrix), 1)
    names = matrix.index
    values = matrix.to_numpy()[a, b]
    return pd.DataFrame({"model_a": names[a], "model_b": names[b], "value": values})


def theoretical(models: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the theoretical similarity matrices of section 2.2: trait -> models x models, in [0,
    1], diagonal 1.

    models: rows of the registry. A base is a family (Gemma or Llama), as in the published
    regression. A trait that is blank for a model, or the same for all pairs, is left out.
    """
    billions = pd.to_numeric(models["parameters_b"], errors="coerce")
    if billions.max() < 0.1:  # in billions, small models are all alike
        billions = billions * 1000
    family = models["base"].str.split().str[0]
    matrices = {
        "base": same_label(family),
        "developer": same_label(models["developer"]),
        "parameters": nearness(billions),
        "rank": nearness(models["rewardbench_rank"]),
    }
    return varied(matrices)


def varied(matrices: Mapping[str, pd.DataFrame | None]) -> dict[str, pd.DataFrame]:
    """Return the matrices that are known and not the same for all pairs of models."""
    kept = {}
    for name, matrix in matrices.items():
        if matrix is None:
            continue
        values = pairs(matrix)["value"]
        if values.min() < values.max():
            kept[name] = matrix
    return kept


def same_label(labels: pd.Series) -> pd.DataFrame | None:
    """Return 1 where two models have the same label and 0 elsewhere, models x models; None if
    one is blank.
    """
    values = labels.to_numpy(dtype=object)
    if (values == "").any() or labels.isna().any():
        return None
    is_same = values[:, None] == values
    return pd.DataFrame(is_same.astype(float), labels.index, labels.index)


def nearness(numbers: pd.Series) -> pd.DataFrame | None:
    """Return 1 / (1 + |a - b|) for each two models' numbers, models x models; None if one is
    missing.
    """
    numbers = pd.to_numeric(numbers, errors="coerce")
    values = numbers.to_numpy(dtype=float)
    if np.isnan(values).any():
        return None
    apart = np.abs(values[:, None] - values)
    return pd.DataFrame(1 / (1 + apart), numbers.index, numbers.index)
