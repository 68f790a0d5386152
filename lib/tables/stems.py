"""Stems of English words: inflected forms (`love`, `loved`, `loves`) are one word, counted once."""

from collections.abc import Iterable

import snowballstemmer


def stems(words: Iterable[str]) -> list[str]:
    """Return the stem of each word, by Porter's second algorithm for English."""
    return snowballstemmer.stemmer("english").stemWords(
        [word.strip().lower() for word in words]
    )
