"""The charts of how alike models are."""

import itertools
from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy import stats

from .. import InputError
from ..show import charts
from ..show.figures import GREY, Chart, label, model_colours, model_label, new_chart, styled, title_lines
from . import agreement

PUBLISHED = "#737373"  # the colour of what is as published


@styled
def draw_matrices(frames: Mapping[str, pd.DataFrame], *, title: str, measure: str) -> Chart:
    """Draw models x models matrices side by side, a panel each: the pairs below the diagonal, on one scale.

    frames: panel title -> matrix. Shades run from the lowest to the highest entry of all panels.
    """
    most = max(map(len, frames.values()))
    wide = max(7.0, (2.4 + 0.56 * most) * len(frames))
    figure = new_chart(wide, 2.4 + 0.48 * most + 0.3 * len(title_lines(title, wide)), title)
    panels = figure.subplots(1, len(frames), squeeze=False)[0]
    below = {name: frame.where(np.tri(len(frame), k=-1, dtype=bool)).iloc[1:, :-1] for name, frame in frames.items()}
    low, high = (limit([limit(frame) for frame in below.values()]) for limit in (np.nanmin, np.nanmax))
    room = 0.25 * (high - low) or 1.0  # so that the highest cell is not black, and its number can be read
    for axes, (name, frame) in zip(panels, below.items(), strict=True):
        charts.heat_map(axes, frame, limits=(low, high + room), numbers=".2f")
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
    columns = {"mean": {name: f"{own.mean():.4g}" for name, own in rewards.items()},
               "sd": {name: f"{own.std():.4g}" for name, own in rewards.items()},
               "skewness": {name: f"{stats.skew(own):+.2f}" for name, own in rewards.items()},
               "printed": {name: f"{printed[name]:+.2f}" for name in rewards if name in (printed or {})}}  # fmt: skip
    for number, (heading, cells) in enumerate(columns.items(), start=1):
        cells = {0.75: heading if cells else ""} | {-place: cells.get(name, "") for place, name in enumerate(rewards)}
        for place, text in cells.items():
            table.text(number / 4.2, place, text.replace("-", "−"), ha="right", va="center", fontsize=12)
    axes.plot([], [], "|", color="black", markersize=13, markeredgewidth=2, label="mean")
    axes.plot([], [], "o", color="white", markeredgecolor="black", markersize=7, label="median")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


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
