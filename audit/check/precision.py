"""Rounding: to how many digits rewards were printed, which floating-point format they have, and
whether the other program computed in half precision or with rounded weights.
"""

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
from numpy.linalg import norm
from scipy import stats

from .other_weights import in_half, rounded_weights
from .readings import Array, Reader, places
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
    """Return hypotheses with one cause that fit if the other program computed in half precision,
    and in which.

    What fits float32 within the errors of that precision is computed again in it. `printed` is the
    format of the other program's numbers.
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
    for reader in rounded_weights(search.reader):
        same = search.again(search.reader, search.noise, is_coarse=False)
        if same.consider(reader, search.base):
            return same.fits
    for reader in rounded_weights(search.reader):
        if fits := rounded_fits(search, reader, is_format=None):
            return fits
    return []


def rounded_fits(search: Search, reader: Reader, is_format: bool | None) -> list[Fit]:
    """Return hypotheses that fit with this reader, or else those whose errors look like its
    rounding.

    Of hypotheses that fit within the rounding, only the simplest are tried. The rounding of a text
    that was fed in another way resembles any errors at times.

    is_format: whether all rewards are numbers of the reader's format; None for rounded weights
    """
    same = search.again(reader, search.noise, is_coarse=False)
    same.is_equal()
    if fits := [fit for fit in same.fits if len(fit.causes) < 2]:
        return fits
    usual = places(search.reader, search.base)[1][0]  # (n, labels)
    error = norm(places(reader, search.base)[1][0] - usual) / np.sqrt(usual.size)
    coarse = search.again(search.reader, search.noise + 1.5 * error, is_coarse=True)
    coarse.is_equal()
    if is_format is not None:
        coarse.run([])
    fewest = min((len(fit.causes) for fit in coarse.fits), default=0)
    exact = {fit.kind: fit for fit in coarse.fits if len(fit.causes) == fewest}
    again = coarse.again(reader, coarse.noise, is_coarse=True)
    for feed in dict.fromkeys(fit.feed for fit in exact.values()):
        again.consider(reader, feed)
    theirs = search.given.theirs
    fits = []
    for fit in again.fits:
        kind = fit.kind[len(reader.cause) :]
        if kind not in exact:
            continue
        if is_rounding(theirs, exact[kind].predicted, fit, is_format):
            fits.append(fit)
    return fits


def is_rounding(
    theirs: Array, exact: Array, rounded: Fit, is_format: bool | None
) -> bool:
    """Return whether the other program's rewards are those in float32, (n,), but for rounding.

    Rounded weights (`is_format` None) are the same everywhere: they must explain most of the
    distance. Half precision rounds differently on other machines. So errors must be of the right
    size on every row, and either resemble those here, or be unrelated to the reward where all
    rewards are numbers of that format.
    """
    apart = theirs - exact
    rounding = rounded.predicted - exact
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
