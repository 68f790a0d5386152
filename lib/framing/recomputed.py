"""The paper's figures and tables of section 3, and the same numbers computed by its own recipe.

The `..._cells` functions work on whole vocabularies. Each returns cells (see lib.claims.cells): the printed number, the
number by the authors' recipe and the corrected number. The recipe joins words to tokens as the authors do and takes raw
rewards. The correction keeps one row per word. Some marks of Fig 3C are hidden behind others. So each slope in
data/paper/fig3c_slopes.csv has a halfwidth of reading.
"""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from ..claims import cells
from ..claims.claims import paper_table, published_table, quantities
from ..tables import lexicons, scores
from ..tables.collection import WORDS, Collection
from ..tables.prompts import polarity
from . import effects, frequency
from .opposites import both_and_either

ASKED = ("greatest", "best", "worst")
COMBINED = {"A8": "both", "A9": "either"}  # see opposites.both_and_either
PLACES = (-1, 0, 1)  # where in its range each gap is tried, in halfwidths from the middle
PAPER, SCORES, HERE = "paper", "published scores", "these models"  # the names of sources in tables and charts
COUNTED = {"S3.freq.raw": "none", "S3.freq.controlled": "sentiment"}  # the control of each count of models


def read_off(figure: str) -> pd.DataFrame:
    """Return the slopes of a figure of the paper, with the halfwidth of their reading."""
    return paper_table(figure).astype({"slope": float, "halfwidth": float})


def figure_test(slopes: pd.DataFrame, *, absolute: bool = False) -> pd.DataFrame:
    """Return the paired t-test over models for all gaps within the ranges of their slopes: one row per prompt.

    `slopes`: columns `prompt, sign, model, slope, halfwidth, read`, where read is `seen` or `hidden`. `absolute`: as in
    effects.gaps. Each gap is tried at both ends and in the middle of its range, which makes 3 ^ models combinations.
    Columns: `models, hidden, t, t_low, t_high, p, p_low, p_high, n_low, n_high`. `hidden` counts slopes, and n counts
    models with gap > 0. The two-sided t and p are for all gaps in the middle; low and high are the ranges over all
    combinations.
    """
    low, high = slopes["slope"] - slopes["halfwidth"], slopes["slope"] + slopes["halfwidth"]
    if absolute:  # of a range that holds 0, the least size is 0
        low, high = np.maximum(low, -high).clip(lower=0), np.maximum(low.abs(), high.abs())
    ends = slopes.assign(low=low, high=high).pivot_table(["low", "high"], ["prompt", "model"], "sign")
    rows = {}
    for prompt, of_prompt in slopes.groupby("prompt", sort=False):
        end = ends.loc[prompt]
        low = (end["low", "positive"] - end["high", "negative"]).to_numpy()
        high = (end["high", "positive"] - end["low", "negative"]).to_numpy()
        if absolute and polarity(prompt) < 0:
            low, high = -high, -low
        models = len(low)
        gaps = (low + high) / 2 + (high - low) / 2 * np.array(list(itertools.product(PLACES, repeat=models)))
        t = gaps.mean(axis=1) / gaps.std(axis=1, ddof=1) * np.sqrt(models)
        p = 2 * stats.t.sf(np.abs(t), models - 1)
        middle = len(gaps) // 2  # the combination of all middles
        rows[prompt] = {
            "models": models, "hidden": int((of_prompt["read"] == "hidden").sum()), "t": t[middle], "t_low": t.min(),
            "t_high": t.max(), "p": p[middle], "p_low": p.min(), "p_high": p.max(), "n_low": int((low > 0).sum()),
            "n_high": int((high > 0).sum()),
        }  # fmt: skip
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("prompt")


def slopes_with_paper(
    figure: str, published: str, ours: pd.DataFrame, study: Collection, control: str = ""
) -> pd.DataFrame:
    """Return the slopes of a figure of the paper, of the published scores and of these models, with the column source.

    `figure`: its table in data/paper, whose halfwidths become ci_low and ci_high. `published`: the name of our
    committed table on the published moral words. Its rows with this control are used, unless these are the models here.
    `ours`: columns `prompt, model, slope, ci_low, ci_high` and others. Only prompts of ours are shown.
    """
    paper = read_off(figure)
    ends = {"ci_low": paper["slope"] - paper["halfwidth"], "ci_high": paper["slope"] + paper["halfwidth"]}
    sources = {PAPER: paper.assign(**ends)}
    if study != WORDS and len(table := published_table(f"words/{published}")):
        sources[SCORES] = table[(table["control"] == control) & (table["model"] != "mean")] if control else table
    rows = pd.concat(sources | {HERE: ours}, names=["source"]).reset_index("source")
    order = {"source": [*sources, HERE], "prompt": list(ours["prompt"].unique())}
    rows = rows[rows["prompt"].isin(order["prompt"])]
    return rows.sort_values(
        ["source", "prompt", "model"], ignore_index=True,
        key=lambda column: column.map(order[column.name].index) if column.name in order else column,
    )  # fmt: skip


