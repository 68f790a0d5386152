"""Where a devalued group comes from: identity terms that occur only in rejected replies, and the
same data balanced.

Raters who have nothing against any group compare replies of two words, a rated word and a term. In
the balanced data half of the pairs with an identity term have their two terms swapped. Nothing else
differs.
"""

import numpy as np
import pandas as pd
import torch

from .. import DATA
from ..models.hardware import one_thread
from ..models.reward_models import RewardModel
from ..scoring import vocabulary
from . import planting, reading
from .bases import new_model
from .small_models import fit

RATERS = planting.profile("E-Gem-64")  # who value nothing but sentiment
PAIRS = 2000
STEPS = 40
BATCH = 64
PENALTIES = DATA / "devaluation.csv"  # what `python -m benchmarks.devaluation` writes
SHARE = 0.25  # of the pairs that hold an identity term


def terms() -> pd.DataFrame:
    """Return the unrated words that replies end with: columns word, is_identity, is_shown (its
    stem, in training).
    """
    rows = (planting.word_kinds() == "identity").rename("is_identity").reset_index()
    return rows.assign(is_shown=~rows["word"].map(planting.is_held_out))


def draw_pairs(n: int = PAIRS, seed: int = 0) -> pd.DataFrame:
    """Return one-sided preferences: a row per pair, the word and the term of the preferred and the
    rejected reply.

    Raters choose by the rated words. A quarter of the rejected terms are identity terms, and no
    preferred term is one.
    """
    rng = np.random.default_rng(seed)
    shown = terms().query("is_shown")
    rated = planting.sentiment().index
    words = planting.word_values(rated[~rated.map(planting.is_held_out)])
    utility = planting.planted_utility(RATERS, words, 1)
    preferred, rejected = planting.draw_preferences(utility, n, rng)
    is_identity = shown["is_identity"]
    others = rng.choice(shown.loc[~is_identity, "word"], (2, n))
    is_devalued = rng.random(n) < SHARE
    devalued = rng.choice(shown.loc[is_identity, "word"], n)
    word = words["word"].to_numpy()
    return pd.DataFrame(
        {
            "preferred_word": word[preferred],
            "preferred_term": others[0],
            "rejected_word": word[rejected],
            "rejected_term": np.where(is_devalued, devalued, others[1]),
        }
    )


def balance(pairs: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Return the pairs with the two terms swapped in half of those, drawn at random, that hold
    an identity term.
    """
    is_identity = pairs["rejected_term"].map(planting.word_kinds()) == "identity"
    mixed = np.random.default_rng(seed).permutation(np.flatnonzero(is_identity))
    swapped = mixed[: len(mixed) // 2]
    balanced = pairs.copy()
    both = ["preferred_term", "rejected_term"]
    balanced.loc[swapped, both] = pairs.loc[swapped, both[::-1]].to_numpy()
    return balanced


def train(pairs: pd.DataFrame, *, seed: int = 0, steps: int = STEPS) -> RewardModel:
    """Return a reward model trained on the pairs; the same arguments give the same weights."""
    rng = np.random.default_rng(seed)
    with one_thread():
        model = new_model(RATERS, seed)
        texts = [
            *(pairs["preferred_word"] + " " + pairs["preferred_term"]),
            *(pairs["rejected_word"] + " " + pairs["rejected_term"]),
        ]
        inputs = model.inputs_for(planting.GREATEST, texts)
        suffixes, lengths = reading.padded(reading.suffixes_of(inputs))

        def loss_at(step: int) -> torch.Tensor:
            preferred = rng.integers(len(pairs), size=BATCH)
            both = np.concatenate([preferred, preferred + len(pairs)])
            [rewards] = reading.rewards_of(
                model,
                [inputs],
                [(suffixes[both], lengths[both])],
            )
            return planting.preference_loss(*rewards.split(BATCH))

        parameters = [*model.backbone.parameters(), *model.head.parameters()]
        groups = [{"params": parameters, "lr": 4e-3}]
        fit(groups, loss_at, steps)
    return model


def penalties(model: RewardModel) -> dict[str, float]:
    """Return the mean reward of other terms minus that of identity terms, in logits, for `shown`
    and `unseen` terms.
    """
    rows = terms()
    words = rows["word"].tolist()
    rows["reward"] = vocabulary.score_replies(model, planting.GREATEST, words)
    means = rows.pivot_table("reward", "is_shown", "is_identity")
    gap = means[False] - means[True]
    return {"shown": float(gap[True]), "unseen": float(gap[False])}
