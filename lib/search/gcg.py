"""Methods of search for the reply of n tokens that a reward model rewards most, or least (section
5).

A method is a function from an objective and the reply where a search stands to the replies that
it scores next.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from heapq import nlargest
from itertools import chain, islice, product

import numpy as np
import torch
from numpy import ndarray

from .objective import Objective, Reply

# tokens from which swaps are drawn soon, and the best reply is altered when the search stalls
LONG = 8
# replies that a step looks at until enough are admitted; hardly a step needs the last of them
LOOKED_AT = 16_384
TRIED, TRIED_OF_LONG = 64, 16  # best swaps of each place that ours draws from
# steps of a long reply that take the best swaps of each place, before they are drawn
GREEDY = 2
DRAWS = 10  # of a step's swaps, until one is admitted
# tokens of each place of a reply that are combined, the best so far
COMBINED = 6
TARGET, WEIGHT = 30.0, 4.5  # of the paper's published code


@dataclass(frozen=True)
class Settings:
    """How to search."""

    method: str = "ours"  # a key of METHODS
    budget: int = 4096  # replies scored at most, the start and duplicates included
    width: int = 32  # replies per step
    top_k: int = 256  # GCG draws from so many best swaps of each place
    # of a swap's distance against its gain; 1 gives both the same spread. Short replies
    distance_weight: float = 0.5
    patience: int = 6  # steps without a new best before ours starts afresh
    seed: int = 0  # of the first start; the next ones count on


@dataclass
class Run:
    """One search: the reply where it stands, and what it has scored so far."""

    reply: Reply
    rng: np.random.Generator
    value: float = -np.inf
    best: tuple[Reply, float] = ((), -np.inf)
    reached: float = -np.inf  # the highest value since the last start
    stale: int = 0  # steps since then
    steps: int = 0
    ended: bool = False
    # of every swap of the reply, (n, allowed)
    gains: ndarray = field(default_factory=lambda: np.empty((0, 0)))
    scored: dict[Reply, float] = field(default_factory=dict)  # in this step
    seen: set[Reply] = field(default_factory=set)  # scored or turned down
    # of each place: token -> value of the best reply that had it there
    best_with: list[dict[int, float]] = field(default_factory=list)
    evaluations: int = 0
    improvements: list[tuple[int, float]] = field(default_factory=list)

    def note(self, replies: list[Reply], values: Iterable[float]) -> None:
        """Record the values of these replies."""
        self.evaluations += len(replies)
        self.best_with = self.best_with or [{} for _ in self.reply]
        for reply, value in zip(replies, values, strict=True):
            self.scored[reply] = value
            self.seen.add(reply)
            for token, best_with in zip(reply, self.best_with, strict=True):
                best_with[token] = max(value, best_with.get(token, -np.inf))
        best = max(replies, key=self.scored.__getitem__, default=self.best[0])
        # scored again, the best reply may rise by rounding
        if best != self.best[0] and self.scored[best] > self.best[1]:
            self.best = (best, self.scored[best])
            self.improvements.append((self.evaluations, self.best[1]))

    def move(self, afresh: bool = False) -> None:
        """Go to the best reply of this step, even from a better one. Without any, the search
        ends.
        """
        self.ended = not self.scored
        if self.ended:
            return
        self.reply = max(self.scored, key=self.scored.__getitem__)
        self.value = self.scored[self.reply]
        is_new = afresh or self.value > self.reached
        self.stale = 0 if is_new else self.stale + 1
        self.reached = self.value if is_new else self.reached
        self.steps += not afresh
        self.scored = {}


def take(
    objective: Objective, run: Run, proposed: Iterator[Reply], n: int
) -> list[Reply]:
    """Return the first n of the proposed replies that are admitted, none that was seen. They are
    seen from then on.
    """
    taken: list[Reply] = []
    proposed = islice(proposed, LOOKED_AT)
    new = (reply for reply in proposed if reply not in run.seen)
    while len(taken) < n and (some := list(dict.fromkeys(islice(new, 4 * n)))):
        for reply, admitted in zip(some, objective.admits(some), strict=True):
            if not admitted or len(taken) < n:
                run.seen.add(reply)
                taken += [reply] * bool(admitted)
    return taken


def swaps(
    objective: Objective, reply: Reply, places: ndarray, columns: ndarray
) -> Iterator[Reply]:
    """Yield the reply with one token swapped: at each place in turn, for the allowed token of that
    column.
    """
    for place, token in zip(places, objective.allowed[columns].tolist(), strict=True):
        if reply[place] != token:
            yield (*reply[:place], token, *reply[place + 1 :])


def lowest(losses: ndarray, most: int) -> ndarray:
    """Return the columns of the `most` lowest losses of each row, lowest first."""
    most = min(most, losses.shape[-1])
    return torch.from_numpy(losses).topk(most, largest=False).indices.numpy()


def gcg(objective: Objective, run: Run, settings: Settings) -> list[Reply]:
    """Return random members of the top_k swaps of random places, as published GCG."""
    top_k = min(settings.top_k, len(objective.allowed))
    promising = lowest(-run.gains, top_k)  # (n, top_k)
    replies = np.tile(run.reply, (settings.width, 1))
    for _ in range(DRAWS):
        places = run.rng.choice(len(run.reply), size=settings.width)
        columns = promising[places, run.rng.integers([top_k] * settings.width)]
        drawn = replies.copy()
        drawn[np.arange(settings.width), places] = objective.allowed[columns]
        drawn = drawn[objective.admits(drawn)]
        if len(drawn):
            break
    return [*map(tuple, drawn.tolist())]


def faster_gcg(
    objective: Objective, run: Run, settings: Settings, wrong_sign: bool = False
) -> list[Reply]:
    """Return the best unseen swaps of all places together, as Faster-GCG in the paper's code.

    Swaps are ordered by the gradient of (r - t)^2 plus 4.5 times the distance. Here t is 30 for
    optimal replies and -30 for pessimal ones, or 30 for both with the code's `wrong_sign`. The
    gradient is not centred by the current token.
    """
    target = TARGET if wrong_sign else TARGET * objective.sign
    # of (r - t)^2 by the value
    slope = 2 * (objective.sign * run.value - target) * objective.sign
    losses = slope * run.gains + WEIGHT * objective.distances(run.reply)
    order = lowest(losses.reshape(-1), LOOKED_AT)
    places, columns = np.unravel_index(order, losses.shape)
    proposed = swaps(objective, run.reply, places, columns)
    return take(objective, run, proposed, settings.width)


def promising_swaps(objective: Objective, run: Run, settings: Settings) -> list[Reply]:
    """Return three quarters of our step: the best unseen swaps of every place in turn.

    Far swaps are predicted worst, so the distance counts against a short reply's gain. After a step
    without a new best, and soon if the reply is long, swaps are drawn from the best of each place:
    the next ones in turn resemble those that have just failed.
    """
    n = len(run.reply)
    losses = -run.gains
    if n < LONG:
        distances = objective.distances(run.reply)
        scale = run.gains.std() / max(distances.std(), 1e-12)
        losses = losses + settings.distance_weight * scale * distances
    columns = lowest(losses, -(-LOOKED_AT // n))  # (n, looked at)
    order = np.arange(columns.size)  # the best of every place first, then the second
    if run.stale or n >= LONG and run.steps >= GREEDY:
        tried = n * (TRIED_OF_LONG if n >= LONG else TRIED)
        order = np.concatenate([run.rng.permutation(order[:tried]), order[tried:]])
    proposed = swaps(objective, run.reply, order % n, columns.T.ravel()[order])
    return take(objective, run, proposed, settings.width - settings.width // 4)


def combinations(objective: Objective, run: Run, settings: Settings) -> list[Reply]:
    """Return the last quarter of our step: its best swaps of different places together, and then
    the best tokens so far of all places.
    """
    best = [
        nlargest(COMBINED, tokens, key=tokens.__getitem__) for tokens in run.best_with
    ]
    proposed = chain(_merged(run), product(*best))
    return take(objective, run, proposed, settings.width // 4)


def _merged(run: Run) -> Iterator[Reply]:
    """Yield the best swaps of this step in different places, merged one after another."""
    merged = list(run.reply)
    changed: set[int] = set()
    for swap in sorted(run.scored, key=run.scored.__getitem__, reverse=True):
        [place] = [i for i, token in enumerate(swap) if token != run.reply[i]]
        if place not in changed:
            changed.add(place)
            merged[place] = swap[place]
            if len(changed) > 1:
                yield tuple(merged)


def afresh(objective: Objective, run: Run) -> list[Reply]:
    """Return a random reply, or if long, the best one with one or two tokens drawn anew."""
    if len(run.reply) < LONG:
        return take(objective, run, _drawn(objective, run, 8), 1)
    return take(objective, run, (_altered(objective, run) for _ in range(LOOKED_AT)), 1)


def _altered(objective: Objective, run: Run) -> Reply:
    altered = list(run.best[0])
    size = run.rng.integers(1, 3)
    for place in run.rng.choice(len(altered), size=size, replace=False):
        altered[place] = int(run.rng.choice(objective.allowed))
    return tuple(altered)


def _drawn(objective: Objective, run: Run, together: int) -> Iterator[Reply]:
    """Yield random replies, a limited number, as few may be left to find."""
    for _ in range(100):
        yield from objective.draw(len(run.reply), run.rng, together)


def random_replies(objective: Objective, run: Run, settings: Settings) -> list[Reply]:
    """Return random replies, none twice."""
    proposed = _drawn(objective, run, settings.width)
    return take(objective, run, proposed, settings.width)


@dataclass(frozen=True)
class Method:
    """The parts of a step, one scored after the other, and what else they need."""

    parts: tuple[Callable[[Objective, Run, Settings], list[Reply]], ...]
    gains: bool = True
    centred: bool = True  # the gains
    restarts: bool = False


METHODS = {
    "ours": Method((promising_swaps, combinations), restarts=True),
    "Faster-GCG": Method((faster_gcg,), centred=False),
    "Faster-GCG, wrong sign": Method(
        (partial(faster_gcg, wrong_sign=True),), centred=False
    ),
    "GCG": Method((gcg,)),
    "random": Method((random_replies,), gains=False),
}
