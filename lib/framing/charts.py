"""The charts of framing: spreads by sign, bends, densities with named corners, beeswarms, the grid of prompts."""

from collections.abc import Iterable, Mapping

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import patheffects
from matplotlib.axes import Axes

from lib.figures import DENSE_TITLE, GREY, SIDES, Chart, label, model_colours, model_label, new_chart, styled
from lib.framing import confounding, effects
from lib.prompts import POLARITIES, SUPERLATIVES, cell

COUNT_COLOURS = mpl.colors.LinearSegmentedColormap.from_list("counts", ["#9ecae1", "#2171b5", "#08306b", "#000000"])


# Lexicons are told apart by their mark, words with and without offensive ones by a filled and an open one.
LEXICON_MARKS = ("o", "s", "^", "D")


@styled
def draw_interaction(over: pd.DataFrame, *, title: str) -> Chart:
    """How many times wider positive words spread under prompts for good things than under those for bad ones.

    over: rows of interaction.over_choices. A row per model, the mean over models below, a panel per scale and wording;
    a mark per lexicon with its 95% interval, open without offensive words. 1: framing changes nothing. Log scale.
    """
    ratios = effects.as_ratios(over)
    panels_of = list(ratios.groupby(["scale", "wording"], sort=False))
    models = list(dict.fromkeys(ratios["model"]))
    models = [name for name in models if name != effects.ALL] + [effects.ALL]
    figure = new_chart(1.8 + 4.3 * len(panels_of), 2.2 + 0.5 * len(models), title, DENSE_TITLE)
    panels = figure.subplots(1, len(panels_of), squeeze=False, sharex=True, sharey=True)[0]
    marks = dict(zip(ratios["lexicon"].unique(), LEXICON_MARKS, strict=False))
    for panel, ((scale, wording), rows) in zip(panels, panels_of, strict=True):
        _draw_strip(panel, rows, models, marks)
        panel.set(title=f"{scale}, {wording}", xlabel="ratio of spreads, times", xscale="log")
    _ratio_axis(panels[0], ratios)
    panels[0].set_yticks(range(len(models)), [name if name == effects.ALL else model_label(name) for name in models])
    panels[0].set_ylim(len(models) - 0.4, -0.6)
    figure.legend(*_strip_legend(marks, list(ratios["words"].unique())), loc="outside lower center", ncols=5)
    return figure


def _draw_strip(axes: Axes, rows: pd.DataFrame, models: list[str], marks: Mapping[str, str]) -> None:
    choices = list(rows.groupby(["lexicon", "words"], sort=False))
    first = rows["words"].iloc[0]
    for offset, ((lexicon, words), of_choice) in zip(np.linspace(-0.32, 0.32, len(choices)), choices, strict=True):
        heights = of_choice["model"].map(models.index) + offset
        axes.hlines(heights, of_choice["ci_low"], of_choice["ci_high"], color=GREY, linewidth=1.5)
        face = "black" if words == first else "white"
        axes.plot(of_choice["estimate"], heights, marks[lexicon], markersize=5, color="black", markerfacecolor=face)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.axhline(len(models) - 1.5, color=GREY, linewidth=0.8, linestyle=":")


def _ratio_axis(axes: Axes, ratios: pd.DataFrame) -> None:
    """Ticks at whole multiples, and no more of the axis than the intervals take."""
    low, high = ratios["ci_low"].min(), ratios["ci_high"].max()
    axes.set_xlim(min(low, 0.9) / 1.05, max(high, 1.1) * 1.05)
    axes.xaxis.set_major_locator(mpl.ticker.FixedLocator([0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 12, 16]))
    axes.xaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_locator(mpl.ticker.NullLocator())


def _strip_legend(marks: Mapping[str, str], words: list[str]) -> tuple[list, list[str]]:
    line = {"linestyle": "", "color": "black"}
    lexicons = [mpl.lines.Line2D([], [], marker=mark, **line) for mark in marks.values()]
    faces = ("black", "white")[: len(words)]
    shades = [mpl.lines.Line2D([], [], marker="o", markerfacecolor=face, **line) for face in faces]
    return lexicons + shades, [*marks, *words]


