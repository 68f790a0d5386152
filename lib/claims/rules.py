"""The rules that hold a number of ours against the paper's: declared in data/paper/numbers.csv, looked up in RULES.

A rule takes a declared row and our numbers, and returns on which side they lie: `for` what the paper says, `against`
it, or `undecided`. `verdict` turns the side into a verdict, or says why there is none. The rules were declared before
the run at hand, but several were revised after earlier results were seen: data/paper/README.md lists the changes, and
each new one is a line of CHANGELOG.md.
"""

from collections.abc import Callable, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pandas as pd
from scipy import stats

from ..stats.resampling import AGAINST, FOR, SIDES, UNDECIDED, side

OPPOSITE = dict(zip(SIDES, reversed(SIDES), strict=True))
SAID = {FOR: "reproduced", AGAINST: "not reproduced", UNDECIDED: "undecided"}
ONLY, OTHER, UNTESTABLE, OURS = "only as published", "on other texts", "not testable here", "not in the paper"
NOTHING = float("nan")


@dataclass(frozen=True)
class Declared:
    """A row of data/paper/numbers.csv: what the paper prints of a quantity, and how ours is judged.

    quantity: its name, in which * stands for a number. prompt: the prompts that it is about, separated by blanks.
    model: a model, or a kind of models. Empty: any. role: primary (the sentence stands or falls with it), printed (a
    number that the paper prints), or sensitivity. printed: as the paper has it, empty where it prints no number.
    rule: a name of RULES; within, limit: its number. needs: what of the paper's own (claims.papers_own) a collection
    must hold for a verdict; empty: nothing. item: the item of EloEverything that it is about. said: the quantity in
    words. where: the place in the paper.
    """

    claim: str
    quantity: str
    prompt: str
    model: str
    role: str
    printed: str | float
    rule: str
    within: float
    limit: float
    needs: str
    item: str
    said: str
    where: str

    def is_about(self, claim: str, quantity: str, prompt: str, model: str) -> bool:
        """Return whether this row declares the quantity of that claim, for that prompt and model."""
        is_named = self.claim == claim and fnmatchcase(quantity, self.quantity)
        return is_named and (not self.prompt or prompt in self.prompt.split()) and self.model in ("", model)


@dataclass(frozen=True)
class Numbers:
    """Hold our numbers: by the published recipe, corrected, the 95% interval, and the count of models; None: none."""

    as_published: float | None = None
    corrected: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    n: int | None = None

    @property
    def main(self) -> float:
        """Return the corrected number, or the published recipe's where nothing was corrected; NaN without either."""
        number = self.as_published if pd.isna(self.corrected) else self.corrected
        return NOTHING if number is None else number

    def interval(self, exact: bool = False) -> tuple[float, float]:
        """Return the interval, NaN where there is none. exact: nothing was sampled, so the number is its interval."""
        if pd.isna(self.ci_low) or pd.isna(self.ci_high):
            return (self.main, self.main) if exact else (NOTHING, NOTHING)
        return self.ci_low, self.ci_high


# --- the rules ----------------------------------------------------------------------------------------------------


def _as_printed(ours: Numbers, agrees: Callable[[float], bool]) -> str:
    """Return `for` if both numbers agree with print; `only as published` if the corrected one alone does not."""
    old, new = (None if pd.isna(number) else bool(agrees(number)) for number in (ours.as_published, ours.corrected))
    if old is None and new is None:
        return UNDECIDED
    if old and new is False:
        return ONLY
    return FOR if (new if old is None else old) else AGAINST


def _within_bound(row: Declared, p: float) -> bool:
    sign, limit = str(row.printed)[0], float(str(row.printed)[1:])
    return p < limit if sign == "<" else p > limit


def _count(row: Declared, ours: Numbers) -> str:
    """Return the side of a count of models: see `count` in RULES."""
    (low, high), printed, half = ours.interval(exact=True), float(row.printed), (ours.n or 0) / 2
    if pd.isna(low):
        return UNDECIDED
    if printed > half and low > printed:
        return FOR
    if not low <= printed <= high:
        return AGAINST
    across = low <= half if printed > half else high >= half if printed < half else False
    return UNDECIDED if across else FOR


