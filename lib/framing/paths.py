"""Every reasonable way to ask whether rewards follow sentiment more steeply on the side that the prompt asks for.

`framing` gives, per prompt, a table of paths (see lib.multiverse). A path takes one option of each of CHOICES. All
estimates have one unit, standard deviations of reward per point of a grade from -5 to 5, and are positive where the
side that is asked for is steeper, or equally where rewards bend upwards at neutral words (see effects.gaps).
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from lib import crossed, display, lexicons, multiverse, scores
from lib.lexicons import Lexicon
from lib.multiverse import Path
from lib.prompts import cell, grid, polarity

AUTHORS, ONE, CLEAN, COMMON = "as the authors join", "one row per word", "without offensive", "common, inoffensive"
OLS, HUBER, GRADES = "least squares", "Huber", "means of grades"
RAW, ALL_WORDS, OWN_WORDS, RANKS = "raw", "SD of all words", "SD of the lexicon's words", "ranks"
SIGNED, MAGNITUDE = "signed", "magnitude"
ONE_PROMPT, ADJECTIVE, SIDE = "this prompt", "9 of its adjective", "27 of its side"
MODELS, CROSSED, THESE = "models (t)", "words and models", "words, these models"
CHOICES = {
    "lexicon": ("AFINN", "VADER", "mean of both", "VADER where Bing agrees"),
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
FEWEST = 3  # words of a grade; a mean of fewer has next to no error of its own to tell


def excluded(chosen: Mapping) -> str | None:
    """Why a combination makes no sense, or None. Written before any path was estimated."""
    if chosen["scale"] == RAW and chosen["inference"] != MODELS:
        return "of raw rewards one model's scale is most of the mean: nothing but the paper's own test takes them"
    return None


def choices(tables: Mapping[str, pd.DataFrame], *, bing: bool = True) -> dict[str, list]:
    """CHOICES less those that the tables cannot tell apart: the authors' join where it gives the same rows as one row
    per word, and wordings where only one was scored. bing: whether its list can be had."""
    options = {name: list(of_one) for name, of_one in CHOICES.items()}
    if not bing:
        options["lexicon"].remove("VADER where Bing agrees")
    if _joins_are_one(tables):
        options["words"].remove(AUTHORS)
    if len(_wordings("best", ADJECTIVE, prompts_of(tables))) < 2:
        options["wordings"] = [ONE_PROMPT]
    return options


def path_of(options: Mapping[str, Sequence], path: Mapping) -> dict:
    """A path such as PAPERS among options: where the joins are one, one row per word is the authors' join."""
    return dict(path) | ({"words": ONE} if path["words"] not in options["words"] else {})


def framing(
    tables: Mapping[str, pd.DataFrame], prompts: Sequence[str], *, bing: bool = True
) -> dict[str, pd.DataFrame]:
    """All paths of each prompt: prompt -> the choices as columns, estimate, ci_low, ci_high, side.

    tables: model -> score table, with the prompts and, for their other wordings, the grid of 54. bing: see choices().
    """
    options = choices(tables, bing=bing)
    gaps = Gaps(tables, bing=bing)
    return {prompt: multiverse.run(options, functools.partial(gaps.path, prompt), excluded) for prompt in prompts}


# --- words and their grades ---------------------------------------------------------------------------------------


def grades(*, bing: bool = True) -> dict[str, Lexicon]:
    """The graded lexicons, each from -5 to 5: AFINN, VADER (4 is 5), their mean where both have the word, and VADER
    where Bing has the word with the same sign. Bing alone has no grades, and so no slope."""
    afinn, vader = (lexicons.load(name).corrected for name in ("afinn", "vader"))
    vader = vader.assign(sentiment=vader["sentiment"] * WIDEST / 4)
    both = afinn.merge(vader, on="word", suffixes=("", "_other"), validate="one_to_one")
    both = both.assign(sentiment=(both["sentiment"] + both.pop("sentiment_other")) / 2)
    listed = {"AFINN": afinn, "VADER": vader, "mean of both": both}
    if bing:
        signs = lexicons.load("bing").corrected.rename(columns={"sentiment": "sign"})
        agreed = vader.merge(signs, on="word", validate="one_to_one")
        agreed = agreed[np.sign(agreed["sentiment"]) == agreed.pop("sign")]
        listed["VADER where Bing agrees"] = agreed
    return {name: Lexicon(name, "sentiment", words, words) for name, words in listed.items()}


@functools.cache
def common_words() -> frozenset[str]:
    """Words that occur at least once in a million, by wordfreq."""
    words = lexicons.load("wordfreq").corrected
    return frozenset(words.loc[words["frequency"] >= COMMON_FROM, "word"])


def _is_kept(words: np.ndarray, option: str) -> np.ndarray:
    """Which words an option of `words` keeps, (n,)."""
    if option in (AUTHORS, ONE):
        return np.ones(len(words), dtype=bool)
    common = common_words() if option == COMMON else frozenset(words)
    return np.array([word in common and not display.is_offensive(word) for word in words])


