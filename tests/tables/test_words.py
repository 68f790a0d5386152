"""What counts as a word and what looks like code."""

import pytest

from lib.tables.words import is_nonword, is_word


@pytest.mark.parametrize(
    "text", ["love", " Love", "don't", "self-made", "2024", "你好", "😀"]
)
def test_what_does_not_look_like_code(text):
    assert not is_nonword(text)


@pytest.mark.parametrize("text", [".setText", "(struct", "getValue", "_id", "=>"])
def test_what_looks_like_code(text):
    assert is_nonword(text)


@pytest.mark.parametrize("text", ["don't", "self-made", " love", "r2", "a_b", ""])
def test_what_is_no_word(text):
    assert not is_word(text) and is_word("Émile") and is_word("你好")
