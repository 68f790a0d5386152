"""What agreement between models goes with: the regression of section 2.2, as published and corrected (RSA)."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pingouin
import statsmodels.api as sm
from statsmodels.regression.linear_model import RegressionResults
from statsmodels.stats.multitest import multipletests

from ..stats import pair_model, relabelling
from ..stats.pair_model import observations
from ..stats.relabelling import mrqap, p_of, size_of_mantel
from .factors import OVERALL, SECTIONS, nearness

FINAL = ("base", "rank")  # what the paper's stepwise regression keeps

# --- regression ---------------------------------------------------------------------------------------------------


def regress(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], entries: str = "pairs"
) -> RegressionResults:  # fmt: skip
    """Return the least-squares fit of a similarity matrix on theoretical ones, with an intercept (statsmodels).

    entries: "all" takes all k² entries for observations, diagonal and both triangles, as published; its p-values are
    wrong, because k of the entries are 1 by definition, half of the others are copies, and those that are left share
    models. "pairs" takes the k (k - 1) / 2 pairs of different models: b and R² of it mean what they say;
    `relabelling.mrqap` gives p-values and `pair_model.fit` intervals.
    """
    outcome, design = observations(matrix, predictors, entries)
    return sm.OLS(outcome, pd.DataFrame(design, columns=list(predictors)).assign(intercept=1.0)).fit()


def shares_of_r2(matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], entries: str = "pairs") -> pd.Series:
    """Return how much of R² each predictor contributes, in [0, 1], together 1; predictor -> share.

    What a predictor adds to R², averaged over all orders in which the predictors can enter (Lindeman, Merenda and Gold
    1980, by pingouin), so that what correlated predictors explain together is divided between them. entries: "pairs"
    of different models, or "all", as for `regress`.
    """
    outcome, design = observations(matrix, predictors, entries)
    fit = pingouin.linear_regression(pd.DataFrame(design, columns=list(predictors)), outcome, relimp=True)
    return fit[fit["names"] != "Intercept"].set_index("names")["relimp_perc"].rename("share") / 100


def stepwise(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], entries: str = "pairs"
) -> tuple[list[str], pd.DataFrame]:
    """Return the predictors that stepwise regression keeps, in order of entry, and its steps (step, aic).

    From none on, the one predictor is added or removed that lowers Akaike's criterion most, until none does.
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
    """Return the regression of section 2.2 twice: as published, over all entries, and corrected, over pairs.

    One row per predictor: b_published, p_published (OLS over all entries), share_published (of R²); b, its 95%
    interval ci_low, ci_high and p_reml (`pair_model.fit`, where the models are sampled), p (permutation, where only
    their names are dealt anew) and share (of R²) over pairs. jointly: all predictors in one model (MRQAP), or each
    alone (Mantel), with all of R² for its share.
    """
    rows = []
    for group in [predictors] if jointly else [{name: theory} for name, theory in predictors.items()]:
        published = regress(matrix, group, "all")
        columns = {"b_published": published.params[list(group)], "p_published": published.pvalues[list(group)]}
        columns |= {"share_published": shares_of_r2(matrix, group, "all")}
        corrected = pair_model.fit(matrix, group).table[["b", "ci_low", "ci_high", "p"]].rename(columns={"p": "p_reml"})
        p, share = mrqap(matrix, group, permutations, seed), shares_of_r2(matrix, group)
        rows.append(pd.DataFrame(columns).join(corrected).assign(p=p, share=share))
    return pd.concat(rows)


def significant(table: pd.DataFrame) -> list[str]:
    """Return the predictors of a table of `rsa` with p below .05 and an interval that does not hold 0."""
    return table.index[(table["p"] < 0.05) & (table["ci_low"] * table["ci_high"] > 0)].tolist()


def r2_as_rounded(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], half_unit: float = 0.005, draws: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:  # fmt: skip
    """Return R² of the published regression for matrices that round to the printed one: columns r2, adjusted_r2.

    One row per draw: each pair's entry is drawn from within half a unit of its last printed digit, all places there as
    likely; both triangles hold the same, and the diagonal is 1. All entries are observations, as published.
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
    """Return the regressions that section 2.2 reports, as from `rsa`: each factor alone, all together, and final.

    final: base and rank where both are there; else all that is there.
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

    One row per predictor, in [0, 1]: published, over `shuffles` shuffles of the theoretical matrix; corrected, Mantel's
    test, over all of them (up to 10 models). Less than 5% where a predictor takes few values, and never more.
    """
    random = np.random.default_rng(seed)
    hits = []
    for _ in range(shuffles):
        rows = np.ix_(order := random.permutation(len(matrix)), order)
        moved = {name: pd.DataFrame(x.to_numpy()[rows], x.index, x.columns) for name, x in predictors.items()}
        hits.append({name: regress(matrix, {name: x}, "all").pvalues[name] < 0.05 for name, x in moved.items()})
    corrected = {name: size_of_mantel(matrix, theory, permutations, seed) for name, theory in predictors.items()}
    return pd.DataFrame({"published": pd.DataFrame(hits).mean(), "corrected": pd.Series(corrected)})


# --- equivalence ------------------------------------------------------------------------------------------------


def smallest_margin(matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], factor: str) -> dict[str, float]:
    """Return the smallest margin within which the data show, at the 5% level, that a factor makes no difference.

    Two one-sided tests (Schuirmann 1987, Journal of Pharmacokinetics and Biopharmaceutics 15, 657-680) accept a margin
    if the 90% interval lies within it, so that the smallest is the end of that interval that is farther from 0. Keys:
    b (least squares over pairs), low, high (the 90% interval of relabelling.interval), margin; in units of the matrix.
    """
    low, high = relabelling.interval(matrix, predictors, factor, 0.9)
    b = float(regress(matrix, predictors).params[factor])
    return {"b": b, "low": low, "high": high, "margin": max(abs(low), abs(high))}


# --- sections of a benchmark --------------------------------------------------------------------


def section_effects(matrix: pd.DataFrame, scores: pd.DataFrame, permutations: int = 10_000) -> pd.DataFrame:
    """Return how far the similarity of models goes with the nearness of their scores: a row per benchmark and section.

    scores: as from `factors.rewardbench`; a benchmark is tested over the models that have all of its sections, if they
    are five or more. Nearness is linear, 1 - |a - b| over the largest difference, so that sections are alike in unit.
    Columns: models; r, the correlation over pairs; p, Mantel's (exact), p_holm over all sections that were tried, the
    overall scores among them; b with ci_low, ci_high (REML): what the similarity gains from the farthest to equal
    scores; of a section together with its benchmark's overall score, p_beyond (exact), and more with more_low,
    more_high: b of the section minus b of the overall score (REML); NaN for the overall score itself.
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
            row |= {"r": np.corrcoef(outcome, design[:, 0])[0, 1], "p": p_of(among, theory, section, permutations)}
            row |= pair_model.fit(among, theory).table.loc[section, ["b", "ci_low", "ci_high"]].to_dict()
            beyond = [np.nan] * 4
            if section != OVERALL:
                more = pair_model.contrast(pair_model.fit(among, both), section, OVERALL)[:3]
                beyond = [p_of(among, both, section, permutations), *more]
            rows.append(row | dict(zip(["p_beyond", "more", "more_low", "more_high"], beyond, strict=True)))
    table = pd.DataFrame(rows)
    if len(table):
        table.insert(5, "p_holm", multipletests(table["p"], method="holm")[1])
    return table
