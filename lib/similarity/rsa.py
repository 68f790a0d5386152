"""What agreement between models goes with: the regression of section 2.2, as published and
corrected (RSA).
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import linregress
from statsmodels.regression.linear_model import OLS, RegressionResults

from ..stats.relabelling import interval, observations, p_of, size_of_mantel

FINAL = ("base", "rank")  # what the paper's stepwise regression keeps


def regress(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], entries: str = "pairs"
) -> RegressionResults:
    """Return the least-squares fit of a similarity matrix on theoretical ones, with an intercept
    (statsmodels).

    entries: "all" takes all k² entries for observations, as published. Its p-values are wrong: the
    k entries of the diagonal are 1 by definition, half of the others are copies, and pairs share
    models. "pairs" takes the pairs of different models; see `effects` for their intervals and
    p-values.
    """
    outcome, design = observations(matrix, predictors, entries)
    return OLS(
        outcome, pd.DataFrame(design, columns=list(predictors)).assign(intercept=1.0)
    ).fit()


def effects(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame]
) -> pd.DataFrame:
    """Return the effect b of each predictor in a joint regression over pairs, with its 95% interval
    and p-values.

    p is from the permutation test that shuffles the models' names (relabelling.p_of). The interval
    holds the effects that this test does not reject.
    """
    b, rows = regress(matrix, predictors).params, {}
    for factor in predictors:
        low, high = interval(matrix, predictors, factor, 0.95)
        p = p_of(matrix, predictors, factor)
        rows[factor] = {"b": float(b[factor]), "ci_low": low, "ci_high": high, "p": p}
    return pd.DataFrame.from_dict(rows, orient="index")


def stepwise(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], entries: str = "pairs"
) -> tuple[list[str], pd.DataFrame]:
    """Return the predictors that stepwise regression keeps, in order of entry, and its steps (step,
    aic).

    Each step adds or removes the predictor that lowers Akaike's criterion most, until none does.
    """

    def aic(names: list[str]) -> float:
        return float(
            regress(matrix, {name: predictors[name] for name in names}, entries).aic
        )

    selected, steps = [], [{"step": "none", "aic": aic([])}]
    while True:
        moves = {
            f"+ {name}": [*selected, name]
            for name in predictors
            if name not in selected
        }
        moves |= {
            f"- {name}": [other for other in selected if other != name]
            for name in selected
        }
        scored = {move: aic(names) for move, names in moves.items()}
        best = min(scored, key=scored.get, default=None)
        if best is None or scored[best] >= steps[-1]["aic"] - 1e-9:
            return selected, pd.DataFrame(steps)
        selected = moves[best]
        steps.append({"step": best, "aic": scored[best]})


def rsa(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], jointly: bool = True
) -> pd.DataFrame:
    """Return the regression of section 2.2 as published, over all entries, and corrected, over
    pairs (`effects`).

    There is a row per predictor. The predictors are in one model jointly, or each alone.
    """
    rows = []
    for group in (
        [predictors]
        if jointly
        else [{name: theory} for name, theory in predictors.items()]
    ):
        published = regress(matrix, group, "all")
        columns = {
            "b_published": published.params[list(group)],
            "p_published": published.pvalues[list(group)],
        }
        rows.append(pd.DataFrame(columns).join(effects(matrix, group)))
    return pd.concat(rows)


def shuffled_control(
    matrix: pd.DataFrame,
    predictors: Mapping[str, pd.DataFrame],
    shuffles: int = 200,
    permutations: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return how often each predictor alone is significant (p < .05) once models' names are
    shuffled; 5% is right.

    published is over so many shuffles, corrected is by Mantel's test over all shuffles (up to 10
    models).
    """
    corrected = {
        name: size_of_mantel(matrix, theory, permutations, seed)
        for name, theory in predictors.items()
    }
    outcome = matrix.to_numpy(dtype=float).ravel()
    random = np.random.default_rng(seed)
    hits = []
    theories = {
        name: theory.loc[matrix.index, matrix.index].to_numpy(float)
        for name, theory in predictors.items()
    }
    for _ in range(shuffles):
        order = random.permutation(len(matrix))
        rows = np.ix_(order, order)
        hits.append(
            {
                name: linregress(x[rows].ravel(), outcome).pvalue < 0.05
                for name, x in theories.items()
            }
        )
    return pd.DataFrame(
        {"published": pd.DataFrame(hits).mean(), "corrected": pd.Series(corrected)}
    )
