"""Readers of whole conversations: encoders, whose head is part of the backbone and whose states
depend on all tokens.
"""

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from ..paper import RewardModel, conversations, reader

TYPES = "token_type_ids"


class WholeConversations(reader.Reader):
    """A prompt that is read again with each reply, by a model that is called for rewards."""

    def longest(self, config: PreTrainedConfig) -> int:
        return 0  # an encoder's states depend on all tokens

    def states(self, rows: reader.Rows, given: Tensor) -> Tensor:
        """Return the model's logits, (replies, labels), for ids or embeddings."""
        mask = torch.ones_like(rows.ids).to(self.model.device)
        others = {"attention_mask": mask}
        conversation = self.inputs.conversation
        if types := token_types(self.model, conversation, mask.shape[1]):
            others[TYPES] = torch.tensor([types]).to(mask).expand_as(mask)
        return self.call(given, **others).logits

    def read(self, rows: reader.Rows, states: Tensor) -> Tensor:
        return states[:, 0]


def token_types(
    model: RewardModel, conversation: conversations.Conversation, length: int
) -> list[int]:
    """Return the types that the tokenizer gives the tokens of a conversation of this length; []
    if it gives none, or if the model has one type alone.
    """
    tokenizer = model.tokenizer
    has_types = getattr(model.backbone.config, "type_vocab_size", 0) > 1
    if not has_types or TYPES not in tokenizer.model_input_names:
        return []
    reply = conversations.STAND_INS[0]
    texts = [conversation.prompt, reply]
    if tokenizer.chat_template:
        texts = [conversation.before + reply + conversation.after]
    types = tokenizer(*texts)[TYPES]
    # all tokens of the reply have one type
    before, after = len(conversation.prefix_ids), len(conversation.closing_ids)
    whole = types[:before] + [types[before]] * length
    return whole[: length - after] + types[len(types) - after :]
