"""How rewards follow the sentiment of words, and how the framing of the prompt changes that (sections 3.1 and 3.2).

Most functions take *observations*: a frame with one row per model, prompt and word, and the columns `model`, `prompt`,
`word`, `sentiment` (below zero = negative) and `reward`. Models and words are both samples, and all models read the
same words: `measured` computes a statistic of each model with the influence of each word, from which intervals follow.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import stats

from .. import InputError
from ..show import display
from ..stats import crossed, resampling
from ..tables import lexicons
from ..tables.prompts import polarity

ALL = "mean of the models"
FEWEST = 10  # words of a sign; an interval from fewer says little
WORDS = ("all words", "without offensive")
SIGNS = {1.0: "positive", -1.0: "negative"}


# --- observations -------------------------------------------------------------------------------------------------


def observations(
    joined: Mapping[str, pd.DataFrame], prompts: Sequence[str], columns: Sequence[str] = ("sentiment",)
) -> pd.DataFrame:
    """Return one row per model, prompt and word: columns model, prompt, word, then `columns`, then reward (float64).

    joined: per model, a frame with `word`, the columns and a column of rewards per prompt, as a lexicon joined to a
    score table gives. Rows are kept as they come: what counts as one observation is the join's decision.
    Raises InputError if a column is absent or a model has no rows.
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
    """Return why nothing can be tested on these words, in a sentence; '' where it can. joined: as in observations()."""
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
    """Yield lexicon, choice of words (WORDS) and their observations; joined: lexicon -> as of observations()."""
    for lexicon, tables in joined.items():
        rows = observations(tables, prompts)
        yield lexicon, WORDS[0], rows
        yield lexicon, WORDS[1], rows[~rows["word"].map(display.is_offensive)]


