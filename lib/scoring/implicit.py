"""Implicit rewards: beta (log pi(y|x) - log p(y|x)) of a trained language model pi over its
reference p.

This is the reward that training on preferences optimises, up to a constant of the prompt (Rafailov
et al. 2023, arXiv 2305.18290, section 4). Each language model reads the prompt once, as a reward
model does.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .. import InputError
from ..models import conversations, language_models, shared_prefix
from ..models.conversations import Inputs
from ..models.files import refusing
from ..models.hardware import one_thread
from ..models.language_models import LanguageModel
from ..models.reward_models import RewardModel
from .agreement import CANNOT_SHARE
from .stages import Scorer

LOGITS = 2**25  # numbers in one batch of logits: 128 MB


class LogRatio(Scorer):
    """A prompt as both language models have read it: the log-ratio of every reply, in batches."""

    model: "ImplicitRewardModel"
    pads = False
    extends_prefix = False

    def __init__(
        self,
        model: "ImplicitRewardModel",
        inputs: Inputs,
        tokens_per_batch: int | None = None,
    ):
        rows = model.policy.model.get_output_embeddings().weight.shape[0]
        most = tokens_per_batch or max(64, LOGITS // rows)
        super().__init__(model, inputs, most)
        # Closing tokens are no part of the reply, but the first of them says that it has ended.
        closing = len(inputs.conversation.closing_ids)
        self.left_out = max(0, closing - model.ends)

    def _read_prompt(self) -> None:
        with torch.inference_mode(), one_thread(self.small):
            self.readers = [
                _Reader(each, self.inputs)
                for each in (self.model.policy, self.model.reference)
            ]

    def _shares(self, length: int) -> bool:
        # replies are no trees here: the logits after each token are needed
        return False

    def _rewards(self, suffixes: Tensor, ids: Tensor | None = None) -> Tensor:
        counted = suffixes.shape[1] - self.left_out
        policy, reference = (
            reader.log_probability(suffixes, counted) for reader in self.readers
        )
        return self.model.beta * (policy - reference)


class _Reader:
    """One language model that has read a prompt."""

    def __init__(self, model: LanguageModel, inputs: Inputs):
        self.model = model.model
        self.backbone = model.model.base_model
        self.length = len(inputs.prefix_ids)
        prefix_ids = inputs.conversation.prefix_ids
        ids = torch.tensor([prefix_ids], device=model.device)
        hidden, self.shared = shared_prefix.states_and_keys(
            self.backbone,
            ids,
            self.length,
        )
        # The first token of every suffix is predicted from the same position, so once for all of
        # them.
        logits = self._logits(hidden[self.length - 1])
        self.first = logits.log_softmax(-1)  # (rows,)
        # A suffix may begin with the end of the prompt, where some reply's text flows into it; that
        # part is no reply.
        states = hidden[self.length - 1 : -1]
        of_prompt = self._log_probabilities(states, ids[0, self.length :])
        self.of_prompt = of_prompt.sum()

    def log_probability(self, suffixes: Tensor, counted: int) -> Tensor:
        """Return the log-probability of the first `counted` tokens of each suffix, (n,) float32."""
        counted_ids = suffixes[:, :counted]
        first = counted_ids[:, :1]
        later = counted_ids[:, 1:]
        states = shared_prefix.states_after(
            self.backbone,
            self.length,
            self.shared,
            suffixes,
        )[:, : later.shape[1]]
        of_later = self._log_probabilities(states, later)
        of_first = self.first[first].sum(1)
        return of_first + of_later.sum(1) - self.of_prompt

    def _log_probabilities(self, states: Tensor, ids: Tensor) -> Tensor:
        """Return the log-probability of each id after the state before it, (..., tokens) like
        the ids.
        """
        logits = self._logits(states)
        of_ids = logits.gather(-1, ids[..., None])[..., 0]
        return of_ids - logits.logsumexp(-1)

    def _logits(self, states: Tensor) -> Tensor:
        logits = self.model.get_output_embeddings()(states).float()
        if cap := getattr(self.model.config, "final_logit_softcapping", None):
            # in place: nothing here is as large as the logits
            logits.div_(cap).tanh_().mul_(cap)
        return logits


@dataclass(frozen=True)
class ImplicitRewardModel(RewardModel):
    """Two language models as one reward model; `backbone` is the policy's.

    `beta` is the reward per nat. `ends` is 1 if the token that ends the reply counts, else 0.
    """

    # always given; fields before them have defaults
    policy: LanguageModel = None  # type: ignore[assignment]
    reference: LanguageModel = None  # type: ignore[assignment]
    beta: float = 1.0
    ends: int = 1


def load(
    name: str,
    reference: str,
    *,
    beta: float = 1.0,
    end: bool = True,
    device: str | None = None,
    dtype: str | None = None,
    attention: str | None = None,
    untrained: bool = False,
    load_one: Callable[..., LanguageModel] = language_models.load,
) -> ImplicitRewardModel:
    """Return the implicit reward model of a language model and the reference that it was trained
    from.

    Both are named as for language_models.load, and read the first one's chat template. `end` says
    whether the token that ends the reply counts. `untrained` accepts two equal models, as at the
    start of a training. `load_one` loads either model. InputError also for other vocabularies, and
    if an architecture computes its logits in an unknown way.
    """
    if not 1e-6 <= beta <= 1e6:
        raise InputError(f"beta must be a number from 1e-6 to 1e6, not {beta:g}")
    policy = load_one(name, device=device, dtype=dtype, attention=attention, tuned=True)
    before = load_one(reference, device=device, dtype=dtype, attention=attention)
    problem = _problem_of_pair(policy, before, untrained)
    if problem:
        raise InputError(f"{name} and {reference} have {problem}")
    model = ImplicitRewardModel(
        name=policy.name,
        nickname=policy.nickname,
        hub_id=policy.hub_id,
        revision=f"{policy.revision} over {before.revision}",
        head_name=f"implicit: {beta:g} (log policy - log "
        f"{before.nickname}){' with its end' if end else ''}",
        dtype=policy.dtype,
        attention=policy.attention,
        device=policy.device,
        tokenizer=policy.tokenizer,
        backbone=policy.model.base_model,
        head=None,
        read_at="reply",
        reader=LogRatio,
        policy=policy,
        reference=before,
        beta=beta,
        ends=int(end),
    )
    _refuse_unknown_logits(model)
    return model


def _problem_of_pair(
    policy: LanguageModel,
    before: LanguageModel,
    untrained: bool,
) -> str:
    """Return why two language models give no implicit reward, with the remedy; "" if they do."""
    if policy.tokenizer.get_vocab() != before.tokenizer.get_vocab():
        return (
            f"different vocabularies; name the language model that {policy.name} was "
            "trained from"
        )
    pairs = zip(policy.model.parameters(), before.model.parameters(), strict=False)
    are_equal = all(torch.equal(first, second) for first, second in pairs)
    if are_equal and not untrained:
        return "equal weights, so rewards are 0; name the model before training"
    return ""


@torch.inference_mode()
def _refuse_unknown_logits(model: ImplicitRewardModel) -> None:
    """Raise InputError unless log-probabilities computed here equal the results of the model's
    own forward pass.
    """
    inputs = conversations.inputs_for(
        model.tokenizer,
        "Which is better?",
        ["yes", "no"],
    )
    prefix = inputs.prefix_ids
    ids = inputs.suffixes[0]
    suffix = torch.tensor([ids], device=model.device)
    whole = torch.tensor([prefix + ids], device=model.device)
    for each in (model.policy, model.reference):
        # (suffix, rows)
        logits = (
            each.model(input_ids=whole, use_cache=False)
            .logits[0, len(prefix) - 1 : -1]
            .float()
        )
        of_suffix = logits.log_softmax(-1).gather(1, suffix.T)
        own = of_suffix.sum().item()
        problem = f"{each.name} computes its attention in a way that is not known here"
        unknown = refusing(
            problem,
            "give a model of another architecture",
            CANNOT_SHARE,
        )
        with unknown, one_thread(True):
            here = _Reader(each, inputs).log_probability(suffix, len(ids)).item()
        tolerance = 1e-3 if each.dtype == "float32" else 0.2
        if not np.isclose(here, own, rtol=0, atol=tolerance * len(ids)):
            raise InputError(
                f"{each.name} computes its logits in a way that is not known here; load it in "
                "float32"
            )
