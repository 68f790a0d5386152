"""What a program may make of rewards: functions of one reward, of several labels, and limits,
scales and penalties that are fitted to its numbers.
"""

from collections.abc import Callable, Iterator, Mapping
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


ELEMENTWISE: dict[str, Callable[[Array], Array]] = {
    "applied the sigmoid": expit,
    "took the logarithm of the sigmoid": log_expit,
    "applied the hyperbolic tangent": np.tanh,
}


def numbers(
    rewards: Array, theirs: Array, lengths: Mapping[str, Array], label: int
) -> Iterator[Number]:
    """Yield what may have been made of rewards, (n, labels), to give the other program's, (n,).

    lengths: unit -> how long each reply is, (n,)
    """
    raw = rewards[:, label]
    for text, function in ELEMENTWISE.items():
        slope = np.abs(function(raw + STEP) - function(raw - STEP)) / (2 * STEP)
        yield Number(Cause(text, OFF), function(raw), slope)
    if 1 < rewards.shape[1] <= MOST_LABELS:
        yield from of_labels(rewards, label)
    for unit, length in lengths.items():
        penalty = (raw - theirs) @ length / (length @ length)
        cause = Cause(
            f"subtracted {penalty:.4g} for each of the reply's {unit}", PENALTY
        )
        yield Number(cause, raw - penalty * length, free=1)
    low = theirs.min()
    high = theirs.max()
    limits = Cause(f"cut rewards to [{low:.6g}, {high:.6g}]", SAME)
    yield Number(limits, np.clip(raw, low, high), free=2)
    slope, shift = np.polyfit(raw, theirs, 1)
    scaled = Cause(f"multiplied by {slope:.4g} and added {shift:.4g}", SAME)
    yield Number(scaled, slope * raw + shift, abs(slope), 2)


def of_labels(rewards: Array, label: int) -> Iterator[Number]:
    """Yield what a program may have made of several labels, (n, labels)."""
    shares = softmax(rewards, axis=1)
    own = rewards[:, label]
    for i, (share, other) in enumerate(zip(shares.T, rewards.T, strict=True)):
        text = f"applied the softmax, of label {i} among {len(rewards.T)}"
        yield Number(Cause(text, OFF), share, share * (1 - share))
        if i != label:
            remedy = f"say --label {i} here, or take label {label} there"
            yield Number(Cause(f"took label {i}", remedy), other)
            text = f"took label {label} minus label {i}"
            yield Number(Cause(text, SAME), own - other, 2.0)
    expected = shares @ np.arange(len(rewards.T))
    text = "took the expected label of the softmax"
    yield Number(Cause(text, SAME), expected, len(rewards.T))
