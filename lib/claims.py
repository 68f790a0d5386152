"""The paper's claims, each computed as published and corrected: one row per quantity, gathered from the notebooks."""

from dataclasses import asdict, dataclass

import pandas as pd

from lib import ROOT, InputError
from lib.scores import replacing

VERDICTS = ("reproduced", "only as published", "not reproduced", "not testable here")


@dataclass(frozen=True)
class Claim:
    """One quantity of one claim. claim: its id, as `S2.tau`; quantity: what is counted, as `mean`.

    paper: what the paper prints. as_published: by the authors' recipe on these scores. corrected: the statistic that
    the sentence should mean, with its 95% interval and p-value; n says how many observations it rests on. None where
    there is nothing to say. prompt and model are empty where the claim is about all of them.
    """

    claim: str
    quantity: str
    prompt: str = ""
    model: str = ""
    paper: float | str | None = None
    as_published: float | None = None
    corrected: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    n: int | None = None
    p: float | None = None
    verdict: str = "not testable here"
    note: str = ""

    def __post_init__(self):
        if self.verdict not in VERDICTS:
            raise InputError(f"verdict must be one of {', '.join(VERDICTS)}, not {self.verdict!r}")


COLUMNS = list(Claim.__dataclass_fields__)


def keep(collection: str, notebook: str, claims: list[Claim]) -> pd.DataFrame:
    """The claims as a table, also kept for the scorecard as what this notebook (`03`) found in this collection."""
    table = pd.DataFrame([asdict(claim) for claim in claims], columns=COLUMNS)
    if (twice := table.duplicated(["claim", "quantity", "prompt", "model", "note"])).any():
        raise InputError(f"claim {table.loc[twice, 'claim'].iloc[0]} is stated twice; give each row its own quantity")
    with replacing(_folder(collection) / f"{notebook}.csv") as part:
        table.to_csv(part, index=False)
    return table


def gather(collection: str) -> pd.DataFrame:
    """Every claim that the notebooks kept for this collection, ordered by notebook. InputError if there are none."""
    paths = sorted(_folder(collection).glob("*.csv"))
    if not paths:
        raise InputError(f"no claims for collection '{collection}' yet; run the notebooks: make reproduce")
    tables = [pd.read_csv(path, keep_default_na=False, na_values={c: [""] for c in NUMBERS}) for path in paths]
    return pd.concat([table for table in tables if len(table)], ignore_index=True)[COLUMNS]


NUMBERS = ("as_published", "corrected", "ci_low", "ci_high", "n", "p")


def _folder(collection: str):
    return ROOT / "data" / "cache" / "claims" / collection
