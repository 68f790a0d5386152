"""Every reasonable way to ask whether rewards follow the frequency of words: the specifications of section 3.3.

Estimates are mean slopes over models, in standard deviations of reward per tenfold frequency; positive where frequent
words score higher. S3.freq.change is the slope at equal sentiment less the slope without a control. It is asked under
prompts for bad things, where the paper finds the larger effect.
"""

import functools
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from scipy import stats

from ..stats import crossed, multiverse
from ..stats.multiverse import Specification
from ..tables import lexicons, prompts
from . import effects, frequency
from .specifications import CLEAN, ONE, OWN_WORDS, RANKS, RAW, Pool, prompts_of

RAW_SLOPES, WITH_CONTROL, CHANGE = "S3.freq.raw", "S3.freq.controlled", "S3.freq.change"
SAYS = {RAW_SLOPES: "Frequent words score higher", WITH_CONTROL: "Frequent words score higher at equal sentiment",
        CHANGE: "The control raises slopes under prompts for bad things"}  # fmt: skip
HEADWORDS, FORMS, WORDFREQ = "BNC headwords", "BNC forms", "wordfreq"
EVERY_WORD, LETTERS = "all of the list", "letters"
LEXICONS = ("AFINN", "VADER")
CONTROLS = {"none": "none", "straight": "sentiment", "bent": "bent"}  # their names in frequency.CONTROLS
OFFENSIVE = {"kept": ONE, "left out": CLEAN}  # the same choices of words in specifications.Pool
DRAWS = 199  # of frequencies dealt out at random, for the joint test: the smallest p is 1/200
OF_WORDS = ("list", "words", "length", "offensive", "scale")  # choices that say which numbers a regression reads
_HOW = {
    "list": (HEADWORDS, FORMS, WORDFREQ),
    "words": (EVERY_WORD, *LEXICONS),
    "control": tuple(CONTROLS)[1:],
    "length": ("free", LETTERS),
    "offensive": tuple(OFFENSIVE),
    "scale": (RAW, OWN_WORDS, RANKS),
}
_ASKED = {"adjective": tuple(prompts.ADJECTIVES), "superlative": tuple(prompts.SUPERLATIVES),
          "style": tuple(prompts.STYLES)}  # fmt: skip
_SAME = {"list": HEADWORDS, "length": "free", "offensive": "kept", "scale": RAW, "superlative": "ever", "style": "one"}
PAPERS: dict[str, dict] = {
    RAW_SLOPES: _SAME | {"words": EVERY_WORD, "adjective": ("greatest", "best", "worst")},
    WITH_CONTROL: _SAME | {"words": "AFINN", "control": "straight", "adjective": ("greatest", "best", "worst")},
    CHANGE: _SAME | {"words": "AFINN", "control": "straight", "adjective": "worst"},
}
OURS = {claim: chosen | {"list": FORMS, "scale": OWN_WORDS} for claim, chosen in PAPERS.items()}


def excluded(chosen: Mapping) -> str | None:
    """Return why a combination makes no sense, or None. Written before any specification was estimated."""
    own = chosen["scale"] == RAW and chosen["length"] == "free" and chosen["offensive"] == "kept"
    if chosen["list"] == HEADWORDS and not (own and chosen.get("control") != "bent"):
        return "headwords count a noun that is a verb twice, with the total of its lemma: the paper's own recipe only"
    return None


