"""What agreement between models goes with: the regression of section 2.2, as published and corrected (RSA)."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pingouin
import statsmodels.api as sm
from scipy.stats import linregress
from statsmodels.regression.linear_model import RegressionResults
from statsmodels.stats.multitest import multipletests

from ..stats import pair_model, relabelling
from ..stats.pair_model import observations
from ..stats.relabelling import p_of, size_of_mantel
from .factors import OVERALL, SECTIONS, nearness

FINAL = ("base", "rank")  # what the paper's stepwise regression keeps

# --- regression ---------------------------------------------------------------------------------------------------


def regress(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], entries: str = "pairs"
) -> RegressionResults:  # fmt: skip
    """Return the least-squares fit of a similarity matrix on theoretical ones, with an intercept (statsmodels).

    entries: "all" takes all k² entries for observations, as published. Its p-values are wrong: the k entries of the
    diagonal are 1 by definition, half of the others are copies, and pairs share models. "pairs" takes the pairs of
    different models; see `effects` for their intervals and p-values.
    """
    outcome, design = observations(matrix, predictors, entries)
    return sm.OLS(outcome, pd.DataFrame(design, columns=list(predictors)).assign(intercept=1.0)).fit()


def effects(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], permutations: int = 10_000, seed: int = 0
) -> pd.DataFrame:  # fmt: skip
    """Return the effect b of each predictor in a joint regression over pairs, with its 95% interval and p-values.

    The interval and p_reml are of a model in which models are sampled (pair_model.fit). p is from a permutation test
    that only shuffles their names (relabelling.p_of).
    """
    table = pair_model.fit(matrix, predictors).table.rename(columns={"p": "p_reml"})
    p = [p_of(matrix, predictors, factor, permutations, seed) for factor in predictors]
    return table[["b", "ci_low", "ci_high", "p_reml"]].assign(p=p)


def shares_of_r2(matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], entries: str = "pairs") -> pd.Series:
    """Return the share of R² that each predictor contributes, in [0, 1], together 1.

    It is what a predictor adds to R², averaged over all orders in which the predictors can enter (Lindeman, Merenda and
    Gold 1980, by pingouin).
    """
    outcome, design = observations(matrix, predictors, entries)
    fit = pingouin.linear_regression(pd.DataFrame(design, columns=list(predictors)), outcome, relimp=True)
    return fit[fit["names"] != "Intercept"].set_index("names")["relimp_perc"].rename("share") / 100


def stepwise(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], entries: str = "pairs"
) -> tuple[list[str], pd.DataFrame]:
    """Return the predictors that stepwise regression keeps, in order of entry, and its steps (step, aic).

    Each step adds or removes the predictor that lowers Akaike's criterion most, until none does.
    """

    def aic(names: list[str]) -> float:
        return float(regress(matrix, {name: predictors[name] for name in names}, entries).aic)

    selected, steps = [], [{"step": "none", "aic": aic([])}]
    while True:
        moves = {f"+ {name}": [*selected, name] for name in predictors if name not in selected}
        moves |= {f"- {name}": [other for other in selected if other != name] for name in selected}
        scored = {move: aic(names) for move, names in moves.items()}
        best = min(scored, key=scored.get, default=None)
        if best is None or scored[best] >= steps[-1]["aic"] - 1e-9:
            return selected, pd.DataFrame(steps)
        selected = moves[best]
        steps.append({"step": best, "aic": scored[best]})


# --- as published and corrected -----------------------------------------------------------------------------------


def rsa(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], jointly: bool = True, permutations: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:  # fmt: skip
    """Return the regression of section 2.2 as published, over all entries, and corrected, over pairs (`effects`).

    There is a row per predictor. shares are of R². The predictors are in one model jointly, or each alone.
    """
    rows = []
    for group in [predictors] if jointly else [{name: theory} for name, theory in predictors.items()]:
        published = regress(matrix, group, "all")
        columns = {"b_published": published.params[list(group)], "p_published": published.pvalues[list(group)]}
        columns |= {"share_published": shares_of_r2(matrix, group, "all")}
        corrected = effects(matrix, group, permutations, seed).assign(share=shares_of_r2(matrix, group))
        rows.append(pd.DataFrame(columns).join(corrected))
    return pd.concat(rows)


def significant(table: pd.DataFrame) -> list[str]:
    """Return the predictors of a table of `rsa` with p below .05 and an interval that does not hold 0."""
    return table.index[(table["p"] < 0.05) & (table["ci_low"] * table["ci_high"] > 0)].tolist()


def r2_as_rounded(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], half_unit: float = 0.005, draws: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:  # fmt: skip
    """Return R² of the published regression for matrices that round to the printed one: columns r2, adjusted_r2.

    In each draw, a row, each pair's entry is uniform within half a unit of its last printed digit.
    """
    _, design = observations(matrix, predictors, "all")
    left = np.eye(len(design)) - sm.add_constant(design) @ np.linalg.pinv(sm.add_constant(design))  # of what is fitted
    random, upper = np.random.default_rng(seed), np.triu_indices(len(matrix), 1)
    shifts = np.zeros((draws, *matrix.shape))
    shifts[:, *upper] = random.uniform(-half_unit, half_unit, (draws, len(upper[0])))
    drawn = (matrix.to_numpy(dtype=float) + shifts + shifts.transpose(0, 2, 1)).reshape(draws, -1)  # (draws, n)
    r2 = 1 - ((drawn @ left) ** 2).sum(axis=1) / ((drawn - drawn.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    n, k = design.shape
    return pd.DataFrame({"r2": r2, "adjusted_r2": 1 - (1 - r2) * (n - 1) / (n - k - 1)})


def analyses(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], permutations: int = 10_000, seed: int = 0
) -> dict[str, pd.DataFrame]:
    """Return the regressions of section 2.2: each factor alone, all together, and final (base and rank).

    Without base or rank, the final one has all factors.
    """
    final = {name: predictors[name] for name in FINAL} if set(FINAL) <= set(predictors) else predictors
    return {"alone": rsa(matrix, predictors, False, permutations, seed),
            "together": rsa(matrix, predictors, True, permutations, seed),
            "final": rsa(matrix, final, True, permutations, seed)}  # fmt: skip


def shuffled_control(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], shuffles: int = 200, permutations: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:  # fmt: skip
    """Return how often each predictor alone is significant (p < .05) once models' names are shuffled; 5% is right.

    published is over so many shuffles, corrected is by Mantel's test over all shuffles (up to 10 models).
    """
    corrected = {name: size_of_mantel(matrix, theory, permutations, seed) for name, theory in predictors.items()}
    outcome, random, hits = matrix.to_numpy(dtype=float).ravel(), np.random.default_rng(seed), []
    theories = {name: theory.loc[matrix.index, matrix.index].to_numpy(float) for name, theory in predictors.items()}
    for _ in range(shuffles):
        rows = np.ix_(order := random.permutation(len(matrix)), order)
        hits.append({name: linregress(x[rows].ravel(), outcome).pvalue < 0.05 for name, x in theories.items()})
    return pd.DataFrame({"published": pd.DataFrame(hits).mean(), "corrected": pd.Series(corrected)})


# --- equivalence ------------------------------------------------------------------------------------------------


def smallest_margin(matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], factor: str) -> dict[str, float]:
    """Return the smallest margin within which the data show, at the 5% level, that a factor makes no difference.

    Two one-sided tests (Schuirmann 1987, Journal of Pharmacokinetics and Biopharmaceutics 15, 657-680) accept a margin
    if the 90% interval lies within it. Keys: b (over pairs), low and high (that interval), margin.
    """
    low, high = relabelling.interval(matrix, predictors, factor, 0.9)
    b = float(regress(matrix, predictors).params[factor])
    return {"b": b, "low": low, "high": high, "margin": max(abs(low), abs(high))}


# --- sections of a benchmark --------------------------------------------------------------------


def section_effects(matrix: pd.DataFrame, scores: pd.DataFrame, permutations: int = 10_000) -> pd.DataFrame:
    """Return how far the similarity of models goes with the nearness of their scores: a row per benchmark and section.

    A benchmark is tested over models that have all of its sections, if they are five or more. p_holm corrects for all
    sections. p_beyond holds the overall score constant. more is b of the section minus b of the overall score.
    """
    rows = []
    for benchmark in [name for name in SECTIONS if name in scores]:
        some = scores[benchmark].reindex(matrix.index).dropna()
        if len(some) < 5:
            continue
        among = matrix.loc[some.index, some.index]
        near = {name: nearness(some[name], "linear") for name in some}
        for section in SECTIONS[benchmark]:
            theory, both = {section: near[section]}, {section: near[section], OVERALL: near[OVERALL]}
            outcome, design = observations(among, theory, "pairs")
            row = {"benchmark": benchmark, "section": section, "models": len(some)}
            row |= {"r": np.corrcoef(outcome, design[:, 0])[0, 1]}
            row |= effects(among, theory, permutations).loc[section, ["p", "b", "ci_low", "ci_high"]].to_dict()
            if section != OVERALL:
                more = pair_model.contrast(pair_model.fit(among, both), section, OVERALL)[:3]
                row |= {"p_beyond": p_of(among, both, section, permutations)}
                row |= dict(zip(["more", "more_low", "more_high"], more, strict=True))
            rows.append(row)
    table = pd.DataFrame(rows)
    if len(table):
        table.insert(5, "p_holm", multipletests(table["p"], method="holm")[1])
    return table
