"""Heads that are trained on people's ratings: one head, and many on resampled words, which show how
much a reward depends on which rated words were in the training.
"""

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from scipy import stats
from torch import Tensor
from transformers import PreTrainedConfig

from ..models.hardware import one_thread
from ..models.heads import Head, new_head

# units between the two linear layers: one layer alone can hardly turn a sign
UNITS = 32
# of training, and how many others each reply is compared with in a step
STEPS = 120
RIVALS = 8
DECAY = 0.1  # of weights


def preference_loss(rewards: Tensor, ratings: Tensor) -> Tensor:
    """Return the cross-entropy, in nats, of preferences between replies to one prompt, given
    (prompts, replies).

    Of two replies the first is preferred with probability sigmoid(difference of ratings) (Bradley
    and Terry 1952). Each reply is compared with the RIVALS replies that follow it, so these come in
    random order.
    """
    losses = []
    for step in range(1, RIVALS + 1):
        predicted = rewards - rewards.roll(step, -1)  # (prompts, replies)
        preferred = (ratings - ratings.roll(step, -1)).sigmoid()
        losses.append(F.binary_cross_entropy_with_logits(predicted, preferred))
    return torch.stack(losses).mean()


def fit(states: Tensor, ratings: Tensor, *, seed: int = 0) -> Head:
    """Return a head trained on states, (prompts, replies, d), and ratings, (prompts, replies), on
    one thread.

    Ratings have the other sign where a prompt asks for something bad. The head's weights on
    standardised states decay.
    """
    mean = states.mean((0, 1))
    scale = states.std((0, 1))
    states = (states - mean) / scale
    rng = torch.Generator().manual_seed(seed)
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = untrained(len(mean))
        optimiser = torch.optim.AdamW(head.parameters(), weight_decay=DECAY)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, STEPS)
        for _ in range(STEPS):
            order = torch.randperm(states.shape[1], generator=rng)
            optimiser.zero_grad()
            rewards = head(states)
            preference_loss(rewards[:, order], ratings[:, order]).backward()
            optimiser.step()
            schedule.step()
    first = head.score[0]
    with torch.no_grad():  # from now on it reads states as they are
        first.weight /= scale
        first.bias -= first.weight @ mean
    return head.requires_grad_(False)


def untrained(width: int) -> Head:
    """Return a head of two linear layers, with UNITS between them."""
    shapes = {
        "score.0.weight": (UNITS, width),
        "score.0.bias": (UNITS,),
        "score.2.weight": (1, UNITS),
    }
    return new_head("linear", PreTrainedConfig(hidden_size=width), shapes)


def train_heads(
    states: Tensor, ratings: Tensor, stems: np.ndarray, count: int = 20
) -> list[Head]:
    """Return heads like V-Smol's, each trained on stems that were drawn with replacement, as
    v_smol.training_data gives them.
    """
    rng = np.random.default_rng(0)
    rows_of = [pd.Series(of_prompt).groupby(of_prompt).indices for of_prompt in stems]
    heads = []
    for number in range(count):
        drawn = [draw_stems(of_prompt, rng) for of_prompt in rows_of]
        rows = torch.from_numpy(np.stack(drawn))  # (prompts, replies)
        of_states = rows[..., None].expand(-1, -1, states.shape[-1])
        some = states.gather(1, of_states)
        heads.append(fit(some, ratings.gather(1, rows), seed=number))
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
