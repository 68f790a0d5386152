"""Rivals of our search: what each finds and costs, and how methods are ranked at equal cost."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from scipy.optimize import minimize

from benchmarks.search import cost, standings
from benchmarks.search.cost import Metered, certify
from benchmarks.search.rivals import (
    acg,
    adc,
    beam,
    evolution,
    less_entropy,
    mac,
    onto_simplex,
    pgd,
)
from lib.apps.owner.opening import open_model as load
from lib.scoring import vocabulary
from lib.search.gcg import METHODS, Settings
from lib.search.objective import DIRECTIONS, allowed_ids

PROMPT = "What, in one word, is the greatest thing ever?"
RIVALS = {
    "ADC": adc,
    "PGD": pgd,
    "beam": beam,
    "MAC": mac,
    "ACG": acg,
    "evolution": evolution,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load(
        str(tiny.smooth_checkpoint(tmp_path_factory.mktemp("rivals"))), device="cpu"
    )


def objective_of(model, size=16, direction="optimal", reply_mode="ids"):
    ids = np.random.default_rng(0).choice(allowed_ids(model), size, replace=False)
    return Metered(model, PROMPT, direction, ids, reply_mode=reply_mode)


def every(objective, n):
    return np.array(list(product(objective.allowed.tolist(), repeat=n)))


# --- what they find -------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_rivals_find_the_best_of_all_pairs_more_often_than_chance(model, direction):
    objective = objective_of(model, direction=direction)
    best = objective.values(every(objective, 2)).max()  # of 256
    # a gradient and a score cost four replies: a relaxation scores 64 at most
    budget = 256 * objective.tokens_of(2)
    starts = np.random.default_rng(1).choice(objective.allowed, size=(6, 2)).tolist()

    def hits(method):
        runs = [
            cost.run(objective, method, tuple(start), Settings(seed=seed), budget)
            for seed, start in enumerate(starts)
        ]
        return sum(
            objective.sign * run.reward == pytest.approx(best, abs=1e-6) for run in runs
        )

    assert hits(adc) >= 4 and hits(beam) >= 4
    assert hits(mac) >= 4 and hits(acg) >= 4 and hits(evolution) >= 4
    # it scores some 27 replies, which by chance hold the best once in ten searches
    assert hits(pgd) >= 2
    with_a_quarter = [
        cost.run(
            objective, METHODS["random"], tuple(start), Settings(seed=seed), budget // 4
        ).reward
        for seed, start in enumerate(starts)
    ]
    # one in four by chance
    assert np.isclose(objective.sign * np.array(with_a_quarter), best).sum() <= 3


@pytest.mark.parametrize("method", RIVALS.values(), ids=RIVALS)
def test_the_reward_is_what_scoring_alone_gives(model, method):
    objective = objective_of(model, size=200, reply_mode="text")
    start = objective.draw(3, np.random.default_rng(0))
    run = cost.run(objective, method, start, Settings(), 3000)
    assert (
        run.ids != start
        and len(run.ids) == 3
        and set(run.ids) <= set(objective.allowed.tolist())
    )
    assert run.reward == pytest.approx(
        vocabulary.score_replies(model, PROMPT, [run.ids], reply_mode="ids")[0],
        abs=1e-5,
    )
    rewards = [reward for _, _, reward in run.trace]
    # each is a new best, the last the best
    assert rewards == sorted(set(rewards)) and rewards[-1] == run.reward
    assert objective.round_trip(np.array([run.ids]))[0]


def test_acg_swaps_half_of_the_tokens_at_first_and_one_at_the_end(model):
    objective = objective_of(model, size=100)
    start = tuple(objective.allowed[:8].tolist())
    method = acg(
        objective, start, 0.0, Settings(budget=200, width=10), np.random.default_rng(0)
    )
    asked, swapped = next(method), []
    for _ in range(12):
        replies = method.send(objective.gains(asked.reply))
        swapped.append(max((replies != np.array(asked.reply)).sum(1)))
        asked = method.send(objective.values(replies))
    assert swapped[0] == 4 and set(swapped[-2:]) == {1}  # after half of the budget
    assert (np.diff(swapped) <= 0).all()


# --- what they cost -------------------------------------------------------------------------------


class Listening(Metered):
    """Notes what the model is given, below what Metered counts."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.forward, self.backward, scorer = 0, 0, self.scorer
        score, relaxed = scorer.__call__, scorer.relaxed

        class Heard:
            inputs = scorer.inputs

            def __call__(heard, suffixes):
                self.forward += np.asarray(suffixes).size
                return score(suffixes)

            def relaxed(heard, embeddings, ids):
                self.backward += ids.numel()
                return relaxed(embeddings, ids)

            def gradient(heard, suffix):
                self.backward += len(suffix)
                return scorer.gradient(suffix)

        self.scorer = Heard()


