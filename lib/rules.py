"""The rules by which a number of ours is held against the paper's: declared in data/paper/numbers.csv, looked up here.

A rule is a function of one number that says whether it keeps to what was declared; `judge` makes a verdict of two
numbers, as published and corrected; `listed` tells every rule in a sentence.
"""

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import pandas as pd

VERDICTS = ("reproduced", "only as published", "not reproduced", "not testable here")


@dataclass(frozen=True)
class Declared:
    """A row of data/paper/numbers.csv: what the paper prints of a quantity, and how ours is judged.

    quantity: its name, in which * stands for a number. prompt: those that it is about, separated by blanks; model: that
    model, or kind of models; empty: any.
    printed: as the paper has it, empty where it prints no number. rule: a name of RULES; within, limit: its number.
    needs: what of the paper's own (claims.papers_own) a collection must hold, or there is no verdict; empty: nothing.
    item: the item of EloEverything that it is about. said: the words in which it is told. where: in the paper.
    """

    claim: str
    quantity: str
    prompt: str
    model: str
    printed: str | float
    rule: str
    within: float
    limit: float
    needs: str
    item: str
    said: str
    where: str

    def is_about(self, claim: str, quantity: str, prompt: str, model: str) -> bool:
        """Whether this row declares the quantity of that claim, for that prompt and model."""
        is_named = self.claim == claim and fnmatchcase(quantity, self.quantity)
        return is_named and (not self.prompt or prompt in self.prompt.split()) and self.model in ("", model)


def rounds(number: float, row: Declared, n: int | None) -> bool:
    """The number lies within `within` of what is printed; half a unit of its last digit: it rounds to the same."""
    return abs(number - float(row.printed)) <= row.within * (1 + 1e-9)  # a hair more, since .285 is no exact number


def bound(number: float, row: Declared, n: int | None) -> bool:
    """p lies on the printed side (< or >) of a bound: as published, of the printed one, which must hold first;
    corrected, of `limit`, in which .05 stands for any stricter bound: it is asked for significance only."""
    return number < row.limit if str(row.printed).startswith("<") else number > row.limit


def above(number: float, row: Declared, n: int | None) -> bool:
    """The number lies above `limit`; of one with an interval, the lower end of the interval."""
    return number > row.limit


def below(number: float, row: Declared, n: int | None) -> bool:
    """The number (as a p-value) lies below `limit`; of one with an interval, the upper end of the interval."""
    return number < row.limit


def at_least(number: float, row: Declared, n: int | None) -> bool:
    """The count is `limit` or more."""
    return number >= row.limit


def at_most(number: float, row: Declared, n: int | None) -> bool:
    """The place is `limit` or one before it."""
    return number <= row.limit


def all_models(number: float, row: Declared, n: int | None) -> bool:
    """The count is that of all models."""
    return number >= n


def most(number: float, row: Declared, n: int | None) -> bool:
    """The count is more than half of the models."""
    return number > n / 2


def at_most_half(number: float, row: Declared, n: int | None) -> bool:
    """The count is at most half of the models."""
    return number <= n / 2


def same_half(number: float, row: Declared, n: int | None) -> bool:
    """The count is on the same side of half of the models as the printed one."""
    return (number > n / 2) == (float(row.printed) > n / 2)


RULES = {"rounds": rounds, "bound": bound, "above": above, "below": below, "at least": at_least, "at most": at_most,
         "all": all_models, "most": most, "at most half": at_most_half, "same half": same_half}  # fmt: skip


def judge(row: Declared, as_published: float | None, corrected: float | None = None, n: int | None = None) -> str:
    """The verdict on two numbers by the declared rule; n: the number of models, for rules that count them.

    reproduced: the corrected number keeps to the rule, or the published recipe's where there is none to correct. only
    as published: the published recipe's does and the corrected one does not. NaN keeps to no rule.
    """
    holds, is_bound = RULES[row.rule], row.rule == "bound"
    printed = replace(row, limit=float(row.printed[1:])) if is_bound else row
    by_recipe = as_published is not None and holds(as_published, printed, n)
    if is_bound and as_published is not None and not by_recipe:
        return "not reproduced"
    if by_recipe if corrected is None else holds(corrected, row, n):
        return "reproduced"
    return "only as published" if by_recipe else "not reproduced"


def listed() -> pd.DataFrame:
    """Every rule and what it asks of a number: rule (index), `holds if`, a sentence."""
    sentences = {name: " ".join(rule.__doc__.split()) for name, rule in RULES.items()}
    return pd.Series(sentences, name="holds if").rename_axis("rule").to_frame()
