"""The scorecard's counts: how many sentences of the paper have each word, and how many of its numbers come out."""

import pandas as pd

from . import rules
from .rules import BEYOND, WORDS


def counts(gathered: pd.DataFrame) -> pd.Series:
    """Return how many sentences of the paper have each word, in the order of rules.WORDS."""
    words = gathered[gathered["word"] != BEYOND].drop_duplicates("claim")["word"]
    return words.value_counts().reindex(list(WORDS), fill_value=0)


def printed_numbers(gathered: pd.DataFrame) -> pd.DataFrame:
    """Return one row per sentence that prints a number which could be computed here: whether all of them come out.

    Columns: `printed` (how many numbers), `come_out` (how many of them, by the paper's own recipe).
    """
    from .claims import declared  # noqa: PLC0415

    rows = gathered[(gathered["paper"] != "") & gathered["as_published"].notna()]
    says = [rules.judge(declared(row.claim, row.quantity, row.prompt, row.model), rules.Numbers(row.as_published))
            for row in rows.itertuples()]  # fmt: skip
    return rows.assign(says=says).groupby("claim", sort=False)["says"].agg(printed="size", come_out="sum")
