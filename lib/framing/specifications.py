"""Every reasonable way to ask whether rewards follow sentiment more steeply on the side that the prompt asks for.

`Gaps` estimates a table of specifications for each prompt (see lib.stats.multiverse). Each specification takes one
option of each of CHOICES. All estimates have one unit: standard deviations of reward per point of a grade from -5 to 5.
They are positive where rewards follow sentiment more steeply on the requested side, that is where they bend upwards at
neutral words (see effects.gaps). Pool and `fitted` serve the specifications of frequency too.
"""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from ..show import display
from ..stats import crossed, multiverse
from ..stats.multiverse import Specification
from ..tables import lexicons, scores
from ..tables.lexicons import Lexicon
from ..tables.prompts import cell, grid, polarity
from . import effects

AUTHORS, ONE, CLEAN, COMMON = "as the authors join", "one row per word", "without offensive", "common, inoffensive"
OLS, HUBER, GRADES = "least squares", "Huber", "means of grades"
RAW, ALL_WORDS, OWN_WORDS, RANKS = "raw", "SD of all words", "SD of the lexicon's words", "ranks"
SIGNED, MAGNITUDE = "signed", "magnitude"
ONE_PROMPT, ADJECTIVE, SIDE = "this prompt", "9 of its adjective", "27 of its side"
MODELS, CROSSED, THESE = "models (t)", "words and models", "words, these models"
BY_MODEL = "by model"  # beside the inferences: what they are about
BING = "VADER where Bing agrees"
CHOICES = {
    "lexicon": ("AFINN", "VADER", "mean of both", BING),
    "words": (AUTHORS, ONE, CLEAN, COMMON),
    "slope": (OLS, HUBER, GRADES),
    "scale": (RAW, ALL_WORDS, OWN_WORDS, RANKS),
    "definition": (SIGNED, MAGNITUDE),
    "wordings": (ONE_PROMPT, ADJECTIVE, SIDE),
    "inference": (MODELS, CROSSED, THESE),
}
PAPERS = {"lexicon": "AFINN", "words": AUTHORS, "slope": OLS, "scale": RAW, "definition": SIGNED,
          "wordings": ONE_PROMPT, "inference": MODELS}  # fmt: skip
OURS = PAPERS | {"words": ONE, "scale": OWN_WORDS, "inference": CROSSED}
WIDEST = 5  # grades run from -5 to 5, as AFINN's; VADER's run from -4 to 4
COMMON_FROM = 1.0  # per million words: rarer ones are fed in pieces, and readers of any list grade them by guess
STILL = 1e-13  # of the scale: a slope that moves less in a round has converged
FEWEST = 3  # words of a grade; the error of a mean of fewer is not known


# --- the question -------------------------------------------------------------------------------------------------


def _claim(prompt: str) -> str:
    return f"S3.slope.{prompt}"


def excluded(chosen: Mapping) -> str | None:
    """Return why a combination makes no sense, or None. Written before any specification was estimated."""
    if chosen["scale"] == RAW and chosen["inference"] != MODELS:
        return "of raw rewards one model's scale is most of the mean: nothing but the paper's own test takes them"
    return None


def grades(*, bing: bool = True) -> dict[str, Lexicon]:
    """Return the graded lexicons, each from -5 to 5: AFINN, VADER (4 is 5), their mean where both have the word, and
    VADER where Bing has the word with the same sign. Bing alone has no grades, and so no slope."""
    afinn, vader = (lexicons.load(name).corrected for name in ("afinn", "vader"))
    vader = vader.assign(sentiment=vader["sentiment"] * WIDEST / 4)
    both = afinn.merge(vader, on="word", suffixes=("", "_other"), validate="one_to_one")
    both = both.assign(sentiment=(both["sentiment"] + both.pop("sentiment_other")) / 2)
    listed = {"AFINN": afinn, "VADER": vader, "mean of both": both}
    if bing:
        signs = lexicons.load("bing").corrected.rename(columns={"sentiment": "sign"})
        agreed = vader.merge(signs, on="word", validate="one_to_one")
        listed[BING] = agreed[np.sign(agreed["sentiment"]) == agreed.pop("sign")]
    return {name: Lexicon(name, "sentiment", words, words) for name, words in listed.items()}


