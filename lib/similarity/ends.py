"""The optimal and pessimal texts of models (section 2.1): the form of code."""

import re

GEMMA, LLAMA = "R-Gem-2B", "R-Lla-3B"  # the two models of Table 2
# Characters that prose does not put into a word, a dot or colon before a name, references such as
# &nbsp, and a capital inside a word: setText, getURL.
CODE = re.compile(
    r"[_<>{}()\[\]\\/|=+^%$#@~`;\"]|^[.:]\w|&&|(?<!\w)&\w|[a-z](?:[A-Z][a-z]|[A-Z]{1,4}\b)"
)


def is_code(text: str) -> bool:
    """Return whether a token looks like code, such as `.assertFalse`, `_headers` and `setText`.

    `'s`, `-Nazi` and `N.Y.` are not code.
    """
    return bool(CODE.search(text.strip()))
