"""Charts of tokens: nothing overlaps or is cut, whatever the tokens hold."""

import pandas as pd
import pytest
from drawing import HOSTILE, TEN, TITLE, outside, overlaps, visible_texts

from lib.show import token_charts
from lib.show.figures import label

# matplotlib warns of a missing glyph, a bad formula, a lack of room
pytestmark = pytest.mark.filterwarnings("error")


def test_token_grid_neither_overlaps_nor_leaves_the_figure():
    places = pd.MultiIndex.from_product([["optimal", "pessimal"], range(1, 11)])
    frame = pd.DataFrame(dict.fromkeys(TEN, HOSTILE), places)
    figure = token_charts.draw_token_grid(frame, title=TITLE)
    assert overlaps(figure) == [] and outside(figure) == []
    shown = [text.get_text() for text in visible_texts(figure)]
    assert all(shown.count(name) == 1 for name in TEN)
    assert all(shown.count(label(token, 16)) >= 10 for token in HOSTILE)
