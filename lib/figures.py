"""Figures: one style, one palette, one place to save; and the charts that several notebooks draw.

Tokens go through `label`, because one may hold what matplotlib reads as a formula, or a character that the font lacks.
A picture cannot be unblurred, so in charts an offensive token is hidden unless the notebook says blur=False.
"""

import functools
import io
import itertools
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image
from scipy import ndimage, stats

from lib import ROOT, InputError, rankings
from lib.display import is_offensive, legend_of, show_token
from lib.scores import replacing

FONT = "DejaVu Sans"  # comes with matplotlib, so a figure is the same on every machine
STYLE = {
    "font.family": FONT,
    "font.size": 13,
    "axes.titlesize": 13,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "figure.titlesize": 15,
    "figure.titleweight": "bold",
    "text.usetex": False,
}
GREY = "#595959"
# From dark to light. Blue against orange is told apart by readers who confuse red and green, and by lightness too.
HUES = {
    "llama": ("#08306b", "#2171b5", "#7fc4e8"),
    "gemma": ("#7f2704", "#d94801", "#fdb863"),
    "other": ("#3f007d", "#807dba", "#cbb8dd"),
}


# --- style and palette --------------------------------------------------------------------------------------------


def style() -> None:
    """Give every later figure of the notebook that calls this the project's style."""
    mpl.rcParams.update(STYLE)


def model_colours(nicknames: Iterable[str]) -> dict[str, str]:
    """The colour of each model, as `#rrggbb`: the same in every notebook, whichever models are asked for.

    The base family gives the hue; in it the models of one group (paper, embedded, ...) run from dark to light in the
    registry's order, those of a developer side by side. Models that the registry does not hold share a hue, from dark
    to light in the order given.
    """
    nicknames = list(dict.fromkeys(nicknames))
    known = _registry_colours()
    colours = known | shades([name for name in nicknames if name not in known], "other")
    return {name: colours[name] for name in nicknames}


def _registry_colours() -> dict[str, str]:
    path = ROOT / "data" / "reward_models.csv"
    if not path.is_file():
        return {}
    models = pd.read_csv(path, dtype=str, keep_default_na=False)
    models["developer"] = pd.factorize(models["developer"])[0]  # numbered in the registry's order
    models["hue"] = models["base"].map(_hue_of)
    colours = {}
    for (_, hue), rows in models.groupby(["group", "hue"], sort=False):
        colours |= shades(rows.sort_values("developer", kind="stable")["nickname"], hue)
    return colours


def _hue_of(base: str) -> str:
    return next((hue for hue in HUES if hue in base.lower()), "other")


def shades(names: Iterable[str], hue: str) -> dict[str, str]:
    """A colour for each name, from dark to light within a hue of HUES."""
    names = list(names)
    shade = LinearSegmentedColormap.from_list(hue, HUES[hue])
    places = np.linspace(0, 1, len(names)) if len(names) != 1 else [0.5]
    return {name: to_hex(shade(place)) for name, place in zip(names, places, strict=True)}


def label(token: str, width: int = 20, *, blur: bool = True) -> str:
    """A token as matplotlib can write it: visible, at most `width` columns, never a formula, never a missing glyph.

    blur: an offensive token is hidden, and only its length told.
    """
    shown = show_token(token, width, hidden=blur and is_offensive(token), lacks=_lacks)
    return shown.replace("$", r"\$")


def _lacks(character: str) -> bool:
    return ord(character) not in _glyphs()


@functools.cache
def _glyphs() -> frozenset[int]:
    return frozenset(font_manager.get_font(font_manager.findfont(FONT)).get_charmap())


# --- saving -------------------------------------------------------------------------------------------------------


class Chart(Figure):
    """A figure that a notebook shows once, where it is a cell's result, with or without pyplot."""

    def _repr_png_(self) -> bytes:
        return _png(self, dpi=100)


def save(figure: Figure, collection: str, name: str) -> Path:
    """Write figures/<collection>/<name>.png and say where; the same figure gives the same bytes."""
    path = _path(collection, f"{name}.png")
    with replacing(path) as part:
        part.write_bytes(_png(figure, dpi=150))
    return path


