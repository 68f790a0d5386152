"""The charts of section 4: how far models agree with people, and on which items they do not.

Nobody has checked the texts of items, so figures.label hides offensive ones unless blur=False.
"""

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch

from ..show.charts import heat_map, name_in_column
from ..show.figures import (
    GREY,
    NEGATIVE,
    POSITIVE,
    Chart,
    label,
    model_colours,
    model_label,
    new_chart,
    styled,
)

SHAPES = ("o", "s", "^", "D", "v", "P")
COLUMNS = 5  # small panels side by side
UNDER, OVER = POSITIVE, NEGATIVE  # the colours of the paper's Figure 5B
# left, bottom, width and height of the boxes of draw_task, on a page of 12 x 5
BOXES = (
    (0.1, 3.7, 5.6, 1.1),
    (6.2, 3.7, 5.6, 1.1),
    (0.1, 2.2, 2.6, 0.9),
    (3.1, 2.2, 2.6, 0.9),
    (6.2, 2.75, 3.1, 0.6),
    (6.2, 2.0, 3.1, 0.6),
    (0.1, 0.3, 5.6, 0.8),
    (6.2, 0.3, 5.6, 0.8),
)
ARROWS = (
    ((2.9, 1.5), (2.9, 1.2)),
    ((9.0, 1.9), (9.0, 1.2)),
    ((9.35, 3.05), (10.2, 3.05)),
    ((9.35, 2.3), (10.2, 2.3)),
)
NOTES = ((10.3, 3.05), (10.3, 2.3), (0.3, 1.75))


def _key(text: str, colour: str, shape: str = "", line: str = "-", **options) -> Line2D:
    """Return the entry of a legend for a line or a shape."""
    return Line2D(
        [],
        [],
        color=colour,
        marker=shape,
        linestyle=line,
        label=text,
        **options,
    )


@styled
def draw_task(
    people: tuple[str, str],
    prompt: str,
    pair: tuple[str, str],
    *,
    title: str,
) -> Chart:
    """Draw what people were asked beside what a reward model scores (Fig 5A).

    people: their question, and how they answered it. pair: two items, as both are shown them.
    """
    question, how = people
    texts = [
        f"People\n“{question}”",
        f"A reward model\n{textwrap.fill(f'“{prompt}”', 46)}",
        *pair,
        *(f"reply: {item}" for item in pair),
        "a rating per item → rank by people",
        "a reward per item → rank by this model",
    ]
    chart = new_chart(12, 4.8, title)
    axes = chart.subplots()
    axes.set(xlim=(0, 12), ylim=(0, 5))
    axes.set_axis_off()
    look = {"facecolor": "#f2f2f2", "edgecolor": GREY}
    look["boxstyle"] = "round,pad=0.02,rounding_size=0.12"
    middle = {"ha": "center", "va": "center", "wrap": True}
    for (x, y, width, height), text in zip(BOXES, texts, strict=True):
        axes.add_patch(FancyBboxPatch((x, y), width, height, **look))
        axes.text(x + width / 2, y + height / 2, text, **middle)
    arrow = {"arrowstyle": "->", "color": GREY, "linewidth": 1.5}
    for start, end in ARROWS:
        axes.annotate("", end, start, arrowprops=arrow)
    for (x, y), text in zip(NOTES, ("one reward", "one reward", how), strict=True):
        axes.text(x, y, text, va="center")
    return chart


@styled
def draw_discrepancies(
    ranks: pd.DataFrame,
    *,
    title: str,
    n: int = 6,
    blur: bool = True,
    kinds: pd.Series | None = None,
) -> Chart:
    """Draw rank by people against rank by models, with the n most under- and overvalued items named
    (Fig 5B).

    `ranks`: human.discrepancies. The dashed line is agreement, the solid line the expected rank.
    `kinds`: item -> kind, '' for none. Below, each kind has a strip with a stroke per item: its
    rank by models minus the expected rank.
    """
    strips = []
    heights = [9]
    if kinds is not None:
        kinds = kinds.reindex(ranks.index).fillna("")
        strips = [*sorted(set(kinds) - {""}), ""]
        heights.append(0.6 * len(strips))
    figure = new_chart(10, 9 + 0.45 * len(strips), title)
    panels = figure.subplots(len(heights), squeeze=False, height_ratios=heights).flat
    axes = panels[0]
    _draw_ranks(axes, ranks)
    ordered = ranks.sort_values("position", kind="stable")
    _name_items(axes, ordered.head(n), UNDER, "left", blur)
    _name_items(axes, ordered.tail(n), OVER, "right", blur)
    axes.invert_yaxis()  # rank 1 is on top
    if strips:
        _draw_strips(panels[1], ranks["surprise"].groupby(kinds), strips)
    figure.legend(
        handles=[
            _key("models rank as people do", GREY, line="--"),
            _key("expected rank by models", "black"),
            _key("most undervalued", UNDER, "o", ""),
            _key("most overvalued", OVER, "s", ""),
        ],
        loc="outside lower center",
        ncols=2,
        frameon=False,
    )
    return figure


