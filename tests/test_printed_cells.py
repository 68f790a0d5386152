"""Cells that were typed from the authors' pictures: whole, and counted against ours."""

from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
from conftest import with_tag

from lib import ROOT
from lib.claims.claims import paper_table
from lib.similarity import factors

MODELS = paper_table("table_1")["nickname"].tolist()
PROMPTS = ["GE", "HP", "GW"]
HALF = 0.005 * (1 + 1e-9)  # half a unit of the last printed digit


def of_run(name: str) -> pd.DataFrame:
    """Return a table of the committed run on published scores."""
    path: Path = ROOT / "figures" / "published" / name
    return pd.read_csv(path, keep_default_na=False)


@pytest.fixture(scope="module")
def rbo():
    """Return the function that notebook 03 builds."""
    names = {}
    notebook = nbformat.read(ROOT / "notebooks" / "03_similarity.ipynb", 4)
    for cell in with_tag(notebook, "plain"):
        if "def rbo" in cell.source:
            exec(cell.source, names)
    return names["rbo"]


def test_figure_a5_is_three_symmetric_matrices_of_people_and_ten_models():
    table = paper_table("figa5_tau")
    assert table["prompt"].unique().tolist() == PROMPTS
    for _, rows in table.groupby("prompt"):
        matrix = rows.set_index("nickname").drop(columns="prompt").astype(float)
        assert list(matrix.index) == list(matrix.columns) == ["people", *MODELS]
        assert matrix.equals(matrix.T) and (np.diag(matrix) == 1).all()


def test_the_other_pictures_are_typed_whole():
    pairs = [("GE", "HP"), ("GE", "GW"), ("HP", "GW")]
    a6 = paper_table("figa6_tau")
    assert list(zip(a6["prompt"], a6["other_prompt"], strict=True)) == pairs * 10
    assert a6["nickname"].tolist() == [name for name in MODELS for _ in pairs]
    names = paper_table("figs_5b_a7")
    groups = names.groupby(["figure", "prompt"])
    assert set(groups.groups) == {("5B", "GE"), *(("A7", p) for p in PROMPTS)}
    for _, rows in groups:
        assert rows["position"].tolist() == list(range(1, 21))
        assert rows["item"].is_unique
    # Figure 5B is the panel of A7 for its prompt
    panels = {key: rows["item"].tolist() for key, rows in groups}
    assert panels["5B", "GE"] == panels["A7", "GE"]
    for name in ("fig2b_map", "fig4_highest"):
        assert sorted(paper_table(name)["nickname"]) == sorted(MODELS)


def test_points_of_figure_2b_lie_around_their_middle_as_those_of_any_scaling_do():
    points = paper_table("fig2b_map")[["x", "y"]].astype(float)
    assert points.mean().abs().max() < 0.002  # a pixel is .0008


def test_all_275_typed_cells_are_those_of_the_committed_run():
    ours = of_run("items/06_taus.csv").set_index(["prompt", "model"])
    printed = paper_table("figa5_tau").rename(columns={"nickname": "model"})
    printed = printed.set_index(["prompt", "model"]).astype(float)
    apart = (ours.loc[printed.index, printed.columns] - printed).abs()
    a5 = sum(
        factors.pairs(apart.loc[prompt] <= HALF)["value"].sum() for prompt in PROMPTS
    )
    own = of_run("items/06_other_prompts.csv").set_index("model")
    a6 = sum(
        abs(own.loc[row.nickname, f"{row.prompt}, {row.other_prompt}"] - row.tau)
        <= HALF
        for row in paper_table("figa6_tau").itertuples()
    )
    names = of_run("items/07_printed_names.csv")
    typed = paper_table("figs_5b_a7")
    assert names[["figure", "prompt", "paper"]].to_numpy().tolist() == (
        typed[["figure", "prompt", "item"]].to_numpy().tolist()
    )
    listed = (names["paper"] == names["ours"]).sum()
    assert (a5, a6, listed) == (165, 30, 80)  # 3 x 55 pairs, 10 x 3, 20 + 60 names


def test_rbo_by_hand(rbo):
    # depths 1, 2, 3 share all, half and all; then up to two new texts at each depth
    known = 0.1 * (1 + 0.9 / 2 + 0.81)
    lowest, highest = rbo(["a", "b", "c"], ["a", "c", "b"])
    rest = [0.1 * 0.9 ** (depth - 1) for depth in range(4, 132)]
    assert highest == pytest.approx(known + sum(rest))
    at_least = [3 / depth for depth in range(4, 132)]
    assert lowest == pytest.approx(known + np.dot(rest, at_least))


def test_rbo_of_whole_rankings_lies_between_the_bounds_of_their_first_texts(rbo):
    random = np.random.default_rng(0)
    for shuffled in (5, 50, 300):  # how many of the first texts change places
        one = list(range(300))
        another = [*random.permutation(one[:shuffled]).tolist(), *one[shuffled:]]
        whole = sum(
            0.1 * 0.9 ** (d - 1) * len({*one[:d]} & {*another[:d]}) / d
            for d in range(1, 301)
        )
        lowest, highest = rbo(one[:20], another[:20])
        assert lowest < whole <= highest + 2e-6
        assert rbo(one[:131], another[:131]) == pytest.approx([whole] * 2, abs=2e-6)


def test_a_table_of_the_docs_links_a_picture_of_the_authors_for_each_figure():
    lines = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8").splitlines()
    figures = [item for item in paper_table("items")["item"] if item[:3] == "Fig"]
    for item in figures:
        [row] = [line for line in lines if line.startswith(f"| {item} |")]
        number = item.split()[1].lower()
        assert f"/figures/output/figure_{number}_" in row or number in ("5a", "5c")
