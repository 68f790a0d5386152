"""Figures: a token cannot act on one, titles fit, equal figures are equal files, colours are stable."""

import itertools

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from drawing import HOSTILE, TEN, outside, overlaps, pixels
from IPython.core.formatters import DisplayFormatter
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from lib import ROOT, InputError
from lib.show import figures
from lib.show.figures import label, model_colours, save, save_table
from lib.similarity.charts import draw_violins
from lib.tables.collection import Collection

pytestmark = pytest.mark.filterwarnings("error")  # matplotlib warns of a missing glyph, a bad formula, a lack of room


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    return tmp_path


# --- labels -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", HOSTILE)
def test_a_label_draws_like_the_same_characters_with_formulas_off(token):
    """Whatever a token holds, matplotlib prints it as plain characters, and knows each of them."""
    drawn = []
    for text, formulas in ((label(token), True), (label(token).replace(r"\$", "$"), False)):
        figure = Figure(figsize=(4, 1))
        figure.text(0.1, 0.5, text, parse_math=formulas, family=figures.FONT)
        drawn.append(pixels(figure))
    assert (drawn[0] == drawn[1]).all()
    assert (drawn[0] != 255).any()


def test_labels_say_what_the_font_lacks_and_hide_what_offends():
    assert label("爱情") == "⟨U+7231 U+60C5⟩"
    assert label("$x$") == r"\$x\$"
    offensive = pd.read_csv(ROOT / "data" / "paper" / "table_2.csv").set_index("token_id")["decoded"][106863]
    assert label(offensive) == "▒▒▒⟨7⟩" and label(offensive, blur=False) == offensive


def test_an_overlap_would_be_found():
    figure = Figure()
    FigureCanvasAgg(figure)
    figure.text(0.5, 0.5, "one"), figure.text(0.52, 0.5, "other"), figure.text(0.99, 0.1, "cut off")
    assert overlaps(figure) == [("one", "other")] and outside(figure) == ["cut off"]


def test_a_title_is_broken_where_it_says_and_where_it_must_but_never_within_a_models_name():
    title = "Found in S-Gem-27B-v0.2:\nfour words of ten letters, R-Gem-2B last"
    assert figures.title_lines(title, 3, per_inch=10) == [
        "Found in S-Gem-27B-v0.2:", "four words of ten letters,", "R-Gem-2B last",
    ]  # fmt: skip
    assert figures.new_chart(3, 2, "one two three four").get_suptitle() == "one two three four"  # 18 of 3 * 6.5
    assert figures.new_chart(3, 2, "one two three fourth").get_suptitle() == "one two three\nfourth"


# --- style, colours, files ----------------------------------------------------------------------------------------


def test_charts_do_not_depend_on_what_the_notebook_has_set_and_leave_it_alone():
    chart = {name: np.arange(9.0) ** 2 for name in TEN[:2]}
    plain = figures._png(draw_violins(chart, title="A"), 50)
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "black", "savefig.facecolor": "red"}):
        before = dict(mpl.rcParams)
        draw_violins(chart, title="A")
        assert dict(mpl.rcParams) == before
    with mpl.rc_context():
        figures.style()
        assert mpl.rcParams["font.size"] == figures.RC_PARAMS["font.size"]
        assert figures._png(draw_violins(chart, title="A"), 50) == plain


def test_a_figure_shows_itself_in_a_notebook():
    figure = draw_violins({"R-Gem-2B": np.arange(9.0)}, title="A")
    picture, metadata = figure._repr_png_()
    assert picture.startswith(b"\x89PNG") and metadata == {"alt": "A", "file": ""}


