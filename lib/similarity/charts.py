"""The charts of how alike models are: matrices, violins, the map of models, regression coefficients."""

import itertools
from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox
from scipy import stats

from lib import InputError, prompts
from lib.crossed import Crossed
from lib.figures import (
    DENSE_TITLE,
    GREY,
    NEGATIVE,
    POSITIVE,
    Chart,
    label,
    model_colours,
    model_label,
    new_chart,
    styled,
    title_lines,
)
from lib.similarity import agreement


@styled
def draw_matrix(frame: pd.DataFrame, *, title: str, measure: str) -> Chart:
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
def draw_violins(rewards: Mapping[str, np.ndarray], *, title: str, panels_per_row: int = 5) -> Chart:
    """The reward distribution of each model as a violin on the model's own scale, a panel each (Fig 1).

    rewards: model -> rewards, in any number, of one prompt. The line crosses at the mean; the skewness stands below.
    Raises InputError for a model whose rewards are all equal.
    """
    rewards = dict(rewards.items())  # a frame will do
    for name, values in rewards.items():
        if len(np.unique(values)) < 2:
            raise InputError(f"the rewards of {name} are all equal, so they have no distribution; leave it out")
    columns = min(panels_per_row, len(rewards))
    rows = -(-len(rewards) // columns)
    figure = new_chart(max(2.4 * columns, 9), 1.0 + 3.4 * rows, title)
    figure.get_layout_engine().set(hspace=0.05)
    panels = figure.subplots(rows, columns, squeeze=False)
    colours = model_colours(rewards)
    for axes, (name, values) in zip(panels.flat, rewards.items(), strict=False):
        _draw_violin(axes, values, colours[name])
        axes.set_title(model_label(name), fontsize=12, color=colours[name], weight="bold", loc="center")
    for axes in panels.flat[len(rewards) :]:
        axes.set_axis_off()
    for axes in panels[:, 0]:
        axes.set_ylabel("reward, model's own scale")
    return figure


def _draw_violin(axes: Axes, rewards: np.ndarray, colour: str) -> None:
    violin = axes.violinplot(rewards, showmeans=True, widths=0.9, points=200)
    for part in (*violin["bodies"], *(violin[line] for line in ("cmeans", "cbars", "cmins", "cmaxes"))):
        part.set(color=colour, alpha=0.9 if part in violin["bodies"] else 1)
    violin["cmeans"].set_color("black")
    axes.set_xticks([1], [f"skewness {stats.skew(rewards):+.2f}".replace("-", "−")], fontsize=12)
    axes.tick_params(axis="x", length=0)
    axes.locator_params(axis="y", nbins=5)


@styled
def draw_theoretical(frames: Mapping[str, pd.DataFrame], *, title: str) -> Chart:
    """The theoretical similarity matrices side by side, as from rsa.theoretical (Fig 2C)."""
    wide = 4.5 + 2.8 * len(frames)
    figure = new_chart(wide, 4.4 + 0.35 * len(title_lines(title, wide)), title)
    panels = figure.subplots(1, len(frames), squeeze=False)[0]
    for number, (axes, (name, frame)) in enumerate(zip(panels, frames.items(), strict=True)):
        names = [model_label(model) for model in frame.index]
        shades = axes.imshow(frame, vmin=0, vmax=1, cmap="viridis", aspect="auto")
        axes.set(title=name, yticks=range(len(names) if number == 0 else 0), xticks=range(len(names)))
        axes.set_xticklabels(names, rotation=90, fontsize=11)
        if number == 0:
            axes.set_yticklabels(names, fontsize=11)
    figure.colorbar(shades, ax=panels.tolist(), label="similarity", shrink=0.6)
    return figure


@styled
def draw_map(model_map: agreement.ModelMap, models: pd.DataFrame, *, title: str) -> Chart:
    """The map of the models, names beside their points, a marker per developer (Fig 2B).

    models: rows of the registry for the models of the map; developers may be blank. Distances alone mean something, so
    the axes carry the scale of 1 - tau and no names.
    """
    figure = new_chart(9, 7, title)
    axes = figure.subplots()
    colours = model_colours(model_map.positions.index)
    developers = models["developer"].reindex(model_map.positions.index).fillna("").astype(str)
    shapes = dict(zip(dict.fromkeys(developers), itertools.cycle("os^DPX*v"), strict=False))
    for developer, shape in shapes.items():
        some = model_map.positions[developers == developer]
        axes.scatter(some["x"], some["y"], s=130, marker=shape, color=[colours[name] for name in some.index])
        axes.scatter([], [], s=90, marker=shape, color=GREY, label=label(developer or "unknown", 30, blur=False))
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.22)
    axes.set(xlabel="distance on the map stands for 1 − tau", ylabel="distance on the map, same scale")
    figure.legend(loc="outside right center", title="developer", frameon=False, fontsize=12)
    figure.draw_without_rendering()
    _name_points(axes, model_map.positions, colours)
    return figure


