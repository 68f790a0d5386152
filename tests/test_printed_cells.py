"""Cells that were typed from the authors' pictures: whole, and counted against ours."""

from pathlib import Path

import pandas as pd

from lib import ROOT
from lib.claims.claims import paper_table
from lib.similarity import factors

PROMPTS = ["GE", "HP", "GW"]
HALF = 0.005 * (1 + 1e-9)  # half a unit of the last printed digit


def of_run(name: str) -> pd.DataFrame:
    """Return a table of the committed run on published scores."""
    path: Path = ROOT / "figures" / "published" / name
    return pd.read_csv(path, keep_default_na=False)


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
