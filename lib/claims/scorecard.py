"""The scorecard's summaries: sentences by word, printed numbers that come out, and the paper in eight statements."""

import numpy as np
import pandas as pd

from ..tables.collection import VOCABULARY
from . import claims, rules
from .rules import BEYOND, HOLDS, NOT_SHOWN, NOT_TESTABLE, PARTLY, WORDS


def counts(gathered: pd.DataFrame) -> pd.Series:
    """Return how many sentences of the paper have each word, in the order of rules.WORDS."""
    words = gathered[gathered["word"] != BEYOND].drop_duplicates("claim")["word"]
    return words.value_counts().reindex(list(WORDS), fill_value=0)


def printed_numbers(gathered: pd.DataFrame) -> pd.DataFrame:
    """Return one row per sentence that prints a number which could be computed here: whether all of them come out.

    A number about whole vocabularies cannot be computed from other texts, unless a printed table holds it.
    Columns: `printed` (how many numbers), `come_out` (how many of them, by the paper's own recipe).
    """
    rows = gathered[(gathered["paper"] != "") & gathered["as_published"].notna()]
    declared = [claims.declared(*names) for names in rows[list(claims.NAMES)].itertuples(index=False)]
    recipe = [rules.Numbers(as_published=row.as_published, n=row.n) for row in rows.itertuples()]
    says = [rules.judge(*pair) for pair in zip(declared, recipe, strict=True)]
    of_vocabulary = np.array([printed.needs == VOCABULARY.population for printed in declared], dtype=bool)
    has_texts = rows["population"].eq(VOCABULARY.population) | rows["evidence"].eq(claims.COUNTED)
    by_claim = rows.assign(says=says)[has_texts | ~of_vocabulary].groupby("claim", sort=False)["says"]
    return by_claim.agg(printed="size", come_out="sum")


def statements(gathered: pd.DataFrame) -> pd.DataFrame:
    """Return the paper in eight statements (data/paper/statements.csv) with our word and one number of each.

    The number is the quantity that the table names, else the first primary one of its claim. Columns: `statement`,
    `word`, `number` (with its interval), `what` (the number in words), `picture` (relative to figures/), `notebooks`.
    """
    rows = []
    for row in claims.paper_table("statements").itertuples():
        words = gathered[gathered["claim"].isin(row.claims.split())].drop_duplicates("claim")["word"]
        of_claim = gathered[(gathered["claim"] == row.claim) & (gathered["role"] == "primary")]
        named = of_claim[(of_claim["quantity"] == row.quantity) & of_claim["prompt"].isin([row.prompt, ""])]
        told = set(words) - {NOT_TESTABLE}  # those that cannot be tested here are left out where another one can
        if len(told) > 1:
            told = {PARTLY if told & {HOLDS, PARTLY} else NOT_SHOWN}
        word, number, what = told.pop() if told else NOT_TESTABLE, "", ""
        for _, found in pd.concat([named, of_claim]).head(1).iterrows():
            number = claims.number_text(found)
            what = row.what if len(named) else claims.declared(*found[list(claims.NAMES)]).said
        shown = {"word": word, "number": number, "what": what}
        rows.append({"statement": row.statement, **shown, "picture": row.picture, "notebooks": row.notebooks})
    return pd.DataFrame(rows)
