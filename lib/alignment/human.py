"""How far reward models agree with people about what is good, and where they differ (section 4 of the paper).

`people` is one rating per item, higher is better: Elo on EloEverything, the mean of ten raters for VADER's words.
`rewards` is items x models for one prompt. Both have the same items in the same order, as from `join`. Rank 1 is the
best, and ties share the average, as in the paper.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.isotonic import IsotonicRegression

from .. import InputError
from ..stats import resampling
from ..stats.crossed import Measured, satterthwaite
from .concordance import PEOPLE, with_people

# How the models' ranks of an item become one rank. The paper's text says mean; its code takes the first.
AGGREGATES = ("median with people", "median of models", "mean of models")
MATCHES = 100  # a rating that rests on fewer matches is not precise


class Together(NamedTuple):
    """A statistic of all models together, its 95% interval, and its two-sided p."""

    estimate: float
    ci_low: float
    ci_high: float
    p: float


# --- people and models joined -------------------------------------------------------------------------------------


def join(rewards: pd.DataFrame, people: pd.DataFrame | pd.Series):
    """Return rewards and ratings of the items that both have, in the order of the rewards.

    Raise InputError if they share no item, an item is rated twice, or a rating is missing.
    """
    for name, table in (("the rewards", rewards), ("people's ratings", people)):
        if not table.index.is_unique:
            raise InputError(f"{name} hold {table.index[table.index.duplicated()][0]!r} twice; keep one row per item")
    both = rewards.index[rewards.index.isin(people.index)]
    if both.empty:
        raise InputError("people rated none of the items that the models scored; give ratings indexed by the same text")
    ratings = people.loc[both]
    missing = ratings.isna().to_numpy().reshape(len(both), -1).any(axis=1)
    if missing.any():
        raise InputError(f"item {both[missing][0]!r} has no rating; leave it out")
    return rewards.loc[both], ratings


def with_unrated_words(rewards: pd.DataFrame, people: pd.Series) -> tuple[pd.DataFrame, pd.Series]:
    """Return rewards and ratings of all words of small letters a - z; words that nobody rated count as 0, neutral.

    This is the convention of a sentiment lexicon. Raise InputError if no item is such a word.
    """
    words = rewards.index[rewards.index.str.fullmatch("[a-z]{2,}")]
    if words.empty:
        raise InputError("no item is a word of small letters; score a vocabulary that has some")
    return rewards.loc[words], people.reindex(words).fillna(0.0)


def _check(people: pd.Series, rewards: pd.DataFrame) -> None:
    """Raise InputError unless both are about the same two or more items in the same order."""
    if not people.index.equals(rewards.index):
        raise InputError("people's ratings and rewards are not about the same items in the same order; use join first")
    if len(people) < 2:
        raise InputError("a ranking needs at least two items; give more")


def ranks(values):
    """Return the rank of each item, 1 = highest; ties share the average. A frame is ranked column by column."""
    return values.rank(ascending=False, method="average")


# --- agreement ----------------------------------------------------------------------------------------------------


def taus(people: pd.Series, rewards: pd.DataFrame) -> pd.Series:
    """Return Kendall's tau-b of people's ratings with each model's rewards, in [-1, 1]; NaN if either is constant."""
    _check(people, rewards)
    return pd.Series({name: float(stats.kendalltau(people, rewards[name]).statistic) for name in rewards}, name="tau")


def tops(rewards: pd.DataFrame, end: str = "optimal") -> pd.DataFrame:
    """Return the items that each model rewards most (or least), a row per item: `model, item, reward, tied`.

    tied: how many items share that reward.
    """
    if end not in ("optimal", "pessimal"):
        raise InputError(f"end must be 'optimal' or 'pessimal', not {end!r}")
    rows = []
    for name in rewards:
        best = rewards[name].max() if end == "optimal" else rewards[name].min()
        items = rewards.index[rewards[name] == best]
        rows += [{"model": name, "item": item, "reward": float(best), "tied": len(items)} for item in items]
    return pd.DataFrame(rows)


