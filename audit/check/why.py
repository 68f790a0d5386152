"""Why do the rewards of another program differ? Try what it may have done, and name what reproduces
every reward.

search.py tries hypotheses with one cause; precision.py tells rounding from other causes. A cause is
named only if it reproduces every reward.
"""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..paper import (
    InputError,
    RewardModel,
    checkpoints,
    display,
    registry,
    reward_models,
)
from ..reading import reply_files
from .feeds import Feeds
from .numbers import Given
from .other_weights import other_weights
from .precision import format_of, in_half_precision, printed_to, with_rounded_weights
from .readings import TOLERANCES, Array, Reader, config_in_file, open_reader, usual
from .search import Fit, Search
from .sources import Cause

# of the largest reward: what sums of float32 in another order may differ by
ROUNDING = 2e-6
FEWEST = 3  # texts from which something can be told
NEAREST = 0.8  # share of the difference from which the nearest cause is named
MOST_SHOWN = 40  # rows that are printed, those furthest apart
REWARDS = ("reward", "rewards", "score", "scores")  # names of the column


@dataclass(frozen=True)
class Answer:
    """Why rewards differ. causes: none if they are equal; `fits` is False if none fits, and they
    are the nearest.
    """

    model: str
    causes: tuple[Cause, ...]
    fits: bool
    explained: float  # share of the mean difference from what is scored here
    precision: str
    same: list[str]  # other hypotheses of equally many causes that fit as well
    # a row for each text: prompt, reply, theirs, here, with the causes, left over
    table: pd.DataFrame

    @property
    def code(self) -> int:
        """Return 0 if rewards are equal, 1 if a cause is named, 2 if none fits."""
        if not self.fits:
            return 2
        return int(bool(self.causes))

    @property
    def line(self) -> str:
        """Return the answer in one line."""
        named = ", and it ".join(cause.text for cause in self.causes)
        if not self.fits:
            nearest = ""
            if self.causes and self.explained >= NEAREST:
                nearest = f" Nearest: it {named} explains {self.explained:.0%} of the difference."
            return f"None fits: no cause gives every reward.{nearest}"
        if not self.causes:
            return (
                "Equal: the other program's rewards are those that are scored here "
                f"({self.precision})."
            )
        also = (
            f" The same numbers come from: {'; '.join(self.same[:3])}."
            if self.same
            else ""
        )
        different = dict.fromkeys(cause.remedy for cause in self.causes)
        remedies = "; ".join(different)
        return f"It {named}. -> {remedies}.{also}"

    def as_json(self) -> str:
        """Return the answer as JSON."""
        causes = [{"text": cause.text, "remedy": cause.remedy} for cause in self.causes]
        about = {
            "model": self.model,
            "verdict": ("equal", "named", "none fits")[self.code],
            "code": self.code,
            "line": self.line,
            "causes": causes,
            "same": self.same,
            "explained": self.explained,
            "precision": self.precision,
            "rows": self.table.to_dict("records"),
        }
        return json.dumps(about, indent=2)


# --- the answer -----------------------------------------------------------------------------------


def explain(
    name: str,
    rows: pd.DataFrame,
    *,
    bos: str = "single",
    template: str | None = None,
    label: int | None = None,
    **options: Any,
) -> Answer:
    """Return why these rewards differ from the model's.

    - rows: context and reply, as from reply_files.read_replies, and `printed`, the other program's
      rewards as texts
    - bos, label and the options are as for scoring; template is a file with a chat template that is
      tried too
    """
    reader, given = open_with_template(name, label, template, options)
    slack = printed_to(rows["printed"].tolist())
    printed, step = format_of(rows["printed"].astype(float).to_numpy(), slack)
    search = search_for(reader, rows, slack + step, label or 0, bos, template)
    here = usual(reader, search.base)[:, search.label]
    answer = partial(_answer, reader.model.nickname, rows, here)
    if search.is_equal():
        return answer(search.fits, printed)
    if one := softmax_of_one(search.given.theirs, here):
        return answer([one], printed)
    others = list(other_weights(name, label, reader, given))
    fits, precision = all_fits(search, others, printed)
    if fits:
        causes = of_precision(name, reader, precision)
        return answer(
            [fit._replace(causes=(*fit.causes, *causes)) for fit in fits], precision
        )
    return answer([search.nearest or Fit((), here, 0.0)], precision, found=False)


def open_with_template(
    name: str, label: int | None, template: str | None, options: dict
) -> tuple[Reader, dict]:
    """Return the reader of a model, in float32, and the options with which it was opened. A model
    without a template of its own gets this one.
    """
    given = {} if registry.is_served(name) else {"dtype": "float32"}
    given |= {option: value for option, value in options.items() if value is not None}
    try:
        return open_reader(name, label, given), given
    except InputError:
        if template is None:
            raise
    given["template"] = template
    return open_reader(name, label, given), given


def softmax_of_one(theirs: Array, here: Array) -> Fit | None:
    """Return the hypothesis of a softmax over one output, if all rewards are 1 and not here."""
    if (theirs != 1).any() or np.abs(here - 1).max() <= 0.1:
        return None
    text = "applied the softmax to a single output, which always gives 1"
    return Fit((Cause(text, "switch the activation off there"),), theirs, 0.0)


