"""The claims of section 3.3: the frequency of words (notebook 05).

A sentence about slopes is judged by their mean over models, of standardised rewards with a row per word, by its
interval over words and models; a count of models by its interval over words.
"""

from collections.abc import Mapping, Sequence

import pandas as pd

from lib.claims import Claim, papers_own, state
from lib.collection import Collection
from lib.framing.claims import ASKED, about, count_claim, interval

UNIT = "SD of reward per tenfold frequency"


def frequency_claims(
    study: Collection,
    prompts: Sequence[str],
    *,
    texts: int,
    published: Mapping[str, pd.DataFrame],
    slopes: Mapping[str, pd.DataFrame],
    counts: Mapping[str, pd.DataFrame],
    change: pd.DataFrame,
    bias: pd.DataFrame,
) -> list[Claim]:
    """All claims of section 3.3 about those of the paper's prompts that are among `prompts`.

    texts: how many the tables share. Each by prompt. By claim: published, effects.count_positive by the authors'
    recipe; slopes, effects.mean_of of frequency.by_words; counts, frequency.counts. change: as slopes, of what the
    control changes on the same words. bias: columns slope, ci_low, ci_high, what the method finds at equal sentiment
    in a model that nothing was planted in; empty where none is known.
    """
    own, claims = papers_own(study, texts), []
    asked = [prompt for prompt in ASKED if prompt in prompts]
    for claim, of_models in counts.items():
        for prompt in asked:
            recipe, row = published[claim].loc[prompt], slopes[claim].loc[prompt]
            said = f"{UNIT}; {about(row)}{beside(bias, prompt) if claim == 'S3.freq.controlled' else ''}"
            claims.append(count_claim(claim, "n_positive_significant", prompt, of_models.loc[prompt], own,
                                      int(recipe.n_positive_significant)))  # fmt: skip
            claims.append(state(claim, "slope", prompt, own=own, note=said, **interval(row)))
    if "worst" in asked:  # of the other prompts the paper does not say what the control changes
        note = f"{UNIT}, with the control less without, same words"
        claims.append(state("S3.freq.change", "change", "worst", own=own, note=note, **interval(change.loc["worst"])))
    return claims


def beside(bias: pd.DataFrame, prompt: str) -> str:
    """What to read a slope against: that of a model without any planted bonus; '' where none is known."""
    if prompt not in bias.index:
        return ""
    row = bias.loc[prompt]
    return f"; a model without a bonus: {row.slope:+.3f} ({row.ci_low:+.3f} to {row.ci_high:+.3f})"