def save_table(frame: pd.DataFrame, collection: str, name: str) -> Path:
    """Write figures/<collection>/<name>.csv and say where; a named index is written, any other left out.

    Tokens are written as they are: read them back with keep_default_na=False, show them with lib.display.
    """
    path = _path(collection, f"{name}.csv")
    named = any(level is not None for level in frame.index.names)
    text = frame.to_csv(None, index=named, lineterminator="\n", float_format="%.7g")
    with replacing(path) as part:
        part.write_bytes(text.encode("utf-8", "backslashreplace"))
    return path


def _png(figure: Figure, dpi: int) -> bytes:
    file = io.BytesIO()
    with mpl.rc_context(STYLE):  # no date and no version is written, so that equal figures are equal files
        figure.savefig(file, format="png", dpi=dpi, bbox_inches="tight", metadata={"Software": None})
    return smaller(file.getvalue())


def smaller(png: bytes) -> bytes:
    """The picture in 256 colours, which a chart hardly needs more of; a third of the size. The same bytes each time."""
    file = io.BytesIO()
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()


def _path(collection: str, file: str) -> Path:
    for name in (collection, file):
        if name.startswith(".") or any(c in '/\\:*?"<>|' or not c.isprintable() for c in name):
            raise InputError(f"{name!r} cannot name a figure or its folder; use letters, digits, '-', '.' and '_'")
    return ROOT / "figures" / folder_of(collection) / file


def folder_of(collection: str) -> str:
    """The folder of figures/ that holds a collection's figures: its name, but `published-words` is published/words.

    So that all that was found on published scores lies in one folder, with its claims.
    """
    return collection.replace("published-", "published/", 1) if collection.startswith("published-") else collection


# --- charts -------------------------------------------------------------------------------------------------------


def styled(chart):
    """Draw in the project's style, whatever the notebook has set."""

    @functools.wraps(chart)
    def drawn(*arguments, **options):
        with mpl.rc_context(STYLE):
            return chart(*arguments, **options)

    return drawn


def new_chart(width: float, height: float, title: str = "") -> Chart:
    """An empty chart of this size in inches, its title broken into lines that fit."""
    figure = Chart(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)  # texts can only be measured on a canvas
    if title:
        figure.suptitle("\n".join(_title_lines(title, width)), x=0.01, ha="left")
    return figure


def _title_lines(title: str, inches: float) -> list[str]:
    return textwrap.wrap(title, max(10, int(inches * 6.5)))


@styled
def reward_histogram(
    table: pd.DataFrame, prompts: Iterable[str], *, nickname: str, title: str, n: int = 3, blur: bool = True
) -> Chart:
    """The rewards of one model's tokens, a panel per prompt, with its n optimal and n pessimal tokens marked.

    table: a score table; with unique_inputs(table) each input counts once. Panels share the reward axis.
    """
    prompts = list(prompts)
    figure = new_chart(10, 0.7 + (1.9 + 0.32 * n) * len(prompts), title)
    panels = figure.subplots(len(prompts), sharex=True, squeeze=False)[:, 0]
    edges = np.histogram_bin_edges(table[prompts].to_numpy(dtype=float), bins=80)
    colour = model_colours([nickname])[nickname]
    for axes, prompt in zip(panels, prompts, strict=True):
        counts, _, _ = axes.hist(table[prompt], bins=edges, color=colour)
        axes.set_ylim(0, counts.max() / BARS)
        axes.set_yticks([tick for tick in axes.get_yticks() if tick <= counts.max()])
        axes.set(title=f"{label(nickname, 30, blur=False)}, prompt: {prompt}", ylabel="tokens")
    ends = [rankings.ends(table, prompt, n) for prompt in prompts]
    texts = [_mark_ends(axes, end, prompt, blur) for axes, end, prompt in zip(panels, ends, prompts, strict=True)]
    texts = [text for some in texts for text in some]
    panels[-1].set_xlabel("\n".join(["reward, model's own scale", *_legend((text.get_text() for text in texts), 85)]))
    _make_room(figure, panels[0], edges, texts)
    return figure


