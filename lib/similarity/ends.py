"""The optimal and pessimal texts of models: how many are code, harm or groups of people (section
2.1).

A grid of texts has the form of rankings.side_by_side: index (end, position), a column per model.
"""

import re
from collections.abc import Mapping
from functools import cache

import pandas as pd

from .. import DATA
from ..claims import cells
from ..show.display import is_offensive
from ..tables import scores

GEMMA, LLAMA = "R-Gem-2B", "R-Lla-3B"  # the two models of Table 2
# Characters that prose does not put into a word, a dot or colon before a name, and references such
# as &nbsp.
CODE = re.compile(r"[_<>{}()\[\]\\/|=+^%$#@~`;\"]|^[.:]\w|&&|(?<!\w)&\w")
# setText, getURL; not bluffSOLVED
CAPITAL_INSIDE = re.compile(r"\w*[a-z](?:[A-Z][a-z]|[A-Z]{1,4}\b)\w*")
# of text, as Markdown's asterisks are
MARKUP = re.compile(r"</?(?:b|i|em|strong|u|br|p)/?>", re.IGNORECASE)
# Names of programs and libraries that no rule of form tells from words. They come from the printed
# replies (data/paper/replies_read.csv), so the rule was fitted to these replies and gives no second
# opinion on them.
LIBRARIES = re.compile(r"\b(?:autogui|pgfplots|pymysql|endphp)", re.IGNORECASE)
# What kills, hurts or extorts, and who stands for it; slurs, profanities and sexual violence are in
# data/offensive.txt.
HARM = re.compile(
    r"kill|massacr|murder|hitler|nazi|ransom|tortur|suicid|terror", re.IGNORECASE
)


KINDS = ["offensive", "harm", "a group", "code", "other"]


def is_code(text: str) -> bool:
    """Return whether a token or a reply looks like code, such as `.assertFalse`, `_headers` and
    `setText`.

    Markup of text (`**LOVE**`, `<b>`) is not code, and neither are `'s`, `-Nazi` and `N.Y.`. A
    capital inside a word is code (`setText`), unless data/offensive.txt lists one of the words that
    run together there.
    """
    shown = MARKUP.sub("", text.strip())
    if CODE.search(shown) or LIBRARIES.search(shown):
        return True
    joined = CAPITAL_INSIDE.findall(shown)
    return not all(is_offensive(word) for word in joined)


@cache
def _groups() -> frozenset[str]:
    table = pd.read_csv(DATA / "identity_terms.csv", keep_default_na=False)
    return frozenset(table["term"].str.casefold())


def names_a_group(text: str) -> bool:
    """Return whether a token is a term of data/identity_terms.csv, or its plural, in any case."""
    word = text.strip().casefold()
    groups = _groups()
    return word in groups or word.removesuffix("s") in groups


def is_harm(text: str) -> bool:
    """Return whether a token names harm or suffering (HARM), or is a slur, a profanity or sexual
    violence.
    """
    return bool(HARM.search(text)) or is_offensive(text)


def kinds(grid: pd.DataFrame) -> pd.DataFrame:
    """Return what kinds the pessimal texts of a grid are: a row per model, a count per kind, and
    the mean length.

    Each text counts once, as the first kind that fits.
    """
    texts = grid.loc["pessimal"]
    first = texts.map(_kind)
    counts = first.apply(lambda column: column.value_counts())
    counts = counts.reindex(KINDS).fillna(0).astype(int)
    length = texts.map(lambda text: len(text.strip()))
    return counts.T.assign(**{"mean length": length.mean()})


def _kind(text: str) -> str:
    """Return the first of KINDS that fits a text."""
    fits = [is_offensive(text), is_harm(text), names_a_group(text), is_code(text)]
    first = [*fits, True].index(True)
    return KINDS[first]


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
