"""Lineage: whether models that descend from one published reward model agree more, whatever else they share.

Six of the paper's ten models belong to two lines: the Skywork reward models, and models whose pages say that they were
built on a Skywork reward model. We made this grouping (data/reward_models.csv, with sources) after we saw the data.
What it shows is an observation and not a test that was planned.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ..stats import pair_model
from . import factors
from .rsa import effects

SKYWORK, EVERY = CODINGS = ("Skywork line", "every line")
LINEAGE = "lineage"
HELD = {"alone": (), "with base": ("base",), "with rank": ("rank",), "with base and rank": ("base", "rank"),
        "with all four": ("base", "developer", "parameters", "rank")}  # fmt: skip


def shared_lineage(models: pd.DataFrame, coding: str = SKYWORK) -> pd.DataFrame | None:
    """Return 1 where two models are of one line and 0 elsewhere, models x models; None where no two are, or all are.

    SKYWORK counts only the two lines of shared weights, 27B Gemma models and 8B Llama models. EVERY counts each line
    that has a source. There the three GRM models share a recipe and no weights.
    """
    lines = models[LINEAGE]
    counted = lines.ne("") if coding == EVERY else lines.str.startswith("Skywork")
    labels = lines.where(counted, models.index.to_series())  # a line of its own
    return factors.varied({LINEAGE: factors.same_label(labels)}).get(LINEAGE)


def lineage_effects(
    matrix: pd.DataFrame, traits: Mapping[str, pd.DataFrame], lineage: pd.DataFrame, permutations: int = 10_000
) -> pd.DataFrame:
    """Return the effects (rsa.effects) of lineage and of the factors held constant, a row per regression and factor.

    traits: as from factors.theoretical. A regression (HELD) whose factors are unknown here, or cannot be told apart, is
    left out.
    """
    rows = []
    for name, held in HELD.items():
        predictors = {LINEAGE: lineage} | {trait: traits[trait] for trait in held if trait in traits}
        if len(predictors) <= len(held) or not pair_model.can_be_told_apart(matrix, predictors):
            continue
        table = effects(matrix, predictors, permutations).rename_axis("factor").reset_index()
        table.insert(0, "regression", name)
        rows.append(table)
    columns = ["regression", "factor", "b", "ci_low", "ci_high", "p_reml", "p"]
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=columns)


def leave_one_out(matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], factor: str = LINEAGE) -> pd.DataFrame:
    """Return the effect (rsa.effects) of a factor in the joint regression without each model in turn.

    Index: the model that is left out. A model without which the factors cannot be told apart has no row.
    """
    rows = {}
    for name in matrix.index:
        left = matrix.index.drop(name)
        some = {trait: theory.loc[left, left] for trait, theory in predictors.items()}
        among = matrix.loc[left, left]
        if pair_model.can_be_told_apart(among, some):
            rows[name] = effects(among, some).loc[factor, ["b", "ci_low", "ci_high", "p"]]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["b", "ci_low", "ci_high", "p"])


def effective_models(matrix: pd.DataFrame, models: pd.DataFrame, coding: str = SKYWORK) -> dict[str, float]:
    """Return how many independent models the models of a matrix amount to, between 1 and their number.

    `by agreement` is the participation ratio, (sum of eigenvalues)^2 / sum of squared eigenvalues. `by lineage` is n^2
    / sum of squared sizes of the lines. A model without a known line stands for itself.
    """
    values = np.linalg.eigvalsh(matrix.to_numpy(dtype=float))
    same = shared_lineage(models.loc[matrix.index], coding)
    pairs = len(matrix) if same is None else float(same.to_numpy().sum())
    return {"by agreement": float(values.sum() ** 2 / (values**2).sum()), "by lineage": len(matrix) ** 2 / pairs}
