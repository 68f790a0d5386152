"""Rounding: to how many digits rewards were printed, which floating-point format they have, and
whether the other program computed in half precision or with rounded weights.
"""

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
from numpy.linalg import norm
from scipy import stats

from .other_weights import in_half, rounded_weights
from .readings import Array, Reader, usual
from .search import EVIDENCE, Fit, Search

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


def in_half_precision(search: Search, printed: str) -> tuple[list[Fit], str]:
    """Return hypotheses that fit if the other program computed in half precision, and in which.

    printed: the format of the other program's numbers
    """
    for dtype in HALF if printed == "float32" else (printed,):
        for reader in in_half(search.reader, dtype):
            fits = rounded_fits(search, reader, is_format=dtype == printed)
            if fits:
                return sorted(fits, key=lambda fit: fit.error), dtype
    return [], printed


def with_rounded_weights(search: Search) -> list[Fit]:
    """Return hypotheses that fit if the other program rounded the weights of layers to 8 bits, and
    fed what is fed here.

    The same rounding gives the same rewards. Where it went another way for a few weights, rewards
    must be nearer to those with rounded weights.
    """
    found = []
    for reader in rounded_weights(search.reader):
        found += rounded_fits(search, reader, is_format=None)
    return sorted(found, key=lambda fit: norm(search.given.theirs - fit.predicted))[:1]


def rounded_fits(search: Search, reader: Reader, is_format: bool | None) -> list[Fit]:
    """Return hypotheses that fit with this reader, or else those whose errors look like its
    rounding.

    What fits float32 within the errors of the reader is computed again by it. If what is fed here
    fits so, nothing else is tried: the rounding of other texts resembles any errors at times.

    is_format: whether all rewards are numbers of the reader's format; None for rounded weights
    """
    same = again(search, reader, search.noise)
    same.is_equal()
    if same.fits:
        return same.fits
    exact = usual(search.reader, search.base)  # (n, labels)
    error = norm(usual(reader, search.base) - exact) / np.sqrt(exact.size)
    coarse = again(search, search.reader, search.noise + 1.5 * error, is_coarse=True)
    if not coarse.is_equal() and is_format is not None:
        coarse.run([])
    fewest = min((len(fit.causes) for fit in coarse.fits), default=0)
    theirs = search.given.theirs
    fits = []
    for fit in coarse.fits:
        if len(fit.causes) > fewest or (is_format is None and fit.causes):
            continue
        with np.errstate(all="ignore"):
            predictions = list(search.predictions(reader, fit.feed))
        cause, predicted, *_ = predictions[fit.at]
        if is_rounding(theirs, fit.predicted, predicted, is_format):
            causes = (cause,) if cause else ()
            far = float(norm(theirs - predicted))
            fits.append(fit._replace(causes=causes, predicted=predicted, error=far))
    return fits


def again(
    search: Search, reader: Reader, noise: float, is_coarse: bool = False
) -> Search:
    """Return the same search with another reader or noise, and nothing found yet."""
    return Search(
        reader, search.feeds, search.given, search.slack, noise, search.label, is_coarse
    )


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
