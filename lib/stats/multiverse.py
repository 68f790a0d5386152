"""Multiverse analyses: every reasonable specification of a test at once.

A specification is one choice of each kind (lexicon, scale, test, ...). A written rule excludes combinations that make
no sense before anything is estimated. Each specification decides `for`, `against` or `undecided` by its 95% interval.
`summary` counts only specifications whose measured false-positive rate is near .05 (CALIBRATED), and each result once.
Even these shares are no probabilities, since specifications share data (Steegen et al. 2016, Perspectives on
Psychological Science 11, 702-712). `joint_p` tests all of them together: are their estimates larger than on data
without the effect (Simonsohn, Simmons and Nelson 2020, Nature Human Behaviour 4, 1208-1214)?

A section declares its choices, a rule, and a function that estimates one specification:

    tables = {claim: multiverse.run(choices, lambda chosen: Specification.of(crossed(...)), excluded, claim)}
    multiverse.summaries(tables, ours={claim: {...}}, papers={claim: {...}}, joint={claim: joint_p(...)})
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
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

    `side`: one of SIDES, or '' if the interval decides. It is needed where a test gives no interval.
    """

    estimate: float
    ci_low: float = float("nan")
    ci_high: float = float("nan")
    side: str = ""

    @classmethod
    def of(cls, mean, null: float = 0.0) -> "Specification":
        """Return the estimate of a crossed mean (stats.crossed.Crossed) and its interval, less the null value."""
        return cls(*(float(value) - null for value in (mean.estimate, mean.ci_low, mean.ci_high)))


def combinations(
    choices: Mapping[str, Sequence], excluded: Callable[[dict], str | None] = lambda chosen: None
) -> Iterator[dict]:
    """Yield every specification that is not excluded, as name -> option; the last choice varies fastest."""
    for options in itertools.product(*choices.values()):
        chosen = dict(zip(choices, options, strict=True))
        if not excluded(chosen):
            yield chosen


def run(
    choices: Mapping[str, Sequence],
    estimate: Callable[[dict], Specification | tuple],
    excluded: Callable[[dict], str | None] = lambda chosen: None,
    claim: str = "",
) -> pd.DataFrame:
    """Return a row per specification: its choices, and RESULTS, of which size is its false-positive rate.

    `choices`: name -> options. `estimate`: returns the result of one specification. `excluded`: the reason for which a
    combination makes no sense, or None. Raise InputError if no specification is left or an estimate is missing.
    """
    rows = []
    for chosen in combinations(choices, excluded):
        result = Specification(*estimate(chosen))
        if np.isnan(result.estimate):
            raise InputError(f"the specification {described(chosen)} has no estimate; exclude it by a rule")
        decides = result.side or side(result.ci_low, result.ci_high)
        rows.append(chosen | result._asdict() | {"side": decides, "size": false_positive_rate(claim, chosen)})
    if not rows:
        raise InputError("no specification is left; exclude fewer combinations")
    return pd.DataFrame(rows)


def described(chosen: Mapping) -> str:
    """Return a specification as text: `lexicon AFINN, scale raw`."""
    return ", ".join(f"{name} {option}" for name, option in chosen.items())


@cache
def _measured() -> list[tuple[str, set[str], float]]:
    """Return the claim (a pattern), the choices (as `name=option`) and the rate of each analysis that was measured."""
    table = pd.read_csv(ROOT / "data" / "calibration" / "specifications.csv", keep_default_na=False)
    return list(zip(table["claim"], table["choices"].str.split("; ").map(set), table["size"], strict=True))


def false_positive_rate(claim: str, chosen: Mapping) -> float:
    """Return how often this analysis reports an effect where there is none, in [0, 1]; NaN where nobody measured it.

    A row of data/calibration/specifications.csv names the choices that were varied. Other choices share its rate.
    """
    named = {f"{name}={option}" for name, option in chosen.items()}
    rates = (size for pattern, choices, size in _measured() if fnmatchcase(claim, pattern) and choices <= named)
    return next(rates, float("nan"))


# --- shares, tests and summaries ------------------------------------------------------------------------------------


def choices_of(table: pd.DataFrame) -> list[str]:
    """Return the columns of a table of specifications that are choices."""
    return [column for column in table.columns if column not in RESULTS]


