"""The result of a check: rows with a status and a remedy."""

import json
import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from transformers import PreTrainedTokenizerBase

from ..paper import InputError, display

STATUSES = ("ok", "note", "wrong")
WIDTH = 118  # columns of a line on the terminal
NAME = 20  # columns of a row's name


@dataclass(frozen=True)
class Row:
    """The result of one check."""

    name: str
    status: str  # one of STATUSES
    found: str  # what was found, and what the library does by default
    remedy: str = ""  # what to do about it; "" if nothing need be done
    numbers: dict = field(default_factory=dict)  # what was measured, for machines


# rows of checks, which `attempt` names
ok, note, wrong = (partial(Row, "", status) for status in STATUSES)


@dataclass(frozen=True)
class Report:
    """All rows about one model, and its revision."""

    name: str
    revision: str
    rows: list[Row]

    @property
    def wrong(self) -> list[str]:
        """Return the names of the rows that are wrong."""
        return [row.name for row in self.rows if row.status == "wrong"]

    def lines(self) -> list[str]:
        """Return the report as lines of text, at most WIDTH columns wide. The last line sums it
        up.
        """
        lines = [f"{self.name}, revision {self.revision}", ""]
        for row in self.rows:
            text = row.found + (f" -> {row.remedy}" if row.remedy else "")
            lines += textwrap.wrap(
                text,
                WIDTH,
                initial_indent=f"{row.name:{NAME}} {row.status:5}  ",
                subsequent_indent=" " * (NAME + 8),
                break_long_words=False,
            )
        statuses = [row.status for row in self.rows]
        counted = ", ".join(
            f"{statuses.count(each)} {each}".replace("note", "to note")
            for each in STATUSES
        )
        return [
            *lines,
            "",
            f"{counted}: {', '.join(self.wrong)}." if self.wrong else f"{counted}.",
        ]

    def as_json(self) -> str:
        """Return the report as JSON. `is_right` says whether nothing is wrong."""
        fields = {
            "name": self.name,
            "revision": self.revision,
            "is_right": not self.wrong,
        }
        return json.dumps(
            fields | {"rows": [asdict(row) for row in self.rows]}, indent=2
        )


def attempt(name: str, row_of: Callable[..., Row], *given: object) -> Row:
    """Return the row of a check under this name, or, if it raises InputError, a row that is
    wrong.
    """
    try:
        return replace(row_of(*given), name=name)
    except InputError as error:
        return refused(name, error)


def refused(name: str, error: InputError) -> Row:
    """Return the row for an error. The part of its message after the last semicolon is the
    remedy.
    """
    found, _, remedy = str(error).rpartition("; ")
    return Row(name, "wrong", found or remedy, remedy if found else "")


def shown(tokenizer: PreTrainedTokenizerBase, ids: tuple[int, ...]) -> str:
    """Return the tokens in visible form, each with its id."""
    return (
        " ".join(
            f"{display.show_token(str(tokenizer.decode([i])), 30)} ({i})" for i in ids
        )
        or "nothing"
    )
