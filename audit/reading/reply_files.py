"""Rewards of a reader's own replies: read a file of prompts or conversations, and write a table
of rewards.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from ..paper import (
    DATA,
    InputError,
    RewardModel,
    conversations,
    imports,
    replacing,
    templates,
    vocabulary,
    write_csv,
)
from . import by_layer

ORDINARY = DATA / "real_replies.csv"
# Columns of the output, beside which a reader's of the same name are renamed
OURS = ("context", "reward", "percentile", "margin", "preferred", "read", "input")
NOT_PASSED_ON = (
    "tools",
    "functions",
    "documents",
    "chat_template_kwargs",
    "enable_thinking",
    "system",
    "history",
    "system_prompt",
    "system_message",
)
EMPTY: tuple = (None, "", [], {})  # values that say nothing
ROLES = ("system", "developer", "user", "assistant", "tool")
SURROGATE = re.compile("[\ud800-\udfff]")  # half of a pair, which is no character
NO_TEXTS = (
    "has no texts prompt and reply, and no messages that end with a turn of the user and one of "
    f"the assistant (roles: {', '.join(ROLES)})"
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
    the whole text. InputError for an empty list, or if a reply is no text.
    """
    if not replies or not all(isinstance(reply, str) for reply in replies):
        raise InputError(
            f"replies must be a list of strings, with one or more in it, not {str(replies)[:40]!r}"
        )
    keys = [json.dumps(list(context)) for context in contexts]
    # which replies each context has: key -> (replies,) int
    all_numbers = pd.Series(range(len(keys)))
    numbers = all_numbers.groupby(keys, sort=False).indices
    given = [[replies[i] for i in some] for some in numbers.values()]
    distinct = [json.loads(key) for key in numbers]
    inputs = model.inputs_for_rows(distinct, given, bos)
    read = by_layer if model.layers else vocabulary
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
    read = [inputs.reply_ids[group] for group in inputs.group]
    whole = [inputs.prefix_ids + inputs.suffixes[group] for group in inputs.group]
    return pd.DataFrame(
        {
            "reward": rewards,
            "read": [
                " ".join(tokenizer.convert_ids_to_tokens(list(ids))) for ids in read
            ],
            "input": tokenizer.batch_decode(whole),
        }
    )


def score_file(
    model: RewardModel,
    file: Path,
    out: str | None = None,
    bos: str = "single",
) -> tuple[int, Path]:
    """Write the rewards of a file's replies as csv or parquet; return how many and the path.

    The output has the columns of the file, and OURS, which docs/own-models.md describes. A column
    of the file with such a name gets `_given` behind it. Percentiles are empty for a model that
    cannot read the good answers.
    """
    target = _target(model, file, out)
    template = (
        model.tokenizer.get_chat_template() if model.tokenizer.chat_template else ""
    )
    given = read_replies(file, {*NOT_PASSED_ON, *templates.names_read(template)})
    _report_control_tokens(model, file, given["reply"])
    with replacing(target) as part:
        part.touch()  # refused now if it cannot be written, and not once all is scored
        scored = _scored(model, given, bos)
        others = given.drop(columns=["context", "reply"])
        taken = {name: f"{name}_given" for name in others.columns if name in scored}
        table = others.rename(columns=taken).join(scored)
        if target.suffix.lower() == ".csv":
            write_csv(table, part)
        else:
            table.apply(_for_parquet).to_parquet(part)
    return len(table), target


def _target(model: RewardModel, file: Path, out: str | None) -> Path:
    """Return where the rewards go. InputError unless this is another .csv or .parquet file."""
    target = Path(out) if out else file.with_name(f"{file.stem}.{model.nickname}.csv")
    problem = ""
    if target.suffix.lower() not in (".csv", ".parquet"):
        problem = "is no .csv or .parquet file; name a file that ends in one of them"
    elif target.exists() and not target.is_file():
        problem = "is no .csv or .parquet file, but something else; name another file"
    elif target.exists() and file.exists() and target.samefile(file):
        problem = "holds the replies and would be overwritten; name another file"
    if problem:
        raise InputError(f"{target} {problem}: --out rewards.csv")
    return target


def _report_control_tokens(model: RewardModel, file: Path, replies: pd.Series) -> None:
    """Print a line if replies hold texts that the tokenizer reads as control tokens."""
    added = model.tokenizer.added_tokens_decoder.values()
    control = [token.content for token in added if token.special and token.content]
    held = [
        token for token in control if replies.str.contains(token, regex=False).any()
    ]
    if held:
        print(
            f"{file}: some replies hold {', '.join(held[:5])}, which the model reads as control "
            "tokens, not as text"
        )


