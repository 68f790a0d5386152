"""The kinds of charts that several sections draw: forest plots and heat maps, and names beside
points.

A whole chart (`draw_...`) is a figure with a title. The other functions draw into axes, so that a
section can arrange its panels.
"""

import itertools
import textwrap
from collections.abc import Sequence

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes

from .figures import GREY, Chart, model_label, new_chart, styled


def row_of_panels(
    names: Sequence[str],
    *,
    height: float,
    title: str,
    width: float = 4.3,
    **share,
) -> tuple[Chart, np.ndarray]:
    """Return a chart with a panel per name side by side, each of this width in inches, and the
    panels' axes.

    share: options of `Figure.subplots`, such as sharex=True
    """
    figure = new_chart(width * len(names), height, title)
    grid = figure.subplots(1, len(names), squeeze=False, **share)
    panels = grid[0]
    for axes, name in zip(panels, names, strict=True):
        axes.set_title(name)
    return figure, panels


# --- forest plots ---------------------------------------------------------------------------------

# Several estimates of a row are told apart by shape and lightness, since hue is kept for signs and
# model families.
LOOKS = (
    {},
    {"color": GREY, "marker": "s"},
    {"marker": "D", "markerfacecolor": "white"},
)


def intervals(axes: Axes, estimate, ci_low, ci_high, heights, **look) -> None:
    """Draw estimates as points over horizontal lines from ci_low to ci_high.

    look: options of `Axes.plot`, such as color, marker, and label for the legend
    """
    look = {"color": "black", "marker": "o"} | look
    axes.hlines(heights, ci_low, ci_high, color=look["color"], linewidth=2)
    axes.plot(estimate, heights, linestyle="", **look)


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Write a name beside each row of a forest plot; the first row is on top, at height 0."""
    axes.set_yticks(range(len(names)), map(model_label, names))
    axes.set_ylim(len(names) - 0.5, -0.5)


@styled
def draw_forest(
    table: pd.DataFrame,
    estimate: str,
    *,
    title: str,
    xlabel: str,
    rows: str = "model",
    marks: str | None = None,
    width: float = 4.3,
) -> Chart:
    """Return a forest plot of a column of estimates of one unit, with ci_low and ci_high: a panel
    for each `prompt`, in the order of the table.

    rows: the column with a row of the plot for each value. marks: the column with a mark for each
    value, where a row has several estimates. width: of a panel, in inches.
    """
    names = list(table[rows].unique())
    prompts = list(table["prompt"].unique())
    figure, panels = row_of_panels(
        [f"prompt: {prompt}" for prompt in prompts],
        title=title,
        height=2.0 + 0.42 * len(names),
        width=width,
        sharex=True,
        sharey=True,
    )
    values = list(table[marks].unique()) if marks else [None]
    for axes, prompt in zip(panels, prompts, strict=True):
        of_prompt = table[table["prompt"] == prompt]
        for i, (value, look) in enumerate(
            zip(values, itertools.cycle(LOOKS), strict=False)
        ):
            shown = of_prompt[of_prompt[marks] == value] if marks else of_prompt
            # marks of a row lie around its middle
            heights = shown[rows].map(names.index) + 0.2 * (i - (len(values) - 1) / 2)
            columns = (shown[name] for name in (estimate, "ci_low", "ci_high"))
            intervals(axes, *columns, heights, label=value, **look)
        axes.axvline(0, color=GREY, linewidth=0.8)
        axes.set_xlabel(textwrap.fill(xlabel, int(8 * width), break_on_hyphens=False))
    name_rows(panels[0], names)
    if marks:
        keys = panels[0].get_legend_handles_labels()
        figure.legend(*keys, loc="outside lower center", ncols=2)
    return figure


# --- heat maps ------------------------------------------------------------------------------------


def heat_map(
    axes: Axes,
    matrix: pd.DataFrame,
    limits: tuple[float, float],
    *,
    numbers: str = ".2f",
    rotation: int = 90,
) -> None:
    """Draw a matrix as cells with their numbers in them; NaN leaves a cell empty.

    limits: the numbers that are white and black. numbers: their format. rotation: of the names of
    the columns, in degrees.
    """
    low, high = limits
    rows, columns = (list(map(model_label, names)) for names in matrix.axes)
    # seaborn draws the figure to see whether names overlap: without its axes, which takes no time
    for each in axes.figure.axes:
        each.set_visible(False)
    seaborn.heatmap(
        matrix,
        ax=axes,
        annot=True,
        fmt=numbers,
        annot_kws={"fontsize": 11},
        cmap="Greys",
        vmin=low,
        vmax=high,
        linewidths=0.5,
        cbar=False,
        yticklabels=rows,
        xticklabels=columns,
    )
    for each in axes.figure.axes:
        each.set_visible(True)
    axes.set(xlabel="", ylabel="")
    axes.tick_params(axis="x", rotation=rotation, labelsize=12)
    axes.tick_params(axis="y", rotation=0, labelsize=12)