BARS = 0.6  # the share of a panel's height that bars may fill; labels stand above it


def _mark_ends(axes: Axes, ends: pd.DataFrame, prompt: str, blur: bool) -> list:
    """A line and a label at each token of the ends; labels point outwards, in steps, so that none meets another."""
    n = len(ends) // 2
    optimal, pessimal = ends.head(n), ends.tail(n)[::-1]
    heights = np.linspace(BARS + 0.08, 0.94, n) if n > 1 else [0.8]
    texts = []
    for rows, side, gap in ((optimal, "left", 5), (pessimal, "right", -5)):
        for (token, reward), height in zip(rows[["text", prompt]].itertuples(index=False), heights, strict=True):
            where = axes.get_xaxis_transform()
            axes.plot([reward, reward], [0, height], transform=where, color=GREY, linewidth=1)
            texts.append(
                axes.annotate(label(token, 14, blur=blur), (reward, height), (gap, 0), xycoords=where, ha=side,
                              textcoords="offset points", va="center", fontsize=12)
            )  # fmt: skip
    return texts


def _legend(labels: Iterable[str], width: int) -> list[str]:
    """What the marks in these labels mean, in lines of at most `width` characters; none if there are no marks."""
    return textwrap.wrap(legend_of("".join(labels)), width)


def _make_room(figure: Chart, axes: Axes, edges: np.ndarray, texts: list) -> None:
    """Widen the reward axis by the widest label on either side."""
    figure.draw_without_rendering()
    whole = axes.get_window_extent().width
    widest = {
        side: max((t.get_window_extent().width for t in texts if t.get_ha() == side), default=0) + 12
        for side in ("left", "right")
    }
    per_pixel = (edges[-1] - edges[0]) / max(whole - sum(widest.values()), whole / 5)
    axes.set_xlim(edges[0] - widest["right"] * per_pixel, edges[-1] + widest["left"] * per_pixel)


@styled
def reward_distributions(rewards: Mapping[str, np.ndarray], *, title: str) -> Chart:
    """The standardised reward distributions of several models, one ridge each, with their skewness.

    rewards: model -> rewards, in any number, of one prompt. Standardised: minus the mean, over the standard deviation
    (ddof 0). The ticks under a ridge are its pessimal and its optimal token. Ridges are histograms of 300 bins, lightly
    smoothed, all of one height.
    Raises InputError for a model whose rewards are all equal.
    """
    figure = new_chart(10, 1.6 + 0.62 * len(rewards), title)
    axes = figure.subplots()
    colours = model_colours(rewards)
    standardised = {name: _standardised(name, values) for name, values in rewards.items()}
    everything = np.concatenate(list(standardised.values()))
    edges = np.linspace(everything.min() - 0.2, everything.max() + 0.2, 301)
    for row, (name, values) in enumerate(standardised.items()):
        height = ndimage.gaussian_filter1d(np.histogram(values, edges)[0].astype(float), 3)
        middle = (edges[1:] + edges[:-1]) / 2
        axes.fill_between(middle, -row, -row + 0.8 * height / height.max(), color=colours[name], linewidth=0)
        axes.plot([values.min(), values.max()], [-row - 0.06] * 2, "|", color=colours[name], markersize=9, mew=2)
        skew = f"skewness {stats.skew(values):+.2f}".replace("-", "−")
        axes.annotate(skew, (1.01, -row + 0.1), xycoords=axes.get_yaxis_transform(), va="center", color=GREY)
    axes.set_yticks(-np.arange(len(rewards)) + 0.1, [label(name, 30, blur=False) for name in rewards])
    axes.set(xlabel="reward, standard deviations from the model's mean", ylim=(0.3 - len(rewards), 1))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    return figure


