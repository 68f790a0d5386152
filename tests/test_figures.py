"""Figures: nothing overlaps or is cut, a token cannot act on one, equal figures are equal files, colours are stable."""

import itertools
import warnings

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from lib.collection import Collection
from lib import ROOT, InputError, figures, rankings, token_charts
from lib.figures import label, model_colours, save, save_table
from lib.similarity import agreement
from lib.similarity import charts as similarity_charts

HOSTILE = [
    "$x$", "$", r"\$", "a$b", "$\\frac{1$", "\x1b[31mred", "😀爱情", "\U0001fae8", "<b>", "نفت", "#" * 60,
    " " + "W" * 19, "_{a}^b", "a\u202eb", " love", "love", "null", "", "\n", "हिन्दी",
]  # fmt: skip
TEN = ["N-Gem-27B", "S-Gem-27B-v0.2", "S-Gem-27B", "S-Lla-8B-v0.2", "N-Lla-8B", "L-Lla-8B", "R-Lla-8B", "R-Lla-3B",
       "F-Lla-8B-v0.1", "R-Gem-2B"]  # fmt: skip
TITLE = "All of these distributions are skewed to the right: a few tokens are liked much, most are disliked a little"


@pytest.fixture(autouse=True)
def complaints_are_errors():
    """A glyph that the font lacks, a formula that cannot be read, a layout that does not fit: matplotlib warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("lib.collection.ROOT", tmp_path)
    return tmp_path


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


def visible_texts(figure: Figure) -> list[Text]:
    figure.draw_without_rendering()
    unseen = set()  # labels of ticks beyond an axis' limits
    for axes in figure.axes:
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, sorted(axes.get_ylim()))):
            unseen |= {tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
    texts = figure.findobj(Text)
    return [text for text in texts if text not in unseen and text.get_visible() and text.get_text().strip()]


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts of which more than a hair's breadth is printed on the same place."""
    boxes = [(text.get_text(), text.get_window_extent().padded(-1.5)) for text in visible_texts(figure)]
    return [(a, b) for (a, one), (b, other) in itertools.combinations(boxes, 2) if one.overlaps(other)]


def outside(figure: Figure) -> list[str]:
    page = figure.bbox.padded(2)
    boxes = [(text.get_text(), text.get_window_extent()) for text in visible_texts(figure)]
    return [text for text, box in boxes if not (page.contains(*box.min) and page.contains(*box.max))]


def pixels(figure: Figure) -> np.ndarray:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


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


# --- charts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompts", [["greatest"], ["greatest", "best", "worst"]])
@pytest.mark.parametrize("n", [1, 3, 5])
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


@pytest.mark.parametrize("names", [TEN[:2], TEN, ["a $x$ model", "another/model"]])
def test_ridges_neither_overlap_nor_leave_the_figure(names):
    random = np.random.default_rng(0)
    figure = token_charts.reward_distributions({name: random.gamma(3, 1, 500) for name in names}, title=TITLE)
    assert overlaps(figure) == [] and outside(figure) == []


def test_ridges_show_standardised_rewards_and_their_skewness():
    figure = token_charts.reward_distributions({"R-Gem-2B": np.array([0.0, 0.0, 0.0, 4.0])}, title="")
    axes = figure.axes[0]
    # mean 1, variance 3: the ends are -1 / sqrt 3 and 3 / sqrt 3; third moment (27 - 3) / 4 = 6, skewness 6 / 3^1.5
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [-(3**-0.5), 3**0.5])
    assert axes.texts[0].get_text() == f"skewness +{6 / 3**1.5:.2f}" == "skewness +1.15"
    with pytest.raises(InputError, match="rewards of flat are all equal.*leave it out"):
        token_charts.reward_distributions({"flat": np.ones(3)}, title="")


