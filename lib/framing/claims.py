"""The claims of sections 3.1 and 3.2: sentiment and framing (notebook 04).

A sentence about slopes is judged by the mean gap between them: as published, of raw slopes on the authors' join, by its
interval over models; corrected, of standardised rewards with a row per word, by its interval over words and models.
"""

from collections.abc import Mapping, Sequence, Set

import pandas as pd

from lib.claims import Claim, papers_own, state
from lib.collection import Collection
from lib.framing import effects
from lib.prompts import polarity


def framing_claims(
    study: Collection,
    prompts: Sequence[str],
    *,
    tests: Mapping[str, pd.DataFrame],
    gaps: Mapping[str, pd.DataFrame],
    counts: tuple[pd.DataFrame, pd.DataFrame],
    mean_gaps: pd.DataFrame,
    spreads: tuple[pd.DataFrame, pd.DataFrame],
    agreement: Mapping[tuple[str, str], pd.DataFrame],
    lexicons: Mapping[str, str],
) -> list[Claim]:
    """All claims of sections 3.1 and 3.2.

    tests: effects.compare by prompt: `published`, `corrected`, the same of sizes (`published, absolute`, `absolute`),
    `figure` (slopes read off Fig 3C) and `clean` (without offensive words). gaps: the rows of all models of
    effects.by_words by prompt: `all`, `clean`, `other` (lexicon), and `mixed`, of effects.mixed_model. counts:
    effects.count_positive, as published and corrected. mean_gaps: as gaps, of effects.mean_gap. spreads:
    effects.spread, as published and corrected. agreement: (prompt, another) -> effects.prompt_agreement. lexicons: the
    names of the one of `grades`, of the `other` and of `signs`.
    """
    own, claims = papers_own(study), []
    for prompt in prompts:
        claims += slope_claims(prompt, tests, gaps["all"], own) + other_gap_claims(prompt, tests, gaps, lexicons, own)
        claims += absolute_claims(prompt, tests, gaps["all"], own)
        claims += sentiment_claims(prompt, counts, mean_gaps, lexicons, own)
        claims += spread_claims(prompt, *spreads, own) if polarity(prompt) > 0 else []
    return claims + agreement_claims(agreement, own)


def slope_claims(prompt: str, tests: Mapping[str, pd.DataFrame], gaps: pd.DataFrame, own: Set[str]) -> list[Claim]:
    """S3.slope.*: the paired test over models, and the mean gap with its interval over words and models."""
    published, corrected, gap = tests["published"].loc[prompt], tests["corrected"].loc[prompt], gaps.loc[prompt]
    judged, claim = (published.ci_low, gap.ci_low), f"S3.slope.{prompt}"
    claims = [
        state(claim, quantity, prompt, own=own, judged=judged, as_published=published[quantity],
              corrected=corrected[quantity], n=int(corrected.models), p=corrected.p)
        for quantity in ("t", "p", "n_steeper", "p_wilcoxon")
    ]  # fmt: skip
    return [*claims, state(claim, "gap", prompt, own=own, judged=judged, as_published=published.gap, **_interval(gap))]


def other_gap_claims(
    prompt: str, tests: Mapping[str, pd.DataFrame], gaps: Mapping[str, pd.DataFrame], lexicons: Mapping[str, str],
    own: Set[str],
) -> list[Claim]:  # fmt: skip
    """S3.slope.*: the gap by a mixed model, without offensive words, and by another lexicon; each by its interval."""
    mixed, clean, test = gaps["mixed"].loc[prompt], gaps["clean"].loc[prompt], tests["clean"].loc[prompt]
    found = {
        "gap_mixed": _interval(mixed.rename({"gap": "estimate"})) | {"p": mixed.p, "note": "words as independent"},
        "gap_without_offensive": _interval(clean) | {"p": test.p, "note": f"{int(test.n_steeper)} of {int(test.models)}"
                                                     " models steeper; p: paired t over models"},
        "gap_other_lexicon": _interval(gaps["other"].loc[prompt]) | {"note": lexicons["other"]},
    }  # fmt: skip
    return [
        state(f"S3.slope.{prompt}", quantity, prompt, own=own, judged=(None, gap["ci_low"]), **gap)
        for quantity, gap in found.items()
    ]


