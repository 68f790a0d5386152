"""Multiverse analyses: every reasonable specification of a test at once.

A specification is one choice of each kind (lexicon, scale, test, ...). Choices are declared as name -> options;
combinations that make no sense are excluded by a written rule before anything is estimated; `run` estimates the rest.
Each specification decides `for`, `against` or `undecided` by its 95% interval. A share of specifications means
something only if each is a test. So `summary` counts those whose false-positive rate was measured and is near .05
(CALIBRATED), and each result once. Even these shares are no probabilities, since specifications share data (Steegen
et al. 2016, Perspectives on Psychological Science 11, 702-712). `joint_p` tests all of them at once: are their
estimates larger than those of data in which there is nothing (Simonsohn, Simmons and Nelson 2020, Nature Human
Behaviour 4, 1208-1214)?

A section declares its choices, a rule, and a function that estimates one specification:

    tables = {claim: multiverse.run(choices, lambda chosen: Specification.of(crossed(...)), excluded, claim)}
    multiverse.summaries(tables, ours={claim: {...}}, papers={claim: {...}})
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from .. import ROOT, InputError
from .resampling import SIDES, side

RESULTS = ["estimate", "ci_low", "ci_high", "side", "size"]  # columns of a table of specifications that are no choices
CALIBRATED = (0.02, 0.08)  # false-positive rates of an analysis that counts


class Specification(NamedTuple):
    """The result of one specification: an estimate, positive where it supports the claim, and its 95% interval.

    side: one of SIDES; '' if the interval decides. It is needed where a test gives no interval.
    """

    estimate: float
    ci_low: float = float("nan")
    ci_high: float = float("nan")
    side: str = ""

    @classmethod
    def of(cls, mean, null: float = 0.0) -> "Specification":
        """Return the estimate of a crossed mean (stats.crossed.Crossed) and its interval, less the null value."""
        return cls(*(float(value) - null for value in (mean.estimate, mean.ci_low, mean.ci_high)))


def run(
    choices: Mapping[str, Sequence],
    estimate: Callable[[dict], Specification | tuple],
    excluded: Callable[[dict], str | None] = lambda chosen: None,
    claim: str = "",
) -> pd.DataFrame:
    """Return a row per specification: the choices as columns, and RESULTS: estimate, ci_low, ci_high, side (one of
    SIDES), size (its false-positive rate as a test of the claim, NaN where that was not measured).

    choices: name -> options. estimate: returns the result of one specification; estimates should have one
    unit, and be positive where they support the claim. excluded: the written reason for which a combination makes no
    sense, or None. Raises InputError if no specification is left or an estimate is missing.
    """
    rows = []
    for options in itertools.product(*choices.values()):  # the last choice varies fastest
        chosen = dict(zip(choices, options, strict=True))
        if excluded(chosen):
            continue
        result = Specification(*estimate(chosen))
        if np.isnan(result.estimate):
            raise InputError(f"the specification {described(chosen)} has no estimate; exclude it by a rule")
        lies = result.side or side(result.ci_low, result.ci_high)
        rows.append(chosen | result._asdict() | {"side": lies, "size": false_positive_rate(claim, chosen)})
    if not rows:
        raise InputError("no specification is left; exclude fewer combinations")
    return pd.DataFrame(rows)


def described(chosen: Mapping) -> str:
    """Return a specification as text: `lexicon AFINN, scale raw`."""
    return ", ".join(f"{name} {option}" for name, option in chosen.items())


@cache
def _measured() -> list[tuple[str, dict[str, str], float]]:
    table = pd.read_csv(ROOT / "data" / "calibration" / "specifications.csv", keep_default_na=False)
    return [(row.claim, dict(each.split("=") for each in row.choices.split("; ")), float(row.size_))
            for row in table.rename(columns={"size": "size_"}).itertuples()]  # fmt: skip


def false_positive_rate(claim: str, chosen: Mapping) -> float:
    """Return how often this analysis reports an effect where there is none, in [0, 1]; NaN where nobody measured it.

    data/calibration/specifications.csv has a row per claim (a pattern) and the choices that were varied; the others
    were not, so that they share its rate.
    """
    for pattern, choices, size in _measured():
        if (
            fnmatchcase(claim, pattern)
            and choices.items() <= {key: str(option) for key, option in chosen.items()}.items()
        ):
            return size
    return float("nan")


# --- what they come to --------------------------------------------------------------------------------------------


def choices_of(table: pd.DataFrame) -> list[str]:
    """Return the columns of a table of specifications that are choices."""
    return [column for column in table.columns if column not in RESULTS]


def counted(table: pd.DataFrame) -> pd.DataFrame:
    """Return the specifications that count: with a false-positive rate within CALIBRATED, and each result once.

    Two specifications with the same estimate and interval are one analysis by two names.
    """
    rows = table[table["size"].between(*CALIBRATED)]
    return rows[~rows[["estimate", "ci_low", "ci_high"]].round(9).duplicated()]


def shares(table: pd.DataFrame, by: Sequence[str] | str = ()) -> pd.DataFrame:
    """Return the share of specifications on each side, in [0, 1]: columns specifications, for, undecided, against.

    There is a row per option of `by`; without `by` one row, `all`. table: all specifications, or those `counted`.
    """
    keys = [by] if isinstance(by, str) else list(by)
    is_on = pd.DataFrame({name: table["side"] == name for name in SIDES}, dtype=float)
    groups = is_on.groupby([table[key] for key in keys] if keys else lambda _: "all", sort=False)
    result = groups.mean()
    result.insert(0, "specifications", groups.size())
    return result


def joint_p(observed: np.ndarray, null: np.ndarray) -> float:
    """Return the p of all specifications together, in (0, 1]: is their median estimate larger than by chance?

    observed: (specifications,), positive where they support the claim. null: (draws, specifications), the same
    estimates on data in which the effect was removed by shuffling; the observed ones count as one draw more. One-sided.
    """
    medians = np.median(np.vstack([observed, null]), axis=1)
    return float((medians >= medians[0] - 1e-12).mean())


def deciding(table: pd.DataFrame) -> pd.DataFrame:
    """Return the share of the variance of the estimates that each choice explains, in [0, 1], largest first.

    Columns: choice, df, share. A share is what the sum of squares of the main effects loses without this choice
    (type II), over the sum for all specifications. The last row, `together`, is the rest: interactions, and what two
    choices explain together where excluded specifications leave them unbalanced. Shares are NaN where all agree.
    """
    values = table["estimate"].to_numpy(dtype=float) - table["estimate"].mean()
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
    """Return the sum of squares that the choices leave, as main effects."""
    design = np.column_stack([np.ones(len(values)), *coded])
    fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return float(((values - fitted) ** 2).sum())


def chosen(table: pd.DataFrame, choices: Mapping | None) -> pd.DataFrame:
    """Return the specifications with these options; several where some choices are not named, or a tuple of
    options is; none for None.

    Raises InputError if no specification has them.
    """
    if choices is None:
        return table.iloc[:0]
    if unknown := [name for name in choices if name not in choices_of(table)]:
        raise InputError(
            f"'{unknown[0]}' is no choice of these specifications; choose among {', '.join(choices_of(table))}"
        )
    taken = [table[name].isin(option if isinstance(option, tuple) else [option]) for name, option in choices.items()]
    rows = table[np.logical_and.reduce(taken)]
    if rows.empty:
        raise InputError(f"no specification has {described(choices)}; name one that is not excluded")
    return rows


def summary(
    claim: str, table: pd.DataFrame, *, ours: Mapping | None = None, papers: Mapping | None = None,
    joint: float = float("nan"),
) -> dict:  # fmt: skip
    """Return what the specifications of a claim show: one row of a table.

    claim; specifications (all of them); counted, and n_for, n_undecided, n_against of these (see `counted`); papers and
    ours: the sides of the specifications that are `chosen`, several joined by a slash, '' for none; deciding: the
    choice that explains most of the variance of the estimates; deciding_share: its share in [0, 1]; by_level: the share
    of counted specifications that are for the claim, by option of that choice; joint_p: as from `joint_p`.
    """
    some, first = counted(table), deciding(table).iloc[0]
    counts = some["side"].value_counts().reindex(SIDES, fill_value=0)
    levels = shares(some, first["choice"]) if len(some) and first["choice"] in some else pd.DataFrame()
    return {
        "claim": claim, "specifications": len(table), "counted": len(some),
        **{f"n_{name}": int(counts[name]) for name in SIDES},
        "papers": _sides(chosen(table, papers)), "ours": _sides(chosen(table, ours)),
        "deciding": first["choice"], "deciding_share": float(first["share"]),
        "by_level": "; ".join(f"{row.Index}: {row[2]:.0%} for ({row[1]})" for row in levels.itertuples()),
        "joint_p": joint,
    }  # fmt: skip


def _sides(rows: pd.DataFrame) -> str:
    return "/".join(name for name in SIDES if (rows["side"] == name).any())


def sentence(row: Mapping) -> str:
    """Return what a row of `summary` says, for the title of a chart."""
    counts = ", ".join(f"{row[f'n_{name}']} {name}" for name in SIDES)
    some = f"{row['counted']} have a false-positive rate near .05: {counts}" if row["counted"] else \
        "none has a measured false-positive rate near .05"  # fmt: skip
    joint = "" if np.isnan(row["joint_p"]) else f"; all together: p {row['joint_p']:.2g}"
    return f"of {row['specifications']:,} specifications {some}{joint}; the {row['deciding']} matters most"


def summaries(
    tables: Mapping[str, pd.DataFrame], *, ours: Mapping[str, Mapping | None], papers: Mapping[str, Mapping | None],
    joint: Mapping[str, float] | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Return a row per claim, as from `summary`. tables: claim -> specifications; ours, papers: claim -> options.

    joint: claim -> p of all specifications together.
    """
    joint = joint or {}
    return pd.DataFrame(
        [summary(claim, table, ours=ours.get(claim), papers=papers.get(claim), joint=joint.get(claim, float("nan")))
         for claim, table in tables.items()]
    )  # fmt: skip
