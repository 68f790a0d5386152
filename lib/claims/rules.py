"""The rules that hold a number of ours against the paper's: declared in data/paper/numbers.csv, looked up in RULES.

A rule takes a declared row and our numbers. It returns their side: `for` what the paper says, `against` it, or
`undecided`. `verdict` turns the side into a verdict. The rules were declared before the run at hand, but several were
revised after earlier results were seen: data/paper/README.md lists the changes, and CHANGELOG.md has a line for each.
"""

import operator
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
    """A row of data/paper/numbers.csv: what the paper prints of a quantity, and how ours is judged."""

    claim: str
    quantity: str  # * stands for a number
    prompt: str  # the prompts that it is about, separated by blanks; empty: any
    model: str  # a model, or a kind of models; empty: any
    role: str  # primary (the sentence depends on it), printed (the paper prints it), or sensitivity
    printed: str | float  # empty where the paper prints no number
    rule: str  # a name of RULES
    within: float
    limit: float
    needs: str  # what of the paper's own (claims.papers_own) a verdict needs; empty: nothing
    item: str  # of EloEverything
    said: str  # the quantity in words
    where: str  # the place in the paper

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
    """Return `for` if our numbers agree with print; `only as published` if only the corrected one disagrees."""
    old, new = (None if pd.isna(number) else bool(agrees(number)) for number in (ours.as_published, ours.corrected))
    if old is None and new is None:
        return UNDECIDED
    if old and new is False:
        return ONLY
    return FOR if (new if old is None else old) else AGAINST


def _rounds(row: Declared, ours: Numbers) -> str:
    return _as_printed(ours, lambda number: abs(number - float(row.printed)) <= row.within * (1 + 1e-9))


def _bound(row: Declared, ours: Numbers) -> str:
    sign, limit = str(row.printed)[0], float(str(row.printed)[1:])
    return _as_printed(ours, lambda p: p < limit if sign == "<" else p > limit)


def _count(row: Declared, ours: Numbers) -> str:
    (low, high), printed, half = ours.interval(exact=True), float(row.printed), (ours.n or 0) / 2
    if pd.isna(low):
        return UNDECIDED
    if printed > half and low > printed:
        return FOR
    if not low <= printed <= high:
        return AGAINST
    crosses_half = low <= half < printed or printed < half <= high
    return UNDECIDED if crosses_half else FOR


def _holds(interval: tuple[float, float], is_so: Callable[[float, float], bool], limit: float) -> str:
    """Return `for` where the comparison with the limit holds at both ends of an interval, `against` where at neither.

    It is for counts and facts, in which the limit itself counts too. A missing number is undecided.
    """
    if pd.isna([*interval, limit]).any():
        return UNDECIDED
    at_both = {bool(is_so(end, limit)) for end in interval}
    return UNDECIDED if len(at_both) == 2 else FOR if True in at_both else AGAINST


RULES: dict[str, Callable[[Declared, Numbers], str]] = {
    # The number lies within `within` of print: half a unit of the last digit means that it rounds to the same.
    "rounds": _rounds,
    # p lies on the printed side (< or >) of the printed bound.
    "bound": _bound,
    # The interval lies above (below) the limit.
    "above": lambda row, ours: side(*ours.interval(), row.limit),
    "below": lambda row, ours: OPPOSITE[side(*ours.interval(), row.limit)],
    # The interval of a count or place lies at the limit or above it (or below it).
    "at least": lambda row, ours: _holds(ours.interval(exact=True), operator.ge, row.limit),
    "at most": lambda row, ours: _holds(ours.interval(exact=True), operator.le, row.limit),
    # The interval of a count of models holds the printed count and does not cross half of them; a count above a printed
    # majority says the same more strongly.
    "count": _count,
    # The interval of the count is that of all models; lies above half of them; lies at half or below.
    "all": lambda row, ours: _holds(ours.interval(exact=True), operator.ge, ours.n),
    "most": lambda row, ours: _holds(ours.interval(exact=True), operator.gt, ours.n / 2),
    "at most half": lambda row, ours: _holds(ours.interval(exact=True), operator.le, ours.n / 2),
    # A count or share of everything there is, as of 22 printed tokens. Nothing was sampled, so it has no interval.
    "more than": lambda row, ours: _holds((ours.main, ours.main), operator.gt, row.limit),
    "less than": lambda row, ours: _holds((ours.main, ours.main), operator.lt, row.limit),
    # The texts were chosen by what the number measures, so it describes them and tests nothing.
    "described": lambda row, ours: "",
}
CENSUS = ("more than", "less than")  # these have no interval
PRINTED = ("rounds", "bound")  # these ask about numbers of the paper's own models and texts, and of no others


def verdict(row: Declared, ours: Numbers, own: Set[str]) -> tuple[str, str]:
    """Return (side, verdict) of our numbers. own: what of the paper's own they rest on (see claims.papers_own).

    A sentence that needs the paper's vocabularies or items is `on other texts` on other texts of the paper's models.
    On other models it is `not testable here`. It keeps its side. A printed number has a side on the paper's own data
    alone.
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
    """Return the two-sided p that a 95% interval implies against the limit of its rule; None without such a limit.

    A count of models is held against half of them by the exact binomial test. Any other estimate is taken as normal,
    with the interval 2 x 1.96 standard errors wide (Altman and Bland 2011, BMJ 343, d2304).
    """
    low, high = ours.interval()
    if row.rule in ("most", "at most half") and ours.n and not pd.isna(low):
        return float(stats.binomtest(round(ours.main), int(ours.n)).pvalue)
    if row.rule in ("above", "below") and low < high and low <= ours.main <= high:
        z = (ours.main - row.limit) / ((high - low) / (2 * stats.norm.ppf(0.975)))
        return float(2 * stats.norm.sf(abs(z)))
    return None
