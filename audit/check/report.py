"""The result of a check: rows with a status and a remedy."""

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from transformers import PreTrainedTokenizerBase

from ..paper import InputError, display

WIDTH = 118  # columns of a line on the terminal
NAME = 20  # columns of a row's name


@dataclass(frozen=True)
class Row:
    """The result of one check."""

    name: str
    status: str  # ok, note or wrong
    found: str  # what was found, and what the library does by default
    remedy: str = ""  # what to do about it; "" if nothing need be done


# rows of checks, which `attempt` names
ok, note, wrong = (partial(Row, "", status) for status in ("ok", "note", "wrong"))


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
        """Return the report as lines of text, at most WIDTH columns wide. The last line says what
        is wrong.
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
        return [*lines, "", f"Wrong: {', '.join(self.wrong) or 'nothing'}."]


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
    texts = [display.show_token(str(tokenizer.decode([i])), 30) for i in ids]
    both = zip(texts, ids, strict=True)
    return " ".join(f"{text} ({i})" for text, i in both) or "nothing"
