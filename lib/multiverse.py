"""Every reasonable way to test a claim at once: a path is one choice of each kind, and a claim is as firm as its paths.

Choices are declared as name -> options, combinations that make no sense are excluded by a written rule before anything
is estimated, and each path that is left says `for`, `against` or `undecided` by its 95% interval. Shares of paths are
no probabilities: paths share data, and who lists the options decides how many there are (Steegen et al. 2016,
Perspectives on Psychological Science 11, 702-712; Simonsohn, Simmons and Nelson 2020, Nature Human Behaviour 4,
1208-1214).
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib import InputError

SIDES = ("for", "undecided", "against")
FOUND = ["estimate", "ci_low", "ci_high", "side"]  # the columns of a table of paths that are no choices
SCORE = {"for": 1, "undecided": 0, "against": -1}


class Path(NamedTuple):
    """What one path finds: an estimate, positive where it speaks for the claim, and its 95% interval.

    side: one of SIDES; empty: by the interval. It is needed where a test gives no interval.
    """

    estimate: float
    ci_low: float = float("nan")
    ci_high: float = float("nan")
    side: str = ""


def side_of(path: Path) -> str:
    """`for` where the whole interval lies above 0, `against` where it lies below, else `undecided`."""
    if path.side:
        return path.side
    return "for" if path.ci_low > 0 else "against" if path.ci_high < 0 else "undecided"


def every(choices: Mapping[str, Sequence]) -> Iterator[dict]:
    """Every combination of the choices, the last one turning first."""
    for options in itertools.product(*choices.values()):
        yield dict(zip(choices, options, strict=True))


def nothing(chosen: dict) -> str | None:
    """The rule that excludes no path."""
    return None


def left_out(choices: Mapping[str, Sequence], excluded: Callable[[dict], str | None] = nothing) -> pd.DataFrame:
    """How many combinations a rule excludes, and why: columns reason, paths; a row per reason, none if none is."""
    reasons = pd.Series([reason for chosen in every(choices) if (reason := excluded(chosen))], dtype=object)
    return reasons.value_counts(sort=False).rename_axis("reason").reset_index(name="paths")


def run(
    choices: Mapping[str, Sequence],
    estimate: Callable[[dict], Path | tuple],
    excluded: Callable[[dict], str | None] = nothing,
) -> pd.DataFrame:
    """One row per path: the choices as columns, estimate, ci_low, ci_high, side (one of SIDES).

    choices: name -> options. estimate: what one path finds; its estimates should have one unit, and be positive where
    they speak for the claim. excluded: the written reason for which a combination makes no sense, or None.
    Raises InputError if no path is left or an estimate is missing.
    """
    rows = []
    for chosen in every(choices):
        if excluded(chosen):
            continue
        path = Path(*estimate(chosen))
        if np.isnan(path.estimate):
            raise InputError(f"the path {told(chosen)} has no estimate; exclude it by a rule")
        rows.append(chosen | path._asdict() | {"side": side_of(path)})
    if not rows:
        raise InputError("no path is left; exclude fewer combinations")
    return pd.DataFrame(rows)


def told(chosen: Mapping) -> str:
    """A path in words: `lexicon AFINN, scale raw`."""
    return ", ".join(f"{name} {option}" for name, option in chosen.items())


# --- what they come to --------------------------------------------------------------------------------------------


def choices_of(table: pd.DataFrame) -> list[str]:
    """The columns of a table of paths that are choices."""
    return [column for column in table.columns if column not in FOUND]


def shares(table: pd.DataFrame, by: Sequence[str] | str = ()) -> pd.DataFrame:
    """The share of paths on each side, in [0, 1]: columns paths, for, undecided, against; a row per option of `by`.

    Without `by`, one row, `all`.
    """
    keys = [by] if isinstance(by, str) else list(by)
    is_on = pd.DataFrame({side: table["side"] == side for side in SIDES}, dtype=float)
    groups = is_on.groupby([table[key] for key in keys] if keys else lambda _: "all", sort=False)
    of_paths = groups.mean()
    of_paths.insert(0, "paths", groups.size())
    return of_paths


def deciding(table: pd.DataFrame, of: str = "estimate") -> pd.DataFrame:
    """Which choice decides: the share of the variance between paths that each explains, in [0, 1], largest first.

    of: `estimate`, or `side` (for 1, undecided 0, against -1). Columns: choice, df, share: what the sum of squares of
    the main effects loses without this choice (type II), over that of all paths. The last row, `together`, is the
    rest: what choices do to each other, and what two of them explain alike where excluded paths leave them unbalanced.
    Shares are NaN where all paths agree.
    """
    values = table["side"].map(SCORE) if of == "side" else table[of]
    values = values.to_numpy(dtype=float) - values.mean()
    choices = [name for name in choices_of(table) if len(set(table[name])) > 1]
    coded = {name: pd.get_dummies(table[name], drop_first=True).to_numpy(dtype=float) for name in choices}
    total, whole = (values**2).sum(), _unexplained(values, list(coded.values()))
    rows = []
    for name in choices:
        others = [columns for other, columns in coded.items() if other != name]
        share = (_unexplained(values, others) - whole) / total if total else np.nan
        rows.append({"choice": name, "df": coded[name].shape[1], "share": share})
    ordered = pd.DataFrame(rows, columns=["choice", "df", "share"]).sort_values("share", ascending=False, kind="stable")
    rest = len(table) - 1 - int(ordered["df"].sum())
    last = {"choice": "together", "df": rest, "share": 1 - ordered["share"].sum() if total else np.nan}
    return pd.concat([ordered, pd.DataFrame([last])], ignore_index=True)


def _unexplained(values: np.ndarray, coded: list[np.ndarray]) -> float:
    """The sum of squares that the choices leave, as main effects."""
    design = np.column_stack([np.ones(len(values)), *coded])
    fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return float(((values - fitted) ** 2).sum())


def chosen(table: pd.DataFrame, choices: Mapping | None) -> pd.DataFrame:
    """The paths that take these options; several where some choices are not named, or a tuple of
    options is; none for None.

    Raises InputError if no path takes them.
    """
    if choices is None:
        return table.iloc[:0]
    if unknown := [name for name in choices if name not in choices_of(table)]:
        raise InputError(f"'{unknown[0]}' is no choice of these paths; choose among {', '.join(choices_of(table))}")
    taken = [table[name].isin(option if isinstance(option, tuple) else [option]) for name, option in choices.items()]
    rows = table[np.logical_and.reduce(taken)]
    if rows.empty:
        raise InputError(f"no path has {told(choices)}; name one that is not excluded")
    return rows


def summary(claim: str, table: pd.DataFrame, *, ours: Mapping | None = None, papers: Mapping | None = None) -> dict:
    """What the paths of a claim come to, a row of the table that the scorecard draws.

    claim, paths, n_for, n_undecided, n_against; papers_path and our_path: the side of these paths (see `chosen`),
    several joined by a slash, empty for none; deciding: the choice that explains most of the variance of the estimates,
    and deciding_share, its share in [0, 1].
    """
    counts = table["side"].value_counts().reindex(SIDES, fill_value=0)
    first = deciding(table).iloc[0]
    return {"claim": claim, "paths": len(table)} | {f"n_{side}": int(counts[side]) for side in SIDES} | {
        "papers_path": _sides(chosen(table, papers)), "our_path": _sides(chosen(table, ours)),
        "deciding": first["choice"], "deciding_share": float(first["share"]),
    }  # fmt: skip


def _sides(rows: pd.DataFrame) -> str:
    return "/".join(side for side in SIDES if (rows["side"] == side).any())
