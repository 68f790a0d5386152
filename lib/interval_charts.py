"""Charts of estimates with their intervals: a forest of slopes, and what was recovered over what was planted."""

import itertools
import textwrap

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from lib.figures import DENSE_TITLE, GREY, SIDES, THIRD, Chart, model_label, new_chart, styled

# Colour, marker and face of values that are no sign: told apart by mark and lightness, since hue is kept for signs.
VALUE_STYLES = (("black", "o", "black"), (GREY, "s", GREY), ("black", "D", "white"))


@styled
def draw_forest(slopes: pd.DataFrame, by: str, *, title: str, xlabel: str) -> Chart:
    """Slopes with their intervals: a row per model, a panel per prompt, a mark per value of `by`.

    slopes: rows with prompt, model, slope, ci_low, ci_high and the column `by`; signs, `positive` and `negative`, have
    their colours. Panels share the axis, so slopes should have one unit.
    """
    prompts, models, values = (list(slopes[column].unique()) for column in ("prompt", "model", by))
    figure = new_chart(4.3 * len(prompts), 2.0 + 0.42 * len(models), title, DENSE_TITLE)
    panels = figure.subplots(1, len(prompts), squeeze=False, sharex=True, sharey=True)[0]
    styles = {value: _style_of(value, style) for value, style in zip(values, itertools.cycle(VALUE_STYLES))}
    offsets = dict(zip(values, np.linspace(-0.2, 0.2, len(values)) if len(values) > 1 else [0.0], strict=True))
    for panel, prompt in zip(panels, prompts, strict=True):
        for value in values:
            rows = slopes[(slopes["prompt"] == prompt) & (slopes[by] == value)]
            _intervals(panel, rows, models, offsets[value], styles[value], value)
        panel.axvline(0, color=GREY, linewidth=0.8)
        panel.set(title=f"prompt: {prompt}", xlabel=_lines(xlabel, 34))
    panels[0].set_yticks(range(len(models)), [model_label(name) for name in models])
    panels[0].set_ylim(len(models) - 0.5, -0.5)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _style_of(value: str, otherwise: tuple[str, str, str]) -> tuple[str, str, str]:
    return (SIDES[value], "o", SIDES[value]) if value in SIDES else otherwise


def _intervals(
    axes: Axes, rows: pd.DataFrame, models: list[str], offset: float, style: tuple[str, str, str], name: str
) -> None:
    colour, marker, face = style
    heights = rows["model"].map(models.index) + offset
    axes.hlines(heights, rows["ci_low"], rows["ci_high"], color=colour, linewidth=2)
    axes.plot(rows["slope"], heights, marker, color=colour, markerfacecolor=face, markersize=6, label=name)


@styled
def draw_recovery(slopes: pd.DataFrame, *, title: str, planted: str, recovered: str) -> Chart:
    """What the regression found over what was planted, a labelled point with an interval per model.

    slopes: columns model, planted, slope, ci_low, ci_high, control (true where nothing was planted: drawn open).
    """
    figure = new_chart(8.5, 5.8, title, DENSE_TITLE)
    axes = figure.subplots()
    for row in slopes.itertuples():
        marker, face = ("s", "white") if row.control else ("o", THIRD)
        axes.vlines(row.planted, row.ci_low, row.ci_high, color=THIRD, linewidth=2)
        axes.plot(row.planted, row.slope, marker, color=THIRD, markerfacecolor=face, markersize=8, zorder=3)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.margins(x=0.2)
    _name_models(axes, slopes)
    axes.set(xlabel=planted, ylabel=_lines(recovered, 36))
    return figure


def _name_models(axes: Axes, slopes: pd.DataFrame) -> None:
    """A leader from each point to its name: to the left, or above where the planted value before is near.

    Of the last value names stand to the right, and of the first, if the next is not near.
    """
    planted, width = np.sort(slopes["planted"].unique()), np.diff(axes.get_xlim())[0]
    apart, near = 0.05 * np.diff(axes.get_ylim())[0], np.append(np.diff(planted) < 0.16 * width, False)
    for number, (value, rows) in enumerate(slopes.sort_values("slope").groupby("planted")):
        is_free = number in (0, len(planted) - 1) and not near[number]  # on the right
        heights, side = _spread(rows["slope"].to_numpy(), apart), 1 if is_free else -1
        if side < 0 and number and near[number - 1]:
            heights, side = rows["ci_high"].max() + apart * np.arange(1, len(rows) + 1), 0
        for row, height in zip(rows.itertuples(), heights, strict=True):
            place = (value + side * 0.03 * width, height)
            axes.annotate(model_label(row.model), (value, row.slope), place, fontsize=11, va="center",
                          ha={-1: "right", 0: "center", 1: "left"}[side],
                          arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.8})  # fmt: skip


def _spread(heights: np.ndarray, apart: float) -> np.ndarray:
    """Heights in the same order, lowest first, at least `apart` from each other, about the same middle."""
    placed = heights.copy()
    for number in range(1, len(placed)):
        placed[number] = max(placed[number], placed[number - 1] + apart)
    return placed - (placed - heights).mean()


def _lines(text: str, characters: int) -> str:
    return textwrap.fill(text, characters, break_on_hyphens=False)
