"""How far reward models agree with people about what is good, and about what they differ (section 4 of the paper).

`people` is one rating per item, higher is better, indexed by item: Elo on EloEverything, the mean of ten raters for
VADER's words. `rewards` is items x models for one prompt, as from scores.shared_vocabulary. Both go in with the same
items in the same order, as from `join`. Rank 1 is the best, ties share the average, as in the paper.
"""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.isotonic import IsotonicRegression

from lib import InputError, resampling
from lib.alignment.concordance import PEOPLE, Agreement, agreement, column, mean_with_people
from lib.crossed import crossed

# How the ranks that the models give an item become one rank. The paper's text says mean; its code takes the first.
AGGREGATES = ("median with people", "median of models", "mean of models")


# --- people beside models -----------------------------------------------------------------------------------------


def join(rewards: pd.DataFrame, people: pd.DataFrame | pd.Series):
    """Rewards and ratings of the items that both have, in the order of the rewards; joined on the item's text.

    Raises InputError if nothing is in both, an item is rated twice, or a rating is missing.
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
    """Rewards and ratings of all words of small letters a - z; those that people did not rate count as 0, neutral.

    That is how a sentiment lexicon is read: what it does not list has no sentiment. Nobody looked at these words, so
    their ratings are a convention. Raises InputError if no item is such a word.
    """
    words = rewards.index[rewards.index.str.fullmatch("[a-z]{2,}")]
    if words.empty:
        raise InputError("no item is a word of small letters; score a vocabulary that has some")
    return rewards.loc[words], people.reindex(words).fillna(0.0)


def _check(people: pd.Series, rewards: pd.DataFrame) -> None:
    if not people.index.equals(rewards.index):
        raise InputError("people's ratings and rewards are not about the same items in the same order; use join first")
    if len(people) < 2:
        raise InputError("a ranking needs at least two items; give more")


def ranks(values):
    """Rank of each item, 1 = highest, ties share the average; of a frame, column by column."""
    return values.rank(ascending=False, method="average")


def _tau(first, second) -> float:
    """Kendall's tau-b, in [-1, 1]; NaN if either is constant."""
    return float(stats.kendalltau(first, second).statistic)


# --- agreement ----------------------------------------------------------------------------------------------------


def taus(people: pd.Series, rewards: pd.DataFrame) -> pd.Series:
    """Kendall's tau-b of people's ratings with each model's rewards, in [-1, 1], indexed by model."""
    _check(people, rewards)
    return pd.Series({name: _tau(people, rewards[name]) for name in rewards}, name="tau")


def summary(agreed: Agreement, models: Sequence[str]) -> pd.Series:
    """mean, sd (over models, ddof 1), min, max of the models' taus with people, and what the mean is worth.

    agreed: of people and models, as from concordance.agreement. ci_low, ci_high (95%): items and models both drawn;
    these_low, these_high: these very models, where only items are drawn; new_low, new_high: one new model.
    """
    tau, found = agreed.taus.loc[list(models), PEOPLE], mean_with_people(agreed, models)
    sd = tau.std(ddof=1) if len(tau) > 1 else np.nan
    ends = ("ci_low", "ci_high", "these_low", "these_high", "new_low", "new_high")
    row = {"mean": tau.mean(), "sd": sd, "min": tau.min(), "max": tau.max()}
    return pd.Series(row | {end: getattr(found, end) for end in ends})


def matrix_means(matrix: pd.DataFrame) -> dict[str, float]:
    """The mean of a matrix, as from rankings.tau_matrix: over the `pairs` of different models, and over the `whole`.

    The whole holds each model's agreement with itself, which is 1 by definition, so its mean is too high.
    """
    pairs = matrix.to_numpy()[np.triu_indices(len(matrix), 1)]
    return {"pairs": float(pairs.mean()) if len(pairs) else np.nan, "whole": float(matrix.to_numpy().mean())}