def _standardised(name: str, rewards: np.ndarray) -> np.ndarray:
    rewards = np.asarray(rewards, dtype=float)
    if not rewards.size or rewards.std() == 0:
        raise InputError(f"the rewards of {name} are all equal, so they have no distribution; leave it out")
    return (rewards - rewards.mean()) / rewards.std()


@styled
def token_grid(
    frame: pd.DataFrame, *, title: str, blur: bool = True, models_per_row: int = 5, width: int = 16
) -> Chart:
    """Tokens of several models side by side: a column per model, as from rankings.side_by_side.

    frame: tokens, columns = models, index = (end, position). models_per_row: more models go into further blocks below.
    """
    shown = frame.map(lambda token: label(token, width, blur=blur))
    names = list(frame.columns)
    blocks = [names[i : i + models_per_row] for i in range(0, len(names), models_per_row)]
    cell, line = _cell_width(shown), 0.29  # inches
    wide = 1.6 + cell * min(len(names), models_per_row)
    told = _legend(shown.to_numpy().ravel(), int(wide * 8))
    lines_per_block = len(frame) + 2.2  # the models' names, a gap
    heading = _title_lines(title, wide)
    top = 1.5 + 1.1 * len(heading)
    lines = top + lines_per_block * len(blocks) + len(told) - 0.4
    figure = new_chart(wide, line * lines)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, wide), ylim=(lines, 0))
    axes.set_axis_off()
    axes.text(0.1, 0.4, "\n".join(heading), weight="bold", fontsize=15, va="top")
    for number, block in enumerate(blocks):
        _draw_block(axes, shown[block], top + number * lines_per_block, cell)
    axes.text(0.1, lines - 0.5, "\n".join(told), va="bottom", fontsize=12, color=GREY)
    return figure


def _cell_width(shown: pd.DataFrame) -> float:
    """Inches that the widest of the labels and names takes, and a gap."""
    figure = new_chart(1, 1)
    texts = [figure.text(0, 0, text, fontsize=12) for text in np.unique(shown.to_numpy())]
    texts += [figure.text(0, 0, label(name, 30, blur=False), fontsize=12, weight="bold") for name in shown]
    return max(text.get_window_extent().width for text in texts) / figure.dpi + 0.25


def _draw_block(axes: Axes, shown: pd.DataFrame, top: float, cell: float) -> None:
    colours = model_colours(shown.columns)
    ends = shown.index.get_level_values(0)
    right = 1.5 + cell * shown.shape[1]
    for row, (end, position) in enumerate(shown.index, start=1):
        if row == 1 or end != ends[row - 2]:
            axes.plot([0.1, right], [top + row - 0.5] * 2, color=GREY, linewidth=1, zorder=1)
            axes.text(0.1, top + row, end, va="center", fontsize=12, color=GREY)
        axes.text(1.3, top + row, position, va="center", ha="right", fontsize=12, color=GREY)
    for column, name in enumerate(shown):
        x = 1.5 + cell * column
        axes.plot([x, x + 0.8 * cell], [top + 0.4] * 2, color=colours[name], linewidth=4, solid_capstyle="butt")
        axes.text(x, top, label(name, 30, blur=False), va="center", fontsize=12, weight="bold")
        for row, text in enumerate(shown[name], start=1):
            axes.text(x, top + row, text, va="center", fontsize=12)


@styled
def matrix(frame: pd.DataFrame, *, title: str, measure: str) -> Chart:
    """A models x models matrix as a heat map, each number printed; models in the order of the frame, diagonal left out.

    measure: what the numbers are, for the colour bar. The scale runs from 0, or the lowest entry below it, to 1.
    """
    off_diagonal = frame.mask(np.eye(len(frame), dtype=bool))
    figure = new_chart(4.2 + 0.62 * len(frame), 3.0 + 0.5 * len(frame), title)
    axes = figure.subplots()
    seaborn.heatmap(
        off_diagonal, ax=axes, annot=True, fmt=".2f", annot_kws={"fontsize": 11}, cmap="viridis",
        vmin=min(0.0, float(np.nanmin(off_diagonal))), vmax=1, linewidths=0.5, cbar_kws={"label": measure},
    )  # fmt: skip
    axes.set(xlabel="", ylabel="")
    colours = model_colours(frame.index)
    for axis in (axes.get_xticklabels(), axes.get_yticklabels()):
        for name in axis:
            name.set(color=colours[name.get_text()], weight="bold")
    axes.tick_params(axis="x", rotation=90)
    axes.tick_params(axis="y", rotation=0)
    return figure