@pytest.mark.parametrize("method", ["ADC", "beam", "GCG"])
def test_every_token_that_the_model_reads_is_counted_a_gradient_three_times(
    model, method
):
    ids = np.random.default_rng(0).choice(allowed_ids(model), 24, replace=False)
    objective = Listening(model, PROMPT, "optimal", ids, reply_mode="ids")
    searched = (RIVALS | METHODS)[method]
    run = cost.run(
        objective, searched, tuple(objective.allowed[:3].tolist()), Settings(), 1000
    )
    assert run.read == objective.forward + 3 * objective.backward
    assert run.read >= 1000 and run.scored == objective.scored
    assert (objective.backward > 0) == (method not in ("beam", "sweeps"))


def test_the_best_within_a_budget_counts_what_was_spent_when_it_was_scored():
    run = cost.Run((1, 2), 5.0, 40, 400, ((1, 4, 1.0), (10, 70, 3.0), (30, 300, 5.0)))
    assert [run.best_within(budget, "scored") for budget in (1, 9, 10, 29, 30)] == [
        1,
        1,
        3,
        3,
        5,
    ]
    assert [run.best_within(budget, "read") for budget in (4, 69, 70, 299, 300)] == [
        1,
        1,
        3,
        3,
        5,
    ]
    assert np.isnan(run.best_within(3, "read"))  # the start alone costs four tokens


# --- mixtures -------------------------------------------------------------------------------------


def test_a_mixture_of_one_token_is_worth_what_the_token_is_and_its_gradient_is_the_gain(
    model,
):
    for direction in DIRECTIONS:
        objective = objective_of(model, direction=direction)
        columns = torch.tensor([[4, 9], [0, 15]])
        mixtures = torch.nn.functional.one_hot(columns, 16).float()
        values, gradient = objective.relaxed(mixtures)
        replies = objective.allowed[columns.numpy()]
        assert values.numpy() == pytest.approx(objective.values(replies), abs=1e-5)
        for reply, slopes, current in zip(replies, gradient, columns, strict=True):
            centred = slopes - slopes.gather(1, current[:, None])
            assert centred.numpy() == pytest.approx(
                objective.gains(tuple(reply.tolist())), abs=1e-4
            )


def test_onto_the_simplex_by_hand_and_by_a_solver():
    given = torch.tensor([[0.5, 0.8], [2.0, 0.0], [0.3, 0.7]])
    # 1.3 - 2 * 0.15
    assert onto_simplex(given).numpy() == pytest.approx(
        np.array([[0.35, 0.65], [1, 0], [0.3, 0.7]])
    )
    for weights in np.random.default_rng(0).normal(size=(5, 6)):
        nearest = minimize(
            lambda x, w=weights: ((x - w) ** 2).sum(),
            np.full(6, 1 / 6),
            bounds=[(0, None)] * 6,
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
            tol=1e-10,
        )
        assert onto_simplex(torch.from_numpy(weights)).numpy() == pytest.approx(
            nearest.x, abs=1e-5
        )


