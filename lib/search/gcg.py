"""Methods of search for the reply of n tokens that a reward model rewards most, or least (section
5).

A method is a generator. It yields replies to score and is sent their values, or yields Gains and is
sent these. It maximises the values of an Objective.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from heapq import nlargest
from itertools import chain, count, product
from operator import itemgetter

import numpy as np
import torch
from numpy import ndarray

from .objective import MOST_DRAWS, Objective, Reply, as_reply

# tokens from which swaps are drawn soon, and the best reply is altered when the search stalls
LONG = 8
# best swaps of a place that are put in order at once; hardly a step needs the others
LOOKED_AT = 512
TRIED, TRIED_OF_LONG = 64, 16  # best swaps of each place that ours draws from
# steps of a long reply that take the best swaps of each place, before they are drawn
GREEDY = 2
DRAWS = 10  # of a step's swaps, until one satisfies the conditions
# tokens of each position of a short reply that are combined, the best so far
COMBINED = 6


@dataclass(frozen=True)
class Gains:
    """A method's request for the gains of all swaps of a reply, (n, allowed): see
    Objective.gains.
    """

    reply: Reply
    centred: bool = True


# Yields (replies, n) ids and is sent (replies,) values, or yields Gains and is sent (n, allowed)
Proposals = Generator[ndarray | Gains, ndarray, None]


@dataclass(frozen=True)
class Settings:
    """How to search."""

    method: str = "round robin"  # a key of METHODS
    budget: int = 4096  # replies scored at most, the start and duplicates included
    width: int = 32  # replies per step
    top_k: int = 256  # GCG draws from so many best swaps per position
    # of a swap's distance against its gain; 1 gives both the same spread. Short replies
    distance_weight: float = 0.5
    patience: int = 6  # steps without a new best before a restart
    # share of the earlier steps in a step's gains; ours alone, until a restart
    momentum: float = 0.0
    seed: int = 0


def send(method: Proposals, answer: ndarray) -> ndarray | Gains | None:
    """Return what the method asks for after it is sent this answer; None if it asks for nothing
    more.
    """
    try:
        return method.send(answer)
    except StopIteration:
        return None


def proposed_replies(
    method: Proposals,
    objective: Objective,
) -> Generator[ndarray, ndarray, None]:
    """Yield what the method proposes, and be sent the values. The objective answers its requests
    for gains.
    """
    asked = next(method, None)
    while asked is not None:
        if isinstance(asked, Gains):
            answer = objective.gains(asked.reply, asked.centred)
        else:
            answer = yield asked
        asked = send(method, answer)


def gcg(
    objective: Objective,
    start: Reply,
    value: float,
    settings: Settings,
    rng: np.random.Generator,
) -> Proposals:
    """Propose as published GCG does: random members of the top_k swaps of random positions. Move
    to the best one.
    """
    reply = start
    width = settings.width
    while True:
        gains = yield Gains(reply)  # (n, allowed)
        best = np.argsort(-gains, axis=1)
        possible = np.isfinite(gains).sum(axis=1)  # (n,)
        top_k = np.minimum(settings.top_k, possible)
        if not top_k.any():
            return
        for _ in range(DRAWS):
            positions = rng.choice(np.flatnonzero(top_k), size=width)
            columns = rng.integers(top_k[positions])
            tokens = objective.allowed[best[positions, columns]]
            replies = np.tile(reply, (width, 1))
            replies[np.arange(width), positions] = tokens
            replies = replies[objective.satisfied(replies)]
            if len(replies):
                break
        else:
            return
        values = yield replies
        reply, _ = best_of(replies, values)


def best_of(replies: ndarray, values: ndarray) -> tuple[Reply, float]:
    """Return the reply of the largest value, and this value."""
    best = values.argmax()
    return as_reply(replies[best]), float(values[best])


def faster_gcg(
    objective: Objective,
    start: Reply,
    value: float,
    settings: Settings,
    rng: np.random.Generator,
    wrong_sign: bool = False,
) -> Proposals:
    """Propose as Faster-GCG in the paper's published code: the best unvisited swaps. Move to the
    best one.

    Swaps are ordered by the gradient of (r - t)^2 plus 4.5 times the distance. Here t is 30 for
    optimal replies and -30 for pessimal ones, or 30 for both with the code's `wrong_sign`. The
    gradient is not centred by the current token.
    """
    reply = start
    seen = {start}
    target = 30.0 if wrong_sign else 30.0 * objective.sign
    while True:
        # of (r - t)^2 by the value
        slope = 2 * (objective.sign * value - target) * objective.sign
        gains = yield Gains(reply, centred=False)
        loss = slope * gains + 4.5 * objective.distances(reply)
        proposed = _swaps_by_loss(objective, reply, loss)
        replies = objective.take(proposed, seen, settings.width)
        if not len(replies):
            return
        values = yield replies
        reply, value = best_of(replies, values)


def _swaps_by_loss(
    objective: Objective,
    reply: Reply,
    loss: ndarray,
) -> Iterator[Reply]:
    """Yield all swaps of the reply, the lowest loss first. loss: (n, allowed)."""
    for (order,) in _lowest_first(loss.reshape(1, -1)):
        positions, columns = np.unravel_index(order, loss.shape)
        yield from _swaps(objective, reply, positions, columns)


def _swaps(
    objective: Objective,
    reply: Reply,
    positions: ndarray,
    columns: ndarray,
) -> Iterator[Reply]:
    """Yield the reply with one token swapped: at each position in turn, for the allowed token of
    that column.
    """
    may = objective.may_swap(reply)
    allowed = objective.allowed
    for position, column in zip(positions, columns, strict=True):
        if may[position, column]:
            token = int(allowed[column])
            yield (*reply[:position], token, *reply[position + 1 :])


def _lowest(losses: ndarray, most: int) -> ndarray:
    """Return the columns of the `most` lowest losses of each row, lowest first; much faster than
    sorting all.
    """
    if most >= losses.shape[1]:
        return np.argsort(losses, axis=1, kind="stable")
    lowest = torch.topk(torch.from_numpy(losses), most, dim=1, largest=False)
    return lowest.indices.numpy()


def _lowest_first(losses: ndarray) -> Iterator[ndarray]:
    """Yield the columns of each row, lowest loss first, in two parts; the second is ordered only
    if it is asked for.
    """
    first = _lowest(losses, LOOKED_AT)
    yield first
    if losses.shape[1] > LOOKED_AT:
        rest = losses.copy()
        # so that they come first again, and are left out
        np.put_along_axis(rest, first, -np.inf, axis=1)
        yield _lowest(rest, rest.shape[1])[:, LOOKED_AT:]


class TokensSoFar:
    """The tokens that were scored at every position, each with the value of the best reply that
    had it there.
    """

    def __init__(self, start: Reply, value: float):
        # one dictionary for every position
        self.best_with = [{token: value} for token in start]

    def note(self, replies: ndarray, values: ndarray) -> None:
        """Record the values of these replies."""
        valued = zip(replies.tolist(), values.tolist(), strict=True)
        for reply, value in valued:
            for token, best_with in zip(reply, self.best_with, strict=True):
                before = best_with.get(token, -np.inf)
                best_with[token] = max(value, before)

    def combinations(self) -> Iterator[Reply]:
        """Yield every reply made of the COMBINED best tokens of each position; the last position
        changes fastest.
        """
        best = []
        for best_with in self.best_with:
            best.append(nlargest(COMBINED, best_with, key=best_with.__getitem__))
        return product(*best)


def round_robin(
    objective: Objective,
    start: Reply,
    value: float,
    settings: Settings,
    rng: np.random.Generator,
) -> Proposals:
    """Propose by our method: the best unvisited swaps of each position in turn, with restarts.

    After a step without a new best, swaps are drawn at random from each position's TRIED best, as
    the next ones in turn resemble those that have just failed. A quarter of a step's replies
    combine what scored well. No reply is scored twice. After `patience` steps without a new best, a
    short reply starts over from a random one. A reply of LONG tokens or more draws all swaps after
    GREEDY steps, and starts over from the best so far with one or two new tokens. With momentum,
    the gains of a step are averaged with those of the steps before it (as in MAC; Zhang and Wei
    2024).
    """
    reply = start
    seen = {start}
    best = (start, value)
    highest = value  # since the last start
    stale = 0
    averaged = None  # gains of the steps since the last start, (n, allowed)
    tokens = TokensSoFar(start, value)
    for step in count():
        gains = yield Gains(reply)
        if averaged is not None:
            earlier = settings.momentum * averaged
            gains = earlier + (1 - settings.momentum) * gains
        averaged = gains
        is_random = stale or len(start) >= LONG and step >= GREEDY
        proposed = _promising(
            objective,
            reply,
            gains,
            settings,
            rng if is_random else None,
        )
        replies, values = yield from _step(
            objective,
            reply,
            proposed,
            seen,
            tokens,
            settings,
        )
        if len(replies):
            reply, value = best_of(replies, values)
            best = max(best, (reply, value), key=itemgetter(1))
            stale = 0 if value > highest else stale + 1
            highest = max(value, highest)
            if stale < settings.patience:
                continue
        fresh = objective.take(_afresh(objective, best[0], rng), seen, 1)
        if not len(fresh):
            return
        values = yield fresh
        reply, value = best_of(fresh, values)
        best = max(best, (reply, value), key=itemgetter(1))
        highest = value
        stale = 0
        averaged = None


def _step(
    objective: Objective,
    reply: Reply,
    proposed: Iterator[Reply],
    seen: set[Reply],
    tokens: TokensSoFar,
    settings: Settings,
) -> Generator[ndarray, ndarray, tuple[ndarray, ndarray]]:
    """Propose swaps of the reply, then combinations; return them all and their values, none if
    no swap is left.
    """
    combined = settings.width // 4
    replies = objective.take(proposed, seen, settings.width - combined)
    if not len(replies):
        return replies, np.array([])
    values = yield replies
    tokens.note(replies, values)
    candidates = chain(_merged(reply, replies, values), tokens.combinations())
    mixed = objective.take(candidates, seen, combined)
    if not len(mixed):
        return replies, values
    values_of_mixed = yield mixed
    tokens.note(mixed, values_of_mixed)
    replies = np.concatenate([replies, mixed])
    return replies, np.append(values, values_of_mixed)


def _promising(
    objective: Objective,
    reply: Reply,
    gains: ndarray,
    settings: Settings,
    rng: np.random.Generator | None,
) -> Iterator[Reply]:
    """Yield swaps of the reply: the best of every position, then the second best of every position,
    and so on.

    gains: of every swap, (n, allowed). Far swaps are predicted worst, so the distance, in the
    gains' spread, counts against a gain. If `rng` is given, some of the best of every position come
    first, in random order.
    """
    is_long = len(reply) >= LONG
    losses = -gains
    if not is_long:
        distances = objective.distances(reply)
        scale = gains.std() / max(distances.std(), 1e-12)
        scaled = scale * distances
        losses = settings.distance_weight * scaled - gains
    if rng is not None:
        tried = _lowest(losses, TRIED_OF_LONG if is_long else TRIED)
        order = rng.permutation(tried.size)
        positions = order // tried.shape[1]
        yield from _swaps(objective, reply, positions, tried.ravel()[order])
    for order in _lowest_first(losses):
        # every position in turn
        every_position = np.arange(len(reply))
        positions = np.tile(every_position, order.shape[1])
        yield from _swaps(objective, reply, positions, order.T.ravel())


def _merged(reply: Reply, replies: ndarray, values: ndarray) -> Iterator[Reply]:
    """Yield the best swaps of a step at different positions, merged one after another."""
    merged = np.array(reply)
    changed = set()
    for swap in replies[np.argsort(-values, kind="stable")]:
        position = int(np.flatnonzero(swap != reply)[0])
        if position not in changed:
            changed.add(position)
            merged[position] = swap[position]
            if len(changed) > 1:
                yield as_reply(merged)


def _afresh(
    objective: Objective,
    best: Reply,
    rng: np.random.Generator,
) -> Iterator[Reply]:
    """Yield random replies, or if long, the best reply with one or two tokens drawn anew."""
    if len(best) < LONG:
        yield from objective.draws(len(best), rng)
        return
    for _ in range(MOST_DRAWS):
        altered = np.array(best)
        size = rng.integers(1, 3)
        positions = rng.choice(len(best), size=size, replace=False)
        altered[positions] = rng.choice(objective.allowed, size=size)
        yield as_reply(altered)


def random_search(
    objective: Objective,
    start: Reply,
    value: float,
    settings: Settings,
    rng: np.random.Generator,
) -> Proposals:
    """Propose replies drawn at random from all that are allowed, none twice."""
    seen = {start}
    while True:
        drawn = objective.draws(len(start), rng)
        replies = objective.take(drawn, seen, settings.width)
        if not len(replies):
            return
        yield replies


def sweeps(
    objective: Objective,
    start: Reply,
    value: float,
    settings: Settings,
    rng: np.random.Generator,
) -> Proposals:
    """Propose every swap of one position after another, on to the best; a random reply when none
    improves.
    """
    reply = start
    unimproved = 0
    position = 0
    while True:
        replies = objective.all_swaps(reply, position)
        values = yield replies
        position = (position + 1) % len(reply)
        unimproved += 1
        if len(values) and values.max() > value:
            reply, value = best_of(replies, values)
            unimproved = 0
        if unimproved == len(reply):
            draws = objective.draws(len(start), rng)
            fresh = objective.take(draws, set(), 1)
            if not len(fresh):
                return
            values = yield fresh
            reply, value = best_of(fresh, values)
            unimproved = 0


METHODS: dict[str, Callable[..., Proposals]] = {
    "round robin": round_robin,
    "Faster-GCG": faster_gcg,
    "Faster-GCG, wrong sign": partial(faster_gcg, wrong_sign=True),
    "GCG": gcg,
    "sweeps": sweeps,
    "random": random_search,
}
