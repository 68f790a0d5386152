"""What each method proposes, where a reply is worth the sum of its tokens: first order is exact."""

import numpy as np
import pytest
import torch

from lib.search.gcg import METHODS, Run, Settings, combinations
from lib.search.objective import DIRECTIONS, Objective

WORTH = torch.tensor([0.0, 3.0, -1.0, 2.0, -4.0, 1.0])  # of tokens 0 to 5


class Sum(Objective):
    """An objective without a model. The worth of a token is its embedding, so each slope is 1."""

    def __init__(self, direction="optimal", worth=WORTH):
        self.sign, self.reply_mode = DIRECTIONS[direction], "ids"
        self.allowed, self.embeddings = np.arange(len(worth)), worth[:, None]

    def values(self, replies):
        return np.array([self.sign * float(self.embed(one).sum()) for one in replies])

    def embed(self, ids):
        return self.embeddings[list(ids)]


def run_of(objective, reply, centred=True, seed=0):
    """A search at its start, with the gains there."""
    run = Run(reply, np.random.default_rng(seed))
    run.note([reply], objective.values([reply]).tolist())
    run.move(afresh=True)
    here = objective.embed(reply) if centred else 0
    run.gains = (objective.sign * (objective.embeddings.T - here)).numpy()
    return run


def step_of(method, objective, run, **settings):
    """The replies of one step, each part noted before the next."""
    replies = []
    for part in METHODS[method].parts:
        some = part(objective, run, Settings(method, **settings))
        run.note(some, objective.values(some).tolist())
        replies += some
    return replies


@pytest.mark.parametrize("method", ["ours", "Faster-GCG", "Faster-GCG, wrong sign"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_first_swaps_go_where_they_are_asked_to_but_with_the_wrong_sign(
    direction, method
):
    objective = Sum(direction)
    run = run_of(objective, (0, 0), METHODS[method].centred)
    first = METHODS[method].parts[0](
        objective, run, Settings(width=2, distance_weight=0)
    )
    # worth 3, and -4
    best = 1 if direction == "optimal" or method == "Faster-GCG, wrong sign" else 4
    assert sorted(first) == [(0, best), (best, 0)]


def test_faster_gcg_orders_swaps_by_the_loss_of_the_published_code():
    objective, reply = Sum("pessimal", WORTH / 10), (1, 3)  # worth .3 and .2
    run = run_of(objective, reply, centred=False)
    # (r + 30)^2 has the slope 2 (.5 + 30) = 61 in every embedding; 4.5 for the distance
    losses = {
        (place, token): 61 * worth / 10 + 4.5 * abs(worth - old) / 10
        for place, old in enumerate([3, 2])
        for token, worth in enumerate(WORTH.tolist())
        if token != reply[place]
    }
    expected = [
        (token, 3) if place == 0 else (1, token)
        for place, token in sorted(losses, key=losses.get)
    ]
    assert step_of("Faster-GCG", objective, run, width=10) == expected
    assert not step_of("Faster-GCG", objective, run, width=10)  # nothing is left


def test_gcg_draws_from_the_best_swaps_of_each_place():
    objective = Sum("pessimal")
    replies = step_of("GCG", objective, run_of(objective, (0, 0)), width=40, top_k=2)
    assert len(replies) == 40  # with duplicates
    assert {*replies} == {(0, 4), (4, 0), (0, 2), (2, 0)}  # worth -4 and -1


def test_ours_takes_every_place_in_turn_and_then_joins_what_scored_well():
    objective = Sum()
    run = run_of(objective, (0, 0, 0))
    # 3 is the best worth and 2 the second: each place in turn
    swaps = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (3, 0, 0), (0, 3, 0), (0, 0, 3)]
    # the three best swaps of different places, one after another; then the best tokens so far
    joined = [(1, 1, 0), (1, 1, 1)]
    assert step_of("ours", objective, run, width=8) == swaps + joined
    run.move()
    assert (run.reply, run.value, run.stale) == ((1, 1, 1), 9, 0)
    run.gains = (objective.embeddings.T - objective.embed(run.reply)).numpy()
    [best, *_] = combinations(objective, run, Settings(width=4))
    assert best == (1, 1, 3)  # the best combination that was not scored
