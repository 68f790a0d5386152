"""What agreement between models goes with: the regression of section 2.2, as published and
corrected (RSA).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import linregress
from statsmodels.regression.linear_model import OLS, RegressionResults

from ..stats import relabelling
from ..stats.relabelling import Predictors

FINAL = ("base", "rank")  # what the paper's stepwise regression keeps


def regress(
    matrix: pd.DataFrame,
    predictors: Predictors,
    entries: str = "pairs",
) -> RegressionResults:
    """Return the least-squares fit of a similarity matrix on theoretical ones, with an intercept
    (statsmodels).

    entries: "all" takes all k² entries for observations, as published. Its p-values are wrong: the
    k entries of the diagonal are 1 by definition, half of the others are copies, and pairs share
    models. "pairs" takes the pairs of different models; see `effects` for their intervals and
    p-values.
    """
    outcome, design = relabelling.observations(matrix, predictors, entries)
    design = pd.DataFrame(design, columns=["intercept", *predictors])
    return OLS(outcome, design).fit()


def effects(
    matrix: pd.DataFrame, predictors: Predictors, of: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the effect b of each predictor in a joint regression over pairs, with its 95% interval
    and p-values. of: some of the predictors; without names, all of them.

    p is from the permutation test that shuffles the models' names (relabelling.p_of). The interval
    holds the effects that this test does not reject.
    """
    b = regress(matrix, predictors).params
    rows = {}
    for factor in of or predictors:
        shares = relabelling.relabelled(matrix, predictors, factor)
        low, high = relabelling.interval(shares)
        rows[factor] = {
            "b": float(b[factor]),
            "ci_low": low,
            "ci_high": high,
            "p": relabelling.p_of(shares),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def rsa(
    matrix: pd.DataFrame,
    predictors: Predictors,
    jointly: bool = True,
) -> pd.DataFrame:
    """Return the regression of section 2.2 as published, over all entries, and corrected, over
    pairs (`effects`).

    There is a row per predictor. The predictors are in one model jointly, or each alone.
    """
    groups = [predictors]
    if not jointly:
        groups = [{name: theory} for name, theory in predictors.items()]
    rows = []
    for group in groups:
        published = regress(matrix, group, "all")
        columns = {"b_published": published.params, "p_published": published.pvalues}
        of_group = pd.DataFrame(columns).loc[list(group)]
        rows.append(of_group.join(effects(matrix, group)))
    return pd.concat(rows)


def shuffled_control(
    matrix: pd.DataFrame,
    predictors: Predictors,
    shuffles: int = 200,
) -> pd.DataFrame:
    """Return how often each predictor alone is significant (p < .05) once models' names are
    shuffled; 5% is right.

    published is over so many shuffles, corrected is by Mantel's test over all shuffles (up to 10
    models).
    """
    names = matrix.index
    outcome = matrix.to_numpy(dtype=float).ravel()
    random = np.random.default_rng(0)
    orders = [random.permutation(len(names)) for _ in range(shuffles)]
    shares = {}
    for name, theory in predictors.items():
        x = theory.loc[names, names].to_numpy(float)
        p = []
        for order in orders:
            shuffled = x[np.ix_(order, order)]
            p.append(linregress(shuffled.ravel(), outcome).pvalue)
        alone = relabelling.relabelled(matrix, {name: theory}, name)
        shares[name] = {
            "published": np.mean(np.array(p) < 0.05),
            "corrected": relabelling.size_of_mantel(alone),
        }
    return pd.DataFrame.from_dict(shares, orient="index")
