"""Readers of whole conversations: encoders, whose head is part of the backbone and whose states
depend on all tokens.
"""

import torch
from torch import Tensor

from ..models.conversations import Ids
from ..models.reward_models import RewardModel
from .stages import Block, Scorer


class WholeConversations(Scorer):
    """A prompt that is read again with each reply, by a model that is called for rewards."""

    extends_prefix = False

    def _read_prompt(self) -> None:
        self.shares_prefix = False
        self.reason = "it is an encoder, whose states depend on all tokens"
        if self.computes_here:
            self._report_whole_reading()

    def _rewards(self, suffixes: Tensor, ids: Tensor | None = None) -> Tensor:
        """Return rewards, (n,), of suffixes that are ids, (n, length), or embeddings, (n, length,
        d).
        """
        whole = self._with_prefix(suffixes)
        [given] = whole.values()
        shape = given.shape[:2]
        mask = torch.ones(shape, dtype=torch.long, device=given.device)
        starts = [len(self.inputs.conversation.prefix_ids)] * len(suffixes)
        return _rewards_of(self.model, whole, mask, starts)

    @classmethod
    def can_pad(cls, model: RewardModel, block: Block) -> bool:
        return True


def rewards_of_padded(
    model: RewardModel,
    ids: Tensor,
    mask: Tensor,
    conversations: list[Ids],
) -> Tensor:
    """Return the rewards of padded conversations, (n,). The ids and their mask are (n, longest).

    conversations: the ids of each up to the reply.
    """
    starts = list(map(len, conversations))
    return _rewards_of(model, {"input_ids": ids}, mask, starts)


def _rewards_of(
    model: RewardModel,
    inputs: dict[str, Tensor],
    mask: Tensor,
    starts: list[int],
) -> Tensor:
    """Return the model's rewards, (n,). starts: at which token each reply begins."""
    given = inputs | {"attention_mask": mask}
    if getattr(model.backbone.config, "type_vocab_size", 0) > 1:
        positions = torch.arange(mask.shape[1], device=mask.device)
        first = torch.tensor(starts, device=mask.device)
        in_reply = positions >= first[:, None]
        given["token_type_ids"] = in_reply.long() * mask
    return model.backbone(**given).logits[:, 0]
