"""Charts of how alike models are: what is drawn is what was found, and nothing overlaps or is cut."""

import numpy as np
import pytest

from lib import InputError
from lib.similarity import charts as similarity_charts

pytestmark = pytest.mark.filterwarnings("error")  # matplotlib warns of a missing glyph, a bad formula, a lack of room


def test_violins_mark_mean_and_median_and_print_each_models_own_moments():
    rewards = {"A": [0, 0, 0, 4], "B": np.array([0, -0.3, -0.3, -0.3])}
    figure = similarity_charts.draw_violins(rewards, title="", printed={"B": 0.5})
    axes, table = figure.axes
    medians = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata())]
    # A: mean 1, variance (1 + 1 + 1 + 9) / 4 = 3, so the median, 0, lies 1 / 3 ** .5 sd below the mean; B is A moved
    assert medians == pytest.approx([-(3**-0.5)] * 2)
    means = [line.get_xdata() for line in axes.lines if line.get_linewidth() == 2 and len(line.get_xdata()) == 2]
    assert np.array(means) == pytest.approx(np.zeros((2, 2)))
    texts = [text.get_text() for text in table.texts]
    numbers = "mean 1 −0.225 sd 1.732 0.1299 skewness +1.15 +1.15 printed  +0.50"
    assert texts == numbers.split(" ")
    with pytest.raises(InputError, match="the rewards of C are all equal"):
        similarity_charts.draw_violins({"C": [1, 1, 1]}, title="")
