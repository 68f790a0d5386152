"""How far reward models agree with people about what is good, and about what they differ (section 4 of the paper).

`people` is one rating per item, higher is better, indexed by item: Elo on EloEverything, the mean of ten raters for
VADER's words. `rewards` is items x models for one prompt, as from scores.shared_vocabulary. Both go in with the same
items in the same order, as from `join`. Rank 1 is the best, ties share the average, as in the paper.
"""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression
from scipy.stats import kendalltau

from lib import InputError

# How the ranks that the models give an item become one rank. The paper's text says mean; its code takes the first.
AGGREGATES = ("median with people", "median of models", "mean of models")
PEOPLE = "people"
SEXUAL = (
    r"\b(?:sex|sexual|sexuality|orgasm|erotic|erotica|nude|nudity|pornography|masturbation|genital|penis|vagina|"
    r"breasts?|erection)\b"
)


# --- people beside models -----------------------------------------------------------------------------------------


def join(rewards: pd.DataFrame, people: pd.DataFrame | pd.Series):
    """Rewards and ratings of the items that both have, in the order of the rewards; joined on the item's text.

    Raises InputError if nothing is in both, an item is rated twice, or a rating is missing.
    """
    for name, one in (("the rewards", rewards), ("people's ratings", people)):
        if not one.index.is_unique:
            raise InputError(f"{name} hold {one.index[one.index.duplicated()][0]!r} twice; keep one row per item")
    both = rewards.index[rewards.index.isin(people.index)]
    if both.empty:
        raise InputError("people rated none of the items that the models scored; give ratings indexed by the same text")
    kept = people.loc[both]
    if kept.isna().to_numpy().any():
        raise InputError(f"item {both[kept.isna().to_numpy().reshape(len(both), -1).any(axis=1)][0]!r} has no rating")
    return rewards.loc[both], kept


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


def _tau(one, other) -> float:
    """Kendall's tau-b, in [-1, 1]; NaN if either is constant."""
    return float(kendalltau(one, other).statistic)


# --- agreement ----------------------------------------------------------------------------------------------------


def taus(people: pd.Series, rewards: pd.DataFrame) -> pd.Series:
    """Kendall's tau-b of people's ratings with each model's rewards, in [-1, 1], indexed by model."""
    _check(people, rewards)
    return pd.Series({name: _tau(people, rewards[name]) for name in rewards}, name="tau")


def resampled_taus(people: pd.Series, rewards: pd.DataFrame, resamples: int = 200, seed=0) -> pd.DataFrame:
    """The same on items drawn with replacement, resamples x models; the models stay the same ones.

    An item that is drawn twice makes a pair that is tied on both sides, which tau-b leaves out of account.
    """
    _check(people, rewards)
    random = np.random.default_rng(seed)
    rows, n = [], len(people)
    for _ in range(resamples):
        drawn = random.integers(n, size=n)
        rows.append([_tau(people.to_numpy()[drawn], rewards[name].to_numpy()[drawn]) for name in rewards])
    return pd.DataFrame(rows, columns=rewards.columns)


def interval(resampled) -> tuple[float, float]:
    """The central 95% of resampled numbers: their 2.5th and 97.5th percentile, NaN left out of account."""
    low, high = np.nanpercentile(np.asarray(resampled, dtype=float), [2.5, 97.5])
    return float(low), float(high)


def summary(people: pd.Series, rewards: pd.DataFrame, resamples: int = 200, seed: int = 0) -> pd.Series:
    """mean, sd (over models, ddof 1), min, max of the models' taus with people; low, high: 95% interval of the mean.

    The interval says how far the mean depends on which items were rated (bootstrap over items). It does not speak of
    other models than these.
    """
    found = taus(people, rewards)
    low, high = interval(resampled_taus(people, rewards, resamples, seed).mean(axis=1))
    spread = found.std(ddof=1) if len(found) > 1 else np.nan
    return pd.Series(
        {"mean": found.mean(), "sd": spread, "min": found.min(), "max": found.max(), "low": low, "high": high}
    )


