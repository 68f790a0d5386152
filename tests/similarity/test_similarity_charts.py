"""Charts of how alike models are: what is drawn is what was found, and nothing overlaps or is cut."""

import numpy as np
import pandas as pd
import pytest
from drawing import TEN, TITLE, outside, overlaps

from lib import InputError
from lib.similarity import agreement
from lib.similarity import charts as similarity_charts

pytestmark = pytest.mark.filterwarnings("error")  # matplotlib warns of a missing glyph, a bad formula, a lack of room


@pytest.mark.parametrize("count", [2, 10])
def test_matrix_prints_every_pair_and_nothing_overlaps(count):
    names = [f"Model-{i}-with-a-name" for i in range(count)]
    values = np.random.default_rng(0).uniform(0.1, 0.9, (count, count))
    figure = similarity_charts.draw_matrices(
        {"": pd.DataFrame(values, names, names)}, title="Models agree somewhat", measure="tau"
    )
    printed = [text.get_text() for text in figure.axes[0].texts]
    assert sorted(printed) == sorted(f"{values[i, j]:.2f}" for i in range(count) for j in range(i))  # each pair once
    assert not overlaps(figure)
    assert not outside(figure)


def made_up_rewards(names):
    random = np.random.default_rng(0)
    return {name: 10.0 ** (i % 4) * random.gamma(2, size=400) - 30 * (i % 3) for i, name in enumerate(names)}


@pytest.mark.parametrize("names", [TEN[:1], TEN, ["a $x$ model", *TEN[:6]]])
def test_violins_neither_overlap_nor_leave_the_figure(names):
    figure = similarity_charts.draw_violins(made_up_rewards(names), title=TITLE, printed={"R-Lla-8B": 0.5})
    assert overlaps(figure) == [] and outside(figure) == []


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


def test_matrices_have_one_scale_so_that_panels_can_be_compared():
    near = pd.DataFrame([[1, 0.50, 0.51], [0.50, 1, 0.52], [0.51, 0.52, 1]], list("abc"), list("abc"))
    figure = similarity_charts.draw_matrices({"near": near, "far": near - 0.4}, title=TITLE, measure="tau")
    shades = [axes.collections[0].get_facecolors()[:, 0] for axes in figure.axes]
    assert shades[0][[0, 2, 3]].max() < shades[1][[0, 2, 3]].min()  # a higher entry is darker in either panel
    assert [label.get_color() for label in figure.axes[0].get_xticklabels()] == ["black"] * 2
    assert overlaps(figure) == [] and outside(figure) == []


def made_up_map(names, seed):
    points = np.random.default_rng(seed).normal(scale=0.3, size=(len(names), 2))
    return agreement.ModelMap(pd.DataFrame(points, names, ["x", "y"]), 0.1)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("names", [TEN, TEN[:2], [f"a model of one's own {i}" for i in range(6)]])
def test_names_on_the_map_neither_overlap_nor_leave_the_figure(names, seed):
    models = pd.DataFrame({"developer": [name[:1] for name in names]}, names)
    figure = similarity_charts.draw_maps({"": made_up_map(names, seed)}, models, title=TITLE)
    assert overlaps(figure) == [] and outside(figure) == []


def test_the_map_has_one_scale_and_every_model_at_its_place():
    found = made_up_map(TEN, 0)
    figure = similarity_charts.draw_maps({"": found}, pd.DataFrame({"developer": ""}, TEN), title="")
    axes = figure.axes[0]
    assert axes.get_aspect() == 1
    drawn = np.vstack([np.asarray(points.get_offsets()) for points in axes.collections])
    assert {tuple(point) for point in found.positions.to_numpy()} <= {tuple(map(float, point)) for point in drawn}
    assert {text.get_text(): tuple(text.xy) for text in axes.texts} == {
        name: tuple(point) for name, point in zip(TEN, found.positions.to_numpy(), strict=True)
    }
