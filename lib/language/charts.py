"""The charts on language models: function words among the likeliest tokens, frequency, and policies after training."""

from collections.abc import Mapping

import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ..show.charts import density, name_rows, row_of_panels
from ..show.figures import GREY, POSITIVE, Chart, model_colours, model_label, new_chart, styled
from . import leakage

# Told apart by marker and lightness; a hue would be a model family.
KIND_MARKS = {"pretrained": ("o", "black"), "instruction-tuned": ("s", "#8c8c8c"), "reward model": ("D", GREY)}


@styled
def draw_function_word_counts(counts: pd.DataFrame, *, title: str, n: int) -> Chart:
    """Draw how many of the n first tokens are function words: a row per model, a panel per source, a mark per prompt.

    counts: a row per source, model and prompt, with its kind (a key of KIND_MARKS) and its function_words.
    """
    height = 1.9 + 0.42 * max(counts.groupby("source")["model"].nunique())
    sources = list(counts["source"].unique())
    figure, panels = row_of_panels(sources, height=height, title=title, width=5.6, margin=1, sharex=True)
    for panel, source in zip(panels, sources, strict=True):
        _draw_counts(panel, counts[counts["source"] == source])
        panel.set(xlim=(-0.7, n + 0.7), xlabel=f"function words among the first {n} tokens")
    kinds = {kind: mark for kind, mark in KIND_MARKS.items() if kind in set(counts["kind"])}
    handles = [Line2D([], [], marker=marker, color=colour, linestyle="", markersize=8)
               for marker, colour in kinds.values()]  # fmt: skip
    figure.legend(handles, kinds, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _draw_counts(axes: Axes, counts: pd.DataFrame) -> None:
    models = list(counts["model"].unique())
    for place, model in enumerate(models):
        rows = counts[counts["model"] == model]
        marker, colour = KIND_MARKS[rows["kind"].iloc[0]]
        axes.hlines(place, rows["function_words"].min(), rows["function_words"].max(), color=colour, linewidth=2)
        axes.plot(rows["function_words"], [place] * len(rows), marker, color=colour, markersize=8, alpha=0.8)
    name_rows(axes, models)


@styled
def draw_by_frequency(tables: Mapping[str, pd.DataFrame], prompt: str, *, title: str) -> Chart:
    """Draw the log-probability of words over their frequency, a panel per language model, function words marked."""
    names = [model_label(name) for name in tables]
    figure, panels = row_of_panels(names, height=5.4, title=title, width=6, sharey=True)
    for panel, rows in zip(panels, tables.values(), strict=True):
        x, y = rows["frequency"], rows[f"log_probability {prompt}"]
        density(panel, x, y)
        is_function = leakage.is_function_word(rows["word"])
        panel.plot(x[is_function], y[is_function], "o", color=POSITIVE, markersize=5, label="function words")
        panel.set_xlabel("frequency, log10 of occurrences per million words")
    panels[0].set_ylabel("log-probability (natural logarithm)")
    panels[0].legend(loc="lower right", frameon=False)
    return figure


@styled
def draw_by_distance(ratios: pd.DataFrame, *, title: str) -> Chart:
    """Draw how often groups of texts are named at each KL, relative to the reference: a panel per group.

    ratios: a row per model, group and nats.
    """
    groups = list(ratios["group"].unique())
    figure, panels = row_of_panels(groups, height=4.6, title=title, sharey=True)
    colours = model_colours(ratios["model"].unique())
    for panel, group in zip(panels, groups, strict=True):
        shown = ratios[ratios["group"] == group]
        seaborn.lineplot(shown, x="nats", y="ratio", hue="model", palette=colours, ax=panel, legend=group == groups[-1])
        panel.axhline(1, color=GREY, linewidth=0.8)
        panel.set(yscale="log", xlabel="KL from the reference, nats", ylabel="")
    panels[0].set_ylabel("probability after training / before")
    seaborn.move_legend(panels[-1], "center left", bbox_to_anchor=(1.02, 0.5), title="", frameon=False)
    return figure


@styled
def draw_overlaps(compared: pd.DataFrame, *, title: str) -> Chart:
    """Draw the overlap of the answers that two rewards lead to, over the tau of the rewards: a point per pair."""
    figure = new_chart(7.5, 5, title)
    axes = figure.subplots()
    seaborn.scatterplot(compared, x="tau", y="overlap", style="reference", color="black", s=70, ax=axes)
    axes.set(xlabel="Kendall's tau of the two rewards", ylabel="overlap of the two policies, 0 to 1", ylim=(0, 1))
    axes.legend(title="reference model", frameon=False)
    return figure
