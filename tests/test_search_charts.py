"""Charts of searches: the best swaps are marked, every run is a step line, every method a line with its own look."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from drawing import outside, overlaps

from lib.search import charts as search_charts
from lib.search.optimality import OURS


def test_the_best_swaps_by_prediction_and_by_truth_are_marked_and_named():
    gains, true = np.array([0.1, 2.0, -1.0]), np.array([0.3, -0.5, 1.5])
    figure = search_charts.draw_predicted_and_true(gains, true, ["a", "b", "$c$"], title="T")
    [axes] = figure.axes
    marked = {text.get_text(): tuple(text.xy) for text in axes.texts}
    assert marked == {"predicted best: b": (2.0, -0.5), r"truly best: \$c\$": (-1.0, 1.5)}


def test_every_search_is_a_step_line_in_the_panel_of_its_direction():
    runs = [
        SimpleNamespace(direction="optimal", trace=[(1, -2.0), (5, 3.0)], evaluations=9, reward=3.0),
        SimpleNamespace(direction="pessimal", trace=[(1, -2.0)], evaluations=7, reward=-4.0),
    ]
    figure = search_charts.draw_searches({"love": runs}, title="T")
    drawn = {axes.get_title(loc="left"): [line.get_xydata().tolist() for line in axes.lines] for axes in figure.axes}
    assert drawn == {"optimal": [[[1, -2], [5, 3], [9, 3]]], "pessimal": [[[1, -2], [7, -4]]]}


@pytest.fixture
def summary() -> pd.DataFrame:
    keys = [list(search_charts.METHOD_LINES), list(search_charts.DIRECTIONS), [64, 1024]]
    index = pd.MultiIndex.from_product(keys, names=["method", "direction", "budget"])
    share = np.linspace(0, 1, len(index))
    return pd.DataFrame({"share": share, "ci_low": share - 0.1, "ci_high": share + 0.1}, index).sort_index()


def test_every_method_is_a_line_of_its_own_look_and_ours_has_a_band(summary):
    figure = search_charts.draw_optimality(summary, title="T")
    for axes in figure.axes:
        lines = {line.get_label(): line for line in axes.lines if line.get_label() in search_charts.METHOD_LINES}
        assert list(lines) == list(search_charts.METHOD_LINES)
        for method, line in lines.items():
            share = summary["share"][method, axes.get_title(loc="left")]
            assert line.get_xydata().tolist() == [list(point) for point in share.items()]
        assert len({(line.get_color(), line.get_linestyle()) for line in lines.values()}) == len(lines)
        [band] = axes.collections
        low = summary.loc[(OURS, axes.get_title(loc="left")), "ci_low"].min()
        assert band.get_paths()[0].vertices[:, 1].min() == pytest.approx(low)
    assert overlaps(figure) == [] and outside(figure) == []
