"""The paper's figures and tables of section 3, and the same numbers computed by its own recipe.

The `..._cells` functions work on whole vocabularies. Each returns cells (see lib.claims.cells): the
printed number, the number by the authors' recipe and the corrected number. The recipe joins words
to tokens as the authors do and takes raw rewards. The correction keeps one row per word. Some marks
of Fig 3C are hidden behind others. So each slope in data/paper/fig3c_slopes.csv has a halfwidth of
reading.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ..claims import cells
from ..claims.claims import paper_table
from ..tables import lexicons, scores
from . import effects, frequency
from .opposites import both_and_either

ASKED = ("greatest", "best", "worst")
COMBINED = {"A8": "both", "A9": "either"}  # see opposites.both_and_either
PAPER, HERE = "paper", "these models"  # the names of sources in tables and charts


def slopes_with_paper(figure: str, ours: pd.DataFrame) -> pd.DataFrame:
    """Return the slopes of a figure of the paper and of these models, with the column source, for
    draw_sources.

    `figure`: its table in data/paper, whose halfwidths become ci_low and ci_high. `ours`: columns
    `prompt, model, slope, ci_low, ci_high` and others. Only prompts of ours are shown, in their
    order; models are in the paper's order.
    """
    paper = paper_table(figure)
    paper = paper.assign(
        source=PAPER,
        ci_low=paper["slope"] - paper["halfwidth"],
        ci_high=paper["slope"] + paper["halfwidth"],
    )
    ours = ours.assign(source=HERE)
    rows = pd.concat([paper, ours])
    place_of_model = pd.Index(rows["model"].unique()).get_indexer
    rows = rows.sort_values("model", key=place_of_model, kind="stable")
    prompts = ours["prompt"].unique().tolist()
    return rows.set_index("prompt").loc[prompts].reset_index()


# --- cells of whole vocabularies ------------------------------------------------------------------


def slope_cells(
    tables: Mapping[str, pd.DataFrame],
    printed: pd.DataFrame,
) -> pd.DataFrame:
    """Return the cells of Fig 3C: raw slopes on AFINN by sign. A slope agrees within its
    halfwidth of reading.
    """
    lexicon = lexicons.load("afinn")
    fits = {}
    for how in lexicons.HOW:
        rows = effects.observations(_join(tables, lexicon, how), ASKED)
        fits[how] = effects.slopes_by_sign(rows)
    return _slope_cells(printed, fits, ["prompt", "sign"])


def _join(tables: Mapping[str, pd.DataFrame], *lexicon, **control):
    """Return the score tables joined to a lexicon, by model; the other arguments as lexicons.join
    takes them.
    """
    return {
        name: lexicons.join(table, *lexicon, **control)
        for name, table in tables.items()
    }


def frequency_cells(
    tables: Mapping[str, pd.DataFrame],
    printed: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return the cells of Fig 3D: raw slopes on the logarithm of BNC frequency with AFINN held
    constant.
    """
    printed = paper_table("fig3d_slopes") if printed is None else printed
    known = lexicons.load("bnc")
    held = lexicons.load("afinn")
    fits = {}
    for how in lexicons.HOW:
        joined = _join(tables, known, how, control=held)
        rows = effects.observations(joined, ASKED, ["frequency", "sentiment"])
        rows = frequency.log_frequency(rows)
        fits[how] = frequency.frequency_slopes(rows, "sentiment")
    return _slope_cells(printed, fits, ["prompt"])


def combined_cells(
    tables: Mapping[str, pd.DataFrame],
    table: str,
    printed: pd.DataFrame,
) -> pd.DataFrame:
    """Return the cells of Table A8 or A9: the top and bottom 20 of the texts that all models share.

    As published, texts of several ids are left out. Corrected, texts are trimmed. `printed`: as
    cells.printed_lists.
    """
    combined = {}
    for name, own in tables.items():
        combined[name] = both_and_either(own, "best", "worst")
    shared = []
    for trim in (False, True):
        rewards = scores.shared_vocabulary(combined, COMBINED[table], trim=trim)
        shared.append(dict(rewards.items()))
    return cells.compare_lists(printed, *shared)


def all_cells(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the cells of Fig 3C and Tables A8 and A9, by name."""
    compared = {"Fig 3C": slope_cells(tables, paper_table("fig3c_slopes"))}
    for name in COMBINED:
        printed = cells.printed_lists(name)
        compared[f"Table {name}"] = combined_cells(tables, name, printed)
    return compared


def _slope_cells(
    printed: pd.DataFrame,
    fits: Mapping[str, pd.DataFrame],
    index: Sequence[str],
) -> pd.DataFrame:
    """Return the cells of the slopes of a figure: a row per prompt (and sign), a column per
    model.
    """
    grids = []
    for rows in (printed, *fits.values()):
        grid = rows.pivot_table("slope", index, "model", sort=False)
        grids.append(grid)
    compared = cells.compare_cells(*grids)
    halfwidths = printed.pivot_table("halfwidth", index, "model", sort=False)
    within = cells.compare_cells(halfwidths, halfwidths)
    within = within["paper"].astype(float) * (1 + 1e-9)
    paper = compared["paper"].astype(float)
    ours = compared["as_published"].astype(float)
    return compared.assign(agrees=np.abs(ours - paper) <= within)
