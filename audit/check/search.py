"""The search for the one thing that another program did.

A hypothesis says what was fed (feeds.py), to which weights (other_weights.py), where the reward was
read (readings.py), or what was made of the number (numbers.py). It fits only if it reproduces every
reward.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .feeds import MULTIPLES, Feed, Feeds, Input
from .numbers import Given, Number, numbers
from .readings import Array, Reader, elsewhere, usual
from .sources import Cause

# rows of a kind on which causes are tried before all: the shortest, which truncation leaves alone,
# the longest, and the first that differ
SCREENED = 3
SIZES = (2, 3, 4, 8, 16, 32, 64)  # of batches
# of truncated or padded texts, as a rule
LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
ANY = 400  # tokens or characters up to which every number is tried
WIDER = 160  # tokens by which a text may be padded to any width
# powers of ten by which an agreement of all rows by chance must be improbable
EVIDENCE = 8.0
# of the standard deviation of rewards: what varies less cannot be the nearest
CONSTANT = 0.1
NEAREST = 3  # of what does not fit a few rows, so many are compared on all


class Fit(NamedTuple):
    """A hypothesis: its causes, the rewards that it predicts, (n,), and its error as a share of
    what is allowed.
    """

    causes: tuple[Cause, ...]
    predicted: Array
    error: float
    feed: Feed = Feed(None, ())
    free: int = 0  # constants that were estimated
    at: int = 0  # its place among the predictions of this feed


Tried = tuple[Reader, Feed]


@dataclass
class Search:
    """The search for what another program did to give these rewards.

    - given: the rewards of all rows, and what is known of each
    - slack: how far each reward may be off by its printing and by its floating-point format, (n,)
    - noise: how far a reward here may be off, on the model's own scale
    - label: which output of the model is the reward here
    - is_coarse: what is sought fits within half precision; the largest noise is 4 times this one
    """

    reader: Reader
    feeds: Feeds
    given: Given
    slack: Array
    noise: float
    label: int = 0
    is_coarse: bool = False
    fits: list[Fit] = field(default_factory=list)
    nearest: Fit | None = None

    @property
    def base(self) -> Feed:
        """What is fed here."""
        return Feed(None, self.feeds.base)

    @cached_property
    def rows(self) -> Array:
        """The rows on which causes are tried first: some of the shortest, of the longest, and of
        those that differ.
        """
        lengths = [len(each.ids) for each in self.feeds.base]
        by_length = np.argsort(lengths, kind="stable")
        here = next(self.predictions(self.reader, self.base)).predicted
        apart = np.abs(here - self.given.theirs) > self.slack + self.noise
        differ = np.flatnonzero(apart)[:SCREENED]
        ends = [by_length[:SCREENED], by_length[-SCREENED:]]
        return np.unique(np.concatenate([*ends, differ]))

    def is_equal(self) -> bool:
        """Return whether the rewards are those here. What else fits the same texts is kept too."""
        self.consider(self.reader, self.base)
        return any(not fit.causes for fit in self.fits)

    def run(self, others: Sequence[Reader]) -> list[Fit]:
        """Return hypotheses that fit, with those of `is_equal`. others: with other weights."""
        causes = self._screened(others)
        feeds = [(reader, self.base) for reader in others if reader.cause in causes]
        further = [*self.feeds.every(causes.__contains__)[1:], *self._in_batches()]
        feeds += [(self.reader, feed) for feed in further if feed.cause in causes]
        for reader, feed in feeds:
            self.consider(reader, feed)
        if not self.fits and not self.is_coarse:
            for feed in self._counted():
                self.consider(self.reader, feed)
        return self.fits

    def _screened(self, others: Sequence[Reader]) -> set[Cause | None]:
        """Return the causes that fit a few rows; if there are none, those that are nearest."""
        rows = self.rows
        part = self.feeds.of_rows(rows)
        tried = [(reader, self.base.of_rows(rows)) for reader in others]
        made = [Feed(cause, make()) for cause, make in part.others()]
        made += [feed.of_rows(rows) for feed in self._in_batches()]
        tried += [(self.reader, feed) for feed in made if feed.inputs]
        read_all(tried, "")
        errors = [
            (self.error(reader, feed, rows), reader.cause or feed.cause)
            for reader, feed in tried
        ]
        limit = 1 + 3 * self.is_coarse
        fitting = {cause for error, cause in errors if error <= limit}
        if fitting or self.fits:
            return fitting
        errors.sort(key=lambda each: each[0])
        return {cause for _, cause in errors[:NEAREST]}

    def _in_batches(self) -> Iterator[Feed]:
        """Yield what is fed here in padded batches, or padded to a multiple of some length."""
        n = len(self.slack)
        for size in (*[size for size in SIZES if size < n], n):
            yield from self.feeds.batched(size)
        for multiple in MULTIPLES:
            yield from self.feeds.rounded_up(multiple)

    def _counted(self) -> Iterator[Feed]:
        """Yield feeds that a number describes, for those numbers that give the longest row its
        reward.
        """
        base = self.feeds.base
        longest = max(self.rows, key=lambda i: len(base[i].ids))
        row = np.array([longest])
        one = self.feeds.of_rows(row)
        size = max(len(base[longest].ids) + WIDER, len(one.turns[0][-1]["content"]))
        tried = [(count, feed) for count in counts(size) for feed in one.counted(count)]
        read_all([(self.reader, feed) for _, feed in tried], " more, for one row")
        found = {
            feed.cause: count
            for count, feed in tried
            if feed.inputs != one.base and self.error(self.reader, feed, row) <= 1
        }
        for count in dict.fromkeys(found.values()):
            yield from (
                feed for feed in self.feeds.counted(count) if feed.cause in found
            )

    def predictions(self, reader: Reader, feed: Feed) -> Iterator[Number]:
        """Yield what a feed predicts: one number if it has a cause, else also those with one."""
        rewards = usual(reader, feed)  # (n, labels)
        cause = reader.cause or feed.cause
        if reader.of_any:
            for column in rewards.T:
                yield Number(cause, column, free=1)
            return
        label = self.label if self.label < rewards.shape[1] else 0
        yield Number(cause, rewards[:, label])
        if cause:
            return
        for place, at in elsewhere(reader, feed):
            yield Number(place, at[:, label])
        yield from numbers(rewards, self.given, label)

    def error(self, reader: Reader, feed: Feed, rows: Array) -> float:
        """Return the largest error on some rows, as a share of what is allowed, of a feed of these
        rows with a cause.
        """
        theirs = self.given.theirs[rows]
        allowed = self.slack[rows] + self.noise
        apart = [
            np.abs(number.predicted - theirs) / allowed
            for number in self.predictions(reader, feed)
        ]
        return float(np.nan_to_num(apart, nan=np.inf).max(axis=1).min())

    def consider(self, reader: Reader, feed: Feed) -> None:
        """Keep what fits all rows, and what is nearest, of what a feed of all rows predicts."""
        theirs = self.given.theirs
        # a gate without a place to read gives no number
        with np.errstate(all="ignore"):
            for at, number in enumerate(self.predictions(reader, feed)):
                apart = np.abs(number.predicted - theirs)
                apart = np.nan_to_num(apart, nan=np.inf)
                allowed = self.slack + self.noise * number.slope  # (n,)
                causes = (number.cause,) if number.cause else ()
                error = float((apart / allowed).max())
                fit = Fit(causes, number.predicted, error, feed, number.free, at)
                is_near = error <= 1 + 3 * self.is_coarse
                if is_near and self._is_evident(number, allowed):
                    self.fits.append(fit)
                elif not number.free:
                    self._keep_nearest(fit._replace(error=float(apart.mean())))

    def _is_evident(self, number: Number, allowed: Array) -> bool:
        """Return whether chance does not explain that all rows fit. Copies of a text are no
        further evidence.
        """
        spread = min(number.predicted.std(), self.given.theirs.std())
        distinct = len(set(self.feeds.base))
        powers = np.log10(spread / allowed.mean())
        return bool((distinct - number.free) * powers >= EVIDENCE)

    def _keep_nearest(self, fit: Fit) -> None:
        if fit.predicted.std() < CONSTANT * self.given.theirs.std():
            return
        if self.nearest is None or fit.error < self.nearest.error:
            self.nearest = fit


def counts(size: int) -> list[int]:
    """Return the numbers of tokens or characters that are tried for a text of this size."""
    fifties = range(0, size + 1, 50)
    as_a_rule = [n for n in (*LENGTHS, *fifties) if n <= 4 * size]
    every = range(1, min(ANY, size))
    return sorted({*every, *as_a_rule})


def read_all(tried: Iterable[Tried], what: str) -> None:
    """Read the inputs of all feeds, after a line that says how many forward passes this needs."""
    inputs: dict[int, tuple[Reader, dict[Input, None]]] = {}
    for reader, feed in tried:
        _, new = inputs.setdefault(id(reader), (reader, {}))
        unread = [each for each in feed.inputs if each not in reader.known]
        new |= dict.fromkeys(unread)
    if count := sum(len(new) for _, new in inputs.values()):
        print(f"{count:,} forward passes{what}.", file=sys.stderr)
    for reader, new in inputs.values():
        reader.read(list(new))
