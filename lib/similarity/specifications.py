"""The multiverse of section 2.2: every reasonable way to ask what agreement between models goes with.

A specification is a matrix of agreement, a coding of each factor, the factors that are held constant, and a test. Its
estimate is the standardised coefficient of one factor, so that matrices and codings have one unit.
"""

import itertools
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from scipy import stats

from ..stats import multiverse, pair_model, resampling
from ..stats.multiverse import Specification
from ..stats.relabelling import p_of
from .factors import theoretical
from .rsa import regress

EXACT, REML, PUBLISHED = TESTS = ("exact permutation", "REML", "all entries, as published")
CODINGS = {"base": ("family", "release"), "developer": ("same",), "parameters": ("inverse", "log", "place"),
           "rank": ("inverse", "linear", "place")}  # fmt: skip  # factor -> its codings, that of the paper first
CHOICES = {"base": "base as", "parameters": "size as", "rank": "rank as"}  # factor -> the choice that codes it
ALL = "all others"  # what is held constant
PRINTED_TAU = "Fig 2A, tau"  # the matrix of the paper's own specification
BEYOND = {"S2.rsa.multiple": ("rank", "base"), "S2.rsa.beyond": ("base", "rank")}  # claim -> factor, held constant
AS_PUBLISHED = {"base as": "family", "rank as": "inverse"}
PAPERS = {
    "S2.rsa.simple": {"coding": "as published"},
    "S2.rsa.multiple": AS_PUBLISHED | {"held constant": ALL, "size as": "inverse"},
    "S2.rsa.beyond": AS_PUBLISHED | {"held constant": "rank"},
}  # claim -> the options of the paper's specification, but for matrix and test


def specifications(matrices: Mapping[str, pd.DataFrame], models: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the specifications of each sentence on the regression: claim -> table, as from multiverse.run.

    matrices: name -> agreement of the same models. S2.rsa.simple is about each factor alone; the others (BEYOND) are
    about one factor, with another or all others held constant. A factor that is not in the regression has no coding
    ("-"). A claim is left out where its factors are unknown, and all are where the models are too few to tell the
    factors apart.
    """
    known = theoretical(models)
    if not pair_model.can_be_told_apart(next(iter(matrices.values())), known):
        return {}

    def run(claim: str, choices: dict) -> pd.DataFrame:
        def fit(chosen: dict) -> Specification:
            return estimate(chosen["test"], matrices[chosen["matrix"]], _traits(claim, chosen, models))

        return multiverse.run(choices, fit, claim=claim)

    tables = {"S2.rsa.simple": [
        run("S2.rsa.simple", {"matrix": tuple(matrices), "factor": (factor,),
                              "coding": ("as published", *CODINGS[factor][1:]), "test": TESTS})
        for factor in CODINGS if factor in known
    ]}  # fmt: skip
    for claim, both in BEYOND.items():
        for matrix, held in itertools.product(matrices, (both[1], ALL)) if set(both) <= set(known) else ():
            names = _names(both[0], held, known)
            codings = {choice: CODINGS[name] if name in names else ("-",) for name, choice in CHOICES.items()}
            choices = {"matrix": (matrix,), "held constant": (held,)} | codings | {"test": TESTS}
            tables.setdefault(claim, []).append(run(claim, choices))
    return {claim: pd.concat(some, ignore_index=True) for claim, some in tables.items()}


def _names(factor: str, held: str, known: Iterable[str]) -> list[str]:
    """Return the factors of a regression, the one that is asked about first. held is a factor, ALL, or '' for none."""
    return [factor, *(name for name in known if name != factor and held in (name, ALL))]


def marked(claim: str, table: pd.DataFrame, test: str) -> dict[str, str] | None:
    """Return the options of the paper's specification (PUBLISHED) or of ours (REML); None without Fig 2A."""
    if PRINTED_TAU not in set(table["matrix"]):
        return None
    return {"matrix": PRINTED_TAU, "test": test} | PAPERS[claim]


def summaries(
    tables: Mapping[str, pd.DataFrame], matrices: Mapping[str, pd.DataFrame], models: pd.DataFrame
) -> pd.DataFrame:
    """Return one row per claim, as from multiverse.summary."""
    joint = {claim: joint_test(claim, table, matrices, models) for claim, table in tables.items()}
    ours = {claim: marked(claim, table, REML) for claim, table in tables.items()}
    papers = {claim: marked(claim, table, PUBLISHED) for claim, table in tables.items()}
    return multiverse.summaries(tables, ours=ours, papers=papers, joint=joint)


def joint_test(
    claim: str, table: pd.DataFrame, matrices: Mapping[str, pd.DataFrame], models: pd.DataFrame,
    draws: int = 2000, seed: int = 0,
) -> float:  # fmt: skip
    """Return the p of all specifications of a claim together (multiverse.joint_p), by shuffling the names of models.

    Every specification is the standardised least-squares coefficient over pairs. All of them use the same shuffled
    orders, so that they stay as related as they are.
    """
    orders = resampling.orders(len(models), draws, seed)
    first, second = np.triu_indices(len(models), 1)
    rows = table[table["test"] == REML].drop(columns="test")
    estimates = []
    for chosen in rows.to_dict("records"):
        traits = _traits(claim, chosen, models)
        design = np.column_stack([np.ones(len(first)), *(traits[name].to_numpy()[first, second] for name in traits)])
        values = matrices[chosen["matrix"]].to_numpy()[orders[:, first], orders[:, second]]  # (1 + draws, pairs)
        estimates.append(np.linalg.pinv(design)[1] @ values.T * design[:, 1].std() / values[0].std())
    return multiverse.joint_p(np.array(estimates)[:, 0], np.array(estimates)[:, 1:].T)


def _traits(claim: str, chosen: Mapping[str, str], models: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the factors of a specification as it codes them, the one that is asked about first."""
    codes = {name: chosen.get(choice) for name, choice in CHOICES.items()}
    if claim == "S2.rsa.simple":
        factor, held = chosen["factor"], ""
        codes[factor] = chosen["coding"]
    else:
        factor, held = BEYOND[claim][0], chosen["held constant"]
    # A factor that is not in the regression, or is coded "as published", has the paper's coding.
    coded = {name: codes[name] if codes[name] in CODINGS[name] else CODINGS[name][0] for name in CHOICES}
    known = theoretical(models, **coded)
    return {name: known[name] for name in _names(factor, held, known)}


def estimate(test: str, matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame]) -> Specification:
    """Return the standardised coefficient of the first predictor, with the interval of one of TESTS.

    REML is the multi-membership model of pairs. The exact permutation test gives b (1 +- z / z_p), where z_p is the
    normal quantile of its p (Miettinen 1976). As published, all entries count, and the interval is the usual one.
    """
    factor = next(iter(predictors))
    fit = regress(matrix, predictors, "all" if test == PUBLISHED else "pairs")
    if test == REML:
        interval = pair_model.fit(matrix, predictors).table.loc[factor, ["b", "ci_low", "ci_high"]]
    elif test == PUBLISHED:
        interval = [fit.params[factor], *fit.conf_int().loc[factor]]
    else:
        b, p = fit.params[factor], min(p_of(matrix, predictors, factor), 0.999)
        reach = abs(b) * stats.norm.ppf(0.975) / stats.norm.isf(p / 2)
        interval = [b, b - reach, b + reach]
    unit = fit.model.exog[:, fit.model.exog_names.index(factor)].std() / fit.model.endog.std()
    return Specification(*(float(end * unit) for end in interval))
