"""The scorecard: what the gathered rows come to, one line per sentence of the paper."""

import numpy as np
import pandas as pd
from statsmodels.stats.multitest import multipletests

from lib import claims
from lib.rules import AGAINST, FOR, ONLY, OTHER, SAID, SIDES, UNDECIDED, UNTESTABLE

COLUMNS = ["section", "says", "quantity", "prompt", "estimate", "ci_low", "ci_high", "n", "p_holm", "population",
           "side", "verdict", *SIDES]  # fmt: skip


def scorecard(gathered: pd.DataFrame) -> pd.DataFrame:
    """One row per sentence of the paper, by its primary quantities: what it says, what was found, and the verdict.

    Index: claim. Columns: section, says, quantity and prompt (of the primary row that decides), estimate, ci_low,
    ci_high, n, population, side, verdict; for, undecided, against (sensitivity rows on each side); p_holm.
    A sentence that joins several (prompts, factors) is for if all are, against if one is. p_holm: Holm's over the
    sentences whose primary rows are judged by an interval with a p, the largest of each; where it is not below .05 the
    side is `undecided`. A sentence without a primary row goes by all of its rows.
    """
    rows = {claim: _sentence(of_claim) for claim, of_claim in gathered.groupby("claim", sort=False)}
    card = pd.DataFrame.from_dict(rows, orient="index").astype({"p": float})
    has_p = card["p"].notna()
    card["p_holm"] = np.nan
    if has_p.any():
        card.loc[has_p, "p_holm"] = multipletests(card.loc[has_p, "p"], method="holm")[1]
    doubtful = (card["p_holm"] >= 0.05) & card["side"].isin([FOR, AGAINST])
    card.loc[doubtful, "side"] = UNDECIDED
    card.loc[doubtful & card["verdict"].isin(SAID.values()), "verdict"] = SAID[UNDECIDED]
    return claims.listed()[["section", "says"]].join(card.drop(columns="p"), how="right").rename_axis("claim")[COLUMNS]


def _sentence(rows: pd.DataFrame) -> dict:
    """What the rows of one claim come to, by the primary ones that could be tested best."""
    primary = rows[rows["role"] == "primary"]
    deciding = _best_tested(primary if len(primary) else rows[rows["side"] != ""])
    side, said = _joined(deciding)
    shown = deciding[deciding["side"] == side] if side else deciding
    shown = (shown if len(shown) else rows).iloc[0]
    others = rows.drop(index=deciding.index)["side"].value_counts()
    estimate = shown["as_published"] if pd.isna(shown["corrected"]) else shown["corrected"]
    copied = {name: shown[name] for name in ("quantity", "prompt", "ci_low", "ci_high", "n", "population")}
    p = deciding["p"].where(deciding["ci_low"].notna()).max()
    counts = {name: int(others.get(name, 0)) for name in SIDES}
    return copied | {"estimate": estimate, "p": p, "side": side, "verdict": said} | counts


def _best_tested(rows: pd.DataFrame) -> pd.DataFrame:
    """Those with a verdict; if there are none, those by the recipe only, on other texts, on other models."""
    for verdicts in (SAID.values(), [ONLY], [OTHER], [UNTESTABLE]):
        if (chosen := rows["verdict"].isin(verdicts)).any():
            return rows[chosen]
    return rows


def _joined(rows: pd.DataFrame) -> tuple[str, str]:
    """(side, verdict) of several rows that must all hold; no rows: nothing could be tested."""
    sides = set(rows["side"]) - {""}
    side = AGAINST if AGAINST in sides else UNDECIDED if UNDECIDED in sides else FOR if sides else ""
    if not len(rows):
        return "", UNTESTABLE
    reason = rows["verdict"].iloc[0]
    return side, SAID[side] if side and reason in SAID.values() else reason
