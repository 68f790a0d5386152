"""Charts of estimates with their intervals: every estimate is drawn where it belongs, and names stand apart."""

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from lib.show import charts

BY_SIGN = charts.Forest(marks="sign", estimate="slope")


def slopes(prompts=("best", "worst"), models=("M", "N"), signs=("positive", "negative")):
    keys = pd.MultiIndex.from_product([prompts, models, signs], names=["prompt", "model", "sign"])
    found = pd.DataFrame({"slope": np.arange(len(keys), dtype=float)}, keys).reset_index()
    return found.assign(ci_low=found["slope"] - 1, ci_high=found["slope"] + 1)


def drawn(axes, marker):
    return sorted(x for line in axes.lines if line.get_marker() == marker for x in line.get_xdata())


def test_a_forest_shows_every_slope_in_the_panel_of_its_prompt():
    figure = charts.draw_forest(slopes(), BY_SIGN, title="T", xlabel="x")
    best, worst = figure.axes[:2]
    assert drawn(best, "o") == [0, 1, 2, 3] and drawn(worst, "o") == [4, 5, 6, 7]
    assert [label.get_text() for label in best.get_yticklabels()] == ["M", "N"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["positive", "negative"]
    heights = [y for line in best.lines if line.get_marker() == "o" for y in line.get_ydata()]
    assert len(set(heights)) == 4  # no point hides another


def test_values_that_are_no_sign_are_told_apart_without_hue():
    figure = charts.draw_forest(slopes(signs=("alone", "held", "bent")), BY_SIGN, title="T", xlabel="x")
    marks = [line for line in figure.axes[0].lines if line.get_marker() in "osD"]
    assert [line.get_marker() for line in marks] == ["o", "s", "D"]
    assert all(len(set(to_rgb(line.get_color()))) == 1 for line in marks)  # black or grey


def test_recovery_marks_the_control():
    found = pd.DataFrame({"model": ["M", "N"], "planted": [0.5, 0.0], "slope": [0.4, 0.1], "ci_low": [0.3, 0.0],
                          "ci_high": [0.5, 0.2], "control": [False, True]})  # fmt: skip
    figure = charts.draw_recovery(found, title="T", planted="p", recovered="r")
    squares = [line for line in figure.axes[0].lines if line.get_marker() == "s"]
    assert [list(line.get_ydata()) for line in squares] == [[0.1]]
    assert {text.get_text() for text in figure.axes[0].texts} == {"M", "N"}


def test_the_names_of_models_with_planted_values_near_each_other_stand_apart():
    names = ["E-Gem-64", "A-Gem-48", "D-Lla-48", "B-Gem-64"]
    slopes = pd.DataFrame({"model": names, "planted": [0.0, 0.3, 0.35, 0.4], "slope": [0.0, 0.3, 0.3, 0.3]})
    slopes = slopes.assign(ci_low=slopes["slope"] - 0.1, ci_high=slopes["slope"] + 0.1, control=False)
    figure = charts.draw_recovery(slopes, title="T", planted="p", recovered="r")
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text).padded(2.5) for text in figure.axes[0].texts]  # a gap of at least 5 pixels
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_a_heat_map_shows_the_cells_that_are_there():
    matrix = pd.DataFrame([[np.nan, 0.5], [0.25, np.nan]], ["M", "N"], ["M", "N"])
    figure, [axes] = charts.row_of_panels(["P"], height=3, title="T")
    charts.heat_map(axes, matrix)
    assert [text.get_text() for text in axes.texts] == ["0.50", "0.25"]
    assert [label.get_text() for label in [*axes.get_yticklabels(), *axes.get_xticklabels()]] == ["M", "N"] * 2


def test_dots_of_a_swarm_stay_apart_and_keep_their_values():
    _, [axes] = charts.row_of_panels(["P"], height=3, title="T")
    charts.swarms(axes, {1.0: np.array([3.0, 1.0, 1.0, 1.0])}, "black")
    places, values = axes.lines[0].get_data()
    assert list(values) == [1, 1, 1, 3] and np.allclose(places, [0.8667, 1.0, 1.1333, 1.0], atol=1e-3)


def test_labels_are_spread_without_changing_their_order():
    assert charts.spread(np.array([1.0, 5, 9]), 2, 0, 10).tolist() == [1, 5, 9]  # far apart already
    assert charts.spread(np.array([5.0, 5, 5]), 2, 0, 10).tolist() == [5, 7, 9]
    assert charts.spread(np.array([10.0, 9.5, 10]), 2, 0, 10).tolist() == [8, 6, 10]
    found = charts.spread(np.random.default_rng(9).uniform(0, 10, 5), 2, 0, 10)
    assert np.diff(np.sort(found)).min() == pytest.approx(2) or np.diff(np.sort(found)).min() > 2
    assert found.min() >= 0 and found.max() <= 10
