"""How rewards follow the sentiment of words, and how the framing of the prompt changes that (sections 3.1 and 3.2).

Most functions take *observations*: a frame with one row per model, prompt and word, and the columns `model`, `prompt`,
`word`, `sentiment` (below zero = negative) and `reward`. Models and words are both samples, and all models read the
same words, so the functions that give intervals say what is drawn at random.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.multitest import multipletests

from lib import InputError, crossed, display, resampling
from lib.prompts import POLARITIES, cell, polarity

ALL = "mean of the models"
FEWEST = 10  # words of a sign; an interval from fewer says little


# --- observations -------------------------------------------------------------------------------------------------


def observations(
    joined: Mapping[str, pd.DataFrame], prompts: Sequence[str], columns: Sequence[str] = ("sentiment",)
) -> pd.DataFrame:
    """One row per model, prompt and word: columns model, prompt, word, then `columns`, then reward (float64).

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


def standardised(rows: pd.DataFrame) -> pd.DataFrame:
    """The observations with rewards in standard deviations from their mean, within each model and prompt (ddof 0).

    Reward models have scales of their own, so raw slopes cannot be compared between models, standardised ones can.
    Raises InputError where all rewards of a model for a prompt are equal.
    """
    rewards = rows.groupby(["model", "prompt"], sort=False)["reward"]
    sd = rewards.transform("std", ddof=0)
    if (constant := (sd == 0) | sd.isna()).any():
        model, prompt = rows.loc[constant, ["model", "prompt"]].iloc[0]
        raise InputError(f"reward is constant in {model}, {prompt}, so it has no standard deviation; leave it out")
    return rows.assign(reward=(rows["reward"] - rewards.transform("mean")) / sd)


# --- slopes -------------------------------------------------------------------------------------------------------


def by_grade(rows: pd.DataFrame) -> pd.DataFrame:
    """The mean reward of each whole grade but 0, mean over models: index sentiment, columns words and the prompts.

    Grades are rounded to whole ones. words: how many have the grade; a mean of few of them says little.
    """
    rows = rows.assign(sentiment=rows["sentiment"].round())
    rows = rows[rows["sentiment"] != 0]
    means = rows.groupby(["sentiment", "prompt", "model"])["reward"].mean().reset_index()
    table = means.pivot_table("reward", "sentiment", "prompt")[list(rows["prompt"].unique())]
    table.insert(0, "words", rows.groupby("sentiment")["word"].nunique())
    return table.rename_axis(columns=None)


def one_of_each_grade(words: pd.DataFrame) -> pd.DataFrame:
    """The first inoffensive word of each whole grade, from the lowest; words: one row per word, with sentiment."""
    shown = words[~words["word"].map(display.is_offensive)]
    return shown.groupby(shown["sentiment"].round()).head(1).sort_values("sentiment")


def gaps_by_choice(joined: Mapping[str, Mapping[str, pd.DataFrame]], prompts: Sequence[str]) -> pd.DataFrame:
    """The mean gap between slopes by each lexicon, with all words and without offensive ones.

    Columns: lexicon, words, prompt, and those of mean_of. joined: lexicon -> model -> words with sentiment and rewards.
    """
    found = {}
    for lexicon, tables in joined.items():
        every = observations(tables, prompts)
        clean = every[~every["word"].map(display.is_offensive)]
        for words, rows in {"all words": every, "without offensive": clean}.items():
            found[lexicon, words] = mean_of(by_words(standardised(rows), slope_gap))
    return pd.concat(found, names=["lexicon", "words"]).reset_index()


def slopes(
    rows: pd.DataFrame,
    predictors: Sequence[str] = ("sentiment",),
    by: Sequence[str] = ("model", "prompt"),
    *,
    robust: bool = False,
) -> pd.DataFrame:
    """Least-squares slopes of reward on the predictors together: one row per group and predictor.

    Columns: the group's keys, predictor, slope (reward per unit of the predictor), standard_error, ci_low, ci_high
    (95%), t, p (two-sided), n, r2. robust: HC3 standard errors, which hold when the spread of rewards differs from word
    to word. Source: sections 3.1 and 3.3.
    Raises InputError if a group has too few words, or predictors that cannot be told apart.
    """
    fits = []
    for key, group in rows.groupby(list(by), sort=False):
        fits += [dict(zip(by, key, strict=True)) | fit for fit in _fit(group, predictors, robust, key)]
    return pd.DataFrame(fits)