@pytest.mark.parametrize("names, n", [(TEN[:2], 5), (TEN, 10)])
def test_token_grid_neither_overlaps_nor_leaves_the_figure(scored, names, n):
    tables = {name: scored(seed) for seed, name in enumerate(names)}
    frame = rankings.side_by_side(tables, "greatest", n)
    figure = token_charts.draw_token_grid(frame, title=TITLE)
    assert overlaps(figure) == [] and outside(figure) == []
    shown = [text.get_text() for text in figure.axes[0].texts]
    for name in names:
        assert shown.count(name) == 1
    for token in pd.unique(frame.to_numpy().ravel()):
        assert shown.count(label(token, 16)) >= (frame == token).to_numpy().sum()


def test_an_overlap_would_be_found():
    figure = Figure()
    FigureCanvasAgg(figure)
    figure.text(0.5, 0.5, "one"), figure.text(0.52, 0.5, "other"), figure.text(0.99, 0.1, "cut off")
    assert overlaps(figure) == [("one", "other")] and outside(figure) == ["cut off"]


# --- style, colours, files ----------------------------------------------------------------------------------------


def test_charts_do_not_depend_on_what_the_notebook_has_set_and_leave_it_alone():
    chart = {name: np.arange(9.0) ** 2 for name in TEN[:2]}
    plain = figures._png(token_charts.reward_distributions(chart, title="A"), 50)
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "black", "savefig.facecolor": "red"}):
        before = dict(mpl.rcParams)
        token_charts.reward_distributions(chart, title="A")
        assert dict(mpl.rcParams) == before
    with mpl.rc_context():
        figures.style()
        assert mpl.rcParams["font.size"] == figures.STYLE["font.size"]
        assert figures._png(token_charts.reward_distributions(chart, title="A"), 50) == plain


def test_a_figure_shows_itself_in_a_notebook():
    figure = token_charts.reward_distributions({"R-Gem-2B": np.arange(9.0)}, title="A")
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_the_same_figure_gives_the_same_file_without_date_or_version(folder):
    def draw() -> bytes:
        chart = token_charts.reward_distributions({name: np.arange(9.0) ** 2 for name in TEN[:2]}, title="A")
        return save(chart, "mine", "ridges").read_bytes()

    first, second = draw(), draw()
    assert first == second
    assert b"tEXt" not in first and b"tIME" not in first and b"atplotlib" not in first
    assert [path.name for path in (folder / "figures" / "mine").iterdir()] == ["ridges.png"]


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
    with pytest.raises(InputError, match="cannot name a .*; use letters"):
        save_table(pd.DataFrame({"a": [1]}), Collection(collection), name)


def test_a_model_has_one_colour_whatever_it_is_shown_with():
    colours = model_colours(TEN)
    assert list(colours) == TEN and len(set(colours.values())) == 10
    assert model_colours(["R-Gem-2B"]) == {"R-Gem-2B": colours["R-Gem-2B"]}
    assert model_colours(["mine", *reversed(TEN)]) == {"mine": model_colours(["mine"])["mine"]} | colours
    several = model_colours([f"m{i}" for i in range(10)])
    assert len(set(several.values())) == 10 and not set(several.values()) & set(colours.values())
    assert model_colours([]) == {}


def test_without_a_registry_models_are_coloured_by_position(folder):
    assert len(set(model_colours(TEN).values())) == 10


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
def test_colour_blind_readers_tell_bases_apart_and_neighbours_in_a_base(blind):
    seen = {name: lab(colour, np.array(blind)) for name, colour in model_colours(TEN).items()}
    distance = {frozenset(p): np.linalg.norm(seen[p[0]] - seen[p[1]]) for p in itertools.combinations(TEN, 2)}
    across = [d for pair, d in distance.items() if len({"Gem" in name for name in pair}) == 2]
    assert min(across) > 25  # 2.3 is just noticeable
    assert min(distance.values()) > 7


@pytest.mark.parametrize("count", [2, 10])
def test_matrix_prints_every_pair_and_nothing_overlaps(count):
    names = [f"Model-{i}-with-a-name" for i in range(count)]
    values = np.random.default_rng(0).uniform(0.1, 0.9, (count, count))
    figure = similarity_charts.draw_matrix(pd.DataFrame(values, names, names), title="Models agree somewhat", measure="tau")
    printed = [text.get_text() for text in figure.axes[0].texts]
    assert sorted(printed) == sorted(f"{values[i, j]:.2f}" for i in range(count) for j in range(count) if i != j)
    assert not overlaps(figure)
    assert not outside(figure)


