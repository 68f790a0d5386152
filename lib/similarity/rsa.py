"""What agreement between models goes with: representational similarity analysis (section 2.2)."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import stats

from lib import InputError
from lib.resampling import INTERVAL
from lib.similarity.agreement import refuse_malformed

# --- the ends of a ranking ----------------------------------------------------------------------------------------


def pairs(matrix: pd.DataFrame, models: pd.DataFrame) -> pd.DataFrame:
    """One row per pair of different models: the matrix's entry, and whether they share base, developer, parameters.

    The diagonal and the mirrored triangle are not observations, so they are left out. models: a registry that holds
    the matrix's names.
    """
    rows = []
    for a, b in itertools.combinations(matrix.index, 2):
        same = {f"same_{trait}": models.loc[a, trait] == models.loc[b, trait] for trait in TRAITS}
        rows.append({"model_a": a, "model_b": b, "value": matrix.loc[a, b]} | same)
    return pd.DataFrame(rows, columns=["model_a", "model_b", "value", *(f"same_{trait}" for trait in TRAITS)])


TRAITS = ("base", "developer", "parameters_b")


def what_sharing_brings(
    matrix: pd.DataFrame, models: pd.DataFrame, permutations: int = 10_000, seed: int = 0
) -> pd.DataFrame:
    """How much more alike models are that share a base, a developer or a size: one row per trait.

    Columns: pairs (that share it), others, mean_sharing, mean_others, difference, p. p is one-sided, by permuting the
    models' names (Mantel), because pairs that have a model in common are not independent.
    """
    rows = []
    for trait in TRAITS:
        found = pairs(matrix, models)
        same = found[f"same_{trait}"].to_numpy(dtype=bool)
        if not 0 < same.sum() < len(same):
            continue
        means = found["value"][same].mean(), found["value"][~same].mean()
        p = _permutation_p(matrix, models[trait].loc[matrix.index].to_numpy(), permutations, seed)
        rows.append((trait, same.sum(), (~same).sum(), *means, means[0] - means[1], p))
    return pd.DataFrame(rows, columns=["trait", "pairs", "others", "mean_sharing", "mean_others", "difference", "p"])


def _permutation_p(matrix: pd.DataFrame, labels: np.ndarray, permutations: int, seed: int) -> float:
    upper = np.triu_indices(len(labels), 1)
    values = matrix.to_numpy()[upper]
    random = np.random.default_rng(seed)

    def difference(names: np.ndarray) -> float:
        same = (names[:, None] == names[None, :])[upper]
        return values[same].mean() - values[~same].mean()

    observed = difference(labels)
    # A shuffle that only swaps equal labels reproduces the observed value but for rounding, hence the slack.
    reached = sum(difference(random.permutation(labels)) >= observed - 1e-12 for _ in range(permutations))
    return (reached + 1) / (permutations + 1)


# --- what agreement goes with: representational similarity analysis ----------------------------------------------


def similarities(models: pd.DataFrame, base: str = "family") -> dict[str, pd.DataFrame]:
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
    found = {"base": _same(bases), "developer": _same(models["developer"])}
    parameters = pd.to_numeric(models["parameters_b"], errors="coerce")
    parameters = parameters * (1000 if parameters.max() < 0.1 else 1)  # in billions, small models are all alike
    found |= {"parameters": _near(parameters), "rank": _near(models["rewardbench_rank"])}
    upper = np.triu_indices(len(models), 1)
    varied = {name: one for name, one in found.items() if one is not None and np.ptp(one[upper]) > 0}
    return {name: pd.DataFrame(one, models.index, models.index) for name, one in varied.items()}


def _same(labels: pd.Series) -> np.ndarray | None:
    values = labels.to_numpy(dtype=object)
    return None if (values == "").any() or labels.isna().any() else (values[:, None] == values).astype(float)


def _near(numbers: pd.Series) -> np.ndarray | None:
    values = pd.to_numeric(numbers, errors="coerce").to_numpy(dtype=float)
    return None if np.isnan(values).any() else 1 / (1 + np.abs(values[:, None] - values))


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
    orders = _orders(len(matrix), permutations, seed)
    found = {}
    for column, name in enumerate(predictors):
        others = np.column_stack([np.ones(len(outcome)), np.delete(design, column, axis=1)])
        found[name] = _semi_partial_p(outcome, design[:, column], others, orders)
    return pd.Series(found, name="p")


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
    strength = np.abs(partial @ free) / np.linalg.norm(partial, axis=1)
    # Orders that only swap alike models reach the observed value, the first one, but for rounding: hence the slack.
    return float((strength >= strength[0] * (1 - 1e-9)).mean())


def _orders(models: int, permutations: int, seed: int) -> np.ndarray:
    """(permutations + 1, models): the order as it is, then random ones."""
    random = np.random.default_rng(seed)
    return np.vstack([np.arange(models), random.permuted(np.tile(np.arange(models), (permutations, 1)), axis=1)])


def rsa(
    matrix: pd.DataFrame,
    predictors: Mapping[str, pd.DataFrame],
    jointly: bool = True,
    permutations: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """The regression of section 2.2 twice: as published, over all entries, and corrected, over pairs.

    One row per predictor: b_published, p_published (OLS over all entries); b, with a 95% interval low - high, and p
    (permutation). jointly: all predictors in one model (MRQAP), or each alone (Mantel). The interval is a jackknife
    over models, b +- t * se with se² = (k - 1) / k * sum of squared deviations, because pairs share models; it is
    missing where leaving out a model leaves too little to fit.
    """
    groups = [predictors] if jointly else [{name: one} for name, one in predictors.items()]
    rows = []
    for group in groups:
        published, corrected = regress(matrix, group, "all").table, regress(matrix, group, "pairs").table
        spread = jackknife(matrix, group)
        reach = stats.t.ppf(INTERVAL[1], len(matrix) - 1) * spread
        p = mrqap(matrix, group, permutations, seed)
        rows.append(pd.DataFrame({"b_published": published["b"], "p_published": published["p"], "b": corrected["b"],
                                  "low": corrected["b"] - reach, "high": corrected["b"] + reach, "p": p}))  # fmt: skip
    return pd.concat(rows)


def rsa_summary(
    matrix: pd.DataFrame, predictors: Mapping[str, pd.DataFrame], permutations: int = 10_000, seed: int = 0
) -> pd.DataFrame:
    """Every number of the regression of section 2.2, as published and corrected: one row per analysis and quantity.

    analysis: simple (each predictor alone), multiple (all of them), final (base and rank where both are there, as in
    the paper; else what stepwise regression keeps). quantity: p_<predictor>; its permutation p by name, as
    p_<predictor>_mantel or p_<predictor>_mrqap; b_<predictor>; r2, adjusted_r2. Columns: as_published (all entries),
    corrected (pairs), low and high (95%, of b), p (permutation, of p and b).
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
            rows.append((analysis, f"b_{name}", row["b_published"], row["b"], row["low"], row["high"], row["p"]))
        if analysis != "simple":
            published, corrected = regress(matrix, group, "all"), regress(matrix, group, "pairs")
            rows.append((analysis, "r2", published.r2, corrected.r2, None, None, None))
            rows.append((analysis, "adjusted_r2", published.adjusted_r2, corrected.adjusted_r2, None, None, None))
    columns = ["analysis", "quantity", "as_published", "corrected", "low", "high", "p"]
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
    left = []
    for name in matrix.index:
        kept = matrix.index.drop(name)
        some = {trait: one.loc[kept, kept] for trait, one in predictors.items()}
        try:
            left.append(regress(matrix.loc[kept, kept], some).table["b"])
        except InputError:
            left.append(pd.Series(np.nan, index=list(predictors)))
    left = np.array(left)
    models = len(left)
    return pd.Series(np.sqrt((models - 1) / models * ((left - left.mean(0)) ** 2).sum(0)), index=list(predictors))


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
        moved = {name: _reordered(one, order) for name, one in predictors.items()}
        groups = [moved] if jointly else [{name: one} for name, one in moved.items()]
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
    for trait, one in predictors.items():
        if set(one.index) != set(names):
            raise InputError(f"the similarity matrix of {trait} is about other models; build it for these models")
        columns.append(one.loc[names, names].to_numpy(dtype=float)[tuple(chosen)])
    outcome = matrix.to_numpy(dtype=float)[tuple(chosen)]
    design = np.column_stack(columns) if columns else np.empty((len(outcome), 0))
    whole = np.column_stack([np.ones(len(outcome)), design])
    if np.linalg.matrix_rank(whole) < whole.shape[1] or len(outcome) <= whole.shape[1]:
        told = ", ".join(predictors)
        raise InputError(f"{len(names)} models are too few, or too alike, to tell apart {told}; leave a predictor out")
    return outcome, design
