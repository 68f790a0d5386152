"""What stands at the two ends of a ranking: code, groups of people, and the words that section 2.1 names.

The paper's Tables 2, A6 and A7 print the ends of its ten models; a collection's own ends are read in the same way.
"""

import re
from collections.abc import Iterable, Mapping

import pandas as pd
from scipy import stats

from lib import ROOT, rankings
from lib.claims import paper_table

RELEASED = ("Table A6", "Table A7")  # over each model's own vocabulary, and over the texts that all share
# Characters that prose does not put into a word, a dot or colon before a name, and a capital inside one.
CODE = re.compile(r"[_<>{}()\[\]\\/|=+*&^%$#@~`;\"]|^[.:]\w|[a-z][A-Z]")


def is_code(text: str) -> bool:
    """Whether a token looks like a fragment of code: `.assertFalse`, `_headers`, `(struct`, `/****`, `${`, `setText`.

    By its form alone (CODE), fixed before any table was counted; `'s`, `-Nazi` and `N.Y.` are not code.
    """
    return bool(CODE.search(text.strip()))


def names_a_group(text: str) -> bool:
    """Whether a token names a group of people: a term of data/identity_terms.csv, or its plural, in any case."""
    word = text.strip().casefold()
    return word in _groups() or word.removesuffix("s") in _groups()


def _groups() -> frozenset[str]:
    terms = pd.read_csv(ROOT / "data" / "identity_terms.csv", keep_default_na=False)["term"]
    return frozenset(terms.str.casefold())


def printed_ends() -> dict[str, dict[str, list[str]]]:
    """Table 2 as printed: model -> end (optimal, pessimal) -> its 22 texts, the most extreme first."""
    table = paper_table("table_2")
    ends = {}
    for name, rows in table.groupby("nickname", sort=False):
        pessimal = rows.loc[rows["end"] == "pessimal", "decoded"].tolist()[::-1]
        ends[name] = {"optimal": rows.loc[rows["end"] == "optimal", "decoded"].tolist(), "pessimal": pessimal}
    return ends


def released_ends(table: str) -> dict[str, dict[str, list[str]]]:
    """Table A6 or A7 as the authors released it: model -> end -> its 20 texts, the most extreme first."""
    rows = paper_table("tables_a6_a7").query("table == @table.removeprefix('Table ')")
    ends: dict[str, dict[str, list[str]]] = {name: {} for name in rows["nickname"].unique()}
    for (name, end), some in rows.groupby(["nickname", "end"], sort=False):
        ends[name][end] = some.sort_values("position")["text"].tolist()
    return ends


def own_ends(tables: Mapping[str, pd.DataFrame], prompt: str, n: int) -> dict[str, dict[str, list[str]]]:
    """The ends of score tables: model -> end -> its n texts, the most extreme first."""
    grid = rankings.side_by_side(dict(tables), prompt, n)
    return {name: {end: grid.loc[end].sort_index()[name].tolist() for end in ("optimal", "pessimal")} for name in grid}


def count(texts: Iterable[str], is_one) -> tuple[int, float, float, int]:
    """How many texts are one of those, with the exact 95% interval of the count (Clopper-Pearson), and of how many.

    The interval says how many of so many might have been, had the cut been elsewhere in the same region of the ranking.
    """
    texts = list(texts)
    hits = sum(map(is_one, texts))
    share = stats.binomtest(hits, len(texts)).proportion_ci(0.95, method="exact")
    return hits, share.low * len(texts), share.high * len(texts), len(texts)


def counts(ends: Mapping[str, Mapping[str, list[str]]]) -> pd.DataFrame:
    """Per model, of its pessimal texts: code and groups of people, each with ci_low and ci_high, and of how many.

    Columns: of, code, code_low, code_high, groups, groups_low, groups_high, named (the groups, as texts, or `none`).
    """
    rows = {}
    for name, both in ends.items():
        code, code_low, code_high, of = count(both["pessimal"], is_code)
        groups, low, high, _ = count(both["pessimal"], names_a_group)
        named = ", ".join(text.strip() for text in both["pessimal"] if names_a_group(text))
        rows[name] = {"of": of, "code": code, "code_low": code_low, "code_high": code_high,
                      "groups": groups, "groups_low": low, "groups_high": high, "named": named or "none"}  # fmt: skip
    return pd.DataFrame.from_dict(rows, orient="index")


def code_against_others(ends: Mapping[str, Mapping[str, list[str]]], model: str) -> tuple[float, float, float, float]:
    """Odds of code among the model's pessimal texts over those of the others: odds ratio, ci_low, ci_high, p (Fisher).

    The interval is the exact conditional one; infinite where none of the others' is code.
    """
    own, _, _, of = count(ends[model]["pessimal"], is_code)
    rest = [text for name, both in ends.items() if name != model for text in both["pessimal"]]
    theirs = sum(map(is_code, rest))
    table = [[own, of - own], [theirs, len(rest) - theirs]]
    ratio = stats.contingency.odds_ratio(table)
    interval = ratio.confidence_interval(0.95)
    return float(ratio.statistic), float(interval.low), float(interval.high), float(stats.fisher_exact(table).pvalue)


def scores_of(model: str) -> pd.DataFrame:
    """The optimal tokens of Table 2 of a model: word (in lower case) -> highest and lowest score that it prints."""
    rows = paper_table("table_2").query("nickname == @model and end == 'optimal'")
    return rows.assign(word=rows["decoded"].str.casefold()).groupby("word")["score"].agg(highest="max", lowest="min")