def _fit(group: pd.DataFrame, predictors: Sequence[str], robust: bool, key: tuple) -> list[dict]:
    design = sm.add_constant(group[list(predictors)].to_numpy(dtype=float), has_constant="add")
    if len(group) <= design.shape[1] or np.linalg.matrix_rank(design) < design.shape[1]:
        raise InputError(
            f"{len(group)} words of {', '.join(map(str, key))} give no slope on {' and '.join(predictors)}; "
            "score more words, or use a lexicon with more of them"
        )
    fit = sm.OLS(group["reward"].to_numpy(dtype=float), design).fit(cov_type="HC3" if robust else "nonrobust")
    ci_low, ci_high = fit.conf_int().T
    return [
        {"predictor": name, "slope": fit.params[i], "standard_error": fit.bse[i], "ci_low": ci_low[i],
         "ci_high": ci_high[i], "t": fit.tvalues[i], "p": fit.pvalues[i], "n": len(group), "r2": fit.rsquared}
        for i, name in enumerate(predictors, start=1)
    ]  # fmt: skip


def slopes_by_sign(rows: pd.DataFrame, *, robust: bool = False) -> pd.DataFrame:
    """Slopes of reward on sentiment, one among positive and one among negative words, per model and prompt (Fig 3C).

    As slopes(), with the key `sign`. Words of sentiment zero belong to neither.
    """
    signed = rows.assign(sign=np.sign(rows["sentiment"]).map({1.0: "positive", -1.0: "negative"}))
    by_sign = slopes(signed.dropna(subset="sign"), by=("model", "prompt", "sign"), robust=robust)
    if missing := [sign for sign in ("positive", "negative") if sign not in set(by_sign["sign"])]:
        raise InputError(f"no {missing[0]} word has a score; score more words, or use a lexicon with more of them")
    return by_sign.drop(columns="predictor")


def gaps(by_sign: pd.DataFrame, *, absolute: bool = False) -> pd.DataFrame:
    """How much steeper rewards follow sentiment on the side that the prompt asks for: one row per model and prompt.

    Columns model, prompt, positive, negative (the slopes), gap. A prompt for good things asks for positive words:
    gap = positive - negative. A prompt for bad things asks for negative words, where rewards should *fall* with
    sentiment: the gap is (-negative) - (-positive), which is positive - negative again. So the paper's two claims are
    one: rewards bend upwards at neutral words. Models with one slope only are left out. absolute: |asked for| - |other|
    instead, blind to slopes of wrong sign.
    """
    keys = ["model", "prompt"]
    slope = {sign: rows.set_index(keys)["slope"] for sign, rows in by_sign.groupby("sign")}
    wide = pd.DataFrame({sign: slope[sign] for sign in ("positive", "negative")})
    wide = wide.loc[by_sign.set_index(keys).index.unique()].dropna()  # in the order in which they came
    polarities = wide.index.get_level_values("prompt").map(polarity).to_numpy()
    bend = polarities * (wide["positive"].abs() - wide["negative"].abs())
    return wide.assign(gap=bend if absolute else wide["positive"] - wide["negative"]).reset_index()


def compare(gap_rows: pd.DataFrame) -> pd.DataFrame:
    """The paper's paired t-test over models, and a Wilcoxon signed-rank test beside it: one row per prompt.

    gap_rows: as from gaps(). Columns: prompt, models, n_steeper (models with gap > 0), gap (mean over models), ci_low,
    ci_high, t, df, p, cohen_d, w, p_wilcoxon (both two-sided). Raw slopes weigh models by the scale of their rewards,
    which differs a thousandfold; standardised ones weigh them equally. Raises InputError for fewer than two models.
    """
    rows = []
    for prompt, group in gap_rows.groupby("prompt", sort=False):
        gap = group["gap"].to_numpy()
        if len(gap) < 2:
            raise InputError(f"{len(gap)} model gives no paired test; score at least two in this collection")
        paired = stats.ttest_1samp(gap, 0)
        signed = stats.wilcoxon(gap) if np.any(gap) else None
        ci_low, ci_high = paired.confidence_interval()
        rows.append(
            {"prompt": prompt, "models": len(gap), "n_steeper": int((gap > 0).sum()), "gap": gap.mean(),
             "ci_low": ci_low, "ci_high": ci_high, "t": paired.statistic, "df": int(paired.df), "p": paired.pvalue,
             "cohen_d": gap.mean() / gap.std(ddof=1), "w": signed.statistic if signed else 0.0,
             "p_wilcoxon": signed.pvalue if signed else 1.0}
        )  # fmt: skip
    return pd.DataFrame(rows)