def matrix_means(matrix: pd.DataFrame) -> dict[str, float]:
    """The mean of a matrix, as from rankings.tau_matrix: over the `pairs` of different models, and over the `whole`.

    The whole holds each model's agreement with itself, which is 1 by definition, so its mean is too high.
    """
    pairs = matrix.to_numpy()[np.triu_indices(len(matrix), 1)]
    return {"pairs": float(pairs.mean()) if len(pairs) else np.nan, "whole": float(matrix.to_numpy().mean())}


def across_prompts(rewards: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Kendall's tau-b of each model with itself under another prompt (Fig A6): models x pairs of prompts.

    rewards: prompt -> items x models, all with the same items. Columns are named `GE, HP`.
    Raises InputError for fewer than two prompts, or items that differ.
    """
    if len(rewards) < 2:
        raise InputError("agreement across prompts needs two prompts; score another one")
    first = next(iter(rewards.values()))
    if not all(one.index.equals(first.index) and one.columns.equals(first.columns) for one in rewards.values()):
        raise InputError("the prompts do not have the same items and models; take those that all of them have")
    columns = {
        f"{a}, {b}": [_tau(rewards[a][name], rewards[b][name]) for name in first]
        for a, b in itertools.combinations(rewards, 2)
    }
    return pd.DataFrame(columns, index=first.columns)


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


def at_ends(
    people: pd.Series, rewards: pd.DataFrame, cuts: Sequence[int], resamples: int = 200, seed: int = 0
) -> pd.DataFrame:
    """Mean tau of models with people among the n items that people rate highest, and lowest; one row per n of `cuts`.

    Columns: cut; then for high and low: items (with those tied with the n-th), span (highest less lowest rating there),
    tau, and its 95% interval (bootstrap over the items of that end); difference (high less low) and its interval.
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
        ends = {"high": people >= ordered[-cut], "low": people <= ordered[cut - 1]}
        found = {
            name: _one_end(people[inside], rewards[inside], resamples, [seed, number])  # other items, so other draws
            for number, (name, inside) in enumerate(ends.items())
        }
        rows.append({"cut": cut} | _both_ends(found))
    return pd.DataFrame(rows)


def _one_end(people: pd.Series, rewards: pd.DataFrame, resamples: int, seed: list[int]) -> dict:
    tau = taus(people, rewards).mean()
    return {
        "items": len(people), "span": people.max() - people.min(), "tau": tau,
        "resampled": resampled_taus(people, rewards, resamples, seed).mean(axis=1),
    }  # fmt: skip


def _both_ends(found: Mapping[str, dict]) -> dict:
    row = {}
    for name, end in found.items():
        low, high = interval(end["resampled"])
        row |= {f"{name}_items": end["items"], f"{name}_span": end["span"], f"{name}_tau": end["tau"]}
        row |= {f"{name}_ci_low": low, f"{name}_ci_high": high}
    low, high = interval(found["high"]["resampled"] - found["low"]["resampled"])
    return row | {"difference": row["high_tau"] - row["low_tau"], "difference_ci_low": low, "difference_ci_high": high}


def agreement_by_distance(
    people: pd.Series, rewards: pd.DataFrame, edges: Sequence[float], pairs: int = 200_000, seed: int = 0
) -> pd.DataFrame:
    """How often models order two items as people do, by how far apart people rate them: upper half against lower half.

    This compares like with like, where tau at two ends does not: pairs from the two halves of people's ranking that are
    equally far apart. Columns: low_edge, high_edge (distance in rating, (low, high]), then for upper and lower: pairs,
    share (mean over models, ties count half, .5 by chance). `pairs` are drawn at random in each half.
    """
    _check(people, rewards)
    values, random = people.to_numpy(dtype=float), np.random.default_rng(seed)
    middle = np.median(values)
    halves = {"upper": np.flatnonzero(values > middle), "lower": np.flatnonzero(values < middle)}
    found = {}
    for name, half in halves.items():
        a, b = random.choice(half, size=(2, pairs))
        apart = values[a] - values[b]
        signs = np.sign(rewards.to_numpy()[a] - rewards.to_numpy()[b]) * np.sign(apart)[:, None]  # (pairs, models)
        found[name] = np.abs(apart), (1 + signs.mean(axis=1)) / 2
    rows = []
    for low, high in itertools.pairwise(edges):
        row = {"low_edge": low, "high_edge": high}
        for name, (apart, share) in found.items():
            inside = (apart > low) & (apart <= high)
            mean = share[inside].mean() if inside.any() else np.nan
            row |= {f"{name}_pairs": int(inside.sum()), f"{name}_share": mean}
        rows.append(row)
    return pd.DataFrame(rows)


def taus_by(people: pd.Series, rewards: pd.DataFrame, groups: pd.Series) -> pd.DataFrame:
    """Mean tau of models with people within each group of items, in the order of the groups: columns items, tau."""
    _check(people, rewards)
    groups = groups.loc[people.index]
    rows = {}
    for group, inside in groups.groupby(groups, observed=True, sort=True):
        rows[group] = {"items": len(inside), "tau": taus(people[inside.index], rewards.loc[inside.index]).mean()}
    return pd.DataFrame(rows).T.astype({"items": int})


# --- how well people agree with themselves ------------------------------------------------------------------------


def split_half(ratings: pd.DataFrame) -> np.ndarray:
    """Kendall's tau-b between the means of two halves of the raters, for every way to halve them.

    ratings: items x raters, an even number of raters. Ten raters can be halved in 126 ways. No model can be expected to
    agree with half of the raters better than the other half does, if it has learnt what raters have in common.
    """
    return np.array([_tau(one, other) for one, other in _halves(ratings)])


def taus_with_half(ratings: pd.DataFrame, rewards: pd.DataFrame) -> pd.Series:
    """The models' taus with the mean of half of the raters, averaged over all halves; split_half is their ceiling."""
    halves = [half for both in _halves(ratings) for half in both]
    return pd.DataFrame([taus(half, rewards) for half in halves]).mean()


def _halves(ratings: pd.DataFrame):
    raters = ratings.shape[1]
    if raters < 2 or raters % 2:
        raise InputError(f"{raters} raters cannot be halved; give an even number of columns")
    # The first rater is always in the first half, so that no split comes twice.
    for others in itertools.combinations(range(1, raters), raters // 2 - 1):
        chosen = np.isin(range(raters), (0, *others))
        yield ratings.loc[:, chosen].mean(axis=1), ratings.loc[:, ~chosen].mean(axis=1)


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
    found = pd.DataFrame({"people_rank": theirs, "models_rank": mine, "difference": mine - theirs})
    found["position"] = found["difference"].rank(ascending=False, method="min").astype(int)
    found["expected"] = _rising(theirs, mine)
    found["surprise"] = found["models_rank"] - found["expected"]
    # Rounded, because items that are equal in all else must share a position whatever the fit's last bits are.
    found["surprise_position"] = found["surprise"].round(6).rank(ascending=False, method="min").astype(int)
    return found.sort_values("difference", ascending=False, kind="stable")


def _rising(x: pd.Series, y: pd.Series) -> pd.Series:
    """The values nearest to y, by least squares, that never fall where x rises and are equal where x is."""
    at_each = y.groupby(x).agg(["mean", "size"])  # one point for items that tie, so that their order does not matter
    fitted = isotonic_regression(at_each["mean"], weights=at_each["size"].astype(float)).x
    return x.map(pd.Series(fitted, index=at_each.index))


def positions_over_models(
    people: pd.Series, rewards: pd.DataFrame, item: str, aggregate: str, resamples: int = 200, seed: int = 0
) -> np.ndarray:
    """The position of an item among the most undervalued ones, (resamples,), for models drawn with replacement.

    How far a position depends on which ten models were asked.
    """
    if item not in rewards.index:
        raise InputError(f"no item {item!r} among the {len(rewards)} that models scored; check its spelling")
    random = np.random.default_rng(seed)
    models, theirs, at = rewards.shape[1], ranks(people), rewards.index.get_loc(item)
    positions = []
    for _ in range(resamples):
        drawn = rewards.iloc[:, random.integers(models, size=models)].set_axis(range(models), axis=1)
        apart = (models_rank(people, drawn, aggregate) - theirs).to_numpy()
        positions.append(1 + int((apart > apart[at]).sum()))
    return np.array(positions)


def by_kind(values: pd.Series, kinds: pd.Series, top: int = 50, resamples: int = 200, seed: int = 0) -> pd.DataFrame:
    """Whether items of a kind have larger values (differences, surprises) than items of no kind; one row per kind.

    kinds: item -> kind, '' for none. Columns: items; median; above (the probability that an item of the kind has a
    larger value than one of no kind, ties count half, .5 by chance) and its 95% interval, low and high (bootstrap over
    the kind's items); in_top, how many are among the `top` largest values; by_chance, how many would be if kinds did
    not matter.
    """
    kinds = kinds.reindex(values.index).fillna("")
    largest = values.rank(ascending=False, method="first") <= top
    none = np.sort(values[kinds == ""].to_numpy())
    random, rows = np.random.default_rng(seed), {}
    for kind in sorted(set(kinds) - {""}):
        of_kind = values[kinds == kind]
        below = (np.searchsorted(none, of_kind, "left") + np.searchsorted(none, of_kind, "right")) / (2 * len(none))
        low, high = interval(below[random.integers(len(below), size=(resamples, len(below)))].mean(axis=1))
        rows[kind] = {
            "items": len(of_kind), "median": of_kind.median(), "above": below.mean(), "low": low, "high": high,
            "in_top": int(largest[of_kind.index].sum()), "by_chance": largest.mean() * len(of_kind),
        }  # fmt: skip
    columns = ["items", "median", "above", "low", "high", "in_top", "by_chance"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("kind").reset_index()


def kinds_of(items: pd.Index, words: pd.Series, sexual: bool = False) -> pd.Series:
    """The kind of each item, '' for none: by a list of words (word -> kind), whatever its capitals.

    sexual: also `sexual content`, by a pattern for titles as an encyclopedia has them.
    """
    kinds = pd.Series(items.str.lower().map(words), index=items).fillna("")
    return kinds.mask(items.str.contains(SEXUAL, case=False), "sexual content") if sexual else kinds


def by_kind_alone(people: pd.Series, rewards: pd.DataFrame, kinds: pd.Series) -> pd.DataFrame:
    """by_kind's `above` of the surprises of each model by itself: models x kinds."""
    found = {name: by_kind(discrepancies(people, rewards[[name]])["surprise"], kinds, resamples=2) for name in rewards}
    return pd.DataFrame({name: one.set_index("kind")["above"] for name, one in found.items()}).T


def gaps_by_distance(people: pd.Series, rewards: pd.DataFrame, edges: Sequence[float]) -> pd.DataFrame:
    """agreement_by_distance of each model by itself, upper less lower share: models x distances (high edge)."""
    found = {name: agreement_by_distance(people, rewards[[name]], edges).set_index("high_edge") for name in rewards}
    return pd.DataFrame({name: one["upper_share"] - one["lower_share"] for name, one in found.items()}).T


def side_by_side(found: Mapping[str, pd.DataFrame], top: int, end: str = "undervalued") -> pd.DataFrame:
    """The items most undervalued (or overvalued) under each aggregate, a column each; found: from discrepancies."""
    ordered = {name: frame if end == "undervalued" else frame[::-1] for name, frame in found.items()}
    return pd.DataFrame({name: list(frame.index[:top]) for name, frame in ordered.items()})
