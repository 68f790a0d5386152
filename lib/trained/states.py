"""What a language model makes of replies: the hidden states that a reward model's head reads."""

from collections.abc import Sequence

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from .. import ROOT
from ..io import replacing, versions
from ..models.heads import Head
from ..models.language_models import LanguageModel
from ..models.reward_models import RewardModel
from ..scoring.vocabulary import score_inputs
from .saving import fingerprint

KEPT = ROOT / "data" / "cache" / "states"


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


def kept_states(base: LanguageModel, prompt: str, replies: Sequence[str]) -> Tensor:
    """Return the state at the end of each reply to the prompt, (replies, d) float32, from a file if
    an earlier call has written one.

    Its name is a hash of all that decides the states: weights, the ids that are read, versions.
    """
    model = with_head(base, States())
    inputs = model.inputs_for(prompt, replies)
    ids = [inputs.prefix_ids + inputs.suffixes[group] for group in inputs.group]
    made_from = fingerprint(base.revision, base.dtype, base.attention, ids, versions())
    file = KEPT / f"{made_from}.safetensors"
    try:
        return load_file(file)["states"]
    except (OSError, SafetensorError):  # there is none, or it was cut short
        pass
    [states] = map(torch.from_numpy, score_inputs(model, [inputs]))
    with replacing(file) as part:
        save_file({"states": states}, part)
    return states
