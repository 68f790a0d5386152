"""How rewards follow the sentiment of words, and how the framing of the prompt changes this (sections 3.1 and 3.2).

Most functions take *observations*, a frame with one row per model, prompt and word. Its columns are `model, prompt,
word, sentiment, reward`; a negative word has a sentiment below zero. `measured` computes a statistic of each model, and
how much each word moves it. Intervals follow from these influences, with words and models as samples
(lib.stats.crossed).
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import stats

from .. import InputError
from ..show import display
from ..stats import crossed, resampling
from ..stats.crossed import Measured

ALL = "mean of the models"
FEWEST = 10  # words of a sign; an interval from fewer says little
WORDS = ("all words", "without offensive")
SIGNS = {1.0: "positive", -1.0: "negative"}


# --- observations -------------------------------------------------------------------------------------------------


def observations(
    joined: Mapping[str, pd.DataFrame], prompts: Sequence[str], columns: Sequence[str] = ("sentiment",)
) -> pd.DataFrame:
    """Return one row per model, prompt and word: `model, prompt, word`, then `columns`, then `reward` (float64).

    `joined`: per model, a score table joined to a lexicon (lexicons.join). Raise InputError if a column is absent or a
    model has no rows.
    """
    keys = ["word", *columns]
    pieces = {}
    for name, frame in joined.items():
        if missing := [column for column in [*keys, *prompts] if column not in frame.columns]:
            raise InputError(f"the words of {name} have no column '{missing[0]}'; join its scores to a lexicon first")
        if frame.empty:
            raise InputError(f"no word of the lexicon is among the tokens of {name}; leave it out, or trim the tokens")
        pieces[name] = frame.melt(keys, list(prompts), var_name="prompt", value_name="reward")
    rows = pd.concat(pieces, names=["model"]).reset_index("model").reset_index(drop=True)
    return rows.astype({"reward": float})[["model", "prompt", *keys, "reward"]]


def why_undecided(joined: Mapping[str, pd.DataFrame], prompts: Sequence[str]) -> str:
    """Return why nothing can be tested on these words, or ''. `joined`: as in observations()."""
    if len(joined) < 2:
        return f"{len(joined)} model gives no mean over models with an interval; score at least two."
    for name, frame in joined.items():
        for sign, named in SIGNS.items():
            if (words := frame["word"][np.sign(frame["sentiment"]) == sign].nunique()) < FEWEST:
                return f"{name} reads {words} {named} words of the lexicon, and {FEWEST} are needed; score more tokens."
        if constant := [prompt for prompt in prompts if frame[prompt].nunique() < 2]:
            return f"{name} gives all words one reward under '{constant[0]}', which ranks nothing; leave it out."
    return ""


def word_choices(
    joined: Mapping[str, Mapping[str, pd.DataFrame]], prompts: Sequence[str]
) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield lexicon, choice of words (WORDS) and their observations. `joined`: lexicon -> as in observations()."""
    for lexicon, tables in joined.items():
        rows = observations(tables, prompts)
        yield lexicon, WORDS[0], rows
        yield lexicon, WORDS[1], rows[~rows["word"].map(display.is_offensive)]