def across_prompts(agreed: Agreement, models: Sequence[str], prompts: Sequence[str]) -> pd.DataFrame:
    """Kendall's tau-b of each model with itself under another prompt (Fig A6): models x pairs of prompts.

    agreed: of concordance.together. Columns are named `GE, HP`. InputError for fewer than two prompts.
    """
    if len(prompts) < 2:
        raise InputError("agreement across prompts needs two prompts; score another one")
    columns = {
        f"{a}, {b}": [agreed.taus.loc[column(a, name), column(b, name)] for name in models]
        for a, b in itertools.combinations(prompts, 2)
    }
    return pd.DataFrame(columns, index=list(models))


def tops(rewards: pd.DataFrame, end: str = "optimal") -> pd.DataFrame:
    """The items that each model rewards most (or least): one row per item, so that ties are seen.

    Columns: model, item, reward, tied (how many items share that reward, 1 = it stands alone).
    """
    if end not in ("optimal", "pessimal"):
        raise InputError(f"end must be 'optimal' or 'pessimal', not {end!r}")
    rows = []
    for name in rewards:
        best = rewards[name].max() if end == "optimal" else rewards[name].min()
        items = rewards.index[rewards[name] == best]
        rows += [{"model": name, "item": item, "reward": float(best), "tied": len(items)} for item in items]
    return pd.DataFrame(rows)


# --- the two ends of people's ranking -----------------------------------------------------------------------------


def at_ends(people: pd.Series, rewards: pd.DataFrame, cuts: Sequence[int]) -> pd.DataFrame:
    """Mean tau of models with people among the n items that people rate highest, and lowest; one row per n of `cuts`.

    Columns: cut; then for high and low: items (with those tied with the n-th), span (highest less lowest rating there),
    tau, and its 95% interval; difference (high less low) and its interval: items and models are both samples.
    Within an end ratings differ less than overall, so tau is lower there whatever the models do.
    Raises InputError for a cut over half of the items, or under three.
    """
    _check(people, rewards)
    most = len(people) // 2
    if wrong := [cut for cut in cuts if not 3 <= cut <= most]:
        raise InputError(f"{len(people)} items have no two ends of {wrong[0]}; choose cuts from 3 to {most}")
    ordered = np.sort(people.to_numpy())
    rows = []
    for cut in cuts:
        ends = {"high": people[people >= ordered[-cut]], "low": people[people <= ordered[cut - 1]]}
        rows.append({"cut": cut} | _both_ends(ends, rewards))
    return pd.DataFrame(rows)


def _both_ends(ends: Mapping[str, pd.Series], rewards: pd.DataFrame) -> dict:
    """One row of at_ends; ends: high and low -> the ratings of their items."""
    row, taus_of, moved = {}, {}, {}
    for end, people in ends.items():
        agreed = agreement(rewards.loc[people.index].assign(**{PEOPLE: people}))
        taus_of[end] = agreed.taus.loc[list(rewards), PEOPLE]
        moved[end] = agreed.influence(PEOPLE, list(rewards))
        found = crossed(taus_of[end], moved[end])
        row |= {f"{end}_items": len(people), f"{end}_span": people.max() - people.min()}
        row |= {f"{end}_tau": found.estimate, f"{end}_ci_low": found.ci_low, f"{end}_ci_high": found.ci_high}
    # An item tied at the median may be at both ends; it moves each.
    found = crossed(taus_of["high"] - taus_of["low"], moved["high"].sub(moved["low"], fill_value=0.0))
    return row | {"difference": found.estimate, "difference_ci_low": found.ci_low, "difference_ci_high": found.ci_high}