def _joins_are_one(tables: Mapping[str, pd.DataFrame]) -> bool:
    """Whether the authors' join to AFINN and to VADER gives the very rows that one row per word does."""
    pairs = [[lexicons.join(table, lexicons.load(name), how) for how in lexicons.HOW]
             for table in tables.values() for name in ("afinn", "vader")]  # fmt: skip
    return all(set(old["word"]) == set(new["word"]) and len(old) == len(new) for old, new in pairs)


def prompts_of(tables: Mapping[str, pd.DataFrame]) -> tuple[str, ...]:
    """The prompts that the tables hold, in their order."""
    return tuple(scores.prompt_names(next(iter(tables.values()))))


@functools.cache
def _wordings(prompt: str, option: str, scored: tuple[str, ...]) -> list[str]:
    """The prompts whose mean reward stands for this one, among those scored."""
    if option == ONE_PROMPT:
        return [prompt]
    of_grid = grid()
    alike = of_grid["adjective"] == cell(prompt)[0]
    if option == SIDE:
        alike = of_grid["prompt"].map(polarity) == polarity(prompt)
    return [name for name in of_grid.loc[alike, "prompt"] if name in scored]


# --- scales -------------------------------------------------------------------------------------------------------


def scaled(tables: Mapping[str, pd.DataFrame], option: str) -> dict[str, pd.DataFrame]:
    """The tables with rewards on one scale, whose unit is a standard deviation whatever the option.

    Raw rewards are divided by one number for all models, the root of the mean of their variances, so that models keep
    their scales. Ranks are divided by the standard deviation of as many ranks without ties.
    """
    names = list(prompts_of(tables))
    common = np.sqrt(np.mean([table[names].var(ddof=0) for table in tables.values()], axis=0))
    scale: dict[str, Callable] = {
        RAW: lambda rewards: rewards / common,
        ALL_WORDS: _standardised,
        OWN_WORDS: lambda rewards: rewards,  # when the words are known
        RANKS: lambda rewards: rewards.rank() / (len(rewards) / np.sqrt(12)),
    }
    return {name: table.assign(**scale[option](table[names].astype(float))) for name, table in tables.items()}


def _standardised(rewards: pd.DataFrame) -> pd.DataFrame:
    return (rewards - rewards.mean()) / rewards.std(ddof=0)


# --- slopes -------------------------------------------------------------------------------------------------------


