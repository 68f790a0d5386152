"""What a language model makes of replies: the hidden states that a reward model's head reads."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..models.heads import Head
from ..models.language_models import LanguageModel
from ..models.reward_models import RewardModel
from ..scoring.engine import score_replies


class States(Head):
    """In place of a head: the hidden states themselves."""

    def forward(self, hidden: Tensor, gate: None = None) -> Tensor:
        return hidden  # (n, d)


def with_head(base: LanguageModel, head: Head) -> RewardModel:
    """Return the reward model of this base and head, read where transformers' classes for
    decoders read.
    """
    return RewardModel(
        base.name,
        base.nickname,
        base.hub_id,
        base.revision,
        "linear",
        base.dtype,
        base.attention,
        base.device,
        base.tokenizer,
        base.model.base_model,
        head,
        "last_not_pad",
    )


def hidden_states(base: LanguageModel, prompt: str, replies: Sequence[str]) -> Tensor:
    """Return the state at the end of each reply to the prompt, (replies, d) float32. The prompt
    is read once.
    """
    return torch.from_numpy(score_replies(with_head(base, States()), prompt, replies))
