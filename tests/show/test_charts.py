"""Charts of estimates with their intervals: every estimate is drawn where it belongs, and names
stand apart.
"""

import numpy as np
import pandas as pd
import pytest

from lib.show import charts

BY_SIGN = charts.Forest(marks="sign", estimate="slope")


def slopes(
    prompts=("best", "worst"), models=("M", "N"), signs=("positive", "negative")
):
    keys = pd.MultiIndex.from_product(
        [prompts, models, signs], names=["prompt", "model", "sign"]
    )
    found = pd.DataFrame(
        {"slope": np.arange(len(keys), dtype=float)}, keys
    ).reset_index()
    return found.assign(ci_low=found["slope"] - 1, ci_high=found["slope"] + 1)


def drawn(axes, marker):
    return sorted(
        x
        for line in axes.lines
        if line.get_marker() == marker
        for x in line.get_xdata()
    )


def test_a_forest_shows_every_slope_in_the_panel_of_its_prompt():
    figure = charts.draw_forest(slopes(), BY_SIGN, title="T", xlabel="x")
    best, worst = figure.axes[:2]
    assert drawn(best, "o") == [0, 1, 2, 3] and drawn(worst, "o") == [4, 5, 6, 7]
    assert [label.get_text() for label in best.get_yticklabels()] == ["M", "N"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "positive",
        "negative",
    ]
    heights = [
        y for line in best.lines if line.get_marker() == "o" for y in line.get_ydata()
    ]
    assert len(set(heights)) == 4  # no point hides another


def test_labels_are_spread_without_changing_their_order():
    # far apart already
    assert charts.spread(np.array([1.0, 5, 9]), 2, 0, 10).tolist() == [1, 5, 9]
    assert charts.spread(np.array([5.0, 5, 5]), 2, 0, 10).tolist() == [5, 7, 9]
    assert charts.spread(np.array([10.0, 9.5, 10]), 2, 0, 10).tolist() == [8, 6, 10]
    found = charts.spread(np.random.default_rng(9).uniform(0, 10, 5), 2, 0, 10)
    assert (
        np.diff(np.sort(found)).min() == pytest.approx(2)
        or np.diff(np.sort(found)).min() > 2
    )
    assert found.min() >= 0 and found.max() <= 10
