"""What a program may make of rewards: functions of one reward, of the rewards of a prompt, of
several labels, and scales and shifts that are fitted to its numbers.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, log_expit, softmax

Array = np.ndarray
SAME = "take the number itself there"
OFF = "switch the activation off there (function_to_apply='none')"
STEP = 1e-4  # over which the slope of a function is taken
MOST_LABELS = 20


class Number(NamedTuple):
    """What a program may have made of rewards.

    - text: empty for the reward itself; it may name constants
    - predicted: (places, n)
    - slope: how far a prediction moves with a reward
    - free: how many constants were estimated
    - constants: name -> (places,)
    """

    text: str
    predicted: Array
    slope: Any = 1.0
    free: int = 0
    remedy: str = SAME
    constants: Mapping[str, Array] = {}

    def text_at(self, place: int) -> str:
        """Return the text with the constants that were estimated at a place."""
        constants = {key: values[place] for key, values in self.constants.items()}
        return self.text.format(**constants)


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

    def of_rows(self, rows: Array) -> "Given":
        """Return what is known of some rows. Their prompts are numbered anew."""
        kept = self.groups[rows]
        groups = np.unique(kept, return_inverse=True)[1]
        lengths = {unit: length[rows] for unit, length in self.lengths.items()}
        return Given(self.theirs[rows], groups, lengths)


ELEMENTWISE: dict[str, tuple[Callable[[Array], Array], str]] = {
    "": (np.positive, SAME),
    "applied the sigmoid": (expit, OFF),
    "applied the sigmoid twice": (lambda raw: expit(expit(raw)), OFF),
    "changed the sign": (np.negative, SAME),
    "took the logarithm of the sigmoid": (log_expit, SAME),
    "applied the hyperbolic tangent": (np.tanh, SAME),
    "took the exponential": (lambda raw: np.exp(np.minimum(raw, 700)), SAME),
}


def numbers(rewards: Array, given: Given, label: int) -> Iterator[Number]:
    """Yield what may have been made of rewards, (places, n, labels). Those without constants come
    first.
    """
    raw = rewards[..., label]
    yield from elementwise(raw)
    if 1 < rewards.shape[-1] <= MOST_LABELS:
        yield from of_labels(rewards, label)
    yield from by_length(raw, given)
    yield from by_group(raw, given.groups)
    yield from fitted(raw, given)


def elementwise(raw: Array) -> Iterator[Number]:
    """Yield functions of one reward, (places, n)."""
    for text, (number, remedy) in ELEMENTWISE.items():
        rise = number(raw + STEP) - number(raw - STEP)
        slope = np.abs(rise) / (2 * STEP)
        yield Number(text, number(raw), slope, 0, remedy)


def by_length(raw: Array, given: Given) -> Iterator[Number]:
    """Yield rewards from which a multiple of the reply's length was subtracted, or that were
    divided by it.
    """
    for unit, length in given.lengths.items():
        if not length.any():
            continue
        excess = raw - given.theirs
        penalty = (excess @ length) / (length @ length)  # (places,)
        predicted = raw - penalty[:, None] * length
        remedy = "leave the penalty out there, or subtract it from the rewards here"
        text = f"subtracted {{penalty:.4g}} for each of the reply's {unit}"
        yield Number(text, predicted, 1.0, 1, remedy, {"penalty": penalty})
        text = f"divided by the number of the reply's {unit}"
        positive = np.maximum(length, 1)
        yield Number(text, raw / positive, 1 / positive)


def by_group(raw: Array, groups: Array) -> Iterator[Number]:
    """Yield rewards, (places, n), that were compared with the others of the same prompt."""
    sizes = np.bincount(groups)
    if len(sizes) < 2 or (sizes < 2).all():
        return
    shares = np.eye(len(sizes))[groups] / sizes  # (n, groups)
    larger = sizes / np.maximum(sizes - 1, 1)
    means = raw @ shares  # (places, groups)
    apart = raw - means[:, groups]  # (places, n)
    yield Number("subtracted the mean over the replies to each prompt", apart)
    text = "subtracted the mean over the other replies to each prompt"
    yield Number(text, apart * larger[groups], 2.0)
    variance = apart**2 @ shares * larger  # (places, groups)
    spread = np.sqrt(variance)[:, groups]
    text = "standardised the rewards of the replies to each prompt"
    for least in (1e-6, 1e-4):
        yield Number(text, apart / (spread + least), 2 / spread)


def fitted(raw: Array, given: Given) -> Iterator[Number]:
    """Yield limits, scales and shifts that are fitted to the other program's rewards."""
    theirs = given.theirs
    yield from limited(raw, theirs)
    squares = (raw * raw).sum(axis=1)  # (places,)
    scale = (raw @ theirs) / squares
    scaled = scale[:, None] * raw
    yield Number(
        "multiplied by {scale:.4g}",
        scaled,
        np.abs(scale)[:, None],
        1,
        SAME,
        {"scale": scale},
    )
    shift = (theirs - raw).mean(axis=1)
    shifted = raw + shift[:, None]
    yield Number("added {shift:.4g}", shifted, 1.0, 1, SAME, {"shift": shift})
    mean = theirs.mean()
    apart = raw - raw.mean(axis=1, keepdims=True)
    variation = (apart * apart).sum(axis=1)
    slope = apart @ (theirs - mean) / variation
    predicted = slope[:, None] * apart + mean
    spread = predicted.std(axis=1)
    constants = {"mean": predicted.mean(axis=1), "spread": spread}
    text = "rescaled to mean {mean:.4g} and standard deviation {spread:.4g}"
    yield Number(text, predicted, np.abs(slope)[:, None], 2, SAME, constants)


