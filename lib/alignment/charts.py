"""The charts of section 4: how far models agree with people, and the items about which they do not.

Items are texts that nobody has checked, so they go through figures.label; an offensive one is hidden unless blur=False.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from lib import InputError
from lib.figures import GREY, Chart, label, model_colours, styled

MARKERS = ("o", "s", "^", "D", "v", "P")
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")  # Okabe and Ito's, for any eyes
HIGH, LOW = "#0072b2", "#d55e00"


@styled
def draw_agreement(taus: pd.DataFrame, *, title: str, ceiling: float | None = None) -> Chart:
    """Each model's tau with people, a marker per prompt; the best one for the first prompt is on top (Fig A5).

    taus: models x prompts. ceiling: the tau of people with themselves, as a line; None where it is not known.
    """
    ordered = taus.sort_values(taus.columns[0])
    figure = Chart(figsize=(9.5, 2.4 + 0.5 * len(ordered)), layout="constrained")
    axes = figure.subplots()
    colours = model_colours(ordered.index)
    steps = 0.22 * (np.arange(ordered.shape[1]) - (ordered.shape[1] - 1) / 2)[::-1]  # apart, so that none hides one
    for marker, prompt, step in zip(MARKERS, ordered, steps, strict=False):
        mean, heights = ordered[prompt].mean(), np.arange(len(ordered)) + step
        axes.scatter(ordered[prompt], heights, marker=marker, s=60, c=[colours[m] for m in ordered.index])
        axes.axvline(mean, color=GREY, linewidth=1, linestyle=":", zorder=0)
        axes.plot(mean, len(ordered) - 0.2 + 1.4 * step, marker=marker, color=GREY, markersize=8, clip_on=False)
    axes.set_yticks(range(len(ordered)), [label(name, 30, blur=False) for name in ordered.index])
    shown = [0.0, *ordered.to_numpy().ravel(), *([] if ceiling is None else [ceiling])]
    axes.set(xlabel="Kendall's tau with people", xlim=(min(shown) - 0.02, max(shown) + 0.02))
    axes.set_ylim(-0.6, len(ordered) + 0.2)
    keys = [
        Line2D([], [], marker=marker, color=GREY, linestyle="", markersize=8, label=f"{prompt} (dotted: its mean)")
        for marker, prompt in zip(MARKERS, ordered, strict=False)
    ]
    if ceiling is not None:
        axes.axvline(ceiling, color="black", linewidth=1.5)
        keys.append(Line2D([], [], color="black", label="half of the raters with the other half"))
    figure.legend(handles=keys, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


@styled
def draw_ends(found: Mapping[str, pd.DataFrame], *, title: str, paper: tuple[float, float] | None = None) -> Chart:
    """Agreement with people among the items they rate highest and lowest, by how many are taken; a panel per prompt.

    found: prompt -> alignment.at_ends. Bands are 95% intervals. paper: what it prints for high and low, as lines.
    """
    figure = Chart(figsize=(4.2 * len(found) + 1, 4.6), layout="constrained")
    panels = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    for axes, (prompt, rows) in zip(panels, found.items(), strict=True):
        for end, colour, marker in (("high", HIGH, "o"), ("low", LOW, "s")):
            axes.fill_between(rows["cut"], rows[f"{end}_ci_low"], rows[f"{end}_ci_high"], color=colour, alpha=0.2, lw=0)
            axes.plot(rows["cut"], rows[f"{end}_tau"], marker=marker, color=colour)
        for value, colour in zip(paper or (), (HIGH, LOW), strict=False):
            axes.axhline(value, color=colour, linestyle=":", linewidth=1.5)
        axes.axhline(0, color=GREY, linewidth=0.8)
        axes.set(xscale="log", title=f"prompt: {prompt}", xlabel="items at each end")
        shown = list(rows["cut"])[::2]
        axes.set_xticks(shown, [f"{cut:,}" for cut in shown])
        axes.set_xticks([], minor=True)
    panels[0].set_ylabel("mean tau of models with people")
    keys = [
        Line2D([], [], color=HIGH, marker="o", label="items that people rate highest"),
        Line2D([], [], color=LOW, marker="s", label="items that people rate lowest"),
    ]
    if paper:
        keys.append(Line2D([], [], color=GREY, linestyle=":", label="the paper's two numbers"))
    figure.legend(handles=keys, loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


@styled
def draw_discrepancies(
    found: pd.DataFrame, *, title: str, n: int = 6, blur: bool = True, kinds: pd.Series | None = None
) -> Chart:
    """Rank by people against rank by models, with the n most under- and overvalued items named (Fig 5B).

    found: alignment.discrepancies. The dashed line is agreement, the solid one what is expected of an item that people
    rank so, given that models and people agree only so far. kinds: item -> kind, '' for none; those of a kind are
    coloured, beside the column of the items that people rank alike.
    """
    if not 0 < 2 * n <= len(found):
        raise InputError(f"{len(found)} items have no {n} at either end; choose n up to {len(found) // 2}")
    figure = Chart(figsize=(10, 9), layout="constrained")
    axes = figure.subplots()
    items = len(found)
    axes.set(xlim=(-0.01 * items, 1.01 * items), ylim=(-0.01 * items, 1.01 * items))
    axes.scatter(found["people_rank"], found["models_rank"], s=5, color="#b0b0b0", linewidths=0, rasterized=True)
    axes.plot([1, items], [1, items], color=GREY, linestyle="--", linewidth=1.2)
    line = found.sort_values("people_rank")
    axes.plot(line["people_rank"], line["expected"], color="black", linewidth=2)
    ordered = found.sort_values("position", kind="stable")
    _name(axes, ordered.head(n), HIGH, "left", blur)
    _name(axes, ordered.tail(n), LOW, "right", blur)
    axes.invert_yaxis()
    axes.set(xlabel="rank by people (1 = best)", ylabel="rank by models (1 = best)")
    keys = [
        Line2D([], [], color=GREY, linestyle="--", label="models rank as people do"),
        Line2D([], [], color="black", label="expected of an item that people rank so"),
        Line2D([], [], color=HIGH, marker="o", linestyle="", label="most undervalued"),
        Line2D([], [], color=LOW, marker="o", linestyle="", label="most overvalued"),
    ]
    keys += _mark_kinds(axes, found, kinds) if kinds is not None else []
    figure.legend(handles=keys, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def _mark_kinds(axes: Axes, found: pd.DataFrame, kinds: pd.Series) -> list[Line2D]:
    kinds = kinds.reindex(found.index).fillna("")
    keys = []
    for i, kind in enumerate(sorted(set(kinds) - {""})):
        rows, colour = found[kinds == kind], LINES[2 + i]
        alike = (rows["people_rank"] == rows["people_rank"].iloc[0]).all()  # then all of them would lie on each other
        step = 0.012 * len(found) * (i + 1) if alike else 0
        axes.scatter(rows["people_rank"] + step, rows["models_rank"], s=22, marker=MARKERS[1 + i], color=colour)
        keys.append(Line2D([], [], color=colour, marker=MARKERS[1 + i], linestyle="", label=f"{kind} ({len(rows)})"))
    return keys


def _name(axes: Axes, rows: pd.DataFrame, colour: str, side: str, blur: bool) -> None:
    """Mark some items and write their names in a column beside them, in the order of their heights."""
    items = axes.get_ylim()[1]
    ranks = rows["people_rank"]
    x = max(ranks.max() + 0.04 * items, 0.12 * items) if side == "left" else ranks.min() - 0.04 * items
    x = x if side == "left" else min(x, 0.88 * items)
    wanted = rows["models_rank"].to_numpy()
    heights = spread(wanted, 0.045 * items, 0.02 * items, 0.98 * items)
    room = heights.min() - 0.02 * items, 0.98 * items - heights.max()  # up and down, to centre them on their points
    heights = heights + np.clip((wanted - heights).mean(), -max(room[0], 0), max(room[1], 0))
    axes.scatter(rows["people_rank"], rows["models_rank"], s=45, color=colour, zorder=3)
    # From the side of the name that faces the points: a line from its middle would cross the names above or below.
    leader = {"arrowstyle": "-", "color": colour, "linewidth": 1, "relpos": (0 if side == "left" else 1, 0.5)}
    for (item, row), height in zip(rows.iterrows(), heights, strict=True):
        axes.annotate(
            item_label(item, 34, blur), (row["people_rank"], row["models_rank"]), (x, height), ha=side, va="center",
            fontsize=12, zorder=4, arrowprops=leader,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
        )  # fmt: skip


def item_label(item: str, width: int, blur: bool) -> str:
    """An item for a figure: as figures.label, but with its blanks as blanks; items are trimmed, so none is hidden."""
    return label(item, width, blur=blur).replace("␣", " ")


@styled
def draw_trajectories(
    ranks: pd.DataFrame, groups: Mapping[str, Sequence[str]], *, title: str, blur: bool = True
) -> Chart:
    """The ranks of some items from people to model to model, a panel per group of items (Fig 5C).

    ranks: items x (people, then models in the order in which to draw them), of all items. groups: the panel's name ->
    up to six items, each of its own colour and marker, named at both ends.
    """
    for name, items in groups.items():
        if not 0 < len(items) <= len(LINES):
            raise InputError(
                f"{len(items)} items in the panel '{name}'; choose 1 to {len(LINES)}, so that lines stay apart"
            )
        if missing := [item for item in items if item not in ranks.index]:
            raise InputError(f"no item {missing[0]!r} among those ranked; check its spelling")
    figure = Chart(figsize=(14, 0.9 + 3.3 * len(groups)), layout="constrained")
    panels = figure.subplots(len(groups), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, items) in zip(panels, groups.items(), strict=True):
        _draw_paths(axes, ranks, items, blur)
        axes.set_title(name)
    panels[-1].set_xticks(
        range(ranks.shape[1]), [label(str(n), 30, blur=False) for n in ranks], rotation=30, ha="right"
    )
    figure.supylabel("rank among all items (1 = best)", fontsize=13)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def _draw_paths(axes: Axes, ranks: pd.DataFrame, items: Sequence[str], blur: bool) -> None:
    count, last = len(ranks), ranks.shape[1] - 1
    for i, item in enumerate(items):
        axes.plot(range(last + 1), ranks.loc[item], color=LINES[i], marker=MARKERS[i], linewidth=2, markersize=7)
    for column, x, side, aside in ((0, -0.2, "right", -52), (last, last + 0.25, "left", 0)):  # beside the axis' numbers
        wanted = ranks.loc[list(items)].iloc[:, column].to_numpy(dtype=float)
        for i, y in enumerate(spread(wanted, 0.13 * count, 0.0, float(count))):
            axes.annotate(
                item_label(items[i], 26, blur), (x, y), (aside, 0), textcoords="offset points", ha=side, va="center",
                fontsize=12, color=LINES[i], annotation_clip=False,
            )  # fmt: skip
    axes.set(ylim=(1.04 * count, -0.04 * count), xlim=(-0.2, last + 0.2))
    axes.axvline(0.5, color=GREY, linewidth=0.8, zorder=1)
    axes.spines[["left", "bottom"]].set_visible(False)
    shown = (1, count // 2, count)
    axes.set_yticks(shown, [f"{rank:,}" for rank in shown], fontsize=11, color=GREY)
    axes.tick_params(axis="y", length=0)
    for rank in shown:
        axes.axhline(rank, color="#dddddd", linewidth=0.8, zorder=0)


def spread(wanted: np.ndarray, gap: float, low: float, high: float) -> np.ndarray:
    """Positions near the wanted ones, in the same order, at least `gap` apart and within [low, high] if they fit."""
    order = np.argsort(wanted, kind="stable")
    placed = np.array(wanted, dtype=float)[order]
    for i in range(1, len(placed)):
        placed[i] = max(placed[i], placed[i - 1] + gap)
    placed[-1] = min(placed[-1], high)
    for i in range(len(placed) - 2, -1, -1):
        placed[i] = min(placed[i], placed[i + 1] - gap)
    placed += max(0.0, low - placed[0])
    found = np.empty(len(placed))
    found[order] = placed
    return found
