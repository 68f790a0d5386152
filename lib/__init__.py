"""See what reward models value: a small library for scoring every token of a vocabulary and reading the ranking."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class InputError(ValueError):
    """A problem that the reader can mend; its message is one line that names the remedy."""
