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

# A number in a text: {claim/quantity/prompt/model:format}
NAMED = re.compile(r"\{([\w.]+)/(\w+)(?:/([^/:}]*))?(?:/([^/:}]*))?(?::(%|of|th))?\}")
ORDINALS = [
    "zeroth",
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
]


def counts(gathered: pd.DataFrame) -> pd.Series:
    """Return how many sentences of the paper have each word, in the order of rules.WORDS."""
    words = gathered[gathered["word"] != BEYOND].drop_duplicates("claim")["word"]
    return words.value_counts().reindex(list(WORDS), fill_value=0)


def counts_by_evidence(gathered: pd.DataFrame) -> pd.DataFrame:
    """Return how many sentences have each word: words x (all, then each of claims.EVIDENCE).

    A sentence has the evidence of its first primary quantity. One that cannot be tested has none.
    """
    can_be_tested = gathered["role"].eq("primary") & ~gathered["word"].isin(
        [BEYOND, NOT_TESTABLE]
    )
    first = gathered[can_be_tested].drop_duplicates("claim")
    table = pd.crosstab(first["word"], first["evidence"])
    table = table.reindex(
        index=list(WORDS), columns=list(claims.EVIDENCE), fill_value=0
    )
    table.insert(0, "all", counts(gathered))
    return table.rename_axis(index="word", columns=None)


def corrections(gathered: pd.DataFrame, level: float = LEVEL) -> pd.Series:
    """Return how many primary tests of the paper's sentences each correction keeps, and how many
    there are.
    """
    p = gathered.loc[claims.primary_tests(gathered), "p"].astype(float)
    kept = {
        name: int(multipletests(p, level, how)[0].sum())
        for name, how in CORRECTIONS.items()
    }
    return pd.Series({"no correction": len(p)} | kept)


def statements(gathered: pd.DataFrame) -> pd.DataFrame:
    """Return the paper in eight statements (data/paper/statements.csv) with our word and a sentence
    of numbers.

    Columns: `statement`, `word`, `sentence` (filled in), `picture` (relative to figures/),
    `notebooks`.
    """
    rows = []
    for row in claims.paper_table("statements").itertuples():
        words = gathered[gathered["claim"].isin(row.claims.split())].drop_duplicates(
            "claim"
        )["word"]
        # Sentences that cannot be tested here are left out where another one can.
        told = set(words) - {NOT_TESTABLE}
        if len(told) > 1:
            told = {PARTLY if told & {HOLDS, PARTLY} else NOT_SHOWN}
        word = told.pop() if told else NOT_TESTABLE
        found = {"word": word, "sentence": filled(row.sentence, gathered)}
        rows.append(
            {
                "statement": row.statement,
                **found,
                "picture": row.picture,
                "notebooks": row.notebooks,
            }
        )
    return pd.DataFrame(rows)


def counted(gathered: pd.DataFrame) -> str:
    """Return how many sentences of the paper have each word, with what those that hold rest on."""
    words, holds = counts(gathered), counts_by_evidence(gathered).loc[HOLDS]
    evidence = " and ".join(
        f"{holds[name]} in {name}" for name in claims.EVIDENCE if holds[name]
    )
    others = ", ".join(
        f"{n} {word}" for word, n in words.items() if word != HOLDS and n
    )
    return (
        f"Of {words.sum()} sentences of the paper, {words[HOLDS]} hold ({evidence}). The "
        f"others: {others}."
    )


def filled(text: str, gathered: pd.DataFrame) -> str:
    """Return a text in which each name of a number is replaced by the number and its 95% interval.

    A name is `{claim/quantity/prompt/model:format}`; prompt, model and format may be left out.
    Formats: `%` for a percentage, `of` for a count with how many there are, `th` for a place, such
    as third. Raise InputError for a number that no notebook stated.
    """

    def number(match: re.Match) -> str:
        claim, quantity, prompt, model, how = (part or "" for part in match.groups())
        is_meant = gathered["claim"].eq(claim) & gathered["quantity"].eq(quantity)
        for column, name in (("prompt", prompt), ("model", model)):
            is_meant &= gathered[column].eq(name) | (name == "")
        if not is_meant.any():
            raise InputError(
                f"no number {match.group()} in the claims; run: make published"
            )
        return _formatted(gathered[is_meant].iloc[0], how)

    return NAMED.sub(number, text)


def _formatted(row: pd.Series, how: str) -> str:
    """Return a number of the scorecard in one of the formats of `filled`, with at most three
    decimals.
    """
    value = row["as_published"] if pd.isna(row["corrected"]) else row["corrected"]
    if how == "of":
        return f"{value:.0f} of {row['n']:.0f}"
    if how == "th":
        return ORDINALS[round(value)] if value < len(ORDINALS) else f"{value:.0f}th"
    scale, unit = (100, "%") if how == "%" else (1, "")
    has_interval = row["ci_low"] < row["ci_high"]
    if how == "%" or abs(value) >= 10 or float(value).is_integer():
        decimals = 0
    elif has_interval:
        decimals = 1 if abs(value) >= 1 else 2 if abs(value) >= 0.1 else 3
    else:
        decimals = 2
    texts = [
        f"{scale * one:.{decimals}f}{unit}"
        for one in (value, row["ci_low"], row["ci_high"])
    ]
    return texts[0] + (f" [{texts[1]}, {texts[2]}]" if has_interval else "")
