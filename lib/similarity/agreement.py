"""How alike the rewards of models are, by moments, rank correlations and overlap, with a map (section 2.2)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.manifold import MDS

from .. import InputError
from ..stats import resampling
from ..stats.crossed import Crossed, crossed
from ..stats.pair_model import refuse_malformed
from ..stats.rankings import matrix_of_pairs, refuse_constant
from ..tables import registry

MOMENTS = ["mean", "variance", "skewness"]

# --- what can be compared ------------------------------------------------------------------------------------------


def comparable(tables: Mapping[str, pd.DataFrame], prompt: str, least: int = 2) -> tuple[dict[str, pd.DataFrame], str]:
    """Return the score tables whose rewards can be compared, and why others, or all, cannot ('' where all can).

    Tables come back in the order of the registry, without models whose rewards are all equal. None is left where fewer
    than `least` models remain, or where they share fewer than ten texts.
    """
    known = [name for name in registry.reward_models().index if name in tables]
    tables = {name: tables[name] for name in [*known, *tables]}
    varied = {name: table for name, table in tables.items() if np.ptp(table[prompt]) > 0}
    constant = ", ".join(name for name in tables if name not in varied)
    reasons = [f"the rewards of {constant} are all equal"] if constant else []
    if len(varied) < least:
        reasons.append(f"{len(varied)} of the models can be compared, and {least} are needed")
        return {}, "; ".join(reasons)
    texts = len(set.intersection(*(set(table["text"].drop_duplicates(keep=False)) for table in varied.values())))
    if texts < 10:
        reasons.append(f"the models share {texts} texts, and 10 are needed")
        return {}, "; ".join(reasons)
    return varied, "; ".join(reasons)


# --- distributions ------------------------------------------------------------------------------------------------


def moments(rewards: Mapping[str, np.ndarray], resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Return mean, variance and skewness of each model's rewards with 95% bootstrap intervals over tokens (Table 3).

    rewards: model -> rewards of distinct inputs, because copies narrow the intervals. As in the paper, variance divides
    by n and skewness has no correction for bias. InputError for fewer than three rewards, or rewards that are all
    equal.
    """
    rows = {}
    for name, values in rewards.items():
        values = np.asarray(values, dtype=float)
        n, centre, spread = len(values), values.mean(), values.std()
        if n < 3 or np.ptp(values) == 0:
            raise InputError(f"the rewards of {name} ({n}) do not vary, so they have no skewness; leave it out")
        ends = resampling.interval(_resampled_moments((values - centre)[:, None] / spread, resamples, seed)[:, 0])
        shift, scale = np.array([centre, 0, 0]), np.array([spread, spread**2, 1])  # of the standardised moments
        low, high = (shift + scale * end for end in ends)
        rows[name] = [n, *np.column_stack([[centre, spread**2, stats.skew(values)], low, high]).ravel()]
    columns = [f"{moment}{end}" for moment in MOMENTS for end in ("", "_ci_low", "_ci_high")]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["n", *columns])


