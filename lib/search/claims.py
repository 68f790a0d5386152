"""The claims of section 5: rewards that searches found, and how often they are the highest or lowest there are.

The paper measures neither, so nothing here has a verdict.
"""

from collections.abc import Iterable, Mapping

import pandas as pd

from lib.claims import Claim, state
from lib.search import optimality
from lib.search.longer_replies import PUBLISHED_METHODS


def objective_claims(nickname: str, beside: Mapping[int, pd.DataFrame]) -> list[Claim]:
    """S5.objective: the rewards found for replies of n tokens; beside: n -> longer_replies.published_beside_ours."""
    note = "best reward over all starts; as published: that code's search, its pessimal gradient of the wrong sign"
    return [
        state("S5.objective", f"{direction} reward, {n} tokens", prompt, nickname, note=note,
              as_published=row["published"], corrected=row["ours"])
        for n, table in beside.items() for (prompt, direction), row in table.iterrows()
    ]  # fmt: skip


def optimality_claims(summary: pd.DataFrame, budgets: Iterable[int] = (1024, 2048, 4096)) -> list[Claim]:
    """S5.optimality: the share of searches at the true optimum; summary: by method, direction and budget, as text.

    budgets: replies scored; those that `summary` lacks are left out.
    """
    summary = summary.sort_index()
    measured = summary.index.get_level_values("budget")
    claims, note = [], "share of searches at the true optimum; interval over models and prompts"
    for direction, method in PUBLISHED_METHODS.items():
        for budget in [budget for budget in budgets if budget in measured]:
            ours, theirs = (summary.loc[(one, direction, budget), :] for one in (optimality.OURS, method))
            claims.append(state("S5.optimality", f"{direction}, {budget} replies scored", note=note,
                                as_published=theirs["share"], corrected=ours["share"], ci_low=ours["ci_low"],
                                ci_high=ours["ci_high"], n=int(ours["n"])))  # fmt: skip
    return claims
