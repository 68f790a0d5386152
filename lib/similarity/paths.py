"""Every reasonable way to ask what agreement between models goes with: the paths of section 2.2.

A path is a matrix of agreement, a coding of each factor, the factors that are held constant, and a test. Its estimate
is the standardised coefficient of one factor, so that matrices and codings have one unit. See lib.multiverse.
"""

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import stats

from lib import multiverse
from lib.multiverse import Path
from lib.similarity import pair_model
from lib.similarity.factors import can_be_told_apart, observations, theoretical
from lib.similarity.relabelling import p_of

EXACT, REML, PUBLISHED = TESTS = ("exact permutation", "REML", "all entries, as published")
CODED = {"base": ("family", "release"), "developer": ("same",), "parameters": ("inverse", "log", "place"),
         "rank": ("inverse", "linear", "place")}  # fmt: skip
ALONE, ALL = "nothing", "all others"
CHOICES = ("base as", "size as", "rank as")  # the choices that code a factor
CODES = {"base": "base as", "parameters": "size as", "rank": "rank as"}  # factor -> its choice

Fit = Callable[[pd.DataFrame, Mapping[str, pd.DataFrame], str], Path]


def similarity_paths(
    matrices: Mapping[str, pd.DataFrame], models: pd.DataFrame, factor: str, constant: tuple[str, ...] = (ALONE, ALL)
) -> pd.DataFrame:
    """All paths of one factor: choices matrix, base as, size as, rank as, held constant, test; see multiverse.run.

    matrices: name -> agreement of the same models. factor: the one whose coefficient is asked for. constant: what is
    held constant, each a factor, `nothing`, or `all others`. Left out by rule: a coding of a factor that is not in the
    regression, which would count one path several times. No rows where the models are too few, or too alike.
    """
    choices = {"matrix": tuple(matrices), "held constant": constant}
    choices |= {choice: CODED[name] for name, choice in CODES.items()} | {"test": TESTS}
    traits = cache(lambda base, size, rank: theoretical(models, base, size, rank))

    def predictors(chosen: dict) -> dict[str, pd.DataFrame]:
        every = traits(*(chosen[choice] for choice in CHOICES))
        return {name: every[name] for name in _in_regression(factor, chosen["held constant"], tuple(every))}

    if factor not in traits("family", "inverse", "inverse"):
        return pd.DataFrame(columns=[*choices, *multiverse.FOUND])
    first = {name: options[0] for name, options in choices.items()}
    if not can_be_told_apart(matrices[first["matrix"]], predictors(first | {"held constant": constant[-1]})):
        return pd.DataFrame(columns=[*choices, *multiverse.FOUND])
    table = multiverse.run(
        choices,
        lambda chosen: FITS[chosen["test"]](matrices[chosen["matrix"]], predictors(chosen), factor),
        lambda chosen: _not_in_it(chosen, factor),
    )
    return table.assign(**{choice: table[choice].where(_matters(table, factor, choice), "-") for choice in CHOICES})


def _in_regression(factor: str, constant: str, known: tuple[str, ...]) -> list[str]:
    others = [] if constant == ALONE else [name for name in known if constant in (ALL, name) and name != factor]
    return [factor, *others]


def _not_in_it(chosen: dict, factor: str) -> str | None:
    """Why a combination makes no sense, or None."""
    for name, choice in CODES.items():
        if chosen[choice] != CODED[name][0] and name not in _in_regression(
            factor, chosen["held constant"], tuple(CODED)
        ):
            return "codes a factor that is not in the regression"
    return None


def _matters(table: pd.DataFrame, factor: str, choice: str) -> pd.Series:
    name = next(name for name, its in CODES.items() if its == choice)
    return table["held constant"].map(lambda constant: name in _in_regression(factor, constant, tuple(CODED)))


# --- the claims of section 2.2 ------------------------------------------------------------------------------------

PRINTED_TAU = "Fig 2A, tau"  # the matrix of the paper's own path
TITLES = {
    "S2.rsa.simple": "Each factor alone: {share:.0%} of paths find that it goes with agreement",
    "S2.rsa.multiple": "RewardBench rank beyond the base: {share:.0%} of paths find it",
    "S2.rsa.beyond": "The base beyond RewardBench rank: {share:.0%} of paths find it",
}
AS_PUBLISHED = {"base as": "family", "rank as": "inverse"}


