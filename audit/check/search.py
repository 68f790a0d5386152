"""The search for what another program did: hypotheses with one cause first, then with two.

A hypothesis says what was fed (feeds.py), to which weights (other_weights.py), where the reward was
read (readings.py), and what was made of the number (numbers.py). It fits only if it reproduces
every reward.
"""

import copy
import itertools
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .feeds import MULTIPLES, Feed, Feeds, Input
from .numbers import Given, Number, numbers
from .readings import Array, Reader, places
from .sources import Cause

# rows on which causes are tried before all: the shortest, which truncation leaves alone, and the
# longest
SCREENED = 6
SIZES = (2, 3, 4, 8, 16, 32, 64)  # of batches
# of truncated or padded texts, as a rule
LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
# of truncation that are tried between the longest row that agrees and the shortest that does not
MOST_LENGTHS = 200
ANY = 400  # tokens or characters up to which every number is tried
WIDER = 160  # tokens by which a text may be padded to any width
# powers of ten by which an agreement of all rows by chance must be improbable
EVIDENCE = 8.0
# of the standard deviation of rewards: what varies less cannot be the nearest
CONSTANT = 0.1


class Fit(NamedTuple):
    """A hypothesis: its causes, the rewards that it predicts, (n,), and its error as a share of
    what is allowed.
    """

    causes: tuple[Cause, ...]
    predicted: Array
    error: float
    feed: Feed = Feed((), ())
    free: int = 0  # constants that were estimated
    kind: tuple[str, ...] = ()  # the causes without these constants


Tried = tuple[Reader, Feed]


