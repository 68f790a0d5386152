"""Charts of section 3: slopes beside the paper's, and rewards for two prompts."""

import math
from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ..show import charts
from ..show.figures import (
    GREY,
    SIDES,
    Chart,
    label,
    model_label,
    new_chart,
    styled,
)
from .opposites import corners

COUNT_COLOURS = mpl.colors.LinearSegmentedColormap.from_list(
    "counts", ["#9ecae1", "#2171b5", "#08306b", "#000000"]
)
# hexagons with their count as colour
BY_COUNT = {"bins": "log", "mincnt": 1, "cmap": COUNT_COLOURS, "linewidths": 0}
COLUMNS = 5  # small panels side by side


@styled
def draw_sources(
    slopes: pd.DataFrame,
    *,
    title: str,
    units: Mapping[str, str],
) -> Chart:
    """Draw slopes, a row of panels per source with its own scale, a panel per prompt (Figs 3C and
    3D).

    `slopes`: columns `source, prompt, model, slope, ci_low, ci_high`. It may also have sign
    (`positive` or `negative` words) and read (`hidden` slopes are drawn open). `units`: source ->
    label of its axis.
    """
    prompts = list(slopes["prompt"].unique())
    counts = slopes.groupby("source")["model"].nunique()
    heights = [0.8 + 0.3 * counts.get(source, 0) for source in units]
    width = 4.3 * len(prompts)
    figure = new_chart(width, 1.2 + sum(heights), title)
    panels = figure.subplots(
        len(units),
        len(prompts),
        height_ratios=heights,
        squeeze=False,
        sharex="row",
        sharey="row",
    )
    for row, (source, unit) in zip(panels, units.items(), strict=True):
        of_source = slopes[slopes["source"] == source]
        models = list(of_source["model"].unique())
        for panel, prompt in zip(row, prompts, strict=True):
            shown = of_source[of_source["prompt"] == prompt]
            _draw_slopes(panel, shown, models)
            panel.set(title=f"{source}, {prompt}", xlabel=unit)
        charts.name_rows(row[0], models)
    if "sign" in slopes:
        for side, colour in SIDES.items():
            among = f"among {side} words"
            panels[0, 0].plot([], [], "o", color=colour, label=among)
        figure.legend(loc="outside lower center", ncols=2)
    return figure


def _draw_slopes(axes: Axes, rows: pd.DataFrame, models: list[str]) -> None:
    """Draw the slopes of one panel with their intervals, a row per model."""
    marks = rows.reindex(columns=["sign", "read"]).fillna("")
    rows = rows.assign(**marks)
    offsets = {"positive": -0.15, "negative": 0.15}
    for (sign, read), shown in rows.groupby(["sign", "read"]):
        places = shown["model"].map(models.index)
        colour = SIDES.get(sign, "black")
        face = "white" if read == "hidden" else colour
        charts.intervals(
            axes,
            shown["slope"],
            shown["ci_low"],
            shown["ci_high"],
            places + offsets.get(sign, 0),
            color=colour,
            markerfacecolor=face,
            markersize=5,
        )
    axes.axvline(0, color=GREY, linewidth=0.8)


@styled
def draw_density(
    table: pd.DataFrame,
    x: str,
    y: str,
    *,
    title: str,
    named: int = 6,
    blur: bool = True,
) -> Chart:
    """Draw one model's rewards for prompt y over rewards for prompt x; darker = more texts (Fig 4).

    `table`: a score table with one row per distinct input. `named`: how many texts of each corner
    are named.
    """
    figure = new_chart(9, 9.2, title)
    axes = figure.subplots()
    counts = axes.hexbin(table[x], table[y], gridsize=70, **BY_COUNT)
    bar = figure.colorbar(counts, ax=axes, label="texts", shrink=0.6)
    _label_counts(bar.ax.yaxis)
    cloud = _leave_room(axes)
    axes.set(xlabel=f"reward, {x}", ylabel=f"reward, {y}")
    headings = {
        "both": "rewarded for both",
        "neither": "for neither",
        "good only": f"for {x} only",
        "bad only": f"for {y} only",
    }
    most_extreme = corners(table, x, y, named)
    for corner, rows in most_extreme.groupby("corner", sort=False):
        points = rows[[x, y]].to_numpy(dtype=float)
        axes.plot(*points.T, "o", markersize=8, mfc="none", mec="black")
        texts = [text.strip() for text in rows["text"]]
        names = [label(text, 16, blur=blur) for text in texts]
        _name_corner(axes, corner, f"{headings[corner]}:", names, points, cloud)
    return figure


def _leave_room(axes: Axes) -> mpl.transforms.Bbox:
    """Leave room for names beside the cloud of points; return the limits of the cloud."""
    cloud = axes.viewLim.frozen()
    across = 0.34 * cloud.width
    up = 0.12 * cloud.height
    axes.set_xlim(cloud.x0 - across, cloud.x1 + across)
    axes.set_ylim(cloud.y0 - up, cloud.y1 + up)
    return cloud


def _label_counts(axis: mpl.axis.YAxis) -> None:
    """Label the colours of counts with whole numbers."""
    axis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    axis.set_minor_formatter(mpl.ticker.NullFormatter())


def _name_corner(
    axes: Axes,
    corner: str,
    heading: str,
    names: list[str],
    points: np.ndarray,
    cloud: mpl.transforms.Bbox,
) -> None:
    """Write the names of a corner's points beside the cloud, and a heading above or below them."""
    is_right = corner in ("both", "good only")
    is_top = corner in ("both", "bad only")
    middle = (cloud.y0 + cloud.y1) / 2
    up = 0.06 * cloud.height
    if is_top:
        within = (middle, cloud.y1)
        height = cloud.y1 + up
    else:
        within = (cloud.y0, middle)
        height = cloud.y0 - up
    charts.name_in_column(
        axes,
        names,
        points,
        cloud.x1 if is_right else cloud.x0,
        gap=0.05 * cloud.height,
        within=within,
    )
    axes.text(
        0.99 if is_right else 0.01,
        height,
        heading,
        fontsize=12,
        ha="right" if is_right else "left",
        va="center",
        transform=axes.get_yaxis_transform(),
    )


@styled
def draw_scatters(
    tables: Mapping[str, pd.DataFrame],
    x: str,
    y: str,
    *,
    title: str,
    notes: Mapping[str, str],
) -> Chart:
    """Draw rewards for prompt y over rewards for prompt x, a small panel per model (Figs 4 and A2).

    `tables`: model -> score table with one row per distinct input; darker = more texts. `notes`:
    model -> what stands below its name.
    """
    columns = min(len(tables), COLUMNS)
    rows = math.ceil(len(tables) / COLUMNS)
    figure = new_chart(3.0 * columns, 1.2 + 3.0 * rows, title)
    panels = figure.panels(len(tables), columns)
    for axes, (name, table) in zip(panels, tables.items(), strict=True):
        axes.hexbin(table[x], table[y], gridsize=40, **BY_COUNT)
        axes.set_title(f"{model_label(name)}\n{notes[name]}", fontsize=11)
        axes.tick_params(labelsize=9)
    figure.supxlabel(f"reward, {x} (each model's own scale)", fontsize=12)
    figure.supylabel(f"reward, {y}", fontsize=12)
    return figure