@styled
def violins(rewards: Mapping[str, np.ndarray], *, title: str, panels_per_row: int = 5) -> Chart:
    """The reward distribution of each model as a violin on the model's own scale, a panel each (Fig 1).

    rewards: model -> rewards, in any number, of one prompt. The line crosses at the mean; the skewness stands below.
    Raises InputError for a model whose rewards are all equal.
    """
    rewards = dict(rewards.items())  # a frame will do
    for name, values in rewards.items():
        _standardised(name, values)  # refuses what has no distribution
    columns = min(panels_per_row, len(rewards))
    rows = -(-len(rewards) // columns)
    figure = new_chart(max(2.4 * columns, 9), 1.0 + 3.4 * rows, title)
    figure.get_layout_engine().set(hspace=0.05)
    panels = figure.subplots(rows, columns, squeeze=False)
    colours = model_colours(rewards)
    for axes, (name, values) in zip(panels.flat, rewards.items(), strict=False):
        drawn = axes.violinplot(values, showmeans=True, widths=0.9, points=200)
        for part in (*drawn["bodies"], *(drawn[line] for line in ("cmeans", "cbars", "cmins", "cmaxes"))):
            part.set(color=colours[name], alpha=0.9 if part in drawn["bodies"] else 1)
        drawn["cmeans"].set_color("black")
        axes.set_title(label(name, 30, blur=False), fontsize=12, color=colours[name], weight="bold", loc="center")
        axes.set_xticks([1], [f"skewness {stats.skew(values):+.2f}".replace("-", "−")], fontsize=12)
        axes.tick_params(axis="x", length=0)
        axes.locator_params(axis="y", nbins=5)
    for axes in panels.flat[len(rewards) :]:
        axes.set_axis_off()
    for axes in panels[:, 0]:
        axes.set_ylabel("reward, model's own scale")
    return figure


@styled
def similarities(frames: Mapping[str, pd.DataFrame], *, title: str) -> Chart:
    """The theoretical similarity matrices side by side, as from rankings.similarities (Fig 2C)."""
    wide = 4.5 + 2.8 * len(frames)
    figure = new_chart(wide, 4.4 + 0.35 * len(_title_lines(title, wide)), title)
    panels = figure.subplots(1, len(frames), squeeze=False)[0]
    for number, (axes, (name, frame)) in enumerate(zip(panels, frames.items(), strict=True)):
        names = [label(model, 30, blur=False) for model in frame.index]
        shades = axes.imshow(frame, vmin=0, vmax=1, cmap="viridis", aspect="auto")
        axes.set(title=name, yticks=range(len(names) if number == 0 else 0), xticks=range(len(names)))
        axes.set_xticklabels(names, rotation=90, fontsize=11)
        if number == 0:
            axes.set_yticklabels(names, fontsize=11)
    figure.colorbar(shades, ax=panels.tolist(), label="similarity", shrink=0.6)
    return figure


@styled
def model_map(found: rankings.ModelMap, models: pd.DataFrame, *, title: str) -> Chart:
    """The map of the models, names beside their points, a marker per developer (Fig 2B).

    models: rows of the registry for the models of the map; developers may be blank. Distances alone mean something, so
    the axes carry the scale of 1 - tau and no names.
    """
    figure = new_chart(9, 7, title)
    axes = figure.subplots()
    colours = model_colours(found.positions.index)
    developers = models["developer"].reindex(found.positions.index).fillna("").astype(str)
    shapes = dict(zip(dict.fromkeys(developers), itertools.cycle("os^DPX*v"), strict=False))
    for developer, shape in shapes.items():
        some = found.positions[developers == developer]
        axes.scatter(some["x"], some["y"], s=130, marker=shape, color=[colours[name] for name in some.index])
        axes.scatter([], [], s=90, marker=shape, color=GREY, label=label(developer or "unknown", 30, blur=False))
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.22)
    axes.set(xlabel="distance on the map stands for 1 − tau", ylabel="distance on the map, same scale")
    figure.legend(loc="outside right center", title="developer", frameon=False, fontsize=12)
    figure.draw_without_rendering()
    _name_points(axes, found.positions, colours)
    return figure


