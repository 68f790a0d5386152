"""Charts of the calibration: planted against recovered, false positives and coverage, and the ranks of the truth."""

import textwrap
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from benchmarks.calibration.estimators import ESTIMATORS
from benchmarks.calibration.performance import TARGETS
from lib.show.figures import DENSE_TITLE, GREY, HUES, THIRD, Chart, new_chart, styled

SAYS = {estimator.name: estimator.says for estimator in ESTIMATORS}
UNITS = {estimator.name: estimator.unit for estimator in ESTIMATORS}
BASES = {"gem": ("Gemma-2-like", HUES["gemma"][1]), "lla": ("Llama-like", HUES["llama"][1])}
MAIN = ("gap VADER greatest", "framing VADER", "frequency bent", "identity frequency")  # one of each kind
MARKS = {"before": ("o", "white", "crossed interval against 0"),
         "after": ("o", "black", "the control's bias taken off")}  # fmt: skip


@styled
def draw_planted_and_recovered(estimates: pd.DataFrame, names: Sequence[str], title: str) -> Chart:
    """What estimators found over what was planted: a point per model, the line through them, and the line of no bias.

    estimates: as from performance.estimates; names: of the estimators, one panel each.
    """
    figure = new_chart(4.3 * len(names), 5.0, title, DENSE_TITLE)
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for panel, name in zip(panels, names, strict=True):
        rows = estimates[(estimates["estimator"] == name) & (estimates["control"] == "")]
        for base, (label, colour) in BASES.items():
            some = rows[rows["base"] == base]
            panel.plot(some["planted"], some["estimate"], ".", color=colour, markersize=7, alpha=0.7, label=label)
        ends = np.array([rows["planted"].min(), rows["planted"].max()])
        b, a = np.polyfit(rows["planted"], rows["estimate"], 1)
        panel.plot(ends, ends, color=GREY, linestyle="--", linewidth=1, label="recovered = planted")
        panel.plot(ends, a + b * ends, color="black", linewidth=2, label="line through the models")
        panel.axhline(0, color=GREY, linewidth=0.6)
        panel.set(title=_lines(SAYS[name]), xlabel=f"planted, {UNITS[name]}", ylabel=f"recovered, {UNITS[name]}")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


@styled
def draw_size_and_coverage(groups: pd.DataFrame, title: str) -> Chart:
    """False positives and coverage of groups of ten: a row per estimator, before and after the control's bias goes.

    groups: as from performance.of_groups. The grey bands are the targets.
    """
    names = list(groups["estimator"].unique())
    figure = new_chart(13, 2.4 + 0.4 * len(names), title, DENSE_TITLE)
    panels = figure.subplots(1, 2, sharey=True)
    rows = {method: groups[groups["method"] == method] for method in ("crossed", "crossed, control off")}
    for (marker, face, label), some, offset in zip(MARKS.values(), rows.values(), (-0.15, 0.15), strict=True):
        _shares(panels[0], some, "size", names, offset, (marker, face, label))
    _shares(panels[1], rows["crossed"], "coverage", names, 0, MARKS["after"])
    for panel, (target, band) in zip(panels, TARGETS.items(), strict=True):
        panel.axvspan(*band, color="#d9d9d9", zorder=0, label="target" if target == "size" else None)
        panel.set_xlim(-0.03, 1.03)
    panels[0].set_xlabel("share of studies that report an effect\nthough none was planted")
    panels[1].set_xlabel("share of studies whose interval\nholds a + b planted")
    panels[0].set_yticks(range(len(names)), [SAYS[name] for name in names], fontsize=11)
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _shares(axes: Axes, rows: pd.DataFrame, share: str, names: list[str], offset: float, mark: tuple) -> None:
    marker, face, label = mark
    heights = rows["estimator"].map(names.index) + offset
    axes.hlines(heights, rows[f"{share}_low"], rows[f"{share}_high"], color=THIRD, linewidth=1.5)
    axes.plot(rows[share], heights, marker, markerfacecolor=face, markeredgecolor="black", markersize=7, label=label)


@styled
def draw_ranks(ranks: pd.DataFrame, names: Sequence[str], title: str, method: str = "crossed") -> Chart:
    """Where the truth lies within the intervals' distributions: a histogram per estimator, flat where these are right.

    ranks: as from performance.ranks. High at the sides: intervals too narrow; in the middle: too wide; sloping: biased.
    """
    columns = 4
    lines = -(-len(names) // columns)
    figure = new_chart(3.2 * columns, 0.9 + 2.5 * lines, title, DENSE_TITLE)
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    chosen = ranks[ranks["method"] == method].set_index("estimator").drop(columns="method")
    for panel, name in zip(panels.flat, names, strict=False):
        panel.bar(np.arange(0.05, 1, 0.1), chosen.loc[name], width=0.09, color=THIRD)
        panel.axhline(0.1, color=GREY, linestyle="--", linewidth=1)
        panel.set_title(_lines(SAYS[name], 30), fontsize=10)
    for panel in panels.flat[len(names) :]:
        panel.set_axis_off()
    figure.supxlabel("rank of the truth: share of the interval's distribution below it", fontsize=12)
    figure.supylabel("share of studies", fontsize=12)
    return figure


def _lines(text: str, characters: int = 32) -> str:
    return "\n".join(textwrap.wrap(text, characters, break_on_hyphens=False))


def of_report(report) -> dict[str, Chart]:
    """Return the charts of a report, by the names of their files."""
    recovered = "Planted and recovered values, a point per model"
    shares = "Studies of ten models: effects found where none was planted, and intervals that hold the truth"
    ranks = "Ranks of the truth within the intervals: flat where intervals are as wide as they should be"
    return {
        "planted_and_recovered": draw_planted_and_recovered(report.estimates, MAIN, recovered),
        "size_and_coverage": draw_size_and_coverage(report.groups, shares),
        "ranks": draw_ranks(report.ranks, list(SAYS), ranks),
    }
