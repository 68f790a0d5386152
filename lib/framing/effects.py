"""How rewards follow the sentiment of words, and how the framing of the prompt changes this
(sections 3.1 and 3.2).

Most functions take *observations*, a frame with one row per model, prompt and word. Its columns are
`model, prompt, word, sentiment, reward`; a negative word has a sentiment below zero. `measured`
computes a statistic of each model, and how much each word moves it. Intervals follow from these
influences, with words and models as samples (lib.stats.crossed).
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

# not statsmodels.api, whose import takes a second
from statsmodels.regression.linear_model import OLS
from statsmodels.tools import add_constant

from .. import InputError
from ..show import display
from ..stats import crossed
from ..stats.crossed import Measured
from ..tables.prompts import polarity

ALL = "mean of the models"
FEWEST = 10  # words of a sign; an interval from fewer says little
WORDS = ("all words", "without offensive")
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
    pieces = {}
    for name, frame in joined.items():
        pieces[name] = frame.melt(
            keys, list(prompts), var_name="prompt", value_name="reward"
        )
    rows = (
        pd.concat(pieces, names=["model"]).reset_index("model").reset_index(drop=True)
    )
    return rows.astype({"reward": float})[["model", "prompt", *keys, "reward"]]


def word_choices(
    joined: Mapping[str, Mapping[str, pd.DataFrame]], prompts: Sequence[str]
) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield lexicon, choice of words (WORDS) and their observations. `joined`: lexicon -> as in
    observations().
    """
    for lexicon, tables in joined.items():
        rows = observations(tables, prompts)
        yield lexicon, WORDS[0], rows
        yield lexicon, WORDS[1], rows[~rows["word"].map(display.is_offensive)]