# --- cells of whole vocabularies ----------------------------------------------------------------------------------


def slope_cells(tables: Mapping[str, pd.DataFrame], printed: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the cells of Fig 3C: raw slopes on AFINN by sign. A slope agrees within its halfwidth of reading."""
    printed = read_off("fig3c_slopes") if printed is None else printed
    return _slope_cells(printed, {how: effects.slopes_by_sign(_words(tables, how)) for how in lexicons.HOW}, ["sign"])


def frequency_cells(tables: Mapping[str, pd.DataFrame], printed: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the cells of Fig 3D: raw slopes on the logarithm of BNC frequency with AFINN held constant."""
    printed = read_off("fig3d_slopes") if printed is None else printed
    fits = {how: _frequency_slopes(tables, how, "sentiment") for how in lexicons.HOW}
    return _slope_cells(printed, fits, [])


def text_cells(tables: Mapping[str, pd.DataFrame], printed: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the cells of the numbers in the text of section 3: t of the paired test, and counts of models.

    `printed`: as from claims.quantities.
    """
    printed = quantities() if printed is None else printed
    asked = printed[printed["quantity"].isin(["t", "n_steeper", "n_positive_significant"]) & (printed["printed"] != "")]
    asked = asked[asked["claim"].str.startswith(("S3.slope", "S3.freq"))].set_index(["claim", "quantity", "prompt"])
    computed = {}
    for how in lexicons.HOW:
        rows = {}
        for prompt, test in effects.compare(effects.gaps(effects.slopes_by_sign(_words(tables, how)))).iterrows():
            rows |= {(f"S3.slope.{prompt}", name, prompt): test[name] for name in ("t", "n_steeper")}
        for claim, control in COUNTED.items():
            counted = effects.count_positive(_frequency_slopes(tables, how, control))["n_positive_significant"]
            rows |= {(claim, counted.name, prompt): count for prompt, count in counted.items()}
        computed[how] = pd.Series(rows).to_frame("printed")
    return cells.compare_cells(asked[["printed"]], *(computed[how] for how in lexicons.HOW), decimals=1)


def combined_cells(tables: Mapping[str, pd.DataFrame], table: str, printed: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the cells of Table A8 or A9: the top and bottom 20 of the texts that all models share.

    As published, texts of several ids are left out. Corrected, texts are trimmed. `printed`: as cells.printed_lists.
    """
    printed = cells.printed_lists(table) if printed is None else printed
    combined = {name: both_and_either(own, "best", "worst") for name, own in tables.items()}
    shared = [scores.shared_vocabulary(combined, COMBINED[table], trim=trim) for trim in (False, True)]
    return cells.compare_lists(printed, *({name: own[name] for name in own} for own in shared))


def all_cells(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the cells of Fig 3C and Tables A8 and A9, by name."""
    return {"Fig 3C": slope_cells(tables)} | {f"Table {name}": combined_cells(tables, name) for name in COMBINED}


def _words(tables: Mapping[str, pd.DataFrame], how: str) -> pd.DataFrame:
    """Return the observations of AFINN's words under the paper's three prompts."""
    joined = {name: lexicons.join(table, lexicons.load("afinn"), how) for name, table in tables.items()}
    return effects.observations(joined, ASKED)


def _frequency_slopes(tables: Mapping[str, pd.DataFrame], how: str, control: str) -> pd.DataFrame:
    """Return raw slopes on the natural logarithm of BNC frequency per model and prompt."""
    held = lexicons.load("afinn") if control == "sentiment" else None
    joined = {name: lexicons.join(table, lexicons.load("bnc"), how, control=held) for name, table in tables.items()}
    rows = effects.observations(joined, ASKED, ["frequency"] + ["sentiment"] * (held is not None))
    return frequency.frequency_slopes(frequency.log_frequency(rows), control)


def _slope_cells(printed: pd.DataFrame, fits: Mapping[str, pd.DataFrame], keys: Sequence[str]) -> pd.DataFrame:
    """Return the cells of the slopes of a figure: a row per prompt (and sign), a column per model."""
    index = ["prompt", *keys]
    paper, *ours = (rows.pivot_table("slope", index, "model", sort=False) for rows in (printed, *fits.values()))
    compared = cells.compare_cells(paper, *ours, decimals=2)
    halfwidths = printed.pivot_table("halfwidth", index, "model", sort=False)
    within = cells.compare_cells(halfwidths, halfwidths)["paper"].astype(float)
    off = np.abs(compared["as_published"].astype(float) - compared["paper"].astype(float))
    return compared.assign(agrees=off <= within * (1 + 1e-9))
