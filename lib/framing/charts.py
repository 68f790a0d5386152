"""Charts of section 3: spreads by sign, slopes, densities and beeswarms."""

from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ..show import charts
from ..show.charts import Mark
from ..show.figures import DENSE_TITLE, GREY, SIDES, Chart, label, model_colours, model_label, new_chart, styled
from . import frequency
from .opposites import corners as corners_of

COUNT_COLOURS = mpl.colors.LinearSegmentedColormap.from_list("counts", ["#9ecae1", "#2171b5", "#08306b", "#000000"])


@styled
def draw_sentiment_curves(rows: pd.DataFrame, *, title: str, lexicon: str) -> Chart:
    """Draw the mean reward by sentiment, a thin line per model, a panel per prompt (Figs 3A and 3B).

    `rows`: observations with standardised rewards. The thick lines are fitted to the positive and to the negative words
    of all models.
    """
    prompts = list(rows["prompt"].unique())
    figure, panels = charts.row_of_panels([f"prompt: {name}" for name in prompts], height=5, title=title, sharey=True)
    for panel, prompt in zip(panels, prompts, strict=True):
        shown = rows[rows["prompt"] == prompt]
        level = shown["sentiment"].round().where(shown["sentiment"].round() != 0)
        means = shown.groupby(["model", level])["reward"].mean()
        for name, colour in model_colours(rows["model"].unique()).items():
            panel.plot(means[name].index, means[name], color=colour, linewidth=1.2, label=model_label(name))
        for side, sign in (("positive", 1), ("negative", -1)):
            words = shown[np.sign(shown["sentiment"]) == sign]
            slope, height = np.polyfit(words["sentiment"], words["reward"], 1)
            ends = np.array([words["sentiment"].min(), words["sentiment"].max()])
            panel.plot(ends, height + slope * ends, color=SIDES[side], linewidth=5, alpha=0.75,
                       solid_capstyle="round", label=f"all, {side} words")  # fmt: skip
        panel.axvline(0, color=GREY, linewidth=0.8, linestyle=":")
        panel.set_xlabel(f"sentiment of the word ({lexicon})")
    panels[0].set_ylabel("reward, standard deviations")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=11)
    return figure


@styled
def draw_sources(slopes: pd.DataFrame, *, title: str, units: Mapping[str, str]) -> Chart:
    """Draw slopes, a row of panels per source with its own scale, a panel per prompt (Figs 3C and 3D).

    `slopes`: columns `source, prompt, model, slope, ci_low, ci_high`. It may also have sign (`positive` or `negative`
    words) and read (`hidden` slopes are drawn open). `units`: source -> label of its axis.
    """
    prompts, sources = list(slopes["prompt"].unique()), list(units)
    heights = [0.8 + 0.3 * slopes.loc[slopes["source"] == source, "model"].nunique() for source in sources]
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
        handles = [mpl.lines.Line2D([], [], color=colour, marker="o", linestyle="", label=f"among {side} words")
                   for side, colour in SIDES.items()]  # fmt: skip
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _draw_slopes(axes: Axes, rows: pd.DataFrame, models: list[str]) -> None:
    """Draw the slopes of one panel with their intervals, a row per model."""
    rows = rows.assign(**{name: rows[name].fillna("") if name in rows else "" for name in ("sign", "read")})
    for (sign, read), shown in rows.groupby(["sign", "read"]):
        heights = shown["model"].map(models.index) + {"positive": -0.15, "negative": 0.15}.get(sign, 0)
        mark = Mark(SIDES.get(sign, "black"), face="white" if read == "hidden" else "", size=5)
        charts.intervals(axes, shown["slope"], shown["ci_low"], shown["ci_high"], heights, mark)
    axes.axvline(0, color=GREY, linewidth=0.8)


@styled
def draw_confounding(words: pd.DataFrame, prompt: str, slopes: pd.DataFrame, *, title: str, lexicon: str) -> Chart:
    """Draw one model's rewards over word frequency, as they are and with sentiment held constant, with their lines.

    `words`: as in frequency. `slopes`: as from frequency.with_and_without. Positive words are green, others purple.
    """
    places = {"alone": "as they are", "held": frequency.AT_MEAN}
    headings = [f"{place}: {slopes.loc[row, 'estimate']:+.2f} per tenfold" for row, place in places.items()]
    figure, panels = charts.row_of_panels(headings, height=5.2, title=title, width=6, sharex=True, sharey=True)
    x, ends = words["log_frequency"], np.array([words["log_frequency"].min(), words["log_frequency"].max()])
    rewards = {"alone": words[prompt].astype(float), "held": frequency.held_constant(words, prompt)}
    for panel, (row, y) in zip(panels, rewards.items(), strict=True):
        for side, colour in SIDES.items():
            own = words["sentiment"] > 0 if side == "positive" else words["sentiment"] <= 0
            panel.plot(x[own], y[own], ".", color=colour, markersize=4, alpha=0.5, label=f"{side} words ({lexicon})")
        panel.plot(ends, y.mean() + slopes.loc[row, "estimate"] * (ends - x.mean()), color="black", linewidth=2.5)
        panel.set_xlabel("words per million, powers of ten")
    panels[0].set_ylabel(f"reward, {prompt}")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, markerscale=3)
    return figure


