"""The kinds of charts that several sections draw: forest plots and heat maps, and names beside
points.

A whole chart (`draw_...`) is a figure with a title. The other functions draw into axes, so that a
section can arrange its panels.
"""

import itertools
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.patheffects import withStroke
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from .figures import DENSE_TITLE, GREY, SIDES, Chart, model_label, new_chart, styled


def row_of_panels(
    names: Sequence[str],
    *,
    height: float,
    title: str,
    width: float = 4.3,
    margin: float = 0.0,
    **share,
) -> tuple[Chart, np.ndarray]:
    """Return a chart with a panel per name side by side, each of this width in inches, and the
    panels' axes.

    margin: inches for labels at the left; share: options of `Figure.subplots`, such as sharex=True
    """
    figure = new_chart(margin + width * len(names), height, title, DENSE_TITLE)
    grid = figure.subplots(1, len(names), squeeze=False, **share)
    panels = grid[0]
    for axes, name in zip(panels, names, strict=True):
        axes.set_title(name)
    return figure, panels


def plain_log_ticks(axis: Axis) -> None:
    """Write the ticks of a logarithmic axis as plain numbers: powers of 2 over two decades at
    most, otherwise powers of 10.
    """
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(base=2 if high / low < 100 else 10))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


# --- forest plots ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mark:
    """How an estimate is drawn."""

    colour: str = "black"  # of its interval and its marker's edge
    shape: str = "o"
    face: str = ""  # of the marker; '' is as the colour
    size: float = 6
    width: float = 2  # of the interval


SIGNS = {sign: Mark(colour) for sign, colour in SIDES.items()}
# Marks of values that are no sign: told apart by shape and lightness, since hue is kept for signs
# and model families.
MARKS = (Mark(), Mark(GREY, "s"), Mark(face="white", shape="D"))


def intervals(
    axes: Axes,
    estimate,
    ci_low,
    ci_high,
    heights,
    mark: Mark = MARKS[0],
    name: str = "",
) -> None:
    """Draw estimates as points over horizontal lines from ci_low to ci_high. `name`: their entry
    in the legend.
    """
    axes.hlines(heights, ci_low, ci_high, color=mark.colour, linewidth=mark.width)
    axes.plot(
        estimate,
        heights,
        mark.shape,
        color=mark.colour,
        markerfacecolor=mark.face or mark.colour,
        markersize=mark.size,
        label=name or None,
    )


def name_rows(axes: Axes, names: Sequence[str], are_models: bool = True) -> None:
    """Write a name beside each row of a forest plot; the first row is on top, at height 0."""
    axes.set_yticks(
        range(len(names)), [model_label(name) if are_models else name for name in names]
    )
    axes.set_ylim(len(names) - 0.5, -0.5)


@dataclass(frozen=True)
class Forest:
    """Name the columns of a table that make a forest plot, in addition to ci_low and ci_high."""

    rows: str = "model"  # a row of the plot for each value
    panels: str = "prompt"  # a panel for each value
    marks: str = ""  # a mark for each value, where a row has several estimates
    # value of `marks` -> Mark; MARKS in turn for others
    styles: Mapping[str, Mark] | None = None
    estimate: str = "estimate"
    null: float = 0.0  # the value that means no effect, drawn as a line
    heading: str = "prompt: {}"
    width: float = 4.3  # of a panel, in inches
    # how far marks of a row lie from its middle; None chooses it by their number
    reach: float | None = None


@styled
def draw_forest(
    table: pd.DataFrame,
    forest: Forest,
    *,
    title: str,
    xlabel: str,
) -> Chart:
    """Return a forest plot: estimates of one unit with their 95% intervals, in the order of the
    table.
    """
    rows, panels = (
        list(table[column].unique()) for column in (forest.rows, forest.panels)
    )
    marks = _marks_of(table, forest)
    per_row = max(0.42, 0.09 * len(marks))
    height = 2.0 + per_row * len(rows)
    names = [forest.heading.format(name) for name in panels]
    figure, axes_of = row_of_panels(
        names,
        title=title,
        height=height,
        width=forest.width,
        sharex=True,
        sharey=True,
    )
    for axes, panel in zip(axes_of, panels, strict=True):
        of_panel = table[table[forest.panels] == panel]
        _draw_estimates(axes, of_panel, rows, marks, forest)
        axes.axvline(forest.null, color=GREY, linewidth=0.8)
        axes.set_xlabel(
            textwrap.fill(xlabel, int(8 * forest.width), break_on_hyphens=False)
        )
    name_rows(axes_of[0], rows, forest.rows == "model")
    if forest.marks:
        # long names need the width of the figure
        columns = 4 if sum(map(len, marks)) < 80 else 2
        keys = axes_of[0].get_legend_handles_labels()
        figure.legend(*keys, loc="outside lower center", ncols=columns)
    return figure