def absolute_claims(prompt: str, tests: Mapping[str, pd.DataFrame], gaps: pd.DataFrame, own: Set[str]) -> list[Claim]:
    """S3.slope.*: sizes of slopes, right only if the directions are right too; and the paper's figure tested."""
    published, corrected = tests["published, absolute"].loc[prompt], tests["absolute"].loc[prompt]
    judged = (published.ci_low, gaps.loc[prompt].ci_low)
    claims = [
        state(f"S3.slope.{prompt}", "n_steeper_absolute", prompt, own=own, judged=judged,
              as_published=published.n_steeper, corrected=corrected.n_steeper, n=int(corrected.models), p=corrected.p,
              note="sizes of slopes, whatever their direction")
    ]  # fmt: skip
    if prompt in tests["figure"].index:
        test = tests["figure"].loc[prompt]
        claims.append(state(f"S3.slope.{prompt}", "t_from_figure", prompt, own=own, judged=(test.ci_low, None),
                            as_published=test.t, n=int(test.models), p=test.p,
                            note="slopes read off Fig 3C"))  # fmt: skip
    return claims


def sentiment_claims(
    prompt: str, counts: tuple[pd.DataFrame, pd.DataFrame], mean_gaps: pd.DataFrame, lexicons: Mapping[str, str],
    own: Set[str],
) -> list[Claim]:  # fmt: skip
    """S3.sentiment: models whose rewards rise (for bad things, fall) with sentiment; how far apart the signs are."""
    is_good, apart = polarity(prompt) > 0, mean_gaps.loc[prompt]
    quantity = f"n_{'positive' if is_good else 'negative'}_significant"
    rows = [table.set_index("prompt").loc[prompt] for table in counts]
    published, corrected = (row[quantity] for row in rows)
    return [
        state("S3.sentiment", quantity, prompt, own=own, as_published=published, corrected=corrected,
              n=int(rows[1].models), note=lexicons["grades"]),
        state("S3.sentiment", "positive_minus_negative", prompt, own=own, note=lexicons["signs"],
              judged=(None, apart.ci_low if is_good else apart.ci_high), **_interval(apart)),
    ]  # fmt: skip


def spread_claims(prompt: str, published: pd.DataFrame, corrected: pd.DataFrame, own: Set[str]) -> list[Claim]:
    """S3.spread: the ratio of standard deviations, positive over negative words, and models in which it exceeds 1."""
    old, new = (_all_models(table).loc[prompt].rename({"ratio": "estimate"}) for table in (published, corrected))
    judged = (old.ci_low, new.ci_low)
    of_models = corrected[(corrected["model"] != effects.ALL) & (corrected["prompt"] == prompt)]["ratio"]
    return [
        state("S3.spread", "ratio", prompt, own=own, judged=judged, as_published=old.estimate, **_interval(new)),
        state("S3.spread", "n_positive_wider", prompt, own=own, judged=judged, corrected=int((of_models > 1).sum()),
              n=len(of_models)),
    ]  # fmt: skip


def agreement_claims(agreement: Mapping[tuple[str, str], pd.DataFrame], own: Set[str]) -> list[Claim]:
    """S3.framing.corr: the mean correlation of rewards under two prompts; judged by the model in which it is lowest."""
    claims = []
    for (prompt, other), table in agreement.items():
        lowest = table["pearson"].min()
        note = f"with {other}; as published Pearson (lowest {lowest:.2f}), corrected tau; mean over models"
        claims.append(state("S3.framing.corr", "mean", prompt, own=own, judged=(lowest, None), note=note, n=len(table),
                            as_published=table["pearson"].mean(), corrected=table["tau"].mean()))  # fmt: skip
    return claims


def _interval(row: pd.Series) -> dict:
    return {"corrected": row.estimate, "ci_low": row.ci_low, "ci_high": row.ci_high, "n": int(row.n)}


def _all_models(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["model"] == effects.ALL].set_index("prompt")