def _name_points(axes: Axes, positions: pd.DataFrame, colours: Mapping[str, str]) -> None:
    """Each name beside its point, on the side where it covers least of what is there already."""
    dots = axes.transData.transform(positions.to_numpy())
    taken = [Bbox.from_extents(x - 8, y - 8, x + 8, y + 8) for x, y in dots]
    for name, point in zip(positions.index, positions.to_numpy(), strict=True):
        texts = [
            axes.annotate(model_label(name), point, shift, textcoords="offset points", ha=across, va=down, fontsize=12,
                          color=colours[name], weight="bold")
            for shift, across, down in NAME_PLACES
        ]  # fmt: skip
        boxes = [text.get_window_extent() for text in texts]
        best = int(np.argmin([_covered(box, taken, axes.bbox) for box in boxes]))
        for text in texts[:best] + texts[best + 1 :]:
            text.remove()
        taken.append(boxes[best])


def _covered(box: Bbox, taken: list[Bbox], page: Bbox) -> float:
    """The area that a box shares with others, and ten times what of it lies outside the page."""
    outside = box.width * box.height - _common_area(box, page)
    return sum(_common_area(box, other) for other in taken) + 10 * outside


NAME_PLACES = [
    ((9, 0), "left", "center"), ((-9, 0), "right", "center"), ((0, 9), "center", "bottom"), ((0, -9), "center", "top"),
    ((7, 7), "left", "bottom"), ((7, -7), "left", "top"), ((-7, 7), "right", "bottom"), ((-7, -7), "right", "top"),
    ((0, 26), "center", "bottom"), ((0, -26), "center", "top"),
]  # fmt: skip


def _common_area(one: Bbox, other: Bbox) -> float:
    common = Bbox.intersection(one, other)
    return 0.0 if common is None else common.width * common.height


@styled
def draw_coefficients(tables: Mapping[str, pd.DataFrame], *, title: str) -> Chart:
    """Regression coefficients as published and corrected, a panel per table of rsa.rsa, a row per predictor.

    tables: panel title -> table. The corrected coefficient carries its 95% interval; p-values stand at the right.
    """
    rows = max(len(table) for table in tables.values())
    figure = new_chart(12, 2.4 + 0.62 * rows, title)
    figure.get_layout_engine().set(wspace=0.06)
    panels = figure.subplots(1, len(tables), sharex=True, squeeze=False)[0]
    for axes, (name, table) in zip(panels, tables.items(), strict=True):
        _draw_recipes(axes, table)
        axes.set(title=name, xlabel="regression coefficient b", ylim=(0.5 - rows, 0.5))
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    return figure


PUBLISHED_COLOUR, CORRECTED_COLOUR = "#737373", "#b30000"


