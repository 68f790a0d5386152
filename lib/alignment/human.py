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


def resampled_taus(people: pd.Series, rewards: pd.DataFrame, resamples: int = 200, seed=0) -> pd.DataFrame:
    """The same on items drawn with replacement, resamples x models; the models stay the same ones.

    An item that is drawn twice makes a pair that is tied on both sides, which tau-b leaves out of account.
    """
    _check(people, rewards)
    ratings, by_model = people.to_numpy(), [rewards[name].to_numpy() for name in rewards]
    draws = resampling.bootstrap(
        lambda drawn: [_tau(ratings[drawn], values[drawn]) for values in by_model], len(people), resamples, seed
    )
    return pd.DataFrame(draws, columns=rewards.columns)


def summary(people: pd.Series, rewards: pd.DataFrame, resamples: int = 200, seed: int = 0) -> pd.Series:
    """mean, sd (over models, ddof 1), min, max of the models' taus with people; ci_low, ci_high (95%) of the mean.

    The interval says how far the mean depends on which items were rated (bootstrap over items). It does not speak of
    other models than these.
    """
    tau = taus(people, rewards)
    ci_low, ci_high = resampling.interval(resampled_taus(people, rewards, resamples, seed).mean(axis=1))
    sd = tau.std(ddof=1) if len(tau) > 1 else np.nan
    return pd.Series(
        {"mean": tau.mean(), "sd": sd, "min": tau.min(), "max": tau.max(), "ci_low": ci_low, "ci_high": ci_high}
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
    if not all(other.index.equals(first.index) and other.columns.equals(first.columns) for other in rewards.values()):
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
        inside = {"high": people >= ordered[-cut], "low": people <= ordered[cut - 1]}
        ends = {
            end: _one_end(people[items], rewards[items], resamples, [seed, number])  # other items, so other draws
            for number, (end, items) in enumerate(inside.items())
        }
        rows.append({"cut": cut} | _both_ends(ends))
    return pd.DataFrame(rows)


def _one_end(people: pd.Series, rewards: pd.DataFrame, resamples: int, seed: list[int]) -> dict:
    tau = taus(people, rewards).mean()
    return {
        "items": len(people), "span": people.max() - people.min(), "tau": tau,
        "draws": resampled_taus(people, rewards, resamples, seed).mean(axis=1),
    }  # fmt: skip


def _both_ends(ends: Mapping[str, dict]) -> dict:
    row = {}
    for name, end in ends.items():
        ci_low, ci_high = resampling.interval(end["draws"])
        row |= {f"{name}_items": end["items"], f"{name}_span": end["span"], f"{name}_tau": end["tau"]}
        row |= {f"{name}_ci_low": ci_low, f"{name}_ci_high": ci_high}
    ci_low, ci_high = resampling.interval(ends["high"]["draws"] - ends["low"]["draws"])
    row["difference"] = row["high_tau"] - row["low_tau"]
    return row | {"difference_ci_low": ci_low, "difference_ci_high": ci_high}


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
    drawn = {}
    for name, half in halves.items():
        a, b = random.choice(half, size=(2, pairs))
        distance = values[a] - values[b]
        signs = np.sign(rewards.to_numpy()[a] - rewards.to_numpy()[b]) * np.sign(distance)[:, None]  # (pairs, models)
        drawn[name] = np.abs(distance), (1 + signs.mean(axis=1)) / 2
    rows = []
    for low_edge, high_edge in itertools.pairwise(edges):
        row = {"low_edge": low_edge, "high_edge": high_edge}
        for name, (distance, share) in drawn.items():
            inside = (distance > low_edge) & (distance <= high_edge)
            mean = share[inside].mean() if inside.any() else np.nan
            row |= {f"{name}_pairs": int(inside.sum()), f"{name}_share": mean}
        rows.append(row)
    return pd.DataFrame(rows)


def gaps_by_distance(people: pd.Series, rewards: pd.DataFrame, edges: Sequence[float]) -> pd.DataFrame:
    """agreement_by_distance of each model by itself, upper less lower share: models x distances (high edge)."""
    tables = {name: agreement_by_distance(people, rewards[[name]], edges).set_index("high_edge") for name in rewards}
    return pd.DataFrame({name: table["upper_share"] - table["lower_share"] for name, table in tables.items()}).T


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
    return np.array([_tau(first, second) for first, second in _halves(ratings)])


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


# --- kinds of items ---------------------------------------------------------------------------------------------------


def kinds_of(items: pd.Index, words: pd.Series, sexual: bool = False) -> pd.Series:
    """The kind of each item, '' for none: by a list of words (word -> kind), whatever its capitals.

    sexual: also `sexual content`, by a pattern for titles as an encyclopedia has them.
    """
    kinds = pd.Series(items.str.lower().map(words), index=items).fillna("")
    return kinds.mask(items.str.contains(SEXUAL, case=False), "sexual content") if sexual else kinds


def by_kind(values: pd.Series, kinds: pd.Series, top: int = 50, resamples: int = 200, seed: int = 0) -> pd.DataFrame:
    """Whether items of a kind have larger values (differences, surprises) than items of no kind; one row per kind.

    kinds: item -> kind, '' for none. Columns: items; median; above (the probability that an item of the kind has a
    larger value than one of no kind, ties count half, .5 by chance: Mann and Whitney's U as a share of all pairs) and
    its 95% interval, ci_low and ci_high (bootstrap over the kind's items); in_top, how many are among the `top` largest
    values; by_chance, how many would be if kinds did not matter.
    """
    kinds = kinds.reindex(values.index).fillna("")
    largest = values.rank(ascending=False, method="first") <= top
    of_no_kind = values[kinds == ""]
    random, rows = np.random.default_rng(seed), {}
    for kind in sorted(set(kinds) - {""}):
        of_kind = values[kinds == kind]
        rows[kind] = {"items": len(of_kind), "median": of_kind.median()}
        rows[kind] |= _above(of_kind, of_no_kind, resamples, random)
        rows[kind] |= {"in_top": int(largest[of_kind.index].sum()), "by_chance": largest.mean() * len(of_kind)}
    columns = ["items", "median", "above", "ci_low", "ci_high", "in_top", "by_chance"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("kind").reset_index()


def _above(values: pd.Series, others: pd.Series, resamples: int, random: np.random.Generator) -> dict[str, float]:
    """The probability that a value exceeds one of the others, ties count half, with its interval over the values."""
    shares = stats.percentileofscore(others, values, kind="mean") / 100  # (n,) of the others, below each value
    draws = resampling.bootstrap(lambda drawn: shares[drawn].mean(), len(values), resamples, random)
    ci_low, ci_high = resampling.interval(draws)
    return {"above": shares.mean(), "ci_low": ci_low, "ci_high": ci_high}


def by_kind_alone(people: pd.Series, rewards: pd.DataFrame, kinds: pd.Series) -> pd.DataFrame:
    """by_kind's `above` of the surprises of each model by itself: models x kinds."""
    surprises = {name: discrepancies(people, rewards[[name]])["surprise"] for name in rewards}
    tables = {name: by_kind(surprise, kinds, resamples=2) for name, surprise in surprises.items()}
    return pd.DataFrame({name: table.set_index("kind")["above"] for name, table in tables.items()}).T
