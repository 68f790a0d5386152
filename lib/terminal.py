"""The terminal: whatever is printed, from a checkpoint, a file or a prompt, is read there and does nothing there."""

import re
import unicodedata
from typing import TextIO

LINES = "\n\t"
BARS = "\r"  # progress bars go back to the start of their line
UP = "\x1b[A"  # and up to the line of the bar above


class Visible:
    """A stream that writes to another what `visible` makes of a text; all else is the other's own.

    bars: whether progress bars may move within their lines and to the lines of others.
    """

    def __init__(self, stream: TextIO, bars: bool = False):
        self.stream, self.bars = stream, bars

    def write(self, text: str) -> int:
        parts = text.split(UP) if self.bars else [text]
        self.stream.write(UP.join(visible(part, LINES + BARS * self.bars) for part in parts))
        return len(text)

    def __getattr__(self, name: str):
        return getattr(self.stream, name)


def visible(text: str, kept: str = LINES) -> str:
    """The text with its controls, formats (as of direction), surrogates and unassigned characters as `⟨U+…⟩`.

    kept: characters that stay though they are controls.
    """
    text = re.sub("\r\n", "\n", text)
    return "".join(c if c in kept or _is_seen(c) else f"⟨U+{ord(c):04X}⟩" for c in text)


def _is_seen(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"  # a space of any width
