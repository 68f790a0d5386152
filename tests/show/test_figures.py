"""Figures: a token cannot act on one, titles fit, equal figures are equal files, colours are
stable.
"""

import pandas as pd
import pytest
from drawing import HOSTILE, TEN, pixels
from IPython.core.formatters import DisplayFormatter
from matplotlib.figure import Figure

from lib import ROOT
from lib.show import figures
from lib.show.figures import label, model_colours, save
from lib.show.token_charts import draw_token_grid
from lib.tables.collection import Collection

# matplotlib warns of a missing glyph, a bad formula, a lack of room
pytestmark = pytest.mark.filterwarnings("error")

ENDS = pd.MultiIndex.from_tuples([("optimal", 1), ("pessimal", 1)])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize("token", HOSTILE)
def test_a_label_draws_like_the_same_characters_with_formulas_off(token):
    """Whatever a token holds, matplotlib prints it as plain characters, and knows each of them."""
    drawn = []
    for text, formulas in (
        (label(token), True),
        (label(token).replace(r"\$", "$"), False),
    ):
        figure = Figure(figsize=(4, 1))
        figure.text(0.1, 0.5, text, parse_math=formulas, family=figures.FONT)
        drawn.append(pixels(figure))
    assert (drawn[0] == drawn[1]).all()
    assert (drawn[0] != 255).any()


def test_labels_say_what_the_font_lacks_and_hide_what_offends():
    assert label("爱情") == "⟨U+7231 U+60C5⟩"
    assert label("$x$") == r"\$x\$"
    offensive = pd.read_csv(ROOT / "data" / "paper" / "table_2.csv").set_index(
        "token_id"
    )["decoded"][106863]
    assert label(offensive) == "▒▒▒⟨7⟩" and label(offensive, blur=False) == offensive


def test_what_a_figure_says_goes_with_it_into_the_notebook(folder):
    figure = draw_token_grid(
        pd.DataFrame({"R-Gem-2B": ["love", "war"]}, ENDS), title="A"
    )
    save(figure, Collection("mine"), "b", alt="R-Gem-2B spreads\n from 0 to 8.")
    data, metadata = DisplayFormatter().format(figure)
    assert metadata == {
        "image/png": {"alt": "R-Gem-2B spreads from 0 to 8.", "file": "b.png"}
    }
    assert (
        data["text/plain"] == "figure: R-Gem-2B spreads from 0 to 8."
        and data["image/png"]
    )


def test_the_same_figure_gives_the_same_file_without_date_or_version(folder):
    def draw() -> bytes:
        chart = draw_token_grid(
            pd.DataFrame(dict.fromkeys(TEN[:2], ["love", "war"]), ENDS), title="A"
        )
        return save(chart, Collection("mine"), "tokens").read_bytes()

    first, second = draw(), draw()
    assert first == second
    assert b"tEXt" not in first and b"tIME" not in first and b"atplotlib" not in first
    assert [path.name for path in (folder / "figures" / "mine").iterdir()] == [
        "tokens.png"
    ]


def test_a_model_has_one_colour_whatever_it_is_shown_with():
    colours = model_colours(TEN)
    assert list(colours) == TEN and len(set(colours.values())) == 10
    assert model_colours(["R-Gem-2B"]) == {"R-Gem-2B": colours["R-Gem-2B"]}
    several = set(model_colours([f"m{i}" for i in range(9)]).values())
    assert len(several) == 9 and not several & set(colours.values())
