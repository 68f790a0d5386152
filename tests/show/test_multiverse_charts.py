"""Charts of specifications: every one and its options are drawn on its side, and texts stand apart."""

import numpy as np
import pandas as pd
import pytest
from drawing import TITLE, outside, overlaps
from matplotlib.colors import to_rgba

from lib.show import multiverse_charts
from lib.show.multiverse_charts import SIDE_COLOURS
from lib.stats import multiverse

CHOICES = {"lexicon": ["AFINN", "VADER", "a $lexicon$"], "scale": ["raw", "standardised"], "wordings": [1, 27]}
OURS = {"lexicon": "VADER", "scale": "standardised", "wordings": 1}


@pytest.fixture
def table():
    random = np.random.default_rng(0)

    def estimate(chosen):
        middle = {"AFINN": -0.3, "VADER": 0.3}.get(chosen["lexicon"], 0.0) + random.normal(0, 0.02)
        return middle, middle - 0.1, middle + 0.1

    return multiverse.run(CHOICES, estimate).assign(size=0.05)


def heights(axes, side):
    """Return the heights of the bars of one side: histograms x bins."""
    drawn = [steps.get_data() for steps in axes.patches if steps.get_facecolor() == to_rgba(SIDE_COLOURS[side])]
    return np.array([data.values - data.baseline for data in drawn])


def test_all_specifications_are_counted_by_side_and_two_are_marked(table):
    figure = multiverse_charts.draw_specifications(table, TITLE, ours=OURS, papers=OURS | {"scale": "raw"})
    above, board = figure.axes
    assert [heights(above, side).sum() for side in SIDE_COLOURS] == [4, 4, 4]  # VADER, the third, AFINN
    starts = above.patches[0].get_data().edges[:-1]
    assert starts[heights(above, "for")[0] > 0].min() > 0  # the estimates for the claim are the positive ones
    marks = {line.get_label(): line.get_xdata()[0] for line in above.lines if line.get_marker() in ("D", "o")}
    own = multiverse.chosen(table, OURS)["estimate"].iloc[0]
    assert marks[multiverse_charts.OURS] == own != marks[multiverse_charts.PAPERS]
    # An option's row is as high as its fullest bin; AFINN has one side only.
    of_afinn = {side: heights(board, side)[0] for side in SIDE_COLOURS}
    assert [side for side in SIDE_COLOURS if of_afinn[side].any()] == ["against"]
    assert of_afinn["against"].min() == pytest.approx(-0.8)


def test_the_board_says_shares_of_what_counts(table):
    board = multiverse_charts.draw_specifications(table, "T").axes[1]
    texts = [text.get_text() for text in board.texts]
    assert "lexicon" in texts and "counted: for, against" in texts
    assert texts.count("4: 0%, 100%") == 1 and texts.count("4: 100%, 0%") == 1  # AFINN, VADER
    never = multiverse_charts.draw_specifications(table.assign(size=0.4), "T").axes[1]
    assert not any("%" in text.get_text() for text in never.texts)  # what reports an effect too often does not count


def test_one_specification_in_another_unit_does_not_flatten_the_others(table):
    many = pd.concat([table] * 20, ignore_index=True)
    wild = pd.concat([many, many.head(1).assign(estimate=900.0)], ignore_index=True)
    above = multiverse_charts.draw_specifications(wild, "T").axes[0]
    low, high = above.get_xlim()
    assert -1 < low < high < 1
    assert sum(heights(above, side).sum() for side in SIDE_COLOURS) == len(wild)  # it stands at the edge


COUNTS = pd.DataFrame({"reproduced": [2, 5], "undecided": [7, 0]}, ["recomputed", "counted"])


def test_verdicts_are_counted_by_evidence():
    axes = multiverse_charts.draw_counts(COUNTS, TITLE).axes[0]
    widths = [[bar.get_width() for bar in bars] for bars in axes.containers]
    assert np.transpose(widths).tolist() == COUNTS.to_numpy().tolist()
    assert sorted(text.get_text() for text in axes.texts) == ["2", "5", "7"]  # nothing stands for none


def test_texts_do_not_overlap_and_none_is_cut_off(table):
    charts = [multiverse_charts.draw_specifications(table, TITLE, ours=OURS, xlabel="gap, SD per point"),
              multiverse_charts.draw_counts(COUNTS, TITLE)]  # fmt: skip
    for figure in charts:
        assert overlaps(figure) == [] and outside(figure) == []
