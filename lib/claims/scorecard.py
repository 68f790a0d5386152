"""The scorecard's summaries: sentences by word."""

import pandas as pd
from statsmodels.stats.multitest import multipletests

from . import claims
from .rules import BEYOND, LEVEL, NOT_TESTABLE, WORDS

# Corrections for many tests: name -> its name in statsmodels. The first decides the words.
CORRECTIONS = {
    "Benjamini and Hochberg": "fdr_bh",
    "Benjamini and Yekutieli": "fdr_by",
    "Holm": "holm",
}


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
