"""The charts of the framing and frequency notebooks: bends, forests, densities with named corners, beeswarms, grids."""

import itertools
from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from lib import figures
from lib.figures import GREY, SIDES, Chart, label, model_labels, panels, styled
from lib.framing import effects
from lib.prompts import POLARITIES, STYLES, SUPERLATIVES, cell

COUNTS = mpl.colors.LinearSegmentedColormap.from_list("counts", ["#9ecae1", "#2171b5", "#08306b", "#000000"])


@styled
def draw_sentiment_curves(rows: pd.DataFrame, *, title: str, lexicon: str) -> Chart:
    """Mean standardised reward by sentiment, a thin line per model, a panel per prompt, with the mean's two lines.

    rows: observations with standardised rewards. The thick lines are fitted among positive and among negative words of
    all models (Figs 3A and 3B).
    """
    prompts = list(rows["prompt"].unique())
    figure, axes = panels(1, len(prompts), 4.3, 4.2, title, sharey=True)
    colours = figures.model_colours(rows["model"].unique())
    for panel, prompt in zip(axes[0], prompts, strict=True):
        shown = rows[rows["prompt"] == prompt]
        level = shown["sentiment"].round().where(shown["sentiment"].round() != 0)
        means = shown.groupby(["model", level])["reward"].mean()
        for name, colour in colours.items():
            panel.plot(means[name].index, means[name], color=colour, linewidth=1.2, label=label(name, 30, blur=False))
        for side, colour in SIDES.items():
            words = shown[shown["sentiment"] > 0 if side == "positive" else shown["sentiment"] < 0]
            _line(panel, words, colour, f"all, {side} words")
        panel.axvline(0, color=GREY, linewidth=0.8, linestyle=":")
        panel.set(title=f"prompt: {prompt}", xlabel=f"sentiment of the word ({lexicon})")
    axes[0, 0].set_ylabel("reward, standard deviations")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=11)
    return figure


def _line(axes: Axes, rows: pd.DataFrame, colour: str, told: str) -> None:
    slope, height = np.polyfit(rows["sentiment"], rows["reward"], 1)
    ends = np.array([rows["sentiment"].min(), rows["sentiment"].max()])
    axes.plot(ends, height + slope * ends, color=colour, linewidth=5, alpha=0.75, solid_capstyle="round", label=told)