def all_paths(matrices: Mapping[str, pd.DataFrame], models: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The paths of each sentence on the regression: claim -> table, as from multiverse.run; those that have any.

    S2.rsa.simple: each factor alone; S2.rsa.multiple: rank, with the base or all others held constant; S2.rsa.beyond:
    the base, with rank or all others held constant.
    """
    alone = {factor: similarity_paths(matrices, models, factor, (ALONE,)) for factor in CODED}
    tables = {"S2.rsa.simple": pd.concat([_of_one(factor, table) for factor, table in alone.items() if len(table)])}
    for claim, factor, other in (("S2.rsa.multiple", "rank", "base"), ("S2.rsa.beyond", "base", "rank")):
        if len(alone[factor]) and len(alone[other]):
            tables[claim] = similarity_paths(matrices, models, factor, (other, ALL))
    return tables


def _of_one(factor: str, table: pd.DataFrame) -> pd.DataFrame:
    """The paths of one factor alone, with one column for its coding, in which the published one has one name."""
    coding = table[CODES[factor]] if factor in CODES else pd.Series(CODED[factor][0], table.index)
    coding = coding.where(coding != CODED[factor][0], "as published")
    columns = {"matrix": table["matrix"], "factor": factor, "coding": coding, "test": table["test"]}
    return pd.DataFrame(columns | {name: table[name] for name in multiverse.FOUND})


def marked(claim: str, table: pd.DataFrame, test: str) -> dict[str, str] | None:
    """The options of the paper's path (test: PUBLISHED) or of ours (REML), by Fig 2A; None where that is not here."""
    if PRINTED_TAU not in set(table["matrix"]):
        return None
    options = {"S2.rsa.simple": {"coding": "as published"},
               "S2.rsa.multiple": AS_PUBLISHED | {"held constant": ALL, "size as": "inverse"},
               "S2.rsa.beyond": AS_PUBLISHED | {"held constant": "rank"}}  # fmt: skip
    return {"matrix": PRINTED_TAU, "test": test} | options[claim]


def summaries(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per claim, as from multiverse.summary."""
    return pd.DataFrame(
        [
            multiverse.summary(claim, one, ours=marked(claim, one, REML), papers=marked(claim, one, PUBLISHED))
            for claim, one in tables.items()
        ]
    )


# --- tests --------------------------------------------------------------------------------------------------------


def by_reml(matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], factor: str) -> Path:
    """The standardised coefficient over pairs with the interval of the multi-membership model."""
    outcome, design = observations(matrix, predictors, "pairs")
    unit = design[:, list(predictors).index(factor)].std() / outcome.std()
    row = pair_model.fit(matrix, predictors).table.loc[factor] * unit
    return Path(float(row["b"]), float(row["ci_low"]), float(row["ci_high"]))


def by_permutation(matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], factor: str) -> Path:
    """The standardised least-squares coefficient over pairs, with a test-based interval from its permutation p.

    b (1 +- z / z_p), where z_p is the normal quantile of p: it leaves 0 out where p < .05 (Miettinen 1976).
    """
    outcome, design = observations(matrix, predictors, "pairs")
    column = list(predictors).index(factor)
    b = _standardised(outcome, design)[column]
    p = min(p_of(matrix, predictors, factor), 0.999)
    reach = abs(b) * stats.norm.ppf(0.975) / stats.norm.isf(p / 2)
    return Path(b, b - reach, b + reach)


def as_published(matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], factor: str) -> Path:
    """The standardised coefficient over all entries, diagonal and mirror included, with its ordinary interval."""
    outcome, design = observations(matrix, predictors, "all")
    column = list(predictors).index(factor)
    unit = design[:, column].std() / outcome.std()
    fit = sm.OLS(outcome, sm.add_constant(design)).fit()
    low, high = fit.conf_int()[column + 1] * unit
    return Path(float(fit.params[column + 1] * unit), float(low), float(high))


def _standardised(outcome: np.ndarray, design: np.ndarray) -> list[float]:
    scaled = (design - design.mean(axis=0)) / design.std(axis=0)
    return list(map(float, np.linalg.lstsq(scaled, (outcome - outcome.mean()) / outcome.std(), rcond=None)[0]))


FITS: dict[str, Fit] = {EXACT: by_permutation, REML: by_reml, PUBLISHED: as_published}