def at_ends(people: pd.Series, rewards: pd.DataFrame, cuts: Sequence[int]) -> pd.DataFrame:
    """Return the models' mean tau with people among the n items that people rate highest, and lowest; a row per cut n.

    For high and low, a row has the items (more than n if ratings tie), the span (highest less lowest rating), tau and
    its 95% interval. The difference is high less low, with its interval and p. Items and models are both samples. Raise
    InputError for a cut over half of the items, or under three.
    """
    _check(people, rewards)
    rows = []
    for cut in cuts:
        row, taus = {"cut": cut}, {}
        for end, inside in _ends(people, cut).items():
            rated = people[inside]
            taus[end] = with_people(rated, rewards)
            mean = taus[end].mean
            row |= {f"{end}_items": len(rated), f"{end}_span": rated.max() - rated.min()}
            row |= {f"{end}_tau": mean.estimate, f"{end}_ci_low": mean.ci_low, f"{end}_ci_high": mean.ci_high}
        gap = (taus["high"] - taus["low"]).mean
        row |= {"difference": gap.estimate, "difference_p": gap.p}
        rows.append(row | {"difference_ci_low": gap.ci_low, "difference_ci_high": gap.ci_high})
    return pd.DataFrame(rows)


def between_ends(people: pd.Series, rewards: pd.DataFrame, cut: int) -> Measured:
    """Return each model's tau with people at the high end less the tau at the low end. `cut`: items of an end."""
    high, low = (with_people(people[inside], rewards) for inside in _ends(people, cut).values())
    return high - low


def _ends(people: pd.Series, cut: int) -> dict[str, pd.Series]:
    """Return `high` and `low` -> whether each item is among the `cut` items that people rate highest, or lowest."""
    if not 3 <= cut <= len(people) // 2:
        raise InputError(f"{len(people)} items have no two ends of {cut}; choose cuts from 3 to {len(people) // 2}")
    ordered = np.sort(people.to_numpy())
    return {"high": people >= ordered[-cut], "low": people <= ordered[cut - 1]}


def taus_by_matches(people: pd.Series, rewards: pd.DataFrame, matches: pd.Series) -> pd.DataFrame:
    """Return the models' mean tau with people within `groups_of_matches`: a tidy table, a row per group.

    Columns: `quantity, n, corrected, ci_low, ci_high, p`. The quantity is the group, n counts items, and corrected is
    the mean tau. Intervals are 95%, and p is against 0. Items and models are both samples.
    """
    _check(people, rewards)
    rows = []
    for group, items in groups_of_matches(matches.loc[people.index]).items():
        mean = with_people(people[items], rewards).mean
        rows.append([group, len(items), mean.estimate, mean.ci_low, mean.ci_high, mean.p])
    return pd.DataFrame(rows, columns=["quantity", "n", "corrected", "ci_low", "ci_high", "p"])


def groups_of_matches(matches: pd.Series) -> dict[str, pd.Index]:
    """Return name -> items: each third by number of matches, and the items with MATCHES or more."""
    thirds = pd.qcut(matches, 3, labels=["fewest matches", "middle", "most matches"])
    groups = {str(third): some.index for third, some in matches.groupby(thirds, observed=True)}
    return groups | {f"{MATCHES} matches or more": matches.index[matches >= MATCHES]}


def of_all_models(
    statistic: Callable[[pd.Series, pd.DataFrame], float], people: pd.Series, rewards: pd.DataFrame, null: float = 0.0,
    resamples: int = 100,
) -> Together:  # fmt: skip
    """Return a statistic of people and all models together, with its 95% interval; items and models are samples.

    The variance over items is from a bootstrap, the variance over models from a jackknife. p is against `null`. Fewer
    than three models have no interval (NaN).
    """
    _check(people, rewards)
    models, estimate = rewards.shape[1], statistic(people, rewards)
    if models < 3:
        return Together(estimate, np.nan, np.nan, np.nan)
    draws = resampling.bootstrap(
        lambda drawn: statistic(people.iloc[drawn], rewards.iloc[drawn]), len(people), resamples
    )
    without = np.array([statistic(people, rewards.drop(columns=name)) for name in rewards])
    of_items, of_models = draws.var(ddof=1), (models - 1) / models * ((without - without.mean()) ** 2).sum()
    variance = of_items + of_models
    half, df = satterthwaite(variance, (of_items, of_models), (len(people) - 1, models - 1))
    p = float(2 * stats.t.sf(abs(estimate - null) / np.sqrt(variance), df)) if variance else np.nan
    return Together(estimate, estimate - half, estimate + half, p)