def _reaches(interval: tuple[float, float], limit: float) -> str:
    """Return `for` where the interval begins at the limit or above it, `against` where it ends below."""
    return side(*interval, limit, reaches=True)


def _up_to(interval: tuple[float, float], limit: float) -> str:
    """Return `for` where the interval ends at the limit or below it, `against` where it begins above."""
    return _reaches((-interval[1], -interval[0]), -limit)


RULES: dict[str, Callable[[Declared, Numbers], str]] = {
    # The number lies within `within` of print: half a unit of the last digit means that it rounds to the same.
    "rounds": lambda row, ours: _as_printed(ours, lambda x: abs(x - float(row.printed)) <= row.within * (1 + 1e-9)),
    # p lies on the printed side (< or >) of the printed bound.
    "bound": lambda row, ours: _as_printed(ours, lambda p: _within_bound(row, p)),
    # The interval lies above (below) the limit.
    "above": lambda row, ours: side(*ours.interval(), row.limit),
    "below": lambda row, ours: OPPOSITE[side(*ours.interval(), row.limit)],
    # The interval of a count or place lies at the limit or above it (or below it).
    "at least": lambda row, ours: _reaches(ours.interval(exact=True), row.limit),
    "at most": lambda row, ours: _up_to(ours.interval(exact=True), row.limit),
    # The interval of a count of models holds the printed count and does not cross half of them; a count above a printed
    # majority says the same more strongly.
    "count": _count,
    # The interval of the count is that of all models; lies above half of them; lies at half or below.
    "all": lambda row, ours: _reaches(ours.interval(exact=True), ours.n),
    "most": lambda row, ours: OPPOSITE[_up_to(ours.interval(exact=True), ours.n / 2)],
    "at most half": lambda row, ours: _up_to(ours.interval(exact=True), ours.n / 2),
    # A count or share of everything there is, as of 22 printed tokens. Nothing was sampled, so it has no interval.
    "more than": lambda row, ours: OPPOSITE[_up_to((ours.main, ours.main), row.limit)],
    "less than": lambda row, ours: OPPOSITE[_reaches((ours.main, ours.main), row.limit)],
    # The texts were chosen by what the number measures, so it describes them and tests nothing.
    "described": lambda row, ours: "",
}
CENSUS = ("more than", "less than")  # these have no interval
PRINTED = ("rounds", "bound")  # these ask about numbers of the paper's own models and texts, and of no others


def verdict(row: Declared, ours: Numbers, own: Set[str]) -> tuple[str, str]:
    """Return (side, verdict) of our numbers; own: what of the paper's own they rest on (see claims.papers_own).

    A sentence about vocabularies or items that is tested on other texts of the paper's ten models is `on other texts`,
    and on other models `not testable here`; it keeps its side. A printed number is asked of the paper's own data alone,
    so elsewhere its side is ''.
    """
    is_own = not row.needs or row.needs in own
    if row.rule == "described":
        return "", UNTESTABLE
    is_asked = is_own or row.rule not in PRINTED or pd.isna(ours.main)  # without a number, every rule is undecided
    lies = RULES[row.rule](row, ours) if is_asked else ""
    if is_own:
        return ("", ONLY) if lies == ONLY else (lies, SAID[lies])
    return lies, OTHER if "models" in own else UNTESTABLE


def p_of_interval(row: Declared, ours: Numbers) -> float | None:
    """Return the two-sided p that a 95% interval implies against the limit of its rule; None where no limit is asked.

    A count of models is held against half of them by the exact binomial test. Any other estimate is taken as normal:
    z = (estimate - limit) / standard error, with the interval 2 x 1.96 standard errors wide (Altman and Bland 2011,
    BMJ 343, d2304). The interval must hold the estimate.
    """
    low, high = ours.interval()
    if row.rule in ("most", "at most half") and ours.n and not pd.isna(low):
        return float(stats.binomtest(round(ours.main), int(ours.n)).pvalue)
    if row.rule in ("above", "below") and low < high and low <= ours.main <= high:
        z = (ours.main - row.limit) / ((high - low) / (2 * stats.norm.ppf(0.975)))
        return float(2 * stats.norm.sf(abs(z)))
    return None
