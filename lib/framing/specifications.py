"""Every reasonable way to ask whether rewards follow sentiment more steeply on the requested side.

`Gaps` estimates a table of specifications for each prompt (see lib.stats.multiverse). Each specification takes one
option of each of CHOICES. The unit of all estimates is standard deviations of reward per point of a grade from -5 to 5.
They are positive where rewards follow sentiment more steeply on the requested side (see effects.gaps).
"""

import functools
import itertools
from collections.abc import Mapping, Sequence

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
OF_GAPS = ("lexicon", "words", "slope", "scale", "definition")  # choices that decide what the gap of a model is
PAPERS = {"lexicon": "AFINN", "words": AUTHORS, "slope": OLS, "scale": RAW, "definition": SIGNED,
          "wordings": ONE_PROMPT, "inference": MODELS}  # fmt: skip
OURS = PAPERS | {"words": ONE, "scale": OWN_WORDS, "inference": CROSSED}
WIDEST = 5  # grades run from -5 to 5, as AFINN's; VADER's run from -4 to 4
COMMON_FROM = 1.0  # per million words; rarer words are split into pieces, and raters hardly know them
STILL = 1e-13  # of the scale: a slope that moves less in a round has converged
FEWEST = 3  # words of a grade; the error of a mean of fewer is not known


# --- the question -------------------------------------------------------------------------------------------------


def excluded(chosen: Mapping) -> str | None:
    """Return why a combination makes no sense, or None. Written before any specification was estimated."""
    if chosen["scale"] == RAW and chosen["inference"] != MODELS:
        return "one model's scale dominates a mean of raw rewards, so only the paper's own test takes them"
    return None