@dataclass
class Search:
    """The search for what another program did to give these rewards.

    - given: the rewards of all rows, and what is known of each
    - slack: how far each reward may be off by its printing and by its floating-point format, (n,)
    - noise: how far a reward here may be off, on the model's own scale
    - label: which output of the model is the reward here
    - wanted: no feed has other causes than these; None allows all
    """

    reader: Reader
    feeds: Feeds
    given: Given
    slack: Array
    noise: float
    label: int = 0
    wanted: Collection[Cause] | None = None
    # only one cause then, as half precision is another one; the largest noise is 4 times this
    is_coarse: bool = False
    fits: list[Fit] = field(default_factory=list)
    nearest: Fit | None = None
    # Of a feed, the longest row that agrees and the shortest that does not, if longer: it may have
    # been truncated. Of several numbers, that with which the longest row agrees.
    partial: dict[Feed, tuple[int, int]] = field(default_factory=dict)

    @property
    def base(self) -> Feed:
        """What is fed here."""
        return Feed((), self.feeds.base, True)

    @cached_property
    def every(self) -> list[Feed]:
        """All feeds with at most two causes, without truncation and padding."""
        return self.feeds.every(self._is_wanted)

    @cached_property
    def rows(self) -> Array:
        """The rows on which causes are tried first."""
        lengths = [len(each.ids) for each in self.feeds.base]
        by_length = np.argsort(lengths, kind="stable")
        shortest = by_length[: SCREENED // 2]
        others = by_length[SCREENED // 2 :]
        longest = others[-SCREENED // 2 :]
        return np.sort(np.concatenate([shortest, longest]))

    @cached_property
    def distinct(self) -> int:
        """How many rows differ in what is fed here. Copies are no further evidence."""
        return len(set(self.feeds.base))

    def is_equal(self) -> bool:
        """Return whether the rewards are those here."""
        self.consider(self.reader, self.base)
        return any(not fit.causes for fit in self.fits)

    def run(self, others: Sequence[Reader]) -> list[Fit]:
        """Return hypotheses that fit: with one cause, or with two if nothing simpler fits."""
        single = [feed for feed in self.every if len(feed.causes) < 2]
        tried = [(self.reader, feed) for feed in single[1:]]
        tried += self._further(self.base, others, LENGTHS)
        self._screen(tried, "")
        # what the few rows do not tell, such as means over the replies to a prompt
        if not self.fits:
            read_all(tried, " more, for all rows")
            for reader, feed in tried:
                self.consider(reader, feed)
        if not self.fits and not self.is_coarse:
            self._screen(self._counted(), " more, for any length")
        if self.is_coarse or any(len(fit.causes) < 2 for fit in self.fits):
            return self.fits
        of_two = [feed for feed in self.every if len(feed.causes) == 2]
        pairs = [(self.reader, feed) for feed in of_two]
        for feed in single[1:]:
            if feed.is_own or feed in self.partial:
                pairs += self._further(feed, others, ())
        self._screen(pairs, " more, for pairs of causes")
        return self.fits

    def _screen(self, tried: Sequence[Tried], what: str) -> None:
        """Try feeds on a few rows, and those that fit these on all."""
        some = [(reader, feed.of_rows(self.rows)) for reader, feed in tried]
        read_all(some, what)
        is_part = len(self.rows) < len(self.slack)
        for (reader, part), (_, feed) in zip(some, tried, strict=True):
            if self.consider(reader, part, self.rows) and is_part:
                self.consider(reader, feed)

    def _further(
        self, feed: Feed, others: Sequence[Reader], lengths: Sequence[int]
    ) -> Iterator[Tried]:
        """Yield a feed with other weights, in padded batches, and truncated: to these lengths,
        or where rows differ.
        """
        for reader in others:
            yield reader, feed
        n = len(feed.inputs)
        sizes = [size for size in SIZES if size < n]
        made = [self.feeds.batched(feed, size) for size in (*sizes, n)]
        if not feed.causes:
            made += [self.feeds.rounded_up(feed, multiple) for multiple in MULTIPLES]
        longest = max(len(each.ids) for each in feed.inputs)
        low, high = self.partial.get(feed, (0, 0))
        high = min(high, low + MOST_LENGTHS)
        different = dict.fromkeys([*range(low, high), *lengths])
        for length in different:
            if 4 <= length < longest:
                made.append(self.feeds.truncated(feed, length))
        for each in itertools.chain(*made):
            if self._is_wanted(each.causes):
                yield self.reader, each

    def _is_wanted(self, causes: tuple[Cause, ...]) -> bool:
        if self.wanted is None:
            return True
        return all(cause in self.wanted for cause in causes)

    def _counted(self) -> list[Tried]:
        """Return feeds that a number describes, for those numbers that give the longest row its
        reward.
        """
        base = self.feeds.base
        longest = max(self.rows, key=lambda i: len(base[i].ids))
        one = self.feeds.of_rows([longest])
        row = np.array([longest])
        reply = one.turns[0][-1]["content"]
        length = len(one.base[0].ids)
        size = max(length + WIDER, len(reply))
        tried = []
        for count in counts(size):
            for feed in one.counted(count):
                if self._is_wanted(feed.causes):
                    tried.append((count, feed))
        feeds = [(self.reader, feed) for _, feed in tried]
        read_all(feeds, " more, for one row at any length")
        found: dict[int, set[tuple[Cause, ...]]] = {}
        for count, feed in tried:
            if feed.inputs != one.base and self.consider(self.reader, feed, row):
                found.setdefault(count, set()).add(feed.causes)
        counted = []
        for count, causes in found.items():
            for feed in self.feeds.counted(count):
                if feed.causes in causes:
                    counted.append((self.reader, feed))
        return counted

    def consider(self, reader: Reader, feed: Feed, rows: Array | None = None) -> bool:
        """Try every place and number with a feed of all rows or some; return whether one fits.
        Keep what fits all.

        Of one row, only the usual place and numbers without constants count.
        """
        given = self.given
        slack = self.slack
        if rows is not None:
            given = given.of_rows(rows)
            slack = slack[rows]
        where, rewards = places(reader, feed)  # (places, n, labels)
        if len(slack) == 1:
            where = where[:1]
            rewards = rewards[:1]
        before = (*reader.cause, *feed.causes)
        is_whole = len(slack) == len(self.slack)
        is_fitting = False
        # a gate without a place to read gives no number
        with np.errstate(all="ignore"):
            for number in self._numbers(reader, rewards, given):
                room = 2 - self.is_coarse - len(before) - bool(number.text)
                if room < 0 or (len(slack) == 1 and number.free):
                    continue
                apart = np.abs(number.predicted - given.theirs)
                apart = np.nan_to_num(apart, nan=np.inf)
                allowed = slack + self.noise * number.slope  # (n,) or (places, n)
                allowed = np.broadcast_to(allowed, apart.shape)
                errors = apart / allowed
                for i in self._fitting(number, errors, allowed, is_whole):
                    if len(where[i]) > room:
                        continue
                    is_fitting = True
                    if is_whole:
                        error = float(errors[i].max())
                        causes = (*before, *where[i])
                        self.fits.append(fit_at(i, number, causes, error, feed))
                if is_whole and not number.free:
                    self._keep_nearest(reader, feed, number, apart[0], allowed[0])
        return is_fitting

    def _numbers(
        self, reader: Reader, rewards: Array, given: Given
    ) -> Iterable[Number]:
        labels = rewards.shape[-1]
        if reader.of_any:
            return [Number("", rewards[..., i], free=1) for i in range(labels)]
        label = self.label if self.label < labels else 0
        return numbers(rewards, given, label)

    def _fitting(
        self, number: Number, errors: Array, allowed: Array, is_whole: bool
    ) -> Array:
        """Return the places where all rows fit: all errors, (places, n), are at most 1. If these
        are all rows, chance must not explain it.
        """
        fitting = errors.max(axis=1) <= 1 + 3 * self.is_coarse
        if is_whole:
            spread = number.predicted.std(axis=1)
            spread = np.minimum(spread, self.given.theirs.std())
            powers = np.log10(spread / allowed.mean(axis=1))
            evidence = (self.distinct - number.free) * powers
            fitting &= evidence >= EVIDENCE
        return np.flatnonzero(fitting)

    def _keep_nearest(
        self, reader: Reader, feed: Feed, number: Number, apart: Array, allowed: Array
    ) -> None:
        """Keep what is nearest at the usual place, and between which lengths a truncation may
        begin; arrays are (n,).
        """
        predicted = number.predicted[0]
        spread = self.given.theirs.std()
        if predicted.std() < CONSTANT * spread:
            return
        error = float(apart.mean())
        if self.nearest is None or error < self.nearest.error:
            causes = (*reader.cause, *feed.causes)
            self.nearest = fit_at(0, number, causes, error, feed)
        if reader is not self.reader:
            return
        agrees = apart <= allowed
        lengths = np.array([len(each.ids) for each in feed.inputs])
        other = min(lengths[~agrees], default=0)
        known, _ = self.partial.get(feed, (0, 0))
        if agrees.sum() < 3:
            return
        longest = max(lengths[agrees])
        if known < longest < other:
            self.partial[feed] = (int(longest), int(other))

    def of_rows(self, rows: Array) -> "Search":
        """Return the search on some rows."""
        part = Search(
            self.reader,
            self.feeds.of_rows(rows),
            self.given.of_rows(rows),
            self.slack[rows],
            self.noise,
            self.label,
        )
        part.is_equal()
        return part

    def again(self, reader: Reader, noise: float, is_coarse: bool) -> "Search":
        """Return the same search with another reader or noise, and nothing found yet."""
        other = copy.copy(self)  # with the feeds that were made
        other.reader = reader
        other.noise = noise
        other.is_coarse = is_coarse
        other.fits = []
        other.nearest = None
        other.partial = {}
        return other


def counts(size: int) -> list[int]:
    """Return the numbers of tokens or characters that are tried for a text of this size."""
    fifties = range(0, size + 1, 50)
    usual = [n for n in (*LENGTHS, *fifties) if n <= 4 * size]
    every = range(1, min(ANY, size))
    return sorted({*every, *usual})


def fit_at(
    place: int, number: Number, causes: tuple[Cause, ...], error: float, feed: Feed
) -> Fit:
    """Return the hypothesis that a number was made of rewards that were read at a place."""
    kind = (*(cause.text for cause in causes), number.text)
    if number.text:
        own = Cause(number.text_at(place), number.remedy)
        causes = (*causes, own)
    predicted = number.predicted[place]
    return Fit(causes, predicted, error, feed, number.free, kind)


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