def counted(table: pd.DataFrame) -> pd.DataFrame:
    """Return the specifications with a false-positive rate within CALIBRATED, and of equal results only the first."""
    rows = table[table["size"].between(*CALIBRATED)]
    return rows[~rows[["estimate", "ci_low", "ci_high"]].round(9).duplicated()]


def shares(table: pd.DataFrame, by: Sequence[str] | str = ()) -> pd.DataFrame:
    """Return how many specifications there are, and the shares that are for, undecided and against, in [0, 1].

    There is a row per option of `by`; without `by` there is one row, `all`.
    """
    keys = [by] if isinstance(by, str) else list(by)
    is_on = pd.DataFrame({name: table["side"] == name for name in SIDES}, dtype=float)
    groups = is_on.groupby([table[key] for key in keys] if keys else lambda _: "all", sort=False)
    result = groups.mean()
    result.insert(0, "specifications", groups.size())
    return result


def joint_p(observed: np.ndarray, null: np.ndarray) -> float:
    """Return the one-sided p of all specifications together, in (0, 1]: is their median larger than by chance?

    `observed`: (specifications,), positive where they support the claim. `null`: (draws, specifications), the same
    estimates on data without the effect. The observed estimates count as one more draw.
    """
    medians = np.median(np.vstack([observed, null]), axis=1)
    return float((medians >= medians[0] - 1e-12).mean())


def joint_p_of_signs(by_model: np.ndarray) -> float:
    """Return joint_p of specifications whose estimates are means over models. `by_model`: models x specifications.

    Without the effect, each model's estimate is as likely below 0 as above. So the signs of the models are turned in
    all 2 ^ models ways, the same for every specification.
    """
    signs = np.array(list(itertools.product((1, -1), repeat=len(by_model))))
    return joint_p(by_model.mean(axis=0), signs[1:] @ by_model / len(by_model))


def deciding(table: pd.DataFrame) -> pd.DataFrame:
    """Return the share of the variance of the estimates that each choice explains, in [0, 1], largest first.

    Columns: choice, df, share. Shares are of type II sums of squares of the main effects, and NaN where all estimates
    are equal. The last row, `together`, is the rest (interactions, and what unbalanced choices explain together).
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
    """Return the residual sum of squares after the main effects of the choices."""
    design = np.column_stack([np.ones(len(values)), *coded])
    fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return float(((values - fitted) ** 2).sum())


def chosen(table: pd.DataFrame, choices: Mapping | None) -> pd.DataFrame:
    """Return the specifications with these options (a tuple allows several); none for None.

    Raise InputError if no specification has them.
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

    It says how many specifications there are and count (see `counted`), and how many of these are on each side.
    `papers` and `ours` are the sides of the paper's specifications and of ours, joined by a slash. `deciding` is the
    choice that explains most of the variance, and by_level the share that is for the claim, by option of this choice.
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
    """Return the sides that specifications are on, joined by a slash."""
    return "/".join(name for name in SIDES if (rows["side"] == name).any())


def sentence(row: Mapping) -> str:
    """Return what a row of `summary` says, for the second line of a chart's title."""
    counts = ", ".join(f"{row[f'n_{name}']} {name}" for name in SIDES)
    of = f"of {row['specifications']:,} specifications"
    some = f"{row['counted']:,} {of} have a false-positive rate near .05: {counts}" if row["counted"] else \
        f"none {of} is known to have a false-positive rate near .05"  # fmt: skip
    joint = "" if np.isnan(row["joint_p"]) else f"; joint test: p = {row['joint_p']:.2g}"
    return f"{some}{joint}; most important choice: {row['deciding']}"


def summaries(
    tables: Mapping[str, pd.DataFrame], *, ours: Mapping[str, Mapping | None], papers: Mapping[str, Mapping | None],
    joint: Mapping[str, float],
) -> pd.DataFrame:  # fmt: skip
    """Return a row per claim, as from `summary`. `ours` and `papers`: claim -> options. `joint`: claim -> joint_p."""
    return pd.DataFrame([summary(claim, table, ours=ours.get(claim), papers=papers.get(claim), joint=joint[claim])
                         for claim, table in tables.items()])  # fmt: skip
