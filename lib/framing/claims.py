"""The claims of sections 3.1 and 3.2: sentiment and framing (notebooks 04 and 04b).

A sentence about slopes is judged by the mean gap between them, of standardised rewards with a row per word, by its
interval over words and models; one about spreads by their ratio; a count of models by how it varies with the words.
"""

from collections.abc import Mapping, Sequence, Set

import numpy as np
import pandas as pd

from lib.claims import THE_PAPER, Claim, papers_own, state
from lib.collection import Collection
from lib.framing import effects, interaction
from lib.prompts import polarity

PRINTED, TABLES = "printed figures", "printed tables"
ASKED = ("greatest", "best", "worst")  # the paper's prompts: of others it says nothing


def framing_claims(
    study: Collection,
    prompts: Sequence[str],
    *,
    texts: int,
    published: pd.DataFrame,
    gaps: Mapping[str, pd.DataFrame],
    counts: Mapping[str, pd.DataFrame],
    apart: pd.DataFrame,
    spreads: tuple[pd.DataFrame, pd.DataFrame],
    framing: pd.DataFrame,
    agreement: pd.DataFrame,
    inverse: pd.DataFrame,
    lexicons: Mapping[str, str],
) -> list[Claim]:
    """What notebook 04 states about those of the paper's prompts that are among `prompts`.

    texts: how many the tables share. published: effects.compare of raw slopes and the authors' join, by prompt. gaps,
    by prompt: effects.mean_of: `all`, `without_offensive`, `other_lexicon`. counts, by prompt: effects.counts:
    `steeper`, `rising`, `falling` (significantly), `apart`, `wider`; `framing` (one row); `published`
    (effects.count_positive). apart: effects.mean_of of mean gaps. spreads: effects.spread, as published and corrected.
    framing: interaction.sides. agreement: effects.prompt_agreement of best and greatest; inverse: effects.in_rows of
    not_the_inverse. lexicons: the names of `grades`, `other`, `signs`.
    """
    own, claims = papers_own(study, texts), []
    for prompt in [prompt for prompt in ASKED if prompt in prompts]:
        claims += slope_claims(prompt, published, gaps["all"], counts["steeper"], own)
        claims += other_gap_claims(prompt, gaps, lexicons, own)
        claims += sentiment_claims(prompt, counts, apart, lexicons, own)
        claims += spread_claims(prompt, *spreads, counts["wider"], own)
    claims += interaction_claims(framing, counts["framing"].iloc[0], lexicons["signs"], own)
    return claims + agreement_claims(agreement, inverse, own)


def robustness_claims(
    study: Collection,
    prompts: Sequence[str],
    *,
    texts: int,
    tests: Mapping[str, pd.DataFrame],
    gaps: Mapping[str, pd.DataFrame],
    steeper_absolute: pd.DataFrame,
) -> list[Claim]:
    """What notebook 04b states: the paper's own tests, sizes of slopes, grades without error, and the paper's figure.

    tests, by prompt: effects.compare, `published` (raw slopes, the authors' join), `corrected`, and of sizes
    `published, absolute` and `absolute`; `min_f`, effects.min_f; `figure`, printed.figure_test. gaps, by prompt:
    effects.mean_of: `all`, `disattenuated`, `absolute`. steeper_absolute: effects.counts. The rest as framing_claims.
    """
    own, claims = papers_own(study, texts), []
    for prompt in [prompt for prompt in ASKED if prompt in prompts]:
        claims += test_claims(prompt, tests, gaps["all"], own)
        claims += other_gap_claims(prompt, gaps, {}, own)
        claims += size_claims(prompt, tests, gaps["absolute"], steeper_absolute, own)
        claims += figure_claims(prompt, tests["figure"])
    return claims


def slope_claims(
    prompt: str, published: pd.DataFrame, gaps: pd.DataFrame, steeper: pd.DataFrame, own: Set[str]
) -> list[Claim]:
    """S3.slope.*: the mean gap over words and models, and the models with a gap."""
    claim, old, gap = f"S3.slope.{prompt}", published.loc[prompt], gaps.loc[prompt]
    return [
        state(claim, "gap", prompt, own=own, as_published=old.gap, note=about(gap), **interval(gap)),
        count_claim(claim, "n_steeper", prompt, steeper.loc[prompt], own, old.n_steeper),
    ]


def test_claims(prompt: str, tests: Mapping[str, pd.DataFrame], gaps: pd.DataFrame, own: Set[str]) -> list[Claim]:
    """S3.slope.*: the paper's paired test over models, and what a test over words and models makes of it."""
    published, over_models, gap = (table.loc[prompt] for table in (tests["published"], tests["corrected"], gaps))
    claim, n = f"S3.slope.{prompt}", int(over_models.models)
    t = {"as_published": published.t, "corrected": over_models.t, "n": n, "note": "over models, words as given"}
    claims = [
        state(claim, "t", prompt, own=own, judged=(over_models.ci_low, over_models.ci_high), p=over_models.p, **t)
    ]
    if prompt == "greatest":  # of no other prompt is a p printed
        old, new = towards(published.gap, published.p), towards(gap.estimate, gap.p)
        claims.append(state(claim, "p", prompt, own=own, as_published=old, corrected=new, n=n,
                            note="corrected: over words and models; 1 for a gap of wrong sign"))  # fmt: skip
    if prompt != "best":  # nor is it called significant
        f = tests["min_f"].loc[prompt]
        note = f"min F'(1, {f.df:.0f}) = {f.f:.2f}, of t = {f.t_models:.1f} over models and {f.t_words:.1f} over words"
        claims.append(state(claim, "p_min_f", prompt, own=own, corrected=towards(gap.estimate, f.p), n=n, note=note))
    return claims


