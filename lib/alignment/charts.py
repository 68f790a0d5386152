"""The charts of section 4: how far models agree with people, and the items about which they do not.

Items are texts that nobody has checked, so they go through figures.label; an offensive one is hidden unless blur=False.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from lib import InputError
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
)

SHAPES = ("o", "s", "^", "D", "v", "P")
HIGH, LOW = POSITIVE, NEGATIVE
# A thin one around the letters of a name: it stays legible over dots and cuts off hardly any of them.
HALO = withStroke(linewidth=1.5, foreground="white")


@styled
def draw_agreement(taus: pd.DataFrame, *, title: str, ceiling: float | None = None) -> Chart:
    """Each model's tau with people, a marker per prompt; the best one for the first prompt is on top (Fig A5).

    taus: models x prompts. ceiling: the tau of a model that knows what raters share, as a line; None: unknown.
    """
    ordered = taus.sort_values(taus.columns[0])
    figure = new_chart(9.5, 2.4 + 0.5 * len(ordered), title, DENSE_TITLE)
    axes = figure.subplots()
    _draw_taus(axes, ordered)
    axes.set_yticks(range(len(ordered)), [model_label(name) for name in ordered.index])
    shown = [0.0, *ordered.to_numpy().ravel(), *([] if ceiling is None else [ceiling])]
    axes.set(xlabel="Kendall's tau with people", xlim=(min(shown) - 0.02, max(shown) + 0.02))
    axes.set_ylim(-0.6, len(ordered) + 0.2)
    keys = [
        _key(f"{prompt} (dotted: its mean)", GREY, shape, "", markersize=8)
        for shape, prompt in zip(SHAPES, ordered, strict=False)
    ]
    if ceiling is not None:
        axes.axvline(ceiling, color="black", linewidth=1.5)
        keys.append(_key("a model that knows what raters have in common", "black"))
    figure.legend(handles=keys, loc="outside lower center", ncols=2, frameon=False)
    return figure


def _draw_taus(axes: Axes, taus: pd.DataFrame) -> None:
    """A row per model, from below, a shape per prompt, a little apart so that none hides another; means above them."""
    colours = model_colours(taus.index)
    steps = 0.22 * (np.arange(taus.shape[1]) - (taus.shape[1] - 1) / 2)[::-1]
    for shape, prompt, step in zip(SHAPES, taus, steps, strict=False):
        mean, heights = taus[prompt].mean(), np.arange(len(taus)) + step
        axes.scatter(taus[prompt], heights, marker=shape, s=60, c=[colours[name] for name in taus.index])
        axes.axvline(mean, color=GREY, linewidth=1, linestyle=":", zorder=0)
        axes.plot(mean, len(taus) - 0.2 + 1.4 * step, marker=shape, color=GREY, markersize=8, clip_on=False)


def _key(text: str, colour: str, shape: str = "", line: str = "-", **options) -> Line2D:
    """What a legend says of a line or a shape."""
    return Line2D([], [], color=colour, marker=shape, linestyle=line, label=text, **options)


@styled
def draw_ends(ends: Mapping[str, pd.DataFrame], *, title: str, paper: tuple[float, float] | None = None) -> Chart:
    """Agreement with people among the items they rate highest and lowest, by how many are taken; a panel per prompt.

    ends: prompt -> human.at_ends. Bands are 95% intervals. paper: what it prints for high and low, as lines.
    """
    figure = new_chart(4.2 * len(ends) + 1, 4.6, title, DENSE_TITLE)
    panels = figure.subplots(1, len(ends), sharey=True, squeeze=False)[0]
    for axes, (prompt, rows) in zip(panels, ends.items(), strict=True):
        _draw_two_ends(axes, rows, paper or ())
        axes.set(xscale="log", title=f"prompt: {prompt}", xlabel="items at each end")
        shown = list(rows["cut"])[::2]
        axes.set_xticks(shown, [f"{cut:,}" for cut in shown])
        axes.set_xticks([], minor=True)
    panels[0].set_ylabel("mean tau of models with people")
    keys = [_key("items that people rate highest", HIGH, "o"), _key("items that people rate lowest", LOW, "s")]
    if paper:
        keys.append(_key("the paper's two numbers", GREY, line=":"))
    figure.legend(handles=keys, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _draw_two_ends(axes: Axes, rows: pd.DataFrame, paper: Sequence[float]) -> None:
    for end, colour, shape in (("high", HIGH, "o"), ("low", LOW, "s")):
        axes.fill_between(rows["cut"], rows[f"{end}_ci_low"], rows[f"{end}_ci_high"], color=colour, alpha=0.2, lw=0)
        axes.plot(rows["cut"], rows[f"{end}_tau"], marker=shape, color=colour)
    for value, colour in zip(paper, (HIGH, LOW), strict=False):
        axes.axhline(value, color=colour, linestyle=":", linewidth=1.5)
    axes.axhline(0, color=GREY, linewidth=0.8)


@styled
def draw_matched(by_prompt: Mapping[str, pd.DataFrame], *, title: str, unit: str) -> Chart:
    """Share of pairs that models order as people do, by how far apart people rate the two; a panel per prompt.

    by_prompt: prompt -> matched.by_distance. Pairs in the upper half of people's ranking against those in the lower,
    matched within each distance. unit: what a distance is counted in.
    """
    figure = new_chart(4.2 * len(by_prompt) + 1, 4.6, title, DENSE_TITLE)
    panels = figure.subplots(1, len(by_prompt), sharey=True, squeeze=False)[0]
    for axes, (prompt, rows) in zip(panels, by_prompt.items(), strict=True):
        for half, colour, shape in (("upper", HIGH, "o"), ("lower", LOW, "s")):
            axes.plot(range(len(rows)), rows[f"{half}_share"], marker=shape, color=colour)
        limits = rows["distance up to"].to_list()
        shown = [f"{limit:.2g}" if limit < 10 else f"{limit:.0f}" for limit in limits[:-1]] + ["more"]
        axes.set_xticks(range(len(rows))[::2], shown[::2])
        axes.axhline(0.5, color=GREY, linewidth=0.8)
        axes.set(title=f"prompt: {prompt}", xlabel=f"distance up to ({unit})")
    panels[0].set_ylabel("pairs ordered as people do")
    keys = [_key("pairs in the upper half", HIGH, "o"), _key("pairs in the lower half", LOW, "s")]
    figure.legend(handles=keys, loc="outside lower center", ncols=2, frameon=False)
    return figure


@styled
def draw_kinds(
    tables: Mapping[str, pd.DataFrame], alone: Mapping[str, pd.DataFrame], *, title: str, xlabel: str, null: float = 0.5
) -> Chart:
    """How much each kind is undervalued: a row per kind, a panel per prompt, a dot per model in its family's colour.

    tables: prompt -> rows with kind, above, ci_low, ci_high (for models and items like these: the line) and these_low,
    these_high (these very models: the bar). alone: prompt -> models x kinds. null: no effect, as a line.
    """
    kinds = list(next(iter(tables.values()))["kind"])
    figure = new_chart(4.4 * len(tables) + 1.5, 2.2 + 0.62 * len(kinds), title, DENSE_TITLE)
    panels = figure.subplots(1, len(tables), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (prompt, rows) in zip(panels, tables.items(), strict=True):
        heights = rows["kind"].map(kinds.index)
        axes.hlines(heights, rows["these_low"], rows["these_high"], color="#bdbdbd", linewidth=9)
        axes.hlines(heights, rows["ci_low"], rows["ci_high"], color="black", linewidth=1.5)
        axes.plot(rows["above"], heights, "D", color="black", markersize=6)
        _draw_models(axes, alone[prompt], kinds)
        axes.axvline(null, color=GREY, linewidth=0.8, linestyle="--")
        axes.set(title=prompt, xlabel=xlabel)
    panels[0].set_yticks(range(len(kinds)), kinds)
    panels[0].set_ylim(len(kinds) - 0.4, -0.6)
    keys = [_key("mean, items and models like these", "black", "D"), _key("these very models", "#bdbdbd", linewidth=9)]
    hues = model_colours(next(iter(alone.values())).index)
    keys += [_key(model_label(name), colour, "o", "") for name, colour in hues.items()]
    figure.legend(handles=keys, loc="outside lower center", ncols=5, frameon=False, fontsize=10)
    return figure


def _draw_models(axes: Axes, alone: pd.DataFrame, kinds: Sequence[str]) -> None:
    """A dot per model above the line of each kind, a little apart so that few hide another."""
    colours, steps = model_colours(alone.index), np.linspace(-0.36, -0.14, len(alone))
    for step, (name, row) in zip(steps, alone.iterrows(), strict=True):
        places = [(row[kind], height + step) for height, kind in enumerate(kinds) if kind in row.index]
        axes.plot(*zip(*places, strict=True), "o", color=colours[name], markersize=5, linestyle="")


@styled
def draw_leans(leans: Mapping[str, pd.DataFrame], *, title: str) -> Chart:
    """How far each model leans to one list of words against another, with its interval over words; a panel per prompt.

    leans: prompt -> profiles.Lean.by_itself, model -> lean, ci_low, ci_high; the first model is on top.
    """
    order = list(next(iter(leans.values())).index)
    hues = model_colours(order)
    figure = new_chart(4.2 * len(leans) + 1.5, 2.0 + 0.42 * len(order), title, DENSE_TITLE)
    panels = figure.subplots(1, len(leans), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (prompt, rows) in zip(panels, leans.items(), strict=True):
        for height, name in enumerate(order):
            row = rows.loc[name]
            axes.hlines(height, row["ci_low"], row["ci_high"], color=hues[name], linewidth=2)
            axes.plot(row["lean"], height, "o", color=hues[name], markersize=7)
        axes.axvline(0, color=GREY, linewidth=0.8, linestyle="--")
        axes.set(title=f"prompt: {prompt}", xlabel="agency less communion (SD of reward)")
    panels[0].set_yticks(range(len(order)), [model_label(name) for name in order])
    panels[0].set_ylim(len(order) - 0.4, -0.6)
    return figure


@styled
def draw_discrepancies(
    ranks: pd.DataFrame, *, title: str, n: int = 6, blur: bool = True, kinds: pd.Series | None = None
) -> Chart:
    """Rank by people against rank by models, with the n most under- and overvalued items named (Fig 5B).

    ranks: human.discrepancies. The dashed line is agreement, the solid one what is expected of an item that people rank
    so, given that models and people agree only so far. kinds: item -> kind, '' for none; a strip for each kind, below,
    has a stroke for every item of it, where the models rank it against what is expected.
    """
    if not 0 < 2 * n <= len(ranks):
        raise InputError(f"{len(ranks)} items have no {n} at either end; choose n up to {len(ranks) // 2}")
    strips = [] if kinds is None else [*sorted(set(kinds) - {""}), ""]
    heights = [9, 0.6 * len(strips)] if strips else [9]
    figure = new_chart(10, 9 + 0.45 * len(strips), title, DENSE_TITLE)
    panels = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    _draw_all_items(panels[0], ranks)
    _name_ends(panels[0], ranks.sort_values("position", kind="stable"), n, blur)
    if strips:
        _draw_strips(panels[1], ranks, kinds.reindex(ranks.index).fillna(""), strips)
    keys = [
        _key("models rank as people do", GREY, line="--"),
        _key("expected of an item that people rank so", "black"),
        _key("most undervalued", LOW, "o", ""),
        _key("most overvalued", HIGH, "s", ""),
    ]
    figure.legend(handles=keys, loc="outside lower center", ncols=2, frameon=False)
    return figure


def _draw_all_items(axes: Axes, ranks: pd.DataFrame) -> None:
    """A dot per item, the line of agreement and the line of what is expected."""
    items = len(ranks)
    axes.set(xlim=(-0.01 * items, 1.01 * items), ylim=(-0.01 * items, 1.01 * items))
    axes.scatter(ranks["people_rank"], ranks["models_rank"], s=5, color="#b0b0b0", linewidths=0, rasterized=True)
    axes.plot([1, items], [1, items], color=GREY, linestyle="--", linewidth=1.2)
    line = ranks.sort_values("people_rank")
    axes.plot(line["people_rank"], line["expected"], color="black", linewidth=2)
    axes.set(xlabel="rank by people (1 = best)", ylabel="rank by models (1 = best)")


def _draw_strips(axes: Axes, ranks: pd.DataFrame, kinds: pd.Series, strips: Sequence[str]) -> None:
    """A strip per kind: a stroke per item at its surprise, a diamond at their median; '' are the items of no kind."""
    for height, kind in enumerate(strips):
        surprise = ranks.loc[kinds == kind, "surprise"]
        strength = float(np.clip(20 / max(len(surprise), 1), 0.02, 0.7))
        axes.vlines(surprise, height - 0.32, height + 0.32, color="black", linewidth=1.2, alpha=strength)
        axes.plot(surprise.median(), height, "D", color="white", markeredgecolor="black", markersize=8, zorder=3)
    axes.axvline(0, color=GREY, linewidth=0.8, linestyle="--")
    counts = [int((kinds == kind).sum()) for kind in strips]
    names = [f"{kind or 'no kind'} ({n:,})" for kind, n in zip(strips, counts, strict=True)]
    axes.set_yticks(range(len(strips)), names)
    axes.set_ylim(len(strips) - 0.4, -0.6)
    axes.set_xlabel("rank by models less what is expected (right: undervalued; diamond: median)")


def _name_ends(axes: Axes, ordered: pd.DataFrame, n: int, blur: bool) -> None:
    """Name the first n and the last n of the items, and turn the panel over: rank 1 is on top."""
    _name_items(axes, ordered.head(n), LOW, "left", blur)
    _name_items(axes, ordered.tail(n), HIGH, "right", blur)
    axes.invert_yaxis()


def _name_items(axes: Axes, rows: pd.DataFrame, colour: str, side: str, blur: bool) -> None:
    """Mark some items and write their names in a column beside them, in the order of their heights."""
    items, ranks = axes.get_ylim()[1], rows["people_rank"]
    if side == "left":
        x, facing = max(ranks.max() + 0.04 * items, 0.12 * items), 0
    else:
        x, facing = min(ranks.min() - 0.04 * items, 0.88 * items), 1
    axes.scatter(ranks, rows["models_rank"], s=45, color=colour, marker="o" if side == "left" else "s", zorder=3)
    # From the side of the name that faces the points: a line from its middle would cross the names above or below.
    leader = {"arrowstyle": "-", "color": colour, "linewidth": 1, "relpos": (facing, 0.5)}
    heights = _heights(rows["models_rank"].to_numpy(), items)
    for (item, row), height in zip(rows.iterrows(), heights, strict=True):
        axes.annotate(
            item_label(item, 34, blur), (row["people_rank"], row["models_rank"]), (x, height), ha=side, va="center",
            fontsize=12, zorder=4, arrowprops=leader, path_effects=[HALO],
        )  # fmt: skip


def _heights(wanted: np.ndarray, items: float) -> np.ndarray:
    """The heights of names, far enough apart to be read, and together centred on the heights wanted."""
    lowest, highest = 0.02 * items, 0.98 * items
    heights = spread(wanted, 0.045 * items, lowest, highest)
    down, up = max(heights.min() - lowest, 0), max(highest - heights.max(), 0)
    return heights + np.clip((wanted - heights).mean(), -down, up)


def item_label(item: str, width: int, blur: bool) -> str:
    """An item for a figure: as figures.label, but with its blanks as blanks; items are trimmed, so none is hidden."""
    return label(item, width, blur=blur).replace("␣", " ")


@styled
def draw_trajectories(
    ranks: pd.DataFrame, groups: Mapping[str, Sequence[str]], *, title: str, blur: bool = True
) -> Chart:
    """From the rank that people give an item to the models' median, and each model's own rank (Fig 5C).

    ranks: items x (people, then models), of all items. groups: the panel's name -> up to six items, each a line from
    people's rank to the median over models, named at both ends; behind it a dot per model in its family's colour.
    """
    for name, items in groups.items():
        _check_panel(name, items, ranks.index)
    figure = new_chart(15, 1.6 + 4.1 * ((len(groups) + 1) // 2), title, DENSE_TITLE)
    panels = figure.subplots((len(groups) + 1) // 2, 2, squeeze=False).ravel()
    for axes, (name, items) in zip(panels, groups.items(), strict=False):
        _draw_slopes(axes, ranks, items, blur)
        axes.set_title(name)
    for axes in panels[len(groups) :]:
        axes.set_axis_off()
    figure.supylabel("rank among all items (1 = best)", fontsize=13)
    keys = [_key(model_label(name), colour, "o", "") for name, colour in model_colours(ranks.columns[1:]).items()]
    figure.legend(handles=keys, loc="outside lower center", ncols=5, frameon=False, fontsize=11)
    return figure


def _check_panel(name: str, items: Sequence[str], ranked: pd.Index) -> None:
    if not 0 < len(items) <= len(SHAPES):
        raise InputError(
            f"{len(items)} items in the panel '{name}'; choose 1 to {len(SHAPES)}, so that lines stay apart"
        )
    if missing := [item for item in items if item not in ranked]:
        raise InputError(f"no item {missing[0]!r} among those ranked; check its spelling")


def _draw_slopes(axes: Axes, ranks: pd.DataFrame, items: Sequence[str], blur: bool) -> None:
    """A line per item, in one panel: x = 0 people, x = 1 the models' median, the models' dots right of it."""
    count, rows = len(ranks), ranks.loc[list(items)]
    people, of_models = rows.iloc[:, 0].to_numpy(dtype=float), rows.iloc[:, 1:]
    median, hues = of_models.median(axis=1).to_numpy(), model_colours(of_models.columns)
    steps = np.linspace(1.06, 1.3, of_models.shape[1])
    for i, item in enumerate(items):
        axes.plot([0, 1], [people[i], median[i]], color="black", linewidth=1.6, marker=SHAPES[i], markersize=7)
        axes.scatter(steps, of_models.loc[item], s=22, marker=SHAPES[i], c=[hues[name] for name in of_models])
    names = [item_label(item, 26, blur) for item in items]
    _name_lines(axes, names, people, (-0.06, -0.16), "right", count)
    _name_lines(axes, names, median, (1.36, 1.46), "left", count)
    axes.set(ylim=(1.06 * count, -0.06 * count), xlim=(-1.2, 2.5))
    axes.set_xticks([0, 1.15], ["people", "models: median (black)\nand each one"])
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    shown = (1, count // 2, count)
    axes.set_yticks(shown, [f"{rank:,}" for rank in shown], fontsize=11, color=GREY)
    for rank in shown:
        axes.axhline(rank, color="#dddddd", linewidth=0.8, zorder=0)


def _name_lines(
    axes: Axes, names: Sequence[str], heights: np.ndarray, leader: tuple[float, float], side: str, count: int
) -> None:
    """The names at one end of the lines, apart from each other, each with a thin leader from its line's height."""
    placed = spread(heights, 0.085 * count, 0.0, float(count))
    for name, height, at in zip(names, heights, placed, strict=True):
        axes.plot(leader, [height, at], color=GREY, linewidth=0.8, clip_on=False)
        axes.annotate(name, (leader[1], at), (-4 if side == "right" else 4, 0), textcoords="offset points", ha=side,
                      va="center", fontsize=12, annotation_clip=False)  # fmt: skip


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
    positions = np.empty(len(placed))
    positions[order] = placed
    return positions
