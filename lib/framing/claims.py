"""The claims of section 3: sentiment and framing (notebooks 04 and 04b), and frequency (notebook 05).

`rows_of` joins a table with a row per prompt with data/paper/numbers.csv, which declares quantities and their prompts.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ..claims.claims import FIELDS, THE_PAPER, declared, row
from ..stats.factors import FACTORS
from ..stats.resampling import side
from . import effects, interaction

PRINTED, TABLES = "printed figures", "printed tables"
UNIT = "SD of reward per tenfold frequency"
FIELD_OF = {"estimate": "corrected", "count": "corrected", "models": "n"}  # column of a tidy table -> field of a row


def rows_of(claim: str, quantity: str, table: pd.DataFrame, **columns) -> list[dict]:
    """Return a row for each prompt of a table for which numbers.csv declares the quantity.

    `claim`: an id, in which {} is replaced by the prompt. `table`: its index is the prompt, and its columns become
    fields of claims.row (see fields_of). `columns`: more fields, as numbers, texts or Series by prompt.
    """
    rows = table.assign(**columns)
    return [row(claim.format(prompt), quantity, prompt, **fields_of(rows.loc[prompt])) for prompt in rows.index
            if declared(claim.format(prompt), quantity, prompt)]  # fmt: skip


def fields_of(estimate: pd.Series) -> dict:
    """Return the numbers that are fields of claims.row, without NaN."""
    fields = {FIELD_OF.get(name, name): value for name, value in estimate.items() if value == value}
    fields = {name: int(value) if name == "n" else value for name, value in fields.items()}
    return {name: value for name, value in fields.items() if name in FIELDS}


def about(table: pd.DataFrame) -> pd.Series:
    """Return the prediction intervals of one new model as text."""
    return "a new model: " + table["new_low"].map("{:.2f}".format) + " to " + table["new_high"].map("{:.2f}".format)


def every_choice(choices: pd.DataFrame) -> pd.DataFrame:
    """Return what all choices of effects.gaps_by_choice say together: a row per prompt, for rows_of.

    The interval reaches from the lowest to the highest limit of all intervals. The p is the largest p (an
    intersection-union test), or 1 where estimates have different signs.
    """
    by_prompt = choices.groupby("prompt", sort=False)
    one_sign = by_prompt["estimate"].agg(lambda gaps: abs(np.sign(gaps).sum()) == len(gaps))
    clear = [(choices[end] * way > 0).groupby(choices["prompt"]).sum() for end, way in (("ci_low", 1), ("ci_high", -1))]
    table = by_prompt.agg({"estimate": "mean", "ci_low": "min", "ci_high": "max", "n": "min", "p": "max"})
    sizes = by_prompt.size().astype(str)
    note = sizes + " choices of lexicon and words, " + clear[0].astype(str) + " above 0 and " + clear[1].astype(str)
    return table.assign(p=table["p"].where(one_sign, 1.0), note=note + " below; mean of their gaps")


def framing_claims(
    *,
    published: pd.DataFrame,
    gaps: Mapping[str, pd.DataFrame],
    counts: Mapping[str, pd.DataFrame],
    apart: pd.DataFrame,
    spreads: tuple[pd.DataFrame, pd.DataFrame],
    lexicons: Mapping[str, str],
) -> list[dict]:
    """Return the claims of notebook 04 about single prompts.

    Most tables come from functions of `effects`. `published`: `compare` of raw slopes and the authors' join. `gaps`:
    `mean_of` for `all`, `without_offensive` and `other_lexicon`, and gaps_by_choice for `choices`. `counts`:
    count_positive for `published`, and `counts` for `steeper, rising, falling, apart, wider`. `apart`: `mean_of` the
    mean gaps. `spreads`: interaction.spread, as published and corrected. `lexicons`: names of `grades`, `other` and
    `signs`.
    """
    gap, slope = gaps["all"], "S3.slope.{}"
    rows = rows_of(slope, "gap", gap, as_published=published["gap"], note=about(gap))
    rows += rows_of(slope, "n_steeper", counts["steeper"], as_published=published["n_steeper"])
    rows += rows_of(slope, "gap_every_choice", every_choice(gaps["choices"]))
    rows += rows_of(slope, "gap_without_offensive", gaps["without_offensive"], note=lexicons["grades"])
    rows += rows_of(slope, "gap_other_lexicon", gaps["other_lexicon"], note=lexicons["other"])
    ways = {"S3.sentiment": ("positive", counts["rising"].assign(p=counts["rising"]["p_all"])),
            "S3.sentiment.worst": ("negative", counts["falling"])}  # fmt: skip
    for claim, (sign, significant) in ways.items():
        quantity, note = f"n_{sign}_significant", f"{lexicons['signs']}; models whose {sign} words score higher"
        rows += rows_of(claim, "positive_minus_negative", apart, note=f"{lexicons['signs']}; " + about(apart))
        recipe = counts["published"][quantity]
        rows += rows_of(claim, quantity, significant, as_published=recipe, note=lexicons["grades"])
        rows += rows_of(claim, "n_apart", counts["apart"], note=note)
    old, new = map(effects.mean_of, spreads)
    is_same = np.isclose(old["estimate"], new["estimate"], rtol=1e-9)  # both joins give the same words
    ratio = new.assign(estimate=new["estimate"].mask(is_same))
    rows += rows_of("S3.spread", "ratio", ratio, as_published=old["estimate"], note=about(new))
    return rows + rows_of("S3.spread", "n_positive_wider", counts["wider"])


def robustness_claims(
    *, tests: Mapping[str, pd.DataFrame], gaps: Mapping[str, pd.DataFrame], steeper_absolute: pd.DataFrame
) -> list[dict]:
    """Return the claims of notebook 04b: the paper's own tests, sizes of slopes, exact grades and the paper's figure.

    `tests`: effects.compare as `published` (raw slopes, the authors' join), `corrected`, `published, absolute` and
    `absolute`. It also has effects.min_f as `min_f` and recomputed.figure_test as `figure`. `gaps`: effects.mean_of for
    `all`, `disattenuated` and `absolute`. `steeper_absolute`: effects.counts.
    """
    slope, published, over_models, gap = "S3.slope.{}", tests["published"], tests["corrected"], gaps["all"]
    rows = rows_of(slope, "t", t_of(over_models), as_published=published["t"], note="over models, words as given")
    # A gap of the wrong sign has p = 1.
    p = [one["p"].where(gaps_of > 0, 1.0) for one, gaps_of in ((published, published["gap"]), (gap, gap["estimate"]))]
    of_p = over_models[["models"]].assign(as_published=p[0], corrected=p[1])
    rows += rows_of(slope, "p", of_p, note="corrected: over words and models; 1 for a gap of wrong sign")
    f = tests["min_f"]
    note = pd.Series([f"min F'(1, {one.df:.0f}) = {one.f:.2f}, of t = {one.t_models:.1f} over models and "
                      f"{one.t_words:.1f} over words" for one in f.itertuples()], f.index)  # fmt: skip
    of_f = over_models[["models"]].assign(corrected=f["p"].where(gap["estimate"] > 0, 1.0), note=note)
    rows += rows_of(slope, "p_min_f", of_f)
    note = "VADER, slopes over the reliability of grades"
    rows += rows_of(slope, "gap_disattenuated", gaps["disattenuated"], note=note)
    old, new, note = tests["published, absolute"], tests["absolute"], "sizes of slopes, whatever their direction"
    rows += rows_of(slope, "gap_absolute", gaps["absolute"], as_published=old["gap"], note=note)
    rows += rows_of(slope, "t_absolute", t_of(new), as_published=old["t"], note=note)
    rows += rows_of(slope, "n_steeper_absolute", steeper_absolute, as_published=old["n_steeper"], note=note)
    return rows + figure_claims(tests["figure"])


def t_of(test: pd.DataFrame) -> pd.DataFrame:
    """Return effects.compare with t as the number, judged by the interval of the gap."""
    ends = pd.Series(list(test[["ci_low", "ci_high"]].itertuples(index=False, name=None)), test.index)
    return test[["models", "p"]].assign(corrected=test["t"], judged=ends)


def figure_claims(figure: pd.DataFrame) -> list[dict]:
    """Return S3.slope.*: the paper's test on the slopes of its Fig 3C, with the range of p in place of an interval."""
    same = {"own": pd.Series([THE_PAPER] * len(figure), figure.index), "population": PRINTED}
    note = pd.Series([f"t from {one.t_low:.2f} to {one.t_high:.2f} over all that can be read, {one.hidden} slopes"
                      " hidden" for one in figure.itertuples()], figure.index)  # fmt: skip
    models = figure[["models"]]
    p = {"as_published": figure["p"], "p": figure["p"], "ci_low": figure["p_low"], "ci_high": figure["p_high"]}
    rows = rows_of("S3.slope.{}", "p_from_figure", models, note="a range, no interval: " + note, **p, **same)
    return rows + rows_of("S3.slope.{}", "t_from_figure", models, as_published=figure["t"], note=note, **same)


def interaction_claims(framing: pd.DataFrame, models: pd.Series, signs: str) -> list[dict]:
    """Return S3.framing.interaction from interaction.sides (`framing`) and effects.count (`models`).

    The main claim rests on the first wording, the lexicon `signs` and all words.
    """
    claim, first, (every, clean) = "S3.framing.interaction", framing["wording"].iloc[0], effects.WORDS
    rewards, normal = interaction.SCALES
    table = framing[framing["lexicon"] == signs].set_index(["scale", "words", "wording"])
    chosen = {"ratio": (rewards, every, first), "ratio_without_offensive": (rewards, clean, first),
              "ratio_of_normal_scores": (normal, every, first)}  # fmt: skip
    if len(wordings := list(framing["wording"].unique())) > 1:
        chosen["ratio_many_wordings"] = (rewards, every, wordings[-1])
    plain = framing[framing["scale"] == rewards]
    above = sum(side(low, high, 1) == "for" for low, high in zip(plain["ci_low"], plain["ci_high"], strict=True))
    # The n of a ratio is its words, not its models.
    notes, ratios = about(table), table.drop(columns="models")
    return [
        *(row(claim, name, **fields_of(ratios.loc[choice]), note=f"{signs}, {choice[2]}, {choice[1]}; {notes[choice]}")
          for name, choice in chosen.items()),
        row(claim, "n_models", **fields_of(models), note=f"{signs}, {first}"),
        row(claim, "n_choices", corrected=above, n=len(plain),
            note="choices of lexicon, words and wordings whose interval lies above 1"),
    ]  # fmt: skip


def agreement_claims(agreement: pd.DataFrame, inverse: pd.DataFrame) -> list[dict]:
    """Return S3.framing.corr and S3.framing.inverse.

    `agreement`: opposites.prompt_agreement of best and greatest. `inverse`: effects.in_rows of
    opposites.not_the_inverse.
    """
    alike = agreement.rename(columns={"pearson": "estimate"}).set_index("model")
    mean, lowest = alike.loc[effects.ALL], alike.drop(index=effects.ALL)["estimate"].idxmin()
    note = f"Pearson's r of best and greatest; tau {mean.tau:.2f}; no limit is said for `highly`"
    both = inverse.set_index("model").loc[effects.ALL]
    return [
        row("S3.framing.corr", "mean", note=note, **fields_of(mean)),
        row("S3.framing.corr", "lowest", note=lowest, **fields_of(alike.loc[lowest])),
        row("S3.framing.inverse", "sum", **fields_of(both),
            note="r of best with greatest plus r of best with worst; 0 for an exact inverse"),
    ]  # fmt: skip


def corner_claims(listed: pd.Series, models: int) -> list[dict]:
    """Return S3.framing.corner: which words of the corner the authors' Table A8 lists (opposites.listed_models).

    `sonder` is left out: Table A6 has it and Table A7 does not, so the shared vocabulary lacks it.
    """
    claim, same = "S3.framing.corner", {"own": THE_PAPER, "population": TABLES}
    known = listed.drop("sonder")
    note = "of the words that the shared vocabulary holds, those in Table A8 of a model; it lacks `sonder`"
    words = row(claim, "n_words", as_published=int((known > 0).sum()), n=len(known), note=note, **same)
    return [words, *(
        row(claim, f"n_{word}", as_published=int(count), n=models, note="models with it in their Table A8", **same)
        for word, count in known.items()
    )]  # fmt: skip


def frequency_claims(
    *, published: Mapping[str, pd.DataFrame], slopes: Mapping[str, pd.DataFrame], counts: Mapping[str, pd.DataFrame],
    change: pd.DataFrame, bias: pd.DataFrame,
) -> list[dict]:  # fmt: skip
    """Return the claims of section 3.3.

    By claim, `published` is effects.count_positive by the authors' recipe, `slopes` effects.mean_of frequency.measured,
    and `counts` effects.counts. `change`: as slopes, with the control less without it, on the same words. `bias`: the
    slope (slope, ci_low, ci_high) at equal sentiment of a model without a planted bonus. It may be empty.
    """
    rows = []
    controls = {prompt: f"; a model without a bonus: {b.slope:+.3f} ({b.ci_low:+.3f} to {b.ci_high:+.3f})"
                for prompt, b in bias.iterrows()}  # fmt: skip
    for claim, of_models in counts.items():
        slope, recipe = slopes[claim], published[claim]["n_positive_significant"]
        bonus = slope.index.map(controls).fillna("") if controls and claim == "S3.freq.controlled" else ""
        rows += rows_of(claim, "n_positive_significant", of_models, as_published=recipe)
        rows += rows_of(claim, "slope", slope, note=f"{UNIT}; " + about(slope) + bonus)
    return rows + rows_of("S3.freq.change", "change", change, note=f"{UNIT}, with the control less without, same words")


def wording_claims(of_statistics: Mapping[str, pd.DataFrame]) -> list[dict]:
    """Return S3.wordings: each statistic's mean over wordings, and the factors' shares of its variance.

    `of_statistics`: name -> wordings.over_wordings.
    """
    rows = []
    for name, table in of_statistics.items():
        for asked, mean in table.iterrows():
            note = f"over {mean.wordings:.0f} wordings; words, models and prompts are random"
            rows.append(row("S3.wordings", name, asked, **fields_of(mean.drop(list(FACTORS))), note=note))
            rows += [row("S3.wordings", f"{name}, share of {factor}", asked, corrected=mean[factor], n=int(mean.n),
                         note="of the variance of the mean") for factor in FACTORS]  # fmt: skip
    return rows
