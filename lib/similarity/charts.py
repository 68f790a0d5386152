"""The charts of how alike models are."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from ..show import charts
from ..show.figures import (
    Chart,
    new_chart,
    styled,
)


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