def _draw_recipes(axes: Axes, table: pd.DataFrame) -> None:
    """A row per predictor: the published coefficient above the corrected one, each with its p-value at the right."""
    places = -np.arange(len(table), dtype=float)
    recipes = (0.16, "p_published", PUBLISHED_COLOUR), (-0.16, "p", CORRECTED_COLOUR)
    reach = [table["b"] - table["ci_low"], table["ci_high"] - table["b"]]
    axes.axvline(0, color=GREY, linewidth=1)
    axes.plot(table["b_published"], places + 0.16, "s", color=PUBLISHED_COLOUR, markersize=8, label="as published")
    axes.errorbar(table["b"], places - 0.16, xerr=reach, fmt="o", color=CORRECTED_COLOUR, capsize=4, label="corrected")
    for place, (_, row) in zip(places, table.iterrows(), strict=True):
        for shift, p, colour in recipes:
            axes.annotate(_p_value(row[p]), (1.02, place + shift), xycoords=axes.get_yaxis_transform(), va="center",
                          fontsize=12, color=colour)  # fmt: skip
    axes.set_yticks(places, table.index)


def _p_value(p: float) -> str:
    return "p < .001" if p < 0.001 else f"p = {p:.3f}".replace("0.", ".", 1)


@styled
def draw_sections(table: pd.DataFrame, *, title: str) -> Chart:
    """What agreement gains from the farthest to equal scores, a panel per benchmark, a row per section, with intervals.

    table: as from benchmarks.follows. The exact permutation p of each section stands at the right, Holm's below it.
    """
    benchmarks = list(dict.fromkeys(table["benchmark"]))
    figure = new_chart(12, 2.2 + 0.62 * table.groupby("benchmark").size().max(), title, DENSE_TITLE)
    figure.get_layout_engine().set(wspace=0.06)
    panels = figure.subplots(1, len(benchmarks), sharex=True, squeeze=False)[0]
    for axes, benchmark in zip(panels, benchmarks, strict=True):
        rows = table[table["benchmark"] == benchmark]
        places = -np.arange(len(rows), dtype=float)
        reach = [rows["b"] - rows["ci_low"], rows["ci_high"] - rows["b"]]
        axes.axvline(0, color=GREY, linewidth=1)
        axes.errorbar(rows["b"], places, xerr=reach, fmt="o", color=CORRECTED_COLOUR, capsize=4)
        for place, (p, holm) in zip(places, rows[["p", "p_holm"]].to_numpy(), strict=True):
            axes.annotate(f"{_p_value(p)}\nHolm {_p_value(holm)[2:]}", (1.02, place), va="center", fontsize=11,
                          xycoords=axes.get_yaxis_transform())  # fmt: skip
        axes.set_yticks(places, rows["section"].replace("Score", "overall score"))
        axes.set(title=f"{benchmark}, {rows['models'].iloc[0]} models", ylim=(0.5 - len(rows), 0.5),
                 xlabel="gain in tau, farthest to equal scores")  # fmt: skip
    return figure


@styled
def draw_wordings(means: Mapping[str, Crossed], *, title: str) -> Chart:
    """The mean skewness of rewards by wording of the question, with crossed intervals, good and bad apart.

    means: wording -> as from agreement.mean_skewness, in any order; drawn from the least to the greatest.
    """
    figure = new_chart(11, 5.2, title)
    axes = figure.subplots()
    ordered = sorted(means, key=lambda wording: (prompts.polarity(wording) < 0, means[wording].estimate))
    for polarity, (colour, name) in {1: (POSITIVE, "asks for good"), -1: (NEGATIVE, "asks for bad")}.items():
        places = [place for place, wording in enumerate(ordered) if prompts.polarity(wording) == polarity]
        some = [means[ordered[place]] for place in places]
        middle = np.array([one.estimate for one in some])
        reach = np.array([[one.estimate - one.ci_low, one.ci_high - one.estimate] for one in some]).T
        axes.errorbar(places, middle, yerr=reach, fmt="o", color=colour, markersize=5, label=f"{name} things")
    axes.axhline(0, color=GREY, linewidth=1)
    axes.set(xlabel=f"{len(means)} wordings of the question", ylabel="mean skewness over models", xticks=[])
    axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure
