"""Tokens of several models side by side, as a chart."""

import pandas as pd
from matplotlib.axes import Axes

from .display import legend_of
from .figures import Chart, label, model_colours, model_label, new_chart, styled

MODELS_PER_ROW = 5  # others go into further panels below


@styled
def draw_token_grid(frame: pd.DataFrame, *, title: str, blur: bool = True) -> Chart:
    """Draw tokens of several models side by side: a column per model, as from
    rankings.side_by_side.
    """
    shown = frame.map(lambda token: label(token, 16, blur=blur))
    places = [f"{end} {position}" for end, position in shown.index]
    starts = range(0, shown.shape[1], MODELS_PER_ROW)
    blocks = [shown.iloc[:, start : start + MODELS_PER_ROW] for start in starts]
    columns = blocks[0].shape[1]
    lines = (len(frame) + 2) * len(blocks)
    figure = new_chart(1.6 + 2.6 * columns, 1.4 + 0.29 * lines, title)
    panels = figure.panels(len(blocks), columns=1)
    for axes, block in zip(panels, blocks, strict=True):
        axes.set(xticks=[], yticks=range(len(block)), ylim=(len(block) - 0.5, -1.5))
        axes.set_yticklabels(places)
        axes.set_xlim(0, columns)
        axes.tick_params(length=0, labelsize=12, pad=8)
        axes.spines[:].set_visible(False)
        _write_tokens(axes, block)
    below = legend_of("".join(shown.to_numpy().ravel()))
    figure.supxlabel(below, fontsize=12, wrap=True)
    return figure


def _write_tokens(axes: Axes, block: pd.DataFrame) -> None:
    """Write a column per model: its name in its colour, and its tokens below."""
    colours = model_colours(block)
    for column, (name, texts) in enumerate(block.items()):
        head = {"color": colours[name], "weight": "bold"}
        axes.text(column, -1, model_label(name), va="center", fontsize=12, **head)
        for line, text in enumerate(texts):
            axes.text(column, line, text, va="center", fontsize=12)
