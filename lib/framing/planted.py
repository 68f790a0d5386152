"""Gaps between slopes that were planted, and those that are found: how far each way of asking can be trusted."""

from collections.abc import Mapping

import pandas as pd

from lib.framing import effects


def beside_planted(by_way: Mapping[str, pd.DataFrame], planted: pd.Series) -> pd.DataFrame:
    """The gap of each model and prompt by each way of asking, with the planted one: columns way, prompt, model, slope,
    ci_low, ci_high, planted.

    by_way: rows of effects.by_words of slope gaps, or like them; the mean over models is left out. planted: model ->
    planted gap, 0 for a control.
    """
    rows = pd.concat(by_way, names=["way"]).reset_index("way").rename(columns={"estimate": "slope"})
    rows = rows[rows["model"] != effects.ALL].reset_index(drop=True)
    columns = ["way", "prompt", "model", "slope", "ci_low", "ci_high"]
    return rows[columns].assign(planted=rows["model"].map(planted))


def found_of_planted(ways: pd.DataFrame) -> pd.DataFrame:
    """By way and prompt, how many of the planted gaps are found: a row each; ways: as from beside_planted.

    Columns: planted (gaps), found (whole interval above 0), more than the control (above all of the control's), mean
    gap of those planted; control, control_low, control_high: the gap that is found where none was planted.
    """
    return pd.DataFrame(
        {key: _judged(rows) for key, rows in ways.groupby(["way", "prompt"], sort=False)}
    ).T.rename_axis(["way", "prompt"])


def _judged(rows: pd.DataFrame) -> dict[str, float]:
    given, none = rows[rows["planted"] > 0], rows[rows["planted"] == 0]
    return {
        "planted": len(given), "found": (given["ci_low"] > 0).sum(),
        "more than the control": (given["ci_low"] > none["ci_high"].max()).sum(), "mean gap": given["slope"].mean(),
        "control": none["slope"].mean(), "control_low": none["ci_low"].min(), "control_high": none["ci_high"].max(),
    }  # fmt: skip


def in_words(summary: pd.DataFrame) -> str:
    """How many planted gaps each way finds, and what it finds in the control; empty where nothing was planted."""
    told = []
    for way, rows in summary.groupby("way", sort=False) if len(summary) else ():
        bent = [prompt for (_, prompt), row in rows.iterrows() if not row["control_low"] <= 0 <= row["control_high"]]
        control = f"a gap where none was planted under {' and '.join(bent)}" if bent else "none where none was planted"
        told.append(f"{way} finds {rows['found'].sum():.0f} of {rows['planted'].sum():.0f} planted gaps, and {control}")
    return "; ".join(told)


def recorded(summary: pd.DataFrame, names: Mapping[str, str]) -> dict[str, float]:
    """Named numbers of found_of_planted, as display.record takes them; names: way -> how its numbers' names begin."""
    numbers: dict[str, float] = {}
    for (way, prompt), row in summary.iterrows():
        numbers[f"{names[way]}_found_{prompt}"] = int(row["found"])
        numbers[f"{names[way]}_gap_{prompt}"] = round(row["mean gap"], 3)
        numbers[f"{names[way]}_control_{prompt}"] = round(row["control"], 3)
    return numbers