def _draw_estimates(
    axes: Axes,
    table: pd.DataFrame,
    rows: Sequence[str],
    marks: Mapping[str, tuple[Mark, float]],
    forest: Forest,
) -> None:
    """Draw the estimates of one panel, mark by mark."""
    for value, (mark, offset) in marks.items():
        shown = table[table[forest.marks] == value] if forest.marks else table
        heights = shown[forest.rows].map(rows.index) + offset
        columns = (forest.estimate, "ci_low", "ci_high")
        estimates = (shown[name] for name in columns)
        intervals(axes, *estimates, heights, mark, value)


def _marks_of(table: pd.DataFrame, forest: Forest) -> dict[str, tuple[Mark, float]]:
    """Return each value of `marks` with its mark, and with how far it lies from a row's middle."""
    if not forest.marks:
        return {"": (MARKS[0], 0.0)}
    values = list(table[forest.marks].unique())
    marks = (
        dict(zip(values, itertools.cycle(MARKS))) | SIGNS | dict(forest.styles or {})
    )
    # more marks in a row take more of its height
    reach = forest.reach or (0.2 if len(values) <= 3 else 0.34)
    offsets = [0.0]
    if len(values) > 1:
        offsets = np.linspace(-reach, reach, len(values))
    return {
        value: (marks[value], at) for value, at in zip(values, offsets, strict=True)
    }


# --- heat maps ------------------------------------------------------------------------------------


def heat_map(
    axes: Axes,
    matrix: pd.DataFrame,
    *,
    limits: tuple[float, float] | None = None,
    numbers: str = ".2f",
    are_models: bool = True,
) -> None:
    """Draw a matrix as cells with their numbers in them; NaN leaves a cell empty. `numbers`: their
    format.

    `limits`: the lowest and the highest number of the colours. None takes the range of the matrix,
    with room above, so that the highest cell is not black.
    """
    low, high = limits or (float(np.nanmin(matrix)), float(np.nanmax(matrix)))
    room = 0.0 if limits else 0.25 * (high - low) or 1.0
    rows, columns = (
        [model_label(name) if are_models else name for name in names]
        for names in matrix.axes
    )
    seaborn.heatmap(
        matrix,
        ax=axes,
        annot=bool(numbers),
        fmt=numbers,
        annot_kws={"fontsize": 11},
        cmap="Greys",
        vmin=low,
        vmax=high + room,
        linewidths=0.5,
        cbar=False,
        yticklabels=rows,
        xticklabels=columns,
    )
    axes.set(xlabel="", ylabel="")
    axes.tick_params(axis="x", rotation=90 if are_models else 0, labelsize=12)
    axes.tick_params(axis="y", rotation=0, labelsize=12)


# --- names of points ------------------------------------------------------------------------------

# A thin white line around the letters of a name: it stays legible over dots and cuts off hardly any
# of them.
HALO = withStroke(linewidth=1.5, foreground="white")


def name_in_column(
    axes: Axes,
    names: Sequence[str],
    points: np.ndarray,
    x: float,
    *,
    gap: float,
    within: tuple[float, float],
    colour: str = GREY,
) -> None:
    """Write names in a column at x, in the order of their points' heights, with a line from each
    point to its name.

    Names are at least a gap apart and within the lowest and highest place, in units of y.
    """
    wanted = points[:, 1]
    heights = spread(wanted, gap, *within)
    down = max(heights.min() - within[0], 0)
    up = max(within[1] - heights.max(), 0)
    # together centred on the heights wanted
    distance = (wanted - heights).mean()
    heights += np.clip(distance, -down, up)
    is_right = x > points[:, 0].mean()
    # From the side of the name that faces the points: a line from its middle would cross the names
    # above or below.
    leader = {
        "arrowstyle": "-",
        "color": colour,
        "linewidth": 1,
        "relpos": (0 if is_right else 1, 0.5),
        "shrinkB": 0,
    }
    for name, point, height in zip(names, points, heights, strict=True):
        axes.annotate(
            name,
            point,
            (x, height),
            ha="left" if is_right else "right",
            va="center",
            fontsize=12,
            zorder=4,
            arrowprops=leader,
            path_effects=[HALO],
            annotation_clip=False,
        )


def spread(wanted: np.ndarray, gap: float, low: float, high: float) -> np.ndarray:
    """Return positions near the wanted ones, in their order and at least `gap` apart, in [low,
    high] if they fit.
    """
    order = np.argsort(wanted, kind="stable")
    placed = np.array(wanted, dtype=float)[order]
    for i in range(1, len(placed)):
        least = placed[i - 1] + gap
        placed[i] = max(placed[i], least)
    placed[-1] = min(placed[-1], high)
    for i in range(len(placed) - 2, -1, -1):
        most = placed[i + 1] - gap
        placed[i] = min(placed[i], most)
    placed += max(0.0, low - placed[0])
    positions = np.empty(len(placed))
    positions[order] = placed
    return positions
