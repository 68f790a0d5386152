"""What a card says in words, computed from its numbers."""

import math

import pandas as pd

from lib.card.making import Card
from lib.card.measures import BY_KEY, Measure

NUMBERS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def number(value: float) -> str:
    """A number with two decimals, and a minus sign that is one."""
    return f"{value:.2f}".replace("-", "−")


def value(row: pd.Series) -> str:
    """The estimate with its 95% interval, where it has one."""
    if math.isnan(row["ci_low"]):
        return number(row["estimate"])
    return f"{number(row['estimate'])} [{number(row['ci_low'])}, {number(row['ci_high'])}]"


def counts(row: pd.Series, group: str) -> tuple[int, int, int, int]:
    """below, equal, within, of: how many models of a group lie there; see others.places."""
    end = "" if group == "published" else f"_{group}"
    below, equal, within, of = (int(row[f"{name}{end}"]) for name in ("below", "equal", "within", "of"))
    return below, equal, within, of


def place_in_short(row: pd.Series, group: str) -> str:
    """Where the estimate lies among the models of a group, for a table: `above 8 of 10 published, 2 within`."""
    below, _, within, of = counts(row, group)
    if not of:
        return f"no {group} model"
    return f"above {below} of {of} {group}" + (f", {within} within" if within else "")


def place(row: pd.Series) -> str:
    """Where the estimate lies among the published models, in words: `higher than 8 of the ten published models`."""
    below, equal, within, of = counts(row, "published")
    if not of:
        return "no published model to compare with"
    models = f"the {_counted(of)} published models"
    above = of - below - equal
    where = f"higher than {below} of {models}"
    if of in (below, above):
        where = f"{'higher' if below else 'lower'} than all {models.removeprefix('the ')}"
    if equal:
        where += f", as high as {equal}"
    return where + (f" ({within} of them within its interval)" if within else "")


def _counted(count: int) -> str:
    return NUMBERS[count] if count < len(NUMBERS) else str(count)


def side(measure: Measure, row: pd.Series) -> str:
    """above or below the value that decides nothing, undecided where the interval holds it, '' for a share."""
    if measure.null is None:
        return ""
    if row["ci_low"] > measure.null:
        return "above"
    return "below" if row["ci_high"] < measure.null else "undecided"


def sentence(key: str, row: pd.Series) -> str:
    """One measure in words: what the model does, with number and interval, and where it lies."""
    measure = BY_KEY[key]
    found = side(measure, row)
    if not found:
        return f"It {measure.above} in {row['estimate']:.0%} of its vocabulary: {place(row)}."
    if found == "undecided":
        return f"Undecided: whether it {measure.above} or the reverse ({value(row)}): {place(row)}."
    return f"It {getattr(measure, found)} ({value(row)}): {place(row)}."


def paragraph(card: Card) -> list[str]:
    """The card in words: one sentence per measure that it has."""
    return [sentence(key, row) for key, row in card.measured.iterrows()]


def outside(card: Card) -> pd.DataFrame:
    """How far the model lies from the published ones, on measures with an interval; indexed by measure.

    Columns: is_outside, the whole interval outside their range; away, distance of the estimate from their mean in their
    standard deviations.
    """
    compared = card.measured[(card.measured["of"] > 1) & card.measured["ci_low"].notna()]
    values = card.others["published"].drop(columns=card.nickname, errors="ignore").reindex(compared.index)
    is_outside = (compared["ci_low"] > values.max(axis=1)) | (compared["ci_high"] < values.min(axis=1))
    away = (compared["estimate"] - values.mean(axis=1)).abs() / values.std(axis=1)
    return pd.DataFrame({"is_outside": is_outside, "away": away})


def summary(card: Card) -> str:
    """The card in two sentences: on how many measures it lies outside the published models, and what is undecided."""
    far = outside(card)
    if far.empty:
        return f"{card.nickname} was measured, and there are no published models to compare it with."
    count, of = int(far["is_outside"].sum()), _counted(int(card.measured["of"].max()))
    key = far["away"].idxmax()
    row, label = card.measured.loc[key], BY_KEY[key].label.lower()
    sides = {key: side(BY_KEY[key], row) for key, row in card.measured.iterrows()}
    undecided = [BY_KEY[key].label.lower() for key, found in sides.items() if found == "undecided"]
    return (
        f"With its whole 95% interval {card.nickname} lies outside the range of the {of} published models on {count} "
        f"of {len(far)} measures; furthest from them on {label}: {value(row)}, n = {row['n']:,.0f}. "
        f"Undecided: {', '.join(undecided) or 'nothing'}."
    )


def searched(card: Card) -> str:
    """What was searched for the two-word replies."""
    words = len(card.pairs["optimal"].words)
    return (
        f"Of the words that it reads as one token, the {words} rewarded most were combined each with each "
        f"({words**2} replies), and so were the {len(card.pairs['pessimal'].words)} rewarded least; longer replies and "
        "other words were not searched."
    )