def taus_by(people: pd.Series, rewards: pd.DataFrame, groups: pd.Series) -> pd.DataFrame:
    """Mean tau of models with people within each group of items, in the order of the groups.

    Columns items, tau, ci_low, ci_high (95%, items and models both samples).
    """
    _check(people, rewards)
    rows = {}
    for group, inside in people.groupby(groups.loc[people.index], observed=True, sort=True):
        found = mean_with_people(agreement(rewards.loc[inside.index].assign(**{PEOPLE: inside})), list(rewards))
        rows[group] = {"items": len(inside), "tau": found.estimate, "ci_low": found.ci_low, "ci_high": found.ci_high}
    return pd.DataFrame(rows).T.astype({"items": int})


# --- what models value less, or more, than people -----------------------------------------------------------------


def models_rank(people: pd.Series, rewards: pd.DataFrame, aggregate: str) -> pd.Series:
    """One rank per item for all models together, by one of AGGREGATES.

    median with people: the median over the models' ranks and people's own, as in the authors' code. median of models,
    mean of models: over the models' ranks alone.
    """
    _check(people, rewards)
    by_model = ranks(rewards)
    if aggregate == "median with people":
        return by_model.assign(**{PEOPLE: ranks(people)}).median(axis=1)
    if aggregate == "median of models":
        return by_model.median(axis=1)
    if aggregate == "mean of models":
        return by_model.mean(axis=1)
    raise InputError(f"no aggregate '{aggregate}'; choose one of {', '.join(AGGREGATES)}")


def discrepancies(people: pd.Series, rewards: pd.DataFrame, aggregate: str = "median of models") -> pd.DataFrame:
    """How much lower than people the models rank each item, the most undervalued first; indexed by item.

    Columns: people_rank; models_rank (models_rank()); difference = models_rank - people_rank, above 0 where models
    value it less; position, 1 = largest difference (ties share the lowest).
    expected: the models' rank of an item that people rank so: the curve that never falls and fits all items best
    (isotonic regression). Models and people agree only moderately, so an item that people rank high is expected far
    below, and differences are largest for the items that people rank highest, whatever they are (regression to the
    mean). surprise = models_rank - expected; surprise_position, 1 = largest. A straight line would not do: models agree
    with people best about the very first and last items, and it would make these look better than expected.
    """
    mine, theirs = models_rank(people, rewards, aggregate), ranks(people)
    items = pd.DataFrame({"people_rank": theirs, "models_rank": mine, "difference": mine - theirs})
    items["position"] = items["difference"].rank(ascending=False, method="min").astype(int)
    items["expected"] = IsotonicRegression().fit(theirs, mine).predict(theirs)
    items["surprise"] = items["models_rank"] - items["expected"]
    # Rounded, because items that are equal in all else must share a position whatever the fit's last bits are.
    items["surprise_position"] = items["surprise"].round(6).rank(ascending=False, method="min").astype(int)
    return items.sort_values("difference", ascending=False, kind="stable")


def positions_over_models(
    people: pd.Series, rewards: pd.DataFrame, item: str, aggregate: str, resamples: int = 200, seed: int = 0
) -> np.ndarray:
    """The position of an item among the most undervalued ones, (resamples,), for models drawn with replacement.

    How far a position depends on which ten models were asked.
    """
    if item not in rewards.index:
        raise InputError(f"no item {item!r} among the {len(rewards)} that models scored; check its spelling")
    models, theirs, at = rewards.shape[1], ranks(people), rewards.index.get_loc(item)

    def position(drawn: np.ndarray) -> int:
        resampled = rewards.iloc[:, drawn].set_axis(range(models), axis=1)
        difference = (models_rank(people, resampled, aggregate) - theirs).to_numpy()
        return 1 + int((difference > difference[at]).sum())

    return resampling.bootstrap(position, models, resamples, seed)


def side_by_side(by_aggregate: Mapping[str, pd.DataFrame], top: int, end: str = "undervalued") -> pd.DataFrame:
    """The items most undervalued (or overvalued) under each aggregate, a column each; by_aggregate: discrepancies."""
    ordered = {name: items if end == "undervalued" else items[::-1] for name, items in by_aggregate.items()}
    return pd.DataFrame({name: list(items.index[:top]) for name, items in ordered.items()})
