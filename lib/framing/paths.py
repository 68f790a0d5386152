"""Every reasonable way to ask whether rewards follow sentiment more steeply on the side that the prompt asks for.

`framing` gives, per prompt, a table of paths (see lib.multiverse). A path takes one option of each of CHOICES. All
estimates have one unit, standard deviations of reward per point of a grade from -5 to 5, and are positive where the
side that is asked for is steeper, or equally where rewards bend upwards at neutral words (see effects.gaps).
"""

import functools
import itertools
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
STILL = 1e-13  # of the scale: what a slope moves in a round when it has been found
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
    gaps = Gaps(tables, prompts, bing=bing)
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


is_offensive = functools.cache(display.is_offensive)  # many paths ask of the same words


def _is_kept(words: Sequence[str], option: str) -> np.ndarray:
    """Which words an option of `words` keeps, (n,)."""
    if option in (AUTHORS, ONE):
        return np.ones(len(words), dtype=bool)
    common = common_words() if option == COMMON else frozenset(words)
    return np.array([word in common and not is_offensive(word) for word in words])


def _joins_are_one(tables: Mapping[str, pd.DataFrame]) -> bool:
    """Whether the authors' join to AFINN and to VADER gives the very rows that one row per word does."""
    pairs = [[lexicons.join(tables[model], lexicons.load(name), how) for how in lexicons.HOW]
             for model in set(readers(tables).values()) for name in ("afinn", "vader")]  # fmt: skip
    return all(set(old["word"]) == set(new["word"]) and len(old) == len(new) for old, new in pairs)


def prompts_of(tables: Mapping[str, pd.DataFrame]) -> tuple[str, ...]:
    """The prompts that the tables hold, in their order."""
    return tuple(scores.prompt_names(next(iter(tables.values()))))


@functools.cache
def _wordings(prompt: str, option: str, scored: tuple[str, ...]) -> tuple[str, ...]:
    """The prompts whose mean reward stands for this one, among those scored."""
    if option == ONE_PROMPT:
        return (prompt,)
    of_grid = grid()
    alike = of_grid["adjective"] == cell(prompt)[0]
    if option == SIDE:
        alike = of_grid["prompt"].map(polarity) == polarity(prompt)
    return tuple(name for name in of_grid.loc[alike, "prompt"] if name in scored)


# --- words that several models read ------------------------------------------------------------------------------


class Joined(NamedTuple):
    """Words of a lexicon, a row per word, or per spelling of the authors' join, and where each model's table has them.

    words: columns word, spelling (a number), and the lexicon's quantities. places: (n, models), the row of the model's
    table; -1 where it lacks the word.
    """

    words: pd.DataFrame
    places: np.ndarray


