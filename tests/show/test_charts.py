"""Charts of estimates with their intervals: every estimate is drawn where it belongs, and names
stand apart.
"""

import numpy as np
import pandas as pd

from lib.show import charts


def test_a_forest_shows_every_estimate_in_the_panel_of_its_prompt():
    levels = [("best", "worst"), ("M", "N"), ("none", "all")]
    keys = pd.MultiIndex.from_product(levels, names=["prompt", "model", "control"])
    rows = pd.DataFrame({"slope": np.arange(8.0)}, keys).reset_index()
    rows = rows.assign(ci_low=rows["slope"] - 1, ci_high=rows["slope"] + 1)
    look = {"marks": "control", "title": "T", "xlabel": "x"}
    figure = charts.draw_forest(rows, "slope", **look)
    drawn = {"o": [[], []], "s": [[], []]}
    heights = set()
    for panel, axes in enumerate(figure.axes[:2]):
        for line in axes.lines:
            if line.get_marker() in drawn:
                drawn[line.get_marker()][panel] += list(line.get_xdata())
                heights |= set(line.get_ydata())
    assert drawn == {"o": [[0, 2], [4, 6]], "s": [[1, 3], [5, 7]]}
    assert len(heights) == 4  # no point hides another
