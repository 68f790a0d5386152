"""What agreement between models goes with: representational similarity analysis (section 2.2)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pingouin
import statsmodels.api as sm
from scipy import stats

from lib import InputError, resampling
from lib.similarity.agreement import refuse_malformed

TRAITS = ("base", "developer", "parameters_b")  # columns of the registry that two models can share

# --- pairs of models ----------------------------------------------------------------------------------------------


def pairs(matrix: pd.DataFrame, models: pd.DataFrame) -> pd.DataFrame:
    """One row per pair of different models: the matrix's entry, and whether they share base, developer, parameters.

    The diagonal and the mirrored triangle are not observations, so they are left out. models: a registry that holds
    the matrix's names.
    """
    a, b = np.triu_indices(len(matrix), 1)
    labels = models.loc[matrix.index, list(TRAITS)].to_numpy(dtype=object)
    same = {f"same_{trait}": labels[a, column] == labels[b, column] for column, trait in enumerate(TRAITS)}
    value = matrix.to_numpy()[a, b]
    return pd.DataFrame({"model_a": matrix.index[a], "model_b": matrix.index[b], "value": value} | same)


def what_sharing_brings(
    matrix: pd.DataFrame, models: pd.DataFrame, permutations: int = 10_000, seed: int = 0
) -> pd.DataFrame:
    """How much more alike models are that share a base, a developer or a size: one row per trait.

    Columns: pairs (that share it), others, mean_sharing, mean_others, difference, p (two-sided, `mrqap` with this one
    predictor, because pairs that have a model in common are not independent). A trait that all pairs share, or none,
    is left out.
    """
    rows, each = [], pairs(matrix, models)
    for trait in TRAITS:
        same = each[f"same_{trait}"].to_numpy(dtype=bool)
        if not 0 < same.sum() < len(same):
            continue
        means = each["value"][same].mean(), each["value"][~same].mean()
        labels = models[trait].loc[matrix.index].to_numpy(dtype=object)
        shared = pd.DataFrame((labels[:, None] == labels).astype(float), matrix.index, matrix.index)
        p = mrqap(matrix, {trait: shared}, permutations, seed)[trait]
        rows.append((trait, same.sum(), (~same).sum(), *means, means[0] - means[1], p))
    return pd.DataFrame(rows, columns=["trait", "pairs", "others", "mean_sharing", "mean_others", "difference", "p"])


# --- theoretical matrices -----------------------------------------------------------------------------------------


def theoretical(models: pd.DataFrame, base: str = "family") -> dict[str, pd.DataFrame]:
    """The theoretical similarity matrices of section 2.2: trait -> models x models, in [0, 1], 1 on the diagonal.

    base and developer: 1 where two models share it, else 0. parameters (billions; millions if no model has .1 billion)
    and rank (on RewardBench): 1 / (1 + |a - b|). A trait that is blank for a model, or the same for all pairs, is left
    out.

    models: rows of the registry. base: "family" (Gemma or Llama), which reproduces the published regression, or
    "release" (Llama 3 is not Llama 3.1), which Table 1 prints.
    """
    if base not in ("family", "release"):
        raise InputError(f"base must be 'family' or 'release', not {base!r}")
    bases = models["base"].str.split().str[0] if base == "family" else models["base"]
    values = {"base": _same(bases), "developer": _same(models["developer"])}
    parameters = pd.to_numeric(models["parameters_b"], errors="coerce")
    parameters = parameters * (1000 if parameters.max() < 0.1 else 1)  # in billions, small models are all alike
    values |= {"parameters": _near(parameters), "rank": _near(models["rewardbench_rank"])}
    upper = np.triu_indices(len(models), 1)
    varied = {trait: square for trait, square in values.items() if square is not None and np.ptp(square[upper]) > 0}
    return {trait: pd.DataFrame(square, models.index, models.index) for trait, square in varied.items()}


def _same(labels: pd.Series) -> np.ndarray | None:
    values = labels.to_numpy(dtype=object)
    return None if (values == "").any() or labels.isna().any() else (values[:, None] == values).astype(float)


def _near(numbers: pd.Series) -> np.ndarray | None:
    values = pd.to_numeric(numbers, errors="coerce").to_numpy(dtype=float)
    return None if np.isnan(values).any() else 1 / (1 + np.abs(values[:, None] - values))


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
    models. "pairs" takes the k (k - 1) / 2 pairs of different models: b and R² of it mean what they say, and `mrqap`
    gives the p-values.
    """
    outcome, design = _observations(matrix, predictors, entries)
    fit = sm.OLS(outcome, np.column_stack([np.ones(len(outcome)), design])).fit()
    table = pd.DataFrame({"b": fit.params[1:], "t": fit.tvalues[1:], "p": fit.pvalues[1:]}, index=list(predictors))
    return Regression(table, float(fit.rsquared), float(fit.rsquared_adj), float(fit.aic), len(outcome))


