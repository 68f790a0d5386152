"""Rankings of tokens by reward: their two ends, their distribution, how far models agree, and what agreement goes with.

Three layers. The ends of one ranking and side by side (section 2.1). Moments of the rewards and agreement between
models: Kendall's tau-b, Spearman's rho, rank-biased overlap, a map of the models (section 2.2, Figs 1, 2A-B, A1).
Regression of that agreement on what models have in common, as published and with permutation tests (section 2.2,
Fig 2C: representational similarity analysis, RSA).
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import stats
from sklearn.manifold import MDS

from lib import InputError

# --- the ends of a ranking ----------------------------------------------------------------------------------------


def ranked(table: pd.DataFrame, prompt: str) -> pd.DataFrame:
    """The score table from optimal to pessimal, with a column `rank`: 1 = highest reward, ties share the average.

    Ties are listed in order of token_id, so the order is the same on every machine.
    """
    rank = table[prompt].rank(ascending=False, method="average")
    return table.assign(rank=rank).sort_values([prompt, "token_id"], ascending=[False, True], ignore_index=True)


def ends(table: pd.DataFrame, prompt: str, n: int = 22) -> pd.DataFrame:
    """The n optimal and the n pessimal tokens, in order, with `end` = optimal or pessimal (Table 2 has n = 22)."""
    if not 0 < 2 * n <= len(table):
        raise InputError(
            f"{len(table)} tokens have no {n} optimal and {n} pessimal ones; choose n up to {len(table) // 2}"
        )
    order = ranked(table, prompt)
    return pd.concat([order.head(n).assign(end="optimal"), order.tail(n).assign(end="pessimal")], ignore_index=True)


def side_by_side(tables: dict[str, pd.DataFrame], prompt: str, n: int = 22) -> pd.DataFrame:
    """The n optimal and n pessimal texts of every model, one column per model, on its own vocabulary (Table A6).

    Index: (end, position); position 1 is the most optimal, respectively the most pessimal.
    """
    return pd.DataFrame({name: _texts_at_ends(table, prompt, n) for name, table in tables.items()})


def side_by_side_shared(rewards: pd.DataFrame, n: int = 22) -> pd.DataFrame:
    """The same on the texts that all models share (Table A7). rewards: texts x models, as from shared_vocabulary."""
    ids = np.arange(len(rewards))
    tables = {
        name: pd.DataFrame({"token_id": ids, "text": rewards.index, "reward": rewards[name].to_numpy()})
        for name in rewards
    }
    return side_by_side(tables, "reward", n)


def _texts_at_ends(table: pd.DataFrame, prompt: str, n: int) -> pd.Series:
    texts = ends(table, prompt, n)["text"]
    positions = [*range(1, n + 1), *range(n, 0, -1)]
    index = pd.MultiIndex.from_arrays([["optimal"] * n + ["pessimal"] * n, positions], names=["end", "position"])
    return pd.Series(texts.to_numpy(), index=index)


def overlap(rewards: pd.DataFrame, n: int = 22, end: str = "optimal") -> pd.DataFrame:
    """Share of the n optimal (or pessimal) texts that two models have in common, models x models, in [0, 1].

    rewards: texts x models, as from shared_vocabulary. By chance two models share n / len(rewards).
    """
    listed = side_by_side_shared(rewards, n).loc[end]
    sets = {name: set(listed[name]) for name in listed}
    return pd.DataFrame({a: {b: len(sets[a] & sets[b]) / n for b in sets} for a in sets})


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


# --- distributions ------------------------------------------------------------------------------------------------


def moments(rewards: Mapping[str, np.ndarray], resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Mean, variance and skewness of each model's rewards with 95% bootstrap intervals; one row per model (Table 3).

    rewards: model -> rewards of its tokens; pass distinct inputs, because copies of one observation narrow the
    intervals. Columns: n, then each moment and its `_low` and `_high`. Variance divides by n (ddof 0) and skewness is
    the third standardised moment without a correction for bias, as in the paper. Percentile intervals over tokens.
    Raises InputError for fewer than three rewards, or rewards that are all equal.
    """
    return pd.DataFrame({name: _moments(name, values, resamples, seed) for name, values in rewards.items()}).T.astype(
        {"n": int}
    )