def other_gap_claims(
    prompt: str, gaps: Mapping[str, pd.DataFrame], lexicons: Mapping[str, str], own: Set[str]
) -> list[Claim]:
    """S3.slope.*: the gap without offensive words, by another lexicon, on grades without error; those given."""
    notes = {"without_offensive": lexicons.get("grades"), "other_lexicon": lexicons.get("other"),
             "disattenuated": "VADER, slopes over the reliability of grades"}  # fmt: skip
    return [
        state(f"S3.slope.{prompt}", f"gap_{kind}", prompt, own=own, note=note, **interval(gaps[kind].loc[prompt]))
        for kind, note in notes.items()
        if kind in gaps
    ]


def size_claims(
    prompt: str, tests: Mapping[str, pd.DataFrame], gaps: pd.DataFrame, steeper: pd.DataFrame, own: Set[str]
) -> list[Claim]:
    """S3.slope.worst: sizes of slopes, whatever their direction; for good things the signed ones stand for them."""
    if polarity(prompt) > 0:
        return []
    claim, note = f"S3.slope.{prompt}", "sizes of slopes, whatever their direction"
    old, new = (tests[kind].loc[prompt] for kind in ("published, absolute", "absolute"))
    t = {"as_published": old.t, "corrected": new.t, "n": int(new.models), "p": new.p, "note": note}
    return [
        state(claim, "gap_absolute", prompt, own=own, as_published=old.gap, note=note, **interval(gaps.loc[prompt])),
        state(claim, "t_absolute", prompt, own=own, judged=(new.ci_low, new.ci_high), **t),
        count_claim(claim, "n_steeper_absolute", prompt, steeper.loc[prompt], own, old.n_steeper, note),
    ]


def figure_claims(prompt: str, figure: pd.DataFrame) -> list[Claim]:
    """S3.slope.*: the paper's test on slopes read off its Fig 3C; of p, the range that hidden slopes leave."""
    if prompt == "best" or prompt not in figure.index:  # for best the paper prints no test
        return []
    claim, test = f"S3.slope.{prompt}", figure.loc[prompt]
    same = {"own": THE_PAPER, "population": PRINTED, "n": int(test.models)}
    t = f"t from {test.t_low:.2f} to {test.t_high:.2f} over all that can be read, {int(test.hidden)} slopes hidden"
    claims = [state(claim, "p_from_figure", prompt, as_published=test.p, ci_low=test.p_low, ci_high=test.p_high,
                    note=f"a range, no interval: {t}", **same)]  # fmt: skip
    if prompt == "greatest":
        claims.append(state(claim, "t_from_figure", prompt, as_published=test.t, note=t, **same))
    return claims


def sentiment_claims(
    prompt: str, counts: Mapping[str, pd.DataFrame], apart: pd.DataFrame, lexicons: Mapping[str, str], own: Set[str]
) -> list[Claim]:
    """S3.sentiment: how far apart the signs are; models whose rewards rise with sentiment, or fall for bad things."""
    if prompt == "best":  # the paper shows it only
        return []
    is_good, gap, signs = polarity(prompt) > 0, apart.loc[prompt], lexicons["signs"]
    claim = "S3.sentiment" if is_good else "S3.sentiment.worst"
    way, sign = ("rising", "positive") if is_good else ("falling", "negative")
    quantity, significant = f"n_{sign}_significant", counts[way].loc[prompt]
    published = int(counts["published"].loc[prompt, quantity])
    return [
        state(claim, "positive_minus_negative", prompt, own=own, note=f"{signs}; {about(gap)}", **interval(gap)),
        count_claim(claim, quantity, prompt, significant, own, published, lexicons["grades"]),
        count_claim(claim, "n_apart", prompt, counts["apart"].loc[prompt], own, None,
                    f"{signs}; models whose {sign} words score higher"),
    ]  # fmt: skip


def spread_claims(
    prompt: str, published: pd.DataFrame, corrected: pd.DataFrame, wider: pd.DataFrame, own: Set[str]
) -> list[Claim]:
    """S3.spread: the ratio of standard deviations, positive over negative words, and models in which it exceeds 1."""
    if prompt != "greatest":  # of the others the paper says nothing
        return []
    old, new = (
        table[table["model"] == effects.ALL].set_index("prompt").loc[prompt] for table in (published, corrected)
    )
    ours = interval(new.rename({"ratio": "estimate"}))
    if np.isclose(
        old.ratio, new.ratio, rtol=1e-9
    ):  # where the authors' join gives the same words, nothing is corrected
        ours["corrected"] = None
    return [
        state("S3.spread", "ratio", prompt, own=own, as_published=old.ratio, note=about(new), **ours),
        count_claim("S3.spread", "n_positive_wider", prompt, wider.loc[prompt], own),
    ]


