"""Why do the rewards of another program differ? Try what it may have done, and name what reproduces
every reward.

search.py tries hypotheses with one cause; precision.py tells rounding from other causes. A cause is
named only if it reproduces every reward.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..paper import InputError, RewardModel, display, loading, registry
from ..reading import reply_files
from .feeds import Feeds
from .numbers import Number
from .other_weights import other_weights
from .precision import fits_of_rounding, format_of, printed_to
from .readings import Array, Reader, open_reader
from .search import Search

FEWEST = 3  # texts from which something can be told
MOST_SHOWN = 40  # rows that are printed, those furthest apart


@dataclass(frozen=True)
class Answer:
    """Why rewards differ. code: 0 if they are equal, 1 if a cause is named, 2 if none fits."""

    code: int
    line: str
    # a row for each text: prompt, reply, theirs, here, and with the cause
    table: pd.DataFrame


# --- the answer -----------------------------------------------------------------------------------


def explain(
    name: str,
    rows: pd.DataFrame,
    *,
    bos: str = "single",
    label: int | None = None,
    **options: Any,
) -> Answer:
    """Return why these rewards differ from the model's.

    - rows: context and reply, as from reply_files.read_replies, and `printed`, the other program's
      rewards as texts
    - bos, label and the options are as for scoring
    """
    given = {} if registry.is_served(name) else {"dtype": "float32"}
    given |= {option: value for option, value in options.items() if value is not None}
    reader = open_reader(name, label, given)
    search, printed = search_for(reader, rows, bos, label or 0)
    here = Number(None, search.here)
    fits = search.fits(reader, search.base)
    if any(fit.cause is None for fit in fits):
        line = f"Equal: the other program's rewards are those that are scored here ({printed})."
        return Answer(0, line, table_of(search, here))
    if (search.theirs == 1).all():
        line = (
            "It applied the softmax to a single output, which always gives 1. -> switch the "
            "activation off there."
        )
        return Answer(1, line, table_of(search, here))
    # what was fed and the weights come before what became of the number
    fits = search.run(other_weights(name, label, reader, given)) + fits
    fits = fits or search.run_counted()
    if not fits and reader.model.dtype == "float32":
        fits = fits_of_rounding(search, printed)
    if not fits:
        line = (
            "None fits: no single cause gives every reward. If the other program computes in half "
            "precision, say --dtype bfloat16, in which causes are then tried."
        )
        return Answer(2, line, table_of(search, here))
    first, *others = sorted(fits, key=lambda fit: fit.free)
    return Answer(1, named(first, others), table_of(search, first))


def search_for(
    reader: Reader, rows: pd.DataFrame, bos: str, label: int
) -> tuple[Search, str]:
    """Return the search for the causes of these rewards, and the format of their numbers. For the
    arguments see `explain`.
    """
    contexts = map(json.loads, rows["context"])
    replies = rows["reply"].tolist()
    turns = [
        [*context, {"role": "assistant", "content": reply}]
        for context, reply in zip(contexts, replies, strict=True)
    ]
    theirs = rows["printed"].astype(float).to_numpy()
    slack = printed_to(rows["printed"].tolist())
    printed, step = format_of(theirs, slack)
    feeds = Feeds(reader.model, turns, bos)
    lengths = lengths_of(reader.model, replies)
    with loading.refusing(*reply_files.UNREADABLE):
        return Search(reader, feeds, theirs, slack + step, lengths, label), printed


def lengths_of(model: RewardModel, replies: list[str]) -> dict[str, Array]:
    """Return how long replies are, unit -> (n,)."""
    ids = model.tokenizer(replies, add_special_tokens=False)["input_ids"]
    words = map(str.split, replies)
    units = {"tokens": ids, "words": words, "characters": replies}
    return {unit: np.array([*map(len, parts)]) for unit, parts in units.items()}


def named(first: Number, others: list[Number]) -> str:
    """Return the line that names a cause, and others that give the same numbers as simply."""
    assert first.cause is not None
    line = f"It {first.cause.text}. -> {first.cause.remedy}."
    same = [fit.cause.text for fit in others if fit.cause and fit.free == first.free]
    different = [text for text in dict.fromkeys(same) if text != first.cause.text]
    if different:
        line += f" The same numbers come from: {'; '.join(different)}."
    return line


def table_of(search: Search, explained: Number) -> pd.DataFrame:
    """Return the rewards of each text: the other program's, those here, and with the cause."""
    turns = search.feeds.turns
    return pd.DataFrame(
        {
            "prompt": [conversation[-2]["content"] for conversation in turns],
            "reply": [conversation[-1]["content"] for conversation in turns],
            "theirs": search.theirs,
            "here": search.here,
            "with the cause": explained.predicted,
        }
    )


def read_rewards(file: Path) -> pd.DataFrame:
    """Return the rows of a file with texts and rewards, as `explain` takes them. InputError if
    there are none.
    """
    rows = reply_files.read_replies(file)
    named = [name for name in ("reward", "score") if name in rows]
    if len(named) != 1:
        raise InputError(
            f"{file} has no column reward or score, or both; name the rewards so"
        )
    printed = rows[named[0]].astype(str).str.strip()
    is_number = np.isfinite(pd.to_numeric(printed, errors="coerce"))
    if not is_number.all():
        number = int(np.flatnonzero(~is_number)[0]) + 1
        raise InputError(
            f"{file}, row {number}: the reward {printed.iloc[number - 1]!r} is no number; correct "
            "it"
        )
    texts = len(rows.drop_duplicates(["context", "reply"]))
    if texts < FEWEST:
        raise InputError(
            f"{file} has {texts} different texts, from which nothing can be told; give ten, or "
            "better thirty"
        )
    return rows.assign(printed=printed)


def why(name: str, rewards: str, **options: Any) -> int:
    """Print why another program's rewards, in a file, differ from the model's. Return the code
    of the answer.
    """
    answer = explain(name, read_rewards(Path(rewards)), **options)
    print(answer.line, "", "The rewards that are furthest apart:", sep="\n")
    print(as_text(answer.table))
    return answer.code


def as_text(table: pd.DataFrame) -> str:
    """Return the rows that are furthest apart as a table to print."""
    apart = (table["theirs"] - table["here"]).abs()
    shown = table.loc[apart.nlargest(MOST_SHOWN).index]
    texts = shown[["prompt", "reply"]].map(
        lambda text: display.show_token(text, 30).replace("␣", " ")
    )
    readable = shown.assign(**texts)
    return readable.to_string(index=False, float_format="{:.5g}".format)
