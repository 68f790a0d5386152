"""Charts of how alike models are: every model is named, and no name overlaps another or is cut."""

import pandas as pd
import pytest
from drawing import TEN, outside, overlaps, visible_texts

from lib.similarity import charts as similarity_charts
from lib.similarity.agreement import ModelMap

pytestmark = pytest.mark.filterwarnings("error")  # matplotlib warns of a missing glyph, a bad formula, a lack of room


def test_models_that_lie_on_one_point_are_named_apart():
    models = pd.DataFrame({"developer": ["D", "E"] * 5}, TEN)
    maps = {"together": ModelMap(pd.DataFrame({"x": 0.3, "y": 0.1}, TEN), 0.0)}
    maps["apart"] = ModelMap(pd.DataFrame({"x": range(10), "y": [0, 9] * 5}, TEN) / 10.0, 0.0)
    figure = similarity_charts.draw_maps(maps, models, title="T")
    assert overlaps(figure) == [] and outside(figure) == []
    shown = [text.get_text() for text in visible_texts(figure)]
    assert all(shown.count(name) == 2 for name in TEN)
