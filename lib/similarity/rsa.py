"""What agreement between models goes with: the regression of section 2.2, as published and corrected (RSA)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pingouin
import statsmodels.api as sm

from lib.similarity import pair_model
from lib.similarity.factors import TRAITS, observations, pairs
from lib.similarity.relabelling import mrqap, size_of_mantel

FINAL = ("base", "rank")  # what the paper's stepwise regression keeps

# --- regression ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Regression:
    """An ordinary least squares fit of a model-by-model matrix. table: predictor -> b, t, p (the intercept left out).

    n: entries that were counted as observations. aic: Akaike's criterion, lower = better.
    """

    table: pd.DataFrame
    r2: float
    adjusted_r2: float
    aic: float
    n: int


def regress(matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], entries: str = "pairs") -> Regression:
    """Regression of a similarity matrix on theoretical ones, with an intercept.

    entries: "all" takes all k² entries for observations, diagonal and both triangles, as published; its p-values are
    wrong, because k of the entries are 1 by definition, half of the others are copies, and those that are left share
    models. "pairs" takes the k (k - 1) / 2 pairs of different models: b and R² of it mean what they say;
    `relabelling.mrqap` gives p-values and `pair_model.fit` intervals.
    """
    outcome, design = observations(matrix, predictors, entries)
    fit = sm.OLS(outcome, np.column_stack([np.ones(len(outcome)), design])).fit()
    table = pd.DataFrame({"b": fit.params[1:], "t": fit.tvalues[1:], "p": fit.pvalues[1:]}, index=list(predictors))
    return Regression(table, float(fit.rsquared), float(fit.rsquared_adj), float(fit.aic), len(outcome))


def shares_of_r2(matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], entries: str = "pairs") -> pd.Series:
    """How much of R² each predictor contributes, in [0, 1], together 1; predictor -> share. entries: as of `regress`.

    What a predictor adds to R², averaged over all orders in which the predictors can enter (Lindeman, Merenda and Gold
    1980, by pingouin), so that what correlated predictors explain together is divided between them.
    """
    outcome, design = observations(matrix, predictors, entries)
    fit = pingouin.linear_regression(pd.DataFrame(design, columns=list(predictors)), outcome, relimp=True)
    return fit[fit["names"] != "Intercept"].set_index("names")["relimp_perc"].rename("share") / 100


def stepwise(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], entries: str = "pairs"
) -> tuple[list[str], pd.DataFrame]:
    """The predictors that stepwise regression keeps, in order of entry, and its steps (step, aic).

    From none on, the one predictor is added or removed that lowers Akaike's criterion most, until none does.
    """
    kept, steps = [], [{"step": "none", "aic": _aic(matrix, predictors, [], entries)}]
    while True:
        moves = {f"+ {name}": [*kept, name] for name in predictors if name not in kept}
        moves |= {f"- {name}": [other for other in kept if other != name] for name in kept}
        scored = {move: _aic(matrix, predictors, names, entries) for move, names in moves.items()}
        best = min(scored, key=scored.get, default=None)
        if best is None or scored[best] >= steps[-1]["aic"] - 1e-9:
            return kept, pd.DataFrame(steps)
        kept = moves[best]
        steps.append({"step": best, "aic": scored[best]})


def _aic(matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], names: list[str], entries: str) -> float:
    if names:
        return regress(matrix, {name: predictors[name] for name in names}, entries).aic
    outcome, _ = observations(matrix, {}, entries)
    return float(sm.OLS(outcome, np.ones(len(outcome))).fit().aic)


# --- as published and corrected -----------------------------------------------------------------------------------


def rsa(
    matrix: pd.DataFrame,
    predictors: Mapping[str, pd.DataFrame],
    jointly: bool = True,
    permutations: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """The regression of section 2.2 twice: as published, over all entries, and corrected, over pairs.

    One row per predictor: b_published, p_published (OLS over all entries), share_published (of R²); b, its 95%
    interval ci_low, ci_high and p_reml (`pair_model.fit`, where the models are sampled), p (permutation, where only
    their names are dealt anew) and share (of R²) over pairs. jointly: all predictors in one model (MRQAP), or each
    alone (Mantel), with all of R² for its share.
    """
    groups = [predictors] if jointly else [{name: theory} for name, theory in predictors.items()]
    rows = []
    for group in groups:
        published, corrected = regress(matrix, group, "all").table, pair_model.fit(matrix, group).table
        share = {entries: shares_of_r2(matrix, group, entries) for entries in ("all", "pairs")}
        of_published = {"b_published": published["b"], "p_published": published["p"], "share_published": share["all"]}
        over_pairs = {"b": corrected["b"], "ci_low": corrected["ci_low"], "ci_high": corrected["ci_high"]}
        over_pairs |= {"p_reml": corrected["p"], "p": mrqap(matrix, group, permutations, seed), "share": share["pairs"]}
        rows.append(pd.DataFrame(of_published | over_pairs))
    return pd.concat(rows)


def found(table: pd.DataFrame) -> list[str]:
    """The predictors of a table of `rsa` that can be named: p below .05, and an interval that does not hold 0."""
    return table.index[(table["p"] < 0.05) & (table["ci_low"] * table["ci_high"] > 0)].tolist()


def r2_as_rounded(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], half_unit: float = 0.005, draws: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:  # fmt: skip
    """R² of the published regression for matrices that round to the printed one: `draws` rows of r2 and adjusted_r2.

    Each pair's entry is drawn from within half a unit of its last printed digit, all places there as likely; both
    triangles hold the same, and the diagonal is 1. All entries are observations (`regress`, entries="all").
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


