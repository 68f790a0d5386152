"""Stems of English words: inflected forms (`love`, `loved`, `loves`) are one word, counted once."""

from collections.abc import Iterable
from functools import cache

import snowballstemmer

# a word has many statistics
_stem = cache(snowballstemmer.stemmer("english").stemWord)


def stems(words: Iterable[str]) -> list[str]:
    """Return the stem of each word, by Porter's second algorithm for English."""
    return [_stem(word.strip().lower()) for word in words]