def _moments(name: str, rewards: np.ndarray, resamples: int, seed: int) -> dict[str, float]:
    rewards = np.asarray(rewards, dtype=float)
    if len(rewards) < 3 or np.ptp(rewards) == 0:
        raise InputError(f"the rewards of {name} ({len(rewards)}) do not vary, so they have no skewness; leave it out")
    centre, spread = rewards.mean(), rewards.std()
    z = (rewards - centre) / spread  # powers of raw rewards would lose digits where the mean is far from 0
    powers = np.stack([z, z**2, z**3], axis=1)  # (n, 3)
    random = np.random.default_rng(seed)
    n = len(z)
    counts = (np.bincount(random.integers(n, size=n), minlength=n) for _ in range(resamples))
    drawn = _moments_of(np.array([count @ powers for count in counts]).reshape(-1, 3) / n)
    found = {"n": n}
    for column, (moment, shift, scale) in enumerate(
        [("mean", centre, spread), ("variance", 0, spread**2), ("skewness", 0, 1)]
    ):
        found[moment] = shift + scale * _moments_of(powers.mean(0, keepdims=True))[0, column]
        found[f"{moment}_low"], found[f"{moment}_high"] = shift + scale * np.nanquantile(drawn[:, column], INTERVAL)
    return found


INTERVAL = (0.025, 0.975)


def _moments_of(raw: np.ndarray) -> np.ndarray:
    """Mean, variance, skewness from raw moments; raw: (k, 3) means of z, z², z³."""
    first, second, third = raw.T
    variance = second - first**2
    # Few tokens can be drawn all alike; they have no skewness, and rounding must not give them one.
    spread = np.where(variance > 1e-12, variance, np.nan) ** 1.5
    return np.stack([first, variance, (third - 3 * first * second + 2 * first**3) / spread], axis=1)


# --- agreement between models -------------------------------------------------------------------------------------


def tau_matrix(rewards: pd.DataFrame) -> pd.DataFrame:
    """Kendall's tau-b between each two models' rankings of the same texts, in [-1, 1], models x models (Fig 2A).

    rewards: texts x models, as from scores.shared_vocabulary. tau-b leaves tied pairs out of its denominator; rewards
    in half precision have many. Raises InputError where a model's rewards are missing or all equal.
    """
    _refuse_constant(rewards)
    # Ranks as integers sort faster than rewards, and tau depends on nothing else.
    ranks = {name: stats.rankdata(rewards[name], method="dense") for name in rewards}
    return _matrix(rewards.columns, lambda a, b: stats.kendalltau(ranks[a], ranks[b]).statistic)


def spearman_matrix(rewards: pd.DataFrame) -> pd.DataFrame:
    """Spearman's rho between each two models' rankings, in [-1, 1], tied ranks averaged, models x models (Fig A1)."""
    _refuse_constant(rewards)
    return rewards.rank().corr()


def rbo_matrix(rewards: pd.DataFrame, p: float = 0.98, end: str = "optimal") -> pd.DataFrame:
    """Rank-biased overlap between each two models' rankings, in [0, 1], models x models (Fig A1).

    end: "optimal" weighs the highest rewards most, "pessimal" the lowest.
    """
    if end not in ("optimal", "pessimal"):
        raise InputError(f"end must be 'optimal' or 'pessimal', not {end!r}")
    sign = 1 if end == "optimal" else -1
    return _matrix(rewards.columns, lambda a, b: rank_biased_overlap(sign * rewards[a], sign * rewards[b], p))


def rank_biased_overlap(first: np.ndarray, second: np.ndarray, p: float = 0.98) -> float:
    """Extrapolated rank-biased overlap of two rankings of the same n items, in [0, 1]; 1 = the same ranking.

    first, second: the items' rewards, in one order of items; the highest reward is at rank 1. A reader goes from the
    top of both lists and on to the next rank with probability p; the overlap is the agreement that she expects where
    she stops, so that with p = .98 the first 50 ranks carry 86% of the weight. With A_d = 2 |S_d & T_d| / (|S_d| +
    |T_d|), where S_d holds the items of rank d or better and tied items share the best rank (their equation 28),

        RBO_EXT = A_n p^n + (1 - p) / p * (A_1 p + A_2 p^2 + ... + A_n p^n),

    their equation 32 for lists of one length. Here both lists hold all items, so A_n = 1 and nothing is estimated.
    Source: Webber, Moffat and Zobel (2010), A similarity measure for indefinite rankings, ACM TOIS 28(4), 20.
    """
    if not 0 < p < 1:
        raise InputError(f"p must lie between 0 and 1, not at {p}; the nearer to 1, the deeper the reader goes")
    first, second = (stats.rankdata(-np.asarray(values, dtype=float), method="min") for values in (first, second))
    n = len(first)
    if n == 0 or len(second) != n:
        raise InputError(f"rankings of {n} and {len(second)} items cannot be compared; rank the same items in both")

    def at_or_above(ranks: np.ndarray) -> np.ndarray:  # (n,) how many items have rank d or better, d = 1 ... n
        return np.bincount(ranks, minlength=n + 1)[1:].cumsum()

    common = at_or_above(np.maximum(first, second))
    agreement = 2 * common / (at_or_above(first) + at_or_above(second))
    weights = (1 - p) * p ** np.arange(n)
    return float(agreement[-1] * p**n + weights @ agreement)


