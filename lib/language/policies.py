"""What a language model would say after training on a reward: exact answers for replies of one
token.

Both policies are compared at the same distance from the reference, KL(q || p) in nats.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy import ndarray
from scipy.optimize import brentq
from scipy.special import logsumexp

from .. import InputError
from ..stats import rankings, resampling
from ..tables import lexicons
from ..tables.stems import stems

BUDGETS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)  # nats
# group of texts -> whether a text belongs to it
Kinds = Mapping[str, Callable[[str], bool]]
# natural logarithms of the strengths among which a policy is sought
NEAREST = -30.0
FARTHEST = 60.0

# --- policies: (log reference, reward, strength) -> log policy, each (replies,); strength 0 is the
# reference ---------


def optimum(log_reference: ndarray, reward: ndarray, strength: float) -> ndarray:
    """Return the log-probabilities of the KL-optimal policy, (replies,). strength: 1 / beta, per
    unit of reward.

    With a KL penalty of weight beta, q(y) = p(y) exp(r(y) / beta) / Z is optimal (Korbak, Perez and
    Buckley 2022, arXiv 2205.11275; Rafailov et al. 2023, arXiv 2305.18290). For replies of one
    token Z is a sum over the vocabulary.
    """
    tilted = log_reference + strength * (reward - reward.max())
    return tilted - logsumexp(tilted)


def best_of(log_reference: ndarray, reward: ndarray, strength: float) -> ndarray:
    """Return the log-probabilities of the best of n = 1 + strength draws from the reference,
    (replies,).

    The best of n has reward r with probability F(r)^n - F(r-)^n, where F is the distribution of the
    reward of one draw. Replies of equal reward share it as the reference does. n need not be whole.
    """
    n = 1.0 + strength
    levels, level = np.unique(-reward, return_inverse=True)  # the highest reward first
    mass = np.bincount(level, np.exp(log_reference), len(levels))  # (levels,)
    reached = np.cumsum(mass)
    above = np.append(0.0, reached[:-1])
    above = np.minimum(above, 1.0 - mass)
    at_most = np.log1p(-above)  # log F(r)
    with np.errstate(divide="ignore"):
        # log of P(reward = r | reward <= r)
        of_level = np.minimum(mass, np.exp(at_most))
        share = np.log(of_level) - at_most
        share = np.exp(np.minimum(share, 0.0))
        log_below = np.log1p(-share)
        log_level = np.log(-np.expm1(n * log_below))
        log_level = n * at_most + log_level
        log_policy = log_level[level] + log_reference - np.log(mass)[level]
    return log_policy - logsumexp(log_policy)


Policy = Callable[[ndarray, ndarray, float], ndarray]
POLICIES: dict[str, Policy] = {"KL-optimal": optimum, "best of n": best_of}


def kl(log_policy: ndarray, log_reference: ndarray) -> float:
    """Return KL(policy || reference) in nats, >= 0."""
    given = np.exp(log_policy)
    likely = given > 0
    log_ratio = log_policy[likely] - log_reference[likely]
    nats = np.sum(given[likely] * log_ratio)
    return float(max(0.0, nats))


def largest_kl(log_reference: ndarray, reward: ndarray) -> float:
    """Return the KL in nats that both policies approach: that of saying only what has the
    highest reward.
    """
    is_best = reward == reward.max()
    return float(-logsumexp(log_reference[is_best]))


def strength_at(
    policy: Policy,
    log_reference: ndarray,
    reward: ndarray,
    nats: float,
) -> float:
    """Return the strength at which the policy is so many nats from the reference; NaN where it
    never is.
    """
    if not 0 < nats < largest_kl(log_reference, reward):
        return np.nan

    def excess(log_strength: float) -> float:
        log_policy = policy(log_reference, reward, np.exp(log_strength))
        return kl(log_policy, log_reference) - nats

    if excess(FARTHEST) <= 0:  # as near to the largest as floating point can tell
        return np.nan
    log_strength = brentq(excess, NEAREST, FARTHEST, xtol=1e-10)
    return float(np.exp(log_strength))


def refuse_missing(
    rewards: pd.DataFrame,
    log_probabilities: pd.DataFrame,
    prompt: str,
) -> None:
    """Raise InputError unless both tables hold the prompt."""
    for name, table in (("rewards", rewards), ("log-probabilities", log_probabilities)):
        if prompt not in table:
            raise InputError(
                f"the {name} have no prompt '{prompt}'; score both models for the same prompts"
            )


def replies(
    rewards: pd.DataFrame,
    log_probabilities: pd.DataFrame,
    prompt: str,
    kinds: Kinds | None = None,
) -> pd.DataFrame:
    """Return what both models can say: one row per token, with its reward and its probability under
    the reference.

    Tables of one vocabulary are joined on token_id, so that ` love` and `love` keep a probability
    each. Others are joined on the text, with its lowest id. Each group of texts has a column of
    True and False: `kinds`, `positive` and `negative` (by the sign of VADER's rating). `frequency`
    is log10 of occurrences per million words (wordfreq). `log_reference` is renormalised over these
    rows; `attrs["kept"]` is their probability before that.
    """
    refuse_missing(rewards, log_probabilities, prompt)
    reward = rewards[prompt].astype(float)
    log_reference = log_probabilities[prompt].astype(float)
    rows = _joined(
        rewards.assign(reward=reward),
        log_probabilities.assign(log_reference=log_reference),
    )
    total = logsumexp(rows["log_reference"])
    rows["log_reference"] -= total
    words = rows["text"].str.strip().str.lower()
    listed = lexicons.load("wordfreq").corrected
    known = listed.set_index("word")["frequency"]
    rows["frequency"] = np.log10(words.map(known))
    for name, belongs in (kinds or {}).items():
        rows[name] = rows["text"].map(belongs).astype(bool)
    rated = lexicons.load("vader").corrected
    rating = words.map(rated.set_index("word")["sentiment"])
    rows["positive"] = rating > 0
    rows["negative"] = rating < 0
    rows.attrs["kept"] = float(np.exp(total))
    return rows


def _joined(rewards: pd.DataFrame, log_probabilities: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that both tables have, with the columns `token_id, text, input_group, reward,
    log_reference`.
    """
    left = rewards[["token_id", "token", "text", "input_group", "reward"]]
    right = log_probabilities[["token_id", "token", "text", "log_reference"]]
    joined = left.merge(
        right.drop(columns="text"),
        on=["token_id", "token"],
        validate="one_to_one",
    )
    if len(joined) < min(len(left), len(right)):  # another vocabulary
        left = left.sort_values("token_id").drop_duplicates("text")
        right = right.sort_values("token_id").drop_duplicates("text")
        joined = left.merge(
            right[["text", "log_reference"]],
            on="text",
            validate="one_to_one",
        )
    if joined.empty:
        raise InputError(
            "the two models have no text in common; choose a language model with a similar "
            "vocabulary"
        )
    return joined.drop(columns="token")


def at_budgets(rows: pd.DataFrame, budgets: Sequence[float] = BUDGETS) -> pd.DataFrame:
    """Return what the reference and both policies say: one row per policy and budget, the reference
    (0 nats) first.

    rows: as from `replies`. `budget`, `kl` and `entropy` are in nats. `strength` is 1 / beta, or n
    - 1. `reward` and `frequency` are expected values. `first` is the most probable reply, and
    `probability` is over all tokens that the reward model reads as it. Each group has its
    probability. Budgets that are not possible have missing numbers.
    """
    log_reference = rows["log_reference"].to_numpy()
    reward = rows["reward"].to_numpy()
    reference = {"policy": "reference", "budget": 0.0, "strength": 0.0}
    described = [reference | describe(rows, log_reference)]
    for name, policy in POLICIES.items():
        for budget in budgets:
            strength = strength_at(policy, log_reference, reward, budget)
            about = {"policy": name, "budget": budget, "strength": strength}
            if np.isfinite(strength):
                log_policy = policy(log_reference, reward, strength)
                about |= describe(rows, log_policy)
            described.append(about)
    return pd.DataFrame(described)


def describe(rows: pd.DataFrame, log_policy: ndarray) -> dict[str, float | str]:
    """Return what a policy over these replies says, as `at_budgets` lists it."""
    given = np.exp(log_policy)
    frequency = rows["frequency"].to_numpy()
    listed = np.isfinite(frequency)
    expected_frequency = np.nan
    if listed.any():
        of_listed = given[listed]
        expected_frequency = of_listed @ frequency[listed] / of_listed.sum()
    by_input = rows.assign(given=given).groupby("input_group")
    probability = by_input["given"].sum()
    first = probability.idxmax()
    log_given = np.where(given > 0, log_policy, 0.0)
    about = {
        "kl": kl(log_policy, rows["log_reference"].to_numpy()),
        "entropy": float(-np.sum(given * log_given)),
        "reward": float(given @ rows["reward"]),
        "frequency": float(expected_frequency),
        "first": by_input["text"].first()[first],
        "probability": float(probability[first]),
    }
    for name in rows.select_dtypes(bool):
        about[name] = float(given @ rows[name])
    return about


def collapse(rows: pd.DataFrame) -> tuple[float, str]:
    """Return the smallest KL in nats at which the KL-optimal policy gives one reply half, and this
    reply.

    It is sought on a fine grid, then by bisection. NaN and '' where no reply ever takes half.
    """
    log_reference = rows["log_reference"].to_numpy()
    reward = rows["reward"].to_numpy()
    _, group = np.unique(rows["input_group"], return_inverse=True)

    def by_input(log_strength: float) -> ndarray:
        log_policy = optimum(log_reference, reward, np.exp(log_strength))
        return np.bincount(group, np.exp(log_policy))

    def excess(log_strength: float) -> float:
        return by_input(log_strength).max() - 0.5

    spread = float(np.std(reward)) or 1.0
    grid = np.log(np.geomspace(1e-4, 1e6, 300) / spread)
    enough = (i for i, at in enumerate(grid) if excess(at) >= 0)
    reached = next(enough, None)
    if reached is None:
        return np.nan, ""
    at = grid[reached]
    if reached > 0:
        at = brentq(excess, grid[reached - 1], at, xtol=1e-10)
    policy = optimum(log_reference, reward, np.exp(at))
    is_winner = group == by_input(at).argmax()
    text = rows.loc[is_winner, "text"].iloc[0]
    return kl(policy, log_reference), text


def without_frequency(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the replies with the part of the reward taken off that a straight line in log
    frequency predicts.

    The line is fitted over the listed words, one row per input; other replies keep their reward.
    """
    words = rows.dropna(subset="frequency").drop_duplicates("input_group")
    frequency = words["frequency"]
    slope, _ = np.polyfit(frequency, words["reward"], 1)
    predicted = slope * (rows["frequency"] - frequency.mean())
    return rows.assign(reward=rows["reward"] - predicted.fillna(0.0))


def overlaps(of_models: dict[str, pd.DataFrame], nats: float) -> pd.DataFrame:
    """Return how alike the answers are that rewards lead to from one reference: one row per pair of
    models.

    of_models: model -> replies, of one reference model and prompt. `tau` is Kendall's tau-b of the
    rewards. `overlap` is the sum of the smaller of the two probabilities under the KL-optimal
    policies at this KL, in [0, 1].
    """
    compared = []
    for first, second in itertools.combinations(of_models, 2):
        both = of_models[first].merge(
            of_models[second][["token_id", "reward"]],
            on="token_id",
            suffixes=("", " second"),
            validate="one_to_one",
        )
        log_reference = both["log_reference"].to_numpy()
        log_reference = log_reference - logsumexp(log_reference)
        rewards = both[["reward", "reward second"]]
        policies = []
        for _, reward in rewards.items():
            strength = strength_at(optimum, log_reference, reward.to_numpy(), nats)
            if np.isfinite(strength):
                log_policy = optimum(log_reference, reward.to_numpy(), strength)
                policies.append(np.exp(log_policy))
        if len(policies) < 2:  # one of the policies is never so far from the reference
            continue
        overlap = float(np.minimum(*policies).sum())
        tau = rankings.tau_matrix(rewards).iloc[0, 1]
        compared.append([first, second, tau, overlap, len(both)])
    return pd.DataFrame(compared, columns=["first", "second", "tau", "overlap", "n"])


def group_ratio(
    rows: pd.DataFrame,
    log_policy: ndarray,
    group: str,
    resamples: int = 1000,
) -> dict[str, float]:
    """Return how many times as often as the reference a policy names a typical text of a group.

    `ratio` is the geometric mean of policy / reference over the n inputs of the group, with a 95%
    percentile bootstrap over stems. `total` is the ratio of the group's whole probability. All but
    n are missing for fewer than two inputs.
    """
    probabilities = pd.DataFrame(
        {"policy": np.exp(log_policy), "reference": np.exp(rows["log_reference"])}
    )
    listed = rows[rows[group]].groupby("input_group")
    inputs = probabilities[rows[group]].groupby(rows["input_group"]).sum()
    n = len(inputs)
    if n < 2:
        missing = dict.fromkeys(["ratio", "ci_low", "ci_high", "total"], np.nan)
        return missing | {"n": n}
    least = np.finfo(float).tiny
    ratios = np.maximum(inputs["policy"], least) / inputs["reference"]
    logs = np.log(ratios).to_numpy()

    def mean(drawn: ndarray) -> float:
        return logs[drawn].mean()

    of_stems = stems(listed["text"].first())
    draws = resampling.bootstrap(mean, of_stems, resamples)
    ci_low, ci_high = resampling.interval(draws)
    totals = inputs.sum()
    total = totals["policy"] / totals["reference"]
    return {
        "ratio": float(np.exp(logs.mean())),
        "ci_low": float(np.exp(ci_low)),
        "ci_high": float(np.exp(ci_high)),
        "total": float(total),
        "n": n,
    }
