"""What models have in common: pairs, the theoretical matrices of section 2.2, and scores on RewardBench.

The scores are those of the leaderboards (RewardBench, RewardBench 2), as collected in evaleval/every_eval_ever. All ten
models of the paper are on the first, eight on the second.
"""

import json
from collections.abc import Mapping

import numpy as np
import pandas as pd

from .. import InputError
from ..claims.claims import paper_table
from ..tables import downloads

TRAITS = ("base", "developer", "parameters_b")  # columns of the registry that two models can share
REPOSITORY, FOLDER = "evaleval/every_eval_ever", "data/reward-bench/"
OVERALL = "Score"
SECTIONS = {
    "RewardBench": (OVERALL, "Chat", "Chat Hard", "Safety", "Reasoning"),
    "RewardBench 2": (OVERALL, "Factuality", "Precise IF", "Math", "Safety", "Focus", "Ties"),
}

# --- pairs of models ----------------------------------------------------------------------------------------------


def pairs(matrix: pd.DataFrame) -> pd.DataFrame:
    """Return one row per pair of different models, with the matrix's entry as value."""
    a, b = np.triu_indices(len(matrix), 1)
    return pd.DataFrame({"model_a": matrix.index[a], "model_b": matrix.index[b], "value": matrix.to_numpy()[a, b]})


def printed_matrix(name: str = "fig2a_tau") -> pd.DataFrame:
    """Return the models x models matrix of Fig 2A or Fig A1 (figa1_spearman, figa1_rbo) as the paper prints it."""
    return paper_table(name).set_index("nickname").rename_axis(None)


# --- theoretical matrices -----------------------------------------------------------------------------------------


def theoretical(
    models: pd.DataFrame, base: str = "family", parameters: str = "inverse", rank: str = "inverse"
) -> dict[str, pd.DataFrame]:
    """Return the theoretical similarity matrices of section 2.2: trait -> models x models, in [0, 1], diagonal 1.

    models: rows of the registry. With the base "family" (Gemma or Llama) the published regression is reproduced. With
    "release" Llama 3 is not Llama 3.1, as in Table 1. parameters and rank are names of CODINGS. A trait that is blank
    for a model, or the same for all pairs, is left out.
    """
    if base not in ("family", "release"):
        raise InputError(f"base must be 'family' or 'release', not {base!r}")
    bases = models["base"].str.split().str[0] if base == "family" else models["base"]
    billions = pd.to_numeric(models["parameters_b"], errors="coerce")
    billions = billions * (1000 if billions.max() < 0.1 else 1)  # in billions, small models are all alike
    near = {"parameters": nearness(billions, parameters), "rank": nearness(models["rewardbench_rank"], rank)}
    return varied({"base": same_label(bases), "developer": same_label(models["developer"])} | near)


def shared_traits(models: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return whether two models share a base (release), a developer or a size: trait -> models x models, 1 or 0."""
    return varied({trait: same_label(models[trait]) for trait in TRAITS})


def varied(matrices: Mapping[str, pd.DataFrame | None]) -> dict[str, pd.DataFrame]:
    """Return the matrices that are known and not the same for all pairs of models."""
    known = {name: matrix for name, matrix in matrices.items() if matrix is not None and len(matrix) > 1}
    return {name: matrix for name, matrix in known.items()
            if np.ptp(matrix.to_numpy()[np.triu_indices(len(matrix), 1)]) > 0}  # fmt: skip


def same_label(labels: pd.Series) -> pd.DataFrame | None:
    """Return 1 where two models have the same label and 0 elsewhere, models x models; None if one is blank."""
    values = labels.to_numpy(dtype=object)
    if (values == "").any() or labels.isna().any():
        return None
    return pd.DataFrame((values[:, None] == values).astype(float), labels.index, labels.index)


def _distances(values: np.ndarray) -> np.ndarray:
    return np.abs(values[:, None] - values)


def _linear(values: np.ndarray) -> np.ndarray:
    return 1 - _distances(values) / (np.ptp(values) or 1)


CODINGS = {
    "inverse": lambda values: 1 / (1 + _distances(values)),  # as published
    "linear": _linear,  # 0 for the two that are farthest apart
    "log": lambda values: _linear(np.log(values)),
    "place": lambda values: _linear(pd.Series(values).rank().to_numpy()),  # places among these models, ties averaged
}


def nearness(numbers: pd.Series, coding: str = "inverse") -> pd.DataFrame | None:
    """Return how near each two models are in a number, models x models, 1 for equal ones; None if one is missing."""

    values = pd.to_numeric(numbers, errors="coerce").to_numpy(dtype=float)
    return None if np.isnan(values).any() else pd.DataFrame(CODINGS[coding](values), numbers.index, numbers.index)


# --- RewardBench --------------------------------------------------------------------------------------------------


def rewardbench(models: pd.DataFrame) -> pd.DataFrame:
    """Return published benchmark scores in [0, 1], models x (benchmark, section), NaN where a model has none.

    models: rows of the registry. The files are downloaded, or read from a mirror.
    """
    pinned = downloads.registry()
    paths = pinned.loc[pinned["repository"] == REPOSITORY, "path"]
    scores = {}
    for name, hub_id in models["hub_id"].items():
        start = f"{FOLDER}{hub_id}/".casefold()  # the leaderboard spells some names in another case
        files = (downloads.fetch(REPOSITORY, path) for path in paths[paths.str.casefold().str.startswith(start)])
        scores[name] = {
            key: score for file in files for key, score in read_scores(json.loads(file.read_text())).items()
        }
    columns = pd.MultiIndex.from_tuples([(name, section) for name in SECTIONS for section in SECTIONS[name]])
    table = pd.DataFrame.from_dict(scores, orient="index", dtype=float)
    return table.reindex(index=models.index, columns=columns).rename_axis(columns=["benchmark", "section"])


def read_scores(evaluation: dict) -> dict[tuple[str, str], float]:
    """Return (benchmark, section) -> score of one file of the repository, for the sections of SECTIONS."""
    benchmark = evaluation["source_metadata"]["source_name"]
    if benchmark not in SECTIONS:
        raise InputError(f"'{benchmark}' is no benchmark that is read here; choose {' or '.join(SECTIONS)}")
    scores = {row["evaluation_name"]: float(row["score_details"]["score"]) for row in evaluation["evaluation_results"]}
    return {(benchmark, section): scores[section] for section in SECTIONS[benchmark] if section in scores}