def _scored(model: RewardModel, given: pd.DataFrame, bos: str) -> pd.DataFrame:
    """Return reply and OURS for a file's replies. given: as from read_replies."""
    contexts = list(map(json.loads, given["context"]))
    scored = score(model, contexts, given["reply"].tolist(), bos)
    rewards = scored["reward"].to_numpy()
    by_context = scored["reward"].groupby(given["context"], sort=False)
    scored.insert(
        2,
        "margin",
        by_context.transform(lambda some: margins(some.to_numpy())),
    )
    scored.insert(
        3,
        "preferred",
        by_context.transform(lambda some: preferred(some.to_numpy())),
    )
    good = _rewards_of_good_answers(model, bos)
    below = np.nan
    if len(good):
        below = (good < rewards[:, None]).mean(1)  # (replies,)
    scored.insert(4, "percentile", 100 * below)
    return scored


def _rewards_of_good_answers(model: RewardModel, bos: str) -> np.ndarray:
    """Return the rewards of the good answers in data/real_replies.csv, (20,); none for a model of
    few positions, which may read a file and no answer of usual length.
    """
    good = pd.read_csv(ORDINARY).query("version == 'good'")
    asked = [[{"role": "user", "content": prompt}] for prompt in good["prompt"]]
    try:
        scored = score(model, asked, good["reply"].tolist(), bos)
        return scored["reward"].to_numpy()
    except InputError:
        return np.empty(0)


def margins(rewards: np.ndarray) -> np.ndarray:
    """Return each reward minus the best other one, (replies,); NaN without another."""
    if len(rewards) < 2:
        return np.full(len(rewards), np.nan)
    second, first = np.sort(rewards)[-2:]
    is_best = np.arange(len(rewards)) == rewards.argmax()
    return rewards - np.where(is_best, second, first)


def preferred(rewards: np.ndarray) -> np.ndarray:
    """Return the mean of sigmoid(reward - other reward) for each reply, (replies,); NaN without
    another.

    It is the probability that this reply is preferred to another one (Bradley and Terry 1952).
    """
    if len(rewards) < 2:
        return np.full(len(rewards), np.nan)
    wins = expit(rewards[:, None] - rewards)  # (replies, others)
    return (wins.sum(1) - 0.5) / (len(rewards) - 1)


class Number(str):
    """A number of a jsonl as it stood there, so that it is written back like that."""


def _as_written(value: object, inside: bool = False) -> object:
    """Return a value of a row as it stood in the file, a text. inside: within a list or an
    object, with its quotes.
    """
    if isinstance(value, dict):
        fields = [
            f"{json.dumps(name)}: {_as_written(each, True)}"
            for name, each in value.items()
        ]
        return f"{{{', '.join(fields)}}}"
    if isinstance(value, list):
        return f"[{', '.join(str(_as_written(each, True)) for each in value)}]"
    is_plain = (
        isinstance(value, Number)
        or not inside
        and (value is None or isinstance(value, str))
    )
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def _for_parquet(column: pd.Series) -> pd.Series:
    """Return a column of one type: numbers if all values are numbers and none is rounded, else
    texts.
    """
    held = column.dropna()
    if (
        column.dtype == object
        and len(held)
        and all(isinstance(value, Number) for value in held)
    ):
        numbers = pd.to_numeric(column.astype("str"), errors="coerce")
        if numbers.dtype == "int64" or all(
            Decimal(value) == Decimal(repr(float(value))) for value in held
        ):
            return numbers
    return column.astype("str") if column.dtype == object else column


def read_replies(file: Path, unread: Collection[str] = NOT_PASSED_ON) -> pd.DataFrame:
    """Return a file's rows and columns, with `reply`, and with `context` (the turns before the
    reply, as JSON).

    A csv has columns prompt and reply. A row of jsonl has these fields, or `messages` that end with
    a turn of the user and one of the assistant. InputError names the first row that is not
    understood: nothing is left out or guessed. unread: fields that a template prints, and that are
    not passed on
    """
    try:
        if file.suffix.lower() == ".csv":
            rows: list[Any] = imports.csv_table(file).to_dict("records")
        else:
            rows = list(_jsonl_rows(file.read_text(encoding="utf-8-sig")))
    except (OSError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{file} cannot be read ({reason}); give a csv with columns prompt,reply or jsonl"
        ) from error
    turns = turns_of_rows(rows, f"{file}, ", unread)
    names = {name for row in rows for name in row}
    both = [name for name in OURS if {name, f"{name}_given"} <= names]
    problem = ""
    if not rows:
        problem = "holds no rows; give a csv with columns prompt,reply or a jsonl with messages"
    elif both:
        problem = f"has {both[0]} and {both[0]}_given, one column beside the rewards; rename one"
    if problem:
        raise InputError(f"{file} {problem}")
    table = [_columns(*each) for each in zip(rows, turns, strict=True)]
    return pd.DataFrame(table, dtype=object)


