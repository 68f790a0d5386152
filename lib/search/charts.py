"""Charts for the notebook on longer replies: predicted and true gains of swaps, and searches and their success."""

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ..show.charts import spread
from ..show.figures import DENSE_TITLE, GREY, Chart, label, new_chart, styled
from .optimality import DIRECTIONS, OURS

if TYPE_CHECKING:  # searches need torch, which the light installation comes without
    from .searches import SearchResult

# In order of the table's methods: colour, dash, width, marker. Lightness and shape tell methods apart, not hue.
METHOD_LINES = {
    OURS: ("black", "-", 3.2, ""),
    "Faster-GCG": ("#4d4d4d", "-", 1.6, "o"),
    "Faster-GCG, wrong sign": ("black", ":", 1.6, "X"),
    "GCG, width 32": ("#737373", "--", 1.6, "s"),
    "GCG, width 512": ("#a6a6a6", "--", 1.6, "D"),
    "exact sweeps": ("#737373", "-.", 1.6, "^"),
    "random": ("#a6a6a6", ":", 1.6, ""),
}
SHORT = {OURS: "ours", "Faster-GCG, wrong sign": "wrong sign"}  # beside a line
LEAST_GAP = 0.07  # between two names beside lines, in shares


@styled
def draw_predicted_and_true(
    gains: np.ndarray, true: np.ndarray, texts: list[str], *, title: str, blur: bool = True
) -> Chart:
    """Draw the first-order gains of all swaps of one token against the true changes, and name the best swaps of both.

    Gains and true changes are (swaps,) on the model's own scale. `texts` holds the new tokens.
    """
    figure = new_chart(9.5, 6, title)
    axes = figure.subplots()
    axes.scatter(gains, true, s=5, color=GREY, alpha=0.35, linewidths=0, rasterized=True)
    ends = [min(gains.min(), true.min()), max(gains.max(), true.max())]
    axes.plot(ends, ends, color=GREY, linewidth=1, linestyle=":", label="prediction = truth")
    named = {"predicted best": (int(gains.argmax()), (0.97, 0.06)), "truly best": (int(true.argmax()), (0.6, 0.86))}
    for name, (best, place) in named.items():
        axes.scatter(gains[best], true[best], s=60, facecolors="none", edgecolors="black", linewidths=1.5)
        axes.annotate(f"{name}: {label(texts[best], 20, blur=blur)}", (gains[best], true[best]), place,
                      textcoords="axes fraction", ha="right", va="center",
                      arrowprops={"arrowstyle": "-", "color": "black", "linewidth": 0.8})  # fmt: skip
    axes.set(xlabel="predicted change of reward (gradient)", ylabel="true change of reward")
    axes.margins(0.08)
    axes.legend(loc="upper left", frameon=False)
    return figure


@styled
def draw_searches(searches: Mapping[str, list["SearchResult"]], *, title: str) -> Chart:
    """Draw the best reward so far against the replies scored, a panel per direction and a line per start."""
    figure = new_chart(11, 4.6, title)
    panels = figure.subplots(1, len(DIRECTIONS))
    dashes = dict(zip(searches, itertools.cycle(["-", "--", ":", "-."]), strict=False))
    for axes, direction in zip(panels, DIRECTIONS, strict=True):
        for name, runs in searches.items():
            for run in runs:
                if run.direction == direction:
                    steps, rewards = np.array([*run.trace, (run.evaluations, run.reward)]).T
                    axes.step(
                        steps, rewards, where="post", color="black", linestyle=dashes[name], linewidth=2, label=name
                    )
        axes.set(title=direction, xlabel="replies scored")
    panels[0].set_ylabel("best reward so far")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=5, title="started from")
    return figure


@styled
def draw_optimality(summary: pd.DataFrame, *, title: str) -> Chart:
    """Draw the share of searches at the true optimum against the replies scored, a line and its 95% band per method.

    Rows of panels are reply modes, columns are directions. The summary comes from optimality.summarise by reply_mode,
    direction, method and budget.
    """
    modes = list(dict.fromkeys(summary.index.get_level_values("reply_mode")))
    figure, summary = new_chart(12.5, 1.2 + 3.6 * len(modes), title, DENSE_TITLE), summary.sort_index()
    panels = figure.subplots(len(modes), len(DIRECTIONS), sharey=True, sharex=True, squeeze=False)
    for mode, row in zip(modes, panels, strict=True):
        for direction, axes in zip(DIRECTIONS, row, strict=True):
            _draw_methods(axes, summary.loc[(mode, direction)])
            axes.set_title(f"{direction}, {'as text' if mode == 'text' else 'over ids'}")
        row[0].set_ylabel("share at the optimum")
    for axes in panels[-1]:
        axes.set_xlabel("replies scored")
    return figure


def _draw_methods(axes: Axes, summary: pd.DataFrame) -> None:
    """Draw the lines of one panel. summary: by method and budget."""
    names = [method for method in METHOD_LINES if method in summary.index]
    for method in names:
        colour, dash, width, marker = METHOD_LINES[method]
        rows = summary.loc[method]
        axes.fill_between(rows.index, rows["ci_low"], rows["ci_high"], color=colour, alpha=0.1, linewidth=0)
        axes.plot(rows.index, rows["share"], color=colour, linestyle=dash, linewidth=width, marker=marker,
                  markersize=5, markevery=2, label=method)  # fmt: skip
    budgets = summary.index.get_level_values("budget")
    ends = np.array([summary.loc[method]["share"].iloc[-1] for method in names])
    in_panel = axes.get_yaxis_transform()  # x in widths of the panel, y in shares
    for method, place in zip(names, spread(ends, LEAST_GAP, 0, 1), strict=True):
        colour, dash, width, marker = METHOD_LINES[method]
        axes.plot([1.02, 1.05, 1.08], [place] * 3, color=colour, linestyle=dash, linewidth=width, marker=marker,
                  markersize=5, markevery=[1], transform=in_panel, clip_on=False)  # fmt: skip
        axes.text(1.09, place, SHORT.get(method, method), transform=in_panel, va="center", fontsize=10)
    ticks = [budget for budget in (128, 256, 512, 1024, 2048, 4096) if budgets.min() <= budget <= budgets.max()]
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks or [budgets.min(), budgets.max()], labels=[f"{tick:,}" for tick in ticks] or None)
    axes.set(ylim=(-0.03, 1.06), xlim=(budgets.min(), budgets.max() * 1.05))
