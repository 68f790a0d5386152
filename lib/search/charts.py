"""The charts of the notebook on longer replies: swaps predicted and true, searches as they go, and their success."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from lib.figures import GREY, Chart, label, new_chart, shades, styled
from lib.search.objective import DIRECTIONS
from lib.search.optimality import OURS
from lib.search.searches import SearchResult

# In order of the table's methods; ours stands out, the rest differ by hue, lightness and dash.
METHOD_LINES = {
    OURS: ("#d94801", "-", 3.2),
    "Faster-GCG": ("#08306b", "-", 2.0),
    "Faster-GCG, wrong sign": ("#08306b", ":", 2.0),
    "GCG, width 32": ("#2171b5", "--", 2.0),
    "GCG, width 512": ("#7fc4e8", "--", 2.0),
    "exact sweeps": ("#807dba", "-.", 2.0),
    "random": (GREY, ":", 1.6),
}


@styled
def draw_predicted_and_true(
    gains: np.ndarray, true: np.ndarray, texts: list[str], *, title: str, blur: bool = True
) -> Chart:
    """First-order gains of all swaps of one token against the true change; the best of either are named.

    gains, true: (swaps,) on the model's own scale; texts: the tokens swapped in.
    """
    figure = new_chart(9.5, 6, title)
    axes = figure.subplots()
    axes.scatter(gains, true, s=5, color="#2171b5", alpha=0.35, linewidths=0, rasterized=True)
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
def draw_searches(searches: Mapping[str, list[SearchResult]], *, title: str) -> Chart:
    """The best reward so far against the replies scored, a panel per direction and a line per start."""
    figure = new_chart(11, 4.6, title)
    panels = figure.subplots(1, len(DIRECTIONS))
    names = list(searches)
    colours = shades(names, "other")
    for axes, direction in zip(panels, DIRECTIONS, strict=True):
        for name, runs in searches.items():
            for run in runs:
                if run.direction == direction:
                    steps, rewards = np.array([*run.trace, (run.evaluations, run.reward)]).T
                    axes.step(steps, rewards, where="post", color=colours[name], linewidth=2, label=name)
        axes.set(title=direction, xlabel="replies scored")
    panels[0].set_ylabel("best reward so far")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=5, title="started from")
    return figure


@styled
def draw_optimality(summary: pd.DataFrame, *, title: str) -> Chart:
    """The share of searches at the true optimum against the replies scored, a panel per direction, a line per method.

    summary: as of optimality.summarise by method, direction and budget. The band is the 95% interval of ours.
    """
    figure, summary = new_chart(12, 5.4, title), summary.sort_index()
    panels = figure.subplots(1, len(DIRECTIONS), sharey=True)
    for axes, direction in zip(panels, DIRECTIONS, strict=True):
        for method, (colour, dash, width) in METHOD_LINES.items():
            rows = summary.loc[(method, direction), :]
            axes.plot(rows.index, rows["share"], color=colour, linestyle=dash, linewidth=width, label=method)
            if method == OURS:
                axes.fill_between(rows.index, rows["ci_low"], rows["ci_high"], color=colour, alpha=0.15, linewidth=0)
        axes.axhline(0.9, color=GREY, linewidth=0.8, linestyle=":")
        axes.set(title=direction, xlabel="replies scored", ylim=(-0.03, 1.03), xlim=(0, rows.index.max()))
    panels[0].set_ylabel("share of searches at the true optimum")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure
