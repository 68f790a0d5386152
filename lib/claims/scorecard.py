"""The scorecard's summaries: sentences by word, and the paper in eight statements."""

import pandas as pd

from . import claims
from .rules import BEYOND, HOLDS, NOT_SHOWN, NOT_TESTABLE, PARTLY, WORDS


def counts(gathered: pd.DataFrame) -> pd.Series:
    """Return how many sentences of the paper have each word, in the order of rules.WORDS."""
    words = gathered[gathered["word"] != BEYOND].drop_duplicates("claim")["word"]
    return words.value_counts().reindex(list(WORDS), fill_value=0)


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
