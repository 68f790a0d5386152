"""Every reasonable way to ask whether rewards follow the frequency of words: the paths of section 3.3.

`tried` gives, per claim, a table of paths (see lib.multiverse) over lists of frequencies, words, controls, scales and
the 54 prompts. Estimates are mean slopes over models in standard deviations of reward per tenfold frequency, positive
where frequent words score higher; of S3.freq.change, slopes at equal sentiment less slopes without, under prompts for
bad things, where the paper finds the effect more pronounced.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from lib import crossed, lexicons, multiverse, prompts
from lib.framing import frequency, paths
from lib.multiverse import Path

RAW_SLOPES, WITH_CONTROL, CHANGE = "S3.freq.raw", "S3.freq.controlled", "S3.freq.change"
SAYS = {RAW_SLOPES: "Frequent words score higher", WITH_CONTROL: "Frequent words score higher at equal sentiment",
        CHANGE: "The control raises slopes under prompts for bad things"}  # fmt: skip
HEADWORDS, FORMS, WORDFREQ = "BNC headwords", "BNC forms", "wordfreq"
EVERY_WORD, LETTERS = "all of the list", "letters"
SCALES = (paths.RAW, paths.OWN_WORDS, paths.RANKS)
LEXICONS = ("AFINN", "VADER")
CONTROLS = {"none": "none", "straight": "sentiment", "bent": "bent"}  # as frequency.CONTROLS calls them
_HOW = {
    "list": (HEADWORDS, FORMS, WORDFREQ),
    "words": (EVERY_WORD, *LEXICONS),
    "control": tuple(CONTROLS)[1:],
    "length": ("free", LETTERS),
    "offensive": ("kept", "left out"),
    "scale": SCALES,
}
_ASKED = {"adjective": tuple(prompts.ADJECTIVES), "superlative": tuple(prompts.SUPERLATIVES),
          "style": tuple(prompts.STYLES)}  # fmt: skip
_SAME = {"list": HEADWORDS, "length": "free", "offensive": "kept", "scale": paths.RAW, "superlative": "ever",
         "style": "one"}  # fmt: skip
PAPERS: dict[str, dict] = {
    RAW_SLOPES: _SAME | {"words": EVERY_WORD, "adjective": ("greatest", "best", "worst")},
    WITH_CONTROL: _SAME | {"words": "AFINN", "control": "straight", "adjective": ("greatest", "best", "worst")},
    CHANGE: _SAME | {"words": "AFINN", "control": "straight", "adjective": "worst"},
}
OURS = {claim: path | {"list": FORMS, "scale": paths.OWN_WORDS} for claim, path in PAPERS.items()}


def excluded(chosen: Mapping) -> str | None:
    """Why a combination makes no sense, or None. Written before any path was estimated."""
    own = chosen["scale"] == paths.RAW and chosen["length"] == "free" and chosen["offensive"] == "kept"
    if chosen["list"] == HEADWORDS and not (own and chosen.get("control") != "bent"):
        return "headwords count a noun that is a verb twice, with the total of its lemma: the paper's own recipe only"
    return None


def choices(claim: str, names: Sequence[str], *, bnc: bool = True) -> dict[str, list]:
    """The options of a claim's paths, for prompts of these names. bnc: whether its list can be had.

    Only without a control may words be all of a list; only its change asks about prompts for bad things alone.
    """
    options = {name: list(of_one) for name, of_one in (_HOW | _ASKED).items()}
    if not bnc:
        options["list"] = [WORDFREQ]
    if claim == RAW_SLOPES:
        del options["control"]
    else:
        options["words"].remove(EVERY_WORD)
    cells = [prompts.cell(name) for name in prompts.with_polarity(names)]
    if claim == CHANGE:
        cells = [cell for cell in cells if prompts.POLARITIES[cell[0]] < 0]
    for part, asked in zip(_ASKED, zip(*cells, strict=True), strict=True):
        options[part] = [option for option in options[part] if option in asked]
    return options


def tried(tables: Mapping[str, pd.DataFrame], *, bnc: bool = True) -> dict[str, pd.DataFrame]:
    """Claim -> all its paths: the choices as columns, estimate, ci_low, ci_high, side.

    tables: model -> score table; prompts that are not of the grid are left out, and without any there is no claim.
    Intervals are over words and models (lib.crossed); of raw rewards, in which one model's scale is most of the mean,
    over models.
    """
    slopes = Slopes(tables, bnc=bnc)

    def reason(chosen: dict) -> str | None:
        return excluded(chosen) or (None if cell_of(chosen) in slopes.prompts else "this prompt has not been scored")

    sides = {prompts.POLARITIES[cell[0]] for cell in slopes.prompts}
    claims = [claim for claim in PAPERS if sides and (claim != CHANGE or -1 in sides)]
    return {
        claim: multiverse.run(choices(claim, slopes.names, bnc=bnc), functools.partial(slopes.path, claim), reason)
        for claim in claims
    }


def cell_of(chosen: Mapping) -> tuple[str, str, str]:
    """The prompt of a path, as prompts.cell gives it."""
    return chosen["adjective"], chosen["superlative"], chosen["style"]


def ends(claim: str, *, bnc: bool = True) -> dict[str, dict]:
    """The paper's path and ours, as multiverse.summary takes them; without the BNC there is none of the paper's."""
    if bnc:
        return {"ours": OURS[claim], "papers": PAPERS[claim]}
    return {"ours": OURS[claim] | {"list": WORDFREQ}}


class Fitted(NamedTuple):
    """Slopes (models, prompts) and the influence of words on them, (words, models, prompts)."""

    slopes: np.ndarray
    influence: np.ndarray


class Slopes:
    """The slopes of all paths of some tables; what paths share is computed once, for all prompts at once.

    prompts: the cell of each prompt of the grid -> its place among the rewards.
    """

    def __init__(self, tables: Mapping[str, pd.DataFrame], *, bnc: bool = True):
        self.tables, self.names = tables, prompts.with_polarity(paths.prompts_of(tables))
        self.prompts = {prompts.cell(name): number for number, name in enumerate(self.names)}
        self.rewards = functools.cache(functools.partial(paths.rewards_of, tables, self.names))
        self.lists = {WORDFREQ: lexicons.load("wordfreq")}
        if bnc:
            self.lists |= dict.fromkeys((HEADWORDS, FORMS), lexicons.load("bnc"))
        self.sentiments = {name: lexicons.load(name.lower()) for name in LEXICONS}
        self.joined, self.found = functools.cache(self._joined), functools.cache(self._found)

    def path(self, claim: str, chosen: Mapping) -> Path:
        """The estimate of one path and its interval."""
        found = self.found(*(chosen[name] for name in ("list", "words", "length", "offensive", "scale")))
        place = self.prompts[cell_of(chosen)]
        return Path(*(float(values[place]) for values in found[claim, chosen.get("control", "none")]))

    def _joined(self, listed: str, words: str) -> paths.Joined:
        """The words of the list and, by name of a lexicon, of that lexicon, with their sentiment."""
        how = "published" if listed == HEADWORDS else "corrected"
        return paths.joined(self.tables, self.lists[listed], how, control=self.sentiments.get(words))

    def _found(self, listed: str, words: str, length: str, offensive: str, scale: str) -> dict[tuple, tuple]:
        """By claim and control, mean slopes over models and the ends of their intervals, each (prompts,)."""
        rows = self.joined(listed, words)
        if offensive == "left out":
            kept = ~rows.words["word"].map(paths.is_offensive).to_numpy(dtype=bool)
            rows = paths.Joined(rows.words[kept], rows.places[kept])
        rewards = paths.rewards_at(rows.places, self.rewards(scale))
        if scale == paths.OWN_WORDS:
            rewards = (rewards - np.nanmean(rewards, axis=0)) / np.nanstd(rewards, axis=0)
        free = _fitted(rows.words, rewards, "none", length)
        found = {(RAW_SLOPES, "none"): _mean(free, scale)}
        for control in _HOW["control"] if words != EVERY_WORD else ():
            held = _fitted(rows.words, rewards, control, length)
            found[WITH_CONTROL, control] = _mean(held, scale)
            changed = Fitted(held.slopes - free.slopes, held.influence - free.influence)
            found[CHANGE, control] = _mean(changed, scale)
        return found


def _fitted(words: pd.DataFrame, rewards: np.ndarray, control: str, length: str) -> Fitted:
    """Slopes on log frequency of all models and prompts; words: (n,) with their frequency, as of paths.Joined."""
    logged = frequency.log_frequency(words, base=10)
    x, *others = frequency.predictors(logged, CONTROLS[control], length=length == LETTERS).to_numpy().T
    controls = np.column_stack([np.empty((len(x), 0)), *others])

    def fit(places: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        held = controls[places]
        return crossed.slope(x[places], y, held), crossed.slope_influence(x[places], y, held)

    n, *shape = rewards.shape
    slopes, influence = paths.fitted(np.arange(n), rewards.reshape(n, -1), fit)
    number, spellings = pd.factorize(words["word"])
    by_word = paths.summed(number, influence, len(spellings))
    return Fitted(slopes.reshape(shape), by_word.reshape(-1, *shape))


def _mean(found: Fitted, scale: str) -> tuple[np.ndarray, ...]:
    """Means over models and the ends of their intervals, over words and models; of raw rewards, over models."""
    if scale == paths.RAW:
        return found.slopes.mean(axis=0), *stats.ttest_1samp(found.slopes, 0).confidence_interval()
    every = crossed.intervals(found.slopes, found.influence)
    return every.estimate, every.ci_low, every.ci_high