@styled
def draw_gaps(gaps: pd.DataFrame, *, title: str) -> Chart:
    """The mean gap between slopes with its interval: a panel per prompt, a row per lexicon, a mark per choice of words.

    gaps: columns prompt, lexicon, words, estimate, ci_low, ci_high. The second choice of words is drawn open.
    """
    prompts, lexicons, words = (list(gaps[column].unique()) for column in ("prompt", "lexicon", "words"))
    figure = new_chart(4.3 * len(prompts), 2.2 + 0.6 * len(lexicons), title, DENSE_TITLE)
    panels = figure.subplots(1, len(prompts), squeeze=False, sharex=True, sharey=True)[0]
    offsets = dict(zip(words, np.linspace(-0.15, 0.15, len(words)), strict=True))
    for panel, (prompt, rows) in zip(panels, gaps.groupby("prompt", sort=False), strict=True):
        heights = rows["lexicon"].map(lexicons.index) + rows["words"].map(offsets)
        panel.hlines(heights, rows["ci_low"], rows["ci_high"], color=GREY, linewidth=2)
        for word, face in zip(words, ("black", "white"), strict=False):
            one = rows["words"] == word
            panel.plot(rows["estimate"][one], heights[one], "o", color="black", markerfacecolor=face, label=word)
        panel.axvline(0, color="black", linewidth=0.8)
        panel.set(title=f"prompt: {prompt}", xlabel="gap, SD per point of its lexicon")
    panels[0].set_yticks(range(len(lexicons)), lexicons)
    panels[0].set_ylim(len(lexicons) - 0.5, -0.5)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


@styled
def draw_sentiment_curves(rows: pd.DataFrame, *, title: str, lexicon: str) -> Chart:
    """Mean standardised reward by sentiment, a thin line per model, a panel per prompt, with the mean's two lines.

    rows: observations with standardised rewards. The thick lines are fitted among positive and among negative words of
    all models (Figs 3A and 3B).
    """
    prompts = list(rows["prompt"].unique())
    figure = new_chart(4.3 * len(prompts), 5, title, DENSE_TITLE)
    panels = figure.subplots(1, len(prompts), squeeze=False, sharey=True)[0]
    colours = model_colours(rows["model"].unique())
    for panel, prompt in zip(panels, prompts, strict=True):
        shown = rows[rows["prompt"] == prompt]
        _draw_means(panel, shown, colours)
        for side, colour in SIDES.items():
            words = shown[shown["sentiment"] > 0 if side == "positive" else shown["sentiment"] < 0]
            _draw_fit(panel, words, colour, f"all, {side} words")
        panel.axvline(0, color=GREY, linewidth=0.8, linestyle=":")
        panel.set(title=f"prompt: {prompt}", xlabel=f"sentiment of the word ({lexicon})")
    panels[0].set_ylabel("reward, standard deviations")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=11)
    return figure


def _draw_means(axes: Axes, rows: pd.DataFrame, colours: Mapping[str, str]) -> None:
    """A line per model: the mean reward at each whole number of sentiment but zero."""
    level = rows["sentiment"].round().where(rows["sentiment"].round() != 0)
    means = rows.groupby(["model", level])["reward"].mean()
    for name, colour in colours.items():
        axes.plot(means[name].index, means[name], color=colour, linewidth=1.2, label=model_label(name))


def _draw_fit(axes: Axes, rows: pd.DataFrame, colour: str, name: str) -> None:
    slope, height = np.polyfit(rows["sentiment"], rows["reward"], 1)
    ends = np.array([rows["sentiment"].min(), rows["sentiment"].max()])
    axes.plot(ends, height + slope * ends, color=colour, linewidth=5, alpha=0.75, solid_capstyle="round", label=name)


