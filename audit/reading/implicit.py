"""Implicit rewards: beta (log pi(y|x) - log p(y|x)) of a trained language model pi over its
reference p.

This is the reward that training on preferences optimises, up to a constant of the prompt (Rafailov
et al. 2023, arXiv 2305.18290, section 4). Each language model reads the prompt once, as a reward
model does.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from ..paper import InputError, RewardModel, conversations, language_models, reader

# of logits, in config.json
SCALES = ("logit_scale", "logits_scaling", "lm_head_multiplier", "logits_soft_cap")
LOGITS = 2**25  # numbers in one batch of logits: 128 MB


class LogRatio(reader.Reader):
    """A prompt as both language models have read it: the log-ratio of every reply, in batches."""

    model: "ImplicitRewardModel"

    def read_prompt(self) -> None:
        of_each = self.model.policy.model.get_output_embeddings().weight.shape[0]
        self.tokens = max(64, LOGITS // of_each)
        # Closing tokens are no part of the reply, but the first of them says that it has ended.
        closing = len(self.inputs.conversation.closing_ids)
        left_out = max(0, closing - 1)
        self.halves = []
        for each in (self.model.policy, self.model.reference):
            backbone = each.model.base_model
            wrapped = replace(self.model, backbone=backbone)
            half = LogProbability(wrapped, self.inputs, each, left_out)
            self.limit = min(self.limit, half.limit)
            self.halves.append(half)

    def rewards_of(self, rows: reader.Rows) -> Tensor:
        for half in self.halves:
            half.limit = self.limit
        policy, reference = (half.rewards_of(rows) for half in self.halves)
        return self.model.beta * (policy - reference)


class LogProbability(reader.Reader):
    """One language model that has read a prompt. left_out: closing tokens that do not count."""

    def __init__(
        self,
        model: RewardModel,
        inputs: conversations.Inputs,
        own: language_models.LanguageModel,
        left_out: int,
    ):
        self.own, self.left_out, self.of_prompt = own, 0, 0.0
        super().__init__(model, inputs)
        # A suffix may begin with the end of the prompt, where some reply's text flows into it; that
        # part is no reply.
        if flown := inputs.conversation.prefix_ids[self.length :]:
            self.of_prompt = float(self.rewards([flown])[0])
        self.left_out = left_out

    def read(self, rows: reader.Rows, states: Tensor) -> Tensor:
        """Return the log-probability of the counted tokens of each reply, (n,) float32."""
        # the prompt's last state, before each reply's first token, has number -1
        flat = torch.cat([states.flatten(0, 1), self.hidden[-1:].to(states)])
        start = 0 if self.limit else self.length  # of the reply in what is read
        before: list[int] = []
        counted: list[int] = []
        sizes = []
        for read, nodes in zip(rows.replies, rows.nodes, strict=True):
            end = len(read) - self.left_out
            before += [-1, *nodes][start:end]
            counted += read[start:end]
            sizes.append(end - start)
        # each state once, however many tokens follow it
        places, of_token = torch.tensor(before).unique(return_inverse=True)
        logits = self._logits(flat[places])
        totals = logits.logsumexp(-1)
        of_tokens = logits[of_token, torch.tensor(counted)] - totals[of_token]
        sums = [part.sum() for part in of_tokens.split(sizes)]
        return torch.stack(sums) - self.of_prompt

    def _logits(self, states: Tensor) -> Tensor:
        logits = self.own.model.get_output_embeddings()(states).float()
        if cap := getattr(self.own.model.config, "final_logit_softcapping", None):
            # in place: nothing here is as large as the logits
            logits.div_(cap).tanh_().mul_(cap)
        return logits


@dataclass(frozen=True)
class ImplicitRewardModel(RewardModel):
    """Two language models as one reward model; `backbone` is the policy's.

    `beta` is the reward per nat. The token that ends the reply counts.
    """

    # always given; fields before them have defaults
    policy: language_models.LanguageModel = None  # type: ignore[assignment]
    reference: language_models.LanguageModel = None  # type: ignore[assignment]
    beta: float = 1.0


def load(
    name: str,
    reference: str,
    *,
    beta: float = 1.0,
    load_one: Callable[..., language_models.LanguageModel] = language_models.load,
    **options: str,
) -> ImplicitRewardModel:
    """Return the implicit reward model of a language model and the reference that it was trained
    from.

    Both are named as for language_models.load, get its options, and read the first one's chat
    template. `load_one` loads either model. InputError also for other vocabularies, and if an
    architecture scales its logits.
    """
    policy = load_one(name, tuned=True, **options)
    before = load_one(reference, **options)
    if policy.tokenizer.get_vocab() != before.tokenizer.get_vocab():
        raise InputError(
            f"{name} and {reference} have different vocabularies; name the language model that "
            f"{name} was trained from"
        )
    if scale := scale_of_logits(policy.model.config):
        raise InputError(f"{name} scales its logits ({scale}), which is not known here")
    return ImplicitRewardModel(
        name=policy.name,
        nickname=policy.nickname,
        hub_id=policy.hub_id,
        revision=f"{policy.revision} over {before.revision}",
        head_name=f"implicit: {beta:g} (log policy - log {before.nickname}) with its end",
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
    )


def scale_of_logits(config: PreTrainedConfig) -> str:
    """Return the field of config.json by which an architecture scales its logits; "" for none."""
    scales = [name for name in SCALES if getattr(config, name, None) not in (None, 1)]
    return "".join(scales[:1])
