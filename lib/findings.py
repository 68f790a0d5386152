"""Findings in sentences: the numbers of each claim in the words of data/paper/numbers.csv, from the gathered claims."""

import pandas as pd

from lib import claims
from lib.rules import OTHER, UNTESTABLE
from lib.scorecard import scorecard


def phrases() -> dict[str, dict[str, str]]:
    """Claim -> quantity -> the words in which it is said, in the order of data/paper/numbers.csv."""
    told = claims.quantities().query("said != ''").drop_duplicates(["claim", "quantity"])
    return {claim: rows.set_index("quantity")["said"].to_dict() for claim, rows in told.groupby("claim", sort=False)}


def sentences(gathered: pd.DataFrame) -> pd.DataFrame:
    """A row per claim that has numbers, in the paper's order: claim (index), verdict (lib.scorecard), found.

    gathered: as from claims.gather. Of a quantity that several inputs give for one prompt, the first is told.
    """
    card, said = scorecard(gathered), phrases()
    told = {claim: _sentence(gathered[gathered["claim"] == claim], said.get(claim, {})) for claim in card.index}
    table = card[["verdict"]].assign(found=pd.Series(told)).rename_axis("claim")
    return table[table["found"] != ""]


def _sentence(rows: pd.DataFrame, words: dict[str, str]) -> str:
    """The phrases, each with its numbers; '' where there are none."""
    parts = []
    for quantity, phrase in words.items():
        stated = rows[rows["quantity"] == quantity]
        if not quantity.startswith("position"):  # a place has a row per aggregate
            stated = stated.drop_duplicates("prompt")
        if numbers := [text for row in stated.to_dict("records") if (text := _said_numbers(row))]:
            parts.append(f"{phrase}: {'; '.join(numbers)}")
    return ". ".join(part[0].upper() + part[1:] for part in parts)


def _said_numbers(row: dict) -> str:
    corrected, published = row["corrected"], row["as_published"]
    main = published if pd.isna(corrected) else corrected
    if pd.isna(main):
        return ""
    interval = "" if pd.isna(row["ci_low"]) else f" [{_said(row['ci_low'])}, {_said(row['ci_high'])}]"
    differs = not pd.isna(published) and _said(published) != _said(main)
    compared = row["paper"] and row["verdict"] not in (OTHER, UNTESTABLE)
    beside = [f"as published {_said(published)}"] if differs else []
    beside += [f"paper {row['paper'].removesuffix('.0')}"] if compared else []
    where = f"{row['prompt']} " if row["prompt"] else ""
    return f"{where}{_said(main)}{interval}" + (f" ({', '.join(beside)})" if beside else "")


def _said(number: float) -> str:
    return f"{number:.0f}" if float(number).is_integer() or abs(number) >= 10 else f"{number:.2f}"