@styled
def draw_beside(slopes: pd.DataFrame, *, title: str, units: Mapping[str, str]) -> Chart:
    """Slopes of several sources, a row of panels each on a scale of its own, a panel per prompt (Figs 3C and 3D).

    slopes: columns source, prompt, model, slope, ci_low, ci_high (as far as an interval is known), and sign (of the
    words: `positive` or `negative`; absent for slopes over all words) or read (`hidden`: drawn open, where it may be).
    units: source -> what its axis says.
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
        row[0].set_yticks(range(len(models)), [model_label(name) for name in models])
        row[0].set_ylim(len(models) - 0.4, -0.6)
    if "sign" in slopes:
        handles = [mpl.lines.Line2D([], [], color=colour, marker="o", linestyle="", label=f"among {side} words")
                   for side, colour in SIDES.items()]  # fmt: skip
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _draw_slopes(axes: Axes, rows: pd.DataFrame, models: list[str]) -> None:
    sides = rows["sign"] if "sign" in rows else pd.Series("", rows.index)
    for side, of_side in rows.groupby(sides.fillna("")):
        colour, shift = SIDES.get(side, "black"), {"positive": -0.15, "negative": 0.15}.get(side, 0)
        heights = of_side["model"].map(models.index) + shift
        axes.hlines(heights, of_side["ci_low"], of_side["ci_high"], color=colour, linewidth=1.5)
        is_hidden = of_side["read"] == "hidden" if "read" in of_side else pd.Series(False, of_side.index)
        axes.plot(of_side["slope"][~is_hidden], heights[~is_hidden], "o", color=colour, markersize=5)
        axes.plot(of_side["slope"][is_hidden], heights[is_hidden], "o", color=colour, markersize=5, fillstyle="none")
    axes.axvline(0, color=GREY, linewidth=0.8)


@styled
def draw_confounding(words: pd.DataFrame, prompt: str, slopes: pd.DataFrame, *, title: str, lexicon: str) -> Chart:
    """One model's rewards over word frequency, as they are and with sentiment held constant, each with its line.

    words, slopes: as of confounding.with_and_without. Positive words are green, negative ones purple.
    """
    figure = new_chart(12, 5.2, title, DENSE_TITLE)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    x, ends = words["log_frequency"], np.array([words["log_frequency"].min(), words["log_frequency"].max()])
    rewards = {"alone": words[prompt].astype(float), "held": confounding.held_constant(words, prompt)}
    told = {"alone": "as they are", "held": confounding.HELD}
    for panel, (row, y) in zip(panels, rewards.items(), strict=True):
        for side, colour in SIDES.items():
            own = words["sentiment"] > 0 if side == "positive" else words["sentiment"] <= 0
            panel.plot(x[own], y[own], ".", color=colour, markersize=4, alpha=0.5, label=f"{side} words ({lexicon})")
        slope = slopes.loc[row, "estimate"]
        panel.plot(ends, y.mean() + slope * (ends - x.mean()), color="black", linewidth=2.5)
        panel.set(title=f"{told[row]}: {slope:+.2f} per tenfold", xlabel="words per million, powers of ten")
    panels[0].set_ylabel(f"reward, {prompt}")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, markerscale=3)
    return figure


@styled
def draw_density(
    tables: Mapping[str, pd.DataFrame], x: str, y: str, *, title: str, named: int = 0, blur: bool = True
) -> Chart:
    """Rewards for prompt y over rewards for prompt x, a panel per model; darker = more texts (Figs 4 and A2).

    tables: score tables, best with one row per distinct input; a single one is named by the title alone. named: that
    many texts of each corner are named; for more than one model, names do not fit. Counts are on a log scale, so that
    single texts stay visible.
    """
    columns = min(5, len(tables))
    rows = -(-len(tables) // columns)
    side = 9 if len(tables) == 1 else 3.1
    figure = new_chart(side * columns, side * 0.93 * rows + 0.8, title, DENSE_TITLE)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, (name, table) in zip(panels, tables.items(), strict=False):
        counts = panel.hexbin(table[x], table[y], gridsize=70 if named else 40, bins="log", cmap=COUNT_COLOURS,
                              mincnt=1, linewidths=0)  # fmt: skip
        panel.set(xlabel=f"reward, {x}", ylabel=f"reward, {y}")
        if len(tables) > 1:
            panel.set_title(model_label(name))
        if named:
            _count_bar(figure, panel, counts)
            _name_corners(panel, effects.corners(table, x, y, named), x, y, blur)
    for panel in panels[len(tables) :]:
        panel.set_axis_off()
    return figure


def _count_bar(figure: Chart, axes: Axes, counts: mpl.collections.Collection) -> None:
    bar = figure.colorbar(counts, ax=axes, label="texts", shrink=0.6).ax.yaxis
    bar.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
    bar.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    bar.set_minor_formatter(mpl.ticker.NullFormatter())


# Where the names of a corner stand: fraction of the panel, alignment. The panel is widened so that no text is there.
CORNER_PLACES = {"both": (0.99, 0.985, "right", "top"), "neither": (0.01, 0.015, "left", "bottom"),
                 "good only": (0.99, 0.015, "right", "bottom"), "bad only": (0.01, 0.985, "left", "top")}  # fmt: skip
CORNER_NAMES = {"both": "rewarded for both", "neither": "for neither", "good only": "for {x} only",
                "bad only": "for {y} only"}  # fmt: skip


def _name_corners(axes: Axes, corners: pd.DataFrame, x: str, y: str, blur: bool) -> None:
    """Number the texts of the corners, and list their names beside them."""
    for (low, high), widen in ((axes.get_xlim(), axes.set_xlim), (axes.get_ylim(), axes.set_ylim)):
        widen(low - 0.27 * (high - low), high + 0.27 * (high - low))
    for number, (corner, rows) in enumerate(corners.groupby("corner", sort=False)):
        numbers = range(number * len(rows) + 1, (number + 1) * len(rows) + 1)
        axes.plot(rows[x], rows[y], "o", markersize=8, markerfacecolor="none", markeredgecolor="black")
        _number_points(axes, rows[[x, y]].to_numpy(dtype=float), numbers, corners[[x, y]].mean().to_numpy())
        left, top, across, down = CORNER_PLACES[corner]
        names = [f"{i} {label(text.strip(), 16, blur=blur)}" for i, text in zip(numbers, rows["text"], strict=True)]
        heading = CORNER_NAMES[corner].format(x=x, y=y)
        axes.text(
            left, top, "\n".join([f"{heading}:", *names]), transform=axes.transAxes, ha=across, va=down, fontsize=12
        )


def _number_points(axes: Axes, points: np.ndarray, numbers: Iterable[int], middle: np.ndarray) -> None:
    """A number at a leader's end for each point, away from the middle, and from the other points and numbers."""
    placed, centre = axes.transData.transform(points), axes.transData.transform(middle)
    apart, taken = 0.03 * axes.bbox.width, [*placed]
    halo = [patheffects.withStroke(linewidth=3, foreground="white")]
    for number, point, start in zip(numbers, points, placed, strict=True):
        first = np.arctan2(*(start - centre)[::-1])
        ends = [start + reach * apart * np.array([np.cos(first + turn), np.sin(first + turn)])
                for reach in (1.2, 2, 3, 4) for turn in np.pi / 6 * np.array([0, 1, -1, 2, -2, 3, -3])]  # fmt: skip
        free = [end for end in ends if min(np.hypot(*(end - other)) for other in taken if other is not start) > apart]
        end = (free or ends)[0]
        taken.append(end)
        leader = {"arrowstyle": "-", "color": GREY, "linewidth": 0.8, "shrinkA": 3}
        place = axes.transData.inverted().transform(end)
        axes.annotate(str(number), point, place, fontsize=11, ha="center", va="center", arrowprops=leader,
                      path_effects=halo)  # fmt: skip


