"""The claims of section 5, as rows for the scorecard."""

from collections.abc import Iterable, Mapping

import pandas as pd

from lib.claims import Claim
from lib.search import optimality
from lib.search.longer_replies import PUBLISHED

# --- claims -------------------------------------------------------------------------------------------------------


def of_objective(nickname: str, beside: Mapping[int, pd.DataFrame]) -> list[Claim]:
    """S5.objective: the rewards found for replies of n tokens; beside: n -> published_beside_ours."""
    note = "best reward over all starts; as published: that code's search, its pessimal gradient of the wrong sign"
    return [
        Claim("S5.objective", f"{direction} reward, {n} tokens", prompt, nickname, note=note,
              as_published=row["published"], corrected=row["ours"])
        for n, table in beside.items() for (prompt, direction), row in table.iterrows()
    ]  # fmt: skip


def of_optimality(summary: pd.DataFrame, budgets: Iterable[int] = (1024, 2048, 4096)) -> list[Claim]:
    """S5.optimality: the share of searches at the true optimum; summary: by method, direction and budget."""
    summary = summary.sort_index()
    claims, note = [], "share of searches at the true optimum; interval over models and prompts"
    for direction, method in PUBLISHED.items():
        for budget in budgets:
            ours, old = (summary.loc[(one, direction, budget), :] for one in (optimality.OURS, method))
            numbers = {"as_published": old["share"], "corrected": ours["share"], "n": int(ours["n"])}
            numbers |= {"ci_low": ours["low"], "ci_high": ours["high"]}
            claims.append(Claim("S5.optimality", f"{direction}, {budget} replies scored", note=note, **numbers))
    return claims
