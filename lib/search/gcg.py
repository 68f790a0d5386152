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
Proposals = Generator[np.ndarray | Gains, np.ndarray, None]


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


def send(method: Proposals, answer: np.ndarray) -> np.ndarray | Gains | None:
    """Return what the method asks for after it is sent this answer; None if it asks for nothing
    more.
    """
    try:
        return method.send(answer)
    except StopIteration:
        return None


def proposed_replies(
    method: Proposals, objective: Objective
) -> Generator[np.ndarray, np.ndarray, None]:
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
    while True:
        gains = yield Gains(reply)  # (n, allowed)
        if objective.fluency is not None:
            gains = np.where(objective.may_swap(reply), gains, -np.inf)
        best = np.argsort(-gains, axis=1)
        top_k = np.minimum(settings.top_k, np.isfinite(gains).sum(axis=1))
        if not top_k.any():
            return
        for _ in range(DRAWS):
            positions = rng.choice(np.flatnonzero(top_k), size=settings.width)
            chosen = best[positions, rng.integers(top_k[positions])]
            replies = np.tile(reply, (settings.width, 1))
            replies[np.arange(settings.width), positions] = objective.allowed[chosen]
            replies = replies[objective.satisfied(replies)]
            if len(replies):
                break
        else:
            return
        values = yield replies
        reply = as_reply(replies[values.argmax()])


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
    reply, seen = start, {start}
    target = 30.0 if wrong_sign else 30.0 * objective.sign
    while True:
        # of (r - t)^2 by the value
        slope = 2 * (objective.sign * value - target) * objective.sign
        gains = yield Gains(reply, centred=False)
        loss = slope * gains + 4.5 * objective.distances(reply)
        parts = (
            np.unravel_index(part[0], loss.shape)
            for part in _lowest_first(loss.reshape(1, -1))
        )
        proposed = chain.from_iterable(
            _swaps(objective, reply, *part) for part in parts
        )
        replies = objective.take(proposed, seen, settings.width)
        if not len(replies):
            return
        values = yield replies
        reply, value = as_reply(replies[values.argmax()]), float(values.max())


def _swaps(
    objective: Objective, reply: Reply, positions: np.ndarray, columns: np.ndarray
) -> Iterator[Reply]:
    """Yield the reply with one token swapped: at each position in turn, for the allowed token of
    that column.
    """
    may, allowed = objective.may_swap(reply), objective.allowed
    for position, column in zip(positions, columns, strict=True):
        if may[position, column]:
            yield (*reply[:position], int(allowed[column]), *reply[position + 1 :])


def _lowest(losses: np.ndarray, most: int) -> np.ndarray:
    """Return the columns of the `most` lowest losses of each row, lowest first; much faster than
    sorting all.
    """
    if most >= losses.shape[1]:
        return np.argsort(losses, axis=1, kind="stable")
    return torch.topk(
        torch.from_numpy(losses), most, dim=1, largest=False
    ).indices.numpy()


def _lowest_first(losses: np.ndarray) -> Iterator[np.ndarray]:
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

    def note(self, replies: np.ndarray, values: np.ndarray) -> None:
        """Record the values of these replies."""
        for reply, value in zip(replies.tolist(), values.tolist(), strict=True):
            for token, best_with in zip(reply, self.best_with, strict=True):
                best_with[token] = max(value, best_with.get(token, -np.inf))

    def combinations(self) -> Iterator[Reply]:
        """Yield every reply made of the COMBINED best tokens of each position; the last position
        changes fastest.
        """
        return product(
            *(
                nlargest(COMBINED, best_with, key=best_with.__getitem__)
                for best_with in self.best_with
            )
        )


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
    reply, seen = start, {start}
    best = (start, value)
    highest, stale = value, 0  # since the last start
    averaged = None  # gains of the steps since the last start, (n, allowed)
    tokens = TokensSoFar(start, value)
    for step in count():
        gains = yield Gains(reply)
        averaged = (
            gains
            if averaged is None
            else settings.momentum * averaged + (1 - settings.momentum) * gains
        )
        is_random = stale or len(start) >= LONG and step >= GREEDY
        proposed = _promising(
            objective, reply, averaged, settings, rng if is_random else None
        )
        replies, values = yield from _step(
            objective, reply, proposed, seen, tokens, settings
        )
        if len(replies):
            reply, value = as_reply(replies[values.argmax()]), float(values.max())
            highest, stale = (value, 0) if value > highest else (highest, stale + 1)
            best = max(best, (reply, value), key=itemgetter(1))
        if not len(replies) or stale >= settings.patience:
            fresh = objective.take(_afresh(objective, best[0], rng), seen, 1)
            if not len(fresh):
                return
            reply, value = as_reply(fresh[0]), float((yield fresh)[0])
            best = max(best, (reply, value), key=itemgetter(1))
            highest, stale = value, 0
            averaged = None


