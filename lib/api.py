"""The library in a few names, for use outside this project: `import reward_model_values as rmv`."""

import difflib
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import pandas as pd

from . import InputError
from .models import reward_models
from .models.reward_models import Options, RewardModel
from .scoring import reply_files
from .scoring.engine import score_vocabulary
from .stats.rankings import ends

__all__ = ["InputError", "ends", "load", "score", "score_vocabulary"]


def load(
    name: str | Path, *, device: str | None = None, dtype: str | None = None, attention: str | None = None,
    head: str | None = None, read_at: str | None = None, closing: str | None = None, label: int | None = None,
    template: str | Path | None = None, revision: str | None = None, stream: bool | None = None,
    tokenizer: str | Path | None = None, **unknown: object,
) -> RewardModel:  # fmt: skip
    """Return the reward model of that nickname, hub id, folder or server (http://host:port), ready to score.

    The options are those of lib.models.reward_models.Options. InputError for an unknown option, and in one line with
    the remedy if the model does not exist, is not open, or is no reward model.

    >>> model = load("path/to/model", device="cpu")
    """
    known = [field.name for field in fields(Options)]
    for option in unknown:
        near = difflib.get_close_matches(option, known, 1)
        raise InputError(f"load has no option {option!r}; {f'write {near[0]}' if near else 'use ' + ', '.join(known)}")
    return reward_models.load(name, Options(device, dtype, attention, head, read_at, closing, label, template,
                                            revision, stream, tokenizer))  # fmt: skip


def score(
    model: RewardModel, prompts: str | Sequence, replies: Sequence[str] | None = None, bos: str = "single"
) -> pd.DataFrame:
    """Return a row for each reply: reply, reward (the model's own scale), read (the tokens that were read), input.

    `prompts` is one prompt for all replies, or one for each reply. Without `replies` it holds whole conversations:
    lists of turns with role and content, the reply last. InputError for lists of other lengths.

    >>> list(score(model, "What is best?", ["love", "freedom"]))
    ['reply', 'reward', 'read', 'input']
    >>> list(score(model, ["What is best?", "Why?"], ["love", "life"])["reply"])
    ['love', 'life']
    >>> user = {"role": "user", "content": "Why?"}
    >>> list(score(model, [[user, {"role": "assistant", "content": "life"}]])["reply"])
    ['life']
    """
    if replies is None:
        turns = []
        for number, conversation in enumerate(prompts, start=1):
            try:
                turns.append(reply_files.turns_of({"messages": conversation}))
            except ValueError as error:
                raise InputError(f"conversation {number} {error}; correct it") from error
        return reply_files.score(model, [each[:-1] for each in turns], [each[-1]["content"] for each in turns], bos)
    asked = [prompts] * len(replies) if isinstance(prompts, str) else list(prompts)
    if len(asked) != len(replies):
        raise InputError(f"{len(asked)} prompts and {len(replies)} replies are no rows; give one prompt for each reply")
    contexts = [[{"role": "user", "content": prompt}] for prompt in asked]
    return reply_files.score(model, contexts, list(replies), bos)