def _columns(row: dict, turns: conversations.Turns) -> dict[str, object]:
    """Return the columns of a row: its fields as they stood, prompt, context and reply."""
    columns = {}
    for name, value in row.items():
        if name not in ("messages", "reply"):
            columns["context_given" if name == "context" else name] = _as_written(value)
    columns.setdefault("prompt", turns[-2]["content"])
    columns["context"] = json.dumps(turns[:-1])
    columns["reply"] = turns[-1]["content"]
    return columns


def _jsonl_rows(text: str) -> Iterator[Any]:
    """Yield each row of a jsonl, with its numbers as they stood. ValueError if a field occurs
    twice.
    """

    def without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError(
                f"a field occurs twice among {', '.join(name for name, _ in pairs)}"
            )
        return dict(pairs)

    # not splitlines, which also cuts at characters that may stand in a JSON string
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            if line.strip():
                yield json.loads(
                    line,
                    parse_int=Number,
                    parse_float=Number,
                    parse_constant=Number,
                    object_pairs_hook=without_duplicates,
                )
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"line {number}: {str(error).partition(': line 1 ')[0]}"
            ) from error


def turns_of_rows(
    rows: Sequence[object],
    source: str = "",
    unread: Collection[str] = NOT_PASSED_ON,
) -> list[conversations.Turns]:
    """Return the turns of each row, the reply last. InputError names the first row that is not
    understood.
    """
    found: list[conversations.Turns] = []
    for number, row in enumerate(rows, start=1):
        turns = _turns_of(row) if isinstance(row, dict) else None
        if problem := _problem_of(row, turns, unread):
            raise InputError(f"{source}row {number} {problem}; correct it")
        found.append(
            [{"role": turn["role"], "content": turn["content"]} for turn in turns or ()]
        )
    return found


def _turns_of(row: dict) -> list[dict] | None:
    """Return the turns of a row as they stand there, the reply last; None if it has no such turns
    with texts.
    """
    turns = row.get("messages")
    if turns is None:
        turns = [
            {"role": "user", "content": row.get("prompt")},
            {"role": "assistant", "content": row.get("reply")},
        ]
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        return None
    roles = [turn.get("role") for turn in turns]
    texts = [turn.get("content") for turn in turns]
    has_texts = all(
        isinstance(text, str) and not isinstance(text, Number) for text in texts
    )
    is_known = all(role in ROLES for role in roles)
    ends_well = roles[-2:] == ["user", "assistant"]
    return turns if has_texts and is_known and ends_well else None


def _problem_of(row: object, turns: list[dict] | None, unread: Collection[str]) -> str:
    """Return why a row with these turns is not understood, the end of a sentence; "" if it is."""
    if not isinstance(row, dict):
        return NO_TEXTS
    held = [name for name in row if name in unread and row[name] not in EMPTY]
    if held:
        return f"has {held[0]}, which chat templates print and this command does not pass on"
    messages = row.get("messages")
    for turn in messages if isinstance(messages, list) else ():
        given = turn.items() if isinstance(turn, dict) else ()
        fields = {name for name, value in given if value not in EMPTY}
        if others := sorted(fields - {"role", "content"}):
            return (
                f"has a turn with {others[0]!r}, which a chat template may print; move it into "
                "content"
            )
    if turns is None:
        return NO_TEXTS
    asked = turns[-2]["content"]
    reply = turns[-1]["content"]
    if not asked.strip():
        return "has an empty prompt"
    for name, text in (("prompt", asked), ("reply", reply)):
        if row.get(name) not in (None, text):
            return f"has a {name} beside messages, and it is another one"
    written = json.dumps(row, ensure_ascii=False, default=str)
    if SURROGATE.search(written):
        return "has half of a surrogate pair, which is no character"
    return ""
