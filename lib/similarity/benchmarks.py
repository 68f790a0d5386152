"""RewardBench by section: does agreement on tokens follow Safety, Chat or Ties more than the overall score?

The scores are those that the benchmark's leaderboards published (RewardBench, RewardBench 2), as collected in the
repository evaleval/every_eval_ever. All ten models of the paper are on the first, eight on the second.
"""

import json

import numpy as np
import pandas as pd
from statsmodels.stats.multitest import multipletests

from lib import InputError, downloads
from lib.similarity import pair_model
from lib.similarity.factors import near, observations
from lib.similarity.relabelling import p_of

REPOSITORY, FOLDER = "evaleval/every_eval_ever", "data/reward-bench/"
OVERALL = "Score"
SECTIONS = {
    "RewardBench": (OVERALL, "Chat", "Chat Hard", "Safety", "Reasoning"),
    "RewardBench 2": (OVERALL, "Factuality", "Precise IF", "Math", "Safety", "Focus", "Ties"),
}


def rewardbench(models: pd.DataFrame) -> pd.DataFrame:
    """Published benchmark scores, models x (benchmark, section), each in [0, 1], NaN where a model has none.

    models: rows of the registry, with hub_id. The files are fetched, or read from a mirror (lib.downloads).
    """
    pinned = downloads.registry()
    paths = pinned.loc[pinned["repository"] == REPOSITORY, "path"]
    scores = {}
    for name, hub_id in models["hub_id"].items():
        start = f"{FOLDER}{hub_id}/".casefold()  # the leaderboard spells some names in another case
        scores[name] = {}
        for path in paths[paths.str.casefold().str.startswith(start)]:
            scores[name] |= read_scores(json.loads(downloads.fetch(REPOSITORY, path).read_text()))
    columns = pd.MultiIndex.from_tuples([(name, section) for name in SECTIONS for section in SECTIONS[name]])
    table = pd.DataFrame.from_dict(scores, orient="index", dtype=float)
    return table.reindex(index=models.index, columns=columns).rename_axis(columns=["benchmark", "section"])


def read_scores(evaluation: dict) -> dict[tuple[str, str], float]:
    """(benchmark, section) -> score, of one file of the repository; sections that SECTIONS lacks are left out."""
    benchmark = evaluation["source_metadata"]["source_name"]
    if benchmark not in SECTIONS:
        raise InputError(f"'{benchmark}' is no benchmark that is read here; choose {' or '.join(SECTIONS)}")
    found = {row["evaluation_name"]: float(row["score_details"]["score"]) for row in evaluation["evaluation_results"]}
    return {(benchmark, section): found[section] for section in SECTIONS[benchmark] if section in found}


def follows(matrix: pd.DataFrame, scores: pd.DataFrame, permutations: int = 10_000) -> pd.DataFrame:
    """How far the similarity of models goes with the nearness of their scores: a row per benchmark and section.

    scores: as from `rewardbench`; a benchmark is tested over the models that have all of its sections. Nearness is
    linear, 1 - |a - b| over the largest difference, so that sections are alike in unit. Columns: models; r, the
    correlation over pairs; p, Mantel's (exact), p_holm over all sections that were tried, the overall scores among
    them; b with ci_low, ci_high (REML): what the similarity gains from the farthest to equal scores; of a section
    together with its benchmark's overall score, p_beyond (exact), and more with more_low, more_high: b of the section
    minus b of the overall score (REML). NaN where a section cannot be told from the overall score.
    """
    rows = []
    for benchmark, sections in SECTIONS.items():
        if (benchmark, OVERALL) not in scores:
            continue
        some = scores[benchmark].reindex(matrix.index).dropna()
        if len(some) < 5:
            continue
        among = matrix.loc[some.index, some.index]
        theories = {name: pd.DataFrame(near(some[name], "linear"), some.index, some.index) for name in sections}
        for section in sections:
            found = _alone(among, theories[section], permutations) | _beyond(among, theories, section, permutations)
            rows.append({"benchmark": benchmark, "section": section, "models": len(some)} | found)
    table = pd.DataFrame(rows)
    if len(table):
        table.insert(5, "p_holm", multipletests(table["p"], method="holm")[1])
    return table


def _alone(matrix: pd.DataFrame, theory: pd.DataFrame, permutations: int) -> dict[str, float]:
    outcome, design = observations(matrix, {"section": theory}, "pairs")
    b = pair_model.fit(matrix, {"section": theory}).table.loc["section"]
    p = p_of(matrix, {"section": theory}, "section", permutations)
    r = np.corrcoef(outcome, design[:, 0])[0, 1]
    return {"r": float(r), "p": p} | b[["b", "ci_low", "ci_high"]].to_dict()


def _beyond(
    matrix: pd.DataFrame, theories: dict[str, pd.DataFrame], section: str, permutations: int
) -> dict[str, float]:  # fmt: skip
    nothing = dict.fromkeys(["p_beyond", "more", "more_low", "more_high"], np.nan)
    if section == OVERALL:
        return nothing
    both = {section: theories[section], OVERALL: theories[OVERALL]}
    more, low, high, _ = pair_model.contrast(pair_model.fit(matrix, both), section, OVERALL)
    p = p_of(matrix, both, section, permutations)
    return nothing | {"p_beyond": p, "more": more, "more_low": low, "more_high": high}
