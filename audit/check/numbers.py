"""What a program may make of rewards: functions of one reward, of the rewards of a prompt, of
several labels, and scales and shifts that are fitted to its numbers.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, log_expit, softmax

from .sources import Cause

Array = np.ndarray
SAME = "take the number itself there"
OFF = "switch the activation off there (function_to_apply='none')"
PENALTY = "leave the penalty out there, or subtract it from the rewards here"
STEP = 1e-4  # over which the slope of a function is taken
MOST_LABELS = 20


class Number(NamedTuple):
    """What a program may have made of rewards.

    - cause: what it did; None for the reward itself
    - predicted: (n,)
    - slope: how far a prediction moves with a reward
    - free: how many constants were estimated
    """

    cause: Cause | None
    predicted: Array
    slope: Any = 1.0
    free: int = 0


def number(
    text: str, predicted: Array, slope: Any = 1.0, free: int = 0, remedy: str = SAME
) -> Number:
    """Return a number under the words of what the program did."""
    return Number(Cause(text, remedy), predicted, slope, free)


@dataclass(frozen=True)
class Given:
    """What is known of each row, (n,) each.

    - theirs: the other program's rewards
    - groups: the number of its prompt
    - lengths: unit -> how long its reply is
    """

    theirs: Array
    groups: Array
    lengths: Mapping[str, Array] = field(default_factory=dict)


ELEMENTWISE: dict[str, tuple[Callable[[Array], Array], str]] = {
    "applied the sigmoid": (expit, OFF),
    "applied the sigmoid twice": (lambda raw: expit(expit(raw)), OFF),
    "changed the sign": (np.negative, SAME),
    "took the logarithm of the sigmoid": (log_expit, SAME),
    "applied the hyperbolic tangent": (np.tanh, SAME),
    "took the exponential": (lambda raw: np.exp(np.minimum(raw, 700)), SAME),
}


def numbers(rewards: Array, given: Given, label: int) -> Iterator[Number]:
    """Yield what may have been made of rewards, (n, labels). Those without constants come first."""
    raw = rewards[:, label]
    for text, (function, remedy) in ELEMENTWISE.items():
        slope = np.abs(function(raw + STEP) - function(raw - STEP)) / (2 * STEP)
        yield number(text, function(raw), slope, 0, remedy)
    if 1 < rewards.shape[1] <= MOST_LABELS:
        yield from of_labels(rewards, label)
    yield from by_length(raw, given)
    yield from by_group(raw, given.groups)
    yield from fitted(raw, given.theirs)


def by_length(raw: Array, given: Given) -> Iterator[Number]:
    """Yield rewards from which a multiple of the reply's length was subtracted, or that were
    divided by it.
    """
    for unit, length in given.lengths.items():
        if not length.any():
            continue
        penalty = (raw - given.theirs) @ length / (length @ length)
        text = f"subtracted {penalty:.4g} for each of the reply's {unit}"
        yield number(text, raw - penalty * length, 1.0, 1, PENALTY)
        positive = np.maximum(length, 1)
        text = f"divided by the number of the reply's {unit}"
        yield number(text, raw / positive, 1 / positive)


def by_group(raw: Array, groups: Array) -> Iterator[Number]:
    """Yield rewards, (n,), that were compared with the others of the same prompt."""
    sizes = np.bincount(groups)
    if len(sizes) < 2 or (sizes < 2).all():
        return
    larger = sizes / np.maximum(sizes - 1, 1)
    means = np.bincount(groups, raw) / sizes
    apart = raw - means[groups]
    yield number("subtracted the mean over the replies to each prompt", apart)
    text = "subtracted the mean over the other replies to each prompt"
    yield number(text, apart * larger[groups], 2.0)
    variance = np.bincount(groups, apart**2) / sizes * larger
    spread = np.sqrt(variance)[groups]
    text = "standardised the rewards of the replies to each prompt"
    for least in (1e-6, 1e-4):
        yield number(text, apart / (spread + least), 2 / spread)


def fitted(raw: Array, theirs: Array) -> Iterator[Number]:
    """Yield limits, scales and shifts that are fitted to the other program's rewards, (n,)."""
    low = theirs.min()
    high = theirs.max()
    yield number(f"cut rewards above {high:.6g}", np.minimum(raw, high), free=1)
    yield number(f"cut rewards below {low:.6g}", np.maximum(raw, low), free=1)
    text = f"cut rewards to [{low:.6g}, {high:.6g}]"
    yield number(text, np.clip(raw, low, high), free=2)
    scale = (raw @ theirs) / (raw @ raw)
    yield number(f"multiplied by {scale:.4g}", scale * raw, abs(scale), 1)
    shift = (theirs - raw).mean()
    yield number(f"added {shift:.4g}", raw + shift, free=1)
    mean = theirs.mean()
    apart = raw - raw.mean()
    slope = apart @ (theirs - mean) / (apart @ apart)
    predicted = slope * apart + mean
    text = f"rescaled to mean {mean:.4g} and standard deviation {predicted.std():.4g}"
    yield number(text, predicted, abs(slope), 2)


def of_labels(rewards: Array, label: int) -> Iterator[Number]:
    """Yield what a program may have made of several labels, (n, labels)."""
    labels = rewards.shape[1]
    shares = softmax(rewards, axis=1)
    own = rewards[:, label]
    for i in range(labels):
        share = shares[:, i]
        which = f"softmax, of label {i} among {labels}"
        yield number(f"applied the {which}", share, share * (1 - share))
        yield number(f"took the logarithm of the {which}", np.log(share + 1e-300))
        if i == label:
            continue
        other = rewards[:, i]
        remedy = f"say --label {i} here, or take label {label} there"
        yield number(f"took label {i}", other, remedy=remedy)
        yield number(f"took label {label} minus label {i}", own - other, 2.0)
        yield number(f"took label {i} minus label {label}", other - own, 2.0)
        squashed = expit(other)
        slope = squashed * (1 - squashed)
        yield number(f"applied the sigmoid to label {i}", squashed, slope)
    yield number("took the mean of all labels", rewards.mean(axis=1))
    yield number("took the sum of all labels", rewards.sum(axis=1), labels)
    expected = shares @ np.arange(labels)
    yield number("took the expected label of the softmax", expected, labels)
