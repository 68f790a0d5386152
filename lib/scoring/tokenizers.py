"""What the paper's models read for each token, as counted by `python -m benchmarks.tokenizers`
in data/tokenizers.
"""

import pandas as pd

from .. import DATA
from ..tables import registry

KEPT = DATA / "tokenizers"


def bases() -> dict[str, list[str]]:
    """Return base -> the nicknames of the paper's models that were made from it."""
    models = registry.reward_models().query("group == 'paper'").reset_index()
    return {
        str(base): rows["nickname"].tolist()
        for base, rows in models.groupby("base", sort=False)
    }


def kept_counts() -> pd.DataFrame:
    """Return data/tokenizers/counts.csv for each of the ten models, with columns nickname, base,
    and the counts.
    """
    counts = pd.read_csv(KEPT / "counts.csv")
    of_models = pd.DataFrame(
        [(name, base) for base, names in bases().items() for name in names]
    )
    return of_models.set_axis(["nickname", "base"], axis=1).merge(
        counts,
        on="base",
        validate="many_to_one",
    )


def kept_printed_tokens() -> pd.DataFrame:
    """Return data/tokenizers/printed_tokens.csv, with the columns of printed_as_fed."""
    return pd.read_csv(KEPT / "printed_tokens.csv", keep_default_na=False)