def made_up_rewards(names):
    random = np.random.default_rng(0)
    return {name: 10.0 ** (i % 4) * random.gamma(2, size=400) - 30 * (i % 3) for i, name in enumerate(names)}


@pytest.mark.parametrize("names", [TEN[:1], TEN[:2], TEN, ["a $x$ model", *TEN[:6]]])
def test_violins_neither_overlap_nor_leave_the_figure(names):
    figure = similarity_charts.draw_violins(made_up_rewards(names), title=TITLE)
    assert overlaps(figure) == [] and outside(figure) == []


def test_violins_have_each_models_own_scale_and_skewness():
    figure = similarity_charts.draw_violins({"A": [0, 0, 0, 4], "B": np.array([0, -0.3, -0.3, -0.3])}, title="")
    printed = [axes.get_xticklabels()[0].get_text() for axes in figure.axes]
    assert printed == ["skewness +1.15", "skewness +1.15"]  # (27 - 3) / 4 / 3 ** 1.5; B is A turned, shrunk and moved
    ranges = [axes.get_ylim() for axes in figure.axes]
    assert ranges[0][0] < 0 < 4 < ranges[0][1] and ranges[1][0] < -0.3 < 0 < ranges[1][1] < 1
    with pytest.raises(InputError, match="the rewards of C are all equal"):
        similarity_charts.draw_violins({"C": [1, 1, 1]}, title="")


def test_similarities_neither_overlap_nor_leave_the_figure():
    frames = {trait: pd.DataFrame(np.eye(10), TEN, TEN) for trait in ("base", "developer", "parameters", "rank")}
    for some, title in ((frames, TITLE), (frames, "What models share"), ({"base": frames["base"]}, TITLE)):
        figure = similarity_charts.draw_theoretical(some, title=title)
        assert [axes.get_title(loc="left") for axes in figure.axes[: len(some)]] == list(some)
        assert overlaps(figure) == [] and outside(figure) == []


def made_up_map(names, seed):
    points = np.random.default_rng(seed).normal(scale=0.3, size=(len(names), 2))
    return agreement.ModelMap(pd.DataFrame(points, names, ["x", "y"]), 0.1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("names", [TEN, TEN[:2], [f"a model of one's own {i}" for i in range(6)]])
def test_names_on_the_map_neither_overlap_nor_leave_the_figure(names, seed):
    models = pd.DataFrame({"developer": [name[:1] for name in names]}, names)
    figure = similarity_charts.draw_map(made_up_map(names, seed), models, title=TITLE)
    assert overlaps(figure) == [] and outside(figure) == []


def test_the_map_has_one_scale_and_every_model_at_its_place():
    found = made_up_map(TEN, 0)
    figure = similarity_charts.draw_map(found, pd.DataFrame({"developer": ""}, TEN), title="")
    axes = figure.axes[0]
    assert axes.get_aspect() == 1
    drawn = np.vstack([np.asarray(points.get_offsets()) for points in axes.collections])
    assert {tuple(point) for point in found.positions.to_numpy()} <= {tuple(map(float, point)) for point in drawn}
    assert {text.get_text(): tuple(text.xy) for text in axes.texts} == {
        name: tuple(point) for name, point in zip(TEN, found.positions.to_numpy(), strict=True)
    }


def test_coefficients_show_both_recipes_with_their_p_values():
    columns = ["b_published", "p_published", "b", "low", "high", "p"]
    table = pd.DataFrame([[0.7, 1e-9, 0.2, -0.1, 0.5, 0.08], [0.1, 0.2, -0.1, -0.4, 0.2, 1]], ["rank", "base"], columns)
    figure = similarity_charts.draw_coefficients({"each alone": table, "together": table}, title=TITLE)
    assert [text.get_text() for text in figure.axes[0].texts] == ["p < .001", "p = .080", "p = .200", "p = 1.000"]
    assert overlaps(figure) == [] and outside(figure) == []
