"""How methods of search stand at equal cost: shares of the way to the best known reply, curves, and
instances won.

An instance is a model, a prompt and a direction. A share of 0 is what a random reply is worth on
average there, 1 the best reply known: of all replies where each was scored, else of all methods and
starts together. Searches of one instance from several starts are averaged before anything is
counted, since they are not independent.
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from benchmarks.search.optimality import OURS
from lib.show.figures import DENSE_TITLE, GREY, Chart, new_chart, styled
from lib.stats import resampling

INSTANCE = ["reply_mode", "length", "model", "prompt", "direction"]
AXIS = ["reply_mode", "length", "of", "budget"]
LEVEL = 0.005  # shares that differ by no more are level
RESAMPLES = 2000
LEAST_SHARE = 0.3  # where the axis begins, so that the upper end can be read


def shares(rewards: pd.DataFrame, best: pd.DataFrame) -> pd.DataFrame:
    """Return the share of the way to the best known reply, a row per instance, method and budget:
    the mean over starts.

    rewards: INSTANCE, method, seed, of ("scored" or "read"), budget, reward. best: INSTANCE, random
    (the mean reward of random replies), best. Columns: INSTANCE, method, of, budget, share, at_best
    (share of starts that stand at the best). Budgets before a start's first, or after the end of a
    method's searches, are left out.
    """
    table = rewards.dropna(subset="reward").merge(
        best, on=INSTANCE, validate="many_to_one"
    )
    table["share"] = (table["reward"] - table["random"]) / (
        table["best"] - table["random"]
    )
    table["at_best"] = np.isclose(table["share"], 1, atol=1e-6)
    return (
        table.groupby([*INSTANCE, "method", "of", "budget"], sort=False)[
            ["share", "at_best"]
        ]
        .mean()
        .reset_index()
    )


def curves(shares: pd.DataFrame) -> pd.DataFrame:
    """The mean share over instances, with its 95% interval over them: AXIS, method, share,
    ci_low, ci_high, n.
    """
    rows = []
    for key, group in shares.groupby([*AXIS, "method"], sort=False):
        share, (ci_low, ci_high) = (
            group["share"].mean(),
            _interval(group["share"].to_numpy()),
        )
        rows.append([*key, share, ci_low, ci_high, len(group)])
    return pd.DataFrame(
        rows, columns=[*AXIS, "method", "share", "ci_low", "ci_high", "n"]
    )


def won(shares: pd.DataFrame) -> pd.DataFrame:
    """Return in how many instances ours stands better than, level with (to LEVEL) and worse than
    every other method.

    Columns: AXIS, method, better, level, worse (instances), lead (ours less the other, mean share),
    ci_low, ci_high (its 95% interval over instances), n. A budget that one of the two did not reach
    in an instance is left out there.
    """
    wide = shares.pivot_table(
        "share", [*AXIS, "model", "prompt", "direction"], "method", sort=False
    )
    rows = []
    for key, group in wide.groupby(AXIS, sort=False):
        for method in group.columns.drop(OURS):
            leads = (group[OURS] - group[method]).dropna().to_numpy()
            if len(leads):
                counts = [
                    (leads > LEVEL).sum(),
                    (abs(leads) <= LEVEL).sum(),
                    (leads < -LEVEL).sum(),
                ]
                rows.append(
                    [*key, method, *counts, leads.mean(), *_interval(leads), len(leads)]
                )
    columns = [
        *AXIS,
        "method",
        "better",
        "level",
        "worse",
        "lead",
        "ci_low",
        "ci_high",
        "n",
    ]
    return pd.DataFrame(rows, columns=columns)


def _interval(values: np.ndarray) -> tuple[float, float]:
    draws = resampling.bootstrap(
        lambda drawn: values[drawn].mean(), len(values), RESAMPLES
    )
    ci_low, ci_high = resampling.interval(draws)
    return float(ci_low), float(ci_high)


# --- chart ----------------------------------------------------------------------------------------


@styled
def draw_against_rivals(curves: pd.DataFrame, won: pd.DataFrame) -> Chart:
    """Share of the way to the best known reply against the budget: ours in black, the other in
    grey, with 95% bands.

    A row per length of replies, a column per method. curves: of standings.curves; won: of
    standings.won, whose last budget is told above each panel; both of one mode and one kind of
    budget.
    """
    # budgets that all instances reach
    curves, won = (rows[rows["n"] == rows["n"].max()] for rows in (curves, won))
    lengths, rivals = (
        list(curves["length"].unique()),
        [name for name in curves["method"].unique() if name != OURS],
    )
    figure = new_chart(
        2.1 * len(rivals), 1 + 2.6 * len(lengths), _finding(curves), DENSE_TITLE
    )
    panels = figure.subplots(
        len(lengths), len(rivals), sharex=True, sharey="row", squeeze=False
    )
    for length, row in zip(lengths, panels, strict=True):
        for rival, axes in zip(rivals, row, strict=True):
            here = curves[curves["length"] == length]
            _draw_curve(axes, here[here["method"] == rival], GREY, "--", "o")
            _draw_curve(axes, here[here["method"] == OURS], "black", "-", "")
            axes.set_ylim(LEAST_SHARE, 1.03)
            score = _score(won[(won["length"] == length) & (won["method"] == rival)])
            axes.set_title(f"{rival}\n{score}", fontsize=12)
        row[0].set_ylabel(f"{length} tokens: share")
    unit = (
        "operations, in replies" if (curves["of"] == "read").all() else "replies scored"
    )
    for axes in panels[-1]:
        axes.set_xlabel(unit)
    return figure


def _draw_curve(
    axes: Axes, rows: pd.DataFrame, colour: str, dash: str, marker: str
) -> None:
    axes.plot(
        rows["budget"],
        rows["share"],
        color=colour,
        linestyle=dash,
        marker=marker,
        markersize=3,
        markevery=4,
    )
    axes.fill_between(
        rows["budget"],
        rows["ci_low"],
        rows["ci_high"],
        color=colour,
        alpha=0.2,
        linewidth=0,
    )


def _score(won: pd.DataFrame) -> str:
    """Return better / level / worse, in instances at the last budget; nothing where the two
    methods never meet.
    """
    return (
        ""
        if won.empty
        else " / ".join(
            str(won.iloc[-1][column]) for column in ("better", "level", "worse")
        )
    )


def _finding(curves: pd.DataFrame) -> str:
    """Return which methods have the highest mean share at the last budget of each length."""
    last = curves[
        curves.groupby(["length", "method"])["budget"].transform("max")
        == curves["budget"]
    ]
    best = last.loc[last.groupby("length", sort=False)["share"].idxmax()]
    heads = [
        f"{row.length} tokens: highest mean share {row.share:.3f}, {row.method}"
        for row in best.itertuples()
    ]
    bands = f"ours black, the other grey; bands: 95% over {best['n'].max()} instances"
    return "\n".join(
        [
            *heads,
            bands,
            "above each panel: in how many ours is better / level / worse at the end",
        ]
    )
