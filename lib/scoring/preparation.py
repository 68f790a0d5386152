"""Preparation: what the model reads for each reply, found once for all prompts.

Tokenizers cut at control tokens before all else. So the part of a conversation between the control tokens next to the
reply is read alike under every prompt (conversations.Between), and only the ids before it change.
"""

from collections.abc import Sequence
from dataclasses import replace

from ..models import conversations
from ..models.conversations import Inputs
from ..models.reward_models import RewardModel

COMPARED = 64  # replies that are prepared again, evenly spaced, to see that a preparation holds for another prompt


class Preparation:
    """The inputs of the same replies under any prompt."""

    def __init__(self, model: RewardModel, replies: Sequence, *, reply_mode: str = "text", bos: str = "single") -> None:
        self.model, self.replies, self.how = model, replies, {"reply_mode": reply_mode, "bos": bos}
        self.first: Inputs | None = None  # of the prompt that was prepared in full

    def inputs(self, prompt: str) -> Inputs:
        """Return the inputs of the replies to the prompt, as from RewardModel.inputs_for."""
        inputs = self._under(prompt, self.first) if self.first else None
        if inputs is None:
            inputs = self.first = self.model.inputs_for(prompt, self.replies, **self.how)
        return inputs

    def _under(self, prompt: str, first: Inputs) -> Inputs | None:
        """Return another prompt's inputs with this prompt before them; None where some are read otherwise."""
        asked, conversation = first.conversation, self.model.conversation(prompt, self.how["bos"])
        length = len(asked.prefix_ids) - len(first.prefix_ids)  # ids before the reply that a suffix begins with
        end = len(conversation.prefix_ids) - length
        if conversation.prefix_ids[end:] != asked.prefix_ids[len(asked.prefix_ids) - length :]:
            return None
        inputs = replace(first, conversation=conversation, prefix_ids=conversation.prefix_ids[:end])
        some = range(0, len(self.replies), -(-len(self.replies) // COMPARED))
        again = self.model.inputs_for(prompt, [self.replies[i] for i in some], **self.how)
        expected = [again.prefix_ids + again.suffixes[group] for group in again.group]
        same = [inputs.prefix_ids + inputs.suffixes[inputs.group[i]] for i in some] == expected
        return inputs if same and self._around_reply(prompt) == self._around_reply(asked.prompt) else None

    def _around_reply(self, prompt: str) -> tuple:
        """Return what the reply is read together with; the prompt itself where that cannot be said."""
        tokenizer = self.model.tokenizer
        plain = conversations.open_conversation(tokenizer, prompt, self.how["bos"])
        if self.how["reply_mode"] == "ids":
            return plain.closing_ids
        between = conversations.between_control_tokens(tokenizer, plain)
        return (between.opening, between.opening_ids, between.after, between.after_ids) if between else (prompt,)
