"""Fig 4's funnel: are more words bad replies to both best and worst than good replies to both?"""

from collections.abc import Mapping, Set

import pandas as pd

from lib.claims import Claim, state
from lib.crossed import Crossed, crossed, mean_influence

TAIL = 0.05  # a twentieth of the words at each end of a prompt


def funnel_claims(rewards: Mapping[str, pd.DataFrame], own: Set[str], population: str = "") -> list[Claim]:
    """S3.framing.funnel: of the lowest twentieth for best the share that is in that of worst too, less that of the
    highest; and that of the highest. rewards: best and worst -> words x models; words and models both drawn."""
    low, high = (in_both(rewards["best"], rewards["worst"], end) for end in ("low", "high"))
    note = f"of the {TAIL:.0%} of words at one end for best, the share at that end for worst ({TAIL:.0%} by chance)"
    found = {"low_less_high": _mean(low - high), "high_for_both": _mean(high)}
    return [
        state("S3.framing.funnel", name, own=own, corrected=one.estimate, ci_low=one.ci_low, ci_high=one.ci_high,
              n=one.n, note=note, population=population, p=one.p if name == "low_less_high" else None)
        for name, one in found.items()
    ]  # fmt: skip


def in_both(best: pd.DataFrame, worst: pd.DataFrame, end: str) -> pd.DataFrame:
    """Words x models: 1 / TAIL where a word is in the twentieth at that end for both prompts, else 0; a column's mean
    is the share of that twentieth which the prompts have in common."""
    ranks = [rewards.loc[best.index, best.columns].rank(pct=True) for rewards in (best, worst)]
    chosen = [rank <= TAIL if end == "low" else rank > 1 - TAIL for rank in ranks]
    return (chosen[0] & chosen[1]).astype(float) / TAIL


def _mean(each: pd.DataFrame) -> Crossed:
    return crossed(each.mean(), each.apply(mean_influence))