def of_precision(name: str, reader: Reader, precision: str) -> list[Cause]:
    """Return the cause that the other program computed in a precision in which this library would
    not.
    """
    model = reader.model
    if model.is_served or precision == "float32":
        return []
    usual = reward_models.find(name)["dtype"]
    config = config_in_file(model)
    if precision == checkpoints.dtype_for(usual, model.device, config):
        return []
    remedy = f"compute in float32 there, or say --dtype {precision} here"
    return [Cause(f"computed in {precision}", remedy)]


def search_for(
    reader: Reader,
    rows: pd.DataFrame,
    slack: Array,
    label: int,
    bos: str,
    template: str | None,
) -> Search:
    """Return the search for the causes of these rewards. For the arguments see `explain`."""
    replies = rows["reply"].tolist()
    turns = [
        [*json.loads(context), {"role": "assistant", "content": reply}]
        for context, reply in zip(rows["context"], replies, strict=True)
    ]
    feeds = Feeds(reader.model, turns, bos, template)
    lengths = lengths_of(reader.model, replies)
    theirs = rows["printed"].astype(float).to_numpy()
    groups = rows["context"].factorize()[0]
    given = Given(theirs, groups, lengths)
    search = Search(reader, feeds, given, slack, noise=0.0, label=label)
    here = usual(reader, search.base)  # (n, labels)
    spread = np.abs(here - np.median(here, axis=0)).max()
    largest = np.abs(here).max()
    search.noise = TOLERANCES["float32"] * float(spread) + ROUNDING * float(largest)
    return search


def lengths_of(model: RewardModel, replies: list[str]) -> dict[str, Array]:
    """Return how long replies are, unit -> (n,)."""
    ids = model.tokenizer(replies, add_special_tokens=False)["input_ids"]
    words = map(str.split, replies)
    units = {"tokens": ids, "words": words, "characters": replies}
    return {unit: np.array([*map(len, parts)]) for unit, parts in units.items()}


def all_fits(
    search: Search, others: list[Reader], printed: str
) -> tuple[list[Fit], str]:
    """Return what fits, and the precision in which the other program computed."""
    if fits := search.run(others):
        return fits, printed
    if search.reader.model.is_served:  # whose precision is unknown
        return [], printed
    if fits := with_rounded_weights(search):
        return fits, printed
    return in_half_precision(search, printed)


def _answer(
    name: str,
    rows: pd.DataFrame,
    here: Array,
    fits: list[Fit],
    precision: str,
    found: bool = True,
) -> Answer:
    first, *others = sorted(
        fits, key=lambda fit: (len(fit.causes), fit.free, fit.feed.cause is None)
    )
    as_simple = [
        fit
        for fit in others
        if len(fit.causes) == len(first.causes) and fit.free <= first.free
    ]
    same = dict.fromkeys(
        " and ".join(cause.text for cause in fit.causes) for fit in as_simple
    )
    theirs = rows["printed"].astype(float).to_numpy()
    left = np.abs(theirs - first.predicted)
    difference = np.abs(theirs - here)
    contexts = map(json.loads, rows["context"])
    asked = [turns[-1]["content"] for turns in contexts]
    table = pd.DataFrame(
        {
            "prompt": asked,
            "reply": rows["reply"],
            "theirs": theirs,
            "here": here,
            "with the causes": first.predicted,
            "left over": left,
        }
    )
    explained = 1.0
    if difference.mean():
        explained = 1 - left.mean() / difference.mean()
    return Answer(
        name, first.causes, found, float(explained), precision, list(same), table
    )


def read_rewards(file: Path) -> pd.DataFrame:
    """Return the rows of a file with texts and rewards, as `explain` takes them. InputError if
    there are none.
    """
    rows = reply_files.read_replies(file)
    named = [name for name in REWARDS if name in rows]
    if len(named) != 1:
        raise InputError(
            f"{file} has no column, or two, of {', '.join(REWARDS)}; name one of them so, the "
            "rewards"
        )
    printed = rows[named[0]].astype(str)
    numbers = pd.to_numeric(printed, errors="coerce")
    if not np.isfinite(numbers).all():
        unreadable = np.flatnonzero(~np.isfinite(numbers))
        number = int(unreadable[0]) + 1
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
    return rows.assign(printed=printed.str.strip())


def why(
    name: str,
    rewards: str,
    as_json: bool = False,
    template: str | None = None,
    **options: Any,
) -> int:
    """Print why another program's rewards, in a file, differ from the model's. Return the code
    of the answer.
    """
    rows = read_rewards(Path(rewards))
    answer = explain(name, rows, template=template, **options)
    if as_json:
        print(answer.as_json())
        return answer.code
    shown = as_text(answer.table)
    print(answer.line, "", shown, sep="\n")
    return answer.code


def as_text(table: pd.DataFrame) -> str:
    """Return the rows of an answer as a table to print, of many rows those furthest apart."""
    apart = (table["theirs"] - table["here"]).abs()
    furthest = apart.nlargest(MOST_SHOWN).index
    shown = table.loc[np.sort(furthest)]
    texts = shown[["prompt", "reply"]].map(
        lambda text: display.show_token(text, 30).replace("␣", " ")
    )
    readable = shown.assign(**texts)
    printed = readable.to_string(index=False, float_format="{:.5g}".format)
    if len(table) > len(shown):
        printed += f"\nThese {len(shown)} of {len(table):,} rows are furthest apart."
    return printed