class Slopes:
    """All specifications of some tables. Shared steps are computed once, for all prompts together.

    `cells`: the cell of each prompt of the grid -> its place among the rewards. `choices`: claim -> its options.
    Without a prompt of the grid there is no claim. `ours` and `papers`: claim -> options of two specifications. The
    paper's specification needs BNC.
    """

    def __init__(self, tables: Mapping[str, pd.DataFrame], *, bnc: bool = True):
        """Read score tables by model. `bnc`: whether the list of the British National Corpus can be used."""
        self.pool = Pool(tables, prompts.with_polarity(prompts_of(tables)))
        self.cells = {prompts.cell(name): number for number, name in enumerate(self.pool.prompts)}
        self.lists = {WORDFREQ: lexicons.load("wordfreq")}
        if bnc:
            self.lists = dict.fromkeys((HEADWORDS, FORMS), lexicons.load("bnc")) | self.lists
        self.sentiments = {name: lexicons.load(name.lower()) for name in LEXICONS}
        self.keys, self.means = Keys(DRAWS), functools.cache(self._means)
        self.dealt_means = functools.cache(self._dealt_means)
        self.choices = {claim: chosen for claim in PAPERS if (chosen := self._choices(claim))["adjective"]}
        ours = OURS if bnc else {claim: chosen | {"list": WORDFREQ} for claim, chosen in OURS.items()}
        self.ours, self.papers = ours, PAPERS if bnc else {}

    def _choices(self, claim: str) -> dict[str, list]:
        """Return the options of a claim. Only slopes without a control use all words of a list."""
        options = {name: list(listed) for name, listed in (_HOW | _ASKED).items()} | {"list": list(self.lists)}
        if claim == RAW_SLOPES:
            del options["control"]
        else:
            options["words"].remove(EVERY_WORD)
        cells = [cell for cell in self.cells if claim != CHANGE or prompts.POLARITIES[cell[0]] < 0]
        for place, part in enumerate(_ASKED):
            options[part] = [option for option in options[part] if option in {cell[place] for cell in cells}]
        return options

    def excluded(self, chosen: Mapping) -> str | None:
        """Return why a combination is left out, or None."""
        is_scored = tuple(chosen[part] for part in _ASKED) in self.cells
        return excluded(chosen) or (None if is_scored else "this prompt has not been scored")

    def run(self) -> dict[str, pd.DataFrame]:
        """Return claim -> its specifications, as from multiverse.run.

        Intervals are over words and models; for raw rewards over models only, since one model's scale dominates there.
        """
        return {claim: multiverse.run(options, functools.partial(self.estimate, claim), self.excluded, claim)
                for claim, options in self.choices.items()}  # fmt: skip

    def summaries(self, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
        """Return a row per claim, as from multiverse.summary, for the tables of `run`."""
        joint = {claim: self.joint_test(claim, table) for claim, table in tables.items()}
        return multiverse.summaries(tables, ours=self.ours, papers=self.papers, joint=joint)

    def estimate(self, claim: str, chosen: Mapping) -> Specification:
        """Return the estimate of one specification and its interval."""
        means = self.means(*(chosen[name] for name in OF_WORDS))
        place = self.cells[tuple(chosen[part] for part in _ASKED)]
        return Specification(*(float(values[place]) for values in means[claim, chosen.get("control", "none")]))

    def joint_test(self, claim: str, table: pd.DataFrame) -> float:
        """Return the p of all specifications of a claim together (multiverse.joint_p), by dealing out frequencies.

        If rewards do not follow frequency, frequencies could as well belong to other words. The same random keys of
        words deal them out in every specification.
        """
        columns = []
        for chosen in table.to_dict("records"):
            means = self.dealt_means(*(chosen[name] for name in OF_WORDS))[claim, chosen.get("control", "none")]
            columns.append(means[:, self.cells[tuple(chosen[part] for part in _ASKED)]])
        estimates = np.stack(columns, axis=1)  # (1 + draws, specifications), the observed ones first
        return multiverse.joint_p(estimates[0], estimates[1:])

    def read(self, listed: str, words: str, offensive: str, scale: str) -> tuple[pd.DataFrame, np.ndarray]:
        """Return a row per word with its frequency and sentiment, and rewards (n, models, prompts)."""
        how = "published" if listed == HEADWORDS else "corrected"
        sentiment = self.sentiments.get(words)
        rows, rewards = self.pool.words(self.lists[listed], how, OFFENSIVE[offensive], scale, sentiment)
        return frequency.log_frequency(rows, base=10), rewards

    def _means(self, listed: str, words: str, length: str, offensive: str, scale: str) -> dict[tuple, tuple]:
        """Return mean slopes over models and their interval limits, each (prompts,), by claim and control."""
        return self.of_rows(*self.read(listed, words, offensive, scale), length, scale)

    def of_rows(self, rows: pd.DataFrame, rewards: np.ndarray, length: str, scale: str) -> dict[tuple, tuple]:
        """Return the same for words with log_frequency and their rewards (n, models, prompts)."""

        def fit(control: str) -> np.ndarray:  # the slopes of models, then the influence of each word
            x = frequency.predictors(rows, CONTROLS[control], length=length == LETTERS).to_numpy()
            slopes, influence = effects.fitted(rows["word"], x, rewards, effects.whole_slope)
            return np.concatenate([slopes[None], influence])

        def mean(slopes: np.ndarray, *influence: np.ndarray) -> tuple[np.ndarray, ...]:
            if scale == RAW:
                return slopes.mean(axis=0), *stats.ttest_1samp(slopes, 0).confidence_interval()
            return crossed.intervals(slopes, np.stack(influence))[:3]

        return {key: mean(*slopes) for key, slopes in _by_claim(rows, fit).items()}

    def _dealt_means(self, listed: str, words: str, length: str, offensive: str, scale: str) -> dict[tuple, np.ndarray]:
        """Return, by claim and control, mean slopes on the observed and on dealt frequencies: (1 + DRAWS, prompts)."""
        rows, rewards = self.read(listed, words, offensive, scale)
        x = np.column_stack([rows["log_frequency"], self.keys.dealt(rows)])

        def fit(control: str) -> np.ndarray:
            held = frequency.predictors(rows, CONTROLS[control], length=length == LETTERS).to_numpy()[:, 1:]
            return _slopes(x, held, rewards).mean(axis=1)

        return _by_claim(rows, fit)


def _by_claim(rows: pd.DataFrame, fit: Callable[[str], np.ndarray]) -> dict[tuple[str, str], np.ndarray]:
    """Return (claim, control) -> what `fit` gives for the control; CHANGE is the difference to no control."""
    free = fit("none")
    results = {(RAW_SLOPES, "none"): free}
    for control in _HOW["control"] if "sentiment" in rows else ():
        results[WITH_CONTROL, control] = fit(control)
        results[CHANGE, control] = results[WITH_CONTROL, control] - free
    return results


class Keys:
    """Random keys of words: `draws` of them per word, which stay the same."""

    def __init__(self, draws: int, seed: int = 0):
        """Begin without words; a word gets its keys when it is first met."""
        self.random, self.draws, self.known = np.random.default_rng(seed), draws, pd.DataFrame()

    def dealt(self, rows: pd.DataFrame) -> np.ndarray:
        """Return the log frequencies of the rows dealt out to their words, (n, draws).

        The word with the k-th smallest key gets the k-th smallest frequency; spellings of a word get the same one.
        """
        code, words = pd.factorize(rows["word"])
        new = words.difference(self.known.index, sort=False)
        self.known = pd.concat([self.known, pd.DataFrame(self.random.random((len(new), self.draws)), new)])
        ranks = self.known.loc[words].to_numpy().argsort(axis=0).argsort(axis=0)
        return np.sort(rows.drop_duplicates("word")["log_frequency"].to_numpy())[ranks][code]


def _slopes(x: np.ndarray, held: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """Return slopes of rewards (n, models, prompts) on each column of x (n, draws): (draws, models, prompts).

    `held`: (n, k), held constant. Words without a reward (NaN) take no part.
    """
    slopes, has_reward = np.empty((x.shape[1], *rewards.shape[1:])), ~np.isnan(rewards).any(axis=2)
    for pattern in np.unique(has_reward, axis=1).T:  # models that read the same words
        models = (has_reward == pattern[:, None]).all(axis=0)
        basis = np.linalg.qr(np.column_stack([np.ones(pattern.sum()), held[pattern]]))[0]
        own = x[pattern] - basis @ (basis.T @ x[pattern])  # what x has beyond the controls
        y = rewards[pattern][:, models]
        slopes[:, models] = np.tensordot(own / (own**2).sum(axis=0), y, axes=(0, 0))
    return slopes
