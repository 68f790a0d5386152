"""The claims of section 3.3: the frequency of words (notebook 05)."""

from collections.abc import Mapping, Sequence, Set

import pandas as pd

from lib.claims import Claim, papers_own, state
from lib.collection import Collection
from lib.prompts import polarity


def frequency_claims(
    study: Collection,
    prompts: Sequence[str],
    *,
    counts: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]],
    change: pd.DataFrame,
    bias: pd.DataFrame | None = None,
) -> list[Claim]:
    """All claims of section 3.3.

    counts: claim -> effects.count_positive by prompt, as published and corrected. change: effects.compare by prompt, of
    slopes with the control less slopes without, over the same words. bias: by prompt, the slope of a model without
    any planted bonus, where there is one.
    """
    own, claims = papers_own(study), []
    for claim, (published, corrected) in counts.items():
        for prompt in prompts:
            claims += count_claims(claim, prompt, published.loc[prompt], corrected.loc[prompt], own)
    for prompt in prompts:
        claims.append(change_claim(prompt, change.loc[prompt], own))
        if bias is not None:
            slope = bias.loc[prompt].rename({"slope": "corrected"})[["corrected", "ci_low", "ci_high", "p"]]
            claims.append(state("S3.freq.controlled", "bias", prompt, note="slope of the control model", **slope))
    return claims


def count_claims(claim: str, prompt: str, published: pd.Series, corrected: pd.Series, own: Set[str]) -> list[Claim]:
    """S3.freq.*: models that reward frequent words significantly more, and the mean of their slopes."""
    quantity, n = "n_positive_significant", int(corrected.models)
    interval = {"corrected": corrected.slope, "ci_low": corrected.ci_low, "ci_high": corrected.ci_high, "n": n}
    return [
        state(claim, quantity, prompt, own=own, as_published=published[quantity], corrected=corrected[quantity], n=n),
        state(claim, "slope", prompt, own=own, judged=(None, corrected.ci_low),
              note="mean over models, standard deviations of reward per tenfold frequency", **interval),
    ]  # fmt: skip


def change_claim(prompt: str, row: pd.Series, own: Set[str]) -> Claim:
    """S3.freq.controlled: what the control changes: for bad things it should raise slopes, for good ones lower them."""
    nearest = row.ci_low if polarity(prompt) < 0 else row.ci_high
    return state("S3.freq.controlled", "change", prompt, own=own, judged=(None, nearest), corrected=row.gap,
                 ci_low=row.ci_low, ci_high=row.ci_high, n=int(row.models), p=row.p,
                 note="slope with the control minus slope without, same words")  # fmt: skip
