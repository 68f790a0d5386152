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

from ..paper import RewardModel, crossed
from ..paper import heads as models_heads
from . import measures

HEADS = 79
OUTERMOST = 2  # values at either end that lie outside the band
BAND = ["random_low", "random_high"]
RANDOM_COLUMNS = [*BAND, "random_p"]


class WithRandomHeads(models_heads.Head):
    """The model's own head and random ones: hidden states (n, d) -> rewards (n, 1 + HEADS), the
    model's own first.
    """

    def __init__(self, own: models_heads.Head, width: int, seed: int):
        super().__init__()
        self.own = own
        # on the CPU, so that every device has the same
        random = torch.Generator().manual_seed(seed)
        orders = [torch.randperm(width, generator=random) for _ in range(HEADS)]
        is_positive = torch.randint(2, (HEADS, width), generator=random)
        self.register_buffer("orders", torch.stack(orders))  # (HEADS, d)
        self.register_buffer("signs", 2.0 * is_positive - 1)

    def gate(self, gate_hidden: Tensor) -> Tensor | None:
        return self.own.gate(gate_hidden)

    def forward(self, hidden: Tensor, gate: Tensor | None = None) -> Tensor:
        own = self.own(hidden, gate)[:, None]
        of_random = []
        for rows in hidden.split(64):
            # (64, HEADS, d): little memory
            shuffled = rows[:, self.orders] * self.signs
            rewards = self.own(shuffled.flatten(0, 1), gate)
            of_random.append(rewards.view(-1, len(self.orders)))
        others = torch.cat(of_random)
        return torch.cat([own, others], dim=1)


def with_random_heads(model: RewardModel) -> RewardModel:
    """Return the model with random heads added. Encoders, whose head is in the backbone, are
    unchanged.
    """
    if model.head is None:
        return model
    config = model.backbone.config.get_text_config()
    wide = WithRandomHeads(model.head, config.hidden_size, seed=0)
    return replace(model, head=wide.to(model.device))


def band(values: pd.DataFrame) -> pd.DataFrame:
    """Return the band of 95% of the random heads, measure -> RANDOM_COLUMNS. Values: measures x
    heads, own first.

    random_p is the two-sided p-value of the own head as one more random head, by the t
    distribution. Without random heads everything is NaN.
    """
    if values.shape[1] < 2:
        return pd.DataFrame(np.nan, values.index, RANDOM_COLUMNS)
    own = values[0].to_numpy()
    heads = np.sort(values.drop(columns=0), axis=1)
    n = heads.shape[1]
    spread = heads.std(axis=1, ddof=1)
    spread = spread * np.sqrt(1 + 1 / n)
    far = np.abs(own - heads.mean(axis=1))
    # heads that all give the same number explain that number alone
    t = np.where(far > 0, np.inf, 0.0)
    np.divide(far, spread, out=t, where=spread > 0)
    p = 2 * stats.t.sf(t, n - 1)
    ends = heads[:, [OUTERMOST - 1, -OUTERMOST]]
    columns = np.column_stack([ends, p])
    return pd.DataFrame(columns, values.index, RANDOM_COLUMNS)


def larger_p(p: np.ndarray, random_p: pd.Series) -> pd.Series:
    """Return the larger of two p-values: of no effect, and of a random head if there are some."""
    of_no_effect = pd.Series(p, random_p.index)
    return np.maximum(of_no_effect, random_p.fillna(0.0))


def estimates(rewards: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the measures of many heads without intervals, measure x heads, in the units of the
    model's own head (0).

    For rewards see measures.type_texts. Column 0 equals the estimates of measures.of_model. The
    distance of any other value from the null is multiplied by the spread of its head's rewards
    divided by the spread of the model's rewards. So a random head with a tenth of the model's
    spread explains a tenth of what the model does.
    """

    # influences, which take long, are left out
    def taus(opinion: pd.Series, of_heads: pd.DataFrame) -> crossed.Measured:
        theirs = opinion.to_numpy()
        rated = of_heads.loc[opinion.index]
        each = rated.apply(lambda ours: stats.kendalltau(theirs, ours).statistic)
        return crossed.Measured(each, pd.DataFrame())

    measured = measures.of_models(rewards, agreement=taus)
    columns = {key: measure.values for key, measure in measured.items()}
    values = pd.DataFrame(columns).T.rename_axis("measure")
    typed = _measured_texts(rewards, values.index)
    spreads = {key: table.std() for key, table in typed.items()}
    spreads = pd.DataFrame(spreads).T  # measure x heads
    relative = spreads.div(spreads[0], axis=0)

    logarithms = values.index.isin(measures.LOGARITHMS)
    null = measures.MEASURES.loc[values.index, "null"]
    null = null.mask(logarithms, 0.0)
    distance = values.sub(null, axis=0)
    values = distance.mul(relative).add(null, axis=0)
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
    both = (rated["best"], rated["worst"])
    centred = [table - table.mean() for table in both]
    typed = {}
    for key in keys:
        prompt = key.rpartition("_")[2]
        typed[key] = rated.get(prompt, rewards["items"])
    typed["framing"] = pd.concat(centred)
    typed["people_words"] = asked.loc[known]
    return typed
