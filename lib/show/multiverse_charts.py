"""Charts of a multiverse and of a scorecard: a specification curve over its choices, and sentences by verdict."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes

from ..stats import multiverse
from .figures import DENSE_TITLE, GREY, NEGATIVE, POSITIVE, Chart, new_chart, styled

# Purple against green, as everywhere where hue is no model; told apart by lightness too.
SIDE_COLOURS = {"for": POSITIVE, "undecided": "#bdbdbd", "against": NEGATIVE}
VERDICT_COLOURS = {"reproduced": POSITIVE, "not reproduced": NEGATIVE, "undecided": "#bdbdbd",
                   "only as published": "#d9c27e", "on other texts": "#a9c4d9"}  # fmt: skip
PAPERS, OURS = "the paper's specification", "our specification"
MARKS = {PAPERS: ("D", "white", "black"), OURS: ("o", "black", "white")}  # marker, its face and its edge


# --- one claim ----------------------------------------------------------------------------------------------------


@styled
def draw_specification_curve(
    table: pd.DataFrame, title: str, *, ours: Mapping | None = None, papers: Mapping | None = None,
    choices: Sequence[str] = (), ylabel: str = "estimate",
) -> Chart:  # fmt: skip
    """Draw the estimates of all specifications with their intervals, from the lowest up, over their choices.

    ours and papers are the options of two specifications that are marked (see multiverse.chosen). Without choices, all
    are below the curve. A specification is a stroke in the row of each option that it takes. The right says how many
    specifications with that option count (multiverse.counted), and the shares of these for and against the claim.
    """
    ordered = table.sort_values("estimate", kind="stable", ignore_index=True)
    every = {name: list(dict.fromkeys(table[name])) for name in choices or multiverse.choices_of(table)}
    shown = {name: options for name, options in every.items() if len(options) > 1}
    lines = sum(map(len, shown.values())) + len(shown)
    figure = new_chart(11, 4.8 + 0.24 * lines, title, DENSE_TITLE)
    curve, board = figure.subplots(2, 1, sharex=True, height_ratios=(3.6, 0.24 * lines))
    _draw_curve(curve, ordered, {PAPERS: papers, OURS: ours})
    curve.set_ylabel(ylabel)
    _draw_board(board, ordered, shown)
    board.set_xlabel(f"{len(table):,} specifications, from the lowest estimate to the highest")
    # Below: inside the curve it would lie on the intervals of the first ones wherever these are high.
    figure.legend(*curve.get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=11, frameon=False)
    return figure


def _draw_curve(axes: Axes, ordered: pd.DataFrame, marked: Mapping[str, Mapping | None]) -> None:
    width = max(0.3, min(3, 500 / len(ordered)))
    for side, colour in SIDE_COLOURS.items():
        rows = ordered[ordered["side"] == side]
        axes.vlines(rows.index, rows["ci_low"], rows["ci_high"], color=colour, linewidth=width, alpha=0.7)
        axes.plot([], [], color=colour, linewidth=4, label=side)
    axes.plot(ordered.index, ordered["estimate"], ".", color="black", markersize=max(1.0, min(6, 900 / len(ordered))))
    for name, options in marked.items():
        rows = multiverse.chosen(ordered, options)
        marker, face, edge = MARKS[name]
        if len(rows):
            axes.plot(rows.index, rows["estimate"], marker, markerfacecolor=face, markeredgecolor=edge,
                      markersize=9, label=name, zorder=4)  # fmt: skip
    axes.axhline(0, color=GREY, linewidth=0.8)
    _show_middle(axes, ordered)


def _show_middle(axes: Axes, ordered: pd.DataFrame) -> None:
    """Set limits by the intervals of all but the widest hundredth, because one in raw units flattens all others."""
    low, high = (ordered[end].dropna() for end in ("ci_low", "ci_high"))
    if len(low):
        bottom, top = min(low.quantile(0.01), 0), max(high.quantile(0.99), 0)
        axes.set_ylim(bottom - 0.05 * (top - bottom), top + 0.05 * (top - bottom))


def _draw_board(axes: Axes, ordered: pd.DataFrame, shown: Mapping[str, list]) -> None:
    heights: list[int] = []
    names: list[str] = []
    height = 0
    for choice, options in shown.items():
        axes.text(-0.01, height, choice, transform=axes.get_yaxis_transform(), ha="right", va="center",
                  fontweight="bold", fontsize=11)  # fmt: skip
        for option in options:
            height += 1
            _draw_option(axes, ordered, ordered[choice] == option, height)
            heights, names = [*heights, height], [*names, str(option)]
        height += 1
    axes.set_yticks(heights, names, fontsize=11)
    axes.tick_params(length=0)
    axes.set_ylim(height - 0.4, -0.6)
    axes.spines[["left"]].set_visible(False)
    axes.text(1.01, -0.9, "counted: for, against", transform=axes.get_yaxis_transform(), fontsize=10, va="center")


def _draw_option(axes: Axes, ordered: pd.DataFrame, takes: pd.Series, height: int) -> None:
    width = max(0.3, min(6, 500 / len(ordered)))
    for side, colour in SIDE_COLOURS.items():
        places = ordered.index[takes & (ordered["side"] == side)]
        axes.vlines(places, height - 0.36, height + 0.36, color=colour, linewidth=width)
    if len(some := multiverse.counted(ordered[takes])):
        share = multiverse.shares(some).loc["all"]
        said = f"{len(some)}: {share['for']:.0%}, {share['against']:.0%}"
        axes.text(1.01, height, said, transform=axes.get_yaxis_transform(), fontsize=10, va="center")


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
