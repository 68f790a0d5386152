"""The optimal and pessimal texts of models: how many are code, harm or groups of people (section 2.1).

A grid of texts has the form of rankings.side_by_side: index (end, position), a column per model.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import pandas as pd
from scipy import stats

from .. import ROOT
from ..claims import cells
from ..claims.claims import paper_table
from ..show.display import is_offensive
from ..stats import rankings
from ..tables import scores

GEMMA, LLAMA = "R-Gem-2B", "R-Lla-3B"  # the two models of Table 2
# Characters that prose does not put into a word, a dot or colon before a name, and a capital inside one.
CODE = re.compile(r"[_<>{}()\[\]\\/|=+*&^%$#@~`;\"]|^[.:]\w|[a-z][A-Z]")
# What kills, hurts or extorts, and who stands for it; slurs, profanities and sexual violence are in data/offensive.txt.
HARM = re.compile(r"kill|massacr|murder|hitler|nazi|ransom|tortur|suicid|terror", re.IGNORECASE)

# --- kinds of tokens ----------------------------------------------------------------------------------------------


def is_code(text: str) -> bool:
    """Return whether the form of a token looks like code, as of `.assertFalse`, `_headers` and `setText`.

    The rule (CODE) was fixed before any table was counted. `'s`, `-Nazi` and `N.Y.` are not code.
    """
    return bool(CODE.search(text.strip()))


@cache
def _groups() -> frozenset[str]:
    terms = pd.read_csv(ROOT / "data" / "identity_terms.csv", keep_default_na=False)["term"]
    return frozenset(terms.str.casefold())


def names_a_group(text: str) -> bool:
    """Return whether a token is a term of data/identity_terms.csv, or its plural, in any case."""
    word = text.strip().casefold()
    return word in _groups() or word.removesuffix("s") in _groups()


def is_harm(text: str) -> bool:
    """Return whether a token names harm or suffering (HARM), or is a slur, a profanity or sexual violence."""
    return bool(HARM.search(text)) or is_offensive(text)


def kinds(grid: pd.DataFrame, end: str = "pessimal") -> pd.DataFrame:
    """Return what kinds of texts a grid has at one end: a row per model, a count per kind, and the mean length.

    Each text counts once, as the first kind that fits.
    """
    tests = {"offensive": is_offensive, "harm": is_harm, "a group": names_a_group, "code": is_code,
             "other": lambda text: True}  # fmt: skip
    texts = grid.loc[end]
    first = texts.map(lambda text: next(kind for kind, test in tests.items() if test(text)))
    counts = first.apply(lambda column: column.value_counts()).reindex(list(tests)).fillna(0).astype(int).T
    return counts.assign(**{"mean length": texts.map(lambda text: len(text.strip())).mean()})


# --- the paper's tables beside those of score tables -------------------------------------------------------------


def table_2(nickname: str, table: pd.DataFrame, prompt: str, name: str) -> pd.DataFrame:
    """Return Table 2 of one of its two models, with the optimal and pessimal texts of another model: 44 rows.

    nickname is the paper's model, table and name are the other one.
    """
    scores_of = cells.printed_lists("2", "score")[nickname].map("{:.3f}".format)  # as printed
    shown = pd.DataFrame({"paper": cells.printed_lists("2")[nickname], "paper's reward": scores_of})
    n = min(22, len(table) // 2)
    ours = rankings.ends(table, prompt, n)
    ours.index = pd.MultiIndex.from_arrays([ours["end"], [*range(1, n + 1), *range(n, 0, -1)]])
    ours = ours.reindex(shown.index)
    return shown.assign(**{name: ours["text"], "its reward": ours[prompt]})


def all_cells(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the cells of Tables 2, A6 and A7 and those of these score tables for `greatest`; see lib.claims.cells.

    Table 2 is compared by token id, because its texts are printed without their spaces. Corrected: one row per distinct
    input, and trimmed texts.
    """
    by_id = cells.printed_lists("2", "token_id").astype(int).astype(str)
    ids = {name: pd.Series(own["greatest"].to_numpy(), own["token_id"].astype(str)) for name, own in tables.items()}
    by_text = [{name: read(own).set_index("text")["greatest"] for name, own in tables.items()}
               for read in (lambda table: table, scores.unique_inputs)]  # fmt: skip
    shared = (scores.shared_vocabulary(dict(tables), "greatest", trim=trim) for trim in (False, True))
    a7 = cells.compare_lists(cells.printed_lists("A7"), *({name: own[name] for name in own} for own in shared))
    return {"Table 2": cells.compare_lists(by_id, ids), "Table A7": a7,
            "Table A6": cells.compare_lists(cells.printed_lists("A6"), *by_text)}  # fmt: skip


def highest_scores(model: str) -> pd.Series:
    """Return the highest score that Table 2 prints of each optimal word of a model, by the word in lower case."""
    rows = paper_table("table_2").query("nickname == @model and end == 'optimal'")
    return rows.groupby(rows["decoded"].str.casefold())["score"].max()


# --- counts -------------------------------------------------------------------------------------------------------


def count(texts: Sequence[str], is_counted: Callable[[str], bool]) -> tuple[int, float, float, int]:
    """Return how many texts are counted, with the exact 95% interval of the count (Clopper-Pearson), and of how many.

    The interval is for lists of the same length from the same region of the ranking.
    """
    hits = sum(map(is_counted, texts))
    share = stats.binomtest(hits, len(texts)).proportion_ci(0.95, method="exact")
    return hits, share.low * len(texts), share.high * len(texts), len(texts)


def counts(grid: pd.DataFrame) -> pd.DataFrame:
    """Return, per model of a grid, how many of its pessimal texts are code, and how many name groups of people."""
    rows = {}
    for name, texts in grid.loc["pessimal"].sort_index().items():
        rows[name] = {"of": len(texts)}
        for kind, is_counted in (("code", is_code), ("groups", names_a_group)):
            rows[name] |= dict(zip([kind, f"{kind}_low", f"{kind}_high"], count(texts, is_counted)[:3], strict=True))
        rows[name]["named"] = ", ".join(text.strip() for text in texts if names_a_group(text)) or "none"
    return pd.DataFrame.from_dict(rows, orient="index")


def places_above(texts: pd.Series, first: str, second: str) -> int:
    """Return how many places the first form of a word stands above the first form of another, in any case.

    texts: a column of a grid. Words that are not listed stand behind the list.
    """
    words = texts["optimal"].str.strip().str.casefold().tolist()
    place = [words.index(word) if word in words else len(words) for word in (first, second)]
    return place[1] - place[0]