def standardised(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the observations with rewards in standard deviations from their mean, within model and prompt (ddof 0).

    Reward models have scales of their own, so raw slopes cannot be compared between models, standardised ones can.
    Raises InputError where all rewards of a model for a prompt are equal.
    """
    rewards = rows.groupby(["model", "prompt"], sort=False)["reward"]
    sd = rewards.transform("std", ddof=0)
    if (constant := (sd == 0) | sd.isna()).any():
        model, prompt = rows.loc[constant, ["model", "prompt"]].iloc[0]
        raise InputError(f"reward is constant in {model}, {prompt}, so it has no standard deviation; leave it out")
    return rows.assign(reward=(rows["reward"] - rewards.transform("mean")) / sd)


# --- slopes and the paper's tests ---------------------------------------------------------------------------------


def by_grade(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean reward of each whole grade but 0, mean over models: index sentiment, columns words and prompts.

    Grades are rounded to whole ones. words: how many have the grade; a mean of few of them says little.
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
    """Return least-squares slopes of reward on the predictors together: one row per group and predictor.

    Columns: the group's keys, predictor, slope (reward per unit of the predictor), standard_error, ci_low, ci_high
    (95%), t, p (two-sided), n, r2. robust: HC3 standard errors, which hold when the spread of rewards differs from word
    to word. Source: sections 3.1 and 3.3.
    Raises InputError if a group has too few words, or predictors that cannot be told apart.
    """
    tables = []
    for key, group in rows.groupby(list(by), sort=False):
        design = sm.add_constant(group[list(predictors)].astype(float), has_constant="add")
        if len(group) <= design.shape[1] or np.linalg.matrix_rank(design) < design.shape[1]:
            raise InputError(
                f"{len(group)} words of {', '.join(map(str, key))} give no slope on {' and '.join(predictors)}; "
                "score more words, or use a lexicon with more of them"
            )
        fit = sm.OLS(group["reward"].astype(float), design).fit(cov_type="HC3" if robust else "nonrobust")
        ci_low, ci_high = fit.conf_int().to_numpy().T
        columns = {"slope": fit.params, "standard_error": fit.bse, "ci_low": ci_low, "ci_high": ci_high,
                   "t": fit.tvalues, "p": fit.pvalues, "n": len(group), "r2": fit.rsquared}  # fmt: skip
        table = pd.DataFrame(columns).drop(index="const").rename_axis("predictor").reset_index()
        tables.append(pd.DataFrame(dict(zip(by, key, strict=True)), table.index).join(table))
    return pd.concat(tables, ignore_index=True)


def slopes_by_sign(rows: pd.DataFrame, *, robust: bool = False) -> pd.DataFrame:
    """Return slopes of reward on sentiment among positive and among negative words, per model and prompt (Fig 3C).

    As slopes(), with the key `sign`. Words of sentiment zero belong to neither.
    """
    signed = rows.assign(sign=np.sign(rows["sentiment"]).map(SIGNS)).dropna(subset="sign")
    if missing := [sign for sign in SIGNS.values() if sign not in set(signed["sign"])]:
        raise InputError(f"no {missing[0]} word has a score; score more words, or use a lexicon with more of them")
    return slopes(signed, by=("model", "prompt", "sign"), robust=robust).drop(columns="predictor")


def gaps(by_sign: pd.DataFrame, *, absolute: bool = False) -> pd.DataFrame:
    """Return how much steeper rewards follow sentiment on the requested side: a row per model and prompt.

    Columns model, prompt, positive, negative (the slopes), gap. A prompt for good things asks for positive words:
    gap = positive - negative. A prompt for bad things asks for negative words, where rewards should *fall* with
    sentiment: the gap is (-negative) - (-positive), which is positive - negative again. So the paper's two claims are
    one: rewards bend upwards at neutral words. Models with one slope only are left out. absolute: |asked for| - |other|
    instead, blind to slopes of wrong sign.
    """
    wide = by_sign.pivot_table("slope", ["model", "prompt"], "sign").rename_axis(columns=None)
    wide = wide.loc[by_sign.set_index(["model", "prompt"]).index.unique(), list(SIGNS.values())].dropna()
    polarities = wide.index.get_level_values("prompt").map(polarity).to_numpy()
    bend = polarities * (wide["positive"].abs() - wide["negative"].abs())
    return wide.assign(gap=bend if absolute else wide["positive"] - wide["negative"]).reset_index()


def compare(gap_rows: pd.DataFrame) -> pd.DataFrame:
    """Return the paper's paired t-test over models, and a Wilcoxon signed-rank test of the same: one row per prompt.

    gap_rows: as from gaps(). Columns: models, n_steeper (models with gap > 0), gap (mean over models), ci_low, ci_high,
    t, df, p, cohen_d, w, p_wilcoxon (both two-sided). Raw slopes weigh models by the scale of their rewards, which
    differs a thousandfold; standardised ones weigh them equally. Raises InputError for fewer than two models.
    """
    rows = {}
    for prompt, group in gap_rows.groupby("prompt", sort=False):
        gap = group["gap"].to_numpy()
        if len(gap) < 2:
            raise InputError(f"{len(gap)} model gives no paired test; score at least two in this collection")
        paired = stats.ttest_1samp(gap, 0)
        w, p_wilcoxon = stats.wilcoxon(gap) if np.any(gap) else (0.0, 1.0)
        ci_low, ci_high = paired.confidence_interval()
        rows[prompt] = {
            "models": len(gap), "n_steeper": int((gap > 0).sum()), "gap": gap.mean(), "ci_low": ci_low,
            "ci_high": ci_high, "t": paired.statistic, "df": int(paired.df), "p": paired.pvalue,
            "cohen_d": gap.mean() / gap.std(ddof=1), "w": w, "p_wilcoxon": p_wilcoxon,
        }  # fmt: skip
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("prompt")


def count_positive(fits: pd.DataFrame) -> pd.DataFrame:
    """Return how many models have a positive slope, and a significantly (p < .05) positive or negative one, by prompt.

    fits: slopes of one predictor. Columns: models, n_positive, n_positive_significant, n_negative_significant, slope
    (mean over models), ci_low, ci_high (t over models; NaN for one model).
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


# Of one model: predictors (words,) or (words, k), and rewards (words, prompts) -> the statistic of each prompt,
# (prompts,), and the influence of each word, (words, prompts).
Statistic = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def whole_slope(x: np.ndarray, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the slope of reward on x, or on its first column with the others held constant, and its influence."""
    first, *controls = x.reshape(len(x), -1).T
    held = np.column_stack(controls) if controls else None
    return crossed.slope(first, reward, held), crossed.slope_influence(first, reward, held)


def positive_minus_negative(statistic: Statistic) -> Statistic:
    """Return the statistic of positive words minus that of negative ones; words of sentiment 0 do not move it."""

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
    return reward.mean(axis=0), (reward - reward.mean(axis=0)) / (len(reward) - 1)


def size_gap(asked: int) -> Statistic:
    """Return slope_gap in sizes: |slope| on the requested side minus |slope| on the other, blind to wrong signs.

    asked: 1 if positive words are asked for, -1 if negative ones are.
    """

    def size(sentiment: np.ndarray, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slope, influence = whole_slope(sentiment, reward)
        return asked * np.abs(slope), asked * np.sign(slope) * influence

    return positive_minus_negative(size)


slope_gap = positive_minus_negative(whole_slope)  # see gaps()
log_spread_ratio = positive_minus_negative(log_spread)  # the log of the ratio of the two standard deviations
mean_gap = positive_minus_negative(mean)


# --- words and models both drawn ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """A statistic of each model under one prompt, and how much each word moves it.

    values: model -> statistic. influence: words x models; NaN where a model has not read the word.
    """

    values: pd.Series
    influence: pd.DataFrame

    @property
    def standard_error(self) -> pd.Series:
        """Of each model, over words (HC3 for slopes)."""
        return np.sqrt((self.influence**2).sum())

    @property
    def words(self) -> pd.Series:
        """How many distinct words each model has read."""
        return self.influence.notna().sum()

    def __sub__(self, other: "Measured") -> "Measured":
        """The difference of two statistics of the same models and words."""
        return Measured(self.values - other.values, self.influence - other.influence)


def measured(
    rows: pd.DataFrame, statistic: Statistic, predictors: Sequence[str] = ("sentiment",)
) -> dict[str, Measured]:
    """Return prompt -> the statistic of each model on these columns. Spellings of a word add up their influences.

    Raises InputError for fewer than 10 words of either sign of sentiment, or a word that lacks a reward for a prompt.
    """
    values, influence = {}, {}
    for name, group in rows.groupby("model", sort=False):
        spelling = group.groupby(["prompt", "word"], sort=False).cumcount()
        wide = group.assign(spelling=spelling).set_index(["word", "spelling", *predictors])
        wide = pd.DataFrame({prompt: one["reward"] for prompt, one in wide.groupby("prompt", sort=False)})
        if wide.isna().any(axis=None):
            raise InputError(f"{name}: not every word has a reward for every prompt; score all words under all prompts")
        x, words = wide.index.to_frame()[list(predictors)].to_numpy(dtype=float), wide.index.get_level_values("word")
        if tuple(predictors) == ("sentiment",):
            x = x[:, 0]
            for sign, label in SIGNS.items():
                if (n := words[np.sign(x) == sign].nunique()) < FEWEST:
                    raise InputError(f"{name}: {n} {label} words are too few for an interval; have at least {FEWEST}")
        estimate, moved = statistic(x, wide.to_numpy(dtype=float))
        values[name] = pd.Series(estimate, wide.columns)
        influence[name] = pd.DataFrame(moved, words, wide.columns).groupby("word").sum()
    table = pd.DataFrame(values)
    return {
        prompt: Measured(table.loc[prompt], pd.DataFrame({name: moved[prompt] for name, moved in influence.items()}))
        for prompt in rows["prompt"].unique()
    }


IN_ROWS = ["model", "estimate", "standard_error", "ci_low", "ci_high", "p", "these_low", "these_high", "new_low",
           "new_high", "n"]  # fmt: skip


def in_rows(one: Measured) -> pd.DataFrame:
    """Return the models' statistics with 95% intervals over words, and their mean over models (row ALL), crossed.

    Columns: model, estimate, standard_error, ci_low, ci_high, p (two-sided), n (distinct words); of the row ALL, whose
    interval speaks of other words *and* other models (lib.stats.crossed), also these_low, these_high, for these very
    models, and new_low, new_high, a prediction interval for a new one.
    """
    error, df = one.standard_error, one.words - 1
    half = stats.t.ppf(0.975, df) * error
    rows = pd.DataFrame({"estimate": one.values, "standard_error": error, "ci_low": one.values - half,
                         "ci_high": one.values + half, "p": 2 * stats.t.sf(one.values.abs() / error, df),
                         "n": one.words})  # fmt: skip
    every = pd.DataFrame([asdict(crossed.crossed(one.values, one.influence)) | {"model": ALL}])
    return pd.concat([rows.rename_axis("model").reset_index(), every], ignore_index=True)[IN_ROWS]


def by_words(of_prompts: Mapping[str, Measured]) -> pd.DataFrame:
    """Return in_rows() of every prompt, with the column prompt first; of_prompts: as from measured()."""
    tables = [in_rows(one).assign(prompt=prompt) for prompt, one in of_prompts.items()]
    return pd.concat(tables, ignore_index=True)[["prompt", *IN_ROWS]]


def mean_of(by_word: pd.DataFrame) -> pd.DataFrame:
    """Return the rows ALL of by_words(), by prompt."""
    return by_word[by_word["model"] == ALL].set_index("prompt").drop(columns="model")


def means(rows: pd.DataFrame, statistic: Statistic) -> pd.DataFrame:
    """Return the mean of a statistic over models with its crossed interval, by prompt: columns as in_rows()."""
    return mean_of(by_words(measured(rows, statistic)))


def count(one: Measured, side: int = 1, *, significant: bool = False, resamples: int = 4000, seed: int = 0) -> dict:
    """Return how many of these very models have the statistic above 0 (below it for side -1), with a 95% interval.

    significant: by more than its own interval over words (p < .05). Words are drawn again for all models at once; each
    statistic moves by its words' influence. Keys: count, ci_low, ci_high, models, p_all (that all models lie on this
    side: the largest of their p-values, an intersection-union test; 1 if one lies on the other side).
    """
    least = (stats.t.ppf(0.975, one.words - 1) * one.standard_error if significant else 0 * one.values).to_numpy()
    words = len(one.influence)
    times = np.random.default_rng(seed).multinomial(words, np.full(words, 1 / words), size=resamples)
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
    """Return count() of every prompt, its keys as columns; side: prompt -> 1 or -1, as polarity."""
    rows = {prompt: count(one, side(prompt), significant=significant) for prompt, one in of_prompts.items()}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("prompt")


def min_f(of_prompts: Mapping[str, Measured]) -> pd.DataFrame:
    """Return Clark's min F' of the tests over models and over words, by prompt: columns t_models, t_words, f, df, p.

    A t-test over models alone takes the words for given, and one over words alone the models. With F1 and F2 the
    squares of these t, min F' = F1 F2 / (F1 + F2) is a lower bound of the F ratio that takes both for samples, on 1 and
    (F1 + F2)^2 / (F1^2 / df_words + F2^2 / df_models) degrees of freedom. Source: Clark 1973, Journal of Verbal
    Learning and Verbal Behavior 12, 335-359.
    """
    rows = {}
    for prompt, one in of_prompts.items():
        of_words = np.sqrt((one.influence.dropna(how="all").fillna(0.0).mean(axis=1) ** 2).sum())
        t = np.array([stats.ttest_1samp(one.values, 0).statistic, one.values.mean() / of_words])
        (first, second), n, models = t**2, len(one.influence), len(one.values)
        f = first * second / (first + second)
        df = (first + second) ** 2 / (first**2 / (n - 1) + second**2 / (models - 1))
        rows[prompt] = {"t_models": t[0], "t_words": t[1], "f": f, "df": df, "p": stats.f.sf(f, 1, df)}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("prompt")


def gaps_by_choice(joined: Mapping[str, Mapping[str, pd.DataFrame]], prompts: Sequence[str]) -> pd.DataFrame:
    """Return the mean gap between slopes by each lexicon, with all words and without offensive ones.

    Columns: lexicon, words, prompt, and those of means(). joined: lexicon -> model -> words with sentiment and rewards.
    """
    tables = {
        (lexicon, words): means(standardised(rows), slope_gap) for lexicon, words, rows in word_choices(joined, prompts)
    }
    return pd.concat(tables, names=["lexicon", "words"]).reset_index()


# --- grades with error --------------------------------------------------------------------------------------------


def with_error(words: pd.DataFrame) -> pd.DataFrame:
    """Return VADER's words with a column grade_error: the standard error of the mean of their ten ratings, in points.

    words: a frame with the column `word`; those that VADER lacks are left out.
    """
    ratings = lexicons.vader_ratings()
    errors = ratings.assign(grade_error=ratings[lexicons.RATERS].sem(axis=1, ddof=1))
    return words.merge(errors[["word", "grade_error"]], on="word", validate="many_to_one")


def reliability(words: pd.DataFrame) -> pd.DataFrame:
    """Return by sign: n, sd of the grades, error (root mean square), reliability, in (0, 1].

    words: one row per word, with sentiment and grade_error. reliability = 1 - mean squared error / variance of the
    grades: what a slope on these grades is of the slope on grades without error (Fuller 1987, Measurement Error Models,
    section 1.1). If grades of one sign are noisier, a gap between the slopes hides or appears. The errors are taken to
    be independent of rewards. Error also moves words near 0 to the other sign, which this leaves out; VADER holds few
    such words.
    """
    squared = words.assign(noise=words["grade_error"] ** 2, sign=np.sign(words["sentiment"]).map(SIGNS))
    by_sign = squared.groupby("sign")
    variance, noise = by_sign["sentiment"].var(ddof=1), by_sign["noise"].mean()
    columns = {"n": by_sign.size(), "sd": np.sqrt(variance), "error": np.sqrt(noise)}
    return pd.DataFrame(columns).assign(reliability=1 - noise / variance).loc[list(SIGNS.values())]


def disattenuated_gap(reliability: pd.Series) -> Statistic:
    """Return slope_gap with each slope divided by the reliability of its sign's grades, by sign and taken as known."""

    def statistic(sentiment: np.ndarray, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        shrunk = np.where(sentiment > 0, reliability["positive"], reliability["negative"])
        return slope_gap(sentiment * shrunk, reward)  # a slope on k x is 1 / k of that on x

    return statistic