@dataclass(frozen=True)
class Analyses:
    """The regressions that section 2.2 reports: each predictor alone, all together, and base with rank.

    simple, multiple, final: as from `rsa`. published, corrected: analysis -> the `Regression` over all entries and over
    pairs, whose R² the final one prints.
    """

    simple: pd.DataFrame
    multiple: pd.DataFrame
    final: pd.DataFrame
    published: Regression
    corrected: Regression


def analyses(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], permutations: int = 10_000, seed: int = 0
) -> Analyses:
    """All regressions of section 2.2. final: base and rank where both are there; else all that is there."""
    final = {name: predictors[name] for name in FINAL if name in predictors}
    final = final if len(final) == len(FINAL) else dict(predictors)
    return Analyses(
        rsa(matrix, predictors, False, permutations, seed),
        rsa(matrix, predictors, True, permutations, seed),
        rsa(matrix, final, True, permutations, seed),
        regress(matrix, final, "all"),
        regress(matrix, final, "pairs"),
    )


def what_sharing_brings(
    matrix: pd.DataFrame, models: pd.DataFrame, permutations: int = 10_000, seed: int = 0
) -> pd.DataFrame:
    """How much more alike models are that share a base, a developer or a size: one row per trait.

    Columns: pairs (that share it), others, mean_sharing, mean_others, difference with ci_low and ci_high (of 95%, by
    `pair_model.fit`, so it is not the difference of the means to the last digit), p (two-sided, Mantel's permutation
    test). A trait that all pairs share, or none, is left out.
    """
    rows, each = [], pairs(matrix, models)
    for trait in TRAITS:
        same = each[f"same_{trait}"].to_numpy(dtype=bool)
        if not 0 < same.sum() < len(same):
            continue
        means = each["value"][same].mean(), each["value"][~same].mean()
        labels = models[trait].loc[matrix.index].to_numpy(dtype=object)
        shared = {trait: pd.DataFrame((labels[:, None] == labels).astype(float), matrix.index, matrix.index)}
        b = pair_model.fit(matrix, shared).table.loc[trait, ["b", "ci_low", "ci_high"]]
        rows.append((trait, same.sum(), (~same).sum(), *means, *b, mrqap(matrix, shared, permutations, seed)[trait]))
    columns = ["trait", "pairs", "others", "mean_sharing", "mean_others", "difference", "ci_low", "ci_high", "p"]
    return pd.DataFrame(rows, columns=columns)


def shuffled_control(
    matrix: pd.DataFrame,
    predictors: Mapping[str, pd.DataFrame],
    shuffles: int = 200,
    permutations: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """How often each predictor alone is significant (p < .05) once the models' names are shuffled; it should be 5%.

    One row per predictor, in [0, 1]: published, over `shuffles` shuffles of the theoretical matrix; corrected, Mantel's
    test, over all of them (up to 10 models). Less than 5% where a predictor takes few values, and never more.
    """
    random = np.random.default_rng(seed)
    hits = []
    for _ in range(shuffles):
        order = random.permutation(len(matrix))
        moved = {name: _reordered(theory, order) for name, theory in predictors.items()}
        hits.append(
            {name: regress(matrix, {name: one}, "all").table.loc[name, "p"] < 0.05 for name, one in moved.items()}
        )
    corrected = {name: size_of_mantel(matrix, theory, permutations, seed) for name, theory in predictors.items()}
    return pd.DataFrame({"published": pd.DataFrame(hits).mean(), "corrected": pd.Series(corrected)})


def _reordered(matrix: pd.DataFrame, order: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(matrix.to_numpy()[np.ix_(order, order)], matrix.index, matrix.columns)
