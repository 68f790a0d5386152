"""Heads of resampled words: how much a reward depends on which rated words a reward model was
trained with.
"""

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd
import torch

from .. import DATA
from ..models.heads import Head
from ..models.language_models import LanguageModel
from ..tables.prompts import read_prompts
from . import features, training, words

HEADS = 20
UNRATED = DATA / "human_ratings" / "unrated.csv"  # words that nobody rated: kind, word


def unrated_words() -> pd.DataFrame:
    """Return words that no lexicon of ours rates, not even by their stem: kind, word. Groups are
    plural nouns.
    """
    return pd.read_csv(UNRATED)


def training_data(
    model: LanguageModel,
    without: Collection[str] = (),
    seed: int = 0,
) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    """Return states, ratings and stems of the words that heads are trained on, as
    training.training_data gives them.

    without: stems of words that are left out.
    """
    replies = words.replies_of(words.rated_words(), model.tokenizer)
    is_left_out = replies["stem"].isin(list(without))
    shown = replies[~replies["held_out"] & ~is_left_out]
    return training.training_data(model, shown, np.random.default_rng(seed))


def train_heads(
    states: torch.Tensor,
    ratings: torch.Tensor,
    stems: np.ndarray,
    *,
    linear: bool = False,
    count: int = HEADS,
) -> list[Head]:
    """Return heads like V-Smol's, each trained on stems of rated words that were drawn with
    replacement.

    linear: one linear layer instead, trained after the first prompt alone, because it can hardly
    turn a sign.
    """
    if linear:
        states = states[:1]
        ratings = ratings[:1]
        stems = stems[:1]
    rng = np.random.default_rng(0)
    units = 0 if linear else training.UNITS[training.NICKNAME]
    rows_of = [pd.Series(of_prompt).groupby(of_prompt).indices for of_prompt in stems]
    heads = []
    for number in range(count):
        rows = [draw_stems(of_prompt, rng) for of_prompt in rows_of]
        rows = torch.from_numpy(np.stack(rows))  # (prompts, replies)
        width = states.shape[-1]
        of_states = rows[..., None].expand(-1, -1, width)
        drawn = states.gather(1, of_states)
        rated = ratings.gather(1, rows)
        heads.append(training.fit(drawn, rated, units, seed=number))
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
    """Return the mean over heads and the middle 95% of them, for values rows x heads: estimate,
    ci_low, ci_high.
    """
    low, high = (values.quantile(share, axis=1) for share in (0.025, 0.975))
    return pd.DataFrame(
        {"estimate": values.mean(axis=1), "ci_low": low, "ci_high": high}
    )
