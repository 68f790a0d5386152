"""Sentences of section 5 that its printed replies decide, Tables 4 and 5; their scores are not transcribed here."""

from collections.abc import Callable, Mapping, Set

import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from lib.claims import Claim, paper_table, state

PRINTED = "tables (printed)"
SUBJECTIVE = r"subjectiv|disqualified|never measurable|no objectively|no universal"


def reply_claims(is_code: Callable[[str], bool]) -> list[Claim]:
    """S5.code, S5.subjective and S5.extreme: how many printed replies are of that sort.

    is_code: whether a text looks like code. Counts of replies have their exact interval.
    """
    short, long = paper_table("table_4"), paper_table("table_5")
    both = pd.concat([short, long.assign(prompt=long["prompt"].str.removesuffix(" ever"))])
    claims = []
    for prompt in ("best", "worst"):
        rows = both.query("prompt == @prompt and direction == 'pessimal'")["result"]
        claims.append(_count("S5.code", "pessimal_with_code", prompt, rows.map(is_code), "Tables 4 and 5"))
        rows = long.query("prompt == @prompt + ' ever' and direction == 'optimal'")["result"]
        calls = rows.str.contains(SUBJECTIVE, case=False)
        claims.append(_count("S5.subjective", "optimal_that_are_subjective", prompt, calls, "Table 5", False))
    for prompt in ("greatest", "worst"):
        rows = short.query("prompt == @prompt and direction == 'pessimal'")["result"]
        named = rows.str.contains(r"\bJews\b")
        claims.append(_count("S5.extreme", "pessimal_with_jews", prompt, named, "Table 4", False))
    return claims


def _count(claim: str, quantity: str, prompt: str, hits: pd.Series, table: str, sampled: bool = True) -> Claim:
    """So many of these replies; sampled: as one of the replies that the search might have found."""
    low, high = (len(hits) * float(end) for end in proportion_confint(int(hits.sum()), len(hits), method="beta"))
    ends = (low, high) if sampled else (None, None)
    note = f"{table}; scores are not transcribed: pessimal and optimal by the direction of the search"
    return state(claim, quantity, prompt, as_published=int(hits.sum()), n=len(hits), population=PRINTED, note=note,
                 ci_low=ends[0], ci_high=ends[1])  # fmt: skip


def single_word_claims(rewards: Mapping[str, pd.DataFrame], own: Set[str], population: str = "") -> list[Claim]:
    """S5.lower: in how many models the best single word for worst scores below the best for best and for greatest.

    rewards: greatest, best and worst -> words x models, in each model's own unit.
    """
    highest = pd.DataFrame({prompt: table.max() for prompt, table in rewards.items()})
    below = int(((highest["worst"] < highest["best"]) & (highest["worst"] < highest["greatest"])).sum())
    low, high = (len(highest) * float(end) for end in proportion_confint(below, len(highest), method="beta"))
    return [
        state("S5.lower", "models", own=own, corrected=below, ci_low=low, ci_high=high, n=len(highest),
              population=population,
              note="single words; the scores in Tables 4 and 5 are not transcribed")
    ]  # fmt: skip
