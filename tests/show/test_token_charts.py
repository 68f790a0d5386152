"""Charts of tokens: every end is marked, nothing overlaps or is cut, whatever the tokens hold."""

import numpy as np
import pandas as pd
import pytest
from drawing import HOSTILE, TEN, TITLE, outside, overlaps, visible_texts

from lib.show import token_charts
from lib.show.figures import label
from lib.stats import rankings

pytestmark = pytest.mark.filterwarnings("error")  # matplotlib warns of a missing glyph, a bad formula, a lack of room


@pytest.fixture
def scored(score_table):
    """A score table of 400 replies, hostile ones at both ends of three prompts."""

    def make(seed: int = 0) -> pd.DataFrame:
        random = np.random.default_rng(seed)
        rewards = {"greatest": random.gamma(4, 2, 400) - 12, "best": random.normal(0, 3, 400)}
        rewards["worst"] = random.normal(-5, 0.5, 400)  # narrow, so that its two ends are near each other
        texts = [f"t{i}" for i in range(400)]
        for values in rewards.values():
            order = np.argsort(values)
            for place, text in zip([*order[:5], *order[-5:]], random.permutation(HOSTILE), strict=False):
                texts[place] = text
        return score_table(texts, **rewards)

    return make


@pytest.mark.parametrize("prompts, n", [(["greatest"], 1), (["greatest", "best", "worst"], 5)])
def test_histogram_labels_neither_overlap_nor_leave_the_figure(scored, prompts, n):
    figure = token_charts.draw_reward_histogram(scored(), prompts, nickname="R-Gem-2B", title=TITLE, n=n)
    assert overlaps(figure) == [] and outside(figure) == []


def test_histogram_marks_the_ends_and_counts_each_reply_once(score_table):
    table = score_table(["a", "b", "c", "d", "e", "f"], greatest=[0, 1, 1, 1, 2, 3])
    figure = token_charts.draw_reward_histogram(table, ["greatest"], nickname="R-Gem-2B", title="", n=2)
    axes = figure.axes[0]
    marked = {text.get_text(): text.xy[0] for text in axes.texts}
    assert marked == {"f": 3, "e": 2, "a": 0, "d": 1}  # of b, c, d, which are tied, the highest id comes last
    assert sum(bar.get_height() for bar in axes.patches) == 6
    assert axes.get_ylabel() == "distinct inputs"
    twins = table.assign(input_group=[0, 1, 1, 3, 4, 5])
    figure = token_charts.draw_reward_histogram(twins, ["greatest"], nickname="R-Gem-2B", title="", n=2)
    assert figure.axes[0].get_ylabel() == "tokens"


def test_token_grid_neither_overlaps_nor_leaves_the_figure(scored):
    tables = {name: scored(seed) for seed, name in enumerate(TEN)}
    frame = rankings.side_by_side(tables, "greatest", 10)
    figure = token_charts.draw_token_grid(frame, title=TITLE)
    assert overlaps(figure) == [] and outside(figure) == []
    shown = [text.get_text() for text in visible_texts(figure)]
    assert all(shown.count(name) == 1 for name in TEN)
    for token in pd.unique(frame.to_numpy().ravel()):
        assert shown.count(label(token, 16)) >= (frame == token).to_numpy().sum()