def test_what_a_figure_says_goes_with_it_into_the_notebook(folder):
    figure = draw_violins({"R-Gem-2B": np.arange(9.0)}, title="Rewards of \\$x\n spread")
    save(figure, Collection("mine"), "a")
    assert figure._repr_png_()[1] == {"alt": "Rewards of $x spread", "file": "a.png"}  # without a sentence, its title
    save(figure, Collection("mine"), "b", alt="R-Gem-2B spreads\n from 0 to 8.")
    data, metadata = DisplayFormatter().format(figure)
    assert metadata == {"image/png": {"alt": "R-Gem-2B spreads from 0 to 8.", "file": "b.png"}}
    assert data["text/plain"] == "figure: R-Gem-2B spreads from 0 to 8." and data["image/png"]


def test_the_same_figure_gives_the_same_file_without_date_or_version(folder):
    def draw() -> bytes:
        chart = draw_violins({name: np.arange(9.0) ** 2 for name in TEN[:2]}, title="A")
        return save(chart, Collection("mine"), "violins").read_bytes()

    first, second = draw(), draw()
    assert first == second
    assert b"tEXt" not in first and b"tIME" not in first and b"atplotlib" not in first
    assert [path.name for path in (folder / "figures" / "mine").iterdir()] == ["violins.png"]


def test_a_table_comes_back_as_it_was(folder):
    frame = pd.DataFrame({"token_id": range(len(HOSTILE)), "text": HOSTILE, "reward": 0.1}).rename_axis("position")
    path = save_table(frame, Collection("mine"), "ends")
    assert path == folder / "figures" / "mine" / "ends.csv"
    back = pd.read_csv(path, keep_default_na=False, index_col="position")
    pd.testing.assert_frame_equal(back, frame)
    assert path.read_bytes() == save_table(frame, Collection("mine"), "ends").read_bytes()
    assert b"position" not in save_table(frame.reset_index(drop=True), Collection("mine"), "ends").read_bytes()


@pytest.mark.parametrize("collection, name", [("..", "a"), ("a/b", "a"), ("a", "../a"), ("a", "a\n"), (".hidden", "a")])
def test_a_name_cannot_leave_the_folder(folder, collection, name):
    with pytest.raises(InputError, match="cannot name a .*; use "):
        save_table(pd.DataFrame({"a": [1]}), Collection(collection), name)


def test_a_model_has_one_colour_whatever_it_is_shown_with():
    colours = model_colours(TEN)
    assert list(colours) == TEN and len(set(colours.values())) == 10
    assert model_colours(["R-Gem-2B"]) == {"R-Gem-2B": colours["R-Gem-2B"]}
    assert model_colours(["mine", *reversed(TEN)]) == {"mine": model_colours(["mine"])["mine"]} | colours
    several = model_colours([f"m{i}" for i in range(10)])
    assert len(set(several.values())) == 10 and not set(several.values()) & set(colours.values())
    assert model_colours([]) == {}


def lab(colour: str, blind: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of a colour as seen with a colour blindness (a matrix on linear RGB; Machado et al. 2009)."""
    srgb = np.array(to_rgb(colour))
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(blind @ linear, 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    f = np.cbrt(np.maximum(to_xyz @ seen / (0.9505, 1, 1.089), 0.008856))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize(
    "blind",
    [
        np.eye(3),
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    ],
    ids=["usual", "deuteranopia", "protanopia"],
)
def test_colour_blind_readers_tell_bases_apart_and_neighbours_in_a_base_and_signs(blind):
    seen = {name: lab(colour, np.array(blind)) for name, colour in model_colours(TEN).items()}
    distance = {frozenset(p): np.linalg.norm(seen[p[0]] - seen[p[1]]) for p in itertools.combinations(TEN, 2)}
    across = [d for pair, d in distance.items() if len({"Gem" in name for name in pair}) == 2]
    assert min(across) > 25  # 2.3 is just noticeable
    assert min(distance.values()) > 7
    signs = [lab(colour, np.array(blind)) for colour in (figures.POSITIVE, figures.NEGATIVE)]
    assert np.linalg.norm(signs[0] - signs[1]) > 25
