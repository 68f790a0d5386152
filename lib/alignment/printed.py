"""What the paper prints of section 4, beside what the authors' published scores give and what a collection gives.

The published numbers are read from the committed tables of figures/published, so they show without any download.
"""

from collections.abc import Sequence

import pandas as pd

from lib import ROOT, InputError
from lib.alignment import kinds
from lib.claims import Claim, declared

PUBLISHED = ROOT / "figures" / "published"
FIRST = ("Unconditional love", "Sports bra", "Gödel, Escher, Bach")  # named as some model's favourite, section 4.1
FIG_5C = ("The Holocaust", *FIRST)
PRINTED_RANKS = {"Black people": "third most undervalued", "The Holocaust": "ranked worst by people"} | {
    "Unconditional love": "best for 5 models",
    "Sports bra": "best for R-Lla-8B",
    "Gödel, Escher, Bach": "best for F-Lla-8B-v0.1",
}


def printed_taus(stated: Sequence[Claim], prompt: str) -> pd.DataFrame:
    """Agreement as the paper prints it, as the published scores give it under GE and GW, and ours under one prompt.

    Columns: claim, quantity, paper, published GE, published GW, ours. stated: the claims of this notebook.
    """
    path = PUBLISHED / "claims.csv"
    if not path.is_file():
        raise InputError(f"no claims of the published scores in {path}; restore the file from the repository")
    published = pd.read_csv(path, keep_default_na=False)
    ours = {(one.claim, one.quantity): _main(one) for one in stated if one.prompt == prompt}
    rows = []
    for claim, quantity in _QUANTITIES:
        row = {"claim": claim, "quantity": quantity, "paper": declared(claim, quantity, "GE").printed}
        for name in ("GE", "GW"):
            same = (published["claim"] == claim) & (published["quantity"] == quantity) & (published["prompt"] == name)
            found = published[same].apply(lambda one: one["corrected"] or one["as_published"], axis=1)
            row[f"published {name}"] = f"{float(found.iloc[0]):.2f}" if len(found) else ""
        number = ours.get((claim, quantity))
        rows.append(row | {"ours": "" if number is None else f"{number:.2f}"})
    return pd.DataFrame(rows)


_QUANTITIES = [("S4.tau.human", name) for name in ("mean", "sd", "min", "max")] + [("S4.tau.models", "mean")]
_QUANTITIES += [("S4.asymmetry", "high"), ("S4.asymmetry", "low")]


def _main(claim: Claim) -> float | None:
    return claim.as_published if claim.corrected is None else claim.corrected


def named_ranks(ours: pd.DataFrame, unrated: pd.Index) -> pd.DataFrame:
    """The items that section 4 and its Figs 5B and 5C name, with their ranks on the published scores and here.

    ours: human.discrepancies, whose items may be words of small letters. unrated: items that people did not rate, whose
    rank by people is a convention and is left out. Columns: item, named for, the paper prints, then people, models and
    position (1 = most undervalued) of the published scores (prompt GE) and of ours; blank where an item is not there.
    """
    path = PUBLISHED / "items" / "06_discrepancies.csv"
    published = pd.read_csv(path, keep_default_na=False).set_index("item")
    ours = ours.drop(index=unrated, errors="ignore")
    mine = ours.set_axis(ours.index.str.lower())
    rows = []
    for item in [*kinds.NAMED, *FIG_5C]:
        printed = PRINTED_RANKS.get(item, "a rank, of which no number is transcribed")
        row = {"item": item, "named for": kinds.NAMED.get(item, "its place"), "the paper prints": printed}
        rows.append(row | _places(published, item, "published") | _places(mine, item.lower(), "ours"))
    return pd.DataFrame(rows)


def _places(items: pd.DataFrame, item: str, source: str) -> dict[str, str]:
    names = {"people": "people_rank", "models": "models_rank", "position": "position"}
    found = items.loc[item] if item in items.index else None
    return {f"{source}: {name}": "" if found is None else f"{found[column]:,.0f}" for name, column in names.items()}
