"""Rewards of a reader's own replies: read a file of prompts or conversations, and write a table of rewards."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd

from .. import InputError
from ..io import replacing
from ..models.reward_models import RewardModel
from ..tables.exports import write_csv
from .engine import score_replies

ROLES = ("system", "user", "assistant")
Turns = list[dict[str, str]]


def score(model: RewardModel, prompt: str, replies: list[str], bos: str = "single") -> pd.DataFrame:
    """Return the reward of each reply to the prompt: columns reply, reward (the model's own scale), read.

    read: the tokens of the reply that the model read, with blanks between them. They may differ from the reply, since a
    chat template trims it. InputError for an empty list, or for replies that are not texts.
    """
    inputs = model.inputs_for(prompt, replies, bos=bos)
    tokens = [model.tokenizer.convert_ids_to_tokens(list(inputs.reply_ids[group])) for group in inputs.group]
    rewards = score_replies(model, prompt, replies, bos=bos)
    return pd.DataFrame({"reply": list(replies), "reward": rewards, "read": [" ".join(read) for read in tokens]})


def within(model: RewardModel, turns: Turns) -> RewardModel:
    """Return the model as it reads a prompt and a reply that come after these turns (system, user, assistant).

    InputError for an encoder, which reads only a prompt and a reply. InputError also for turns of user or assistant if
    the head has a gate, because the gate reads where the user's turn ends.
    """
    if not turns:
        return model
    if model.gated and any(turn["role"] != "system" for turn in turns):
        raise InputError(f"the gate of {model.name} reads where the user's one turn ends; give the last turn alone")
    if not model.tokenizer.chat_template:
        raise InputError(f"{model.name} reads pairs of a prompt and a reply; give no system turn and no earlier turns")
    tokenizer = copy.copy(model.tokenizer)
    tokenizer.apply_chat_template = partial(_after, tokenizer.apply_chat_template, turns)
    return replace(model, tokenizer=tokenizer)


def _after(apply_template: Callable, turns: Turns, conversations: list, **options: object) -> str | list[str]:
    if isinstance(conversations[0], dict):
        return apply_template([*turns, *conversations], **options)
    return apply_template([[*turns, *conversation] for conversation in conversations], **options)


def score_file(model: RewardModel, file: Path, out: str | None = None, bos: str = "single") -> tuple[int, Path]:
    """Write the rewards of a file's replies as csv or parquet; return how many and the path.

    The output has the columns of the file, and these:
    - reward
    - margin: the reward minus the reward of the best other reply to the same prompt; empty if there is none
    - read: the tokens of the reply that the model read
    - input: the whole text that the model read
    """
    target = Path(out) if out else file.with_name(f"{file.stem}.{model.nickname}.csv")
    if target.suffix not in (".csv", ".parquet"):
        raise InputError(f"{target} is no .csv and no .parquet; name a file that ends in one of them: OUT=rewards.csv")
    given = read_replies(file)
    parts = []
    for context, rows in given.groupby("context", sort=False):
        *turns, asked = json.loads(str(context))
        reader, replies = within(model, turns), rows["reply"].tolist()
        ids = reader.encode(reader.conversation(asked["content"], bos), replies)
        scored = score(reader, asked["content"], replies, bos).set_index(rows.index)
        scored.insert(2, "margin", scored["reward"] - _best_other(scored["reward"]))
        parts.append(scored.assign(input=reader.tokenizer.batch_decode(ids)))
    table = given.drop(columns=["context", "reply"]).join(pd.concat(parts), suffixes=("_given", None))
    if target.suffix == ".csv":
        return len(table), write_csv(table, target)
    with replacing(target) as part:
        table.to_parquet(part)
    return len(table), target


def _best_other(rewards: pd.Series) -> pd.Series:
    """Return for each reward the largest of the others; NaN where there is no other."""
    first, second = (rewards.nlargest(2).tolist() + [float("nan")] * 2)[:2]
    return pd.Series(first, rewards.index).where(rewards.index != rewards.idxmax(), second)


def read_replies(file: Path) -> pd.DataFrame:
    """Return a file's rows and columns, with `reply`, and with `context` (the turns before the reply, as JSON).

    A csv has columns prompt and reply. A row of jsonl has these fields or `messages`, a list of turns with role and
    content. The last turn must be the assistant's reply, and the turn before it the user's. InputError names the first
    invalid row.
    """
    try:
        if file.suffix == ".csv":
            rows = pd.read_csv(file, dtype=str, keep_default_na=False).to_dict("records")
        else:
            rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read ({error}); give a csv with columns prompt,reply or a jsonl") from error
    if not rows:
        raise InputError(f"{file} holds no rows; give a csv with columns prompt,reply or a jsonl with messages")
    table = []
    for number, row in enumerate(rows, start=1):
        turns = _turns_of(row)
        if turns is None:
            raise InputError(
                f"{file}, row {number} has no texts prompt and reply, and no messages that end with a turn of the user "
                f"and one of the assistant (roles: {', '.join(ROLES)}); correct it"
            )
        others = {name: value for name, value in row.items() if name not in ("messages", "reply")}
        others.setdefault("prompt", turns[-2]["content"])
        table.append(others | {"context": json.dumps(turns[:-1]), "reply": turns[-1]["content"]})
    return pd.DataFrame(table)


def _turns_of(row: object) -> Turns | None:
    """Return the turns of a row, the reply last; None if they cannot be read."""
    if not isinstance(row, dict):
        return None
    turns = row.get("messages")
    if turns is None:
        turns = [{"role": "user", "content": row.get("prompt")}, {"role": "assistant", "content": row.get("reply")}]
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        return None
    turns = [{"role": turn.get("role"), "content": turn.get("content")} for turn in turns]
    known = all(turn["role"] in ROLES and isinstance(turn["content"], str) for turn in turns)
    return turns if known and [turn["role"] for turn in turns[-2:]] == ["user", "assistant"] else None
