"""What the calibration found, in sentences, computed from its report: for titles, notebooks and the page."""

import pandas as pd

from lib.calibration.performance import TARGETS, meets
from lib.calibration.report import Report

BEFORE, AFTER = "crossed", "crossed, control off"


def target_of(estimator: str, made: Report, quantity: str) -> str:
    """Whether an estimator's size (the control's bias taken off) or coverage is within its target: see meets()."""
    method = AFTER if quantity == "size" else BEFORE
    rows = made.groups.set_index(["estimator", "method"])
    row = rows.loc[(estimator, method)]
    return meets(row[quantity], row[f"{quantity}_low"], row[f"{quantity}_high"], TARGETS[quantity])


def targets(made: Report) -> pd.DataFrame:
    """Per estimator (index): size before and after the control's bias is taken off, power, coverage, and the targets.

    Columns: size_before, size, power, coverage, coverage_new, size_target, coverage_target (met, missed, undecided).
    """
    rows = {method: made.groups[made.groups["method"] == method].set_index("estimator") for method in (BEFORE, AFTER)}
    table = rows[AFTER][["size", "power"]].assign(coverage=rows[BEFORE]["coverage"])
    table.insert(0, "size_before", rows[BEFORE]["size"])
    table["coverage_new"] = rows[BEFORE]["coverage_new"]
    for quantity in TARGETS:
        table[f"{quantity}_target"] = [target_of(name, made, quantity) for name in table.index]
    return table


def in_a_study(made: Report) -> str:
    """How many models the studies drawn have: ten, or fewer where the plan has not enough of a level."""
    least, most = int(made.groups["models"].min()), int(made.groups["models"].max())
    return f"{most}" if least == most else f"{least} to {most}"


def recovered(made: Report) -> str:
    """The title of planted against recovered: how much of a gap comes back, and what comes of none."""
    line = made.models.drop_duplicates("estimator").set_index("estimator").loc["gap VADER greatest"]
    return (
        f"Of a planted slope gap {line['b']:.0%} comes back, and where none was planted models show "
        f"{line['bias']:+.2f} sd per point (VADER)"
    )


def held(made: Report) -> str:
    """The title of size and coverage: how often the crossed intervals hold the truth, and call nothing something."""
    table = targets(made)
    before, size, coverage = table["size_before"], table["size"].median(), table["coverage"].median()
    return (
        f"Intervals over words and models hold what was planted in {coverage:.0%} of studies of {in_a_study(made)} "
        f"models (median); against 0 they call nothing something in {before.min():.0%} to {before.max():.0%}, with the "
        f"control's bias off in {size:.0%}"
    )


def ranked(made: Report) -> str:
    """The title of the rank histograms: flat means that intervals are as wide as they should be."""
    columns = [column for column in made.ranks if " to " in column]
    chosen = made.ranks[made.ranks["method"] == BEFORE]
    ends = chosen[[columns[0], columns[-1]]].sum(axis=1).median()
    width = "about as wide as they should be" if 0.15 <= ends <= 0.25 else "too narrow" if ends > 0.25 else "too wide"
    return (
        f"The truth lies in the two outer tenths in {ends:.0%} of studies (20% would be right): intervals are {width}"
    )


def in_words(made: Report) -> str:
    """The result of the calibration in a few sentences."""
    n, by_estimator = made.n_models, made.models.drop_duplicates("estimator").set_index("estimator")
    seeds, bias = by_estimator["seed_ratio"], by_estimator["bias"]
    return (
        f"{n} models of the plan and {len(made.trainings) - n} of the controls. Between seeds of one control, "
        f"estimates vary {seeds.min():.1f} to {seeds.max():.1f} times as much as one model's interval over words says. "
        f"With no gap planted the slope gap is {bias['gap VADER greatest']:+.3f} sd per point by VADER and "
        f"{bias['gap AFINN greatest']:+.3f} by AFINN. {_studies(made)}"
    )


def _studies(made: Report) -> str:
    table = targets(made)
    if table.empty:
        return "Too few models to draw studies from; train 16 or more."
    met = {name: int((table[f"{name}_target"] == "met").sum()) for name in TARGETS}
    shares = {
        name: f"{table[name].min():.0%} to {table[name].max():.0%}" for name in ("coverage", "size_before", "size")
    }
    return (
        f"In studies of {in_a_study(made)} models the crossed interval holds what was planted in {shares['coverage']} "
        f"({met['coverage']} of {len(table)} estimators meet the target); nothing is called something in "
        f"{shares['size_before']} of them, and in {shares['size']} where the control's bias is taken off "
        f"({met['size']} meet it)."
    )
