"""What counts as a word and what looks like code."""

import pytest

from lib.tables.words import is_nonword, is_word


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("love", False),
        (" Love", False),
        ("don't", False),
        ("self-made", False),
        ("2024", False),
        ("你好", False),
    ]
    + [
        (".setText", True),
        ("(struct", True),
        ("getValue", True),
        ("_id", True),
        ("=>", True),
        ("😀", False),
    ],
)
def test_what_looks_like_code(text, code):
    assert is_nonword(text) is code


@pytest.mark.parametrize(
    ("text", "word"),
    [("love", True), ("Émile", True), ("你好", True), ("don't", False)]
    + [
        ("self-made", False),
        (" love", False),
        ("r2", False),
        ("a_b", False),
        ("", False),
    ],
)
def test_what_counts_as_a_word(text, word):
    assert is_word(text) is word