@styled
def draw_density(
    tables: Mapping[str, pd.DataFrame], x: str, y: str, *, title: str, named: int = 0, blur: bool = True
) -> Chart:
    """Draw rewards for prompt y over rewards for prompt x, a panel per model; darker = more texts (Figs 4 and A2).

    `tables`: score tables with one row per distinct input. `named`: how many texts of each corner are named. Names fit
    for one model only.
    """
    columns = min(5, len(tables))
    rows = -(-len(tables) // columns)
    side = 9 if len(tables) == 1 else 3.1
    figure = new_chart(side * columns, side * 0.93 * rows + 0.8, title, DENSE_TITLE)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, (name, table) in zip(panels, tables.items(), strict=False):
        counts = charts.density(panel, table[x], table[y], cells=70 if named else 40, colours=COUNT_COLOURS)
        panel.set(xlabel=f"reward, {x}", ylabel=f"reward, {y}")
        if len(tables) > 1:
            panel.set_title(model_label(name))
        if named:
            _count_bar(figure, panel, counts)
            _name_corners(panel, corners_of(table, x, y, named), x, y, blur)
    for panel in panels[len(tables) :]:
        panel.set_axis_off()
    return figure


def _count_bar(figure: Chart, axes: Axes, counts: mpl.collections.Collection) -> None:
    """Draw the key of the colours: numbers of texts."""
    bar = figure.colorbar(counts, ax=axes, label="texts", shrink=0.6).ax.yaxis
    bar.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
    bar.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    bar.set_minor_formatter(mpl.ticker.NullFormatter())


CORNER_NAMES = {"both": "rewarded for both", "neither": "for neither", "good only": "for {x} only",
                "bad only": "for {y} only"}  # fmt: skip


def _name_corners(axes: Axes, corners: pd.DataFrame, x: str, y: str, blur: bool) -> None:
    """Name the texts of each corner in a column beside the cloud of points."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    across, up = 0.34 * (right - left), 0.12 * (top - bottom)
    axes.set(xlim=(left - across, right + across), ylim=(bottom - up, top + up))
    for corner, rows in corners.groupby("corner", sort=False):
        is_right, is_top = corner in ("both", "good only"), corner in ("both", "bad only")
        column, middle = right if is_right else left, (bottom + top) / 2
        within = (middle, top) if is_top else (bottom, middle)
        axes.plot(rows[x], rows[y], "o", markersize=8, markerfacecolor="none", markeredgecolor="black")
        names = [label(text.strip(), 16, blur=blur) for text in rows["text"]]
        charts.name_in_column(axes, names, rows[[x, y]].to_numpy(dtype=float), column,
                              gap=0.05 * (top - bottom), within=within)  # fmt: skip
        heading = CORNER_NAMES[corner].format(x=x, y=y) + ":"
        axes.text(0.99 if is_right else 0.01, top + up / 2 if is_top else bottom - up / 2, heading, fontsize=12,
                  ha="right" if is_right else "left", va="center", transform=axes.get_yaxis_transform())  # fmt: skip


@styled
def draw_beeswarm(rows: pd.DataFrame, *, title: str, lexicon: str, most: int = 120, seed: int = 0) -> Chart:
    """Draw rewards of positive and negative words, a dot per word, a panel per prompt (Figs A3 and A4).

    `rows`: observations with standardised rewards. Of more than `most` words of a sign, a random sample is shown. The
    bar is the mean of all words.
    """
    prompts, models = list(rows["prompt"].unique()), list(rows["model"].unique())
    figure = new_chart(1.2 + 1.3 * len(models), 3 * len(prompts) + 0.8, title, DENSE_TITLE)
    panels = figure.subplots(len(prompts), 1, squeeze=False, sharex=True)[:, 0]
    rows = rows[rows["sentiment"] != 0]
    rows = rows.assign(sign=np.where(rows["sentiment"] > 0, "positive", "negative"))
    sample = rows.sample(frac=1, random_state=seed).groupby(["prompt", "model", "sign"]).head(most)
    means = rows.groupby(["prompt", "model", "sign"])["reward"].mean()
    for panel, prompt in zip(panels, prompts, strict=True):
        for sign, shift in (("negative", -0.22), ("positive", 0.22)):
            dots = sample[(sample["prompt"] == prompt) & (sample["sign"] == sign)].groupby("model")["reward"]
            places = [models.index(name) + shift for name in dots.groups]
            charts.swarms(panel, dict(zip(places, (own.to_numpy() for _, own in dots), strict=True)), SIDES[sign])
            bars = means[prompt].xs(sign, level="sign")[list(dots.groups)]
            panel.hlines(bars, np.subtract(places, 0.2), np.add(places, 0.2), color="black", linewidth=2)
        panel.set(title=f"prompt: {prompt}", ylabel="reward,\nstandard deviations")
    panels[-1].set_xticks(range(len(models)), [model_label(name) for name in models], rotation=30, ha="right")
    handles = [mpl.lines.Line2D([], [], color=colour, marker=".", linestyle="", label=f"{sign} words")
               for sign, colour in SIDES.items()]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=2, title=lexicon)
    return figure
