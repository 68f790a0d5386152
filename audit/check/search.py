"""The search for the one thing that another program did.

A hypothesis says what was fed (feeds.py), to which weights (other_weights.py), where the reward was
read (readings.py), or what was made of the number (numbers.py). It fits only if it reproduces every
reward.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from .feeds import Feed, Feeds
from .numbers import Number, numbers
from .readings import TOLERANCES, Array, Reader, elsewhere, usual

# of the largest reward: what sums of float32 in another order may differ by
ROUNDING = 2e-6
# rows of a kind on which causes are tried before all: the shortest, which truncation leaves alone,
# the longest, and the first that differ
SCREENED = 3
# of truncated or padded texts, as a rule
LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
ANY = 400  # tokens or characters up to which every number is tried
WIDER = 160  # tokens by which a text may be padded to any width
# powers of ten by which an agreement of all rows by chance must be improbable
EVIDENCE = 8.0


@dataclass
class Search:
    """The search for what another program did to give these rewards.

    - theirs: the rewards of all rows, (n,)
    - slack: how far each may be off by its printing and by its floating-point format, (n,)
    - lengths: unit -> how long each reply is, (n,)
    - label: which output of the model is the reward here
    """

    reader: Reader
    feeds: Feeds
    theirs: Array
    slack: Array
    lengths: dict[str, Array]
    label: int = 0

    def __post_init__(self) -> None:
        self.base = Feed(None, self.feeds.base)  # what is fed here
        rewards = usual(self.reader, self.base)  # (n, labels)
        self.here = rewards[:, self.label]
        spread = np.abs(rewards - np.median(rewards, axis=0)).max()
        tolerance = TOLERANCES.get(self.reader.model.dtype, TOLERANCES["float32"])
        # how far a reward here may be off, on the model's own scale
        self.noise = tolerance * spread + ROUNDING * np.abs(rewards).max()

    def run(self, others: Iterable[Reader]) -> list[Number]:
        """Return the causes that fit. others: with other weights."""
        tried = [(reader, Feed(reader.cause, self.base.inputs)) for reader in others]
        feeds = [*self.feeds.others(), *self.feeds.in_batches()]
        readable = filter(self.feeds.is_readable, feeds)
        tried += [(self.reader, feed) for feed in readable]
        rows = self.rows()
        few = [feed.of_rows(rows) for _, feed in tried]
        self.reader.read([each for feed in few for each in feed.inputs])
        fits = []
        for (reader, feed), part in zip(tried, few, strict=True):
            if self.is_near(reader, part, rows):
                fits += self.fits(reader, feed)
        return fits

    def rows(self) -> Array:
        """Return the rows on which causes are tried first: some of the shortest, of the longest,
        and of those that differ.
        """
        lengths = [len(each.ids) for each in self.base.inputs]
        by_length = np.argsort(lengths, kind="stable")
        apart = np.abs(self.here - self.theirs) > self.slack + self.noise
        differ = np.flatnonzero(apart)[:SCREENED]
        ends = [by_length[:SCREENED], by_length[-SCREENED:]]
        return np.unique(np.concatenate([*ends, differ]))

    def run_counted(self) -> list[Number]:
        """Return the causes that fit and that a number describes, of those numbers that give the
        longest row its reward.
        """
        base = self.base.inputs
        longest = max(range(len(base)), key=lambda i: len(base[i].ids))
        row = np.array([longest])
        turns = self.feeds.turns[longest]
        one = Feeds(self.reader.model, [turns], self.feeds.bos)
        size = max(len(base[longest].ids) + WIDER, len(turns[-1]["content"]))
        tried = [
            (count, feed)
            for count in counts(size)
            for feed in filter(one.is_readable, one.counted(count))
            if feed.inputs != one.base
        ]
        self.reader.read([each for _, feed in tried for each in feed.inputs])
        found = {
            feed.cause: count
            for count, feed in tried
            if self.is_near(self.reader, feed, row)
        }
        fits = []
        for count in dict.fromkeys(found.values()):
            for feed in filter(self.feeds.is_readable, self.feeds.counted(count)):
                if feed.cause in found:
                    fits += self.fits(self.reader, feed)
        return fits

    def predictions(self, reader: Reader, feed: Feed) -> Iterator[Number]:
        """Yield what a feed predicts: one number if it has a cause, else also those with one."""
        rewards = usual(reader, feed)  # (n, labels)
        if reader.of_any:
            for column in rewards.T:
                yield Number(feed.cause, column, free=1)
            return
        yield Number(feed.cause, rewards[:, self.label])
        if feed.cause:
            return
        for place, at in elsewhere(reader, feed):
            yield Number(place, at[:, self.label])
        yield from numbers(rewards, self.theirs, self.lengths, self.label)

    def is_near(self, reader: Reader, feed: Feed, rows: Array) -> bool:
        """Return whether a feed of some rows, with a cause, gives their rewards."""
        allowed = self.slack[rows] + self.noise
        return any(
            (np.abs(number.predicted - self.theirs[rows]) <= allowed).all()
            for number in self.predictions(reader, feed)
        )

    def fits(self, reader: Reader, feed: Feed) -> list[Number]:
        """Return what fits all rows, of what a feed of all rows predicts."""
        found = []
        # a gate without a place to read gives no number
        with np.errstate(all="ignore"):
            for number in self.predictions(reader, feed):
                # constants that were estimated from rounded numbers are a little off
                slack = self.slack * (1 + 0.25 * number.free)
                allowed = slack + self.noise * number.slope  # (n,)
                is_near = np.abs(number.predicted - self.theirs) <= allowed
                if is_near.all() and self._is_evident(number, allowed):
                    found.append(number)
        return found

    def _is_evident(self, number: Number, allowed: Array) -> bool:
        """Return whether chance does not explain that all rows fit. Copies of a text are no
        further evidence.
        """
        spread = min(number.predicted.std(), self.theirs.std())
        distinct = len(set(self.base.inputs))
        powers = np.log10(spread / allowed.mean())
        return bool((distinct - number.free) * powers >= EVIDENCE)


def counts(size: int) -> list[int]:
    """Return the numbers of tokens or characters that are tried for a text of this size."""
    fifties = range(0, size + 1, 50)
    as_a_rule = [n for n in (*LENGTHS, *fifties) if n <= 4 * size]
    every = range(1, min(ANY, size))
    return sorted({*every, *as_a_rule})
