"""The optimal and pessimal texts of models (section 2.1): the form of code, and names of groups of
people.
"""

import re
from functools import cache

import pandas as pd

from .. import DATA

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


@cache
def _groups() -> frozenset[str]:
    table = pd.read_csv(DATA / "identity_terms.csv", keep_default_na=False)
    return frozenset(table["term"].str.casefold())


def names_a_group(text: str) -> bool:
    """Return whether a token is a term of data/identity_terms.csv, or its plural, in any case."""
    word = text.strip().casefold()
    groups = _groups()
    return word in groups or word.removesuffix("s") in groups