def standardised(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the observations with rewards in standard deviations from their mean, within model and
    prompt (ddof 0).

    Raw slopes of different models cannot be compared, because each model has its own scale. Raise
    InputError where all rewards of a model for a prompt are equal.
    """
    rewards = rows.groupby(["model", "prompt"], sort=False)["reward"]
    sd = rewards.transform("std", ddof=0)
    if (constant := (sd == 0) | sd.isna()).any():
        model, prompt = rows.loc[constant, ["model", "prompt"]].iloc[0]
        raise InputError(
            f"reward is constant in {model}, {prompt}, so it has no standard deviation; leave it "
            "out"
        )
    return rows.assign(reward=(rows["reward"] - rewards.transform("mean")) / sd)


def normal_scores(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the observations with normal quantiles at the ranks of rewards, within model and
    prompt: order alone.
    """
    rewards = rows.groupby(["model", "prompt"], sort=False)["reward"]
    return rows.assign(
        reward=stats.norm.ppf((rewards.rank() - 0.5) / rewards.transform("size"))
    )


# --- slopes and the paper's tests -----------------------------------------------------------------


def slopes(
    rows: pd.DataFrame,
    predictors: Sequence[str] = ("sentiment",),
    by: Sequence[str] = ("model", "prompt"),
    *,
    robust: bool = False,
) -> pd.DataFrame:
    """Return least-squares slopes of reward on the predictors together (sections 3.1 and 3.3): a
    row per predictor.

    Columns: the group's keys, then `predictor, slope, standard_error, ci_low, ci_high, t, p, n,
    r2`. Intervals are 95%, and p is two-sided. `robust`: HC3 standard errors, which allow for
    spreads that differ from word to word. Raise InputError if a group has too few words, or
    predictors that cannot be told apart.
    """
    tables = []
    for key, group in rows.groupby(list(by), sort=False):
        design = add_constant(group[list(predictors)].astype(float), has_constant="add")
        if (
            len(group) <= design.shape[1]
            or np.linalg.matrix_rank(design) < design.shape[1]
        ):
            few = (
                f"{len(group)} words of {', '.join(map(str, key))} give no slope on "
                f"{' and '.join(predictors)}"
            )
            raise InputError(
                f"{few}; score more words, or use a lexicon with more of them"
            )
        fit = OLS(group["reward"].astype(float), design).fit(
            cov_type="HC3" if robust else "nonrobust"
        )
        ci_low, ci_high = fit.conf_int().to_numpy().T
        columns = {
            "slope": fit.params,
            "standard_error": fit.bse,
            "ci_low": ci_low,
            "ci_high": ci_high,
            "t": fit.tvalues,
            "p": fit.pvalues,
            "n": len(group),
            "r2": fit.rsquared,
        }
        table = (
            pd.DataFrame(columns)
            .drop(index="const")
            .rename_axis("predictor")
            .reset_index()
        )
        tables.append(
            pd.DataFrame(dict(zip(by, key, strict=True)), table.index).join(table)
        )
    return pd.concat(tables, ignore_index=True)


def slopes_by_sign(rows: pd.DataFrame, *, robust: bool = False) -> pd.DataFrame:
    """Return slopes of reward on sentiment among positive and among negative words (Fig 3C):
    slopes() by `sign`.
    """
    signed = rows.assign(sign=np.sign(rows["sentiment"]).map(SIGNS)).dropna(
        subset="sign"
    )
    if missing := [sign for sign in SIGNS.values() if sign not in set(signed["sign"])]:
        raise InputError(
            f"no {missing[0]} word has a score; score more words, or use a lexicon with more of "
            "them"
        )
    return slopes(signed, by=("model", "prompt", "sign"), robust=robust).drop(
        columns="predictor"
    )


def gaps(by_sign: pd.DataFrame) -> pd.DataFrame:
    """Return the slope among positive words minus that among negative words: `model, prompt,
    positive, negative, gap`.

    A prompt for good things asks for positive words. A prompt for bad things asks for negative
    words, where rewards should *fall* with sentiment. So the gap of the requested side is
    (-negative) - (-positive), the same number. Models with one slope only are left out.
    """
    wide = by_sign.pivot_table("slope", ["model", "prompt"], "sign").rename_axis(
        columns=None
    )
    wide = wide.loc[
        by_sign.set_index(["model", "prompt"]).index.unique(), list(SIGNS.values())
    ].dropna()
    return wide.assign(gap=wide["positive"] - wide["negative"]).reset_index()


# --- statistics of one model, and how much each word moves them -----------------------------------


# Predictors (words,) or (words, k), and rewards (words, columns) -> the statistic of each column,
# (columns,), and how much each word moves it, (words, columns). A column is a model under a prompt.
Statistic = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def whole_slope(x: np.ndarray, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the slope of reward on x, or on its first column with the others held constant, and
    its influence.
    """
    first, *controls = x.reshape(len(x), -1).T
    held = np.column_stack(controls) if controls else None
    return crossed.slope(first, reward, held), crossed.slope_influence(
        first, reward, held
    )


def positive_minus_negative(statistic: Statistic) -> Statistic:
    """Return the statistic of positive words minus the statistic of negative words; neutral
    words do not count.
    """

    def difference(
        sentiment: np.ndarray, reward: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        up, down = sentiment > 0, sentiment < 0
        (above, raises), (below, lowers) = (
            statistic(sentiment[sign], reward[sign]) for sign in (up, down)
        )
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
# the log of the ratio of the two standard deviations
log_spread_ratio = positive_minus_negative(log_spread)
mean_gap = positive_minus_negative(mean)


# --- words and models both as samples -------------------------------------------------------------


def measured(
    rows: pd.DataFrame, statistic: Statistic, predictors: Sequence[str] = ("sentiment",)
) -> dict[str, Measured]:
    """Return prompt -> the statistic of each model on these columns, and how much each word moves
    it.

    Raise InputError for fewer than 10 words of either sign of sentiment, if that is a predictor, or
    a word that lacks a reward for a prompt.
    """
    wide = _rewards_by_word(rows, predictors)
    _refuse_few_words(wide)
    x = wide.index.to_frame()[list(predictors)].to_numpy(dtype=float)
    x = x[:, 0] if len(predictors) == 1 else x
    y = wide.to_numpy(dtype=float)  # (words, columns), a column per model and prompt
    values, influence = np.zeros(y.shape[1]), np.full(y.shape, np.nan)
    # models that read the same words: one fit
    patterns, pattern_of = np.unique(~np.isnan(y), axis=1, return_inverse=True)
    for which, is_read in enumerate(patterns.T):
        columns, places = np.flatnonzero(pattern_of == which), np.flatnonzero(is_read)
        some = np.ix_(places, columns)
        values[columns], influence[some] = statistic(x[places], y[some])
    values = pd.Series(values, wide.columns)
    influence = pd.DataFrame(influence, wide.index, wide.columns)
    # spellings of a word add up
    of_words = influence.groupby("word", sort=False).sum(min_count=1)
    return {
        prompt: Measured(
            values.xs(prompt, level="prompt"),
            of_words.xs(prompt, level="prompt", axis="columns"),
        )
        for prompt in rows["prompt"].unique()
    }


def _rewards_by_word(rows: pd.DataFrame, predictors: Sequence[str]) -> pd.DataFrame:
    """Return the rewards of observations: (word, spelling, predictors) x (model, prompt)."""
    numbered = rows.assign(
        spelling=rows.groupby(["model", "prompt", "word"]).cumcount()
    )
    wide = numbered.pivot_table(
        "reward", ["word", "spelling", *predictors], ["model", "prompt"]
    )
    return wide[
        list(itertools.product(rows["model"].unique(), rows["prompt"].unique()))
    ]


def _refuse_few_words(wide: pd.DataFrame) -> None:
    """Raise InputError for what `measured` refuses."""
    words = wide.index.to_frame(index=False)
    for name in wide.columns.unique("model"):
        has_reward = wide[name].notna().to_numpy()  # (words, prompts)
        if (has_reward != has_reward[:, :1]).any():
            raise InputError(
                f"{name}: not every word has a reward for every prompt; score all words under all "
                "prompts"
            )
        for sign, label in SIGNS.items() if "sentiment" in words else ():
            of_sign = words[has_reward[:, 0] & (np.sign(words["sentiment"]) == sign)]
            if (n := of_sign["word"].nunique()) < FEWEST:
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
        every = pd.concat(
            [one.by_model(), pd.DataFrame([vars(one.mean)], [ALL])]
        ).rename_axis("model")
        tables.append(every.reset_index().assign(prompt=prompt))
    columns = [
        "prompt",
        "model",
        "estimate",
        "standard_error",
        "ci_low",
        "ci_high",
        "p",
        "n",
    ]
    return pd.concat(tables, ignore_index=True)[columns]


def interaction(spreads: Mapping[str, Measured]) -> Measured:
    """Return each model's mean log_spread_ratio under prompts for good things minus the mean under
    prompts for bad.

    `spreads`: measured() of log_spread_ratio. log 2 means that the ratio of spreads is twice as
    large when good things are asked for. It needs only the signs of sentiment, no grades and no
    common scale. Raise InputError without a prompt of each kind.
    """
    times = {
        side: sum(polarity(prompt) == side for prompt in spreads) for side in (1, -1)
    }
    if not all(times.values()):
        raise InputError(
            "an interaction needs a prompt for good and one for bad things, as prompts=best,worst"
        )
    weights = {prompt: polarity(prompt) / times[polarity(prompt)] for prompt in spreads}
    return Measured(
        sum(weights[prompt] * spread.values for prompt, spread in spreads.items()),
        sum(weights[prompt] * spread.influence for prompt, spread in spreads.items()),
    )


def mean_of(by_word: pd.DataFrame) -> pd.DataFrame:
    """Return the rows ALL of by_words(), by prompt."""
    return by_word[by_word["model"] == ALL].set_index("prompt").drop(columns="model")


def means(rows: pd.DataFrame, statistic: Statistic) -> pd.DataFrame:
    """Return the mean of a statistic over models by prompt: columns of by_words()."""
    return mean_of(by_words(measured(rows, statistic)))
