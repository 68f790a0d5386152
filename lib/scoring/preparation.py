"""Preparation: what the model reads for each reply, found once for all prompts and kept in a file for later runs.

Tokenizers cut at control tokens before all else. So the part of a conversation between the control tokens next to the
reply is read alike under every prompt (conversations.Between), and only the ids before it change.
"""

import hashlib
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ..io import hash_of_code, replacing
from ..models import conversations
from ..models.conversations import Ids, Inputs
from ..models.reward_models import RewardModel

COMPARED = 64  # replies that are prepared again, evenly spaced, to see that a kept preparation holds for this prompt
MANY = 20_000  # replies; fewer are prepared in less time than a file is worth


class Preparation:
    """The inputs of the same replies under any prompt.

    folder: where the inputs of MANY replies are kept, for later runs and other models of the tokenizer.
    """

    def __init__(
        self, model: RewardModel, replies: Sequence, folder: Path | None = None, *, reply_mode: str = "text",
        bos: str = "single",
    ) -> None:  # fmt: skip
        self.model, self.replies, self.how = model, replies, {"reply_mode": reply_mode, "bos": bos}
        self.first: Inputs | None = None  # of the prompt that was prepared in full
        is_kept = reply_mode == "text" and len(replies) >= MANY and model.tokenizer.is_fast
        self.file = folder / f".{self._key()}.inputs.npz" if folder and is_kept else None

    def inputs(self, prompt: str) -> Inputs:
        """Return the inputs of the replies to the prompt, as from RewardModel.inputs_for."""
        if self.first is None and self.file:
            self.first = self._read(self.file)
        inputs = self._under(prompt) if self.first else None
        if inputs is None:
            inputs = self.first = self.model.inputs_for(prompt, self.replies, **self.how)
            if self.file:
                _write(self.file, inputs)
        return inputs

    def _under(self, prompt: str) -> Inputs | None:
        """Return the first prompt's inputs with this prompt before them; None where some are read otherwise."""
        assert self.first is not None
        asked, conversation = self.first.conversation, self.model.conversation(prompt, self.how["bos"])
        length = len(asked.prefix_ids) - len(self.first.prefix_ids)  # ids before the reply that a suffix begins with
        end = len(conversation.prefix_ids) - length
        if conversation.prefix_ids[end:] != asked.prefix_ids[len(asked.prefix_ids) - length :]:
            return None
        inputs = replace(self.first, conversation=conversation, prefix_ids=conversation.prefix_ids[:end])
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

    # --- files ---

    def _key(self) -> str:
        """Return a hash of all that inputs are computed from, other than the prompt."""
        tokenizer, opened = self.model.tokenizer, self.model.after_reply
        code = hash_of_code(map(Path, (__file__, conversations.__file__)))
        parts = [code, version("tokenizers"), version("transformers"), tokenizer.chat_template, self.how["bos"]]
        digest = hashlib.sha256(repr([*parts, opened, self.model.gated, self.replies]).encode())
        digest.update(tokenizer.backend_tokenizer.to_str().encode())
        return digest.hexdigest()[:16]

    def _read(self, file: Path) -> Inputs | None:
        """Return the inputs that the file keeps; None if it is not there or damaged."""
        try:
            with np.load(file, allow_pickle=False) as kept:
                parts = {name: kept[name] for name in kept.files}
            conversation = self.model.conversation(str(parts["prompt"]), self.how["bos"])
            suffixes, reply_ids = (_cut(parts[name], parts[f"{name}_lengths"]) for name in ("suffixes", "reply_ids"))
            prefix_ids = conversation.prefix_ids[: int(parts["shared"])]
            return Inputs(conversation, prefix_ids, suffixes, reply_ids, parts["group"])
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None


def _write(file: Path, inputs: Inputs) -> None:
    parts: dict[str, Any] = {
        "prompt": inputs.conversation.prompt,
        "shared": len(inputs.prefix_ids),
        "group": inputs.group,
    }
    for name, each in (("suffixes", inputs.suffixes), ("reply_ids", inputs.reply_ids)):
        parts[name] = np.array([i for ids in each for i in ids], dtype=np.int32)
        parts[f"{name}_lengths"] = np.array(list(map(len, each)), dtype=np.int32)
    with replacing(file) as part, part.open("wb") as out:
        np.savez(out, **parts)


def _cut(ids: np.ndarray, lengths: np.ndarray) -> list[Ids]:
    """Return the ids in parts of these lengths."""
    ends, whole = np.cumsum(lengths).tolist(), ids.tolist()
    return [tuple(whole[end - length : end]) for end, length in zip(ends, lengths.tolist(), strict=True)]