def grades(*, bing: bool = True) -> dict[str, Lexicon]:
    """Return the graded lexicons, each from -5 to 5.

    They are AFINN, VADER, their mean where both have the word, and VADER where Bing has the word with the same sign.
    """
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

    `choices`: CHOICES less the options that these tables cannot tell apart. `ours` and `papers`: the options of two
    specifications. `wordings`: the lists of prompts whose mean reward specifications take.
    """

    def __init__(self, tables: Mapping[str, pd.DataFrame], prompts: Sequence[str], *, bing: bool = True):
        """Read score tables by model. `bing`: whether Bing's list of words can be used."""
        self.pool, self.lexicons, self.prompts = Pool(tables, prompts_of(tables)), grades(bing=bing), prompts
        options = itertools.product(prompts, CHOICES["wordings"])
        self.wordings = list(dict.fromkeys(_wordings(*option, self.pool.prompts) for option in options))
        self.slopes, self.gaps = functools.lru_cache(2)(self._slopes), functools.cache(self._gaps)
        self.choices = {name: list(options) for name, options in CHOICES.items()} | {"lexicon": list(self.lexicons)}
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
            prompt: multiverse.run(
                self.choices, functools.partial(self.estimate, prompt), excluded, f"S3.slope.{prompt}"
            )
            for prompt in self.prompts
        }

    def summaries(self, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
        """Return a row per prompt, as from multiverse.summary, for the tables of `run`."""
        joint = {f"S3.slope.{prompt}": self.joint_test(table, prompt) for prompt, table in tables.items()}
        ours, papers = dict.fromkeys(joint, self.ours), dict.fromkeys(joint, self.papers)
        named = dict(zip(joint, tables.values(), strict=True))
        return multiverse.summaries(named, ours=ours, papers=papers, joint=joint)

    def joint_test(self, table: pd.DataFrame, prompt: str) -> float:
        """Return multiverse.joint_p_of_signs; specifications that differ only in their interval are one."""
        ways = table[multiverse.choices_of(table)].assign(inference=MODELS).drop_duplicates().to_dict("records")
        return multiverse.joint_p_of_signs(np.stack([self.by_model(prompt, chosen) for chosen in ways], axis=1))

    def estimate(self, prompt: str, chosen: Mapping) -> Specification:
        """Return the estimate of one specification and its interval."""
        _, means = self.gaps(*(chosen[name] for name in OF_GAPS))
        return Specification(*(float(ends[self._place(prompt, chosen)]) for ends in means[chosen["inference"]]))

    def by_model(self, prompt: str, chosen: Mapping) -> np.ndarray:
        """Return the gap of each model by one specification, (models,)."""
        gaps, _ = self.gaps(*(chosen[name] for name in OF_GAPS))
        return gaps[:, self._place(prompt, chosen)]

    def _place(self, prompt: str, chosen: Mapping) -> int:
        return self.wordings.index(_wordings(prompt, chosen["wordings"], self.pool.prompts))

    def _slopes(self, lexicon: str, words: str, slope: str, scale: str) -> tuple[np.ndarray, np.ndarray]:
        """Return slopes among positive and among negative words, (2, models, wordings), and their influences."""
        how = "published" if words == AUTHORS else "corrected"
        listed, rewards = self.pool.words(self.lexicons[lexicon], how, words, scale)
        places = [[self.pool.prompts.index(prompt) for prompt in prompts] for prompts in self.wordings]
        mean = np.stack([rewards[:, :, some].mean(axis=2) for some in places], axis=2)
        sentiment = listed["sentiment"].to_numpy(dtype=float)
        up, down = (effects.fitted(listed["word"], np.where(side, sentiment, np.nan), mean, SLOPES[slope])
                    for side in (sentiment > 0, sentiment < 0))  # fmt: skip
        return np.stack([up[0], down[0]]), np.stack([up[1], down[1]])

    def _gaps(self, lexicon: str, words: str, slope: str, scale: str, definition: str) -> tuple[np.ndarray, dict]:
        """Return gaps (models, wordings), and inference -> the mean gap and the ends of its interval."""
        slopes, influence = self.slopes(lexicon, words, slope, scale)
        asked = np.array([polarity(prompts[0]) for prompts in self.wordings])
        directions = asked * np.sign(slopes) if definition == MAGNITUDE else np.ones_like(slopes)
        gaps = directions[0] * slopes[0] - directions[1] * slopes[1]
        ends = crossed.intervals(gaps, directions[0] * influence[0] - directions[1] * influence[1])
        over_models = stats.ttest_1samp(gaps, 0).confidence_interval()
        return gaps, {MODELS: (ends.estimate, *over_models), CROSSED: (ends.estimate, ends.ci_low, ends.ci_high),
                      THESE: (ends.estimate, ends.these_low, ends.these_high)}  # fmt: skip


# --- words that several models read -------------------------------------------------------------------------------


@functools.cache
def common_words() -> frozenset[str]:
    """Return the words that occur at least once in a million, by wordfreq."""
    words = lexicons.load("wordfreq").corrected
    return frozenset(words.loc[words["frequency"] >= COMMON_FROM, "word"])


def prompts_of(tables: Mapping[str, pd.DataFrame]) -> tuple[str, ...]:
    """Return the prompts that the tables hold, in their order."""
    return tuple(scores.prompt_names(next(iter(tables.values()))))


def readers(tables: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Return model -> the first model with the same texts by the same token ids."""
    texts, first = {name: table[["token_id", "text"]] for name, table in tables.items()}, {}
    for name, own in texts.items():
        first[name] = next((other for other in first.values() if texts[other].equals(own)), name)
    return first


class Pool:
    """Score tables that many specifications read. Each lexicon is joined once, and each scale is computed once."""

    def __init__(self, tables: Mapping[str, pd.DataFrame], prompts: Sequence[str]):
        """Read the tables: model -> score table with these prompts."""
        self.tables, self.prompts, self.readers = tables, tuple(prompts), readers(tables)
        self.joined, self.scaled = functools.cache(self._joined), functools.cache(self._scaled)

    def words(
        self, lexicon: Lexicon, how: str, words: str, scale: str, control: Lexicon | None = None
    ) -> tuple[pd.DataFrame, np.ndarray]:
        """Return the words that an option keeps, and their scaled rewards (n, models, prompts); NaN means missing.

        There is a row per word, or per spelling of the authors' join. Columns: word, spelling (a number) and the
        lexicons' quantities. `how` and `control`: as in lexicons.join.
        """
        listed, places = self.joined(lexicon, how, control)
        if words in (CLEAN, COMMON):
            kept = ~listed["word"].map(display.is_offensive).to_numpy(dtype=bool)
            # Not isin, which would copy the whole list of common words each time
            kept &= (words == CLEAN) | listed["word"].map(common_words().__contains__).to_numpy(dtype=bool)
            listed, places = listed[kept], places[kept]
        rewards = np.stack([own[place] for own, place in zip(self.scaled(scale), places.T, strict=True)], axis=1)
        rewards[places < 0] = np.nan
        if scale == OWN_WORDS:
            rewards = (rewards - np.nanmean(rewards, axis=0)) / np.nanstd(rewards, axis=0)
        return listed, rewards

    def _joined(self, lexicon: Lexicon, how: str, control: Lexicon | None) -> tuple[pd.DataFrame, np.ndarray]:
        """Return the words that are not neutral, and the row of each word in each model's table, or -1."""
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

        Raw rewards of all models are divided by one number, the root of their mean variance.
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
        return rewards  # `words` standardises them over the words of the lexicon


# --- slopes -------------------------------------------------------------------------------------------------------


def huber(x: np.ndarray, y: np.ndarray, tuning: float = 1.345, rounds: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """Return Huber's M-estimate of the slope, which gives residuals beyond 1.345 SD less weight, and its influence.

    `x`: (n,). `y`: (n, models). The scale is the median absolute residual over .6745, computed anew in every round.
    This is statsmodels' RLM for many models at once.
    """
    centred, slope, scale = x - x.mean(), np.inf, np.inf
    rewards = y.T.copy()  # (models, n)
    weights = np.ones_like(rewards)
    for _ in range(rounds):
        total, of_x, of_xx = weights.sum(axis=1), weights @ centred, weights @ centred**2
        weighted = weights * rewards
        of_y, of_xy = weighted.sum(axis=1), weighted @ centred
        before = slope, scale
        slope = (of_xy - of_x * of_y / total) / (of_xx - of_x**2 / total)
        residual = rewards - ((of_y - slope * of_x) / total)[:, None] - slope[:, None] * centred
        scale = np.median(np.abs(residual), axis=1) / stats.norm.ppf(0.75)
        if (np.maximum(abs(slope - before[0]), abs(scale - before[1])) <= STILL * scale).all():
            break
        limit = tuning * np.maximum(scale, 1e-12)[:, None]
        weights = limit / np.maximum(np.abs(residual), limit)
    residual, limit = residual.T, tuning * scale
    within = (np.abs(residual) <= limit).astype(float)
    away = x[:, None] - (within * x[:, None]).sum(axis=0) / within.sum(axis=0)
    moved = away * residual.clip(-limit, limit) / (within * away**2).sum(axis=0)
    return slope, moved / (1 - 1 / len(x) - centred**2 / (centred @ centred))[:, None]


def of_grades(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the slope of the mean rewards of grades on the grades, and its influence; each grade counts once.

    Grades are rounded away from zero to whole ones. A grade with fewer than three words is left out.
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
