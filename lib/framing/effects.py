"""How rewards follow the sentiment of words, and how the framing of the prompt changes this
(sections 3.1 and 3.2).

Most functions take *observations*, a frame with one row per model, prompt and word. Its columns are
`model, prompt, word, sentiment, reward`; a negative word has a sentiment below zero. `measured`
computes a statistic of each model, and how much each word moves it. Intervals follow from these
influences, with words and models as samples (lib.stats.crossed).
"""

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy import ndarray
from scipy import stats

# not statsmodels.api, whose import takes a second
from statsmodels.regression.linear_model import OLS, RegressionResults
from statsmodels.tools import add_constant

from .. import InputError
from ..stats import crossed
from ..stats.crossed import Measured

ALL = "mean of the models"
FEWEST = 10  # words of a sign; an interval from fewer says little
KEYS = ["model", "prompt"]
SIGNS = {1.0: "positive", -1.0: "negative"}


def observations(
    joined: Mapping[str, pd.DataFrame],
    prompts: Sequence[str],
    columns: Sequence[str] = ("sentiment",),
) -> pd.DataFrame:
    """Return one row per model, prompt and word: `model, prompt, word`, then `columns`, then
    `reward` (float64).

    `joined`: per model, a score table joined to a lexicon (lexicons.join). Raise InputError if a
    column is absent or a model has no rows.
    """
    keys = ["word", *columns]
    pieces = []
    for name, frame in joined.items():
        # (words x prompts) rows
        long = frame.melt(keys, list(prompts), var_name="prompt", value_name="reward")
        pieces.append(long.assign(model=name))
    rows = pd.concat(pieces, ignore_index=True)
    rows["reward"] = rows["reward"].astype(float)
    return rows[["model", "prompt", *keys, "reward"]]