@styled
def draw_beeswarm(rows: pd.DataFrame, *, title: str, lexicon: str, most: int = 120, seed: int = 0) -> Chart:
    """Standardised rewards of positive and negative words, a dot per word, a panel per prompt (Figs A3 and A4).

    rows: observations with standardised rewards. Of more than `most` words of a sign a random sample is drawn; the bar
    is the mean of all of them.
    """
    prompts, models = list(rows["prompt"].unique()), list(rows["model"].unique())
    figure = new_chart(1.2 + 1.3 * len(models), 3 * len(prompts) + 0.8, title, DENSE_TITLE)
    panels = figure.subplots(len(prompts), 1, squeeze=False, sharex=True)[:, 0]
    rows = rows[rows["sentiment"] != 0]
    rows = rows.assign(sign=np.where(rows["sentiment"] > 0, "positive", "negative"))
    sample = rows.sample(frac=1, random_state=seed).groupby(["prompt", "model", "sign"]).head(most)
    for panel, prompt in zip(panels, prompts, strict=True):
        _draw_swarms(panel, sample[sample["prompt"] == prompt], rows[rows["prompt"] == prompt], models)
        panel.set(title=f"prompt: {prompt}", ylabel="reward,\nstandard deviations")
    panels[-1].set_xticks(range(len(models)), [model_label(name) for name in models], rotation=30, ha="right")
    handles = [
        mpl.lines.Line2D([], [], color=c, marker=".", linestyle="", label=f"{s} words") for s, c in SIDES.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, title=lexicon)
    return figure


