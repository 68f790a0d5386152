"""Rewards by layer: the final norm and the head read the states after each layer, as if the model
ended there.

As in the logit lens (nostalgebraist 2020; Belrose et al. 2023, arXiv 2303.08112); no head was
trained on such states.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from scipy.stats import rankdata, spearmanr

from .. import InputError
from ..models.reward_models import RewardModel
from . import engine, stages

NEAR = 0.05  # of all replies; a rank that stays as near as this to the final one is settled


def rewards_by_layer(
    model: RewardModel, prompt: str, replies: Sequence[str], bos: str = "single"
) -> np.ndarray:
    """Return the rewards of these replies after each layer, (layers, replies) float32. The last row
    is final.

    InputError unless the model was loaded with stream=True.
    """
    if model.layers is None:
        raise InputError(
            f"the layers of {model.nickname} are not read one by one; load its checkpoint with "
            "STREAM=1"
        )
    inputs, last = model.inputs_for(prompt, replies, bos=bos), model.layers.count - 1
    norm, rewards = (
        model.layers.final_norm(),
        np.empty((last + 1, len(inputs.suffixes)), dtype=np.float32),
    )
    for number, block, scorer in stages.after_layers(model, engine.blocks_of(inputs)):
        scorer.norm = norm if number < last else torch.nn.Identity()  # the last layer ends with it
        rewards[number, block.shard] = scorer.read_off(block)
    return rewards[:, inputs.group]


def rank_correlations(rewards: np.ndarray) -> pd.DataFrame:
    """Return Spearman's rho, in [-1, 1], of each layer's rewards with the final ones, by layer
    (from 1).

    rewards: (layers, replies), as from rewards_by_layer.
    """
    rho = [spearmanr(of_layer, rewards[-1]).statistic for of_layer in rewards]
    return pd.DataFrame({"layer": np.arange(1, len(rewards) + 1), "rho": rho})


def settled_layers(rewards: np.ndarray, near: float = NEAR) -> np.ndarray:
    """Return for each reply the layer (from 1) from which its rank stays near its final rank,
    (replies,) int.

    `near` is the largest distance of the two ranks, as a share of all replies. Rewards are (layers,
    replies).
    """
    ranks = rankdata(rewards, axis=1) / rewards.shape[1]
    stays = np.logical_and.accumulate((np.abs(ranks - ranks[-1]) <= near)[::-1])
    return len(rewards) - stays.sum(0) + 1
