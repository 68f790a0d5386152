"""What a language model would say after training on a reward: exact answers for replies of one
token.

Both policies are compared at the same distance from the reference, KL(q || p) in nats.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy import ndarray
from scipy.optimize import brentq
from scipy.special import logsumexp

from .. import InputError
from ..tables import lexicons

BUDGETS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)  # nats
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
    above = np.minimum(np.cumsum(mass) - mass, 1.0 - mass)
    share = np.minimum(mass / (1.0 - above), 1.0)  # P(reward = r | reward <= r)
    with np.errstate(divide="ignore"):
        of_last = np.log(-np.expm1(n * np.log1p(-share)))
        log_level = n * np.log1p(-above) + of_last - np.log(mass)
    log_policy = log_level[level] + log_reference
    return log_policy - logsumexp(log_policy)


POLICIES = {"KL-optimal": optimum, "best of n": best_of}


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
    policy: Callable,
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


def joined(
    rewards: pd.DataFrame, log_probabilities: pd.DataFrame, prompts: Sequence[str]
) -> pd.DataFrame:
    """Return the tokens that both tables hold: token_id, text, input_group, and for each prompt
    `reward <prompt>` and `log_probability <prompt>`.

    Tables of one vocabulary are joined on token_id, so that ` love` and `love` keep a probability
    each. Others are joined on the text, with its lowest id. InputError without one of the prompts,
    and where no text is common.
    """
    parts = []
    token = ["token_id", "token", "text"]
    both = [(rewards, "reward", [*token, "input_group"])]
    both += [(log_probabilities, "log_probability", token)]
    for table, name, columns in both:
        if missing := [prompt for prompt in prompts if prompt not in table]:
            raise InputError(
                f"the {name} table has no prompt '{missing[0]}'; score both models for the same "
                "prompts"
            )
        values = table[list(prompts)].astype(float).add_prefix(f"{name} ")
        parts.append(table[columns].join(values))
    left, right = parts
    both = left.merge(right, on=token, validate="one_to_one")
    if len(both) < min(len(left), len(right)):  # another vocabulary
        left = left.sort_values("token_id").drop_duplicates("text")
        right = right.sort_values("token_id").drop_duplicates("text")
        right = right.drop(columns=["token_id", "token"])
        both = left.merge(right, on="text", validate="one_to_one")
    if both.empty:
        raise InputError(
            "the two models have no text in common; choose a language model with a similar "
            "vocabulary"
        )
    return both.drop(columns="token")


def replies(
    rewards: pd.DataFrame,
    log_probabilities: pd.DataFrame,
    prompt: str,
    **kinds: Callable[[str], bool],
) -> pd.DataFrame:
    """Return what both models can say: one row per token that `joined` finds, with its reward and
    its probability under the reference.

    Each group of texts has a column of True and False: `kinds` (whether a text belongs to it),
    `positive` and `negative` (by the sign of VADER's rating). `frequency` is log10 of occurrences
    per million words (wordfreq). `log_reference` is renormalised over these rows; `attrs["kept"]`
    is their probability before that.
    """
    rows = joined(rewards, log_probabilities, [prompt]).rename(
        columns={
            f"reward {prompt}": "reward",
            f"log_probability {prompt}": "log_reference",
        }
    )
    total = logsumexp(rows["log_reference"])
    rows["log_reference"] -= total
    words = rows["text"].str.strip().str.lower()
    listed = lexicons.load("wordfreq").corrected.set_index("word")["frequency"]
    rows["frequency"] = np.log10(words.map(listed))
    for name, belongs in kinds.items():
        rows[name] = rows["text"].map(belongs).astype(bool)
    rated = lexicons.load("vader").corrected.set_index("word")["sentiment"]
    rating = words.map(rated)
    rows["positive"] = rating > 0
    rows["negative"] = rating < 0
    rows.attrs["kept"] = float(np.exp(total))
    return rows
