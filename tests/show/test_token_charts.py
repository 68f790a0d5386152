"""Charts of tokens: nothing overlaps or is cut, whatever the tokens hold."""

import numpy as np
import pandas as pd
import pytest
from drawing import HOSTILE, TEN, TITLE, outside, overlaps, visible_texts

from lib.show import token_charts
from lib.show.figures import label
from lib.stats import rankings

# matplotlib warns of a missing glyph, a bad formula, a lack of room
pytestmark = pytest.mark.filterwarnings("error")


def scored(score_table, seed: int) -> pd.DataFrame:
    """A score table of 400 replies, hostile ones at both ends."""
    random = np.random.default_rng(seed)
    rewards, texts = random.gamma(4, 2, 400), [f"t{i}" for i in range(400)]
    order = np.argsort(rewards)
    for place, text in zip(
        [*order[:5], *order[-5:]], random.permutation(HOSTILE), strict=False
    ):
        texts[place] = text
    return score_table(texts, greatest=rewards)


def test_token_grid_neither_overlaps_nor_leaves_the_figure(score_table):
    tables = {name: scored(score_table, seed) for seed, name in enumerate(TEN)}
    frame = rankings.side_by_side(tables, "greatest", 10)
    figure = token_charts.draw_token_grid(frame, title=TITLE)
    assert overlaps(figure) == [] and outside(figure) == []
    shown = [text.get_text() for text in visible_texts(figure)]
    assert all(shown.count(name) == 1 for name in TEN)
    for token in pd.unique(frame.to_numpy().ravel()):
        assert shown.count(label(token, 16)) >= (frame == token).to_numpy().sum()
