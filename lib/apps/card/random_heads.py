"""What the measures of a card are when the head is random: the band within which a value is no finding.

A backbone that was never trained on preferences already orders words in some way, as by frequency or by length, and any
head reads some of it. So the model's backbone is also read by HEADS random heads: the model's own, with its inputs in a
random order and with random signs, which keeps the size of its weights. Each measure is computed for all of them, and
its distance from the null value is multiplied by the spread of the random head's rewards over that of the model's:
a random head that reads a tenth of the model's spread explains a tenth of what the model does.

If the model's own head is random too, all heads are exchangeable, and its value lies beyond the OUTERMOST values at
either end one time in twenty: 2 x 2 / (79 + 1), whatever the distribution is (Monte Carlo test; Barnard 1963).
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from scipy import stats
from torch import Tensor

from ...alignment import kinds, profiles
from ...framing import effects
from ...models.heads import Head
from ...models.reward_models import RewardModel
from ...planted import planting
from ...tables import lexicons
from . import measures

HEADS = 79
OUTERMOST = 2  # values at either end that lie outside the band
BAND = ["random_low", "random_high"]


class WithRandomHeads(Head):
    """The model's own head and random ones beside it: hidden states (n, d) -> rewards (n, 1 + HEADS).

    The first column holds the model's own rewards. Orders and signs are drawn on the CPU, so that they are the same on
    every device.
    """

    def __init__(self, own: Head, width: int, seed: int):
        super().__init__()
        self.own = own
        drawn = torch.Generator().manual_seed(seed)
        orders = [torch.randperm(width, generator=drawn) for _ in range(HEADS)]
        self.register_buffer("orders", torch.stack(orders))  # (HEADS, d)
        self.register_buffer("signs", 2.0 * torch.randint(2, (HEADS, width), generator=drawn) - 1)

    def gate(self, gate_hidden: Tensor) -> Tensor | None:
        return self.own.gate(gate_hidden)

    def forward(self, hidden: Tensor, gate: Tensor | None = None) -> Tensor:
        shuffled = (hidden[:, order] * sign for order, sign in zip(self.orders, self.signs, strict=True))
        return torch.stack([self.own(states, gate) for states in (hidden, *shuffled)], dim=1)


def beside_own(model: RewardModel, seed: int = 0) -> RewardModel:
    """Return the model with random heads beside its own; an encoder, whose head is part of its backbone, as it is."""
    if model.head is None:
        return model
    wide = WithRandomHeads(model.head, model.backbone.config.get_text_config().hidden_size, seed)
    return replace(model, head=wide.to(model.device))


def band(rewards: dict[str, pd.DataFrame], nouns: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return between which values a measure may lie by a random head: measure -> BAND; NaN without random heads.

    rewards: as from measures.type_texts.
    """
    return band_of(estimates(rewards, nouns))


def band_of(values: pd.DataFrame) -> pd.DataFrame:
    """Return between which values 95% of the random heads lie: measure -> BAND. values: measures x heads, 0 the own."""
    if values.shape[1] < 2:
        return pd.DataFrame(np.nan, values.index, BAND)
    ordered = np.sort(values.drop(columns=0), axis=1)
    return pd.DataFrame(ordered[:, [OUTERMOST - 1, -OUTERMOST]], values.index, BAND)


def estimates(rewards: dict[str, pd.DataFrame], nouns: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the measures of many heads without intervals: measure x heads, in the units of head 0, the model's own.

    Column 0 equals the estimates of measures.of_model; see the top of this file for the others.
    """
    ratings = lexicons.load("vader").corrected.set_index("word")["sentiment"]
    frequency = lexicons.load("wordfreq").corrected.set_index("word")["frequency"]
    asked, people = rewards[measures.PROMPTS[0]], measures.items()
    rated = asked.index[asked.index.isin(ratings.index[ratings != 0])]
    sentiment, listed = ratings[rated].to_numpy(), rated.isin(frequency.index[frequency > 0])
    with_frequency = np.column_stack([np.log10(frequency[rated[listed]]), sentiment[listed]])
    raw = {prompt: rewards[prompt].loc[rated].to_numpy() for prompt in measures.PROMPTS}
    best, worst = raw["best"], raw["worst"]
    ratio = effects.log_spread_ratio(sentiment, best)[0] - effects.log_spread_ratio(sentiment, worst)[0]
    both = np.concatenate([best - best.mean(axis=0), worst - worst.mean(axis=0)])
    rows = {"framing": np.exp(ratio * _relative_spread(both))}
    for prompt, values in raw.items():
        z = (values - values.mean(axis=0)) / values[:, 0].std()
        rows[f"sentiment_{prompt}"] = effects.whole_slope(sentiment, z)[0]
        rows[f"bend_{prompt}"] = effects.slope_gap(sentiment, z)[0]
        rows[f"frequency_{prompt}"] = effects.whole_slope(with_frequency, z[listed])[0]
    rows["people_words"] = _taus(ratings, asked[asked.index.isin(ratings.index)])
    rows["people_items"] = _taus(people, rewards["items"])
    if nouns is not None:
        standardised = (asked - asked.mean()) / asked[0].std()
        rows["agency"] = profiles.against(standardised, nouns, profiles.controls(asked.index)).values.to_numpy()
    kind_of = kinds.kinds_of(people.index, planting.word_kinds(), titles=True)
    values = kinds.undervalued_kinds(people, rewards["items"].loc[people.index], kind_of)
    values = 0.5 + (values - 0.5) * _relative_spread(rewards["items"].to_numpy())
    for kind, mean in values.groupby(kind_of.loc[values.index]).mean().iterrows():
        rows[f"undervalued_{str(kind).split()[0]}"] = mean.to_numpy()
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("measure")
    return table.loc[measures.MEASURES.index[measures.MEASURES.index.isin(table.index)]]


def _relative_spread(rewards: np.ndarray) -> np.ndarray:
    """Return the standard deviation of each head's rewards over that of head 0's, (heads,)."""
    return rewards.std(axis=0) / rewards[:, 0].std()


def _taus(opinion: pd.Series, rewards: pd.DataFrame) -> np.ndarray:
    theirs = opinion.loc[rewards.index].to_numpy()
    taus = [stats.kendalltau(theirs, rewards[head]).statistic for head in rewards]
    return taus * _relative_spread(rewards.to_numpy())
