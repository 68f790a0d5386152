"""The rules that judge a number of ours: data/paper/numbers.csv names one for each quantity, RULES
looks it up.

data/paper/README.md lists when rules were declared and changed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pandas as pd
from scipy import stats

# What each word means. README, the pages, docs/published.md and notebook 11 take it from here.
MEANINGS = {
    "holds": "every number that tests the sentence supports it.",
    "partly": "some of these numbers support it, and some do not. The remark says which.",
    "not shown": "none of these numbers supports it, under the wordings, lexicons and analyses "
    "that we tried. Others may. If an interval lies wholly on the other side, the remark says so "
    "first.",
    "number only": "the printed number comes out by the authors' recipe, but no valid test shows "
    "the effect.",
    "not testable here": "a test needs texts, models or data that we do not have. The remark says "
    "which.",
}
HOLDS, PARTLY, NOT_SHOWN, NUMBER_ONLY, NOT_TESTABLE = WORDS = tuple(MEANINGS)
# in place of a word: a question of ours that no sentence of the paper asks
BEYOND = "beyond the paper"
# What a quantity is to its sentence; docs/published.md says how each role enters the word.
ROLES = {
    "primary": "the quantity that the sentence is about, under the prompt that it names",
    "also": "the same quantity by another wording, lexicon, scale or analysis, or on other texts",
    "printed": "a number as the paper prints it",
    "shown": "a number beside the others, which does not enter the word",
}
SAME = 0.001  # relative difference up to which a printed number is the same number
LEVEL = 0.05


@dataclass(frozen=True)
class Declared:
    """A row of data/paper/numbers.csv: what the paper prints of a quantity, and how ours is
    judged.
    """

    claim: str
    quantity: str
    prompt: str  # the prompts that it is about, separated by blanks; empty: any
    model: str  # a model, or a kind of models; empty: any
    role: str  # a name of ROLES
    printed: str  # empty where the paper prints no number
    rule: str  # a name of RULES
    within: float  # half a unit of the last printed digit
    limit: float
    said: str  # the quantity in words
    where: str  # the place in the paper


@dataclass(frozen=True)
class Numbers:
    """Hold one estimate: by the published recipe, corrected, its 95% interval, and n; None or
    NaN where absent.
    """

    as_published: float | None = None
    corrected: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    n: float | None = None

    @property
    def main(self) -> float | None:
        """Return the corrected number, or the published recipe's where nothing was corrected."""
        number = self.as_published if pd.isna(self.corrected) else self.corrected
        return None if pd.isna(number) else number

    @property
    def has_interval(self) -> bool:
        """Return whether something was sampled, so that the number has an interval."""
        return not (pd.isna(self.ci_low) or pd.isna(self.ci_high))

    @property
    def recipe(self) -> float | None:
        """Return the number by the published recipe, or the corrected one where the recipe is
        the same.
        """
        number = self.corrected if pd.isna(self.as_published) else self.as_published
        return None if pd.isna(number) else number


def _rounds(row: Declared, ours: Numbers) -> bool:
    printed = float(row.printed)
    within = row.within * (1 + 1e-9)
    tolerance = max(within, SAME * abs(printed))
    return abs(ours.recipe - printed) <= tolerance


def _bound(row: Declared, ours: Numbers) -> bool:
    limit = float(row.printed[1:])
    if row.printed[0] == "<":
        return ours.recipe < limit
    return ours.recipe > limit


def _above(row: Declared, ours: Numbers) -> bool:
    lowest = ours.ci_low if ours.has_interval else ours.main
    return bool(lowest > row.limit)


def _below(row: Declared, ours: Numbers) -> bool:
    highest = ours.ci_high if ours.has_interval else ours.main
    return bool(highest < row.limit)


RULES: dict[str, Callable[[Declared, Numbers], bool]] = {
    # The number by the paper's recipe rounds to the printed one, or differs by at most 0.1%.
    "rounds": _rounds,
    # p by the paper's recipe lies on the printed side (< or >) of the printed bound.
    "bound": _bound,
    # The whole interval lies above (below) the limit; without an interval, the number does.
    "above": _above,
    "below": _below,
    # A count or share of all there is lies at the limit or above it, above it.
    "at least": lambda row, ours: bool(ours.main >= row.limit),
    "more than": lambda row, ours: bool(ours.main > row.limit),
    # A count of models by the paper's recipe equals the printed one; a count is all, more than
    # half, or at most half.
    "count": lambda row, ours: bool(ours.recipe == float(row.printed)),
    "all": lambda row, ours: bool(ours.main == ours.n),
    "most": lambda row, ours: bool(ours.main > ours.n / 2),
    "at most half": lambda row, ours: bool(ours.main <= ours.n / 2),
}

COUNTS = ("count", "all", "most", "at most half")  # rules about how many of n


def judge(row: Declared, ours: Numbers) -> bool | None:
    """Return whether our number says what the paper's sentence says; None where no number was
    computed.
    """
    if ours.main is None or not row.rule:
        return None
    return RULES[row.rule](row, ours)


def is_opposite(row: Declared, ours: Numbers) -> bool:
    """Return whether an interval lies wholly on the other side of the limit than the sentence
    says.
    """
    if not ours.has_interval:
        return False
    if row.rule == "above":
        return ours.ci_high < row.limit
    return row.rule == "below" and ours.ci_low > row.limit


def count_of_models(count: int, n: int) -> dict[str, float]:
    """Return a count of n models with its exact 95% interval (Clopper and Pearson 1934), as counts.

    p is from the exact binomial test against half of the models.
    """
    test = stats.binomtest(count, n)
    low, high = test.proportion_ci(0.95)
    return {
        "corrected": count,
        "ci_low": n * low,
        "ci_high": n * high,
        "p": test.pvalue,
        "n": n,
    }


def p_of_interval(row: Declared, ours: Numbers) -> float | None:
    """Return the two-sided p that a 95% interval implies against the limit of its rule; None
    without such a limit.

    Any estimate is taken as normal, with an interval 2 x 1.96 standard errors wide (Altman and
    Bland 2011, BMJ 343, d2304). A count of models that has an interval is compared with half of
    them by the exact binomial test.
    """
    if not ours.has_interval or ours.main is None:
        return None
    if row.rule == "most":
        tested = stats.binomtest(round(ours.main), int(ours.n))
        return float(tested.pvalue)
    if row.rule in ("above", "below") and ours.ci_low < ours.ci_high:
        width = ours.ci_high - ours.ci_low
        error = width / (2 * stats.norm.ppf(0.975))
        z = (ours.main - row.limit) / error
        return float(2 * stats.norm.sf(abs(z)))
    return None


def word_of(
    primary: Iterable[bool], also: Iterable[bool] = (), printed: Iterable[bool] = ()
) -> str:
    """Return the word of a sentence that can be tested, from whether its numbers of each role
    support it.

    Primary and other numbers count alike, in both directions. A printed number can only weaken
    `holds`, and turn `not shown` into `number only`.
    """
    tested = [*primary, *also]
    printed = list(printed)
    if any(tested):
        return HOLDS if all([*tested, *printed]) else PARTLY
    return NUMBER_ONLY if printed and all(printed) else NOT_SHOWN