def readers(tables: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Model -> the first of the models that have the same texts by the same token ids, and so the same words."""
    first: dict[str, str] = {}
    texts = {name: table[["token_id", "text"]] for name, table in tables.items()}
    for name, own in texts.items():
        first[name] = next((other for other in dict.fromkeys(first.values()) if texts[other].equals(own)), name)
    return first


def joined(tables: Mapping[str, pd.DataFrame], lexicon: Lexicon, how: str, *, control: Lexicon | None = None) -> Joined:
    """The words of a lexicon that the models read, less those of which it says 0 (no sentiment, never counted).

    how, control: as of lexicons.join, which is asked once for all models of one tokenizer.
    """
    first = readers(tables)
    of_reader = {name: _placed(tables[name], lexicon, how, control) for name in dict.fromkeys(first.values())}
    both = pd.concat({name: of_reader[first[name]] for name in tables}, axis=1)
    return Joined(both.index.to_frame(index=False), both.fillna(-1).to_numpy(dtype=int))


def _placed(table: pd.DataFrame, lexicon: Lexicon, how: str, control: Lexicon | None) -> pd.Series:
    """The rows of a table that are words of the lexicon: index word, spelling and the lexicon's quantities."""
    texts = table[["token_id", "text"]].assign(place=np.arange(len(table)))
    rows = lexicons.join(texts, lexicon, how, control=control)
    rows = rows[rows[lexicon.quantity] != 0]
    rows.attrs = {}  # pandas copies them with every step
    rows = rows.assign(spelling=rows.groupby("word").cumcount())
    quantities = [listed.quantity for listed in (lexicon, control) if listed]
    return rows.set_index(["word", "spelling", *quantities])["place"]


def rewards_at(places: np.ndarray, rewards: Sequence[np.ndarray]) -> np.ndarray:
    """Rewards (n, models, prompts) of joined words, NaN where a model lacks one; rewards: by model, (rows, prompts)."""
    found = np.stack([of_model[place] for of_model, place in zip(rewards, places.T, strict=True)], axis=1)
    found[places < 0] = np.nan
    return found


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


def rewards_of(tables: Mapping[str, pd.DataFrame], prompts: Sequence[str], option: str) -> list[np.ndarray]:
    """By model, rewards (rows, prompts) on the scale of an option."""
    return [table[list(prompts)].to_numpy() for table in scaled(tables, option).values()]


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
    slope, scale, residual = _reweighted(x - x.mean(), y.T.copy(), tuning, rounds)
    limit = tuning * scale
    within = (np.abs(residual) <= limit).astype(float)
    away = x[:, None] - (within * x[:, None]).sum(axis=0) / within.sum(axis=0)
    moved = away * residual.clip(-limit, limit) / (within * away**2).sum(axis=0)
    centred = x - x.mean()
    return slope, moved / (1 - 1 / len(x) - centred**2 / (centred @ centred))[:, None]


def _reweighted(c: np.ndarray, y: np.ndarray, tuning: float, rounds: int) -> tuple[np.ndarray, ...]:
    """Slope (models,), scale (models,) and residuals (n, models) of Huber's line; c: (n,), centred; y: (models, n).

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
    """The gaps of all paths of some tables for these prompts; what paths share is computed once, for all at once.

    wordings: the lists of prompts whose mean reward paths take; each list asks for one side.
    """

    def __init__(self, tables: Mapping[str, pd.DataFrame], prompts: Sequence[str], *, bing: bool = True):
        self.tables, self.scored, self.lexicons = tables, prompts_of(tables), grades(bing=bing)
        options = itertools.product(prompts, CHOICES["wordings"])
        self.wordings = list(dict.fromkeys(_wordings(prompt, option, self.scored) for prompt, option in options))
        self.rewards = functools.cache(functools.partial(rewards_of, tables, self.scored))
        self.joined, self.kept = functools.cache(self._joined), functools.cache(self._kept)
        self.sides, self.found = functools.lru_cache(2)(self._sides), functools.cache(self._found)

    def path(self, prompt: str, chosen: Mapping) -> Path:
        """The estimate of one path and its interval."""
        *key, definition, wordings, inference = (chosen[name] for name in CHOICES)
        place = self.wordings.index(_wordings(prompt, wordings, self.scored))
        return Path(*(float(values[place]) for values in self.found(*key, definition)[inference]))

    def _joined(self, lexicon: str, how: str) -> Joined:
        return joined(self.tables, self.lexicons[lexicon], how)

    def _kept(self, lexicon: str, words: str) -> Joined:
        """The words that a path keeps."""
        both = self.joined(lexicon, "published" if words == AUTHORS else "corrected")
        kept = _is_kept(both.words["word"], words)
        return Joined(both.words[kept], both.places[kept])

    def _words(self, lexicon: str, words: str, scale: str) -> Words:
        """The words that a path keeps, with rewards on its scale."""
        kept = self.kept(lexicon, words)
        rewards = rewards_at(kept.places, self.rewards(scale))
        if scale == OWN_WORDS:
            rewards = (rewards - np.nanmean(rewards, axis=0)) / np.nanstd(rewards, axis=0)
        return Words(pd.factorize(kept.words["word"])[0], kept.words["sentiment"].to_numpy(dtype=float), rewards)

    def _sides(self, lexicon: str, words: str, slope: str, scale: str) -> tuple[np.ndarray, np.ndarray]:
        """By list of wordings, the slopes among positive and negative words, (2, models, wordings), and the influence
        of words, (2, n, models, wordings)."""
        kept = self._words(lexicon, words, scale)
        asked = [[self.scored.index(prompt) for prompt in prompts] for prompts in self.wordings]
        mean = np.stack([kept.rewards[:, :, places].mean(axis=2) for places in asked], axis=2)
        n, *shape = mean.shape
        slopes, influence = np.empty((2, *shape)), np.zeros((2, kept.word.max() + 1, *shape))
        for side, rows in enumerate((kept.sentiment > 0, kept.sentiment < 0)):
            found, moved = fitted(kept.sentiment[rows], mean[rows].reshape(-1, np.prod(shape)), SLOPES[slope])
            slopes[side] = found.reshape(shape)
            influence[side] = summed(kept.word[rows], moved, kept.word.max() + 1).reshape(-1, *shape)
        return slopes, influence

    def _found(self, lexicon: str, words: str, slope: str, scale: str, definition: str) -> dict[str, tuple]:
        """By inference, the mean gap and the ends of its interval, each by list of wordings, (wordings,)."""
        slopes, influence = self.sides(lexicon, words, slope, scale)
        asked = np.array([polarity(prompts[0]) for prompts in self.wordings])
        directions = asked * np.sign(slopes) if definition == MAGNITUDE else np.ones_like(slopes)
        gaps = directions[0] * slopes[0] - directions[1] * slopes[1]
        found = crossed.intervals(gaps, directions[0] * influence[0] - directions[1] * influence[1])
        half = stats.t.ppf(0.975, len(gaps) - 1) * gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps))
        mean = found.estimate
        return {MODELS: (mean, mean - half, mean + half), CROSSED: (mean, found.ci_low, found.ci_high),
                THESE: (mean, found.these_low, found.these_high)}  # fmt: skip


def fitted(x: np.ndarray, y: np.ndarray, fit: Callable) -> tuple[np.ndarray, np.ndarray]:
    """Slopes (models,) and influence (n, models) of y (n, models) on x (n,), at once for models that read the same.

    y is NaN, and the influence 0, where a model lacks the word.
    """
    present, alike = ~np.isnan(y), {}
    for column in range(y.shape[1]):
        alike.setdefault(present[:, column].tobytes(), []).append(column)
    slopes, influence = np.empty(y.shape[1]), np.zeros_like(y)
    for columns in alike.values():
        rows = np.flatnonzero(present[:, columns[0]])
        slopes[columns], influence[np.ix_(rows, columns)] = fit(x[rows], y[np.ix_(rows, columns)])
    return slopes, influence


def summed(word: np.ndarray, influence: np.ndarray, words: int) -> np.ndarray:
    """Influence by word, (words, columns), of rows (n, columns): spellings of one word move an estimate together."""
    of_words = np.zeros((words, influence.shape[1]))
    if len(np.unique(word)) == len(word):  # one row per word, which is what takes no time
        of_words[word] = influence
    else:
        np.add.at(of_words, word, influence)
    return of_words
