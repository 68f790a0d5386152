"""The library in a few names, for use outside this project: `import reward_model_values as rmv`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from .opening import open_model
from .paper import InputError, RewardModel, ends, score_vocabulary
from .reading import reply_files

__all__ = ["InputError", "ends", "load", "score", "score_vocabulary"]
INPUT_SHOWN = 30  # characters


class Model(RewardModel):
    """A reward model that scores replies by a method of its own."""

    def score(
        self,
        prompts: str | Sequence,
        replies: Sequence[str] | None = None,
        *,
        bos: str = "single",
        batch_size: int | None = None,
    ) -> pd.DataFrame:
        """Return a row for each reply, or for each whole conversation, as the function `score`
        does.
        """
        return score(self, prompts, replies, bos=bos, batch_size=batch_size)


def load(name: str | Path, **options: Any) -> Model:
    """Return the reward model of that nickname, hub id, folder or server (http://host:port), ready
    to score.

    The options are those of audit.opening.options.Options. InputError for an unknown option, and
    in one line with the remedy if the model does not exist, is not open, or is no reward model.

    >>> model = load("path/to/model", device="cpu")
    """
    return Model(**vars(open_model(name, **options)))


def score(
    model: RewardModel,
    prompts: str | Sequence,
    replies: Sequence[str] | None = None,
    *,
    bos: str = "single",
    batch_size: int | None = None,
) -> pd.DataFrame:
    """Return a row for each reply: reply, reward (the model's own scale), read (the tokens that
    were read), input.

    `input` is the end of the text that the model read, INPUT_SHOWN characters at most, so that a
    terminal shows a row in one line. A file of rewards (`make score REPLIES=...`) holds the whole
    text.

    `prompts` is one prompt for all replies, or one for each reply. Without `replies` it holds whole
    conversations: lists of turns with role and content, the reply last. `batch_size` is how many
    replies are read together at most; None takes as many as usual, which is quicker. InputError for
    lists of other lengths, and for what is no text.

    >>> list(score(model, "What is best?", ["love", "freedom"]))
    ['reply', 'reward', 'read', 'input']
    >>> list(score(model, ["What is best?", "Why?"], ["love", "life"])["reply"])
    ['love', 'life']
    >>> user = {"role": "user", "content": "Why?"}
    >>> list(model.score([[user, {"role": "assistant", "content": "life"}]])["reply"])
    ['life']
    """
    turns = reply_files.turns_of_rows(_rows(prompts, replies))
    if batch_size is not None and batch_size < 1:
        raise InputError(
            f"batch_size must be 1 or more, not {batch_size}; leave it out for the usual one"
        )
    size = batch_size or len(turns) or 1
    parts = []
    for start in range(0, max(1, len(turns)), size):
        some = turns[start : start + size]
        contexts = [each[:-1] for each in some]
        texts = [each[-1]["content"] for each in some]
        parts.append(reply_files.score(model, contexts, texts, bos))
    table = pd.concat(parts, ignore_index=True)
    is_long = table["input"].str.len() > INPUT_SHOWN
    end = "…" + table["input"].str[1 - INPUT_SHOWN :]
    shown = table["input"].mask(is_long, end)
    return table.assign(input=shown)


def _rows(prompts: str | Sequence, replies: Sequence[str] | None) -> list[dict]:
    """Return rows as a file has them. InputError for prompts and replies that are no rows."""
    if replies is None:
        return [{"messages": conversation} for conversation in prompts]
    asked = [prompts] * len(replies) if isinstance(prompts, str) else prompts
    if isinstance(replies, str) or len(asked) != len(replies):
        raise InputError(
            f"{len(asked)} prompts and {len(replies)} replies are no rows; give lists of one length"
        )
    return [
        {"prompt": prompt, "reply": reply}
        for prompt, reply in zip(asked, replies, strict=True)
    ]