def _draw_swarms(axes: Axes, sample: pd.DataFrame, rows: pd.DataFrame, models: list[str]) -> None:
    """Two swarms per model, of a sample of its words; the bar is the mean of all rows of their sign."""
    means = rows.groupby(["model", "sign"])["reward"].mean()
    for (name, sign), dots in sample.groupby(["model", "sign"]):
        middle = models.index(name) + (0.22 if sign == "positive" else -0.22)
        places = middle + _side_by_side(dots["reward"])
        axes.plot(places, np.sort(dots["reward"]), ".", color=SIDES[sign], markersize=3)
        axes.hlines(means[name, sign], middle - 0.2, middle + 0.2, color="black", linewidth=2)


def _side_by_side(values: pd.Series, width: float = 0.2, bands: int = 40) -> np.ndarray:
    """Offsets of the sorted values: those of a narrow band stand around the middle, at most `width` to either side."""
    ordered = np.sort(values.to_numpy())
    band = np.digitize(ordered, np.linspace(ordered[0], ordered[-1], bands))
    offsets = np.zeros(len(ordered))
    widest = np.bincount(band).max()
    for number in np.unique(band):
        places = np.flatnonzero(band == number)
        offsets[places] = (np.arange(len(places)) - (len(places) - 1) / 2) * 2 * width / widest
    return offsets


# The parts of a prompt of the grid in their order, and how the rows of the chart call them.
GRID_PARTS = {
    "adjective": {adjective: adjective for adjective in POLARITIES},
    "superlative": SUPERLATIVES,
    "style": {"one": "in one word", "single": "in a single word", "please": "one word only, please"},
}


@styled
def draw_prompt_grid(gaps: pd.DataFrame, *, title: str) -> Chart:
    """The mean gap between slopes for every prompt of the grid, a number per cell, a panel per lexicon.

    gaps: effects.over_prompts of standardised rewards, with the column lexicon. Green: positive words are steeper;
    purple: negative ones; bold: p < .05 after Holm's correction.
    """
    lexicons, widest = list(gaps["lexicon"].unique()), gaps["gap"].abs().max()
    figure = new_chart(2.6 + 5.2 * len(lexicons), 6.4, title, DENSE_TITLE)
    panels = figure.subplots(1, len(lexicons), squeeze=False, sharey=True)[0]
    for panel, (lexicon, rows) in zip(panels, gaps.groupby("lexicon", sort=False), strict=True):
        ordered = _in_grid_order(rows)
        asked, adjectives = list(ordered["asked"].unique()), list(ordered["adjective"].unique())
        matrix = ordered.pivot_table("gap", "asked", "adjective").loc[asked, adjectives]
        sns.heatmap(matrix, ax=panel, cmap="PRGn", vmin=-widest, vmax=widest, cbar=False, linewidths=1)
        for row in ordered.itertuples():
            place = (adjectives.index(row.adjective) + 0.5, asked.index(row.asked) + 0.5)
            panel.text(*place, f"{row.gap:+.2f}", ha="center", va="center", fontsize=13,
                       color="white" if abs(row.gap) > 0.6 * widest else "black",
                       fontweight="bold" if row.p_holm < 0.05 else "normal")  # fmt: skip
        panel.set(title=lexicon, xlabel="", ylabel="")
        panel.tick_params(length=0, labelsize=13)
        panel.tick_params(axis="y", rotation=0)
    return figure


def _in_grid_order(gaps: pd.DataFrame) -> pd.DataFrame:
    """The gaps with their prompt's adjective and how it asks for one word, in the order of the grid."""
    cells = pd.DataFrame(gaps["prompt"].map(cell).tolist(), columns=list(GRID_PARTS))
    places = cells.apply(lambda column: column.map(list(GRID_PARTS[column.name]).index))
    names = cells.apply(lambda column: column.map(GRID_PARTS[column.name]))
    asked = names["superlative"] + ", " + names["style"]
    rows = gaps.reset_index(drop=True).assign(adjective=names["adjective"], asked=asked)
    return rows.loc[places.sort_values(list(GRID_PARTS), kind="stable").index]