def interaction_claims(framing: pd.DataFrame, models: pd.Series, signs: str, own: Set[str]) -> list[Claim]:
    """S3.framing.interaction: how many times wider positive words spread when good things are asked for than when bad.

    framing: interaction.sides. Its first wording, the lexicon `signs` and all words judge; the rest is sensitivity.
    models: effects.count of the same.
    """
    first, (every, clean) = framing["wording"].iloc[0], interaction.WORDS
    rewards, normal = interaction.SCALES
    table = framing[framing["lexicon"] == signs].set_index(["scale", "words", "wording"])
    chosen = {"ratio": (rewards, every, first), "ratio_without_offensive": (rewards, clean, first),
              "ratio_of_normal_scores": (normal, every, first)}  # fmt: skip
    if len(wordings := list(framing["wording"].unique())) > 1:
        chosen["ratio_many_wordings"] = (rewards, every, wordings[-1])
    plain = framing[framing["scale"] == rewards]
    note = "choices of lexicon, words and wordings whose interval lies above 1"
    return [
        *(_ratio_claim(quantity, choice, signs, table.loc[choice], own) for quantity, choice in chosen.items()),
        count_claim("S3.framing.interaction", "n_models", "", models, own, note=f"{signs}, {first}"),
        state("S3.framing.interaction", "n_choices", own=own, corrected=int((plain["ci_low"] > 1).sum()), n=len(plain),
              note=note),
    ]  # fmt: skip


def _ratio_claim(quantity: str, choice: tuple[str, ...], signs: str, row: pd.Series, own: Set[str]) -> Claim:
    _, words, wording = choice
    note = f"{signs}, {wording}, {words}; {about(row)}"
    return state("S3.framing.interaction", quantity, own=own, note=note, **interval(row))


def agreement_claims(agreement: pd.DataFrame, inverse: pd.DataFrame, own: Set[str]) -> list[Claim]:
    """S3.framing.corr and S3.framing.inverse: how rewards for best go with those for greatest, and against worst."""
    alike, sum_of = (table.set_index("model") for table in (agreement, inverse))
    mean, lowest = alike.loc[effects.ALL], alike.drop(index=effects.ALL)["pearson"].idxmin()
    note = f"Pearson's r of best and greatest; tau {mean.tau:.2f}; no limit is said for `highly`"
    least, both = alike.loc[lowest].rename({"pearson": "estimate"}), sum_of.loc[effects.ALL]
    return [
        state("S3.framing.corr", "mean", own=own, note=note, **interval(mean.rename({"pearson": "estimate"}))),
        state("S3.framing.corr", "lowest", own=own, note=lowest, **interval(least)),
        state("S3.framing.inverse", "sum", own=own, **interval(both),
              note="r of best with greatest plus r of best with worst; 0 for an exact inverse"),
    ]  # fmt: skip


def corner_claims(listed: pd.Series, models: int) -> list[Claim]:
    """S3.framing.corner: the words that score highly for best and worst, in the authors' Table A8.

    listed: printed.listed_models. `sonder` cannot be there: Table A6 has it among the highest of R-Gem-2B, and
    Table A7, the same on the shared vocabulary, does not, so that vocabulary lacks it.
    """
    claim, same = "S3.framing.corner", {"own": THE_PAPER, "population": TABLES}
    held = listed.drop("sonder")
    words = state(
        claim,
        "n_words",
        as_published=int((held > 0).sum()),
        n=len(held),
        **same,
        note="of the words that the shared vocabulary holds, those in Table A8 of a model; it lacks `sonder`",
    )
    return [words, *(
        state(claim, f"n_{word}", as_published=int(count), n=models, note="models with it in their Table A8", **same)
        for word, count in held.items()
    )]  # fmt: skip


# --- parts of a claim ---------------------------------------------------------------------------------------------


def interval(row: pd.Series) -> dict:
    """The fields of a claim for an estimate with its interval."""
    return {"corrected": row.estimate, "ci_low": row.ci_low, "ci_high": row.ci_high, "n": int(row.n), "p": row.p}


def about(row: pd.Series) -> str:
    """Where one new model would lie, for a mean over models."""
    return f"a new model: {row.new_low:.2f} to {row.new_high:.2f}"


def towards(gap: float, p: float) -> float:
    """The p-value, or 1 where the gap has the wrong sign, which no p should count for."""
    return float(p) if gap > 0 else 1.0


def count_claim(
    claim: str,
    quantity: str,
    prompt: str,
    row: pd.Series,
    own: Set[str],
    published: float | None = None,
    note: str = "",
) -> Claim:
    """A count of these very models, with its interval over words; row: count, ci_low, ci_high, models."""
    return state(claim, quantity, prompt, own=own, as_published=published, corrected=int(row["count"]),
                 ci_low=int(row["ci_low"]), ci_high=int(row["ci_high"]), n=int(row["models"]), note=note)  # fmt: skip
