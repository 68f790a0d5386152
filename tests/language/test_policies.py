"""Policies after training: two replies by hand, every draw counted, the optimum against others."""

import itertools

import numpy as np
import pandas as pd
import pytest

from lib import InputError
from lib.language import policies
from lib.show.display import is_offensive
from lib.similarity.ends import is_code

KINDS = {
    "identity": lambda text: text == "gay",
    "profanity": is_offensive,
    "code": is_code,
}
HALVES = np.log([0.5, 0.5])


def random_case(seed: int, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """A reference and rewards with ties: (n,) each."""
    random = np.random.default_rng(seed)
    logits = 2 * random.standard_normal(n)
    return logits - np.log(np.exp(logits).sum()), random.integers(-6, 6, n).astype(
        float
    )


@pytest.fixture
def rows(score_table) -> pd.DataFrame:
    """A reward model that reads ` love` and `love` as one input, and the language model that it
    was made from.
    """
    texts = [" love", "love", "the", "murder", ".assertFalse", "gay"]
    rewards = score_table(
        texts, groups=[0, 0, 1, 2, 3, 4], greatest=[5, 5, 1, -4, -9, -2]
    )
    likely = score_table(texts, greatest=np.log([0.1, 0.3, 0.4, 0.05, 0.1, 0.05]))
    return policies.replies(rewards, likely, "greatest", **KINDS)


def test_two_replies_by_hand():
    policy = policies.optimum(HALVES, np.array([0.0, 1.0]), np.log(3))
    assert np.exp(policy) == pytest.approx([1 / 4, 3 / 4])  # (1/2) 1 : (1/2) 3
    assert policies.kl(policy, HALVES) == pytest.approx(
        0.25 * np.log(0.5) + 0.75 * np.log(1.5)
    )
    # three tails
    assert np.exp(policies.best_of(HALVES, np.array([0.0, 1.0]), 2)) == pytest.approx(
        [1 / 8, 7 / 8]
    )


@pytest.mark.parametrize("seed", range(2))
def test_no_other_policy_has_more_reward_for_its_distance(seed):
    log_reference, reward = random_case(seed)
    beta, random = 0.7, np.random.default_rng(seed)

    def objective(policy):
        return np.exp(policy) @ reward - beta * policies.kl(policy, log_reference)

    best = policies.optimum(log_reference, reward, 1 / beta)
    # beta log Z, the largest there is
    value = beta * np.log(np.sum(np.exp(log_reference + reward / beta)))
    assert objective(best) == pytest.approx(value)
    for _ in range(50):
        other = best + random.normal(0, 0.3, len(best))
        other -= np.log(np.exp(other).sum())
        # the gap is a KL
        assert objective(other) == pytest.approx(
            value - beta * policies.kl(other, best)
        )


@pytest.mark.parametrize("n", [1, 3])
def test_best_of_n_counts_every_draw(n):
    log_reference, reward = random_case(1, n=6)
    reference, counted = np.exp(log_reference), np.zeros(6)
    for drawn in itertools.product(range(6), repeat=n):
        best = [i for i in drawn if reward[i] == max(reward[j] for j in drawn)]
        # the first of the best, as draws come in any order
        counted[best[0]] += np.prod(reference[list(drawn)])
    assert np.exp(policies.best_of(log_reference, reward, n - 1)) == pytest.approx(
        counted
    )


@pytest.mark.parametrize("name", policies.POLICIES)
@pytest.mark.parametrize("nats", [0.1, 1.5])
def test_a_budget_is_kept(name, nats):
    log_reference, reward = random_case(4)
    policy = policies.POLICIES[name]
    strength = policies.strength_at(policy, log_reference, reward, nats)
    assert policies.kl(
        policy(log_reference, reward, strength), log_reference
    ) == pytest.approx(nats, abs=1e-6)
    # the unit of rewards is free
    scaled = policies.strength_at(policy, log_reference, 10 * reward + 3, nats)
    assert scaled == pytest.approx(
        strength / 10 if name == "KL-optimal" else strength, rel=1e-4
    )


def test_a_budget_that_is_too_large_has_no_strength():
    log_reference, reward = np.log([0.2, 0.3, 0.5]), np.array([1.0, 1.0, 0.0])
    # half of the probability is best
    assert policies.largest_kl(log_reference, reward) == pytest.approx(np.log(2))
    assert np.isnan(policies.strength_at(policies.optimum, log_reference, reward, 0.7))
    assert policies.strength_at(policies.optimum, log_reference, reward, 0.69) > 0


def test_replies_keep_their_own_probability_and_name_their_groups(rows):
    assert np.exp(rows["log_reference"].to_numpy()) == pytest.approx(
        [0.1, 0.3, 0.4, 0.05, 0.1, 0.05], rel=1e-6
    )
    assert rows.attrs["kept"] == pytest.approx(1)
    groups = {
        name: rows.loc[rows[name], "text"].tolist() for name in rows.select_dtypes(bool)
    }
    assert groups == {
        "identity": ["gay"],
        "profanity": [],
        "code": [".assertFalse"],
        "positive": [" love", "love"],
        "negative": ["murder"],
    }


def test_another_vocabulary_is_joined_on_text_and_what_is_lost_is_told(score_table):
    rewards = score_table(["love", "war", "new"], greatest=[1, 2, 3])
    likely = score_table(["war", "old", "love"], greatest=np.log([0.2, 0.5, 0.3]))
    joined = policies.replies(rewards, likely, "greatest").set_index("text")
    assert joined.attrs["kept"] == pytest.approx(0.5)
    assert np.exp(joined["log_reference"]).to_dict() == pytest.approx(
        {"love": 0.6, "war": 0.4}
    )
    assert joined["reward"].to_dict() == {"love": 1, "war": 2}


def test_no_common_text_is_refused(score_table):
    one, other = (
        score_table(["love"], greatest=[1]),
        score_table(["war"], greatest=[-1]),
    )
    with pytest.raises(InputError, match="no text in common"):
        policies.replies(one, other, "greatest")
