"""How far reward models agree with people about what is good, and where they differ (section 4 of the paper).

`people` is one rating per item, higher is better: Elo on EloEverything, the mean of ten raters for VADER's words.
`rewards` is items x models for one prompt. Both have the same items in the same order, as from `join`. Rank 1 is the
best, and ties share the average, as in the paper.
"""

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.isotonic import IsotonicRegression

from .. import InputError
from ..stats import resampling
from .concordance import PEOPLE

# How the models' ranks of an item become one rank. The paper's text says mean; its code takes the first.
AGGREGATES = ("median with people", "median of models", "mean of models")


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


# --- raters -------------------------------------------------------------------------------------------------------


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