def shares_of_r2(matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], entries: str = "pairs") -> pd.Series:
    """How much of R² each predictor contributes, in [0, 1], together 1; predictor -> share. entries: as of `regress`.

    What a predictor adds to R², averaged over all orders in which the predictors can enter (Lindeman, Merenda and Gold
    1980, by pingouin), so that what correlated predictors explain together is divided between them.
    """
    outcome, design = _observations(matrix, predictors, entries)
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
    outcome, _ = _observations(matrix, {}, entries)
    return float(sm.OLS(outcome, np.ones(len(outcome))).fit().aic)


# --- permutation tests --------------------------------------------------------------------------------------------


def mrqap(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], permutations: int = 10_000, seed: int = 0
) -> pd.Series:
    """Two-sided permutation p of each predictor in the joint regression over pairs, in (0, 1]; predictor -> p.

    Double semi-partialling: the residual of the predictor given the others is permuted, rows and columns together, and
    its t with the others in the model is compared with the observed one (Dekker, Krackhardt and Snijders 2007,
    Psychometrika 72, 563-581). With one predictor this is Mantel's test (1967). The observed order counts as one of
    the permutations, so p is at least 1 / (permutations + 1).
    """
    outcome, design = _observations(matrix, predictors, "pairs")
    orders = resampling.orders(len(matrix), permutations, seed)
    p = {}
    for column, name in enumerate(predictors):
        others = np.column_stack([np.ones(len(outcome)), np.delete(design, column, axis=1)])
        p[name] = _semi_partial_p(outcome, design[:, column], others, orders)
    return pd.Series(p, name="p")


def _semi_partial_p(outcome: np.ndarray, predictor: np.ndarray, others: np.ndarray, orders: np.ndarray) -> float:
    """The p of one predictor; outcome, predictor: (pairs,); others: (pairs, k) with intercept; orders: (P, models)."""
    basis = np.linalg.qr(others)[0]
    models = orders.shape[1]
    upper = np.triu_indices(models, 1)
    residual = np.zeros((models, models))
    residual[upper] = predictor - basis @ (basis.T @ predictor)
    residual += residual.T
    permuted = residual[orders[:, upper[0]], orders[:, upper[1]]]  # (P, pairs)
    # t is an increasing function of the partial correlation, so that one is enough.
    free = outcome - basis @ (basis.T @ outcome)
    partial = permuted - (permuted @ basis) @ basis.T
    return resampling.permutation_p(np.abs(partial @ free) / np.linalg.norm(partial, axis=1))


def rsa(
    matrix: pd.DataFrame,
    predictors: Mapping[str, pd.DataFrame],
    jointly: bool = True,
    permutations: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """The regression of section 2.2 twice: as published, over all entries, and corrected, over pairs.

    One row per predictor: b_published, p_published (OLS over all entries), share_published (of R²); b, its 95%
    interval ci_low, ci_high, p (permutation) and share (of R²) over pairs. jointly: all predictors in one model
    (MRQAP), or each alone (Mantel), with all of R² for its share. The interval is a jackknife over models, b +- t * se
    with se² = (k - 1) / k * sum of squared deviations, because pairs share models; it is missing where leaving out a
    model leaves too little to fit.
    """
    groups = [predictors] if jointly else [{name: theory} for name, theory in predictors.items()]
    rows = []
    for group in groups:
        published, corrected = regress(matrix, group, "all").table, regress(matrix, group, "pairs").table
        spread = jackknife(matrix, group)
        reach = stats.t.ppf(resampling.INTERVAL[1], len(matrix) - 1) * spread
        p = mrqap(matrix, group, permutations, seed)
        share = {entries: shares_of_r2(matrix, group, entries) for entries in ("all", "pairs")}
        of_published = {"b_published": published["b"], "p_published": published["p"], "share_published": share["all"]}
        interval = {"ci_low": corrected["b"] - reach, "ci_high": corrected["b"] + reach}
        rows.append(pd.DataFrame(of_published | {"b": corrected["b"]} | interval | {"p": p, "share": share["pairs"]}))
    return pd.concat(rows)


def rsa_summary(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], permutations: int = 10_000, seed: int = 0
) -> pd.DataFrame:
    """Every number of the regression of section 2.2, as published and corrected: one row per analysis and quantity.

    analysis: simple (each predictor alone), multiple (all of them), final (base and rank where both are there, as in
    the paper; else what stepwise regression keeps). quantity: p_<predictor>; its permutation p by name, as
    p_<predictor>_mantel or p_<predictor>_mrqap; b_<predictor>; and, of several together, r2, adjusted_r2 and
    share_<predictor> (of R²). Columns: as_published (all entries), corrected (pairs), ci_low and ci_high (95%, of b),
    p (permutation, of p and b).
    """
    final = [name for name in ("base", "rank") if name in predictors]
    if len(final) < 2:
        final = stepwise(matrix, predictors, "all")[0]
    chosen = {"simple": predictors, "multiple": predictors, "final": {name: predictors[name] for name in final}}
    rows = []
    for analysis, group in chosen.items():
        if not group:
            continue
        table = rsa(matrix, group, analysis != "simple", permutations, seed)
        test = "mantel" if len(group) == 1 or analysis == "simple" else "mrqap"
        for name, row in table.iterrows():
            rows.append((analysis, f"p_{name}", row["p_published"], row["p"], None, None, row["p"]))
            rows.append((analysis, f"p_{name}_{test}", None, row["p"], None, None, row["p"]))
            rows.append((analysis, f"b_{name}", row["b_published"], row["b"], row["ci_low"], row["ci_high"], row["p"]))
        if analysis != "simple":
            published, corrected = regress(matrix, group, "all"), regress(matrix, group, "pairs")
            rows.append((analysis, "r2", published.r2, corrected.r2, None, None, None))
            rows.append((analysis, "adjusted_r2", published.adjusted_r2, corrected.adjusted_r2, None, None, None))
            shares = table[["share_published", "share"]].itertuples()
            rows += [(analysis, f"share_{name}", old, new, None, None, None) for name, old, new in shares]
    columns = ["analysis", "quantity", "as_published", "corrected", "ci_low", "ci_high", "p"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[2:], float))


