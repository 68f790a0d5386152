"""Charts of methods of search at equal cost: ours against each other one, a panel each."""

import pandas as pd
from matplotlib.axes import Axes

from lib.figures import GREY, Chart, new_chart, styled
from lib.search.rivals import OURS

LEAST_SHARE = 0.3  # where the axis begins, so that the upper end can be read


@styled
def draw_against_rivals(curves: pd.DataFrame, won: pd.DataFrame) -> Chart:
    """Share of the way to the best known reply against the budget: ours in black, the other in grey, with 95% bands.

    A row per length of replies, a column per method. curves: of standings.curves; won: of standings.won, whose last
    budget is told in each panel; both of one mode and one kind of budget.
    """
    lengths, rivals = list(curves["length"].unique()), [name for name in curves["method"].unique() if name != OURS]
    figure = new_chart(2.1 * len(rivals), 2.6 * len(lengths), _finding(won))
    panels = figure.subplots(len(lengths), len(rivals), sharex=True, sharey="row", squeeze=False)
    for length, row in zip(lengths, panels, strict=True):
        for rival, axes in zip(rivals, row, strict=True):
            here = curves[curves["length"] == length]
            _draw_curve(axes, here[here["method"] == rival], GREY, "--", "o")
            _draw_curve(axes, here[here["method"] == OURS], "black", "-", "")
            axes.set_ylim(LEAST_SHARE, 1.03)
            _tell_score(axes, won[(won["length"] == length) & (won["method"] == rival)])
        row[0].set_ylabel(f"{length} tokens: share")
    for rival, axes in zip(rivals, panels[0], strict=True):
        axes.set_title(rival)
    unit = "operations, in replies" if (curves["of"] == "read").all() else "replies scored"
    for axes in panels[-1]:
        axes.set_xlabel(unit)
    return figure


def _draw_curve(axes: Axes, rows: pd.DataFrame, colour: str, dash: str, marker: str) -> None:
    axes.plot(rows["budget"], rows["share"], color=colour, linestyle=dash, marker=marker, markersize=3, markevery=4)
    axes.fill_between(rows["budget"], rows["ci_low"], rows["ci_high"], color=colour, alpha=0.2, linewidth=0)


def _tell_score(axes: Axes, won: pd.DataFrame) -> None:
    if len(won):
        last = won.iloc[-1]
        text = f"ours better {last['better']}, level {last['level']},\nworse {last['worse']} of {last['n']}"
        axes.text(0.98, 0.04, text, transform=axes.transAxes, ha="right", va="bottom", fontsize=9)


def _finding(won: pd.DataFrame) -> str:
    last = won.groupby(["length", "method"], sort=False).tail(1)
    ahead = int((last["better"] >= last["worse"]).sum())
    return (
        f"Against {ahead} of {len(last)} rivals and lengths ours wins as many instances as it loses, or more\n"
        "ours black, the other grey and dotted; bands: 95% over instances; score at the last budget both reach"
    )