def standardised(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the observations with rewards in standard deviations from their mean, within model and prompt (ddof 0).

    Raw slopes of different models cannot be compared, because each model has its own scale. Raise InputError where all
    rewards of a model for a prompt are equal.
    """
    rewards = rows.groupby(["model", "prompt"], sort=False)["reward"]
    sd = rewards.transform("std", ddof=0)
    if (constant := (sd == 0) | sd.isna()).any():
        model, prompt = rows.loc[constant, ["model", "prompt"]].iloc[0]
        raise InputError(f"reward is constant in {model}, {prompt}, so it has no standard deviation; leave it out")
    return rows.assign(reward=(rows["reward"] - rewards.transform("mean")) / sd)


def normal_scores(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the observations with normal quantiles at the ranks of rewards, within model and prompt: order alone."""
    rewards = rows.groupby(["model", "prompt"], sort=False)["reward"]
    return rows.assign(reward=stats.norm.ppf((rewards.rank() - 0.5) / rewards.transform("size")))


# --- slopes and the paper's tests ---------------------------------------------------------------------------------


def by_grade(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean reward of each grade, rounded to a whole one, except 0. Each model counts once.

    The index is sentiment. Columns: words (how many have the grade), then the prompts.
    """
    rows = rows.assign(sentiment=rows["sentiment"].round()).query("sentiment != 0")
    means = rows.groupby(["sentiment", "prompt", "model"])["reward"].mean().reset_index()
    table = means.pivot_table("reward", "sentiment", "prompt")[list(rows["prompt"].unique())]
    table.insert(0, "words", rows.groupby("sentiment")["word"].nunique())
    return table.rename_axis(columns=None)


def slopes(
    rows: pd.DataFrame,
    predictors: Sequence[str] = ("sentiment",),
    by: Sequence[str] = ("model", "prompt"),
    *,
    robust: bool = False,
) -> pd.DataFrame:
    """Return least-squares slopes of reward on the predictors together (sections 3.1 and 3.3): a row per predictor.

    Columns: the group's keys, then `predictor, slope, standard_error, ci_low, ci_high, t, p, n, r2`. Intervals are 95%,
    and p is two-sided. `robust`: HC3 standard errors, which allow for spreads that differ from word to word. Raise
    InputError if a group has too few words, or predictors that cannot be told apart.
    """
    tables = []
    for key, group in rows.groupby(list(by), sort=False):
        design = sm.add_constant(group[list(predictors)].astype(float), has_constant="add")
        if len(group) <= design.shape[1] or np.linalg.matrix_rank(design) < design.shape[1]:
            few = f"{len(group)} words of {', '.join(map(str, key))} give no slope on {' and '.join(predictors)}"
            raise InputError(f"{few}; score more words, or use a lexicon with more of them")
        fit = sm.OLS(group["reward"].astype(float), design).fit(cov_type="HC3" if robust else "nonrobust")
        ci_low, ci_high = fit.conf_int().to_numpy().T
        columns = {"slope": fit.params, "standard_error": fit.bse, "ci_low": ci_low, "ci_high": ci_high,
                   "t": fit.tvalues, "p": fit.pvalues, "n": len(group), "r2": fit.rsquared}  # fmt: skip
        table = pd.DataFrame(columns).drop(index="const").rename_axis("predictor").reset_index()
        tables.append(pd.DataFrame(dict(zip(by, key, strict=True)), table.index).join(table))
    return pd.concat(tables, ignore_index=True)


def slopes_by_sign(rows: pd.DataFrame, *, robust: bool = False) -> pd.DataFrame:
    """Return slopes of reward on sentiment among positive and among negative words (Fig 3C): slopes() by `sign`."""
    signed = rows.assign(sign=np.sign(rows["sentiment"]).map(SIGNS)).dropna(subset="sign")
    if missing := [sign for sign in SIGNS.values() if sign not in set(signed["sign"])]:
        raise InputError(f"no {missing[0]} word has a score; score more words, or use a lexicon with more of them")
    return slopes(signed, by=("model", "prompt", "sign"), robust=robust).drop(columns="predictor")


def gaps(by_sign: pd.DataFrame) -> pd.DataFrame:
    """Return the slope among positive words minus that among negative words: `model, prompt, positive, negative, gap`.

    A prompt for good things asks for positive words. A prompt for bad things asks for negative words, where rewards
    should *fall* with sentiment. So the gap of the requested side is (-negative) - (-positive), the same number. Models
    with one slope only are left out.
    """
    wide = by_sign.pivot_table("slope", ["model", "prompt"], "sign").rename_axis(columns=None)
    wide = wide.loc[by_sign.set_index(["model", "prompt"]).index.unique(), list(SIGNS.values())].dropna()
    return wide.assign(gap=wide["positive"] - wide["negative"]).reset_index()


def count_positive(fits: pd.DataFrame) -> pd.DataFrame:
    """Return by prompt how many slopes are positive, and how many significantly (p < .05) positive or negative.

    `fits`: slopes of one predictor. Columns: `models, n_positive, n_positive_significant, n_negative_significant,
    slope, ci_low, ci_high`. The slope is the mean over models with its t interval (NaN for one model).
    """
    rows = {}
    for prompt, group in fits.groupby("prompt", sort=False):
        up, significant = group["slope"] > 0, group["p"] < 0.05
        several = len(group) > 1
        ci_low, ci_high = stats.ttest_1samp(group["slope"], 0).confidence_interval() if several else (np.nan, np.nan)
        rows[prompt] = {"models": len(group), "n_positive": int(up.sum()),
                        "n_positive_significant": int((up & significant).sum()),
                        "n_negative_significant": int((~up & significant).sum()),
                        "slope": group["slope"].mean(), "ci_low": ci_low, "ci_high": ci_high}  # fmt: skip
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("prompt")


# --- statistics of one model, and how much each word moves them ---------------------------------------------------


# Predictors (words,) or (words, k), and rewards (words, columns) -> the statistic of each column, (columns,), and how
# much each word moves it, (words, columns). A column is a model under a prompt.
Statistic = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def whole_slope(x: np.ndarray, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the slope of reward on x, or on its first column with the others held constant, and its influence."""
    first, *controls = x.reshape(len(x), -1).T
    held = np.column_stack(controls) if controls else None
    return crossed.slope(first, reward, held), crossed.slope_influence(first, reward, held)


def positive_minus_negative(statistic: Statistic) -> Statistic:
    """Return the statistic of positive words minus the statistic of negative words; neutral words do not count."""

    def difference(sentiment: np.ndarray, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        up, down = sentiment > 0, sentiment < 0
        (above, raises), (below, lowers) = (statistic(sentiment[sign], reward[sign]) for sign in (up, down))
        influence = np.zeros((len(sentiment), *np.shape(above)))
        influence[up], influence[down] = raises, -lowers
        return above - below, influence

    return difference


def log_spread(_: np.ndarray, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the log of the standard deviation of rewards, and its influence."""
    return np.log(reward.std(axis=0)), crossed.log_sd_influence(reward)


def mean(_: np.ndarray, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean reward, and its influence."""
    return reward.mean(axis=0), crossed.mean_influence(reward)


slope_gap = positive_minus_negative(whole_slope)  # see gaps()
log_spread_ratio = positive_minus_negative(log_spread)  # the log of the ratio of the two standard deviations
mean_gap = positive_minus_negative(mean)


# --- words and models both as samples -----------------------------------------------------------------------------


def measured(
    rows: pd.DataFrame, statistic: Statistic, predictors: Sequence[str] = ("sentiment",)
) -> dict[str, Measured]:
    """Return prompt -> the statistic of each model on these columns, and how much each word moves it.

    Raise InputError for fewer than 10 words of either sign of sentiment, or a word that lacks a reward for a prompt.
    """
    names, prompts = rows["model"].unique(), rows["prompt"].unique()
    numbered = rows.assign(spelling=rows.groupby(["model", "prompt", "word"]).cumcount())
    wide = numbered.pivot_table("reward", ["word", "spelling", *predictors], ["model", "prompt"])
    wide = wide[list(itertools.product(names, prompts))]
    words, x = wide.index.get_level_values("word"), wide.index.to_frame()[list(predictors)].to_numpy(dtype=float)
    rewards = wide.to_numpy(dtype=float).reshape(len(wide), len(names), -1)
    for name, has_reward in zip(names, ~np.isnan(rewards).transpose(1, 2, 0), strict=True):  # (prompts, words)
        if (has_reward != has_reward[0]).any():
            raise InputError(f"{name}: not every word has a reward for every prompt; score all words under all prompts")
        for sign, label in SIGNS.items() if tuple(predictors) == ("sentiment",) else ():
            if (n := words[has_reward[0] & (np.sign(x[:, 0]) == sign)].nunique()) < FEWEST:
                raise InputError(f"{name}: {n} {label} words are too few for an interval; have at least {FEWEST}")
    values, influence = fitted(words, x[:, 0] if len(predictors) == 1 else x, rewards, statistic)
    known = pd.DataFrame(~np.isnan(rewards[:, :, 0]), words, names).groupby("word", sort=False).any()
    return {
        prompt: Measured(
            pd.Series(values[:, place], names), pd.DataFrame(influence[:, :, place], known.index, names).where(known)
        )
        for place, prompt in enumerate(prompts)
    }


def fitted(words: Sequence, x: np.ndarray, rewards: np.ndarray, fit: Statistic) -> tuple[np.ndarray, np.ndarray]:
    """Return a statistic of rewards (n, models, prompts) on x: (models, prompts); influence (words, models, prompts).

    `x`: (n,) or (n, k). A row with NaN in x or in the rewards takes no part. Models that read the same words are fitted
    together. Spellings of a word add up their influences, in the order of the first spellings.
    """
    n, *shape = rewards.shape
    y, alike = rewards.reshape(n, -1), {}
    present = ~np.isnan(y) & ~np.isnan(x).reshape(n, -1).any(axis=1)[:, None]
    for column in range(y.shape[1]):
        alike.setdefault(present[:, column].tobytes(), []).append(column)
    values, influence = np.empty(y.shape[1]), np.zeros_like(y)
    for columns in alike.values():
        places = np.flatnonzero(present[:, columns[0]])
        values[columns], influence[np.ix_(places, columns)] = fit(x[places], y[np.ix_(places, columns)])
    codes, distinct = pd.factorize(words)
    of_words = influence
    if len(distinct) < n:
        of_words = np.zeros((len(distinct), y.shape[1]))
        np.add.at(of_words, codes, influence)
    return values.reshape(shape), of_words.reshape(-1, *shape)


IN_ROWS = ["model", "estimate", "standard_error", "ci_low", "ci_high", "p", "n"]


def in_rows(one: Measured) -> pd.DataFrame:
    """Return the models' statistics as from Measured.by_model, and their mean over models as row ALL.

    The row ALL has the fields of stats.crossed.Crossed: its interval is for other words and other models.
    """
    every = pd.DataFrame([asdict(one.mean)], [ALL])
    return pd.concat([one.by_model(), every]).rename_axis("model").reset_index()[IN_ROWS]


def by_words(of_prompts: Mapping[str, Measured]) -> pd.DataFrame:
    """Return in_rows() of every prompt, with the column prompt first. `of_prompts`: as from measured()."""
    tables = [in_rows(one).assign(prompt=prompt) for prompt, one in of_prompts.items()]
    return pd.concat(tables, ignore_index=True)[["prompt", *IN_ROWS]]


def mean_of(by_word: pd.DataFrame) -> pd.DataFrame:
    """Return the rows ALL of by_words(), by prompt."""
    return by_word[by_word["model"] == ALL].set_index("prompt").drop(columns="model")


def means(rows: pd.DataFrame, statistic: Statistic) -> pd.DataFrame:
    """Return the mean of a statistic over models by prompt: columns of in_rows()."""
    return mean_of(by_words(measured(rows, statistic)))


def count(one: Measured, side: int = 1, *, significant: bool = False, resamples: int = 4000, seed: int = 0) -> dict:
    """Return how many of these models have the statistic above 0 (below 0 for side -1), with a 95% interval over words.

    `significant`: count only models with p < .05 over words. The interval is a bootstrap of words, which are drawn for
    all models at once. Keys: `count, ci_low, ci_high, models, p_all`. `p_all` tests that all models are on this side.
    It is the largest p of a model (an intersection-union test), or 1 if a model is on the other side.
    """
    least = (stats.t.ppf(0.975, one.words - 1) * one.standard_error if significant else 0 * one.values).to_numpy()
    words = len(one.influence)
    resampled = np.random.default_rng(seed).integers(words, size=(resamples, words))
    times = np.stack([np.bincount(drawn, minlength=words) for drawn in resampled])  # each word is drawn
    drawn = one.values.to_numpy() + (times - 1) @ one.influence.fillna(0.0).to_numpy()
    ci_low, ci_high = resampling.interval((side * drawn > least).sum(axis=1))
    observed = int((side * one.values.to_numpy() > least).sum())
    p = 2 * stats.t.sf(one.values.abs() / one.standard_error, one.words - 1)
    # The ends are counts: a quantile between two of them is taken outwards.
    return {"count": observed, "ci_low": int(np.floor(ci_low)), "ci_high": int(np.ceil(ci_high)),
            "models": len(one.values), "p_all": float(p.max()) if (side * one.values > 0).all() else 1.0}  # fmt: skip


def counts(
    of_prompts: Mapping[str, Measured], side: Callable[[str], int] = lambda prompt: 1, *, significant: bool = False
) -> pd.DataFrame:
    """Return count() of every prompt, its keys as columns. `side`: prompt -> 1 or -1."""
    rows = {prompt: count(one, side(prompt), significant=significant) for prompt, one in of_prompts.items()}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("prompt")