def least_squares(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slope (models,) and influence (n, models) of y (n, models) on x (n,); see lib.crossed."""
    return crossed.slope(x, y), crossed.slope_influence(x, y)


def huber(x: np.ndarray, y: np.ndarray, tuning: float = 1.345, rounds: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """Huber's M-estimate of the slope, and its influence, as of least_squares: residuals beyond 1.345 SD count less.

    The scale is the median absolute residual over .6745, taken anew in every round, as in statsmodels' RLM.
    """
    weights = np.ones_like(y)
    for _ in range(rounds):
        total = weights.sum(axis=0)
        middle = (weights * x[:, None]).sum(axis=0) / total
        away = x[:, None] - middle
        slope = (weights * away * y).sum(axis=0) / (weights * away**2).sum(axis=0)
        residual = y - (weights * y).sum(axis=0) / total - slope * away
        scale = np.median(np.abs(residual), axis=0) / stats.norm.ppf(0.75)
        weights = tuning / np.maximum(np.abs(residual) / np.maximum(scale, 1e-12), tuning)
    limit = tuning * scale
    within = (np.abs(residual) <= limit).astype(float)
    away = x[:, None] - (within * x[:, None]).sum(axis=0) / within.sum(axis=0)
    moved = away * residual.clip(-limit, limit) / (within * away**2).sum(axis=0)
    centred = x - x.mean()
    return slope, moved / (1 - 1 / len(x) - centred**2 / (centred @ centred))[:, None]


def of_grades(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slope of the mean reward of each whole grade on the grade, one voice per grade; and its influence.

    Grades are rounded away from zero to whole ones; one of fewer than three words is left out.
    """
    whole = np.sign(x) * np.ceil(np.abs(x) - 1e-9)
    levels, level, n = np.unique(whole, return_inverse=True, return_counts=True)
    kept = n >= FEWEST
    away = np.where(kept, levels - levels[kept].mean(), 0.0)
    voice = away / (away @ away)
    means = np.array([y[level == number].mean(axis=0) for number in range(len(levels))])
    # A mean of n words has the variance s^2 / n, whose s^2 divides by n - 1: hence their root for each word.
    moved = (voice / np.sqrt(n * np.maximum(n - 1, 1)))[level][:, None] * (y - means[level])
    return voice @ means, moved


SLOPES = {OLS: least_squares, HUBER: huber, GRADES: of_grades}


class Words(NamedTuple):
    """Words that the models read: word (n,) as numbers, alike for spellings of one; sentiment (n,); rewards
    (n, models, prompts), NaN where a model lacks a word."""

    word: np.ndarray
    sentiment: np.ndarray
    rewards: np.ndarray


class Gaps:
    """The gaps of all paths of some tables; what paths share is computed once."""

    def __init__(self, tables: Mapping[str, pd.DataFrame], *, bing: bool = True):
        self.models, self.prompts, self.lexicons = list(tables), prompts_of(tables), grades(bing=bing)
        self.scaled = functools.cache(functools.partial(scaled, tables))
        self.joined, self.words = functools.cache(self._joined), functools.cache(self._words)
        self.sides, self.crossed = functools.cache(self._sides), functools.cache(self._crossed)

    def path(self, prompt: str, chosen: Mapping) -> Path:
        """The estimate of one path and its interval."""
        *key, inference = (chosen[name] for name in CHOICES)
        found, of_models = self.crossed(prompt, *key)
        if inference == MODELS:
            return Path(found.estimate, *of_models)
        ends = (found.ci_low, found.ci_high) if inference == CROSSED else (found.these_low, found.these_high)
        return Path(found.estimate, *ends)

    def _joined(self, lexicon: str, how: str, scale: str) -> pd.DataFrame:
        """Rewards: index word, spelling, sentiment; columns model, prompt; NaN where a model lacks the word."""
        pieces = {}
        for name, table in self.scaled(scale).items():
            joined = lexicons.join(table, self.lexicons[lexicon], how)
            joined = joined[joined["sentiment"] != 0]
            joined.attrs = {}  # pandas copies them with every step
            spelling = joined.groupby("word").cumcount().rename("spelling")
            pieces[name] = joined.set_index(["word", spelling, "sentiment"])[list(self.prompts)].astype(float)
        return pd.concat(pieces, axis=1)

    def _words(self, lexicon: str, words: str, scale: str) -> Words:
        """The words that a path keeps, with rewards on its scale."""
        rows = self.joined(lexicon, "published" if words == AUTHORS else "corrected", scale)
        rows = rows[_is_kept(rows.index.get_level_values("word"), words)]
        rewards = rows.to_numpy().reshape(len(rows), len(self.models), len(self.prompts))
        if scale == OWN_WORDS:
            rewards = (rewards - np.nanmean(rewards, axis=0)) / np.nanstd(rewards, axis=0)
        word, _ = pd.factorize(rows.index.get_level_values("word"))
        return Words(word, rows.index.get_level_values("sentiment").to_numpy(dtype=float), rewards)

    def _sides(
        self, prompt: str, lexicon: str, words: str, slope: str, scale: str, wordings: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """The slopes among positive and negative words, (2, models), and the influence of words, (2, n, models)."""
        kept = self.words(lexicon, words, scale)
        asked = [self.prompts.index(name) for name in _wordings(prompt, wordings, self.prompts)]
        mean = kept.rewards[:, :, asked].mean(axis=2)
        slopes, influence = np.empty((2, mean.shape[1])), np.zeros((2, *mean.shape))
        for side, rows in enumerate((kept.sentiment > 0, kept.sentiment < 0)):
            slopes[side], influence[side, rows] = fitted(kept.sentiment[rows], mean[rows], SLOPES[slope])
        return slopes, influence

    def _crossed(self, prompt, lexicon, words, slope, scale, definition, wordings):
        """The gap with its crossed interval, and the interval of a t-test over models."""
        slopes, influence = self.sides(prompt, lexicon, words, slope, scale, wordings)
        directions = polarity(prompt) * np.sign(slopes) if definition == MAGNITUDE else np.ones_like(slopes)
        gap = directions[0] * slopes[0] - directions[1] * slopes[1]
        moved = directions[0] * influence[0] - directions[1] * influence[1]
        word = self.words(lexicon, words, scale).word
        of_words = pd.DataFrame(summed(word, moved), columns=self.models)
        found = crossed.crossed(pd.Series(gap, self.models), of_words)
        half = stats.t.ppf(0.975, len(gap) - 1) * gap.std(ddof=1) / np.sqrt(len(gap))
        return found, (gap.mean() - half, gap.mean() + half)


def fitted(x: np.ndarray, y: np.ndarray, fit: Callable) -> tuple[np.ndarray, np.ndarray]:
    """Slopes (models,) and influence (n, models) of y (n, models) on x (n,), at once for models that read the same.

    y is NaN, and the influence 0, where a model lacks the word.
    """
    present = ~np.isnan(y)
    slopes, influence = np.empty(y.shape[1]), np.zeros_like(y)
    for pattern in np.unique(present, axis=1).T:
        alike = (present == pattern[:, None]).all(axis=0)
        slopes[alike], moved = fit(x[pattern], y[np.ix_(pattern, alike)])
        influence[np.ix_(pattern, alike)] = moved
    return slopes, influence


def summed(word: np.ndarray, influence: np.ndarray) -> np.ndarray:
    """Influence by word, (words, ...), of rows (n, ...): spellings of one word move an estimate together."""
    of_words = np.zeros((word.max() + 1, *influence.shape[1:]))
    np.add.at(of_words, word, influence)
    return of_words