def _draw_ranks(axes: Axes, ranks: pd.DataFrame) -> None:
    """Draw a dot per item, the line of agreement and the line of expected ranks."""
    items = len(ranks)
    line = ranks.sort_values("people_rank")
    limits = (-0.01 * items, 1.01 * items)
    axes.set(xlim=limits, ylim=limits)
    axes.scatter(
        ranks["people_rank"],
        ranks["models_rank"],
        s=5,
        color="#b0b0b0",
        linewidths=0,
        rasterized=True,
    )
    axes.plot([1, items], [1, items], color=GREY, linestyle="--", linewidth=1.2)
    axes.plot(line["people_rank"], line["expected"], color="black", linewidth=2)
    axes.set(xlabel="rank by people (1 = best)", ylabel="rank by models (1 = best)")


def _draw_strips(axes: Axes, surprises, strips: Sequence[str]) -> None:
    """Draw a strip per kind: a stroke per item at its surprise, and a diamond at the median."""
    names = []
    for height, kind in enumerate(strips):
        surprise = surprises.get_group(kind)
        count = len(surprise)
        axes.vlines(
            surprise,
            height - 0.32,
            height + 0.32,
            color="black",
            linewidth=1.2,
            alpha=float(np.clip(20 / count, 0.02, 0.7)),
        )
        axes.plot(
            surprise.median(),
            height,
            "D",
            color="white",
            markeredgecolor="black",
            markersize=8,
            zorder=3,
        )
        names.append(f"{kind or 'no kind'} ({count:,})")
    axes.axvline(0, color=GREY, linewidth=0.8, linestyle="--")
    axes.set_yticks(range(len(strips)), names)
    axes.set_ylim(len(strips) - 0.4, -0.6)
    axes.set_xlabel(
        "rank by models minus expected rank (right: undervalued; diamond: median)"
    )


def _name_items(
    axes: Axes,
    rows: pd.DataFrame,
    colour: str,
    side: str,
    blur: bool,
) -> None:
    """Mark some items and write their names in a column."""
    items = axes.get_ylim()[1]
    ranks = rows["people_rank"]
    if side == "left":
        x = max(ranks.max() + 0.04 * items, 0.12 * items)
    else:
        x = min(ranks.min() - 0.04 * items, 0.88 * items)
    marker = "o" if side == "left" else "s"
    axes.scatter(
        ranks,
        rows["models_rank"],
        s=45,
        color=colour,
        marker=marker,
        zorder=3,
    )
    names = [item_label(item, 34, blur) for item in rows.index]
    places = rows[["people_rank", "models_rank"]].to_numpy(dtype=float)
    name_in_column(
        axes,
        names,
        places,
        x,
        gap=0.045 * items,
        within=(0.02 * items, 0.98 * items),
        colour=colour,
    )


def item_label(item: str, width: int, blur: bool) -> str:
    """Return an item for a figure, as figures.label but with plain blanks: items are trimmed."""
    return label(item, width, blur=blur).replace("␣", " ")


@styled
def draw_trajectories(
    ranks: pd.DataFrame,
    groups: Mapping[str, Sequence[str]],
    *,
    title: str,
    blur: bool = True,
) -> Chart:
    """Draw a line from each item's rank by people to its median rank by models, and a dot per model
    (Fig 5C).

    `ranks`: all items x (people, then models). `groups`: panel -> up to six items.
    """
    rows = math.ceil(len(groups) / 2)
    figure = new_chart(15, 1.6 + 4.1 * rows, title)
    panels = figure.panels(len(groups), columns=2)
    for axes, (name, items) in zip(panels, groups.items(), strict=True):
        of_group = ranks.loc[list(items)]
        _draw_slopes(axes, of_group, len(ranks), blur)
        axes.set_title(name)
    figure.supylabel("rank among all items (1 = best)", fontsize=13)
    keys = []
    for name, colour in model_colours(ranks.columns[1:]).items():
        keys.append(_key(model_label(name), colour, "o", ""))
    figure.legend(
        handles=keys,
        loc="outside lower center",
        ncols=5,
        frameon=False,
        fontsize=11,
    )
    return figure


