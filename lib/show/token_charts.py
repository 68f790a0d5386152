"""Tokens of several models side by side, as a chart."""

import textwrap

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from .display import legend_of
from .figures import GREY, Chart, label, model_colours, model_label, new_chart, styled

MODELS_PER_ROW = 5  # others go into further panels below


@styled
def draw_token_grid(
    frame: pd.DataFrame,
    *,
    title: str,
    blur: bool = True,
    places: pd.DataFrame | None = None,
    left_out: str = "",
) -> Chart:
    """Draw tokens of several models side by side: a column per model, as from
    rankings.side_by_side.

    places: the place of each token in its model's ranking, where these are not the rows' own
    positions. left_out: which tokens are left out, for the line on what marks mean.
    """
    shown = frame.map(lambda token: label(token, 16, blur=blur))
    if places is not None:
        shown = places.astype(str) + "  " + shown
    starts = range(0, shown.shape[1], MODELS_PER_ROW)
    blocks = [shown.iloc[:, start : start + MODELS_PER_ROW] for start in starts]
    columns = blocks[0].shape[1]
    rows = (len(frame) + 3) * len(blocks)
    figure = new_chart(1.6 + _cell_width(shown) * columns, 1.4 + 0.29 * rows, title)
    panels = figure.panels(len(blocks), columns=1)
    for axes, block in zip(panels, blocks, strict=True):
        axes.set_xlim(0, columns)
        _draw_block(axes, block, has_positions=places is None)
    marks = legend_of("".join(shown.to_numpy().ravel()))
    below = "; ".join(filter(None, [marks, left_out]))
    characters = int(8 * figure.get_figwidth())
    figure.supxlabel(textwrap.fill(below, characters), fontsize=12)
    return figure


def _cell_width(shown: pd.DataFrame) -> float:
    """Return the width in inches that the widest token or model's name takes."""
    ruler = new_chart(1, 1)
    texts = [
        ruler.text(0, 0, text, fontsize=12) for text in np.unique(shown.to_numpy())
    ]
    texts += [
        ruler.text(0, 0, model_label(name), fontsize=12, weight="bold")
        for name in shown
    ]
    widest = max(text.get_window_extent().width for text in texts)
    return widest / ruler.dpi + 0.25


def _draw_block(axes: Axes, block: pd.DataFrame, has_positions: bool) -> None:
    """Draw the tokens of the models of one row of panels, with an end and a position per line."""
    axes.set_ylim(len(block) - 0.5, -0.5)
    axes.tick_params(length=0, labelsize=12, labeltop=True, labelbottom=False, pad=8)
    ends = block.index.get_level_values(0)
    firsts = np.flatnonzero(~ends.duplicated())
    names = []
    for row, (end, position) in enumerate(block.index):
        names.append(
            f"{end if row in firsts else ''} {position if has_positions else ''}"
        )
    axes.set_yticks(range(len(block)), names)
    starts = np.arange(block.shape[1])
    axes.set_xticks(starts, map(model_label, block), ha="left", weight="bold")
    colours = model_colours(block).values()
    axes.hlines(
        np.full(len(starts), -0.5),
        starts,
        starts + 0.8,
        color=colours,
        linewidth=4,
    )
    right = axes.get_xlim()[1]
    axes.hlines(firsts[1:] - 0.5, 0, right, color=GREY, linewidth=1)
    for (row, column), text in np.ndenumerate(block.to_numpy()):
        axes.text(column, row, text, va="center", fontsize=12)
    axes.spines[:].set_visible(False)
