"""Charts of a multiverse and of a scorecard: the estimates of all specifications, and sentences by verdict."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ..stats import multiverse
from .figures import DENSE_TITLE, GREY, NEGATIVE, POSITIVE, Chart, new_chart, styled

# Purple against green, as everywhere where hue is no model; told apart by lightness too.
SIDE_COLOURS = {"for": POSITIVE, "undecided": "#bdbdbd", "against": NEGATIVE}
VERDICT_COLOURS = {"reproduced": POSITIVE, "not reproduced": NEGATIVE, "undecided": "#bdbdbd",
                   "only as published": "#d9c27e", "on other texts": "#a9c4d9"}  # fmt: skip
PAPERS, OURS = "the paper's specification", "our specification"
MARKS = {PAPERS: ("D", "white", "black"), OURS: ("o", "black", "white")}  # marker, its face and its edge
BINS = 60


# --- one claim ----------------------------------------------------------------------------------------------------


@styled
def draw_specifications(
    table: pd.DataFrame, title: str, *, ours: Mapping | None = None, papers: Mapping | None = None,
    xlabel: str = "estimate",
) -> Chart:  # fmt: skip
    """Draw how the estimates of all specifications are distributed: of all together, and for each option of a choice.

    A colour says whether the 95% interval lies above zero (for), below it (against) or around it. `ours` and `papers`:
    the options of two specifications, marked (see multiverse.chosen). The right says how many specifications with an
    option count (multiverse.counted), and the shares of these for and against the claim.
    """
    every = {name: list(dict.fromkeys(table[name])) for name in multiverse.choices_of(table)}
    shown = {name: options for name, options in every.items() if len(options) > 1}
    lines = sum(map(len, shown.values())) + len(shown)
    figure = new_chart(11, 3.2 + 0.3 * lines, title, DENSE_TITLE)
    above, board = figure.subplots(2, 1, sharex=True, height_ratios=(2, 0.3 * lines))
    # One estimate in raw units would flatten all others: the widest hundredth stands at the edges.
    low, high = (table["estimate"].quantile(share) for share in (0.005, 0.995))
    edges = np.linspace(min(low, 0), max(high, 0), BINS + 1)
    _draw_distribution(above, table, edges, 0, 1)
    for name, options in ((PAPERS, papers), (OURS, ours)):
        marker, face, edge = MARKS[name]
        if len(rows := multiverse.chosen(table, options)):
            above.plot(rows["estimate"], [0] * len(rows), marker, markerfacecolor=face, markeredgecolor=edge,
                       markersize=9, label=name, zorder=4, clip_on=False)  # fmt: skip
    above.set_ylabel("specifications")
    above.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    above.margins(y=0.06)
    _draw_board(board, table, shown, edges)
    board.set_xlabel(xlabel)
    for axes in (above, board):
        axes.axvline(0, color=GREY, linewidth=0.8)
    figure.legend(*above.get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=11, frameon=False)
    return figure


def _draw_distribution(axes: Axes, rows: pd.DataFrame, edges: np.ndarray, bottom: float, scale: float) -> None:
    """Draw a histogram of estimates from `bottom` on, the sides stacked; `scale` is the height of one specification."""
    # One outline per side: an artist per bin would take most of a notebook's time.
    base = np.full(len(edges) - 1, float(bottom))
    for side, colour in SIDE_COLOURS.items():
        estimates = rows.loc[rows["side"] == side, "estimate"].clip(edges[0], edges[-1])
        top = base + scale * np.histogram(estimates, edges)[0]
        axes.stairs(top, edges, baseline=base, fill=True, color=colour, label=side)
        base = top


def _draw_board(axes: Axes, table: pd.DataFrame, shown: Mapping[str, list], edges: np.ndarray) -> None:
    heights: list[int] = []
    names: list[str] = []
    height = 0
    beside = {"transform": axes.get_yaxis_transform(), "va": "center"}
    for choice, options in shown.items():
        axes.text(-0.01, height, choice, ha="right", fontweight="bold", fontsize=11, **beside)
        for option in options:
            height += 1
            rows = table[table[choice] == option]
            tallest = np.histogram(rows["estimate"].clip(edges[0], edges[-1]), edges)[0].max()
            _draw_distribution(axes, rows, edges, height + 0.4, -0.8 / tallest)
            if len(some := multiverse.counted(rows)):
                share = multiverse.shares(some).loc["all"]
                axes.text(
                    1.01, height, f"{len(some)}: {share['for']:.0%}, {share['against']:.0%}", fontsize=10, **beside
                )
            heights, names = [*heights, height], [*names, str(option)]
        height += 1
    axes.set_yticks(heights, names, fontsize=11)
    axes.tick_params(length=0)
    axes.set_ylim(height - 0.4, -0.6)
    axes.spines[["left"]].set_visible(False)
    if len(multiverse.counted(table)):
        axes.text(1.01, -0.9, "counted: for, against", fontsize=10, **beside)


# --- all claims ---------------------------------------------------------------------------------------------------


@styled
def draw_counts(counts: pd.DataFrame, title: str) -> Chart:
    """Draw how many sentences have each verdict, a stacked bar per kind of evidence (as from scorecard.counts)."""
    figure = new_chart(11, 1.8 + 0.6 * len(counts), title, DENSE_TITLE)
    axes = figure.subplots()
    starts = counts.cumsum(axis=1) - counts
    for verdict in counts:
        colour = VERDICT_COLOURS.get(verdict, "#e6e6e6")
        axes.barh(counts.index, counts[verdict], left=starts[verdict], color=colour, height=0.62, label=verdict)
        for row, (start, count) in enumerate(zip(starts[verdict], counts[verdict], strict=True)):
            if count:
                axes.text(start + count / 2, row, str(count), ha="center", va="center", fontsize=11,
                          color="white" if colour in (POSITIVE, NEGATIVE) else "black")  # fmt: skip
    axes.set_ylim(len(counts) - 0.5, -0.5)
    axes.set_xlabel("sentences of the paper")
    figure.legend(loc="outside lower center", ncols=3)
    return figure
