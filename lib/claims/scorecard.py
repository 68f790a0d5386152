"""The scorecard's summaries: sentences by word, and the paper in eight statements."""

import re

import pandas as pd
from statsmodels.stats.multitest import multipletests

from .. import InputError
from . import claims
from .rules import BEYOND, HOLDS, LEVEL, NOT_SHOWN, NOT_TESTABLE, PARTLY, WORDS

# Corrections for many tests: name -> its name in statsmodels. The first decides the words.
CORRECTIONS = {
    "Benjamini and Hochberg": "fdr_bh",
    "Benjamini and Yekutieli": "fdr_by",
    "Holm": "holm",
}

# How `counted` says how many sentences have each word but `holds`, in the order of WORDS
# A number in a text: {claim/quantity/prompt/model:format}
NAMED = re.compile(r"\{([\w.]+)/(\w+)(?:/([^/:}]*))?(?:/([^/:}]*))?(?::(%|of|th))?\}")
ORDINALS = ["zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh"]
ORDINALS += ["eighth", "ninth"]


def counts(gathered: pd.DataFrame) -> pd.Series:
    """Return how many sentences of the paper have each word, in the order of rules.WORDS."""
    words = gathered[gathered["word"] != BEYOND].drop_duplicates("claim")["word"]
    return words.value_counts().reindex(list(WORDS), fill_value=0)


def counts_by_evidence(gathered: pd.DataFrame) -> pd.DataFrame:
    """Return how many sentences have each word: words x (all, then each of claims.EVIDENCE).

    A sentence has the evidence of its first primary quantity. One that cannot be tested has none.
    """
    is_tested = ~gathered["word"].isin([BEYOND, NOT_TESTABLE])
    primary = gathered[gathered["role"].eq("primary") & is_tested]
    first = primary.drop_duplicates("claim")
    table = pd.crosstab(first["word"], first["evidence"])
    table = table.reindex(index=list(WORDS), fill_value=0)
    table = table.reindex(columns=list(claims.EVIDENCE), fill_value=0)
    table.insert(0, "all", counts(gathered))
    return table.rename_axis(index="word", columns=None)


def corrections(gathered: pd.DataFrame) -> pd.Series:
    """Return how many primary tests of the paper's sentences each correction keeps, and how many
    there are.
    """
    is_test = claims.primary_tests(gathered)
    p = gathered.loc[is_test, "p"].astype(float)
    kept = {"no correction": len(p)}
    for name, how in CORRECTIONS.items():
        is_kept, *_ = multipletests(p, LEVEL, how)
        kept[name] = int(is_kept.sum())
    return pd.Series(kept)


def statements(gathered: pd.DataFrame) -> pd.DataFrame:
    """Return the paper in eight statements (data/paper/statements.csv) with our word and a sentence
    of numbers.

    Columns: `statement`, `word`, `sentence` (filled in), `picture` (relative to figures/),
    `notebooks`.
    """
    table = claims.paper_table("statements")
    word_of = gathered.drop_duplicates("claim").set_index("claim")["word"]
    words = [
        _word_of_all({word_of[one] for one in row.split()}) for row in table["claims"]
    ]
    sentences = [filled(sentence, gathered) for sentence in table["sentence"]]
    table = table.assign(word=words, sentence=sentences)
    return table[["statement", "word", "sentence", "picture", "notebooks"]]


def _word_of_all(words: set[str]) -> str:
    """Return one word for several sentences. Sentences that cannot be tested here are left out
    where another one can.
    """
    tested = words - {NOT_TESTABLE} or words
    if len(tested) > 1:
        return PARTLY if tested & {HOLDS, PARTLY} else NOT_SHOWN
    return tested.pop()


def counted(gathered: pd.DataFrame) -> str:
    """Return how many sentences of the paper have each word, as a sentence."""
    words = counts(gathered)
    each = ", ".join(f"*{word}* {n}" for word, n in words.items() if n)
    return f"Of {words.sum()} sentences of the paper: {each}."


def filled(text: str, gathered: pd.DataFrame) -> str:
    """Return a text in which each name of a number is replaced by the number and its 95% interval.

    A name is `{claim/quantity/prompt/model:format}`; prompt, model and format may be left out.
    Formats: `%` for a percentage, `of` for a count with how many there are, `th` for a place, such
    as third. Raise InputError for a number that no notebook stated.
    """

    def number(match: re.Match) -> str:
        *names, how = (part or "" for part in match.groups())
        found = gathered
        for column, name in zip(claims.NAMES, names, strict=True):
            found = found[found[column].eq(name)] if name else found
        if found.empty:
            raise InputError(
                f"no number {match.group()} in the claims; run: make published"
            )
        return _formatted(found.iloc[0], how)

    return NAMED.sub(number, text)


def _formatted(row: pd.Series, how: str) -> str:
    """Return a number of the scorecard in one of the formats of `filled`. Three digits are shown
    with an interval, fewer without.
    """
    value = row["as_published"] if pd.isna(row["corrected"]) else row["corrected"]
    if how == "of":
        return f"{value:.0f} of {row['n']:.0f}"
    if how == "th":
        return dict(enumerate(ORDINALS)).get(value, f"{value:.0f}th")
    has_interval = row["ci_low"] < row["ci_high"]
    decimals = 2
    if abs(value) >= 10 or float(value).is_integer():
        decimals = 0
    elif has_interval:
        decimals = 1 if abs(value) >= 1 else 2 if abs(value) >= 0.1 else 3

    def text(number: float) -> str:
        if how == "%":
            return f"{number:.0%}"
        shown = f"{number:.{decimals}f}"
        # a limit just below 0 is not 0
        return f"{number:.1g}" if number and not float(shown) else shown

    if not has_interval:
        return text(value)
    return f"{text(value)} [{text(row['ci_low'])}, {text(row['ci_high'])}]"
