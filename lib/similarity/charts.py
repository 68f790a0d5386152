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
    lines = math.ceil(len(frames) / columns)
    wide = max(7.0, (2.4 + 0.56 * most) * columns)
    high = (2.0 + 0.48 * most) * lines + 0.4 + 0.3 * len(title_lines(title, wide))
    figure = new_chart(wide, high, title)
    below = [
        frame.where(np.tri(len(frame), k=-1, dtype=bool)).iloc[1:, :-1]
        for frame in frames.values()
    ]
    cells = np.concatenate([frame.to_numpy().ravel() for frame in below])
    lowest, highest = np.nanmin(cells), np.nanmax(cells)
    # so that the highest cell is not black, and its number can be read
    limits = (lowest, highest + (0.25 * (highest - lowest) or 1.0))
    for axes, name, frame in zip(
        figure.panels(len(frames), columns), frames, below, strict=True
    ):
        charts.heat_map(axes, frame, limits=limits, numbers=".2f")
        axes.set_title(name)
    figure.supxlabel(f"{measure}; dark is high", fontsize=12)
    return figure


@styled
def draw_maps(
    maps: Mapping[str, agreement.ModelMap], models: pd.DataFrame, *, title: str
) -> Chart:
    """Draw maps of models side by side, a marker per developer, with the models' names at both
    sides (Fig 2B).
    """
    figure = new_chart(max(9, 7.2 * len(maps)), 5.6, title)
    panels = figure.panels(len(maps), len(maps))
    positions = pd.concat([mapped.positions for mapped in maps.values()])
    colours = model_colours(positions.index)
    developers = models["developer"].reindex(list(colours)).fillna("").astype(str)
    shapes = dict(zip(developers.unique(), itertools.cycle("os^DPX*v"), strict=False))
    reach = 1.1 * float(positions.abs().to_numpy().max())
    looks = {
        model: {"marker": shapes[developers[model]], "color": colour}
        for model, colour in colours.items()
    }
    for axes, (name, mapped) in zip(panels, maps.items(), strict=True):
        axes.set_title(name)
        _draw_map(axes, mapped.positions, looks, reach)
    for developer, shape in shapes.items():
        name = label(developer or "unknown", 30, blur=False)
        panels[0].scatter([], [], s=90, marker=shape, color=GREY, label=name)
    figure.legend(
        loc="outside lower center",
        title="developer",
        frameon=False,
        fontsize=12,
        ncols=6,
    )
    return figure


def _draw_map(
    axes: Axes, points: pd.DataFrame, looks: Mapping[str, dict[str, str]], reach: float
) -> None:
    """Draw models as points, with their names in two columns, each at the side of its point."""
    for model, point in points.iterrows():
        axes.scatter(*point, s=130, **looks[model])
    axes.set(xlim=(-2 * reach, 2 * reach), ylim=(-reach, reach))
    axes.set_xlabel("distance stands for 1 − tau")
    axes.set_aspect("equal")
    room = {"gap": 0.18 * reach, "within": (-0.95 * reach, 0.95 * reach)}
    for is_right, half in points.groupby(points["x"] > points["x"].mean()):
        names = list(map(model_label, half.index))
        x = reach if is_right else -reach
        charts.name_in_column(axes, names, half.to_numpy(), x, **room)