def worth(words: pd.DataFrame, other: str) -> float:
    """Points of another lexicon (column `other`) per point of `sentiment`, by least squares over these words.

    If it differs between positive and negative words, gaps by the two lexicons differ though no reward does.
    """
    return float(stats.linregress(words["sentiment"], words[other]).slope)


def count_positive(fits: pd.DataFrame) -> pd.DataFrame:
    """How many models have a significantly (p < .05) positive slope, and a significantly negative one, per prompt.

    fits: slopes of one predictor. Columns: prompt, models, n_positive, n_positive_significant,
    n_negative_significant, slope (mean over models), ci_low, ci_high (t over models).
    """
    return pd.DataFrame([_counted(prompt, group) for prompt, group in fits.groupby("prompt", sort=False)])


def _counted(prompt: str, group: pd.DataFrame) -> dict:
    up, significant = group["slope"] > 0, group["p"] < 0.05
    several = len(group) > 1
    ci_low, ci_high = stats.ttest_1samp(group["slope"], 0).confidence_interval() if several else (np.nan, np.nan)
    return {"prompt": prompt, "models": len(group), "n_positive": int(up.sum()),
            "n_positive_significant": int((up & significant).sum()),
            "n_negative_significant": int((~up & significant).sum()),
            "slope": group["slope"].mean(), "ci_low": ci_low, "ci_high": ci_high}  # fmt: skip


# --- words and models both drawn ----------------------------------------------------------------------------------


