"""How rewards follow the sentiment of words, and how the framing of the prompt changes that (sections 3.1 and 3.2).

Most functions take *observations*: a frame with one row per model, prompt and word, and the columns `model`, `prompt`,
`word`, `sentiment` (below zero = negative) and `reward`. Models and words are both samples, and all models read the
same words, so the functions that give intervals say what they resample.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import stats
from statsmodels.regression.mixed_linear_model import MixedLMParams
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.multitest import multipletests
from statsmodels.tools.sm_exceptions import ConvergenceWarning, SingularMatrixWarning

from lib import InputError, resampling
from lib.prompts import POLARITIES, cell, polarity

ALL = "mean of the models"
FEWEST = 10  # words of a sign; a bootstrap of fewer says little


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


# --- all models in one fit ----------------------------------------------------------------------------------------


def mixed_model(rows: pd.DataFrame) -> pd.DataFrame:
    """Slopes by sign from one linear mixed model of all reward models, per prompt, with the model as random effect.

    Fixed: the mean of each sign, the mean slope, and the gap between the slopes. Random, by model: the same but the
    overall mean, uncorrelated. Give it standardised rewards. Columns: prompt, models, n, positive, negative (slopes),
    gap, standard_error, ci_low, ci_high, p (normal approximation), sd_gap (between models), converged.
    The words count as independent here, though every model reads the same ones: by_words() resamples them.
    """
    return pd.DataFrame([{"prompt": prompt} | _mixed(group) for prompt, group in rows.groupby("prompt", sort=False)])


def _mixed(rows: pd.DataFrame) -> dict:
    rows = rows[rows["sentiment"] != 0]
    sign = np.sign(rows["sentiment"])
    centred = rows["sentiment"] - rows.groupby(sign)["sentiment"].transform("mean")
    side = sign - sign.mean()
    # The slope of a sign is slope + gap / 2 for positive words and slope - gap / 2 for negative ones.
    design = np.column_stack([np.ones(len(rows)), side, centred, centred * sign / 2])
    model = sm.MixedLM(rows["reward"].to_numpy(), design, groups=rows["model"].to_numpy(), exog_re=design[:, 1:])
    free = MixedLMParams.from_components(fe_params=np.ones(4), cov_re=np.eye(3))  # no correlations
    with warnings.catch_warnings():
        # A variance at its bound of zero is a finding (the models do not differ), not a failure.
        for expected in (ConvergenceWarning, SingularMatrixWarning):
            warnings.simplefilter("ignore", expected)
        fit = model.fit(free=free, method=["lbfgs", "powell"])
    (slope, gap), error = fit.fe_params[2:], float(fit.bse_fe[3])
    ci_low, ci_high = stats.norm.interval(0.95, gap, error)
    return {"models": rows["model"].nunique(), "n": len(rows), "positive": slope + gap / 2, "negative": slope - gap / 2,
            "gap": gap, "standard_error": error, "ci_low": ci_low, "ci_high": ci_high,
            "p": float(2 * stats.norm.sf(abs(gap / error))), "sd_gap": float(np.sqrt(fit.cov_re[2, 2])),
            "converged": bool(fit.converged)}  # fmt: skip


# --- words drawn again --------------------------------------------------------------------------------------------


Statistic = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def slope_gap(weights: np.ndarray, sentiment: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """Slope among positive words minus slope among negative ones, per row of weights: (resamples,). See gaps()."""
    up, down = sentiment > 0, sentiment < 0
    return _slope(weights[:, up], sentiment[up], reward[up]) - _slope(weights[:, down], sentiment[down], reward[down])


def log_spread_ratio(weights: np.ndarray, sentiment: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """Log of the SD of rewards among positive words over that among negative ones, per row of weights: (resamples,)."""
    up, down = sentiment > 0, sentiment < 0
    return (np.log(_variance(weights[:, up], reward[up])) - np.log(_variance(weights[:, down], reward[down]))) / 2


def mean_gap(weights: np.ndarray, sentiment: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """Mean reward of positive words minus that of negative ones, per row of weights: (resamples,)."""
    up, down = sentiment > 0, sentiment < 0
    return _mean(weights[:, up], reward[up]) - _mean(weights[:, down], reward[down])


def _mean(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    return weights @ values / weights.sum(axis=1)


def _variance(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    centred = values - values.mean()  # otherwise two large numbers are subtracted
    return _mean(weights, centred**2) - _mean(weights, centred) ** 2


def _slope(weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    x, y = x - x.mean(), y - y.mean()
    covariance = _mean(weights, x * y) - _mean(weights, x) * _mean(weights, y)
    return covariance / (_mean(weights, x**2) - _mean(weights, x) ** 2)


def by_words(rows: pd.DataFrame, statistic: Statistic, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """A statistic per model and prompt with 95% bootstrap intervals, and its mean over models (row ALL).

    Columns: prompt, model, estimate, ci_low, ci_high, n (distinct words). A word is resampled for all models and
    spellings at once, since they share it; for the row ALL the models are resampled too, so that its interval speaks of
    other words *and* other models. Resampling both is on the cautious side (Owen 2007, the pigeonhole bootstrap).
    Raises InputError for fewer than 10 words of either sign.
    """
    random = np.random.default_rng(seed)
    numbered = rows.assign(number=pd.factorize(rows["word"])[0])
    words = numbered["number"].nunique()
    counts = random.multinomial(words, np.full(words, 1 / words), size=resamples).astype(float)
    return pd.concat(
        [
            _resampled(prompt, group, statistic, counts, random)
            for prompt, group in numbered.groupby("prompt", sort=False)
        ],
        ignore_index=True,
    )


def _resampled(prompt: str, rows: pd.DataFrame, statistic: Statistic, counts: np.ndarray, random) -> pd.DataFrame:
    estimates, draws, sizes = {}, {}, {}
    for name, group in rows.groupby("model", sort=False):
        _check_words(group, f"{name}, {prompt}")
        x, y = group["sentiment"].to_numpy(dtype=float), group["reward"].to_numpy(dtype=float)
        estimates[name] = statistic(np.ones((1, len(group))), x, y)[0]
        draws[name] = statistic(counts[:, group["number"].to_numpy()], x, y)
        sizes[name] = group["number"].nunique()
    drawn = np.column_stack(list(draws.values()))
    chosen = random.integers(0, drawn.shape[1], drawn.shape)
    drawn = np.column_stack([drawn, np.take_along_axis(drawn, chosen, axis=1).mean(axis=1)])
    ci_low, ci_high = resampling.interval(drawn)
    everything = [*estimates.values(), np.mean([*estimates.values()])]
    sizes[ALL] = rows["number"].nunique()
    columns = {"estimate": everything, "ci_low": ci_low, "ci_high": ci_high, "n": list(sizes.values())}
    return pd.DataFrame({"prompt": prompt, "model": [*estimates, ALL]} | columns)


def _check_words(rows: pd.DataFrame, name: str) -> None:
    for sign, words in (("positive", rows["sentiment"] > 0), ("negative", rows["sentiment"] < 0)):
        if (n := rows.loc[words, "word"].nunique()) < FEWEST:
            raise InputError(f"{name}: {n} {sign} words are too few to resample; have at least {FEWEST}")


def spread(rows: pd.DataFrame, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """The SD of rewards among positive and among negative words, and their ratio with a bootstrap interval.

    Columns: prompt, model, positive, negative (SD, ddof 0, in the unit of `reward`), ratio, ci_low, ci_high, n. The row
    ALL has the geometric mean of the ratios; see by_words() for its interval. A ratio over 1 is the paper's "more
    spread out" (section 3.1); it does not depend on the scale of a model's rewards.
    """
    keys = ["prompt", "model"]
    sides = {"positive": rows[rows["sentiment"] > 0], "negative": rows[rows["sentiment"] < 0]}
    by_sign = pd.DataFrame({sign: side.groupby(keys)["reward"].std(ddof=0) for sign, side in sides.items()})
    ratio = by_words(rows, log_spread_ratio, resamples, seed).set_index(keys)
    ratio[["estimate", "ci_low", "ci_high"]] = np.exp(ratio[["estimate", "ci_low", "ci_high"]])
    columns = ["positive", "negative", "ratio", "ci_low", "ci_high", "n"]
    return ratio.rename(columns={"estimate": "ratio"}).join(by_sign)[columns].reset_index()


# --- prompts against each other -----------------------------------------------------------------------------------


def prompt_agreement(tables: Mapping[str, pd.DataFrame], first: str, second: str) -> pd.DataFrame:
    """How alike a model's rewards for two prompts are, over its tokens: one row per model (Fig A2).

    tables: score tables, best with one row per distinct input, since identical inputs agree by construction. Columns:
    model, pearson, ci_low, ci_high (95%, Fisher's z), tau (Kendall's tau-b, which has no scale and allows for ties), n.
    """
    rows = []
    for name, table in tables.items():
        x, y = (table[prompt].to_numpy(dtype=float) for prompt in (first, second))
        pearson = stats.pearsonr(x, y)
        ci_low, ci_high = pearson.confidence_interval()
        row = {"model": name, "pearson": pearson.statistic, "ci_low": ci_low, "ci_high": ci_high}
        rows.append(row | {"tau": stats.kendalltau(x, y).statistic, "n": len(table)})
    return pd.DataFrame(rows)


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


def over_prompts(gap_rows: pd.DataFrame) -> pd.DataFrame:
    """compare() for every prompt of the grid, with the prompt taken apart: one row per prompt.

    gap_rows: as from gaps(). Further columns: adjective, superlative, style, polarity (of the prompt, 1 or -1), p_holm
    (corrected over prompts).
    """
    rows = compare(gap_rows)
    parts = pd.DataFrame(rows["prompt"].map(cell).tolist(), columns=["adjective", "superlative", "style"])
    p_holm = multipletests(rows["p"], method="holm")[1]
    return pd.concat([rows, parts], axis=1).assign(polarity=parts["adjective"].map(POLARITIES), p_holm=p_holm)


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
