"""The charts of how alike models are."""

import itertools
from collections.abc import Mapping

import numpy as np
import pandas as pd

from ..show import charts
from ..show.figures import (
    GREY,
    Chart,
    label,
    model_colours,
    model_label,
    new_chart,
    styled,
    title_lines,
)
from . import agreement


@styled
def draw_matrices(
    frames: Mapping[str, pd.DataFrame], *, title: str, measure: str, columns: int = 2
) -> Chart:
    """Draw models x models matrices, a panel each: the pairs below the diagonal, on one scale.

    frames: panel title -> matrix. Shades run from the lowest to the highest entry of all panels.
    columns: panels beside each other; further ones stand below.
    """
    most = max(map(len, frames.values()))
    columns = min(columns, len(frames))
    lines = -(-len(frames) // columns)
    wide = max(7.0, (2.4 + 0.56 * most) * columns)
    high = (2.0 + 0.48 * most) * lines + 0.4 + 0.3 * len(title_lines(title, wide))
    figure = new_chart(wide, high, title)
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for unused in panels[len(frames) :]:
        unused.set_axis_off()
    panels = panels[: len(frames)]
    below = {
        name: frame.where(np.tri(len(frame), k=-1, dtype=bool)).iloc[1:, :-1]
        for name, frame in frames.items()
    }
    low, high = (
        limit([limit(frame) for frame in below.values()]) for limit in (np.nanmin, np.nanmax)
    )
    # so that the highest cell is not black, and its number can be read
    room = 0.25 * (high - low) or 1.0
    for axes, (name, frame) in zip(panels, below.items(), strict=True):
        charts.heat_map(axes, frame, limits=(low, high + room), numbers=".2f")
        axes.set_title(name)
    figure.supxlabel(f"{measure}; dark is high", fontsize=12)
    return figure


@styled
def draw_maps(maps: Mapping[str, agreement.ModelMap], models: pd.DataFrame, *, title: str) -> Chart:
    """Draw maps of models side by side, a marker per developer, with the models' names at both
    sides (Fig 2B).
    """
    figure = new_chart(max(9, 7.2 * len(maps)), 5.6, title)
    panels = figure.subplots(1, len(maps), squeeze=False)[0]
    names = [name for model_map in maps.values() for name in model_map.positions.index]
    colours = model_colours(names)
    developers = models["developer"].reindex(list(dict.fromkeys(names))).fillna("").astype(str)
    shapes = dict(zip(dict.fromkeys(developers), itertools.cycle("os^DPX*v"), strict=False))
    reach = 1.1 * max(float(mapped.positions.abs().to_numpy().max()) for mapped in maps.values())
    for axes, (name, mapped) in zip(panels, maps.items(), strict=True):
        points = mapped.positions
        for model, point in points.iterrows():
            axes.scatter(*point, s=130, marker=shapes[developers[model]], color=colours[model])
        axes.set(
            title=name,
            xlim=(-2 * reach, 2 * reach),
            ylim=(-reach, reach),
            xlabel="distance stands for 1 − tau",
        )
        axes.set_aspect("equal")
        for is_right, half in points.groupby(points["x"] > points["x"].mean()):
            labels, x = list(map(model_label, half.index)), reach if is_right else -reach
            within = (-0.95 * reach, 0.95 * reach)
            charts.name_in_column(axes, labels, half.to_numpy(), x, gap=0.18 * reach, within=within)
    for developer, shape in shapes.items():
        panels[0].scatter(
            [],
            [],
            s=90,
            marker=shape,
            color=GREY,
            label=label(developer or "unknown", 30, blur=False),
        )
    figure.legend(
        loc="outside lower center", title="developer", frameon=False, fontsize=12, ncols=6
    )
    return figure
