"""Paths of section 2.2: each is the fit that it names, none is counted twice, and what was planted decides."""

import numpy as np
import pandas as pd
import pytest

from lib import multiverse
from lib.models import registry
from lib.similarity import factors, pair_model, paths, relabelling, rsa
from lib.similarity.claims import figure_2a


@pytest.fixture(scope="module")
def printed():
    matrix = figure_2a()
    return matrix, registry.rows_of(matrix.index)


@pytest.fixture(scope="module")
def rank_paths(printed):
    matrix, models = printed
    return paths.similarity_paths({paths.PRINTED_TAU: matrix}, models, "rank", ("base", paths.ALL))


def test_a_path_is_counted_once(rank_paths):
    # rank with base: 2 codings of base x 3 of rank x 3 tests; with all others also 3 of size
    assert len(rank_paths) == 2 * 3 * 3 + 2 * 3 * 3 * 3
    assert not rank_paths.duplicated(multiverse.choices_of(rank_paths)).any()
    assert set(rank_paths.loc[rank_paths["held constant"] == "base", "size as"]) == {"-"}


def standardised(matrix, theory, entries="pairs"):
    outcome, design = factors.observations(matrix, {"x": theory}, entries)
    return design[:, 0].std() / outcome.std()


def test_paths_are_the_fits_that_they_name(printed, rank_paths):
    matrix, models = printed
    traits = factors.theoretical(models, base="release", rank="place")
    both = {name: traits[name] for name in ("rank", "base")}
    found = rank_paths.query("`held constant` == 'base' and `base as` == 'release' and `rank as` == 'place'")
    found = found.set_index("test")
    unit = standardised(matrix, traits["rank"])
    reml = pair_model.fit(matrix, both).table.loc["rank", ["b", "ci_low", "ci_high"]] * unit
    assert found.loc[paths.REML, ["estimate", "ci_low", "ci_high"]].tolist() == pytest.approx(reml.tolist())
    plain = rsa.regress(matrix, both, "pairs").table.loc["rank", "b"] * unit
    assert found.loc[paths.EXACT, "estimate"] == pytest.approx(plain)
    published = rsa.regress(matrix, both, "all").table.loc["rank"]
    assert found.loc[paths.PUBLISHED, "estimate"] == pytest.approx(
        published["b"] * standardised(matrix, traits["rank"], "all")
    )
    assert (found.loc[paths.PUBLISHED, "side"] == "for") == (published["p"] < 0.05)


def test_the_interval_of_a_permutation_leaves_zero_out_where_p_does(printed, rank_paths):
    matrix, models = printed
    exact = rank_paths[(rank_paths["test"] == paths.EXACT) & (rank_paths["held constant"] == "base")]
    for row in exact.to_dict("records"):
        traits = factors.theoretical(models, row["base as"], rank=row["rank as"])
        p = relabelling.mrqap(matrix, {name: traits[name] for name in ("rank", "base")})["rank"]
        assert (row["side"] == "for") == (p < 0.05)


def test_all_paths_of_the_paper(printed):
    matrix, models = printed
    tables = paths.all_paths({paths.PRINTED_TAU: matrix}, models)
    assert list(tables) == list(paths.TITLES)
    simple = tables["S2.rsa.simple"]
    assert simple.groupby("factor").size().to_dict() == {"base": 6, "developer": 3, "parameters": 9, "rank": 9}
    summary = paths.summaries(tables).set_index("claim")
    assert (summary["papers_path"] == "for").all()
    assert summary["our_path"].to_dict() == {
        "S2.rsa.simple": "for/undecided", "S2.rsa.multiple": "undecided", "S2.rsa.beyond": "for"
    }  # fmt: skip
    base, rank = (multiverse.shares(tables[claim]).loc["all", "for"] for claim in ("S2.rsa.beyond", "S2.rsa.multiple"))
    assert base > 0.9 and rank < 0.5


def test_a_planted_base_is_found_on_every_path_and_nothing_else():
    random, names = np.random.default_rng(0), [f"m{i}" for i in range(8)]
    models = pd.DataFrame({"base": ["Gemma 2", "Llama 3"] * 4, "developer": list("AABBCCDD")}, names)
    models = models.assign(parameters_b=[1, 2, 3, 5, 8, 13, 21, 34], rewardbench_rank="")
    same = models["base"].to_numpy()[:, None] == models["base"].to_numpy()
    noise = np.triu(random.normal(scale=0.02, size=(8, 8)), 1)
    matrix = pd.DataFrame(0.3 + 0.3 * same + noise + noise.T, names, names)
    matrix = matrix.mask(np.eye(8, dtype=bool), 1.0)
    tables = paths.all_paths({"tau": matrix}, models)
    assert list(tables) == ["S2.rsa.simple"]  # no rank is known
    found = tables["S2.rsa.simple"].query("test != @paths.PUBLISHED")
    assert set(found.loc[found["factor"] == "base", "side"]) == {"for"}
    assert "for" not in set(found.loc[found["factor"] != "base", "side"])
    assert paths.marked("S2.rsa.simple", found, paths.REML) is None  # the paper's figure is not among the matrices


def test_too_few_models_have_no_paths(printed):
    matrix, models = printed
    few = matrix.index[:3]
    assert paths.similarity_paths({"tau": matrix.loc[few, few]}, models.loc[few], "rank").empty
