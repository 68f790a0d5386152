"""Charts of estimates with their intervals: a forest of slopes, and what was recovered over what was planted."""

import itertools

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from lib.figures import GREY, NEGATIVE, POSITIVE, SIDES, THIRD, Chart, model_labels, panels, styled, wrapped

CYCLE = (POSITIVE, NEGATIVE, THIRD)


@styled
def draw_forest(
    found: pd.DataFrame, by: str, *, title: str, xlabel: str, marks: pd.DataFrame | None = None, marked: str = ""
) -> Chart:
    """Slopes with their intervals: a row per model, a panel per prompt, a colour per value of `by` (Figs 3C and 3D).

    found: rows with prompt, model, slope, ci_low, ci_high and the column `by`. marks: the same without intervals, drawn
    as crosses that the legend calls `marked`. Panels share the axis, so slopes should have one unit.
    """
    prompts, models, values = (list(found[column].unique()) for column in ("prompt", "model", by))
    figure, axes = panels(1, len(prompts), 4.3, 1.2 + 0.42 * len(models), title, sharex=True, sharey=True)
    colours = dict(zip(values, itertools.cycle([SIDES.get(v, c) for v, c in zip(values, CYCLE, strict=False)])))
    offsets = dict(zip(values, np.linspace(-0.2, 0.2, len(values)) if len(values) > 1 else [0.0], strict=True))
    for panel, prompt in zip(axes[0], prompts, strict=True):
        for value in values:
            rows = found[(found["prompt"] == prompt) & (found[by] == value)]
            y = rows["model"].map(models.index) + offsets[value]
            panel.hlines(y, rows["ci_low"], rows["ci_high"], color=colours[value], linewidth=2)
            panel.plot(rows["slope"], y, "o", color=colours[value], markersize=6, label=value)
            if marks is not None:
                _crosses(panel, marks[(marks["prompt"] == prompt) & (marks[by] == value)], models, offsets[value])
        panel.axvline(0, color=GREY, linewidth=0.8)
        panel.set(title=f"prompt: {prompt}", xlabel=wrapped(xlabel, 34))
    axes[0, 0].set_yticks(range(len(models)), model_labels(models))
    axes[0, 0].set_ylim(len(models) - 0.5, -0.5)
    handles = dict(zip(*axes[0, 0].get_legend_handles_labels()[::-1], strict=True))
    if marks is not None:
        handles[marked] = mpl.lines.Line2D([], [], color="black", marker="x", linestyle="")
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
    return figure


def _crosses(axes: Axes, rows: pd.DataFrame, models: list[str], offset: float) -> None:
    rows = rows[rows["model"].isin(models)]
    axes.plot(rows["slope"], rows["model"].map(models.index) + offset, "x", color="black", markersize=6, zorder=3)


@styled
def draw_recovery(found: pd.DataFrame, *, title: str, planted: str, recovered: str) -> Chart:
    """What the regression found over what was planted, a labelled point with an interval per model.

    found: columns model, planted, slope, ci_low, ci_high, control (true for the model with nothing planted).
    """
    figure, axes = panels(1, 1, 8.5, 5, title)
    panel = axes[0, 0]
    for row in found.itertuples():
        colour = POSITIVE if row.control else THIRD
        panel.vlines(row.planted, row.ci_low, row.ci_high, color=colour, linewidth=2)
        panel.plot(row.planted, row.slope, "s" if row.control else "o", color=colour, markersize=8)
    places = np.sort(found["planted"].unique())
    for planted_value, rows in found.groupby("planted"):
        names = "\n".join(model_labels(rows.sort_values("slope", ascending=False)["model"]))
        after = places[places > planted_value]
        is_tight = len(after) > 0 and after[0] - planted_value < 0.2 * np.ptp(
            places
        )  # the next one's interval is there
        if is_tight:
            place, shift, align = rows["ci_high"].max(), (0, 4), {"ha": "center", "va": "bottom"}
        else:
            place, shift, align = rows["slope"].mean(), (9, 0), {"ha": "left", "va": "center"}
        panel.annotate(names, (planted_value, place), shift, textcoords="offset points", fontsize=11, **align)
    panel.axhline(0, color=GREY, linewidth=0.8)
    panel.margins(x=0.15)
    panel.set(xlabel=planted, ylabel=wrapped(recovered, 36))
    return figure
