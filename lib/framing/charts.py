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
from ..show.figures import DENSE_TITLE, GREY, SIDES, Chart, label, model_label, new_chart, styled
from .effects import SIGNS
from .opposites import corners

COUNT_COLOURS = mpl.colors.LinearSegmentedColormap.from_list(
    "counts", ["#9ecae1", "#2171b5", "#08306b", "#000000"]
)
COLUMNS = 5  # small panels side by side


@styled
def draw_sources(slopes: pd.DataFrame, *, title: str, units: Mapping[str, str]) -> Chart:
    """Draw slopes, a row of panels per source with its own scale, a panel per prompt (Figs 3C and
    3D).

    `slopes`: columns `source, prompt, model, slope, ci_low, ci_high`. It may also have sign
    (`positive` or `negative` words) and read (`hidden` slopes are drawn open). `units`: source ->
    label of its axis.
    """
    prompts, sources = list(slopes["prompt"].unique()), list(units)
    heights = [
        0.8 + 0.3 * slopes.loc[slopes["source"] == source, "model"].nunique() for source in sources
    ]
    figure = new_chart(4.3 * len(prompts), 1.2 + sum(heights), title, DENSE_TITLE)
    panels = figure.subplots(
        len(sources), len(prompts), squeeze=False, sharex="row", sharey="row", height_ratios=heights
    )
    for row, (source, unit) in zip(panels, units.items(), strict=True):
        of_source = slopes[slopes["source"] == source]
        models = list(of_source["model"].unique())
        for panel, prompt in zip(row, prompts, strict=True):
            _draw_slopes(panel, of_source[of_source["prompt"] == prompt], models)
            panel.set(title=f"{source}, {prompt}", xlabel=unit)
        charts.name_rows(row[0], models)
    if "sign" in slopes:
        handles = [
            mpl.lines.Line2D(
                [], [], color=colour, marker="o", linestyle="", label=f"among {side} words"
            )
            for side, colour in SIDES.items()
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _draw_slopes(axes: Axes, rows: pd.DataFrame, models: list[str]) -> None:
    """Draw the slopes of one panel with their intervals, a row per model."""
    rows = rows.assign(
        **{name: rows[name].fillna("") if name in rows else "" for name in ("sign", "read")}
    )
    for (sign, read), shown in rows.groupby(["sign", "read"]):
        heights = shown["model"].map(models.index) + {"positive": -0.15, "negative": 0.15}.get(
            sign, 0
        )
        mark = Mark(SIDES.get(sign, "black"), face="white" if read == "hidden" else "", size=5)
        charts.intervals(axes, shown["slope"], shown["ci_low"], shown["ci_high"], heights, mark)
    axes.axvline(0, color=GREY, linewidth=0.8)


@styled
def draw_density(
    table: pd.DataFrame, x: str, y: str, *, title: str, named: int = 6, blur: bool = True
) -> Chart:
    """Draw one model's rewards for prompt y over rewards for prompt x; darker = more texts (Fig 4).

    `table`: a score table with one row per distinct input. `named`: how many texts of each corner
    are named.
    """
    figure = new_chart(9, 9.2, title, DENSE_TITLE)
    axes = figure.subplots()
    counts = axes.hexbin(
        table[x], table[y], gridsize=70, bins="log", mincnt=1, cmap=COUNT_COLOURS, linewidths=0
    )
    bar = figure.colorbar(counts, ax=axes, label="texts", shrink=0.6).ax.yaxis
    bar.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
    bar.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    bar.set_minor_formatter(mpl.ticker.NullFormatter())
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    # room for names beside the cloud of points
    across, up = 0.34 * (right - left), 0.12 * (top - bottom)
    axes.set(xlim=(left - across, right + across), ylim=(bottom - up, top + up))
    axes.set(xlabel=f"reward, {x}", ylabel=f"reward, {y}")
    texts = {
        "both": "rewarded for both",
        "neither": "for neither",
        "good only": f"for {x} only",
        "bad only": f"for {y} only",
    }
    for corner, rows in corners(table, x, y, named).groupby("corner", sort=False):
        is_right, is_top = corner in ("both", "good only"), corner in ("both", "bad only")
        axes.plot(
            rows[x], rows[y], "o", markersize=8, markerfacecolor="none", markeredgecolor="black"
        )
        names = [label(text.strip(), 16, blur=blur) for text in rows["text"]]
        within = ((bottom + top) / 2, top) if is_top else (bottom, (bottom + top) / 2)
        charts.name_in_column(
            axes,
            names,
            rows[[x, y]].to_numpy(dtype=float),
            right if is_right else left,
            gap=0.05 * (top - bottom),
            within=within,
        )
        place = 0.99 if is_right else 0.01, top + up / 2 if is_top else bottom - up / 2
        axes.text(
            *place,
            texts[corner] + ":",
            fontsize=12,
            ha="right" if is_right else "left",
            va="center",
            transform=axes.get_yaxis_transform(),
        )
    return figure


@styled
def draw_scatters(
    tables: Mapping[str, pd.DataFrame], x: str, y: str, *, title: str, notes: Mapping[str, str]
) -> Chart:
    """Draw rewards for prompt y over rewards for prompt x, a small panel per model (Figs 4 and A2).

    `tables`: model -> score table with one row per distinct input; darker = more texts. `notes`:
    model -> what stands below its name.
    """
    rows, columns = math.ceil(len(tables) / COLUMNS), min(len(tables), COLUMNS)
    figure = new_chart(3.0 * columns, 1.2 + 3.0 * rows, title, DENSE_TITLE)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, (name, table) in zip(panels, tables.items(), strict=False):
        look = {"gridsize": 40, "bins": "log", "mincnt": 1, "cmap": COUNT_COLOURS, "linewidths": 0}
        axes.hexbin(table[x], table[y], **look)
        axes.set_title(f"{model_label(name)}\n{notes[name]}", fontsize=11)
        axes.tick_params(labelsize=9)
    for axes in panels[len(tables) :]:
        axes.set_axis_off()
    figure.supxlabel(f"reward, {x} (each model's own scale)", fontsize=12)
    figure.supylabel(f"reward, {y}", fontsize=12)
    return figure


@styled
def draw_sentiment(rows: pd.DataFrame, *, title: str, notes: Mapping[str, str]) -> Chart:
    """Draw one model's rewards over the sentiment of words, a panel per prompt (Figs 3A and 3B).

    `rows`: observations of one model (lib.framing.effects). A line with its 95% band is fitted
    among the positive and among the negative words. `notes`: prompt -> what stands above its panel.
    """
    prompts = list(rows["prompt"].unique())
    figure, panels = charts.row_of_panels(prompts, height=5, title=title, width=6)
    for axes, (prompt, own) in zip(panels, rows.groupby("prompt", sort=False), strict=True):
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
