"""The rules that judge a number of ours: data/paper/numbers.csv names one for each quantity, RULES
looks it up.

data/paper/README.md lists when rules were declared and changed.
"""

from collections.abc import Iterable

import numpy as np
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

# Each takes rows as `judge` makes them: `main` is the corrected number, or the published recipe's
# where nothing was corrected; `recipe` is the other way round; `low` and `high` are the ends of
# the interval, or `main` where nothing was sampled; `number` is the printed one.
RULES = {
    # The number by the paper's recipe rounds to the printed one, or differs by at most 0.1%.
    "rounds": lambda t: (
        (t.recipe - t.number).abs()
        <= np.maximum(t.within * (1 + 1e-9), SAME * t.number.abs())
    ),
    # p by the paper's recipe lies on the printed side (< or >) of the printed bound.
    "bound": lambda t: (t.recipe - t.number) * (1 - 2 * t.paper.str.match("<")) > 0,
    # The whole interval lies above (below) the limit; without an interval, the number does.
    "above": lambda t: t.low > t.limit,
    "below": lambda t: t.high < t.limit,
    # A count or share of all there is lies at the limit or above it, above it.
    "at least": lambda t: t.main >= t.limit,
    "more than": lambda t: t.main > t.limit,
    # A count of models by the paper's recipe equals the printed one; a count is all, more than
    # half, or at most half.
    "count": lambda t: t.recipe == t.number,
    "all": lambda t: t.main == t.n,
    "most": lambda t: t.main > t.n / 2,
    "at most half": lambda t: t.main <= t.n / 2,
}

COUNTS = ("count", "all", "most", "at most half")  # rules about how many of n


def judge(table: pd.DataFrame) -> pd.DataFrame:
    """Return rows of claims.declared with `says`, whether the number says what the paper's sentence
    says, and `is_opposite`, whether its interval lies wholly on the other side of the limit.

    `says` is None where no number was computed.
    """
    main = table["corrected"].fillna(table["as_published"])
    table = table.assign(
        main=main,
        recipe=table["as_published"].fillna(table["corrected"]),
        low=table["ci_low"].fillna(main),
        high=table["ci_high"].fillna(main),
        number=pd.to_numeric(table["paper"].str.strip("<> "), errors="coerce"),
    )
    says = pd.Series(None, table.index, dtype=object)
    for rule, rows in table[main.notna()].groupby("rule"):
        if rule:
            says[rows.index] = RULES[rule](rows)
    is_above = table["rule"].eq("below") & (table["ci_low"] > table["limit"])
    is_below = table["rule"].eq("above") & (table["ci_high"] < table["limit"])
    return table.assign(says=says, is_opposite=is_above | is_below)


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


def p_of_interval(row: pd.Series) -> float:
    """Return the two-sided p that a 95% interval implies against the limit of its rule; NaN without
    such a limit. row: of `judge`.

    Any estimate is taken as normal, with an interval 2 x 1.96 standard errors wide (Altman and
    Bland 2011, BMJ 343, d2304). A count of models that has an interval is compared with half of
    them by the exact binomial test.
    """
    width = row.ci_high - row.ci_low  # NaN without an interval
    if row.rule == "most" and width >= 0:
        return stats.binomtest(round(row.main), int(row.n)).pvalue
    if row.rule in ("above", "below") and width > 0:
        error = width / (2 * stats.norm.ppf(0.975))
        z = (row.main - row.limit) / error
        return 2 * stats.norm.sf(abs(z))
    return np.nan


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
