"""Tokens of several models side by side, as a chart."""

import textwrap

import numpy as np
import pandas as pd

from .display import legend_of
from .figures import GREY, Chart, label, model_colours, model_label, new_chart, styled

MODELS_PER_ROW = 5  # others go into further panels below


@styled
def draw_token_grid(
    frame: pd.DataFrame, *, title: str, blur: bool = True, places: pd.DataFrame | None = None
) -> Chart:
    """Draw tokens of several models side by side: a column per model, as from
    rankings.side_by_side.

    places: the place of each token in its model's ranking, where these are not the rows' own
    positions.
    """
    shown = frame.map(lambda token: label(token, 16, blur=blur))
    if places is not None:
        shown = places.astype(str) + "  " + shown
    blocks = [list(shown)[i : i + MODELS_PER_ROW] for i in range(0, shown.shape[1], MODELS_PER_ROW)]
    columns, ruler = len(blocks[0]), new_chart(1, 1)
    texts = [ruler.text(0, 0, text, fontsize=12) for text in np.unique(shown.to_numpy())]
    texts += [ruler.text(0, 0, model_label(name), fontsize=12, weight="bold") for name in shown]
    cell = max(text.get_window_extent().width for text in texts) / ruler.dpi + 0.25  # inches
    figure = new_chart(1.6 + cell * columns, 1.4 + 0.29 * (len(frame) + 3) * len(blocks), title)
    firsts = np.flatnonzero(~shown.index.get_level_values(0).duplicated())
    for axes, block in zip(figure.subplots(len(blocks), squeeze=False)[:, 0], blocks, strict=True):
        axes.set(xlim=(0, columns), ylim=(len(frame) - 0.5, -0.5))
        axes.tick_params(length=0, labelsize=12, labeltop=True, labelbottom=False, pad=8)
        names = []
        for row, (end, position) in enumerate(shown.index):
            position = position if places is None else ""
            names.append(f"{end if row in firsts else ''} {position}")
        axes.set_yticks(range(len(frame)), names)
        starts = np.arange(len(block))
        axes.set_xticks(starts, map(model_label, block), ha="left", weight="bold")
        axes.hlines(
            [-0.5] * len(block),
            starts,
            starts + 0.8,
            color=model_colours(block).values(),
            linewidth=4,
        )
        axes.hlines(firsts[1:] - 0.5, 0, columns, color=GREY, linewidth=1)
        for (row, column), text in np.ndenumerate(shown[block].to_numpy()):
            axes.text(column, row, text, va="center", fontsize=12)
        axes.spines[:].set_visible(False)
    legend = legend_of("".join(shown.to_numpy().ravel()))
    figure.supxlabel(textwrap.fill(legend, int(8 * figure.get_figwidth())), fontsize=12)
    return figure
