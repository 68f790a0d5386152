"""Heads of resampled words: how much a reward depends on which rated words a reward model was
trained with.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from scipy import stats

from ..models.heads import Head
from ..models.language_models import LanguageModel
from ..tables.prompts import read_prompts
from . import features, training, words

HEADS = 20


def train_heads(
    states: torch.Tensor,
    ratings: torch.Tensor,
    stems: np.ndarray,
    count: int = HEADS,
) -> list[Head]:
    """Return heads like V-Smol's, each trained on stems that were drawn with replacement, as
    training.training_data gives them.
    """
    rng = np.random.default_rng(0)
    rows_of = [pd.Series(of_prompt).groupby(of_prompt).indices for of_prompt in stems]
    heads = []
    for number in range(count):
        rows = [draw_stems(of_prompt, rng) for of_prompt in rows_of]
        rows = torch.from_numpy(np.stack(rows))  # (prompts, replies)
        of_states = rows[..., None].expand(-1, -1, states.shape[-1])
        drawn = states.gather(1, of_states)
        heads.append(training.fit(drawn, ratings.gather(1, rows), seed=number))
    return heads


def draw_stems(rows_of: dict[str, np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Return row numbers of stems drawn with replacement, as many rows as there are: (replies,).

    rows_of: stem -> row numbers. All rows of a drawn stem come together; the last one is cut.
    """
    stems = list(rows_of)
    count = sum(map(len, rows_of.values()))
    numbers = rng.integers(len(stems), size=count)
    drawn = [rows_of[stems[number]] for number in numbers]
    return np.concatenate(drawn)[:count]


def rewards_by_heads(
    model: LanguageModel,
    heads: Sequence[Head],
    texts: Sequence[str],
    prompt: str = "greatest",
) -> pd.DataFrame:
    """Return the reward of each text by each head, texts x heads, as replies to one of the paper's
    prompts.

    The unit is the standard deviation of the head's rewards of held-out rated words, and zero is
    their mean.
    """
    asked = read_prompts(prompt)[prompt]
    replies = words.replies_of(words.rated_words(), model.tokenizer)
    held_out = replies[replies["held_out"]].sample(training.ASKED, random_state=0)
    states = features.kept_states(model, asked, list(texts))
    of_rated = features.kept_states(model, asked, list(held_out["reply"]))
    rewards = {}
    for number, head in enumerate(heads):
        rated = head(of_rated)
        centred = head(states) - rated.mean()
        rewards[number] = (centred / rated.std()).numpy()
    return pd.DataFrame(rewards, index=list(texts))


def with_interval(values: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over heads and the 95% interval of one more head, for values rows x heads:
    estimate, ci_low, ci_high.

    It is mean -+ t sd sqrt(1 + 1/n): of heads that are drawn in the same way, 95% lie inside.
    """
    n = values.shape[1]
    mean = values.mean(axis=1)
    reach = stats.t.ppf(0.975, n - 1) * values.std(axis=1) * np.sqrt(1 + 1 / n)
    return pd.DataFrame(
        {"estimate": mean, "ci_low": mean - reach, "ci_high": mean + reach}
    )
