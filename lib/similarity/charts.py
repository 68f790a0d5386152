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
def draw_matrices(frames: Mapping[str, pd.DataFrame], *, title: str, measure: str) -> Chart:
    """Models x models matrices side by side, a panel each: the lower triangle, each number printed.

    frames: panel title -> matrix, models in its order; '' leaves the title out. measure: what the numbers are. Each
    panel has its own scale, from its lowest entry to its highest, so that what differs within it can be seen.
    """
    most = max(map(len, frames.values()))
    wide = max(7.0, (2.4 + 0.56 * most) * len(frames))
    figure = new_chart(wide, 2.4 + 0.48 * most + 0.3 * len(title_lines(title, wide)), title)
    for axes, (name, frame) in zip(figure.subplots(1, len(frames), squeeze=False)[0], frames.items(), strict=True):
        _draw_triangle(axes, frame)
        axes.set_title(name)
    scales = ", each panel on its own scale" if len(frames) > 1 else ""
    figure.supxlabel(f"{measure}; dark is high{scales}", fontsize=12)
    return figure


def draw_matrix(frame: pd.DataFrame, *, title: str, measure: str) -> Chart:
    """One matrix, as of `draw_matrices`."""
    return draw_matrices({"": frame}, title=title, measure=measure)


def _draw_triangle(axes: Axes, frame: pd.DataFrame) -> None:
    """The pairs below the diagonal: a row per model but the first, a column per model but the last."""
    below = frame.mask(np.triu(np.ones(frame.shape, dtype=bool))).iloc[1:, :-1]
    names = [[model_label(name) for name in labels] for labels in (below.index, below.columns)]
    low, high = float(np.nanmin(below)), float(np.nanmax(below))
    room = 0.25 * (high - low) or 1.0  # so that the highest is not black, on which nothing can be read
    seaborn.heatmap(
        below, ax=axes, annot=True, fmt=".2f", annot_kws={"fontsize": 11}, cmap="Greys", vmin=low, vmax=high + room,
        linewidths=0.5, cbar=False, yticklabels=names[0], xticklabels=names[1],
    )  # fmt: skip
    axes.set(xlabel="", ylabel="")
    axes.tick_params(axis="x", rotation=90, labelsize=12)
    axes.tick_params(axis="y", rotation=0, labelsize=12)


@styled
def draw_violins(rewards: Mapping[str, np.ndarray], *, title: str, printed: Mapping[str, float] | None = None) -> Chart:
    """The reward distribution of each model as a horizontal violin, in sd from the model's own mean (Fig 1).

    rewards: model -> rewards, in any number, of one prompt. A line marks the mean, a dot the median; mean, sd and
    skewness in the model's own units stand at the right, and beside them the skewness that is `printed`, by model.
    Raises InputError for a model whose rewards are all equal.
    """
    rewards = {name: np.asarray(values, dtype=float) for name, values in rewards.items()}  # a frame will do
    for name, values in rewards.items():
        if len(np.unique(values)) < 2:
            raise InputError(f"the rewards of {name} are all equal, so they have no distribution; leave it out")
    figure = new_chart(13.5, 2.6 + 0.62 * len(rewards), title)
    (axes, table), colours = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1.8)), model_colours(rewards)
    for place, (name, values) in enumerate(rewards.items()):
        _draw_violin(axes, -place, (values - values.mean()) / values.std(), colours[name])
    axes.set_yticks([-place for place in range(len(rewards))], [model_label(name) for name in rewards])
    axes.set(ylim=(-len(rewards) + 0.4, 0.6), xlabel="reward, in sd from the model's own mean")
    table.set_axis_off()
    _write_moments(table, rewards, printed or {})
    axes.plot([], [], "|", color="black", markersize=13, markeredgewidth=2, label="mean")
    axes.plot([], [], "o", color="white", markeredgecolor="black", markersize=7, label="median")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def _draw_violin(axes: Axes, place: float, z: np.ndarray, colour: str) -> None:
    violin = axes.violinplot(z, [place], orientation="horizontal", widths=0.85, points=200, showextrema=False)
    violin["bodies"][0].set(facecolor=colour, alpha=0.9)
    axes.plot([z.min(), z.max()], [place, place], color=colour, linewidth=1)
    axes.plot([0, 0], [place - 0.38, place + 0.38], color="black", linewidth=2)
    axes.plot(np.median(z), place, "o", color="white", markeredgecolor="black", markersize=7)


