"""Rounding: to how many digits rewards were printed, which floating-point format they have, and
whether the other program computed in half precision or with rounded weights.
"""

from collections.abc import Sequence
from decimal import Decimal
from itertools import chain

import numpy as np
from numpy.linalg import norm
from scipy import stats

from .feeds import Feed
from .numbers import Number
from .other_weights import in_half, rounded_weights
from .readings import Array, usual
from .search import EVIDENCE, Search

MANTISSA = {"bfloat16": 8, "float16": 11, "float32": 24}  # bits of a number
HALF = ("float16", "bfloat16")
# Errors of another machine are no further from those here than this factor, in their root mean
# square.
FACTOR = 2.0
FURTHEST = 5.0  # root mean squares, for the largest of some thirty errors
CHANCE = 1e-4  # p-value of a correlation by chance
UNRELATED = 1e-3  # p-value below which errors are related to the rewards
LEFT = 0.5  # share of the distance that rounded weights may leave over


def printed_to(texts: Sequence[str]) -> Array:
    """Return half a unit of the last digit to which each number was printed, (n,).

    Programs print equally many decimals, or equally many digits; zeros at the end may be missing.
    """
    numbers = [Decimal(text) for text in texts]
    parts = [number.as_tuple() for number in numbers]
    exponents = [int(part.exponent) for part in parts]
    last = min(0, *exponents)
    digits = max(len(part.digits) for part in parts)
    places = [number.adjusted() + 1 - digits for number in numbers]
    return 0.5 * 10.0 ** np.maximum(last, places)


def format_of(rewards: Array, slack: Array) -> tuple[str, Array]:
    """Return the floating-point format whose numbers all rewards are, as far as they were
    printed; its half steps.
    """
    for name in ("bfloat16", "float16"):
        _, exponent = np.frexp(rewards)
        step = 2.0 ** (exponent - MANTISSA[name])
        rounded = np.round(rewards / step) * step
        near = np.abs(rounded - rewards) <= slack * 1.01
        by_chance = np.minimum(1, 2 * slack / step)
        if near.all() and np.log10(by_chance).sum() < -EVIDENCE:
            return name, step / 2
    return "float32", np.zeros(len(rewards))


def fits_of_rounding(search: Search, printed: str) -> list[Number]:
    """Return the rounding of weights or numbers that explains all rewards, if there is one.

    printed: the format of the other program's numbers
    """
    exact = search.here
    found = []
    halves = chain.from_iterable(in_half(search.reader, dtype) for dtype in HALF)
    for reader in chain(rounded_weights(search.reader), halves):
        feed = Feed(reader.cause, search.base.inputs)
        rounded = usual(reader, feed)[:, search.label]
        dtype = reader.model.dtype
        is_format = dtype == printed if dtype in HALF else None
        # the same rounding gives the same rewards
        if search.fits(reader, feed) or is_rounding(
            search.theirs, exact, rounded, is_format
        ):
            found.append(Number(reader.cause, rounded))
    return sorted(found, key=lambda each: norm(search.theirs - each.predicted))[:1]


def is_rounding(
    theirs: Array, exact: Array, rounded: Array, is_format: bool | None
) -> bool:
    """Return whether the other program's rewards are those in float32, (n,), but for rounding.

    Rounded weights (`is_format` None) are the same everywhere: they must explain most of the
    distance. Half precision rounds differently on other machines. So errors must be of the right
    size on every row, and either resemble those here, or be unrelated to the reward where all
    rewards are numbers of that format.
    """
    apart = theirs - exact
    rounding = rounded - exact
    if is_format is None:
        return bool(norm(apart - rounding) < LEFT * norm(apart))
    n = len(apart)
    size = norm(rounding) / np.sqrt(n)
    distance = norm(apart) / np.sqrt(n)
    if not size / FACTOR < distance < size * FACTOR:
        return False
    if np.abs(apart).max() > FURTHEST * size:
        return False
    likeness, by_chance = stats.pearsonr(apart, rounding)
    if likeness > 0 and by_chance < CHANCE:
        return True
    related = stats.pearsonr(apart, exact)
    return is_format and related.pvalue > UNRELATED
