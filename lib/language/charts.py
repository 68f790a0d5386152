"""The charts on policies after training."""

import pandas as pd
import seaborn

from ..show.charts import row_of_panels
from ..show.figures import GREY, Chart, model_colours, new_chart, styled


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
