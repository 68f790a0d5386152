"""What counts as a word and what looks like code."""

from lib.tables.words import is_nonword, is_word


def test_what_looks_like_code():
    code = [".setText", "(struct", "getValue", "_id", "=>"]
    prose = ["love", " Love", "don't", "self-made", "2024", "你好", "😀"]
    assert all(map(is_nonword, code)) and not any(map(is_nonword, prose))


def test_what_is_a_word():
    assert not any(map(is_word, ["don't", "self-made", " love", "r2", "a_b", ""]))
    assert is_word("Émile") and is_word("你好")