@functools.cache
def _wordings(prompt: str, option: str, scored: tuple[str, ...]) -> tuple[str, ...]:
    """Return the prompts whose mean reward stands for this one, among those scored."""
    if option == ONE_PROMPT:
        return (prompt,)
    of_grid = grid()
    alike = of_grid["adjective"] == cell(prompt)[0]
    if option == SIDE:
        alike = of_grid["prompt"].map(polarity) == polarity(prompt)
    return tuple(name for name in of_grid.loc[alike, "prompt"] if name in scored)


class Gaps:
    """All specifications of the gap between slopes for some tables and prompts. Shared steps are computed once.

    choices: CHOICES less the options that these tables cannot tell apart. ours, papers: the options of two
    specifications. wordings: the lists of prompts whose mean reward specifications take.
    """

    def __init__(self, tables: Mapping[str, pd.DataFrame], prompts: Sequence[str], *, bing: bool = True):
        """Read the tables: model -> score table, with the prompts and, for other wordings, the grid of 54.

        bing: whether Bing's list of words is at hand.
        """
        self.pool, self.lexicons, self.prompts = Pool(tables, prompts_of(tables)), grades(bing=bing), prompts
        options = itertools.product(prompts, CHOICES["wordings"])
        self.wordings = list(dict.fromkeys(_wordings(*option, self.pool.prompts) for option in options))
        self.sides, self.means = functools.lru_cache(2)(self._sides), functools.cache(self._means)
        self.choices = {name: list(listed) for name, listed in CHOICES.items()} | {"lexicon": list(self.lexicons)}
        joins = [[lexicons.join(tables[model], lexicons.load(name), how) for how in lexicons.HOW]
                 for model in set(self.pool.readers.values()) for name in ("afinn", "vader")]  # fmt: skip
        same = {}
        if all(set(old["word"]) == set(new["word"]) and len(old) == len(new) for old, new in joins):
            self.choices["words"].remove(AUTHORS)  # both joins give the same rows
            same = {"words": ONE}
        if len(_wordings("best", ADJECTIVE, self.pool.prompts)) < 2:
            self.choices["wordings"] = [ONE_PROMPT]
        self.ours, self.papers = OURS | same, PAPERS | same

    def run(self) -> dict[str, pd.DataFrame]:
        """Return prompt -> its specifications, as from multiverse.run."""
        return {
            prompt: multiverse.run(self.choices, functools.partial(self.estimate, prompt), excluded, _claim(prompt))
            for prompt in self.prompts
        }

    def summaries(self, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
        """Return a row per prompt, as from multiverse.summary; tables: as from `run`."""
        return pd.DataFrame(
            [multiverse.summary(_claim(prompt), table, ours=self.ours, papers=self.papers,
                                joint=self.joint_test(table, prompt)) for prompt, table in tables.items()]
        )  # fmt: skip

    def joint_test(self, table: pd.DataFrame, prompt: str) -> float:
        """Return the p of all specifications of a prompt together (multiverse.joint_p), by the signs of models' gaps.

        Without a gap, each model's gap is as likely below 0 as above. So the signs of the models are turned in all
        2 ^ models ways, the same for every specification. Specifications that differ only in their interval are one.
        """
        ways = table[multiverse.choices_of(table)].assign(inference=MODELS).drop_duplicates().to_dict("records")
        by_model = np.stack([self.estimates(prompt, chosen)[BY_MODEL] for chosen in ways], axis=1)
        signs = np.array(list(itertools.product((1, -1), repeat=len(by_model))))
        return multiverse.joint_p(by_model.mean(axis=0), signs[1:] @ by_model / len(by_model))

    def estimate(self, prompt: str, chosen: Mapping) -> Specification:
        """Return the estimate of one specification and its interval."""
        return Specification(*map(float, self.estimates(prompt, chosen)[chosen["inference"]]))

    def estimates(self, prompt: str, chosen: Mapping) -> dict[str, tuple]:
        """Return inference -> estimate, ci_low, ci_high; under BY_MODEL the gap of each model, (models,)."""
        *key, definition, wordings, _ = (chosen[name] for name in CHOICES)
        place = self.wordings.index(_wordings(prompt, wordings, self.pool.prompts))
        means = self.means(*key, definition)
        return {name: values[:, place] if name == BY_MODEL else tuple(ends[place] for ends in values)
                for name, values in means.items()}  # fmt: skip

    def _sides(self, lexicon: str, words: str, slope: str, scale: str) -> tuple[np.ndarray, np.ndarray]:
        """Return, by list of wordings, the slopes among positive and among negative words, (2, models, wordings), and
        the influence of words, (2, words, models, wordings)."""
        how = "published" if words == AUTHORS else "corrected"
        listed, rewards = self.pool.words(self.lexicons[lexicon], how, words, scale)
        asked = [[self.pool.prompts.index(prompt) for prompt in prompts] for prompts in self.wordings]
        mean = np.stack([rewards[:, :, places].mean(axis=2) for places in asked], axis=2)
        sentiment = listed["sentiment"].to_numpy(dtype=float)
        up, down = (fitted(listed["word"], np.where(side, sentiment, np.nan), mean, SLOPES[slope])
                    for side in (sentiment > 0, sentiment < 0))  # fmt: skip
        return np.stack([up[0], down[0]]), np.stack([up[1], down[1]])

    def _means(self, lexicon: str, words: str, slope: str, scale: str, definition: str) -> dict:
        """Return, by inference, the mean gap and the ends of its interval, each by list of wordings, (wordings,);
        under BY_MODEL the gaps of the models, (models, wordings)."""
        slopes, influence = self.sides(lexicon, words, slope, scale)
        asked = np.array([polarity(prompts[0]) for prompts in self.wordings])
        directions = asked * np.sign(slopes) if definition == MAGNITUDE else np.ones_like(slopes)
        gaps = directions[0] * slopes[0] - directions[1] * slopes[1]
        ends = crossed.intervals(gaps, directions[0] * influence[0] - directions[1] * influence[1])
        over_models = stats.ttest_1samp(gaps, 0).confidence_interval()
        return {MODELS: (ends.estimate, *over_models), CROSSED: (ends.estimate, ends.ci_low, ends.ci_high),
                THESE: (ends.estimate, ends.these_low, ends.these_high), BY_MODEL: gaps}  # fmt: skip


# --- words that several models read -------------------------------------------------------------------------------


is_offensive = functools.cache(display.is_offensive)  # many specifications ask about the same words


@functools.cache
def common_words() -> frozenset[str]:
    """Return the words that occur at least once in a million, by wordfreq."""
    words = lexicons.load("wordfreq").corrected
    return frozenset(words.loc[words["frequency"] >= COMMON_FROM, "word"])


def prompts_of(tables: Mapping[str, pd.DataFrame]) -> tuple[str, ...]:
    """Return the prompts that the tables hold, in their order."""
    return tuple(scores.prompt_names(next(iter(tables.values()))))


def readers(tables: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Return model -> the first of the models that have the same texts by the same token ids, and so the same words."""
    first: dict[str, str] = {}
    texts = {name: table[["token_id", "text"]] for name, table in tables.items()}
    for name, own in texts.items():
        first[name] = next((other for other in dict.fromkeys(first.values()) if texts[other].equals(own)), name)
    return first


class Pool:
    """Score tables that many specifications read: lexicons are joined once, and rewards scaled once for all words."""

    def __init__(self, tables: Mapping[str, pd.DataFrame], prompts: Sequence[str]):
        self.tables, self.prompts, self.readers = tables, tuple(prompts), readers(tables)
        self.joined, self.scaled = functools.cache(self._joined), functools.cache(self._scaled)

    def words(
        self, lexicon: Lexicon, how: str, words: str, scale: str, control: Lexicon | None = None
    ) -> tuple[pd.DataFrame, np.ndarray]:
        """Return the words that an option keeps, and their rewards on a scale: (n, models, prompts).

        A row per word, or per spelling of the authors' join: columns word, spelling (a number), and the lexicons'
        quantities. Rewards are NaN where a model lacks the word. how, control: as in lexicons.join.
        """
        listed, places = self.joined(lexicon, how, control)
        if words in (CLEAN, COMMON):
            kept = ~listed["word"].map(is_offensive).to_numpy(dtype=bool)
            kept &= (words == CLEAN) | listed["word"].isin(common_words()).to_numpy()
            listed, places = listed[kept], places[kept]
        rewards = np.stack([own[place] for own, place in zip(self.scaled(scale), places.T, strict=True)], axis=1)
        rewards[places < 0] = np.nan
        if scale == OWN_WORDS:
            rewards = (rewards - np.nanmean(rewards, axis=0)) / np.nanstd(rewards, axis=0)
        return listed, rewards

    def _joined(self, lexicon: Lexicon, how: str, control: Lexicon | None) -> tuple[pd.DataFrame, np.ndarray]:
        """Return the words, less those of quantity 0 (neutral words never count), and each model's row of them, or -1.

        The lexicon is joined once for all models that read the same.
        """
        of_reader = {}
        for name in dict.fromkeys(self.readers.values()):
            texts = self.tables[name][["token_id", "text"]]
            rows = lexicons.join(texts.assign(place=np.arange(len(texts))), lexicon, how, control=control)
            rows = rows[rows[lexicon.quantity] != 0]
            rows.attrs = {}  # pandas copies them with every step
            rows = rows.assign(spelling=rows.groupby("word").cumcount())
            quantities = [listed.quantity for listed in (lexicon, control) if listed]
            of_reader[name] = rows.set_index(["word", "spelling", *quantities])["place"]
        both = pd.concat({name: of_reader[reader] for name, reader in self.readers.items()}, axis=1)
        return both.index.to_frame(index=False), both.fillna(-1).to_numpy(dtype=int)

    def _scaled(self, option: str) -> list[np.ndarray]:
        """Return each model's rewards, (rows, prompts), on a scale whose unit is a standard deviation.

        Raw rewards are divided by one number for all models, the root of the mean of their variances, so that models
        keep their scales. Ranks are divided by the standard deviation of as many ranks without ties.
        """
        tables = [table[list(self.prompts)] for table in self.tables.values()]
        rewards = [table.to_numpy(dtype=float) for table in tables]
        if option == RAW:
            common = np.sqrt(np.mean([table.var(ddof=0) for table in tables], axis=0))
            return [own / common for own in rewards]
        if option == ALL_WORDS:
            return [stats.zscore(own) for own in rewards]
        if option == RANKS:
            return [stats.rankdata(own, axis=0) / (len(own) / np.sqrt(12)) for own in rewards]
        return rewards  # the mean and SD of the lexicon's words are taken when these are known


# --- slopes -------------------------------------------------------------------------------------------------------


def fitted(words: pd.Series, x: np.ndarray, rewards: np.ndarray, fit: Callable) -> tuple[np.ndarray, np.ndarray]:
    """Return slopes (models, prompts) of rewards (n, models, prompts) on x; influence (words, models, prompts).

    x: (n,) or (n, k), NaN where a word takes no part. fit: one of SLOPES, called once for models that read the same
    words. The influence is 0 where a model lacks the word; spellings of one word move an estimate together.
    """
    n, *shape = rewards.shape
    y, alike = rewards.reshape(n, -1), {}
    present = ~np.isnan(y) & ~np.isnan(x).reshape(n, -1).any(axis=1)[:, None]
    for column in range(y.shape[1]):
        alike.setdefault(present[:, column].tobytes(), []).append(column)
    slopes, influence = np.empty(y.shape[1]), np.zeros_like(y)
    for columns in alike.values():
        rows = np.flatnonzero(present[:, columns[0]])
        slopes[columns], influence[np.ix_(rows, columns)] = fit(x[rows], y[np.ix_(rows, columns)])
    codes, spelled = pd.factorize(words)
    of_words = influence
    if len(spelled) < n:
        of_words = np.zeros((len(spelled), y.shape[1]))
        np.add.at(of_words, codes, influence)
    return slopes.reshape(shape), of_words.reshape(-1, *shape)


def huber(x: np.ndarray, y: np.ndarray, tuning: float = 1.345, rounds: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """Return Huber's M-estimate of the slope, and its influence: residuals beyond 1.345 SD count less.

    x: (n,). y: (n, models). The scale is the median absolute residual over .6745, taken anew in every round, as in
    statsmodels' RLM, which fits one model at a time.
    """
    slope, scale, residual = _reweighted(x - x.mean(), y.T.copy(), tuning, rounds)
    limit = tuning * scale
    within = (np.abs(residual) <= limit).astype(float)
    away = x[:, None] - (within * x[:, None]).sum(axis=0) / within.sum(axis=0)
    moved = away * residual.clip(-limit, limit) / (within * away**2).sum(axis=0)
    centred = x - x.mean()
    return slope, moved / (1 - 1 / len(x) - centred**2 / (centred @ centred))[:, None]


def _reweighted(c: np.ndarray, y: np.ndarray, tuning: float, rounds: int) -> tuple[np.ndarray, ...]:
    """Return slope and scale (models,) and residuals (n, models) of Huber's line; c: (n,), centred; y: (models, n).

    A model whose slope and scale stand still is left out of further rounds.
    """
    slope, scale, residual = np.full(len(y), np.inf), np.full(len(y), np.inf), np.empty_like(y)
    moving, weights = np.arange(len(y)), np.ones_like(y)
    for _ in range(rounds):
        rewards = y[moving]
        total, of_x, of_xx = weights.sum(axis=1), weights @ c, weights @ c**2
        weighted = weights * rewards
        of_y, of_xy = weighted.sum(axis=1), weighted @ c
        steep = (of_xy - of_x * of_y / total) / (of_xx - of_x**2 / total)
        off = rewards - ((of_y - steep * of_x) / total)[:, None] - steep[:, None] * c
        size = np.abs(off)
        spread = np.median(size, axis=1) / stats.norm.ppf(0.75)
        moved = np.maximum(abs(steep - slope[moving]), abs(spread - scale[moving])) > STILL * spread
        slope[moving], scale[moving], residual[moving] = steep, spread, off
        if not moved.any():
            break
        moving, size, limit = moving[moved], size[moved], tuning * np.maximum(spread[moved], 1e-12)
        weights = limit[:, None] / np.maximum(size, limit[:, None])
    return slope, scale, residual.T


def of_grades(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the slope of the mean reward of each whole grade on the grade, each grade counted once; and its influence.

    Grades are rounded away from zero to whole ones; one of fewer than three words is left out.
    """
    whole = np.sign(x) * np.ceil(np.abs(x) - 1e-9)
    levels, level, n = np.unique(whole, return_inverse=True, return_counts=True)
    kept = n >= FEWEST
    away = np.where(kept, levels - levels[kept].mean(), 0.0)
    weight = away / (away @ away)
    means = np.array([y[level == number].mean(axis=0) for number in range(len(levels))])
    # A mean of n words has the variance s^2 / n, whose s^2 divides by n - 1: hence their root for each word.
    moved = (weight / np.sqrt(n * np.maximum(n - 1, 1)))[level][:, None] * (y - means[level])
    return weight @ means, moved


SLOPES = {OLS: effects.whole_slope, HUBER: huber, GRADES: of_grades}