@styled
def draw_density(
    tables: Mapping[str, pd.DataFrame], x: str, y: str, *, title: str, named: int = 0, blur: bool = True
) -> Chart:
    """Rewards for prompt y over rewards for prompt x, a panel per model; darker = more tokens (Figs 4 and A2).

    tables: score tables, best with one row per distinct input. named: that many tokens of each corner are named; for
    more than one model, names do not fit. Counts are on a log scale, so that single tokens stay visible.
    """
    columns = min(5, len(tables))
    side = 9 if len(tables) == 1 else 3.1
    figure, axes = panels(-(-len(tables) // columns), columns, side, side * 0.93, title)
    for panel, (name, table) in itertools.zip_longest(axes.ravel(), tables.items(), fillvalue=(None, None)):
        if name is None:
            panel.set_axis_off()
            continue
        drawn = panel.hexbin(table[x], table[y], gridsize=70 if named else 40, bins="log", cmap=COUNTS, mincnt=1,
                             linewidths=0)  # fmt: skip
        panel.set(title=label(name, 30, blur=False), xlabel=f"reward, {x}", ylabel=f"reward, {y}")
        if named:
            bar = figure.colorbar(drawn, ax=panel, label="tokens", shrink=0.6)
            bar.ax.yaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
            bar.ax.yaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
            bar.ax.yaxis.set_minor_formatter(mpl.ticker.NullFormatter())
            _name_corners(panel, effects.corners(table, x, y, named), x, y, blur)
    return figure


# Where the names of a corner stand: fraction of the panel, alignment. The panel is widened so that no token is there.
PLACES = {"both": (0.99, 0.985, "right", "top"), "neither": (0.01, 0.015, "left", "bottom"),
          "good only": (0.99, 0.015, "right", "bottom"), "bad only": (0.01, 0.985, "left", "top")}  # fmt: skip
TOLD = {"both": "rewarded for both", "neither": "for neither", "good only": "for {x} only", "bad only": "for {y} only"}


def _name_corners(axes: Axes, corners: pd.DataFrame, x: str, y: str, blur: bool) -> None:
    for low, high, widen in (*[(*axes.get_xlim(), axes.set_xlim)], *[(*axes.get_ylim(), axes.set_ylim)]):
        widen(low - 0.22 * (high - low), high + 0.22 * (high - low))
    for corner, rows in corners.groupby("corner", sort=False):
        axes.plot(rows[x], rows[y], "o", markersize=8, markerfacecolor="none", markeredgecolor="black")
        left, top, across, down = PLACES[corner]
        names = [label(text.strip(), 16, blur=blur) for text in rows["text"]]
        told = TOLD[corner].format(x=x, y=y)
        axes.text(left, top, "\n".join([f"{told}:", *names]), transform=axes.transAxes, ha=across, va=down, fontsize=12)


@styled
def draw_beeswarm(rows: pd.DataFrame, *, title: str, lexicon: str, most: int = 120, seed: int = 0) -> Chart:
    """Standardised rewards of positive and negative words, a dot per word, a panel per prompt (Figs A3 and A4).

    rows: observations with standardised rewards. Of more than `most` words of a sign a random sample is drawn; the bar
    is the mean of all of them.
    """
    prompts, models = list(rows["prompt"].unique()), list(rows["model"].unique())
    figure, axes = panels(len(prompts), 1, 1.2 + 1.3 * len(models), 3, title, sharex=True)
    rows = rows[rows["sentiment"] != 0]
    rows = rows.assign(sign=np.where(rows["sentiment"] > 0, "positive", "negative"))
    sample = rows.sample(frac=1, random_state=seed).groupby(["prompt", "model", "sign"]).head(most)
    for panel, prompt in zip(axes[:, 0], prompts, strict=True):
        # Beeswarm by binning: within a narrow band of reward, dots stand side by side.
        for (name, sign), dots in sample[sample["prompt"] == prompt].groupby(["model", "sign"]):
            middle = models.index(name) + (0.22 if sign == "positive" else -0.22)
            panel.plot(middle + _side_by_side(dots["reward"]), np.sort(dots["reward"]), ".", color=SIDES[sign],
                       markersize=3)  # fmt: skip
            everything = rows[(rows["prompt"] == prompt) & (rows["model"] == name) & (rows["sign"] == sign)]["reward"]
            panel.hlines(everything.mean(), middle - 0.2, middle + 0.2, color="black", linewidth=2)
        panel.set(title=f"prompt: {prompt}", ylabel="reward,\nstandard deviations")
    axes[-1, 0].set_xticks(range(len(models)), model_labels(models), rotation=30, ha="right")
    handles = [
        mpl.lines.Line2D([], [], color=c, marker=".", linestyle="", label=f"{s} words") for s, c in SIDES.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, title=lexicon)
    return figure


def _side_by_side(values: pd.Series, width: float = 0.2, bands: int = 40) -> np.ndarray:
    """Offsets of the sorted values: those of one band are spread around the middle, at most `width` to either side."""
    ordered = np.sort(values.to_numpy())
    band = np.digitize(ordered, np.linspace(ordered[0], ordered[-1], bands))
    offsets = np.zeros(len(ordered))
    widest = np.bincount(band).max()
    for one in np.unique(band):
        places = np.flatnonzero(band == one)
        offsets[places] = (np.arange(len(places)) - (len(places) - 1) / 2) * 2 * width / widest
    return offsets


@styled
def draw_prompt_grid(found: pd.DataFrame, *, title: str) -> Chart:
    """The gap between slopes for every model and prompt of the grid, as a heatmap with a panel per adjective.

    found: framing.gaps() of standardised rewards for the prompts of the grid. White is no gap.
    """
    parts = pd.DataFrame(found["prompt"].map(cell).tolist(), columns=["adjective", "superlative", "style"])
    told = parts["superlative"].map(SUPERLATIVES) + ", " + parts["style"].map(STYLES)
    order = parts.apply(lambda column: column.map(list(KINDS[column.name]).index)).assign(told=told)
    rows = found.reset_index(drop=True).assign(adjective=parts["adjective"], told=told)
    rows = rows.loc[order.sort_values(list(KINDS), kind="stable").index]
    adjectives, models = list(rows["adjective"].unique()), list(rows["model"].unique())
    figure, axes = panels(1, len(adjectives), 0.9 + 0.27 * len(models), 5.2, title, sharey=True)
    most = rows["gap"].abs().max()
    for panel, adjective in zip(axes[0], adjectives, strict=True):
        shown = rows[rows["adjective"] == adjective]
        sns.heatmap(_matrix(shown, models), ax=panel, cmap="PuOr_r", vmin=-most, vmax=most, cbar=False, linewidths=0.5)
        panel.set(title=adjective, xlabel="", ylabel="")
        panel.set_xticks(np.arange(len(models)) + 0.5, model_labels(models), rotation=90, fontsize=10)
        panel.tick_params(length=0)
    colours = mpl.cm.ScalarMappable(mpl.colors.Normalize(-most, most), "PuOr_r")
    figure.colorbar(colours, ax=axes, label="slope of positive minus\nslope of negative words", shrink=0.8)
    return figure


KINDS = {"adjective": POLARITIES, "superlative": SUPERLATIVES, "style": STYLES}


def _matrix(rows: pd.DataFrame, models: list[str]) -> pd.DataFrame:
    by_model = {name: group.set_index("told")["gap"] for name, group in rows.groupby("model")}
    return pd.DataFrame({name: by_model[name] for name in models}).loc[rows["told"].unique()]
