"""Charts of how alike models are: every model is named, and no name overlaps another or is cut."""

import itertools

import pandas as pd
import pytest
from drawing import TEN
from matplotlib.text import Text

from lib.similarity import charts as similarity_charts
from lib.similarity.agreement import ModelMap

# matplotlib warns of a missing glyph, a bad formula, a lack of room
pytestmark = pytest.mark.filterwarnings("error")


def test_models_that_lie_on_one_point_are_named_apart():
    models = pd.DataFrame({"developer": ["D", "E"] * 5}, TEN)
    maps = {"together": ModelMap(pd.DataFrame({"x": 0.3, "y": 0.1}, TEN), 0.0)}
    maps["apart"] = ModelMap(
        pd.DataFrame({"x": range(10), "y": [0, 9] * 5}, TEN) / 10.0, 0.0
    )
    figure = similarity_charts.draw_maps(maps, models, title="T")
    figure.draw_without_rendering()
    for axes in figure.axes:
        assert sorted(text.get_text() for text in axes.texts) == sorted(TEN)
        # without the lines to their points
        boxes = [Text.get_window_extent(text) for text in axes.texts]
        assert not any(
            one.overlaps(other) for one, other in itertools.combinations(boxes, 2)
        )
        assert all(
            axes.bbox.padded(4).contains(*corner)
            for box in boxes
            for corner in (box.min, box.max)
        )
