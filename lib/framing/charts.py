"""Charts of section 3: slopes beside the paper's, and rewards for two prompts."""

import math
from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes

from ..show import charts
from ..show.charts import Mark
from ..show.figures import (
    DENSE_TITLE,
    GREY,
    SIDES,
    Chart,
    label,
    model_label,
    new_chart,
    styled,
)
from .effects import SIGNS
from .opposites import corners

COUNT_COLOURS = mpl.colors.LinearSegmentedColormap.from_list(
    "counts", ["#9ecae1", "#2171b5", "#08306b", "#000000"]
)
COLUMNS = 5  # small panels side by side


@styled
def draw_sources(
    slopes: pd.DataFrame, *, title: str, units: Mapping[str, str]
) -> Chart:
    """Draw slopes, a row of panels per source with its own scale, a panel per prompt (Figs 3C and
    3D).

    `slopes`: columns `source, prompt, model, slope, ci_low, ci_high`. It may also have sign
    (`positive` or `negative` words) and read (`hidden` slopes are drawn open). `units`: source ->
    label of its axis.
    """
    prompts = list(slopes["prompt"].unique())
    models = slopes.groupby("source")["model"].nunique()
    heights = [0.8 + 0.3 * models.get(source, 0) for source in units]
    figure = new_chart(4.3 * len(prompts), 1.2 + sum(heights), title, DENSE_TITLE)
    share = {"squeeze": False, "sharex": "row", "sharey": "row"}
    panels = figure.subplots(len(units), len(prompts), height_ratios=heights, **share)
    for row, (source, unit) in zip(panels, units.items(), strict=True):
        of_source = slopes[slopes["source"] == source]
        models = list(of_source["model"].unique())
        for panel, prompt in zip(row, prompts, strict=True):
            _draw_slopes(panel, of_source[of_source["prompt"] == prompt], models)
            panel.set(title=f"{source}, {prompt}", xlabel=unit)
        charts.name_rows(row[0], models)
    if "sign" in slopes:
        for side, colour in SIDES.items():
            panels[0, 0].plot([], [], "o", color=colour, label=f"among {side} words")
        figure.legend(loc="outside lower center", ncols=2)
    return figure


def _draw_slopes(axes: Axes, rows: pd.DataFrame, models: list[str]) -> None:
    """Draw the slopes of one panel with their intervals, a row per model."""
    known = rows.reindex(columns=["sign", "read"]).fillna("")
    offsets = {"positive": -0.15, "negative": 0.15}
    for (sign, read), shown in rows.assign(**known).groupby(["sign", "read"]):
        heights = shown["model"].map(models.index) + offsets.get(sign, 0)
        mark = Mark(
            SIDES.get(sign, "black"), face="white" if read == "hidden" else "", size=5
        )
        charts.intervals(
            axes, shown["slope"], shown["ci_low"], shown["ci_high"], heights, mark
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
    figure = new_chart(9, 9.2, title, DENSE_TITLE)
    axes = figure.subplots()
    counts = axes.hexbin(
        table[x],
        table[y],
        gridsize=70,
        bins="log",
        mincnt=1,
        cmap=COUNT_COLOURS,
        linewidths=0,
    )
    _label_counts(figure.colorbar(counts, ax=axes, label="texts", shrink=0.6).ax.yaxis)
    cloud = axes.viewLim.frozen()
    # room for names beside the cloud of points
    across, up = 0.34 * cloud.width, 0.12 * cloud.height
    axes.set(
        xlim=(cloud.x0 - across, cloud.x1 + across), ylim=(cloud.y0 - up, cloud.y1 + up)
    )
    axes.set(xlabel=f"reward, {x}", ylabel=f"reward, {y}")
    texts = {
        "both": "rewarded for both",
        "neither": "for neither",
        "good only": f"for {x} only",
        "bad only": f"for {y} only",
    }
    for corner, rows in corners(table, x, y, named).groupby("corner", sort=False):
        points = rows[[x, y]].to_numpy(dtype=float)
        axes.plot(
            *points.T,
            "o",
            markersize=8,
            markerfacecolor="none",
            markeredgecolor="black",
        )
        names = [label(text.strip(), 16, blur=blur) for text in rows["text"]]
        is_right, is_top = (
            corner in ("both", "good only"),
            corner in ("both", "bad only"),
        )
        _name_corner(axes, f"{texts[corner]}:", names, points, cloud, is_right, is_top)
    return figure


def _label_counts(axis: mpl.axis.YAxis) -> None:
    """Label the colours of counts with whole numbers."""
    axis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    axis.set_minor_formatter(mpl.ticker.NullFormatter())


def _name_corner(
    axes: Axes,
    heading: str,
    names: list[str],
    points: np.ndarray,
    cloud: mpl.transforms.Bbox,
    is_right: bool,
    is_top: bool,
) -> None:
    """Write the names of a corner's points beside the cloud, and a heading above or below them."""
    middle = (cloud.y0 + cloud.y1) / 2
    within = (middle, cloud.y1) if is_top else (cloud.y0, middle)
    side = cloud.x1 if is_right else cloud.x0
    charts.name_in_column(
        axes, names, points, side, gap=0.05 * cloud.height, within=within
    )
    up = 0.06 * cloud.height
    axes.text(
        0.99 if is_right else 0.01,
        cloud.y1 + up if is_top else cloud.y0 - up,
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
    rows, columns = math.ceil(len(tables) / COLUMNS), min(len(tables), COLUMNS)
    figure = new_chart(3.0 * columns, 1.2 + 3.0 * rows, title, DENSE_TITLE)
    panels = figure.panels(len(tables), columns)
    for axes, (name, table) in zip(panels, tables.items(), strict=True):
        look = {
            "gridsize": 40,
            "bins": "log",
            "mincnt": 1,
            "cmap": COUNT_COLOURS,
            "linewidths": 0,
        }
        axes.hexbin(table[x], table[y], **look)
        axes.set_title(f"{model_label(name)}\n{notes[name]}", fontsize=11)
        axes.tick_params(labelsize=9)
    figure.supxlabel(f"reward, {x} (each model's own scale)", fontsize=12)
    figure.supylabel(f"reward, {y}", fontsize=12)
    return figure


@styled
def draw_sentiment(
    rows: pd.DataFrame, *, title: str, notes: Mapping[str, str]
) -> Chart:
    """Draw one model's rewards over the sentiment of words, a panel per prompt (Figs 3A and 3B).

    `rows`: observations of one model (lib.framing.effects). A line with its 95% band is fitted
    among the positive and among the negative words. `notes`: prompt -> what stands above its panel.
    """
    prompts = list(rows["prompt"].unique())
    figure, panels = charts.row_of_panels(prompts, height=5, title=title, width=6)
    for axes, (prompt, own) in zip(
        panels, rows.groupby("prompt", sort=False), strict=True
    ):
        for sign, words in own.groupby(np.sign(own["sentiment"]).map(SIGNS)):
            dots = {"s": 16, "alpha": 0.35, "linewidths": 0}
            seaborn.regplot(
                words,
                x="sentiment",
                y="reward",
                color=SIDES[sign],
                scatter_kws=dots,
                label=f"{sign} words",
                seed=0,
                n_boot=300,
                ax=axes,
            )
        axes.set_title(f"prompt: {prompt}\n{notes[prompt]}", fontsize=12)
        axes.set(xlabel="sentiment of the word", ylabel="reward, the model's own scale")
    panels[0].legend(frameon=False)
    return figure