def standardised(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the observations with rewards in standard deviations from their mean, within model and
    prompt (ddof 0).

    Raw slopes of different models cannot be compared, because each model has its own scale. Raise
    InputError where all rewards of a model for a prompt are equal.
    """
    rewards = rows.groupby(KEYS, sort=False)["reward"]
    mean = rewards.transform("mean")
    sd = rewards.transform("std", ddof=0)
    varies = sd > 0  # False for a missing reward too
    if not varies.all():
        model, prompt = rows.loc[~varies, KEYS].iloc[0]
        raise InputError(
            f"reward is constant in {model}, {prompt}, so it has no standard deviation; leave it "
            "out"
        )
    return rows.assign(reward=(rows["reward"] - mean) / sd)


def normal_scores(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the observations with normal quantiles at the ranks of rewards, within model and
    prompt: order alone.
    """
    rewards = rows.groupby(KEYS, sort=False)["reward"]
    rank = rewards.rank()
    quantile = (rank - 0.5) / rewards.transform("size")
    return rows.assign(reward=stats.norm.ppf(quantile))


# --- slopes and the paper's tests -----------------------------------------------------------------


def slopes(
    rows: pd.DataFrame,
    predictors: Sequence[str] = ("sentiment",),
    by: Sequence[str] = KEYS,
) -> pd.DataFrame:
    """Return least-squares slopes of reward on the predictors together (sections 3.1 and 3.3): a
    row per predictor.

    Columns: the group's keys, then `predictor, slope, standard_error, ci_low, ci_high, t, p, n,
    r2`. Intervals are 95%, and p is two-sided; both are the paper's, which take all words as
    independent.
    """
    tables = []
    by = list(by)
    for key, group in rows.groupby(by, sort=False):
        design = group[list(predictors)].astype(float)
        design = add_constant(design, has_constant="add")
        table = _fit_table(OLS(group["reward"].astype(float), design).fit())
        for column, value in zip(by, key, strict=True):
            table[column] = value
        tables.append(table)
    fits = pd.concat(tables, ignore_index=True)
    return fits[[*by, *fits.columns.drop(by)]]


def _fit_table(fit: RegressionResults) -> pd.DataFrame:
    """Return the numbers of `slopes` of one fit, a row per predictor."""
    interval = fit.conf_int()
    table = pd.DataFrame(
        {
            "slope": fit.params,
            "standard_error": fit.bse,
            "ci_low": interval[0],
            "ci_high": interval[1],
            "t": fit.tvalues,
            "p": fit.pvalues,
            "n": int(fit.nobs),
            "r2": fit.rsquared,
        }
    )
    of_predictors = table.drop(index="const")
    return of_predictors.rename_axis("predictor").reset_index()


# --- statistics of one model, and how much each word moves them -----------------------------------


# The statistic of each column, (columns,), and how much each word moves it, (words, columns). A
# column is a model under a prompt.
Moved = tuple[ndarray, ndarray]
# from predictors (words,) or (words, k), and rewards (words, columns)
Statistic = Callable[[ndarray, ndarray], Moved]


def whole_slope(x: ndarray, reward: ndarray) -> Moved:
    """Return the slope of reward on x, or on its first column with the others held constant, and
    its influence.
    """
    first, *controls = x.reshape(len(x), -1).T
    held = np.column_stack(controls) if controls else None
    return crossed.slope(first, reward, held)


def slope_size(x: ndarray, reward: ndarray) -> Moved:
    """Return the size of whole_slope, without its sign, and its influence."""
    slope, influence = whole_slope(x, reward)
    return np.abs(slope), np.sign(slope) * influence


def among(sign: float, statistic: Statistic = whole_slope) -> Statistic:
    """Return the statistic of the words of one sign of sentiment; the influence of others is
    NaN.
    """

    def of_sign(sentiment: ndarray, reward: ndarray) -> Moved:
        has_sign = np.sign(sentiment) == sign
        value, moved = statistic(sentiment[has_sign], reward[has_sign])
        influence = np.full((len(sentiment), *np.shape(value)), np.nan)
        influence[has_sign] = moved
        return value, influence

    return of_sign


def positive_minus_negative(statistic: Statistic) -> Statistic:
    """Return the statistic of positive words minus the statistic of negative words; neutral
    words do not count.
    """

    def difference(sentiment: ndarray, reward: ndarray) -> Moved:
        above, raises = among(1.0, statistic)(sentiment, reward)
        below, lowers = among(-1.0, statistic)(sentiment, reward)
        return above - below, np.where(np.isnan(raises), -lowers, raises)

    return difference


def log_spread(_: ndarray, reward: ndarray) -> Moved:
    """Return the log of the standard deviation of rewards, and its influence."""
    log_sd = np.log(reward.std(axis=0))
    return log_sd, crossed.log_sd_influence(reward)


def mean(_: ndarray, reward: ndarray) -> Moved:
    """Return the mean reward, and its influence."""
    return reward.mean(axis=0), crossed.mean_influence(reward)


# A prompt for bad things asks for negative words, where rewards should fall with sentiment. So the
# gap of the requested side is (-negative) - (-positive), the same number.
slope_gap = positive_minus_negative(whole_slope)
size_gap = positive_minus_negative(slope_size)
# the log of the ratio of the two standard deviations
log_spread_ratio = positive_minus_negative(log_spread)
mean_gap = positive_minus_negative(mean)


# --- words and models both as samples -------------------------------------------------------------


def measured(
    rows: pd.DataFrame,
    statistic: Statistic = whole_slope,
    predictors: Sequence[str] = ("sentiment",),
) -> dict[str, Measured]:
    """Return prompt -> the statistic of each model on these columns, and how much each word moves
    it.

    Raise InputError for fewer than 10 words of either sign of sentiment, if that is a predictor, or
    a word that lacks a reward for a prompt.
    """
    wide = _rewards_by_word(rows, predictors)
    _refuse_few_words(wide)
    # (words, k), or (words,) for one predictor
    x = wide.index.to_frame()[list(predictors)]
    x = x.to_numpy(dtype=float)
    if len(predictors) == 1:
        x = x[:, 0]
    y = wide.to_numpy(dtype=float)  # (words, columns), a column per model and prompt
    values, influence = _by_columns(statistic, x, y)
    values = pd.Series(values, wide.columns)
    influence = pd.DataFrame(influence, wide.index, wide.columns)
    # spellings of a word add up
    by_word = influence.groupby("word", sort=False)
    influence = by_word.sum(min_count=1)
    of_prompts = {}
    for prompt in rows["prompt"].unique():
        of_prompts[prompt] = Measured(
            values.xs(prompt, level="prompt"),
            influence.xs(prompt, level="prompt", axis="columns"),
        )
    return of_prompts


def _by_columns(statistic: Statistic, x: ndarray, y: ndarray) -> Moved:
    """Return the statistic of each column of y, (columns,), and its influence, (words, columns);
    NaN where a word has no reward.
    """
    values = np.zeros(y.shape[1])
    influence = np.full(y.shape, np.nan)
    # models that read the same words: one fit
    has_reward = ~np.isnan(y)
    patterns, pattern_of = np.unique(has_reward, axis=1, return_inverse=True)
    for which, is_read in enumerate(patterns.T):
        columns = np.flatnonzero(pattern_of == which)
        places = np.flatnonzero(is_read)
        some = np.ix_(places, columns)
        values[columns], influence[some] = statistic(x[places], y[some])
    return values, influence


def _rewards_by_word(rows: pd.DataFrame, predictors: Sequence[str]) -> pd.DataFrame:
    """Return the rewards of observations: (word, spelling, predictors) x (model, prompt)."""
    spelling = rows.groupby([*KEYS, "word"]).cumcount()
    wide = rows.assign(spelling=spelling).pivot_table(
        "reward",
        ["word", "spelling", *predictors],
        KEYS,
    )
    models = rows["model"].unique()
    prompts = rows["prompt"].unique()
    return wide[list(itertools.product(models, prompts))]


def _refuse_few_words(wide: pd.DataFrame) -> None:
    """Raise InputError for what `measured` refuses."""
    words = wide.index.to_frame(index=False)
    signs = SIGNS if "sentiment" in words else {}
    for name in wide.columns.unique("model"):
        has_reward = wide[name].notna().to_numpy()  # (words, prompts)
        if (has_reward != has_reward[:, :1]).any():
            raise InputError(
                f"{name}: not every word has a reward for every prompt; score all words under all "
                "prompts"
            )
        known = words[has_reward[:, 0]]
        for sign, label in signs.items():
            is_of_sign = np.sign(known["sentiment"]) == sign
            n = known.loc[is_of_sign, "word"].nunique()
            if n < FEWEST:
                raise InputError(
                    f"{name}: {n} {label} words are too few for an interval; have at least {FEWEST}"
                )


def by_words(of_prompts: Mapping[str, Measured]) -> pd.DataFrame:
    """Return the models' statistics as from Measured.by_model, and their mean as model ALL, a row
    each per prompt.

    `of_prompts`: as from measured(). The interval of ALL is for other words and other models.
    """
    tables = []
    for prompt, one in of_prompts.items():
        mean = pd.DataFrame([vars(one.mean)], [ALL])
        mean = mean.drop(columns="models")
        every = pd.concat([one.by_model(), mean])
        every.insert(0, "prompt", prompt)
        every.insert(1, "model", every.index)
        tables.append(every)
    return pd.concat(tables, ignore_index=True)


def mean_of(by_word: pd.DataFrame) -> pd.DataFrame:
    """Return the rows ALL of by_words(), by prompt."""
    of_all = by_word[by_word["model"] == ALL]
    return of_all.set_index("prompt").drop(columns="model")