def correlation(one: pd.DataFrame, other: pd.DataFrame) -> float:
    """Pearson's correlation of two models x models matrices over pairs of different models; NaN for under 3 pairs."""
    upper = np.triu_indices(len(one), 1)
    values = [matrix.loc[one.index, one.index].to_numpy(dtype=float)[upper] for matrix in (one, other)]
    return float(np.corrcoef(values)[0, 1]) if len(upper[0]) > 2 else float("nan")


def tau_resamples(
    rewards: pd.DataFrame, resamples: int = 200, most: int = 2000, seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Kendall's tau-b of each pair of models, and its bootstrap distribution over texts: (pairs, draws).

    pairs: model_a, model_b, tau, low, high (95%). draws: resamples x pairs, in the order of `pairs`, so that the
    interval of any summary, as the mean over pairs, is that of the summary of each row. Above `most` texts, m = most
    of n are drawn and deviations from tau are scaled by sqrt(m / n) (Bickel, Gotze and van Zwet 1997, the m out of n
    bootstrap). It is the texts that are resampled: the intervals say nothing about other models.
    """
    _refuse_constant(rewards)
    ranks = np.stack([stats.rankdata(rewards[name], method="dense") for name in rewards], axis=1)
    pairs = list(itertools.combinations(range(ranks.shape[1]), 2))
    tau = np.array([stats.kendalltau(ranks[:, a], ranks[:, b]).statistic for a, b in pairs])
    n, m = len(ranks), min(len(ranks), most)
    random = np.random.default_rng(seed)
    drawn = []
    for _ in range(resamples):
        some = ranks[random.integers(n, size=m)]
        drawn.append([stats.kendalltau(some[:, a], some[:, b]).statistic for a, b in pairs])
    draws = tau + np.sqrt(m / n) * (np.array(drawn) - tau)
    names = rewards.columns
    table = pd.DataFrame([(names[a], names[b]) for a, b in pairs], columns=["model_a", "model_b"])
    low, high = np.quantile(draws, INTERVAL, axis=0)
    return table.assign(tau=tau, low=low, high=high), pd.DataFrame(draws)


def _matrix(names: pd.Index, measure) -> pd.DataFrame:
    """A symmetric matrix of measure(a, b), with ones on the diagonal."""
    matrix = pd.DataFrame(np.eye(len(names)), names, names)
    for a, b in itertools.combinations(names, 2):
        matrix.loc[a, b] = matrix.loc[b, a] = measure(a, b)
    return matrix


def _refuse_constant(rewards: pd.DataFrame) -> None:
    for name in rewards:
        if rewards[name].isna().any() or rewards[name].nunique() < 2:
            raise InputError(f"the rewards of {name} are missing or all equal, so they rank nothing; leave it out")


@dataclass(frozen=True)
class ModelMap:
    """Models as points of the plane whose distances come near 1 - similarity.

    positions: models x (x, y), centred, the longest spread along x. stress: Kruskal's stress-1, 0 = distances exact,
    from about .2 on poor (Kruskal 1964).
    """

    positions: pd.DataFrame
    stress: float

    @property
    def closeness(self) -> pd.DataFrame:
        """1 - distance on the map, models x models: what the map says the similarity is."""
        points = self.positions.to_numpy()
        distances = np.linalg.norm(points[:, None] - points[None], axis=2)
        return pd.DataFrame(1 - distances, self.positions.index, self.positions.index)


def model_map(matrix: pd.DataFrame, starts: int = 50, seed: int = 0) -> ModelMap:
    """Metric multidimensional scaling of 1 - similarity to two dimensions (Fig 2B), the best of many random starts.

    matrix: symmetric, ones on its diagonal. Only distances mean something: the plane is turned so that the widest
    spread lies along x, and mirrored so that the first model has no negative coordinate.
    """
    names = matrix.index
    _refuse_malformed(matrix)
    distances = 1 - matrix.to_numpy(dtype=float)
    scaling = MDS(2, metric="precomputed", n_init=starts, init="random", normalized_stress=True, eps=1e-9,
                  max_iter=1000, random_state=seed)  # fmt: skip
    points = scaling.fit_transform(distances)
    points = points - points.mean(axis=0)
    points = points @ np.linalg.svd(points, full_matrices=False)[2].T
    points = points * np.where(points[0] < 0, -1, 1)
    return ModelMap(pd.DataFrame(points, names, ["x", "y"]), float(scaling.stress_))


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
    _refuse_malformed(matrix)
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


def _refuse_malformed(matrix: pd.DataFrame) -> None:
    values = matrix.to_numpy(dtype=float)
    if list(matrix.index) != list(matrix.columns) or not np.allclose(values, values.T):  # NaN is not close to NaN
        raise InputError(
            "a similarity matrix needs the same models on both sides, and equal entries across its diagonal"
        )
