"""The charts of how alike models are."""

import itertools
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from .. import InputError
from ..claims.cells import below_diagonal
from ..show import charts
from ..show.figures import (
    GREY,
    Chart,
    label,
    model_colours,
    model_label,
    new_chart,
    styled,
    title_lines,
)
from . import agreement

PUBLISHED = "#737373"  # the colour of what is as published


@styled
def draw_matrices(frames: Mapping[str, pd.DataFrame], *, title: str, measure: str, numbers: bool = True) -> Chart:
    """Draw models x models matrices side by side, a panel each: the pairs below the diagonal, on one scale.

    frames: panel title -> matrix. With numbers, each is printed, and shades run from the lowest to the highest entry of
    all panels. Without, they run from 0 to 1.
    """
    most = max(map(len, frames.values()))
    wide = max(7.0, (2.4 + 0.56 * most) * len(frames)) if numbers else 2.2 + 3.2 * len(frames)
    lines = len(title_lines(title, wide))
    figure = new_chart(wide, 2.4 + 0.48 * most + 0.3 * lines if numbers else 4.6 + 0.35 * lines, title)
    panels = figure.subplots(1, len(frames), squeeze=False, sharey=not numbers)[0]
    below = {name: below_diagonal(frame).iloc[1:, :-1] for name, frame in frames.items()}
    low, high = (limit([limit(frame) for frame in below.values()]) for limit in (np.nanmin, np.nanmax))
    room = 0.25 * (high - low) or 1.0  # so that the highest cell is not black, and its number can be read
    for axes, (name, frame) in zip(panels, below.items(), strict=True):
        limits = (low, high + room) if numbers else (0.0, 1.0)
        charts.heat_map(axes, frame, limits=limits, numbers=".2f" if numbers else "")
        axes.set_title(name)
    figure.supxlabel(f"{measure}; dark is high", fontsize=12)
    return figure


@styled
def draw_violins(rewards: Mapping[str, np.ndarray], *, title: str, printed: Mapping[str, float] | None = None) -> Chart:
    """Draw the reward distribution of each model as a horizontal violin, in sd from the model's own mean (Fig 1).

    rewards: model -> rewards of one prompt. Mean, sd and skewness in the model's own units stand at the right, beside
    the skewness that is `printed`, by model. InputError for a model whose rewards are all equal.
    """
    rewards = {name: np.asarray(values, dtype=float) for name, values in rewards.items()}  # a frame will do
    for name, values in rewards.items():
        if len(np.unique(values)) < 2:
            raise InputError(f"the rewards of {name} are all equal, so they have no distribution; leave it out")
    figure = new_chart(13.5, 2.6 + 0.62 * len(rewards), title)
    (axes, table), colours = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1.8)), model_colours(rewards)
    for place, (name, own) in enumerate(rewards.items()):
        own = (own - own.mean()) / own.std()
        body = axes.violinplot(own, [-place], orientation="horizontal", widths=0.85, points=200, showextrema=False)
        body["bodies"][0].set(facecolor=colours[name], alpha=0.9)
        axes.plot([own.min(), own.max()], [-place, -place], color=colours[name], linewidth=1)
        axes.plot([own.mean()] * 2, [-place - 0.38, -place + 0.38], color="black", linewidth=2)
        axes.plot(np.median(own), -place, "o", color="white", markeredgecolor="black", markersize=7)
    axes.set_yticks([-place for place in range(len(rewards))], [model_label(name) for name in rewards])
    axes.set_ylim(-len(rewards) + 0.4, 0.6)
    axes.set_xlabel("reward, in sd from the model's own mean")
    table.set_axis_off()
    _write_moments(table, rewards, printed or {})
    axes.plot([], [], "|", color="black", markersize=13, markeredgewidth=2, label="mean")
    axes.plot([], [], "o", color="white", markeredgecolor="black", markersize=7, label="median")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def _write_moments(axes: Axes, rewards: Mapping[str, np.ndarray], printed: Mapping[str, float]) -> None:
    """Write columns of numbers, a row per violin; `printed` only if something was."""
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
def draw_maps(maps: Mapping[str, agreement.ModelMap], models: pd.DataFrame, *, title: str) -> Chart:
    """Draw maps of models side by side, names beside their points, a marker per developer (Fig 2B)."""
    figure = new_chart(9 if len(maps) == 1 else 6.6 * len(maps), 7, title)
    panels = figure.subplots(1, len(maps), squeeze=False)[0]
    names = [name for model_map in maps.values() for name in model_map.positions.index]
    colours = model_colours(names)
    developers = models["developer"].reindex(list(dict.fromkeys(names))).fillna("").astype(str)
    shapes = dict(zip(dict.fromkeys(developers), itertools.cycle("os^DPX*v"), strict=False))
    reach = 1.35 * max(float(mapped.positions.abs().to_numpy().max()) for mapped in maps.values())
    for axes, (name, mapped) in zip(panels, maps.items(), strict=True):
        for model, point in mapped.positions.iterrows():
            axes.scatter(*point, s=130, marker=shapes[developers[model]], color=colours[model])
        axes.set(title=name, xlim=(-reach, reach), ylim=(-reach, reach), xlabel="distance stands for 1 − tau")
        axes.set_aspect("equal")
    for developer, shape in shapes.items():
        panels[0].scatter([], [], s=90, marker=shape, color=GREY, label=label(developer or "unknown", 30, blur=False))
    figure.legend(loc="outside lower center", title="developer", frameon=False, fontsize=12, ncols=6)
    figure.draw_without_rendering()
    for axes, mapped in zip(panels, maps.values(), strict=True):
        charts.name_points(axes, mapped.positions)
    return figure


@styled
def draw_kinds(kinds: pd.DataFrame, *, title: str) -> Chart:
    """Draw how many texts of each kind there are, a row per model, and their mean length. kinds: as from ends.kinds."""
    counts = kinds.drop(columns=["mean length", "other"], errors="ignore")
    figure, [axes] = charts.row_of_panels([""], height=2.1 + 0.42 * len(kinds), title=title, width=7.5, margin=2)
    charts.heat_map(axes, counts.astype(float), numbers=".0f", are_models=False)
    lengths = [f"{model_label(name)}, {letters:.0f} letters" for name, letters in kinds["mean length"].items()]
    axes.set_yticklabels(lengths)
    axes.set_xlabel("texts of each kind; other texts are not shown.\nOn the left: the mean length of the texts")
    return figure
