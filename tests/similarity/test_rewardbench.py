"""Sections of RewardBench as factors of similarity: files read, a planted one found, Holm over all."""

import json

import numpy as np
import pandas as pd
import pytest
from pinned import Mirror

from lib import InputError
from lib.similarity import factors, rsa


def evaluation(benchmark, scores):
    results = [{"evaluation_name": name, "score_details": {"score": score}} for name, score in scores.items()]
    return {"source_metadata": {"source_name": benchmark}, "evaluation_results": results}


SCORES = {"Score": 0.9, "Chat": 0.95, "Chat Hard": 0.8, "Safety": 0.91, "Reasoning": 0.97,
          "Prior Sets (0.5 weight)": 0.7}  # fmt: skip


def test_the_scores_of_a_file():
    found = factors.read_scores(evaluation("RewardBench", SCORES))
    assert found["RewardBench", "Safety"] == 0.91 and len(found) == 5  # prior sets are no section
    with pytest.raises(InputError, match="'JudgeBench' is no benchmark that is read here; choose RewardBench or"):
        factors.read_scores(evaluation("JudgeBench", SCORES))


def test_files_are_found_whatever_the_case_of_the_name(tmp_path, monkeypatch):
    mirror = Mirror(tmp_path, monkeypatch)
    content = json.dumps(evaluation("RewardBench", SCORES)).encode()
    mirror.put(factors.REPOSITORY, "data/reward-bench/owner/A-Model/1.json", content)
    models = pd.DataFrame({"hub_id": ["owner/a-model", "owner/a-model-v2"]}, index=["A", "B"])
    found = factors.rewardbench(models)
    assert found.loc["A", ("RewardBench", "Safety")] == 0.91
    assert found.loc["B"].isna().all() and found.loc["A", "RewardBench 2"].isna().all()


def planted(section, strength, seed=0):
    """Ten models with random sections, whose agreement follows one of them; two lack the second benchmark."""
    random, names = np.random.default_rng(seed), [f"m{i}" for i in range(10)]
    columns = [(name, one) for name, sections in factors.SECTIONS.items() for one in sections]
    scores = pd.DataFrame(random.uniform(0.5, 1, (10, 12)), names, pd.MultiIndex.from_tuples(columns))
    scores.loc[["m1", "m7"], "RewardBench 2"] = np.nan
    values = scores["RewardBench", section].to_numpy()
    noise = np.triu(random.normal(scale=0.03, size=(10, 10)), 1)
    square = 0.4 - strength * np.abs(values[:, None] - values) + noise + noise.T
    return pd.DataFrame(square, names, names), scores


def test_the_section_that_agreement_follows_is_found():
    found = rsa.section_effects(*planted("Safety", 0.6)).set_index(["benchmark", "section"])
    assert found["models"].to_dict()["RewardBench", "Chat"] == 10 and found["models"].iloc[-1] == 8
    row = found.loc["RewardBench", "Safety"]
    assert row["p"] < 0.001 and row["p_holm"] < 0.01 and row["ci_low"] > 0
    assert row["p_beyond"] < 0.001 and row["more_low"] > 0  # more than the overall score
    assert found["p_holm"].drop(("RewardBench", "Safety")).min() > 0.05
    assert (found["p_holm"] >= found["p"]).all() and found["p"].min() * 12 == pytest.approx(found["p_holm"].min())
    assert found.loc["RewardBench", "Score"][["p_beyond", "more"]].isna().all()


def test_nothing_is_found_where_nothing_was_planted():
    found = rsa.section_effects(*planted("Safety", 0.0, seed=1))
    assert (found["p_holm"] > 0.05).all()


def test_benchmarks_of_too_few_models_are_left_out():
    matrix, scores = planted("Safety", 0.6)
    few = matrix.index[:5]
    assert set(rsa.section_effects(matrix.loc[few, few], scores)["benchmark"]) == {"RewardBench"}
    assert rsa.section_effects(matrix, scores.drop(columns="RewardBench", level=0) * np.nan).empty
