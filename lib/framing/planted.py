"""Gaps between slopes that were planted, and those that are found: how far each way of asking can be trusted."""

from collections.abc import Mapping

import pandas as pd

from lib.framing import effects

# What the axes of interval_charts.draw_recovery say of a planted frequency bonus.
BONUS_AXES = {"planted": "planted: logits per tenfold frequency", "recovered": "recovered: SD per tenfold"}


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


def interactions(ratios: pd.DataFrame, planted: pd.Series) -> dict[str, float]:
    """The largest interaction of a model without a planted gap, and the least of one with a gap, as numbers to record.

    ratios: effects.in_rows of the interaction, as logarithms. planted: model -> planted gap.
    """
    found = effects.as_ratios(ratios).set_index("model")["estimate"].drop(effects.ALL)
    none = planted[found.index] == 0
    numbers = {"framing_control": found[none].max(), "framing_least_planted": found[~none].min()}
    return {name: round(float(value), 3) for name, value in numbers.items()}


def bonus_beside_slopes(slopes: pd.DataFrame, profiles: pd.DataFrame) -> pd.DataFrame:
    """Slopes on frequency with the planted bonus of each model, and whether nothing but sentiment was planted in it.

    slopes: frequency.by_words. profiles: planting.profiles, with frequency and control. Columns: those of slopes, with
    slope for estimate; planted, control. The mean over models is left out.
    """
    bonus = profiles.rename_axis("model").reset_index()[["model", "frequency", "control"]]
    bonus = bonus.rename(columns={"frequency": "planted"}).assign(control=bonus["control"] == "nothing but sentiment")
    return slopes.rename(columns={"estimate": "slope"}).merge(bonus, on="model", validate="many_to_one")


def bias_in_words(recovered: pd.DataFrame) -> str:
    """What slope the control shows, and how many models with a bonus lie above it and zero, a line per prompt."""
    lines = []
    for prompt, rows in recovered.groupby("prompt", sort=False):
        control, given = rows[rows["control"]].iloc[0], rows[rows["planted"] > 0]
        none = control["ci_low"] <= 0 <= control["ci_high"]
        told = "no bias beyond its interval" if none else "a bias: a slope where none was planted"
        above = (given["ci_low"] > max(0, control["ci_high"])).sum()
        ends = f"{control['slope']:+.3f} ({control['ci_low']:+.3f} to {control['ci_high']:+.3f})"
        lines.append(
            f"{prompt}: the control's slope is {ends}, {told}; {above} of {len(given)} others lie above it and 0."
        )
    return "\n".join(lines)


def bonus_recorded(recovered: pd.DataFrame) -> dict[str, float]:
    """By prompt, the control's slope, Spearman's r of bonus and slope, the mean slope of the others, to record."""
    numbers = {}
    for prompt, rows in recovered.groupby("prompt"):
        numbers[f"bias_{prompt}"] = round(float(rows.loc[rows["control"], "slope"].iloc[0]), 3)
        numbers[f"spearman_{prompt}"] = round(rows["planted"].corr(rows["slope"], method="spearman"), 2)
        numbers[f"planted_slope_{prompt}"] = round(rows.loc[~rows["control"], "slope"].mean(), 3)
    return numbers


def title(summary: pd.DataFrame) -> str:
    """How many planted gaps each way finds; summary: found_of_planted."""
    ways = summary.groupby("way", sort=False)[["found", "planted"]].sum()
    told = ", ".join(f"{row['found']:.0f} by {way}" for way, row in ways.iterrows())
    return f"Of {ways['planted'].max():.0f} planted gaps are found: {told}"


def bonus_title(recovered: pd.DataFrame) -> str:
    """Whether slopes follow the planted bonus; recovered: bonus_beside_slopes of one prompt."""
    follows, models = recovered["planted"].corr(recovered["slope"], method="spearman"), len(recovered)
    told = "a steeper" if follows > 0 else "no steeper"
    return f"Models with a larger planted bonus show {told} slope: Spearman {follows:.2f} over {models} models"
