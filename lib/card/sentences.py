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


def place(row: pd.Series, group: str = "published") -> str:
    """Where the estimate lies among the models of a group: `higher than 8 of the ten published models`."""
    end = "" if group == "published" else "_planted"
    below, equal, within, of = (int(row[f"{name}{end}"]) for name in ("below", "equal", "within", "of"))
    if not of:
        return f"no {group} model to compare with"
    models = f"the {_counted(of)} {group} models"
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


def searched(card: Card) -> str:
    """What was searched for the two-word replies."""
    words = len(card.pairs["optimal"].words)
    return (
        f"Of the words that it reads as one token, the {words} rewarded most were combined each with each "
        f"({words**2} replies), and so were the {len(card.pairs['pessimal'].words)} rewarded least; longer replies and "
        "other words were not searched."
    )
