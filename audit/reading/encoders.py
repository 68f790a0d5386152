"""Readers of whole conversations: encoders, whose head is part of the backbone and whose states
depend on all tokens.
"""

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from ..paper import reader


class WholeConversations(reader.Reader):
    """A prompt that is read again with each reply, by a model that is called for rewards."""

    def longest(self, config: PreTrainedConfig) -> int:
        return 0  # an encoder's states depend on all tokens

    def states(self, rows: reader.Rows, given: Tensor) -> Tensor:
        """Return the model's logits, (replies, labels), for ids or embeddings."""
        mask = torch.ones_like(rows.ids).to(self.model.device)
        others = {"attention_mask": mask}
        if getattr(self.stage.config, "type_vocab_size", 0) > 1:
            before = len(self.inputs.conversation.prefix_ids)
            others["token_type_ids"] = (mask.cumsum(1) > before).long()
        return self.call(given, **others).logits

    def read(self, rows: reader.Rows, states: Tensor) -> Tensor:
        return states[:, 0]
