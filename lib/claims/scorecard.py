"""The scorecard: one line per sentence of the paper, its two corrected p-values, its evidence and its verdict."""

import numpy as np
import pandas as pd
from statsmodels.stats.multitest import multipletests

from ..tables.collection import Collection
from . import claims
from .rules import AGAINST, FOR, ONLY, OTHER, OURS, SAID, SIDES, UNDECIDED, UNTESTABLE

COLUMNS = ["section", "says", "quantity", "prompt", "estimate", "ci_low", "ci_high", "n", "p", "p_section", "p_all",
           "evidence", "population", "side", "verdict", *SIDES]  # fmt: skip


def scorecard(gathered: pd.DataFrame) -> pd.DataFrame:
    """Return one row per sentence of the paper, by its primary quantities: what it says, our estimate, the verdict.

    Index: claim. Columns: COLUMNS. for, undecided and against count the sensitivity rows on each side. p_section and
    p_all are corrected by Holm, over the sentences of a family (families.csv) and over all. Where p_all is not below
    .05 the side is `undecided`. A sentence that joins several quantities is `for` if all are, `against` if one is. Its
    p is the largest of them; of those against it is the smallest, times how many quantities there are.
    """
    rows = {claim: _sentence(of_claim) for claim, of_claim in gathered.groupby("claim", sort=False)}
    card = pd.DataFrame.from_dict(rows, orient="index").astype({"p": float})
    family = claims.families().reindex(card.index).fillna("")
    tested = card["p"].notna() & (family != "")
    card["p_section"] = card["p"][tested].groupby(family).transform(_holm)
    card["p_all"] = _holm(card["p"][tested])
    doubtful = (card["p_all"] >= 0.05) & card["side"].isin([FOR, AGAINST])
    card.loc[doubtful, "side"] = UNDECIDED
    card.loc[doubtful & card["verdict"].isin(SAID.values()), "verdict"] = SAID[UNDECIDED]
    return claims.listed()[["section", "says"]].join(card, how="right").rename_axis("claim")[COLUMNS]


def _holm(p: pd.Series) -> pd.Series:
    return pd.Series(multipletests(p, method="holm")[1] if len(p) else [], p.index, dtype=float)


def _sentence(rows: pd.DataFrame) -> dict:

    decide = deciding(rows)
    sides = set(decide["side"]) - {""}
    side = next((name for name in (AGAINST, UNDECIDED, FOR) if name in sides), "")  # several rows must all hold
    reason = decide["verdict"].iloc[0] if len(decide) else UNTESTABLE
    said = OURS if (rows["verdict"] == OURS).any() else SAID[side] if side and reason in SAID.values() else reason
    shown = decide[decide["side"] == side] if side else decide
    shown = (shown if len(shown) else rows).iloc[0]
    p = decide["p"].where(decide["ci_low"].notna())
    p = np.minimum(len(p) * p[decide["side"] == AGAINST].min(), 1.0) if side == AGAINST else p.max()
    others = rows.drop(index=decide.index)["side"].value_counts().reindex(SIDES, fill_value=0)
    copied = shown[["quantity", "prompt", "ci_low", "ci_high", "n", "evidence"]].to_dict() | others.to_dict()
    copied["population"] = ", ".join(dict.fromkeys(decide["population"])) or shown["population"]
    return copied | {"estimate": _estimate(shown), "p": p, "side": side, "verdict": said}


def deciding(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one claim that decide its verdict: the primary ones, or all if none is primary.

    Rows with a verdict come before rows that hold as published only, on other texts, and on other models. Of these, the
    rows of the strongest evidence decide.
    """
    primary = rows[rows["role"] == "primary"]
    rows = primary if len(primary) else rows[rows["side"] != ""]
    for verdicts in (SAID.values(), [ONLY], [OTHER], [UNTESTABLE]):
        if (chosen := rows["verdict"].isin(verdicts)).any():
            rows = rows[chosen]
            break
    ranks = rows["evidence"].map({name: i for i, name in enumerate(claims.EVIDENCE)})
    return rows[ranks == ranks.min()] if ranks.notna().any() else rows


def counts(card: pd.DataFrame) -> pd.DataFrame:
    """Return how many sentences of the paper have each verdict (columns), by their evidence (index)."""
    asked = card[(card["verdict"] != OURS) & (card["evidence"] != "")]
    table = pd.crosstab(asked["evidence"], asked["verdict"]).rename_axis(columns=None)
    columns = [name for name in (*SAID.values(), ONLY, OTHER, UNTESTABLE) if name in table]
    return table.reindex([name for name in claims.EVIDENCE if name in table.index])[columns]


# --- on one page --------------------------------------------------------------------------------------------------


def tried(study: Collection) -> pd.DataFrame:
    """Return the rows of multiverse.summary that the notebooks of a collection kept, with their population."""
    files = [(part, path) for part in study.parts for path in sorted(part.figures.glob("*_specifications.csv"))]
    tables = [pd.read_csv(path, keep_default_na=False, na_values={"joint_p": [""]}).assign(population=part.population)
              for part, path in files]  # fmt: skip
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=["claim", "population"])


def one_page(card: pd.DataFrame) -> pd.DataFrame:
    """Return the scorecard as a table of texts."""
    holm = {f"p ({name})": [short(p) if pd.notna(p) else "" for p in card[f"p_{name}"]] for name in ("section", "all")}
    return pd.DataFrame(
        {"claim": card.index, "the paper says": card["says"].to_numpy(),
         "estimate": [estimate_text(row) for _, row in card.iterrows()], **holm, "evidence": card["evidence"],
         "on": card["population"], "side": card["side"], "verdict": card["verdict"]}
    ).reset_index(drop=True)  # fmt: skip


def estimate_text(row: pd.Series) -> str:
    """Return `mean gap in slope, worst: -0.02 [-0.05, 0.01], n = 640`; '' where nothing was computed.

    row: of claims.gather or of the scorecard, whose index is the claim.
    """
    if pd.isna(_estimate(row)):
        return ""
    model = row.get("model", "")
    how = claims.declared(row.get("claim", row.name), row["quantity"], row["prompt"], model)
    what = how.said if how is not None and how.said else row["quantity"].replace("_", " ")
    n = "" if pd.isna(row["n"]) else f", n = {row['n']:.0f}"
    return f"{', '.join(filter(None, [what, row['prompt'], model]))}: {number_text(row)}{n}"


def number_text(row: pd.Series) -> str:
    """Return the number of a row of claims.gather or of the scorecard with its interval: `-0.02 [-0.05, 0.01]`."""
    interval = "" if pd.isna(row["ci_low"]) else f" [{short(row['ci_low'])}, {short(row['ci_high'])}]"
    return f"{short(_estimate(row))}{interval}"


def _estimate(row: pd.Series) -> float:
    if "estimate" in row:
        return row["estimate"]
    return row["as_published"] if pd.isna(row["corrected"]) else row["corrected"]


def short(number: float) -> str:
    """Return a number to two digits, a large or whole one without decimals."""
    return f"{number:.0f}" if float(number).is_integer() or abs(number) >= 100 else f"{number:.2g}"
