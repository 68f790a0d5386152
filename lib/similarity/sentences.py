"""Sentences of section 2 that its own printed pages decide: words at the ends of R-Gem-2B, and stepwise regression."""

import re

import pandas as pd

from lib.claims import Claim, paper_table, state
from lib.display import is_offensive
from lib.models import registry
from lib.similarity import ends, factors, rsa
from lib.similarity.ends_claims import GEMMA, PRINTED

# What kills, hurts or extorts, and who stands for it; slurs, profanities and sexual violence are in data/offensive.txt.
HARM = re.compile(r"kill|massacr|murder|hitler|nazi|ransom|tortur|suicid|terror", re.IGNORECASE)


def sentence_claims(prompt: str) -> list[Claim]:
    """S2.sonder and S2.harm by Table 2 as printed, S2.rsa.stepwise by Fig 2A as printed."""
    both, common = ends.printed_ends()[GEMMA], {"note": "Table 2", "population": PRINTED}
    sonder = sum(text.strip().casefold() == "sonder" for text in both["optimal"])
    hits, low, high, of = ends.count(both["pessimal"], is_harm)
    tau, traits = printed_figure()
    kept, _ = rsa.stepwise(tau, traits, "all")
    so = int(set(kept) == {"base", "rank"})
    return [
        state("S2.sonder", "tokens", prompt, GEMMA, as_published=sonder, n=len(both["optimal"]), **common),
        state("S2.harm", "share_of_harm", prompt, GEMMA, as_published=hits / of, ci_low=low / of, ci_high=high / of,
              n=of, **common),
        state("S2.rsa.stepwise", "keeps_base_and_rank", prompt, as_published=so, n=100, population="figures (printed)",
              note=f"Fig 2A, all 100 entries, by AIC: keeps {' and '.join(kept)}"),
    ]  # fmt: skip


def is_harm(text: str) -> bool:
    """Whether a token names harm or suffering (HARM), or is a slur, a profanity or sexual violence."""
    return bool(HARM.search(text)) or is_offensive(text)


def printed_figure() -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Fig 2A as printed, models x models, and the theoretical matrices of its models."""
    tau = paper_table("fig2a_tau").set_index("nickname")
    return tau, factors.theoretical(registry.rows_of(tau.index))