def _name_points(axes: Axes, positions: pd.DataFrame, colours: Mapping[str, str]) -> None:
    """Each name beside its point, on the side where it covers least of what is there already."""
    dots = axes.transData.transform(positions.to_numpy())
    taken = [Bbox.from_extents(x - 8, y - 8, x + 8, y + 8) for x, y in dots]
    for name, point in zip(positions.index, positions.to_numpy(), strict=True):
        tried = []
        for (dx, dy), side, height in PLACES:
            text = axes.annotate(label(name, 30, blur=False), point, (dx, dy), textcoords="offset points", ha=side,
                                 va=height, fontsize=12, color=colours[name], weight="bold")  # fmt: skip
            box = text.get_window_extent()
            hidden = sum(_common_area(box, other) for other in taken)
            tried.append((hidden + 10 * (box.width * box.height - _common_area(box, axes.bbox)), len(tried), text, box))
        best = min(tried, key=lambda one: one[:2])
        for *_, text, _ in tried:
            if text is not best[2]:
                text.remove()
        taken.append(best[3])


PLACES = [
    ((9, 0), "left", "center"), ((-9, 0), "right", "center"), ((0, 9), "center", "bottom"), ((0, -9), "center", "top"),
    ((7, 7), "left", "bottom"), ((7, -7), "left", "top"), ((-7, 7), "right", "bottom"), ((-7, -7), "right", "top"),
    ((0, 26), "center", "bottom"), ((0, -26), "center", "top"),
]  # fmt: skip


def _common_area(one: Bbox, other: Bbox) -> float:
    common = Bbox.intersection(one, other)
    return 0.0 if common is None else common.width * common.height


@styled
def coefficients(tables: Mapping[str, pd.DataFrame], *, title: str) -> Chart:
    """Regression coefficients as published and corrected, a panel per table of rankings.rsa, a row per predictor.

    tables: panel title -> table. The corrected coefficient carries its 95% interval; p-values stand at the right.
    """
    rows = max(len(table) for table in tables.values())
    figure = new_chart(12, 2.4 + 0.62 * rows, title)
    figure.get_layout_engine().set(wspace=0.06)
    panels = figure.subplots(1, len(tables), sharex=True, squeeze=False)[0]
    for axes, (name, table) in zip(panels, tables.items(), strict=True):
        places = -np.arange(len(table), dtype=float)
        reach = [table["b"] - table["low"], table["high"] - table["b"]]
        axes.axvline(0, color=GREY, linewidth=1)
        axes.plot(table["b_published"], places + 0.16, "s", color=PUBLISHED, markersize=8, label="as published")
        axes.errorbar(table["b"], places - 0.16, xerr=reach, fmt="o", color=CORRECTED, capsize=4, label="corrected")
        for place, (_, row) in zip(places, table.iterrows(), strict=True):
            for shift, p, colour in ((0.16, row["p_published"], PUBLISHED), (-0.16, row["p"], CORRECTED)):
                axes.annotate(_p_value(p), (1.02, place + shift), xycoords=axes.get_yaxis_transform(), va="center",
                              fontsize=12, color=colour)  # fmt: skip
        axes.set_yticks(places, table.index)
        axes.set(title=name, xlabel="regression coefficient b", ylim=(0.5 - rows, 0.5))
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    return figure


PUBLISHED, CORRECTED = "#737373", "#b30000"


def _p_value(p: float) -> str:
    return "p < .001" if p < 0.001 else f"p = {p:.3f}".replace("0.", ".", 1)