def can_be_told_apart(matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame]) -> bool:
    """Whether there are enough, and different enough, models to regress this matrix on these predictors jointly."""
    if not predictors:
        return False
    try:
        regress(matrix, predictors)
    except InputError:
        return False
    return True


def jackknife(matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame]) -> pd.Series:
    """The standard error of each b over pairs, by leaving out one model at a time; NaN where that cannot be fitted."""
    without = []
    for name in matrix.index:
        others = matrix.index.drop(name)
        theories = {trait: theory.loc[others, others] for trait, theory in predictors.items()}
        try:
            without.append(regress(matrix.loc[others, others], theories).table["b"])
        except InputError:
            without.append(pd.Series(np.nan, index=list(predictors)))
    b = np.array(without)  # (models, predictors)
    return pd.Series(np.sqrt((len(b) - 1) / len(b) * ((b - b.mean(0)) ** 2).sum(0)), index=list(predictors))


def shuffled_control(
    matrix: pd.DataFrame,
    predictors: Mapping[str, pd.DataFrame],
    jointly: bool = False,
    shuffles: int = 200,
    permutations: int = 199,
    seed: int = 0,
) -> pd.DataFrame:
    """How often each predictor is significant (p < .05) once the models' names are shuffled; it should be 5%.

    One row per predictor: published, corrected, in [0, 1], over `shuffles` shuffles of the theoretical matrices.
    """
    random = np.random.default_rng(seed)
    hits = []
    for _ in range(shuffles):
        order = random.permutation(len(matrix))
        moved = {name: _reordered(theory, order) for name, theory in predictors.items()}
        groups = [moved] if jointly else [{name: theory} for name, theory in moved.items()]
        for group in groups:
            p_published = regress(matrix, group, "all").table["p"]
            p = mrqap(matrix, group, permutations, int(random.integers(2**31)))
            hits.append(pd.DataFrame({"published": p_published < 0.05, "corrected": p < 0.05}))
    return pd.concat(hits).groupby(level=0, sort=False).mean()


def _reordered(matrix: pd.DataFrame, order: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(matrix.to_numpy()[np.ix_(order, order)], matrix.index, matrix.columns)


def _observations(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], entries: str
) -> tuple[np.ndarray, np.ndarray]:
    """The outcome (n,) and the predictors (n, k), after checking that they can be fitted."""
    if entries not in ("pairs", "all"):
        raise InputError(f"entries must be 'pairs' or 'all', not {entries!r}")
    refuse_malformed(matrix)
    names = matrix.index
    chosen = np.triu_indices(len(names), 1) if entries == "pairs" else np.indices(matrix.shape).reshape(2, -1)
    columns = []
    for trait, theory in predictors.items():
        if set(theory.index) != set(names):
            raise InputError(f"the similarity matrix of {trait} is about other models; build it for these models")
        columns.append(theory.loc[names, names].to_numpy(dtype=float)[tuple(chosen)])
    outcome = matrix.to_numpy(dtype=float)[tuple(chosen)]
    design = np.column_stack(columns) if columns else np.empty((len(outcome), 0))
    whole = np.column_stack([np.ones(len(outcome)), design])
    if np.linalg.matrix_rank(whole) < whole.shape[1] or len(outcome) <= whole.shape[1]:
        raise InputError(
            f"{len(names)} models are too few, or too alike, to tell apart {', '.join(predictors)}; "
            "leave a predictor out"
        )
    return outcome, design
