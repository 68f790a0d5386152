"""Searches without a model, where a reply is worth the sum of its tokens' numbers, so that first
order is exact.
"""

import numpy as np
import pytest
import torch

from lib import InputError
from lib.search import gcg
from lib.search.gcg import METHODS, Settings
from lib.search.objective import DIRECTIONS, Objective

WORTH = torch.tensor([0.0, 3.0, -1.0, 2.0, -4.0, 1.0])  # of tokens 0 to 5


class Sum(Objective):
    """An objective whose reward is the sum of WORTH over the reply; the number is the embedding,
    so the slope is 1.
    """

    def __init__(self, direction, worth=WORTH):
        self.worth, self.direction, self.sign = worth, direction, DIRECTIONS[direction]
        self.allowed, self.closing = np.arange(len(worth)), np.zeros(0, dtype=np.int64)
        self.conditions, self.reply_mode, self.gradients = [], "ids", 0
        self.embeddings, self.distance_to, self.scorer = (
            worth[:, None],
            self._distance_to,
            self,
        )

    def __call__(self, ids):
        return self.worth[torch.as_tensor(ids)].sum(1).numpy()

    def gradient(self, ids):
        return torch.ones(len(ids), 1)

    def _embed(self, ids):
        return self.worth[ids][:, None]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_gains_are_the_true_changes_in_either_direction(direction):
    objective, reply = Sum(direction), (1, 4)
    # (places, allowed, n)
    swaps = [[[token, 4] for token in range(6)], [[1, token] for token in range(6)]]
    before = objective.values(np.array([reply]))[0]
    assert before == {"optimal": -1, "pessimal": 1}[direction]  # 3 - 4
    true = np.array([objective.values(np.array(place)) for place in swaps]) - before
    assert objective.gains(reply).tolist() == true.tolist()
    # the same for all swaps of a place
    shift = objective.gains(reply, centred=False) - true
    assert (
        shift.tolist() == (objective.sign * np.array([[3.0] * 6, [-4.0] * 6])).tolist()
    )


@pytest.mark.parametrize(
    "method", [name for name in METHODS if name not in ("random", "GCG", "sweeps")]
)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_first_swaps_go_to_the_end_that_is_asked_for_but_with_the_wrong_sign(
    direction, method
):
    settings, rng = Settings(width=2, distance_weight=0), np.random.default_rng(0)
    objective = Sum(direction)
    proposals = gcg.proposed_replies(
        METHODS[method](objective, (0, 0), 0.0, settings, rng), objective
    )
    # worth 3, and -4
    best = 1 if direction == "optimal" or method == "Faster-GCG, wrong sign" else 4
    assert sorted(map(tuple, next(proposals).tolist())) == [(0, best), (best, 0)]


def test_gcg_draws_from_the_best_swaps_of_each_place():
    objective, settings = Sum("pessimal"), Settings(width=40, top_k=2)
    method = gcg.gcg(objective, (0, 0), 0.0, settings, np.random.default_rng(0))
    proposals = gcg.proposed_replies(method, objective)
    # worth -4 and -1
    assert {*map(tuple, next(proposals).tolist())} == {(0, 4), (4, 0), (0, 2), (2, 0)}


def test_rewards_that_are_not_finite_name_the_reply():
    with pytest.raises(
        InputError,
        match=r"the reply \[1, 2\] is not finite; load the model with dtype='float32'",
    ):
        Sum("optimal", torch.tensor([0.0, 1.0, torch.nan])).values(
            np.array([[0, 1], [1, 2]])
        )
