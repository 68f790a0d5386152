"""A certificate that nothing near a reply is better: no swap of one token, and in a short reply of no two.

Where the best of all replies is not known, this is what can be known: every swap is scored, and if one is better the
search goes on from there. The budget of a search does not count for it.
"""

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from lib.search.objective import Objective, Reply, as_reply

BEST_OF_PLACE = 32  # tokens of each place, the best there with the rest as it is, that pairs are made of
PAIRS_UP_TO = 5  # tokens of a reply whose pairs are swapped


@dataclass(frozen=True)
class Certificate:
    """The reply that a climb over swaps ends at, its reward, and how many replies were scored on the way.

    moves: how many swaps improved on the reply it began with; 0 says that this one was already the best of its
    neighbours. pairs: whether swaps of two tokens were tried, of each place's BEST_OF_PLACE tokens.
    """

    ids: Reply
    reward: float
    moves: int
    scored: int
    pairs: bool


def certify(objective: Objective, reply: Reply) -> Certificate:
    """The certificate of a reply, or of the better one that swaps lead to. The objective's conditions hold throughout.

    Every swap of one token is scored, on to the best while it improves; then, in a reply of at most PAIRS_UP_TO tokens,
    every pair of the tokens that did best at two places, and from one that is better all begins again.
    """
    value, moves, scored = float(objective.values(np.array([reply]))[0]), 0, 1
    pairs = 1 < len(reply) <= PAIRS_UP_TO
    while True:
        replies = np.concatenate([objective.all_swaps(reply, place) for place in range(len(reply))])
        values = objective.values(replies)
        scored += len(replies)
        if pairs and not (values > value).any():
            replies = _pairs(objective, reply, replies, values)
            values = objective.values(replies) if len(replies) else np.array([])
            scored += len(replies)
        if not (values > value).any():
            return Certificate(reply, objective.sign * value, moves, scored, pairs)
        reply, value, moves = as_reply(replies[values.argmax()]), float(values.max()), moves + 1


def _pairs(objective: Objective, reply: Reply, swaps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The reply with two tokens swapped, (pairs, n) ids, if they satisfy the conditions.

    swaps, values: every swap of one token and what it is worth.
    """
    best = []
    for place, token in enumerate(reply):
        here = swaps[:, place] != token
        best.append(swaps[here][np.argsort(-values[here], kind="stable")[:BEST_OF_PLACE], place])
    replies = []
    for first, second in combinations(range(len(reply)), 2):
        tokens = np.array(list(product(best[first], best[second])), dtype=np.int64).reshape(-1, 2)
        swapped = np.tile(np.array(reply), (len(tokens), 1))
        swapped[:, [first, second]] = tokens
        replies.append(swapped)
    together = np.concatenate(replies)
    return together[objective.satisfied(together)]