def _write_moments(axes: Axes, rewards: Mapping[str, np.ndarray], printed: Mapping[str, float]) -> None:
    """Columns of numbers, in the model's own units, a row per violin; the last only where something was printed."""
    columns = {"mean": {name: f"{values.mean():.4g}" for name, values in rewards.items()},
               "sd": {name: f"{values.std():.4g}" for name, values in rewards.items()},
               "skewness": {name: f"{stats.skew(values):+.2f}" for name, values in rewards.items()}}  # fmt: skip
    if shown := {name: f"{printed[name]:+.2f}" for name in rewards if name in printed}:
        columns["printed"] = shown
    for number, (heading, cells) in enumerate(columns.items(), start=1):
        cells = {0.75: heading} | {-place: cells.get(name, "") for place, name in enumerate(rewards)}
        for place, text in cells.items():
            axes.text(number / 4.2, place, text.replace("-", "−"), ha="right", va="center", fontsize=12)


@styled
def draw_theoretical(frames: Mapping[str, pd.DataFrame], *, title: str) -> Chart:
    """The theoretical similarity matrices side by side, lower triangles, as from factors.theoretical (Fig 2C)."""
    wide = 2.2 + 3.2 * len(frames)
    figure = new_chart(wide, 4.6 + 0.35 * len(title_lines(title, wide)), title)
    panels = figure.subplots(1, len(frames), squeeze=False)[0]
    for number, (axes, (name, frame)) in enumerate(zip(panels, frames.items(), strict=True)):
        below = frame.mask(np.triu(np.ones(frame.shape, dtype=bool))).iloc[1:, :-1]
        rows = [model_label(model) for model in below.index] if number == 0 else []
        columns = [model_label(model) for model in below.columns]
        shades = axes.imshow(below, vmin=0, vmax=1, cmap="Greys", aspect="auto")
        axes.set(title=name, yticks=range(len(rows)), xticks=range(len(columns)))
        axes.set_xticklabels(columns, rotation=90, fontsize=11)
        axes.set_yticklabels(rows, fontsize=11)
    figure.colorbar(shades, ax=panels.tolist(), label="similarity", shrink=0.6)
    return figure


@styled
def draw_maps(maps: Mapping[str, agreement.ModelMap], models: pd.DataFrame, *, title: str) -> Chart:
    """Maps of models side by side, names beside their points, a marker per developer (Fig 2B).

    maps: panel title -> map. models: rows of the registry for all models of the maps; developers may be blank.
    Distances alone mean something, so the axes carry the scale of 1 - tau and no names; panels share a scale.
    """
    figure = new_chart(9 if len(maps) == 1 else 6.6 * len(maps), 7, title)
    panels = figure.subplots(1, len(maps), squeeze=False)[0]
    names = [name for one in maps.values() for name in one.positions.index]
    colours = model_colours(names)
    developers = models["developer"].reindex(list(dict.fromkeys(names))).fillna("").astype(str)
    shapes = dict(zip(dict.fromkeys(developers), itertools.cycle("os^DPX*v"), strict=False))
    reach = 1.35 * max(float(one.positions.abs().to_numpy().max()) for one in maps.values())
    for axes, (name, one) in zip(panels, maps.items(), strict=True):
        for model, point in one.positions.iterrows():
            axes.scatter(*point, s=130, marker=shapes[developers[model]], color=colours[model])
        axes.set(title=name, xlim=(-reach, reach), ylim=(-reach, reach), xlabel="distance stands for 1 − tau")
        axes.set_aspect("equal")
    for developer, shape in shapes.items():
        panels[0].scatter([], [], s=90, marker=shape, color=GREY, label=label(developer or "unknown", 30, blur=False))
    figure.legend(loc="outside lower center", title="developer", frameon=False, fontsize=12, ncols=6)
    figure.draw_without_rendering()
    for axes, one in zip(panels, maps.values(), strict=True):
        _name_points(axes, one.positions)
    return figure


def draw_map(model_map: agreement.ModelMap, models: pd.DataFrame, *, title: str) -> Chart:
    """One map, as of `draw_maps`."""
    return draw_maps({"": model_map}, models, title=title)


def _name_points(axes: Axes, positions: pd.DataFrame) -> None:
    """Each name beside its point, on the side where it covers least of what is there already."""
    dots = axes.transData.transform(positions.to_numpy())
    taken = [Bbox.from_extents(x - 8, y - 8, x + 8, y + 8) for x, y in dots]
    for name, point in zip(positions.index, positions.to_numpy(), strict=True):
        texts = [
            axes.annotate(model_label(name), point, shift, textcoords="offset points", ha=across, va=down, fontsize=12)
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


PUBLISHED_COLOUR, CORRECTED_COLOUR = "#737373", "black"


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
