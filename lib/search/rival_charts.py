"""Charts of methods of search at equal cost: ours against each other one, a panel each."""

import pandas as pd
from matplotlib.axes import Axes

from lib.figures import DENSE_TITLE, GREY, Chart, new_chart, styled
from lib.search.rivals import OURS

LEAST_SHARE = 0.3  # where the axis begins, so that the upper end can be read


@styled
def draw_against_rivals(curves: pd.DataFrame, won: pd.DataFrame) -> Chart:
    """Share of the way to the best known reply against the budget: ours in black, the other in grey, with 95% bands.

    A row per length of replies, a column per method. curves: of standings.curves; won: of standings.won, whose last
    budget is told above each panel; both of one mode and one kind of budget.
    """
    curves, won = (rows[rows["n"] == rows["n"].max()] for rows in (curves, won))  # budgets that all instances reach
    lengths, rivals = list(curves["length"].unique()), [name for name in curves["method"].unique() if name != OURS]
    figure = new_chart(2.1 * len(rivals), 1 + 2.6 * len(lengths), _finding(curves), DENSE_TITLE)
    panels = figure.subplots(len(lengths), len(rivals), sharex=True, sharey="row", squeeze=False)
    for length, row in zip(lengths, panels, strict=True):
        for rival, axes in zip(rivals, row, strict=True):
            here = curves[curves["length"] == length]
            _draw_curve(axes, here[here["method"] == rival], GREY, "--", "o")
            _draw_curve(axes, here[here["method"] == OURS], "black", "-", "")
            axes.set_ylim(LEAST_SHARE, 1.03)
            score = _score(won[(won["length"] == length) & (won["method"] == rival)])
            axes.set_title(f"{rival}\n{score}", fontsize=12)
        row[0].set_ylabel(f"{length} tokens: share")
    unit = "operations, in replies" if (curves["of"] == "read").all() else "replies scored"
    for axes in panels[-1]:
        axes.set_xlabel(unit)
    return figure


def _draw_curve(axes: Axes, rows: pd.DataFrame, colour: str, dash: str, marker: str) -> None:
    axes.plot(rows["budget"], rows["share"], color=colour, linestyle=dash, marker=marker, markersize=3, markevery=4)
    axes.fill_between(rows["budget"], rows["ci_low"], rows["ci_high"], color=colour, alpha=0.2, linewidth=0)


def _score(won: pd.DataFrame) -> str:
    """Of instances at the last budget, as better / level / worse; nothing where the two never meet."""
    return "" if won.empty else " / ".join(str(won.iloc[-1][column]) for column in ("better", "level", "worse"))


def _finding(curves: pd.DataFrame) -> str:
    """Which methods have the highest mean share at the last budget of each length."""
    last = curves[curves.groupby(["length", "method"])["budget"].transform("max") == curves["budget"]]
    best = last.loc[last.groupby("length", sort=False)["share"].idxmax()]
    heads = [f"{row.length} tokens: highest mean share {row.share:.3f}, {row.method}" for row in best.itertuples()]
    bands = f"ours black, the other grey; bands: 95% over {best['n'].max()} instances"
    return "\n".join([*heads, bands, "above each panel: in how many ours is better / level / worse at the end"])
