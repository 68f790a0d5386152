"""What a search costs, whatever its method, and a certificate that nothing near the best reply
found is better.

The cost is the number of tokens that the model reads, and so of floating-point operations. A search
by replies scored alone would take gradients for free. Here one costs three forward passes of its
tokens, as a backward pass is twice a forward one (Kaplan et al. 2020), and each method gets as many
operations as every other.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
import torch

from lib.search.gcg import Proposals, Settings, proposed_replies, send
from lib.search.objective import Objective, Reply, as_reply

GRADIENT = 3  # forward passes of the same tokens
# tokens of each place, the best there with the rest as it is, that pairs are made of
BEST_OF_PLACE = 32
PAIRS_UP_TO = 5  # tokens of a reply whose pairs are swapped
Method = Callable[..., Proposals]


class Metered(Objective):
    """An objective that counts what a search asks of it.

    scored: replies of any length, duplicates too. read: tokens of replies and closings that the
    model read forward, a gradient counted as GRADIENT times its tokens. Left out are the prompt,
    which is read once whatever the method, and the product of gradients or mixtures with the
    embeddings, which every method with gradients has.
    """

    scored = 0
    read = 0

    def values(self, replies: np.ndarray) -> np.ndarray:
        """Return what Objective returns, and count it."""
        self.scored += len(replies)
        self.read += len(replies) * self.tokens_of(replies.shape[1])
        return super().values(replies)

    def gains(self, reply: Reply, centred: bool = True) -> np.ndarray:
        """Return what Objective returns, and count it."""
        self.read += GRADIENT * self.tokens_of(len(reply))
        return super().gains(reply, centred)

    def relaxed(self, mixtures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The values of replies whose tokens are mixtures, (replies,), and their gradient,
        (replies, n, allowed).

        mixtures: (replies, n, allowed), weights of the allowed tokens' embeddings; each counts as
        one gradient.
        """
        count, n, _ = mixtures.shape
        self.read += GRADIENT * count * self.tokens_of(n)
        self.gradients += count
        ids = torch.from_numpy(self.allowed)[mixtures.argmax(2).cpu()]  # (replies, n)
        closing = torch.from_numpy(self.closing).expand(count, -1)
        table = self.embeddings.float()
        embeddings = torch.cat(
            [
                mixtures @ table,
                self._embed(self.closing.tolist()).float().expand(count, -1, -1),
            ],
            1,
        )
        whole = torch.cat([ids, closing], dim=1).to(self.model.device)
        rewards, gradient = self.scorer.relaxed(
            embeddings.to(self.embeddings.dtype), whole
        )
        return self.sign * rewards, self.sign * gradient[:, :n] @ table.T

    def tokens_of(self, length: int) -> int:
        """Return how many tokens the model reads for one reply of this length."""
        return length + len(self.closing)


@dataclass(frozen=True)
class Run:
    """What a search found and spent: the best reply of the start's length, its reward, and when
    there was a new best.

    trace: (replies scored, tokens read, reward) of every new best, the start the first. scored,
    read: in all.
    """

    ids: Reply
    reward: float
    scored: int
    read: int
    trace: tuple[tuple[int, int, float], ...]

    def best_within(self, budget: float, of: str) -> float:
        """The best reward after a budget: of replies "scored", or of tokens "read"; NaN before
        the start was scored.
        """
        rewards = [
            reward
            for scored, read, reward in self.trace
            if (scored if of == "scored" else read) <= budget
        ]
        return rewards[-1] if rewards else np.nan


def run(
    objective: Metered, method: Method, start: Reply, settings: Settings, budget: int
) -> Run:
    """Return the result of a search from `start` until the model has read `budget` tokens, or it
    proposes nothing more.

    The step that spends the last of the budget is finished. settings: its own budget is not used.
    """
    objective.scored = objective.read = 0
    settings = replace(
        settings, budget=max(1, budget // objective.tokens_of(len(start)))
    )
    best = float(objective.values(np.array([start]))[0])
    ids, trace = start, [(objective.scored, objective.read, objective.sign * best)]
    proposals = proposed_replies(
        method(objective, start, best, settings, np.random.default_rng(settings.seed)),
        objective,
    )
    replies = next(proposals, None)
    while replies is not None and objective.read < budget:
        before = objective.scored, objective.read
        values = objective.values(replies) if len(replies) else np.array([])
        for at in _new_bests(values, best):
            ids, best = as_reply(replies[at]), float(values[at])
            spent = (
                before[0] + at + 1,
                before[1] + (at + 1) * objective.tokens_of(len(start)),
            )
            trace.append((*spent, objective.sign * best))
        replies = send(proposals, values)
    return Run(
        ids, objective.sign * best, objective.scored, objective.read, tuple(trace)
    )


def _new_bests(values: np.ndarray, best: float) -> list[int]:
    """Return where values, in order, exceed all before them and `best`."""
    highest = np.maximum.accumulate(np.append(best, values))
    return np.flatnonzero(highest[1:] > highest[:-1]).tolist()


# --- certificates ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Certificate:
    """The reply that a climb over swaps ends at, its reward, and how many replies were scored on
    the way.

    moves: how many swaps improved on the reply it began with; 0 says that this one was already the
    best of its neighbours. pairs: whether swaps of two tokens were tried, of each place's
    BEST_OF_PLACE tokens.
    """

    ids: Reply
    reward: float
    moves: int
    scored: int
    pairs: bool


def certify(objective: Objective, reply: Reply) -> Certificate:
    """The certificate of a reply, or of the better one that swaps lead to. The objective's
    conditions hold throughout.

    Every swap of one token is scored, on to the best while it improves; then, in a reply of at most
    PAIRS_UP_TO tokens, every pair of the tokens that did best at two places, and from one that is
    better all begins again.
    """
    value, moves, scored = float(objective.values(np.array([reply]))[0]), 0, 1
    pairs = 1 < len(reply) <= PAIRS_UP_TO
    while True:
        replies = np.concatenate(
            [objective.all_swaps(reply, place) for place in range(len(reply))]
        )
        values = objective.values(replies)
        scored += len(replies)
        if pairs and not (values > value).any():
            replies = _pairs(objective, reply, replies, values)
            values = objective.values(replies) if len(replies) else np.array([])
            scored += len(replies)
        if not (values > value).any():
            return Certificate(reply, objective.sign * value, moves, scored, pairs)
        reply, value, moves = (
            as_reply(replies[values.argmax()]),
            float(values.max()),
            moves + 1,
        )


def _pairs(
    objective: Objective, reply: Reply, swaps: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Return the reply with two tokens swapped, (pairs, n) ids, if they satisfy the conditions.

    swaps, values: every swap of one token and what it is worth.
    """
    best = []
    for place, token in enumerate(reply):
        here = swaps[:, place] != token
        best.append(
            swaps[here][np.argsort(-values[here], kind="stable")[:BEST_OF_PLACE], place]
        )
    replies = []
    for first, second in combinations(range(len(reply)), 2):
        tokens = np.array(
            list(product(best[first], best[second])), dtype=np.int64
        ).reshape(-1, 2)
        swapped = np.tile(np.array(reply), (len(tokens), 1))
        swapped[:, [first, second]] = tokens
        replies.append(swapped)
    together = np.concatenate(replies)
    return together[objective.satisfied(together)]