def tau_with_mean_rank(people: pd.Series, rewards: pd.DataFrame) -> float:
    """Return Kendall's tau-b of people's ratings with the mean of the models' ranks, in [-1, 1]."""
    return float(stats.kendalltau(people, -ranks(rewards).mean(axis=1)).statistic)


def kendalls_w(_: pd.Series, rewards: pd.DataFrame) -> float:
    """Return Kendall's coefficient of concordance W of the models' rankings, corrected for ties, in [0, 1].

    W is 1 if all rank alike, and 1 / models on average for random rankings (Kendall and Babington Smith 1939, Annals of
    Mathematical Statistics 10, 275-287). All statistics of `of_all_models` take people's ratings, but W ignores them.
    """
    items, models = rewards.shape
    sums = ranks(rewards).sum(axis=1)
    ties = sum(((counts := rewards[name].value_counts()) ** 3 - counts).sum() for name in rewards)
    return float(12 * ((sums - sums.mean()) ** 2).sum() / (models**2 * (items**3 - items) - models * ties))


# --- raters -------------------------------------------------------------------------------------------------------


def split_half(ratings: pd.DataFrame) -> np.ndarray:
    """Return Kendall's tau-b between the means of two halves of the raters, for every way to halve them.

    `ratings`: items x raters, an even number of raters. This is no ceiling for models, since both halves contain
    errors.
    """
    raters = ratings.shape[1]
    if raters < 2 or raters % 2:
        raise InputError(f"{raters} raters cannot be halved; give an even number of columns")
    taus_of_halves = []
    # The first rater is always in the first half, so that no split occurs twice.
    for others in itertools.combinations(range(1, raters), raters // 2 - 1):
        first = np.isin(range(raters), (0, *others))
        means = ratings.loc[:, first].mean(axis=1), ratings.loc[:, ~first].mean(axis=1)
        taus_of_halves.append(stats.kendalltau(*means).statistic)
    return np.array(taus_of_halves)


def reliability(ratings: pd.DataFrame) -> float:
    """Return the share of the variance of the raters' mean that is not error, at most 1.

    `ratings`: items x raters. This is the intraclass correlation of the mean, ICC(1,k) (Shrout and Fleiss 1979).
    """
    error = ratings.var(axis=1, ddof=1).mean() / ratings.shape[1]
    return float(1 - error / ratings.mean(axis=1).var(ddof=1))


def elo_errors(elo: pd.Series, matches: pd.Series) -> pd.Series:
    """Return the smallest possible error variance of each Elo rating, from its number of matches.

    An item wins with probability 1 / (1 + 10^(-d / 400)), where d is its rating less the opponent's. The result is the
    Cramer-Rao bound for random opponents.
    """
    opponents = np.quantile(elo, np.linspace(0.005, 0.995, 100))  # a picture of all items
    wins = 1 / (1 + 10 ** ((opponents - elo.to_numpy()[:, None]) / 400))
    information = (wins * (1 - wins)).mean(axis=1) * (np.log(10) / 400) ** 2
    return pd.Series(1 / (matches.to_numpy() * information), elo.index)


def elo_reliability(elo: pd.Series, matches: pd.Series, resamples: int = 200) -> tuple[float, float, float]:
    """Return an upper bound of the share of the variance of Elo ratings that is not error, and its 95% interval.

    It is 1 less the mean of elo_errors over the variance of the ratings. The interval is over items.
    """
    values, errors = elo.to_numpy(), elo_errors(elo, matches).to_numpy()
    shares = resampling.bootstrap(lambda d: 1 - errors[d].mean() / values[d].var(ddof=1), len(elo), resamples)
    low, high = resampling.interval(shares)
    return float(1 - errors.mean() / values.var(ddof=1)), float(low), float(high)


def ceiling(ratings: pd.DataFrame, simulations: int = 20, seed: int = 0) -> float:
    """Return the tau-b with the raters' mean of a model that knows exactly what raters have in common.

    `ratings`: items x raters. Simulated: true ratings have the reliable part of the variance, and new raters make
    errors drawn from the errors about the same item.
    """
    random, values = np.random.default_rng(seed), ratings.to_numpy(dtype=float)
    items, raters = values.shape
    mean = values.mean(axis=1)
    truth = mean.mean() + np.sqrt(max(reliability(ratings), 0.0)) * (mean - mean.mean())
    # Residuals from a mean of ten are a little too small.
    errors = (values - mean[:, None]) * np.sqrt(raters / (raters - 1))
    simulated = []
    for _ in range(simulations):
        drawn = np.take_along_axis(errors, random.integers(raters, size=(items, raters)), axis=1)
        simulated.append(stats.kendalltau(truth, truth + drawn.mean(axis=1)).statistic)
    return float(np.mean(simulated))


# --- what models value less, or more, than people -----------------------------------------------------------------


def models_rank(people: pd.Series, rewards: pd.DataFrame, aggregate: str) -> pd.Series:
    """Return one rank per item for all models together, by one of AGGREGATES; people's rank is in the first only."""
    _check(people, rewards)
    if aggregate not in AGGREGATES:
        raise InputError(f"no aggregate '{aggregate}'; choose one of {', '.join(AGGREGATES)}")
    by_model = ranks(rewards)
    if aggregate == "median with people":
        by_model = by_model.assign(**{PEOPLE: ranks(people)})
    return by_model.mean(axis=1) if aggregate == "mean of models" else by_model.median(axis=1)


def discrepancies(people: pd.Series, rewards: pd.DataFrame, aggregate: str = "median of models") -> pd.DataFrame:
    """Return how much lower than people the models rank each item, the most undervalued first; indexed by item.

    `difference` = models_rank - people_rank is above 0 where models value the item less. `position` is 1 for the
    largest difference; ties share the lowest. `expected` is the rank by models that items at this rank by people have
    (isotonic regression). It matters because models rank everything lower that people rank high (regression to the
    mean). `surprise` = models_rank - expected. `surprise_position` is 1 for the largest.
    """
    mine, theirs = models_rank(people, rewards, aggregate), ranks(people)
    items = pd.DataFrame({"people_rank": theirs, "models_rank": mine, "difference": mine - theirs})
    items["position"] = items["difference"].rank(ascending=False, method="min").astype(int)
    items["expected"] = IsotonicRegression().fit(theirs, mine).predict(theirs)
    items["surprise"] = items["models_rank"] - items["expected"]
    # Rounded, so that rounding errors of the fit separate no equal items.
    items["surprise_position"] = items["surprise"].round(6).rank(ascending=False, method="min").astype(int)
    return items.sort_values("difference", ascending=False, kind="stable")


def positions_over_models(
    people: pd.Series, rewards: pd.DataFrame, item: str, aggregate: str, resamples: int = 200, seed: int = 0
) -> np.ndarray:
    """Return the position of an item among the most undervalued, (resamples,), for models drawn with replacement."""
    if item not in rewards.index:
        raise InputError(f"no item {item!r} among the {len(rewards)} that models scored; check its spelling")
    models, theirs, at = rewards.shape[1], ranks(people), rewards.index.get_loc(item)

    def position(drawn: np.ndarray) -> int:
        resampled = rewards.iloc[:, drawn].set_axis(range(models), axis=1)
        difference = (models_rank(people, resampled, aggregate) - theirs).to_numpy()
        return 1 + int((difference > difference[at]).sum())

    return resampling.bootstrap(position, models, resamples, seed)