def _draw_slopes(axes: Axes, rows: pd.DataFrame, count: int, blur: bool) -> None:
    """Draw the items of one panel, of `count` ranked items: people at x = 0, the models' median at
    x = 1, the models to the right of it.
    """
    people = rows.iloc[:, 0].astype(float)
    of_models = rows.iloc[:, 1:]
    median = of_models.median(axis=1)
    steps = np.linspace(1.06, 1.3, of_models.shape[1])
    hues = list(model_colours(of_models.columns).values())
    shapes = itertools.cycle(SHAPES)
    for item, shape in zip(rows.index, shapes, strict=False):
        axes.plot(
            [0, 1],
            [people[item], median[item]],
            marker=shape,
            color="black",
            linewidth=1.6,
            markersize=7,
        )
        axes.scatter(steps, of_models.loc[item], s=22, marker=shape, c=hues)
    names = [item_label(item, 26, blur) for item in rows.index]
    for heights, start, end in ((people, -0.06, -0.28), (median, 1.36, 1.58)):
        name_in_column(
            axes,
            names,
            np.column_stack([np.full(len(rows), start), heights]),
            end,
            gap=0.085 * count,
            within=(0.0, float(count)),
        )
    _label_slopes(axes, count)


def _label_slopes(axes: Axes, count: int) -> None:
    """Set the limits and the marks of both axes; count: how many items are ranked."""
    axes.set(ylim=(1.06 * count, -0.06 * count), xlim=(-1.32, 2.64))
    axes.set_xticks([0, 1.15], ["people", "models: median (black)\nand each one"])
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    shown = (1, count // 2, count)
    texts = [f"{rank:,}" for rank in shown]
    axes.set_yticks(shown, texts, fontsize=11, color=GREY)
    # between people and models only: further out, the lines would strike through names
    axes.hlines(shown, 0, 1.3, color="#dddddd", linewidth=0.8, zorder=0)


@styled
def draw_small_matrices(matrices: Mapping[str, pd.DataFrame], *, title: str) -> Chart:
    """Draw a small matrix of correlations per model, all on one scale from 0 to 1 (Fig A6)."""
    rows = math.ceil(len(matrices) / COLUMNS)
    columns = min(len(matrices), COLUMNS)
    figure = new_chart(2.6 * columns, 0.9 + 2.6 * rows, title)
    panels = figure.panels(len(matrices), columns)
    for axes, (name, matrix) in zip(panels, matrices.items(), strict=True):
        # 1.4: a 1 is not black
        heat_map(axes, matrix, limits=(0.0, 1.4), rotation=0)
        axes.set_title(model_label(name), fontsize=12)
    return figure


@styled
def draw_bars(
    discrepancies: Mapping[str, pd.Series],
    *,
    title: str,
    n: int = 10,
    blur: bool = True,
) -> Chart:
    """Draw the n items that models rank lowest and highest, compared with people (Figs 5B and A7).

    `discrepancies`: panel -> rank by models minus rank by people, by item, the largest first.
    """
    count = len(discrepancies)
    figure = new_chart(6.4 * count, 1.6 + 0.62 * n, title)
    panels = figure.panels(count, count)
    colours = [UNDER] * n + [OVER] * n
    heights = [*range(n), *range(n + 1, 2 * n + 1)]  # a gap between the two ends
    for axes, (name, ordered) in zip(panels, discrepancies.items(), strict=True):
        shown = pd.concat([ordered.head(n), ordered.tail(n)])
        axes.barh(heights, shown, color=colours)
        names = [item_label(item, 26, blur) for item in shown.index]
        axes.set_yticks(heights, names, fontsize=11)
        axes.set_title(textwrap.fill(name, 40), fontsize=12)
        axes.set(xlabel="rank by models minus rank by people", ylim=(2 * n + 0.8, -0.8))
        axes.locator_params(axis="x", nbins=4)
        axes.axvline(0, color="black", linewidth=0.8)
    return figure
