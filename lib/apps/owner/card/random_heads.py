"""Random heads: the band of values that the measures of a card take for a random head.

A backbone that was never trained on preferences already orders words in some way, for example by
frequency or length, and any head reads some of it. So the backbone is also read by HEADS random
heads: the model's own head with its inputs in a random order and with random signs. If the model's
own head is random too, all heads are exchangeable. Then its value lies beyond the OUTERMOST values
at either end one time in twenty: 2 x 2 / (79 + 1), whatever the distribution is (Monte Carlo test;
Barnard 1963).
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from scipy import stats
from torch import Tensor

from ....models.heads import Head
from ....models.reward_models import RewardModel
from ....stats.crossed import Measured
from . import measures

HEADS = 79
OUTERMOST = 2  # values at either end that lie outside the band
BAND = ["random_low", "random_high"]
RANDOM_COLUMNS = [*BAND, "random_p"]


class WithRandomHeads(Head):
    """The model's own head and random ones: hidden states (n, d) -> rewards (n, 1 + HEADS), the
    model's own first.
    """

    def __init__(self, own: Head, width: int, seed: int):
        super().__init__()
        self.own = own
        # on the CPU, so that every device has the same
        random = torch.Generator().manual_seed(seed)
        orders = [torch.randperm(width, generator=random) for _ in range(HEADS)]
        self.register_buffer("orders", torch.stack(orders))  # (HEADS, d)
        self.register_buffer(
            "signs", 2.0 * torch.randint(2, (HEADS, width), generator=random) - 1
        )

    def gate(self, gate_hidden: Tensor) -> Tensor | None:
        return self.own.gate(gate_hidden)

    def forward(self, hidden: Tensor, gate: Tensor | None = None) -> Tensor:
        # (64, HEADS, d): little memory
        shuffled = (rows[:, self.orders] * self.signs for rows in hidden.split(64))
        of_random = [
            self.own(states.flatten(0, 1), gate).view(-1, len(self.orders))
            for states in shuffled
        ]
        return torch.cat([self.own(hidden, gate)[:, None], torch.cat(of_random)], dim=1)


def with_random_heads(model: RewardModel) -> RewardModel:
    """Return the model with random heads added. Encoders, whose head is in the backbone, are
    unchanged.
    """
    if model.head is None:
        return model
    wide = WithRandomHeads(
        model.head, model.backbone.config.get_text_config().hidden_size, seed=0
    )
    return replace(model, head=wide.to(model.device))


def band(values: pd.DataFrame) -> pd.DataFrame:
    """Return the band of 95% of the random heads, measure -> RANDOM_COLUMNS. Values: measures x
    heads, own first.

    random_p is the two-sided p-value of the own head as one more random head, by the t
    distribution. Without random heads everything is NaN.
    """
    if values.shape[1] < 2:
        return pd.DataFrame(np.nan, values.index, RANDOM_COLUMNS)
    heads = np.sort(values.drop(columns=0), axis=1)
    spread = heads.std(axis=1, ddof=1) * np.sqrt(1 + 1 / heads.shape[1])
    far = np.abs(values[0].to_numpy() - heads.mean(axis=1))
    # heads that all give the same number explain that number alone
    t = np.divide(far, spread, out=np.where(far > 0, np.inf, 0.0), where=spread > 0)
    p = 2 * stats.t.sf(t, heads.shape[1] - 1)
    ends = heads[:, [OUTERMOST - 1, -OUTERMOST]]
    return pd.DataFrame(np.column_stack([ends, p]), values.index, RANDOM_COLUMNS)


def larger_p(p: np.ndarray, random_p: pd.Series) -> pd.Series:
    """Return the larger of two p-values: of no effect, and of a random head if there are some."""
    return np.maximum(pd.Series(p, random_p.index), random_p.fillna(0.0))


def estimates(rewards: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the measures of many heads without intervals, measure x heads, in the units of the
    model's own head (0).

    For rewards see measures.type_texts. Column 0 equals the estimates of measures.of_model. The
    distance of any other value from the null is multiplied by the spread of its head's rewards
    divided by the spread of the model's rewards. So a random head with a tenth of the model's
    spread explains a tenth of what the model does.
    """

    # influences, which take long, are left out
    def taus(opinion: pd.Series, of_heads: pd.DataFrame) -> Measured:
        each = of_heads.loc[opinion.index].apply(
            lambda ours: stats.kendalltau(opinion.to_numpy(), ours).statistic
        )
        return Measured(each, pd.DataFrame())

    measured = measures.of_models(rewards, agreement=taus)
    values = pd.DataFrame({key: measure.values for key, measure in measured.items()}).T
    values = values.rename_axis("measure")
    typed = _measured_texts(rewards, values.index)
    # measure x heads
    relative = pd.DataFrame(
        {key: table.std() / table[0].std() for key, table in typed.items()}
    ).T

    logarithms = values.index.isin(measures.LOGARITHMS)
    null = measures.MEASURES.loc[values.index, "null"].mask(logarithms, 0.0)
    values = values.sub(null, axis=0).mul(relative).add(null, axis=0)
    values[logarithms] = np.exp(values[logarithms])
    return values


def _measured_texts(
    rewards: dict[str, pd.DataFrame], keys: pd.Index
) -> dict[str, pd.DataFrame]:
    """Return measure -> the rewards that it is computed from, texts x heads."""
    asked = rewards[measures.PROMPTS[0]]
    ratings = measures.lexicon("vader")
    known = asked.index.intersection(ratings.index, sort=False)
    rated_words = known[ratings[known] != 0]
    rated = {prompt: rewards[prompt].loc[rated_words] for prompt in measures.PROMPTS}
    centred = [rated[prompt] - rated[prompt].mean() for prompt in ("best", "worst")]
    typed = {key: rated.get(key.rpartition("_")[2], rewards["items"]) for key in keys}
    return typed | {"framing": pd.concat(centred), "people_words": asked.loc[known]}
