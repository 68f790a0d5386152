"""The optimal and pessimal texts of models (section 2.1): the form of code, names of groups of
people, and the cells of the printed lists.
"""

import re
from collections.abc import Mapping
from functools import cache

import pandas as pd

from .. import DATA
from ..claims import cells
from ..tables import scores

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


def all_cells(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the cells of Tables 2, A6 and A7 and those of these score tables for `greatest`; see
    lib.claims.cells.

    Table 2 is compared by token id, because its texts are printed without their spaces. Corrected:
    one row per distinct input, and trimmed texts.
    """
    by_id = {}
    by_text = {}
    by_distinct = {}
    for name, table in tables.items():
        reward = table["greatest"]
        token_id = table["token_id"].astype(str)
        by_id[name] = pd.Series(reward.to_numpy(), token_id)
        by_text[name] = table.set_index("text")["greatest"]
        distinct = scores.unique_inputs(table)
        by_distinct[name] = distinct.set_index("text")["greatest"]
    shared = []
    for trim in (False, True):
        rewards = scores.shared_vocabulary(dict(tables), "greatest", trim=trim)
        shared.append(dict(rewards.items()))
    ids = cells.printed_lists("2", "token_id")
    ids = ids.astype(int).astype(str)
    a6 = cells.printed_lists("A6")
    a7 = cells.printed_lists("A7")
    return {
        "Table 2": cells.compare_lists(ids, by_id),
        "Table A7": cells.compare_lists(a7, *shared),
        "Table A6": cells.compare_lists(a6, by_text, by_distinct),
    }
