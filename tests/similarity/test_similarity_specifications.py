"""Specifications of section 2.2: each is the fit that it names, none is counted twice, and what was planted decides."""

import numpy as np
import pandas as pd
import pytest

from lib.similarity import factors, rsa, specifications
from lib.stats import multiverse, pair_model, relabelling
from lib.tables import registry


@pytest.fixture(scope="module")
def printed():
    matrix = factors.printed_matrix()
    return matrix, registry.rows_of(matrix.index)


@pytest.fixture(scope="module")
def tables(printed):
    matrix, models = printed
    return specifications.specifications({specifications.PRINTED_TAU: matrix}, models)


@pytest.fixture(scope="module")
def of_rank(tables):
    return tables["S2.rsa.multiple"]


def test_a_path_is_counted_once(of_rank):
    # rank with base: 2 codings of base x 3 of rank x 3 tests; with all others also 3 of size
    assert len(of_rank) == 2 * 3 * 3 + 2 * 3 * 3 * 3
    assert not of_rank.duplicated(multiverse.choices_of(of_rank)).any()
    assert set(of_rank.loc[of_rank["held constant"] == "base", "size as"]) == {"-"}


def standardised(matrix, theory, entries="pairs"):
    outcome, design = pair_model.observations(matrix, {"x": theory}, entries)
    return design[:, 0].std() / outcome.std()


def test_paths_are_the_fits_that_they_name(printed, of_rank):
    matrix, models = printed
    traits = factors.theoretical(models, base="release", rank="place")
    both = {name: traits[name] for name in ("rank", "base")}
    found = of_rank.query("`held constant` == 'base' and `base as` == 'release' and `rank as` == 'place'")
    found = found.set_index("test")
    unit = standardised(matrix, traits["rank"])
    reml = pair_model.fit(matrix, both).table.loc["rank", ["b", "ci_low", "ci_high"]] * unit
    assert found.loc[specifications.REML, ["estimate", "ci_low", "ci_high"]].tolist() == pytest.approx(reml.tolist())
    plain = rsa.regress(matrix, both, "pairs").params["rank"] * unit
    assert found.loc[specifications.EXACT, "estimate"] == pytest.approx(plain)
    published = rsa.regress(matrix, both, "all")
    assert found.loc[specifications.PUBLISHED, "estimate"] == pytest.approx(
        published.params["rank"] * standardised(matrix, traits["rank"], "all")
    )
    assert (found.loc[specifications.PUBLISHED, "side"] == "for") == (published.pvalues["rank"] < 0.05)


def test_the_interval_of_a_permutation_leaves_zero_out_where_p_does(printed, of_rank):
    matrix, models = printed
    exact = of_rank[(of_rank["test"] == specifications.EXACT) & (of_rank["held constant"] == "base")]
    for row in exact.to_dict("records"):
        traits = factors.theoretical(models, row["base as"], rank=row["rank as"])
        p = relabelling.mrqap(matrix, {name: traits[name] for name in ("rank", "base")})["rank"]
        assert (row["side"] == "for") == (p < 0.05)


def test_all_paths_of_the_paper(printed, tables):
    matrix, models = printed
    assert list(tables) == list(specifications.PAPERS)
    simple = tables["S2.rsa.simple"]
    assert simple.groupby("factor").size().to_dict() == {"base": 6, "developer": 3, "parameters": 9, "rank": 9}
    summary = specifications.summaries(tables, {specifications.PRINTED_TAU: matrix}, models).set_index("claim")
    assert (summary["papers"] == "for").all()
    assert summary["ours"].to_dict() == {
        "S2.rsa.simple": "for/undecided", "S2.rsa.multiple": "undecided", "S2.rsa.beyond": "for"
    }  # fmt: skip
    base, rank = (multiverse.shares(tables[claim]).loc["all", "for"] for claim in ("S2.rsa.beyond", "S2.rsa.multiple"))
    assert base > 0.9 and rank < 0.5
    assert (summary["counted"] <= summary["specifications"] * 2 / 3).all()  # none of the tests over all entries counts
    assert summary.loc["S2.rsa.beyond", "joint_p"] < 0.02 < summary.loc["S2.rsa.multiple", "joint_p"]


def test_the_joint_test_shuffles_the_estimates_that_the_specifications_have(printed, tables):
    matrix, models = printed
    for claim, table in tables.items():
        least_squares = table[table["test"] == specifications.EXACT].reset_index(drop=True)
        for row in least_squares.to_dict("records")[::5]:
            traits = specifications._traits(claim, row, models)
            first = next(iter(traits))
            fit = rsa.regress(matrix, traits, "pairs")
            assert fit.params[first] * standardised(matrix, traits[first]) == pytest.approx(row["estimate"])


def test_a_planted_base_is_found_on_every_path_and_nothing_else():
    random, names = np.random.default_rng(0), [f"m{i}" for i in range(8)]
    models = pd.DataFrame({"base": ["Gemma 2", "Llama 3"] * 4, "developer": list("AABBCCDD")}, names)
    models = models.assign(parameters_b=[1, 2, 3, 5, 8, 13, 21, 34], rewardbench_rank="")
    same = models["base"].to_numpy()[:, None] == models["base"].to_numpy()
    noise = np.triu(random.normal(scale=0.02, size=(8, 8)), 1)
    matrix = pd.DataFrame(0.3 + 0.3 * same + noise + noise.T, names, names)
    matrix = matrix.mask(np.eye(8, dtype=bool), 1.0)
    tables = specifications.specifications({"tau": matrix}, models)
    assert list(tables) == ["S2.rsa.simple"]  # no rank is known
    found = tables["S2.rsa.simple"].query("test != @specifications.PUBLISHED")
    assert set(found.loc[found["factor"] == "base", "side"]) == {"for"}
    assert "for" not in set(found.loc[found["factor"] != "base", "side"])
    assert specifications.marked("S2.rsa.simple", found, specifications.REML) is None  # without Fig 2A


def test_too_few_models_have_no_paths(printed):
    matrix, models = printed
    few = matrix.index[:3]
    assert specifications.specifications({"tau": matrix.loc[few, few]}, models.loc[few]) == {}