def _resampled_moments(z: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Return mean, variance and skewness of each resample of tokens, (resamples, models, 3).

    z is standardised, (n, models), because powers of raw rewards would lose digits where their mean is far from 0.
    """
    n = len(z)
    powers = np.stack([z, z**2, z**3], axis=2).reshape(n, -1)  # (n, models x 3)
    sums = resampling.bootstrap(lambda drawn: resampling.times_drawn(drawn, n) @ powers, n, resamples, seed)
    first, second, third = np.moveaxis((sums / n).reshape(resamples, -1, 3), 2, 0)
    variance = second - first**2
    # Few tokens can be drawn all alike; they have no skewness, and rounding must not give them one.
    spread = np.where(variance > 1e-12, variance, np.nan) ** 1.5
    return np.stack([first, variance, (third - 3 * first * second + 2 * first**3) / spread], axis=2)


def skews(
    as_published: Mapping[str, pd.DataFrame], distinct: Mapping[str, pd.DataFrame], resamples: int = 1000, seed: int = 0
) -> pd.DataFrame:  # fmt: skip
    """Return in how many models rewards are skewed to the right, and the mean skewness: one row per prompt.

    Both arguments map a prompt to rewards, texts x models. `as_published` has the texts as the paper takes them, where
    ` love` and `love` are two. `distinct` has trimmed texts. The column as_published counts over the first, all others
    are about the second. n_positive has an interval over texts. mean has one over texts and models, and new_low and
    new_high are for a new model.
    """
    rows = {}
    for prompt, rewards in distinct.items():
        skewness = pd.Series(stats.skew(rewards.to_numpy(dtype=float)), rewards.columns)
        z = ((rewards - rewards.mean()) / rewards.std(ddof=0)).to_numpy(dtype=float)
        ends = resampling.interval((_resampled_moments(z, resamples, seed)[:, :, 2] > 0).sum(axis=1))
        published = int((stats.skew(as_published[prompt].to_numpy(dtype=float)) > 0).sum())
        others, mean = ", ".join(skewness.index[skewness <= 0]) or "none", mean_skewness(rewards)
        counts = {"as_published": published, "n_positive": int((skewness > 0).sum()), "models": len(skewness)}
        counts |= {"ci_low": int(ends[0]), "ci_high": int(ends[1]), "others": others, "n": mean.n, "p": mean.p}
        rows[prompt] = counts | {"mean": mean.estimate, "mean_low": mean.ci_low, "mean_high": mean.ci_high,
                                 "new_low": mean.new_low, "new_high": mean.new_high}  # fmt: skip
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("prompt")


def mean_skewness(rewards: pd.DataFrame) -> Crossed:
    """Return the mean over models of the skewness of their rewards, crossed: texts and models are both sampled."""
    skewness = pd.Series(stats.skew(rewards.to_numpy(dtype=float)), rewards.columns)
    return crossed(skewness, skewness_influence(rewards))


def skewness_influence(rewards: pd.DataFrame) -> pd.DataFrame:
    """Return how much each text moves the skewness g of each model's rewards, texts x models.

    It is (z^3 - 3 z - (3 z^2 - 1) g / 2) / (n - 1), with z the standardised rewards.
    """
    z = (rewards - rewards.mean()) / rewards.std(ddof=0)
    return (z**3 - 3 * z - (3 * z**2 - 1) * (z**3).mean() / 2) / (len(z) - 1)


# --- agreement between models -------------------------------------------------------------------------------------


def spearman_matrix(rewards: pd.DataFrame) -> pd.DataFrame:
    """Return Spearman's rho between each two models' rankings, in [-1, 1], models x models (Fig A1)."""
    refuse_constant(rewards)
    return rewards.corr(method="spearman")


def rbo_matrix(rewards: pd.DataFrame, p: float = 0.98) -> pd.DataFrame:
    """Return the rank-biased overlap between each two models' rankings, in [0, 1], models x models (Fig A1)."""
    return matrix_of_pairs(rewards.columns, lambda a, b: rank_biased_overlap(rewards[a], rewards[b], p))


def rank_biased_overlap(first: np.ndarray, second: np.ndarray, p: float = 0.98) -> float:
    """Return the extrapolated rank-biased overlap of two rankings of the same n items, in [0, 1]; 1 = the same ranking.

    The highest reward is at rank 1, and items are in one order. A reader goes on to the next rank with probability p.
    The overlap is the agreement that she expects where she stops. With p = .98 the first 50 ranks carry 86% of the
    weight. S_d holds the items of rank d or better, and tied items share the best rank:

        A_d = 2 |S_d & T_d| / (|S_d| + |T_d|)                                    (their equation 28)
        RBO_EXT = A_n p^n + (1 - p) / p * (A_1 p + A_2 p^2 + ... + A_n p^n)      (32, for lists of one length)

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


def wordings_against_models(
    first: pd.DataFrame, second: pd.DataFrame, resamples: int = 200, most: int = 2000, seed: int = 0
) -> pd.DataFrame:
    """Return whether another wording or another model changes a ranking more: columns tau, ci_low, ci_high (95%).

    first, second: rewards of the same texts and three or more models under two wordings of one question. `other
    wording` is the mean tau of a model with itself under the other wording. `other model` is that of two models under
    the first. The variance is that of the bootstrap over texts (m = most of n, scaled) plus that over models. Their
    interaction is not subtracted, so intervals are too wide rather than too narrow.
    """
    ranks = np.stack([frame.rank(method="dense").to_numpy(dtype=int) for frame in (first, second)])  # (2, texts, k)
    n, models = ranks.shape[1:]
    a, b = np.triu_indices(models, 1)
    random = np.random.default_rng(seed)

    def taus(rows: np.ndarray) -> tuple[list[float], list[float]]:
        asked, reworded = ranks[:, rows]
        within = [stats.kendalltau(asked[:, m], reworded[:, m]).statistic for m in range(models)]
        return within, [stats.kendalltau(asked[:, i], asked[:, j]).statistic for i, j in zip(a, b, strict=True)]

    def means(within, between, times: np.ndarray) -> np.ndarray:  # times: how often each model was drawn
        wording, model = np.average(within, weights=times), np.average(between, weights=times[a] * times[b])
        return np.array([wording, model, wording - model])

    once, m = np.ones(models), min(n, most)
    whole = taus(np.arange(n))
    of_texts = resampling.bootstrap(lambda rows: means(*taus(rows), once), n, resamples, random, size=m)
    drawn = resampling.bootstrap(lambda ks: resampling.times_drawn(ks, models), models, 20 * resamples, random)
    of_models = [means(*whole, times) for times in drawn if np.count_nonzero(times) > 1]  # no model with itself
    variance = np.var(of_texts, axis=0, ddof=1) * m / n + np.var(of_models, axis=0, ddof=1)
    tau, reach = means(*whole, once), stats.t.ppf(0.975, models - 1) * np.sqrt(variance)
    columns = {"tau": tau, "ci_low": tau - reach, "ci_high": tau + reach}
    return pd.DataFrame(columns, index=["other wording", "other model", "difference"])


def correlation(first: pd.DataFrame, second: pd.DataFrame) -> float:
    """Return Pearson's correlation of two matrices over pairs of different models; NaN for under 3 pairs."""
    upper = np.triu_indices(len(first), 1)
    values = [matrix.loc[first.index, first.index].to_numpy(dtype=float)[upper] for matrix in (first, second)]
    return float(np.corrcoef(values)[0, 1]) if len(upper[0]) > 2 else float("nan")


# --- the dimension of rewards -----------------------------------------------------------------------------------


def dimension(rewards: Mapping[str, pd.DataFrame], components: int = 2, groups: int = 20) -> pd.DataFrame:
    """Return how much of the variance of rewards the first principal components explain, in [0, 1].

    rewards: model -> texts x prompts. Texts that a model lacks are left out for all. There is a row per model, for `all
    together` (a column per prompt of a model), and for the `mean of models`. `explained` is by so many components, with
    a 95% interval by the jackknife over groups of texts. `effective` is 1 / the sum of squared shares.
    """
    together = pd.concat(rewards, axis=1).dropna()
    z, texts = together.to_numpy(dtype=float), np.arange(len(together))
    blocks = {name: np.flatnonzero(together.columns.get_level_values(0) == name) for name in rewards}
    blocks["all together"] = np.arange(z.shape[1])

    def explained(rows: np.ndarray) -> pd.DataFrame:
        correlations, table = np.corrcoef(z[rows], rowvar=False), {}
        for name, own in blocks.items():
            values = np.linalg.eigvalsh(correlations[np.ix_(own, own)])[::-1]
            share = values / values.sum()
            table[name] = [len(share), share[0], share[:components].sum(), 1 / (share**2).sum()]
        table["mean of models"] = list(np.mean([table[name] for name in rewards], axis=0))
        return pd.DataFrame.from_dict(table, orient="index", columns=["prompts", "first", "explained", "effective"])

    table = explained(texts)
    without = np.array([explained(texts[texts % groups != group])["explained"] for group in range(groups)])
    reach = stats.t.ppf(0.975, groups - 1) * np.sqrt((groups - 1) * without.var(axis=0))
    table.insert(3, "ci_low", table["explained"] - reach)
    table.insert(4, "ci_high", table["explained"] + reach)
    return table


# --- a map of the models ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelMap:
    """Models as points of the plane whose distances come near 1 - similarity.

    stress is Kruskal's stress-1. At 0 distances are exact, from about .2 on they are poor (Kruskal 1964).
    """

    positions: pd.DataFrame
    stress: float

    @property
    def closeness(self) -> pd.DataFrame:
        """Return 1 - distance on the map, models x models: what the map says the similarity is."""
        points = self.positions.to_numpy()
        distances = np.linalg.norm(points[:, None] - points[None], axis=2)
        return pd.DataFrame(1 - distances, self.positions.index, self.positions.index)


def model_map(matrix: pd.DataFrame, starts: int = 50, seed: int = 0) -> ModelMap:
    """Return the multidimensional scaling of 1 - similarity to two dimensions (Fig 2B), best of many random starts.

    The plane is turned so that the widest spread lies along x, and the first model has no negative coordinate.
    """
    names = matrix.index
    refuse_malformed(matrix)
    distances = 1 - matrix.to_numpy(dtype=float)
    scaling = MDS(2, metric="precomputed", n_init=starts, init="random", normalized_stress=True, eps=1e-9,
                  max_iter=1000, random_state=seed)  # fmt: skip
    points = scaling.fit_transform(distances)
    points = points - points.mean(axis=0)
    points = points @ np.linalg.svd(points, full_matrices=False)[2].T
    points = points * np.where(points[0] < 0, -1, 1)
    return ModelMap(pd.DataFrame(points, names, ["x", "y"]), float(scaling.stress_))
