"""Rewards of a reader's own replies: read a file of prompts or conversations, and write a table
of rewards.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from ..paper import (
    InputError,
    RewardModel,
    conversations,
    imports,
    loading,
    replacing,
    vocabulary,
    write_csv,
)
from . import by_layer

# fields of a row that chat templates print
NOT_PASSED_ON = ("tools", "functions", "documents", "system", "system_prompt")
EMPTY: tuple = (None, "", [], {})  # values that say nothing
ROLES = ("system", "developer", "user", "assistant", "tool")
# what is said where a model's code ends in an error, and the remedy
UNREADABLE = (
    "the model cannot read these texts",
    "leave out those that are longer than its positions, or cut them",
)


def score(
    model: RewardModel,
    contexts: Sequence[conversations.Turns],
    replies: Sequence[str],
    bos: str = "single",
) -> pd.DataFrame:
    """Return a row for each reply to its context: columns reply, reward (the model's own scale),
    read, input.

    A context is a list of turns that ends with one of the user. `read` holds the tokens of the
    reply that the model read, with blanks between them (a chat template trims replies), and `input`
    the whole text.
    """
    keys = [json.dumps(list(context)) for context in contexts]
    # which replies each context has: key -> (replies,) int
    all_numbers = pd.Series(range(len(keys)))
    numbers = all_numbers.groupby(keys, sort=False).indices
    given = [[replies[i] for i in some] for some in numbers.values()]
    distinct = [json.loads(key) for key in numbers]
    inputs = [
        model.inputs_for(context, some, bos=bos)
        for context, some in zip(distinct, given, strict=True)
    ]
    read = by_layer if model.layers else vocabulary
    with loading.refusing(*UNREADABLE):
        rewards = read.score_inputs(model, inputs)
    parts = [_rows(model, *each) for each in zip(inputs, rewards, strict=True)]
    # of the replies, context after context
    order = np.concatenate(list(numbers.values()))
    table = pd.concat(parts).set_index(order).sort_index()
    table.insert(0, "reply", list(replies))
    return table


def _rows(
    model: RewardModel, inputs: conversations.Inputs, rewards: np.ndarray
) -> pd.DataFrame:
    """Return reward, read and input for the replies to one context."""
    tokenizer = model.tokenizer
    read = [list(inputs.reply_ids[group]) for group in inputs.group]
    whole = [inputs.prefix_ids + inputs.suffixes[group] for group in inputs.group]
    return pd.DataFrame(
        {
            "reward": rewards,
            "read": [" ".join(tokenizer.convert_ids_to_tokens(ids)) for ids in read],
            "input": tokenizer.batch_decode(whole),
        }
    )


def score_file(
    model: RewardModel,
    file: Path,
    out: str | None = None,
    bos: str = "single",
) -> tuple[int, Path]:
    """Write the rewards of a file's replies as csv; return how many and the path.

    The output has the columns of the file, and those that docs/own-models.md describes. A column of
    the file with such a name gets `_given` behind it.
    """
    target = Path(out) if out else file.with_name(f"{file.stem}.{model.nickname}.csv")
    given = read_replies(file)
    with writing(target, file) as part:
        contexts = list(map(json.loads, given["context"]))
        scored = score(model, contexts, given["reply"].tolist(), bos)
        by_context = scored["reward"].groupby(given["context"])
        scored.insert(2, "margin", by_context.transform(margins))
        scored.insert(3, "preferred", by_context.transform(preferred))
        others = given.drop(columns=["context", "reply"])
        others = others.rename(columns={name: f"{name}_given" for name in scored})
        write_csv(others.join(scored), part)
    return len(given), target


@contextmanager
def writing(target: Path, *inputs: Path) -> Iterator[Path]:
    """Yield where to write the csv of a run, see replacing. InputError, before anything is scored,
    if it cannot be written, is no csv, or is one of the inputs, also by a link.
    """
    is_input = target.exists() and any(map(target.samefile, inputs))
    if is_input or target.suffix != ".csv":
        raise InputError(f"results cannot go into {target}; name a csv: --out new.csv")
    with replacing(target) as part:
        part.touch()
        yield part


def margins(rewards: pd.Series) -> np.ndarray:
    """Return each reward minus the best other one, (replies,); NaN without another."""
    if len(rewards) < 2:
        return np.full(len(rewards), np.nan)
    second, first = np.sort(rewards)[-2:]
    is_best = np.arange(len(rewards)) == np.argmax(rewards)
    return rewards - np.where(is_best, second, first)


def preferred(rewards: pd.Series) -> np.ndarray:
    """Return the mean of sigmoid(reward - other reward) for each reply, (replies,); NaN without
    another.

    It is the probability that this reply is preferred to another one (Bradley and Terry 1952).
    """
    if len(rewards) < 2:
        return np.full(len(rewards), np.nan)
    wins = expit(np.subtract.outer(rewards.to_numpy(), rewards.to_numpy()))
    return (wins.sum(1) - 0.5) / (len(rewards) - 1)


def read_replies(file: Path) -> pd.DataFrame:
    """Return a file's rows and columns, with `prompt` and `reply`, and with `context` (the turns
    before the reply, as JSON).

    A csv has columns prompt and reply. A row of jsonl has these fields, or `messages` that end with
    a turn of the user and one of the assistant. Numbers are texts, as they stood. InputError names
    the first row that is not understood: nothing is left out or guessed.
    """
    with loading.refusing(
        f"{file} cannot be read", "give a csv with columns prompt,reply or jsonl"
    ):
        if file.suffix.lower() == ".csv":
            rows = imports.csv_table(file).to_dict("records")
        else:
            # not splitlines, which also cuts at characters that may stand in a JSON string
            lines = file.read_text(encoding="utf-8-sig").split("\n")
            as_text = {"parse_int": str, "parse_float": str}
            rows = [json.loads(line, **as_text) for line in lines if line.strip()]
    turns = turns_of_rows(rows, f"{file}, ")
    table = pd.DataFrame(rows, dtype=object).rename(
        columns={"context": "context_given"}
    )
    return table.drop(columns="messages", errors="ignore").assign(
        prompt=[each[-2]["content"] for each in turns],
        context=[json.dumps(each[:-1]) for each in turns],
        reply=[each[-1]["content"] for each in turns],
    )


def turns_of_rows(
    rows: Sequence[object], source: str = ""
) -> list[conversations.Turns]:
    """Return the turns of each row, the reply last. InputError names the first row that is not
    understood.
    """
    found: list[conversations.Turns] = []
    for number, row in enumerate(rows, start=1):
        turns = _turns_of(row)
        if problem := _problem_of(row, turns):
            raise InputError(f"{source}row {number} {problem}; correct it")
        found.append(
            [{"role": turn["role"], "content": turn["content"]} for turn in turns]
        )
    return found


def _turns_of(row: object) -> list[dict]:
    """Return the turns of a row as they stand there, the reply last; none if it has no such turns
    with texts.
    """
    if not isinstance(row, dict):
        return []
    pair = [
        {"role": "user", "content": row.get("prompt")},
        {"role": "assistant", "content": row.get("reply")},
    ]
    turns = row.get("messages") or pair
    are_turns = all(
        isinstance(turn, dict)
        and turn.get("role") in ROLES
        and isinstance(turn.get("content"), str)
        for turn in turns
    )
    if not are_turns or [turn["role"] for turn in turns[-2:]] != ["user", "assistant"]:
        return []
    return turns


def _problem_of(row: object, turns: list[dict]) -> str:
    """Return why a row with these turns is not understood, the end of a sentence; "" if it is."""
    if not isinstance(row, dict) or not turns:
        return (
            "has no texts prompt and reply, and no messages that end with a turn of the user and "
            f"one of the assistant (roles: {', '.join(ROLES)})"
        )
    held = [name for name in NOT_PASSED_ON if row.get(name) not in EMPTY]
    for turn in turns:
        held += [name for name in turn if turn[name] not in EMPTY]
    others = [name for name in held if name not in ("role", "content")]
    if others:
        return f"has {others[0]}, which chat templates print and this does not pass on"
    return ""
