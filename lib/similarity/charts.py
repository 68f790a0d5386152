"""The charts of how alike models are."""

import itertools
import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ..show import charts
from ..show.figures import (
    GREY,
    Chart,
    label,
    model_colours,
    model_label,
    new_chart,
    styled,
)
from . import agreement


@styled
def draw_matrices(
    frames: Mapping[str, pd.DataFrame],
    *,
    title: str,
    measure: str,
) -> Chart:
    """Draw models x models matrices, a panel each: the pairs below the diagonal, on one scale.

    frames: panel title -> matrix. Shades run from the lowest to the highest entry of all panels.
    """
    most = max(map(len, frames.values()))
    columns = min(2, len(frames))
    lines = math.ceil(len(frames) / columns)
    width = max(7.0, (2.4 + 0.56 * most) * columns)
    height = (2.0 + 0.48 * most) * lines
    height += 0.7 + 0.3 * title.count("\n")
    figure = new_chart(width, height, title)
    below = {name: _below_diagonal(frame) for name, frame in frames.items()}
    lowest = min(frame.min().min() for frame in below.values())
    highest = max(frame.max().max() for frame in below.values())
    # so that the highest cell is not black, and its number can be read
    room = 0.25 * (highest - lowest) or 1.0
    limits = (lowest, highest + room)
    panels = figure.panels(len(frames), columns)
    for axes, (name, frame) in zip(panels, below.items(), strict=True):
        charts.heat_map(axes, frame, limits)
        axes.set_title(name)
    figure.supxlabel(f"{measure}; dark is high", fontsize=12)
    return figure


def _below_diagonal(matrix: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs below the diagonal, without the first row and the last column."""
    is_below = np.tri(len(matrix), k=-1, dtype=bool)
    return matrix.where(is_below).iloc[1:, :-1]


@styled
def draw_maps(
    maps: Mapping[str, agreement.ModelMap],
    models: pd.DataFrame,
    *,
    title: str,
) -> Chart:
    """Draw maps of models side by side, a marker per developer, with the models' names at both
    sides (Fig 2B).
    """
    count = len(maps)
    columns = min(2, count)
    figure = new_chart(9 * columns, 1.2 + 4.4 * math.ceil(count / 2), title)
    panels = figure.panels(count, columns)
    positions = pd.concat([mapped.positions for mapped in maps.values()])
    farthest = positions.abs().to_numpy().max()
    reach = 1.1 * float(farthest)
    colours = model_colours(positions.index)
    developers = models["developer"].reindex(list(colours))
    developers = developers.fillna("").astype(str)
    all_shapes = itertools.cycle("os^DPX*v")
    shapes = dict(zip(developers.unique(), all_shapes, strict=False))
    looks = {}
    for model, colour in colours.items():
        shape = shapes[developers[model]]
        looks[model] = {"marker": shape, "color": colour}
    for axes, (name, mapped) in zip(panels, maps.items(), strict=True):
        axes.set_title(name)
        _draw_map(axes, mapped.positions, looks, reach)
    _name_developers(figure, panels[0], shapes)
    return figure


def _name_developers(figure: Chart, axes: Axes, shapes: Mapping[str, str]) -> None:
    """Write the legend of the developers' markers."""
    for developer, shape in shapes.items():
        name = label(developer or "unknown", 30, blur=False)
        axes.scatter([], [], s=90, marker=shape, color=GREY, label=name)
    figure.legend(
        loc="outside lower center",
        title="developer",
        frameon=False,
        fontsize=12,
        ncols=6,
    )


def _draw_map(
    axes: Axes,
    points: pd.DataFrame,
    looks: Mapping[str, dict[str, str]],
    reach: float,
) -> None:
    """Draw models as points, with their names in two columns, each at the side of its point."""
    for model, point in points.iterrows():
        axes.scatter(*point, s=130, **looks[model])
    axes.set(xlim=(-2 * reach, 2 * reach), ylim=(-reach, reach))
    axes.set_xlabel("distance stands for 1 − tau")
    axes.set_aspect("equal")
    is_right = points["x"] > points["x"].mean()
    for right, half in points.groupby(is_right):
        charts.name_in_column(
            axes,
            list(map(model_label, half.index)),
            half.to_numpy(),
            reach if right else -reach,
            gap=0.18 * reach,
            within=(-0.95 * reach, 0.95 * reach),
        )