def limited(raw: Array, theirs: Array) -> Iterator[Number]:
    """Yield rewards, (places, n), that were cut to the range of `theirs`, at one end or both."""
    low = theirs.min()
    high = theirs.max()
    for text, predicted, constants in (
        ("cut rewards above {high:.6g}", np.minimum(raw, high), {"high": high}),
        ("cut rewards below {low:.6g}", np.maximum(raw, low), {"low": low}),
        (
            "cut rewards to [{low:.6g}, {high:.6g}]",
            np.clip(raw, low, high),
            {"low": low, "high": high},
        ),
    ):
        at_places = {}
        for name, value in constants.items():
            at_places[name] = np.full(len(raw), value)
        yield Number(text, predicted, 1.0, len(constants), SAME, at_places)


def of_labels(rewards: Array, label: int) -> Iterator[Number]:
    """Yield what a program may have made of several labels, (places, n, labels)."""
    labels = rewards.shape[-1]
    shares = softmax(rewards, axis=-1)
    for i in range(labels):
        share = shares[..., i]
        which = f"softmax, of label {i} among {labels}"
        yield Number(f"applied the {which}", share, share * (1 - share))
        yield Number(f"took the logarithm of the {which}", np.log(share + 1e-300))
        if i != label:
            yield from _of_other_label(rewards, label, i)
    yield Number("took the mean of all labels", rewards.mean(axis=-1))
    yield Number("took the sum of all labels", rewards.sum(axis=-1), labels)
    yield Number(
        "took the expected label of the softmax", shares @ np.arange(labels), labels
    )


def _of_other_label(rewards: Array, label: int, i: int) -> Iterator[Number]:
    own = rewards[..., label]
    other = rewards[..., i]
    remedy = f"say --label {i} here, or take label {label} there"
    yield Number(f"took label {i}", other, remedy=remedy)
    yield Number(f"took label {label} minus label {i}", own - other, 2.0)
    yield Number(f"took label {i} minus label {label}", other - own, 2.0)
    squashed = expit(other)
    yield Number(
        f"applied the sigmoid to label {i}", squashed, squashed * (1 - squashed)
    )
