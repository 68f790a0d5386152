"""The chart of section 3: slopes beside the paper's."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes

from ..claims.claims import paper_table
from ..show import charts
from ..show.figures import (
    GREY,
    SIDES,
    Chart,
    new_chart,
    styled,
)

PAPER, HERE = "the paper's figure", "this notebook"  # the names of sources


def with_paper(figure: str, ours: pd.DataFrame) -> pd.DataFrame:
    """Return the slopes of a figure of the paper and of these models, with the column source, for
    draw_sources.

    `figure`: its table in data/paper, whose halfwidths of reading become ci_low and ci_high.
    `ours`: columns `prompt, model, slope, ci_low, ci_high` and others. Only prompts of ours are
    shown, in their order; models are in the paper's order.
    """
    paper = paper_table(figure)
    paper = paper.assign(
        source=PAPER,
        ci_low=paper["slope"] - paper["halfwidth"],
        ci_high=paper["slope"] + paper["halfwidth"],
    )
    rows = pd.concat([paper, ours.assign(source=HERE)])
    place_of_model = pd.Index(rows["model"].unique()).get_indexer
    rows = rows.sort_values("model", key=place_of_model, kind="stable")
    prompts = ours["prompt"].unique().tolist()
    return rows.set_index("prompt").loc[prompts].reset_index()


@styled
def draw_sources(
    slopes: pd.DataFrame,
    *,
    title: str,
    units: Mapping[str, str],
) -> Chart:
    """Draw slopes, a row of panels per source with its own scale, a panel per prompt (Figs 3C and
    3D).

    `slopes`: columns `source, prompt, model, slope, ci_low, ci_high`. It may also have sign
    (`positive` or `negative` words) and read (`hidden` slopes are drawn open). `units`: source ->
    label of its axis.
    """
    prompts = list(slopes["prompt"].unique())
    counts = slopes.groupby("source")["model"].nunique()
    heights = [0.8 + 0.3 * counts.get(source, 0) for source in units]
    width = 4.3 * len(prompts)
    figure = new_chart(width, 1.2 + sum(heights), title)
    panels = figure.subplots(
        len(units),
        len(prompts),
        height_ratios=heights,
        squeeze=False,
        sharex="row",
        sharey="row",
    )
    for row, (source, unit) in zip(panels, units.items(), strict=True):
        of_source = slopes[slopes["source"] == source]
        models = list(of_source["model"].unique())
        for panel, prompt in zip(row, prompts, strict=True):
            shown = of_source[of_source["prompt"] == prompt]
            _draw_slopes(panel, shown, models)
            panel.set(title=f"{source}, {prompt}", xlabel=unit)
        charts.name_rows(row[0], models)
    if "sign" in slopes:
        for side, colour in SIDES.items():
            among = f"among {side} words"
            panels[0, 0].plot([], [], "o", color=colour, label=among)
        figure.legend(loc="outside lower center", ncols=2)
    return figure


def _draw_slopes(axes: Axes, rows: pd.DataFrame, models: list[str]) -> None:
    """Draw the slopes of one panel with their intervals, a row per model."""
    marks = rows.reindex(columns=["sign", "read"]).fillna("")
    rows = rows.assign(**marks)
    offsets = {"positive": -0.15, "negative": 0.15}
    for (sign, read), shown in rows.groupby(["sign", "read"]):
        places = shown["model"].map(models.index)
        colour = SIDES.get(sign, "black")
        face = "white" if read == "hidden" else colour
        charts.intervals(
            axes,
            shown["slope"],
            shown["ci_low"],
            shown["ci_high"],
            places + offsets.get(sign, 0),
            color=colour,
            markerfacecolor=face,
            markersize=5,
        )
    axes.axvline(0, color=GREY, linewidth=0.8)