def _step(
    objective: Objective,
    reply: Reply,
    proposed: Iterator[Reply],
    seen: set[Reply],
    tokens: TokensSoFar,
    settings: Settings,
) -> Generator[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
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
    if not len(mixed := objective.take(candidates, seen, combined)):
        return replies, values
    values_of_mixed = yield mixed
    tokens.note(mixed, values_of_mixed)
    return np.concatenate([replies, mixed]), np.append(values, values_of_mixed)


def _promising(
    objective: Objective,
    reply: Reply,
    gains: np.ndarray,
    settings: Settings,
    rng: np.random.Generator | None,
) -> Iterator[Reply]:
    """Yield swaps of the reply: the best of every position, then the second best of every position,
    and so on.

    gains: of every swap, (n, allowed). Far swaps are predicted worst, so the distance, in the
    gains' spread, counts against a gain. If `rng` is given, some of the best of every position come
    first, in random order.
    """
    is_long, losses = len(reply) >= LONG, -gains
    if not is_long:
        distances = objective.distances(reply)
        scaled = gains.std() / max(distances.std(), 1e-12) * distances
        losses = settings.distance_weight * scaled - gains
    if rng is not None:
        tried = _lowest(losses, TRIED_OF_LONG if is_long else TRIED)
        order = rng.permutation(tried.size)
        yield from _swaps(
            objective, reply, order // tried.shape[1], tried.ravel()[order]
        )
    for order in _lowest_first(losses):
        yield from _swaps(
            objective,
            reply,
            np.tile(np.arange(len(reply)), order.shape[1]),
            order.T.ravel(),
        )


def _merged(reply: Reply, replies: np.ndarray, values: np.ndarray) -> Iterator[Reply]:
    """Yield the best swaps of a step at different positions, merged one after another."""
    merged, changed = np.array(reply), set()
    for swap in replies[np.argsort(-values, kind="stable")]:
        position = int(np.flatnonzero(swap != reply)[0])
        if position not in changed:
            changed.add(position)
            merged[position] = swap[position]
            if len(changed) > 1:
                yield as_reply(merged)


def _afresh(
    objective: Objective, best: Reply, rng: np.random.Generator
) -> Iterator[Reply]:
    """Yield random replies, or if long and not fluent, the best reply with one or two tokens
    drawn anew.
    """
    # mixing two fluent replies gives none
    if len(best) < LONG or objective.fluency is not None:
        yield from objective.draws(len(best), rng)
        return
    for _ in range(MOST_DRAWS):
        altered = np.array(best)
        positions = rng.choice(len(best), size=rng.integers(1, 3), replace=False)
        altered[positions] = rng.choice(objective.allowed, size=len(positions))
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
    while len(
        replies := objective.take(
            objective.draws(len(start), rng), seen, settings.width
        )
    ):
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
    unimproved, position = 0, 0
    while True:
        replies = objective.all_swaps(reply, position)
        values = yield replies
        improves = len(values) and values.max() > value
        if improves:
            reply, value = as_reply(replies[values.argmax()]), float(values.max())
        unimproved, position = (
            0 if improves else unimproved + 1,
            (position + 1) % len(reply),
        )
        if unimproved == len(reply):
            fresh = objective.take(objective.draws(len(start), rng), set(), 1)
            if not len(fresh):
                return
            reply, value = as_reply(fresh[0]), float((yield fresh)[0])
            unimproved = 0


METHODS: dict[str, Callable[..., Proposals]] = {
    "round robin": round_robin,
    "Faster-GCG": faster_gcg,
    "Faster-GCG, wrong sign": partial(faster_gcg, wrong_sign=True),
    "GCG": gcg,
    "sweeps": sweeps,
    "random": random_search,
}
