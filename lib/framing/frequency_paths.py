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

from lib import crossed, display, lexicons, multiverse, prompts
from lib.framing import frequency, paths
from lib.multiverse import Path

RAW_SLOPES, WITH_CONTROL, CHANGE = "S3.freq.raw", "S3.freq.controlled", "S3.freq.change"
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
    """The slopes of all paths of some tables; what paths share is computed once.

    prompts: the cell of each prompt of the grid -> its place among the rewards.
    """

    def __init__(self, tables: Mapping[str, pd.DataFrame], *, bnc: bool = True):
        self.models, self.names = list(tables), prompts.with_polarity(paths.prompts_of(tables))
        self.prompts = {prompts.cell(name): number for number, name in enumerate(self.names)}
        self.scaled = functools.cache(functools.partial(paths.scaled, tables))
        self.lists = {WORDFREQ: lexicons.load("wordfreq")}
        if bnc:
            self.lists |= dict.fromkeys((HEADWORDS, FORMS), lexicons.load("bnc"))
        self.sentiments = {name: lexicons.load(name.lower()) for name in LEXICONS}
        self.joined, self.fitted = functools.cache(self._joined), functools.cache(self._fitted)

    def path(self, claim: str, chosen: Mapping) -> Path:
        """The estimate of one path and its interval."""
        how = tuple(chosen[name] for name in ("list", "words", "length", "offensive", "scale"))
        found = self.fitted(*how, chosen.get("control", "none"))
        number = self.prompts[cell_of(chosen)]
        slopes, influence = found.slopes[:, number], found.influence[:, :, number]
        if claim == CHANGE:
            without = self.fitted(*how, "none")
            slopes, influence = slopes - without.slopes[:, number], influence - without.influence[:, :, number]
        if chosen["scale"] == paths.RAW:
            return Path(slopes.mean(), *stats.ttest_1samp(slopes, 0).confidence_interval())
        one = crossed.crossed(pd.Series(slopes, self.models), pd.DataFrame(influence, columns=self.models))
        return Path(one.estimate, one.ci_low, one.ci_high)

    def _joined(self, listed: str, words: str, scale: str) -> pd.DataFrame:
        """Rewards: index word, spelling, frequency and, of a lexicon's words, sentiment; columns model, prompt."""
        control = self.sentiments.get(words)
        keys = ["word", "spelling", "frequency", *(["sentiment"] if control else [])]
        pieces = {}
        for name, table in self.scaled(scale).items():
            how = "published" if listed == HEADWORDS else "corrected"
            joined = lexicons.join(table, self.lists[listed], how, control=control)
            joined.attrs = {}  # pandas copies them with every step
            joined = joined[joined["frequency"] > 0]
            joined = joined.assign(spelling=joined.groupby("word").cumcount())
            pieces[name] = joined.set_index(keys)[self.names].astype(float)
        return pd.concat(pieces, axis=1)

    def _fitted(self, listed: str, words: str, length: str, offensive: str, scale: str, control: str) -> Fitted:
        """Slopes on log frequency of all models and prompts at once."""
        rows = self.joined(listed, words, scale)
        if offensive == "left out":
            rows = rows[~rows.index.get_level_values("word").map(display.is_offensive).to_numpy(dtype=bool)]
        rewards = rows.to_numpy()
        if scale == paths.OWN_WORDS:
            rewards = (rewards - np.nanmean(rewards, axis=0)) / np.nanstd(rewards, axis=0)
        words_only = frequency.log_frequency(rows.index.to_frame(index=False), base=10)
        x, *others = frequency.predictors(words_only, CONTROLS[control], length=length == LETTERS).to_numpy().T
        controls = np.column_stack([np.empty((len(x), 0)), *others])

        def fit(places: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            held = controls[places]
            return crossed.slope(x[places], y, held), crossed.slope_influence(x[places], y, held)

        slopes, influence = paths.fitted(np.arange(len(x)), rewards, fit)
        by_word = paths.summed(pd.factorize(words_only["word"])[0], influence)
        shape = (len(self.models), len(self.names))
        return Fitted(slopes.reshape(shape), by_word.reshape(-1, *shape))