def test_less_entropy_moves_mixtures_out_of_the_ball_and_leaves_the_others():
    # sums of squares 0.52 and 0.905; uniform has 0.5
    near, far = [0.6, 0.4], [0.95, 0.05]
    # at least 0.5 + 0.36 * 0.5 = 0.68
    moved = less_entropy(torch.tensor([near, far]), strength=0.36)
    # 0.64 + 0.04 = 0.68
    assert moved.numpy() == pytest.approx(np.array([[0.8, 0.2], far]))
    assert less_entropy(torch.tensor([near]), strength=1.0).numpy() == pytest.approx(
        np.array([[1.0, 0.0]])
    )
    assert less_entropy(torch.tensor([near]), strength=0.0).numpy() == pytest.approx(
        np.array([near])
    )


# --- certificates ---------------------------------------------------------------------------------


def test_a_certificate_ends_where_no_swap_and_no_pair_of_swaps_improves(model):
    objective = objective_of(model, size=9)
    for start in (
        np.random.default_rng(2).choice(objective.allowed, size=(3, 3)).tolist()
    ):
        found = certify(objective, tuple(start))
        near = [
            reply
            for reply in every(objective, 3).tolist()
            if sum(a != b for a, b in zip(reply, found.ids, strict=True)) <= 2
        ]
        # itself, single swaps, pairs: fewer than 32 of each place
        assert len(near) == 1 + 3 * 8 + 3 * 8 * 8
        assert found.reward == pytest.approx(
            objective.values(np.array(near)).max(), abs=1e-6
        )
        assert found.pairs and (found.moves == 0) == (found.ids == tuple(start))


# --- standings ------------------------------------------------------------------------------------


@pytest.fixture
def rewards():
    """Two instances; ours ends better in one and level in the other, whose rewards fall since it
    is pessimal.
    """
    rows = []
    for direction, sign, ours, other in (
        ("optimal", 1, (6, 8), 5),
        ("pessimal", -1, (7, 7), 7),
    ):
        for method, found in ((standings.OURS, ours), ("ADC", (other, other))):
            for seed, reward in enumerate(found):
                rows.append(
                    (
                        "ids",
                        5,
                        "M",
                        "best",
                        direction,
                        method,
                        seed,
                        "read",
                        256,
                        sign * float(reward),
                    )
                )
    columns = [*standings.INSTANCE, "method", "seed", "of", "budget", "reward"]
    return pd.DataFrame(rows, columns=columns)


@pytest.fixture
def best():
    rows = [
        ("ids", 5, "M", "best", "optimal", 0.0, 10.0),
        ("ids", 5, "M", "best", "pessimal", -2.0, -7.0),
    ]
    return pd.DataFrame(rows, columns=[*standings.INSTANCE, "random", "best"])


def test_shares_are_means_over_starts_of_the_way_from_random_to_best(rewards, best):
    shares = standings.shares(rewards, best).set_index(["direction", "method"])
    # (6 / 10 + 8 / 10) / 2
    assert shares.loc[("optimal", standings.OURS), "share"] == pytest.approx(0.7)
    assert shares.loc[("optimal", "ADC"), "share"] == pytest.approx(0.5)
    assert (shares.loc["pessimal", "share"] == 1).all() and (
        shares.loc["pessimal", "at_best"] == 1
    ).all()
    assert (shares.loc["optimal", "at_best"] == 0).all()


def test_instances_are_won_once_each(rewards, best):
    (row,) = standings.won(standings.shares(rewards, best)).to_dict("records")
    assert (row["better"], row["level"], row["worse"], row["n"]) == (1, 1, 0, 2)
    assert row["lead"] == pytest.approx(0.1)  # (0.2 + 0) / 2
    assert row["ci_low"] == pytest.approx(0) and row["ci_high"] == pytest.approx(0.2)
