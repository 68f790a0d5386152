"""What the calibration says of each estimator: false positives, power, bias, coverage, and the ranks of the truth.

Training shrinks what is planted, so an interval is held against a + b planted, the line fitted on other models; an
interval around a false null against what the control models give, which is not 0.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from benchmarks.calibration.estimators import ESTIMATORS, estimate, planted, utilities
from benchmarks.calibration.plan import PROMPTS, Measured
from lib.stats import crossed

TARGETS = {"size": (0.03, 0.07), "coverage": (0.92, 0.97)}
SPLITS = 20  # of the models into a half that fits the line and a half that is held out
GROUP = 10  # models of a group, as many as the paper has
SAMPLE = 600  # words drawn for a group, about as many as the published scores have in common with a lexicon
# Of single models: over words alone; with the variance between seeds of the controls; and the spread of other models
# of known truth about the line, which holds everything in which models differ. The last two take off the null's bias.
INTERVALS = ("words", "words + seed", "calibrated")
GROUP_COLUMNS = ["estimator", "group", "level", "models", "method", "estimate", "error", "low", "high", "target", "p",
                 "rank", "planted", "holds_new"]  # fmt: skip
METHODS = ("models only", "words only", "crossed", "crossed, control off")


# --- one row per model and estimator ------------------------------------------------------------------------------


def estimates(measured: Sequence[Measured], words: pd.DataFrame) -> pd.DataFrame:
    """Return what every estimator finds in every model: one row per estimator and model.

    Columns: estimator, model, control ('' for a model of the plan), base, level (planted, in utility), planted (in the
    estimator's unit), estimate, standard_error (over words alone), n (words).
    """
    profiles = [one.planned.profile for one in measured]
    about = {"model": [one.planned.name for one in measured], "control": [one.planned.control for one in measured],
             "base": [profile.base for profile in profiles]}  # fmt: skip
    rewards, utility, tables = stacked(measured), utilities(words, profiles), []
    for estimator in ESTIMATORS:
        found, moved = estimate(estimator, words, rewards)
        columns = {"level": [estimator.level(profile) for profile in profiles], "estimate": found,
                   "planted": planted(estimator, words, profiles, utility),
                   "standard_error": np.sqrt((moved**2).sum(axis=0)), "n": len(moved)}  # fmt: skip
        tables.append(pd.DataFrame({"estimator": estimator.name} | about | columns))
    return pd.concat(tables, ignore_index=True)


def stacked(measured: Sequence[Measured]) -> np.ndarray:
    """Return rewards of all models, (words, prompts, models) float32."""
    return np.stack([one.rewards for one in measured], axis=-1)


# --- single models ------------------------------------------------------------------------------------------------


def seed_variance(table: pd.DataFrame) -> tuple[float, int]:
    """Variance of an estimate between seeds of one control, pooled over the controls, and its degrees of freedom."""
    by_control = table[table["control"] != ""].groupby("control")["estimate"]
    df = int((by_control.size() - 1).sum())
    return (float((by_control.var(ddof=1) * (by_control.size() - 1)).sum() / df), df) if df else (np.nan, 0)


def single_models(table: pd.DataFrame) -> pd.DataFrame:
    """Return how the intervals of single models do: one row per estimator and interval (see INTERVALS).

    table: as from `estimates`. Columns: models, n_null; bias, the mean estimate of models with nothing planted, with
    its interval over models; a, b of the line recovered = a + b planted; seed_ratio, sd between seeds of a control over
    the error of words; size, the share of nulls called significant; power; coverage, of the line that the other half of
    the models gives; covers_planted, of the planted value itself; each with low and high (Wilson, 95%).
    """
    rows = []
    for name, some in table.groupby("estimator", sort=False):
        plan = some[some["control"] == ""].reset_index(drop=True)
        about = {"estimator": name} | _line_and_bias(plan) | {"seed_ratio": _seed_ratio(some)}
        rows += [about | {"interval": interval} | _shares(plan, interval, seed_variance(some))
                 for interval in INTERVALS]  # fmt: skip
    return pd.DataFrame(rows)


def _line_and_bias(plan: pd.DataFrame) -> dict:
    null = plan.loc[plan["level"] == 0, "estimate"]
    a, b = _line(plan)
    low, high = stats.ttest_1samp(null, 0).confidence_interval() if len(null) > 1 else (np.nan, np.nan)
    return {"models": len(plan), "n_null": len(null), "bias": null.mean(), "bias_low": low, "bias_high": high,
            "a": a, "b": b}  # fmt: skip


def _line(rows: pd.DataFrame | np.recarray) -> tuple[float, float]:
    """Return a and b of recovered = a + b planted by least squares; NaN where one value only was planted."""
    if len(np.unique(rows["planted"])) < 2:
        return np.nan, np.nan
    b, a = np.polyfit(rows["planted"], rows["estimate"], 1)
    return float(a), float(b)


def _seed_ratio(table: pd.DataFrame) -> float:
    of_controls = table.loc[table["control"] != "", "standard_error"]
    return float(np.sqrt(seed_variance(table)[0] / (of_controls**2).mean()))


def _shares(plan: pd.DataFrame, interval: str, seeds: tuple[float, int]) -> dict:
    """Size, power and the two coverages over random halves: the line, and the bias, are those of the other half."""
    rng, counts = np.random.default_rng(0), np.zeros(4)
    models, null = plan.to_records(index=False), (plan["level"] == 0).to_numpy()  # halves of records are quickly made
    for _ in range(SPLITS):
        first = rng.permutation(len(plan)) < len(plan) / 2
        counts += sum(_counted(models[half], models[~half], interval, seeds) for half in (first, ~first))
    n = {"size": null.sum(), "power": (~null).sum(), "coverage": len(plan), "covers_planted": len(plan)}
    shares = {name: _share(count / SPLITS, of) for (name, of), count in zip(n.items(), counts, strict=True)}
    return {key: value for name, share in shares.items() for key, value in _with_ends(name, share).items()}


def _counted(held_out: np.recarray, fitted: np.recarray, interval: str, seeds: tuple[float, int]) -> np.ndarray:
    """How many of the held-out models are nulls called significant, effects found, lines held, planted values held."""
    a, b = _line(fitted)
    reach = _reach(held_out, fitted, interval, seeds)
    null, value = held_out["level"] == 0, held_out["estimate"]
    others = fitted["estimate"][fitted["level"] == 0]
    off = others.mean() if interval != "words" and len(others) else 0.0
    away, right = np.abs(value - off) > reach, np.sign(value - off) == np.sign(held_out["planted"])
    on_line = np.abs(value - a - b * held_out["planted"]) <= reach
    planted_held = np.abs(value - held_out["planted"]) <= reach
    return np.array([(away & null).sum(), (away & right & ~null).sum(), on_line.sum(), planted_held.sum()])


def _reach(held_out: np.recarray, fitted: np.recarray, interval: str, seeds: tuple[float, int]) -> np.ndarray:
    """Return half the width of the 95% intervals of the held-out models."""
    error, df = held_out["standard_error"], held_out["n"] - 1.0
    if interval == "words + seed":
        variance, df_seed = seeds  # with Satterthwaite's degrees of freedom of the sum
        both = error**2 + variance
        error, df = np.sqrt(both), both**2 / (error**4 / df + variance**2 / max(df_seed, 1))
    elif interval == "calibrated":
        error, df = _error_about_line(held_out["planted"], fitted), np.full(len(error), len(fitted) - 2)
    return stats.t.ppf(0.975, df) * error


def _error_about_line(planted: np.ndarray, fitted: np.recarray) -> np.ndarray:
    """The error of a new model's estimate about the line that others were fitted with; NaN where these are too few."""
    a, b = _line(fitted)
    if len(fitted) < 3 or np.isnan(b):
        return np.full(len(planted), np.nan)
    x, y = fitted["planted"], fitted["estimate"]
    variance = ((y - a - b * x) ** 2).sum() / (len(x) - 2)
    return np.sqrt(variance * (1 + 1 / len(x) + (planted - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum()))


def _share(count: float, n: int) -> tuple[float, float, float]:
    """Return a share with its 95% interval by Wilson; NaN of nothing."""
    if not n:
        return np.nan, np.nan, np.nan
    return count / n, *proportion_confint(count, n, method="wilson")


def _with_ends(name: str, share: tuple[float, float, float]) -> dict[str, float]:
    return dict(zip((name, f"{name}_low", f"{name}_high"), share, strict=True))


# --- groups of ten ------------------------------------------------------------------------------------------------


def groups(
    measured: Sequence[Measured], words: pd.DataFrame, *, number: int = 500, size: int = GROUP, sample: int = SAMPLE,
    seed: int = 0,
) -> pd.DataFrame:  # fmt: skip
    """Studies as the paper's, drawn from the plan: ten models that one value is planted in, and a sample of words.

    Half of the groups have nothing planted. Words are drawn with replacement from those that an estimator reads, so
    that their population is known; the line a + b planted, and the bias of the null, come from all models that are not
    in the group and all words. One row per estimator, group and method (see METHODS): level, models (fewer than ten
    where a level has not twice as many), planted, estimate, error,
    low, high (the interval), target (what it should hold), p (of nothing planted), rank (share of the interval's
    distribution below the target, uniform in [0, 1] if the interval is right), holds_new (of `crossed`: whether the
    prediction interval for one new model holds what all words give for a model of that level that is not in the group).
    """
    plan = [one for one in measured if not one.planned.control]
    rewards, table = stacked(plan), estimates(plan, words)
    rows = []
    for estimator in ESTIMATORS:
        whole = table[table["estimator"] == estimator.name].reset_index(drop=True)
        population = np.flatnonzero(estimator.reads(words))
        rng = np.random.default_rng(seed)
        for group, (level, *some, new) in enumerate(_draw_models(whole["level"].to_numpy(), number, size, rng)):
            drawn = np.sort(rng.choice(population, sample))
            found = estimate(estimator, words.iloc[drawn], rewards[np.ix_(drawn, range(len(PROMPTS)), some)])
            about = {"estimator": estimator.name, "group": group, "level": level, "models": len(some)}
            rows += [about | row for row in _judge(*found, whole, some, new)]
    return pd.DataFrame(rows, columns=GROUP_COLUMNS)


def _draw_models(levels: np.ndarray, number: int, size: int, rng: np.random.Generator) -> Iterator[list]:
    """So many groups: the level, the models in the group, and one more of the level; every other group has level 0.

    At most half of a level's models are in a group, since the others say what is right; levels of fewer than four
    models are left out.
    """
    of_level = {level: np.flatnonzero(levels == level) for level in np.unique(levels) if (levels == level).sum() >= 4}
    effects = [level for level in of_level if level != 0]
    if 0 not in of_level or not effects:
        return
    for group in range(number):
        level = rng.choice(effects) if group % 2 else 0.0
        some = rng.choice(of_level[level], min(size, len(of_level[level]) // 2) + 1, replace=False)
        yield [float(level), *some]


def _judge(found: np.ndarray, moved: np.ndarray, whole: pd.DataFrame, some: list[int], new: int) -> list[dict]:
    """Return the intervals of one group, held against the line and the bias that the other models give."""
    names = [str(i) for i in some]
    both = crossed.crossed(pd.Series(found, names), pd.DataFrame(moved, columns=names))
    n, models = moved.shape
    of_models, of_words = found.std(ddof=1) / np.sqrt(models), np.sqrt((moved.mean(axis=1) ** 2).sum())
    others = whole.drop(index=some)
    a, b = _line(others)
    null = others.loc[others["level"] == 0, "estimate"]
    planted_mean = whole["planted"].iloc[some].mean()
    target = a + b * planted_mean
    off, off_error = null.mean(), null.std(ddof=1) / np.sqrt(len(null))
    ways = {"models only": (of_models, models - 1, 0.0), "words only": (of_words, n - 1, 0.0),
            "crossed": (both.standard_error, both.df, 0.0),
            "crossed, control off": (np.hypot(both.standard_error, off_error), both.df, off)}  # fmt: skip
    holds_new = both.new_low <= whole["estimate"].iloc[new] <= both.new_high
    about = {"planted": planted_mean, "holds_new": holds_new}
    return [_row(method, both.estimate, *way, target) | about for method, way in ways.items()]


def _row(method: str, value: float, error: float, df: float, null_value: float, target: float) -> dict:
    reach = stats.t.ppf(0.975, df) * error
    return {"method": method, "estimate": value, "error": error, "low": value - reach, "high": value + reach,
            "target": target, "p": 2 * stats.t.sf(abs(value - null_value) / error, df),
            "rank": stats.t.cdf((target - value) / error, df)}  # fmt: skip


def of_groups(rows: pd.DataFrame) -> pd.DataFrame:
    """Return how the intervals of groups do: one row per estimator and method.

    rows: as from `groups`. Columns: groups, models (median number in a group), size, power, coverage, coverage_new (of
    the prediction interval for one new model), the last four with low and high (Wilson, 95%). Groups that share models
    are not independent: with few models these are too narrow.
    """
    by = rows.groupby(["estimator", "method"], sort=False)
    table = [dict(zip(("estimator", "method"), key, strict=True)) | _of_groups(some) for key, some in by]
    return pd.DataFrame(table, columns=["estimator", "method", *_of_groups(rows)])


def _of_groups(rows: pd.DataFrame) -> dict:
    null, significant = rows["level"] == 0, rows["p"] < 0.05
    held = (rows["low"] <= rows["target"]) & (rows["target"] <= rows["high"])
    shares = {"size": significant[null], "power": significant[~null], "coverage": held,
              "coverage_new": rows["holds_new"]}  # fmt: skip
    counted = {"groups": len(rows), "models": rows["models"].median()}
    for name, is_so in shares.items():
        counted |= _with_ends(name, _share(is_so.sum(), len(is_so)))
    return counted


def ranks(rows: pd.DataFrame, bins: int = 10) -> pd.DataFrame:
    """Rank histograms of the truth: share of groups per tenth, (bins,) columns, one row per estimator and method."""
    edges = np.linspace(0, 1, bins + 1)
    by = rows.groupby(["estimator", "method"], sort=False)["rank"]
    columns = [f"{low:.1f} to {high:.1f}" for low, high in zip(edges[:-1], edges[1:], strict=True)]
    shares = [[*key, *np.histogram(some, edges)[0] / len(some)] for key, some in by]
    return pd.DataFrame(shares, columns=["estimator", "method", *columns])


def meets(share: float, low: float, high: float, target: tuple[float, float]) -> str:
    """Return `met` for a share within the target, `missed` for one whose interval lies outside it, else `undecided`."""
    if target[0] <= share <= target[1]:
        return "met"
    return "missed" if high < target[0] or low > target[1] else "undecided"