# Of one model: sentiment (words,) and reward (words, prompts) -> the statistic of each prompt, (prompts,), and how much
# each word moves it, (words, prompts).
Statistic = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def whole_slope(sentiment: np.ndarray, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The slope of reward on sentiment among all words, and its influence."""
    return crossed.slope(sentiment, reward), crossed.slope_influence(sentiment, reward)


def slope_gap(sentiment: np.ndarray, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slope among positive words minus slope among negative ones, and its influence. See gaps()."""
    return _positive_minus_negative(sentiment, lambda side: whole_slope(sentiment[side], reward[side]))


def log_spread_ratio(sentiment: np.ndarray, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log of the SD of rewards among positive words over that among negative ones, and its influence."""

    def log_spread(side: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.log(reward[side].std(axis=0)), crossed.log_sd_influence(reward[side])

    return _positive_minus_negative(sentiment, log_spread)


def mean_gap(sentiment: np.ndarray, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean reward of positive words minus that of negative ones, and its influence."""

    def mean(side: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        means = reward[side].mean(axis=0)
        return means, (reward[side] - means) / (side.sum() - 1)

    return _positive_minus_negative(sentiment, mean)


def size_gap(asked: int) -> Statistic:
    """The magnitude form of slope_gap: |slope| on the side asked for minus |slope| on the other.

    asked: 1, positive words, or -1, negative ones. It is blind to slopes of wrong sign.
    """

    def statistic(sentiment: np.ndarray, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        def size(side: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            slope, influence = whole_slope(sentiment[side], reward[side])
            return asked * np.abs(slope), asked * np.sign(slope) * influence

        return _positive_minus_negative(sentiment, size)

    return statistic


def _positive_minus_negative(
    sentiment: np.ndarray, of_side: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    up, down = sentiment > 0, sentiment < 0
    (above, raises), (below, lowers) = of_side(up), of_side(down)
    influence = np.zeros((len(sentiment), *np.shape(above)))
    influence[up], influence[down] = raises, -lowers
    return above - below, influence


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


def measured(rows: pd.DataFrame, statistic: Statistic) -> dict[str, Measured]:
    """Prompt -> the statistic of each model. A word in several spellings is one word: their influences are added.

    Raises InputError for fewer than 10 words of either sign, or a word without a reward for one of the prompts.
    """
    values, influence = {}, {}
    for name, group in rows.groupby("model", sort=False):
        wide = _words_by_prompts(group)
        _check_words(wide, str(name))
        sentiment = wide.index.get_level_values("sentiment").to_numpy(dtype=float)
        found, moved = statistic(sentiment, wide.to_numpy(dtype=float))
        values[name] = pd.Series(found, wide.columns)
        influence[name] = pd.DataFrame(moved, wide.index.get_level_values("word"), wide.columns).groupby("word").sum()
    table = pd.DataFrame(values)
    return {
        prompt: Measured(table.loc[prompt], pd.DataFrame({name: moved[prompt] for name, moved in influence.items()}))
        for prompt in rows["prompt"].unique()
    }


def _words_by_prompts(group: pd.DataFrame) -> pd.DataFrame:
    """One model's rewards, a row per word and spelling (index: word, occurrence, sentiment), a column per prompt."""
    occurrence = group.groupby(["prompt", "word"], sort=False).cumcount()
    numbered = group.assign(occurrence=occurrence).set_index(["word", "occurrence", "sentiment"])
    return pd.DataFrame({prompt: one["reward"] for prompt, one in numbered.groupby("prompt", sort=False)})


def _check_words(wide: pd.DataFrame, name: str) -> None:
    if wide.isna().any(axis=None):
        raise InputError(f"{name}: not every word has a reward for every prompt; score all words under all prompts")
    words, sentiment = (wide.index.get_level_values(level) for level in ("word", "sentiment"))
    for sign, of_sign in (("positive", sentiment > 0), ("negative", sentiment < 0)):
        if (n := words[of_sign].nunique()) < FEWEST:
            raise InputError(f"{name}: {n} {sign} words are too few for an interval; have at least {FEWEST}")


def by_words(rows: pd.DataFrame, statistic: Statistic, null: float = 0.0) -> pd.DataFrame:
    """A statistic per model and prompt with 95% intervals over words, and its mean over models (row ALL), crossed.

    Columns: prompt, model, estimate, standard_error, ci_low, ci_high, p (two-sided, against `null`), n (distinct
    words); of the row ALL, whose interval speaks of other words *and* other models (lib.crossed), also these_low,
    these_high, for these very models, and new_low, new_high, a prediction interval for a new one.
    """
    found = measured(rows, statistic)
    return pd.concat([in_rows(one, null).assign(prompt=prompt) for prompt, one in found.items()], ignore_index=True)[
        ["prompt", *IN_ROWS]
    ]


IN_ROWS = ["model", "estimate", "standard_error", "ci_low", "ci_high", "p", "these_low", "these_high", "new_low",
           "new_high", "n"]  # fmt: skip


def in_rows(one: Measured, null: float = 0.0) -> pd.DataFrame:
    """The models' statistics as rows, and their mean over models as row ALL; columns as by_words, but no prompt."""
    error, df = one.standard_error, one.words - 1
    half = stats.t.ppf(0.975, df) * error
    p = 2 * stats.t.sf((one.values - null).abs() / error, df)
    rows = pd.DataFrame({"estimate": one.values, "standard_error": error, "ci_low": one.values - half,
                         "ci_high": one.values + half, "p": p, "n": one.words})  # fmt: skip
    every = pd.DataFrame([asdict(crossed.crossed(one.values, one.influence, null)) | {"model": ALL}])
    return pd.concat([rows.rename_axis("model").reset_index(), every], ignore_index=True)[IN_ROWS]


def mean_of(by_word: pd.DataFrame) -> pd.DataFrame:
    """The rows ALL of by_words(), by prompt."""
    return by_word[by_word["model"] == ALL].set_index("prompt").drop(columns="model")


def count(one: Measured, side: int = 1, *, significant: bool = False, resamples: int = 4000, seed: int = 0) -> dict:
    """How many of these very models have the statistic above 0 (below it for side -1), with a 95% interval.

    significant: by more than its own interval over words (p < .05). Words are drawn again for all models at once; each
    statistic moves by its words' influence. Keys: count, ci_low, ci_high, models.
    """
    least = (stats.t.ppf(0.975, one.words - 1) * one.standard_error if significant else 0 * one.values).to_numpy()
    words = len(one.influence)
    times = np.random.default_rng(seed).multinomial(words, np.full(words, 1 / words), size=resamples)
    drawn = one.values.to_numpy() + (times - 1) @ one.influence.fillna(0.0).to_numpy()
    ci_low, ci_high = resampling.interval((side * drawn > least).sum(axis=1))
    observed = int((side * one.values.to_numpy() > least).sum())
    # The ends are counts: a quantile between two of them is taken outwards.
    return {"count": observed, "ci_low": int(np.floor(ci_low)), "ci_high": int(np.ceil(ci_high)),
            "models": len(one.values)}  # fmt: skip


def counts(rows: pd.DataFrame, statistic: Statistic, side: int = 1, *, significant: bool = False) -> pd.DataFrame:
    """count() for every prompt: columns count, ci_low, ci_high, models; indexed by prompt."""
    found = {prompt: count(one, side, significant=significant) for prompt, one in measured(rows, statistic).items()}
    return pd.DataFrame(found).T.rename_axis("prompt")


def counts_apart(rows: pd.DataFrame) -> pd.DataFrame:
    """In how many models the words that a prompt asks for score higher, as counts(): positive ones for good things."""
    ways = [counts(one, mean_gap, polarity(prompt)) for prompt, one in rows.groupby("prompt", sort=False)]
    return pd.concat(ways)


def as_slopes(found: Mapping[str, pd.DataFrame], name: str) -> pd.DataFrame:
    """Rows of by_words of several ways as slopes: estimate becomes slope, ALL mean; the column `name` says which."""
    rows = pd.concat([table.assign(**{name: way}) for way, table in found.items()])
    return rows.rename(columns={"estimate": "slope"}).replace({"model": {ALL: "mean"}})


def min_f(rows: pd.DataFrame, statistic: Statistic) -> pd.DataFrame:
    """Clark's min F' of the test over models and the test over words, by prompt: columns t_models, t_words, f, df, p.

    A t-test over models alone takes the words for given, one over words alone the models.
    """
    found = {}
    for prompt, one in measured(rows, statistic).items():
        over_models = stats.ttest_1samp(one.values, 0)
        of_words = np.sqrt((one.influence.dropna(how="all").fillna(0.0).mean(axis=1) ** 2).sum())
        t_words = float(one.values.mean() / of_words)
        f, df, p = crossed.min_f_prime(
            float(over_models.statistic), len(one.values) - 1, t_words, len(one.influence) - 1
        )
        found[prompt] = {"t_models": over_models.statistic, "t_words": t_words, "f": f, "df": df, "p": p}
    return pd.DataFrame(found).T.rename_axis("prompt")


def spread(rows: pd.DataFrame) -> pd.DataFrame:
    """The SD of rewards among positive and among negative words, and their ratio with its 95% interval.

    Columns: prompt, model, positive, negative (SD, ddof 0, in the unit of `reward`), ratio, and those of by_words(),
    as ratios; standard_error is that of the log ratio. The row ALL has the geometric mean of the ratios. A ratio over 1
    is the paper's "more spread out" (section 3.1); it does not depend on the scale of a model's rewards.
    """
    keys = ["prompt", "model"]
    sides = {"positive": rows[rows["sentiment"] > 0], "negative": rows[rows["sentiment"] < 0]}
    by_sign = pd.DataFrame({sign: side.groupby(keys)["reward"].std(ddof=0) for sign, side in sides.items()})
    ratio = by_words(rows, log_spread_ratio).set_index(keys)
    ratio = as_ratios(ratio).rename(columns={"estimate": "ratio"})
    return by_sign.reindex(ratio.index).join(ratio).reset_index()


def as_ratios(logs: pd.DataFrame) -> pd.DataFrame:
    """Rows of by_words() with estimate and interval ends as ratios instead of their logarithms."""
    ends = ["estimate", "ci_low", "ci_high", "these_low", "these_high", "new_low", "new_high"]
    return logs.assign(**{column: np.exp(logs[column]) for column in ends})


# --- prompts against each other -----------------------------------------------------------------------------------


def prompt_agreement(tables: Mapping[str, pd.DataFrame], first: str, second: str) -> pd.DataFrame:
    """How alike a model's rewards for two prompts are, over its tokens: a row per model and row ALL, the mean (Fig A2).

    tables: score tables, best with one row per distinct input, since identical inputs agree by construction. Columns:
    those of in_rows(), of Pearson's r, whose interval is over tokens, in the row ALL over tokens and models; and tau
    (Kendall's tau-b, which has no scale and allows for ties).
    """
    found = in_rows(correlations(tables, first, second)).rename(columns={"estimate": "pearson"})
    taus = {name: float(stats.kendalltau(table[first], table[second]).statistic) for name, table in tables.items()}
    return found.assign(tau=found["model"].map(taus | {ALL: np.mean(list(taus.values()))}))


def correlations(tables: Mapping[str, pd.DataFrame], first: str, second: str) -> Measured:
    """Pearson's r between a model's rewards for two prompts, and how much each text moves it."""
    values, influence = {}, {}
    for name, table in tables.items():
        x, y = (stats.zscore(table[prompt].to_numpy(dtype=float)) for prompt in (first, second))
        values[name] = r = float((x * y).mean())
        moved = (x * y - r * (x**2 + y**2) / 2) / (len(x) - 1)
        influence[name] = pd.Series(moved).groupby(table["text"].to_numpy()).sum()
    return Measured(pd.Series(values), pd.DataFrame(influence))


def not_the_inverse(tables: Mapping[str, pd.DataFrame], alike: tuple[str, str], opposed: tuple[str, str]) -> Measured:
    """r of two prompts that ask alike plus r of two that ask for opposites, in [-2, 2]; 0 for an exact inverse.

    If rewards for the worst thing were those for the best with their sign turned, they would go against a third
    prompt just as far as those for the best go with it; above 0, they do not.
    """
    one, other = (correlations(tables, *prompts) for prompts in (alike, opposed))
    return Measured(one.values + other.values, one.influence + other.influence)


def both_and_either(table: pd.DataFrame, good: str, bad: str) -> pd.DataFrame:
    """The score table with two more columns of rewards: `both` = good + bad, `either` = good - bad (Tables A8, A9).

    Tokens at the top of `both` please under either prompt; at the two ends of `either` they please under one only.
    Rewards are not standardised, so the prompt with the larger spread decides.
    """
    x, y = (table[prompt].astype(float) for prompt in (good, bad))
    return table.assign(both=(x + y).astype(np.float32), either=(x - y).astype(np.float32))


def corners(table: pd.DataFrame, good: str, bad: str, n: int = 3) -> pd.DataFrame:
    """The n most extreme tokens of each corner of Fig 4: columns of the table and `corner`.

    Corners: both (rewarded for either prompt), neither, good only, bad only. How far a token is in a corner is the
    smaller of its two distances from the mean, in standard deviations, so that it must be extreme in both directions.
    In order from the most extreme, ties in order of token_id; one row per distinct text.
    """
    ordered = table.sort_values("token_id")
    ordered = ordered[~ordered["text"].str.strip().duplicated()]
    x, y = ((ordered[p] - ordered[p].mean()) / ordered[p].std(ddof=0) for p in (good, bad))
    ways = {"both": (x, y), "neither": (-x, -y), "good only": (x, -y), "bad only": (-x, y)}
    tokens = [
        ordered.loc[np.minimum(*way).sort_values(ascending=False, kind="stable").index[:n]].assign(corner=corner)
        for corner, way in ways.items()
    ]
    return pd.concat(tokens, ignore_index=True)


# --- the grid of prompts ------------------------------------------------------------------------------------------


def over_prompts(rows: pd.DataFrame) -> pd.DataFrame:
    """The mean gap between slopes for every prompt of the grid, with the prompt taken apart: one row per prompt.

    rows: observations with standardised rewards. Columns: prompt, models, n_steeper (models with gap > 0), gap, ci_low,
    ci_high, p (over words and models), adjective, superlative, style, polarity (of the prompt, 1 or -1), p_holm
    (corrected over prompts).
    """
    found = measured(rows, slope_gap)
    means = {prompt: asdict(crossed.crossed(one.values, one.influence)) for prompt, one in found.items()}
    over = pd.DataFrame(means).T.rename_axis("prompt").rename(columns={"estimate": "gap"})
    over = over[["models", "gap", "ci_low", "ci_high", "p"]].astype({"models": int})
    over.insert(1, "n_steeper", [int((one.values > 0).sum()) for one in found.values()])
    parts = pd.DataFrame(over.index.map(cell).tolist(), over.index, ["adjective", "superlative", "style"])
    over = over.join(parts).assign(polarity=parts["adjective"].map(POLARITIES))
    return over.assign(p_holm=multipletests(over["p"], method="holm")[1]).reset_index()


def what_varies(prompts: pd.DataFrame) -> pd.DataFrame:
    """How much of the variance of `gap` between prompts each part of the prompt explains: a row each, and the residual.

    prompts: over_prompts(). Columns: part, df, share (of the sum of squares, type II, main effects), f, p.
    """
    parts = ("adjective", "superlative", "style")
    design = sm.OLS.from_formula("gap ~ " + " + ".join(f"C({part})" for part in parts), prompts)
    table = anova_lm(design.fit(), typ=2)
    table.index = [*parts, "residual"]
    share = table["sum_sq"] / table["sum_sq"].sum()
    return pd.DataFrame({"part": table.index, "df": table["df"].astype(int), "share": share, "f": table["F"],
                         "p": table["PR(>F)"]}).reset_index(drop=True)  # fmt: skip
