"""What a card measures beyond its own words: swaps in ordinary answers, and a reader's own lists of
words.

data/real_replies.csv holds twenty questions with a good and a bad answer, and the good one with one
thing changed.
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from ..paper import (
    DATA,
    InputError,
    RewardModel,
    crossed,
    imports,
    resampling,
    vocabulary,
)
from . import measures, random_heads

SWAPS = {
    "identity": "an identity term is added",
    "dialect": "written in African American English",
    "sentiment": "a positive word becomes negative",
    "length": "an empty sentence is added",
}
FEWEST = 5  # words of a list
CHANGE = ("change", "ci_low", "ci_high", "flips", "flips_low", "flips_high", "n")


def score(model: RewardModel, bos: str = "single") -> pd.DataFrame:
    """Return the rewards of all real replies: question x (head, version); head 0 is the model's
    own (random_heads).
    """
    texts = pd.read_csv(DATA / "real_replies.csv")
    scored = []
    for asked, rows in texts.groupby("prompt", sort=False):
        replies = list(rows["reply"])
        scored.append(vocabulary.score_replies(model, asked, replies, bos=bos))
    rewards = np.concatenate(scored).astype(float)
    heads = pd.DataFrame(rewards.reshape(len(texts), -1))
    return texts.join(heads).pivot_table(list(heads), "prompt", "version")


def swaps(rewards: pd.DataFrame) -> pd.DataFrame:
    """Return what each swap does, from the rewards of `score`: a row for each of SWAPS.

    - change: mean change in reward with its t interval over questions and the band of random heads.
      Its unit is the root mean square difference between the good and the bad answer.
    - flips: the probability that the change in one random question reverses the preference between
      the two answers to another, with a bootstrap interval over questions
    - p_corrected: adjusted for all swaps, as measures.corrected does
    """
    own = rewards[0]
    margins = (own["good"] - own["bad"]).to_numpy()
    unit = measures.root_mean_square(margins)
    good = rewards.xs("good", axis=1, level=1)
    rows = {}
    of_own = []
    of_heads = {}
    for name in SWAPS:
        change = rewards.xs(name, axis=1, level=1) - good
        of_own.append(change[0].to_numpy())
        of_heads[name] = change.mean() / unit
        rows[name] = _change(of_own[-1], margins, unit)
    band = random_heads.band(pd.DataFrame(of_heads).T)
    table = pd.DataFrame.from_dict(rows, orient="index").join(band)
    p = measures.p_of_mean(np.stack(of_own))
    p = random_heads.larger_p(p, table["random_p"])
    return table.assign(p_corrected=stats.false_discovery_control(p))


def _change(change: np.ndarray, margins: np.ndarray, unit: float) -> dict[str, float]:
    """Return a swap's row without its p-value, from changes and margins of all questions, (n,)."""
    swapped = margins + change[:, None]  # (swapped, preferred)
    flipped = np.sign(margins) != np.sign(swapped)

    def share(sample: np.ndarray) -> float:
        return flipped[np.ix_(sample, sample)].mean()

    n = len(change)
    half = stats.t.ppf(0.975, n - 1) * stats.sem(change)
    ends = np.array([0, -half, half]) + change.mean()
    shares = resampling.interval(resampling.bootstrap(share, n, 1000))
    found = [*ends / unit, flipped.mean(), *map(float, shares), n]
    return dict(zip(CHANGE, found, strict=True))


def read_lists(file: str | Path) -> pd.DataFrame:
    """Return the lists of a csv with columns word and list: words x lists, True where a word is in
    a list.

    InputError for a file without these columns, for a cell that is empty or holds what cannot be
    seen, for a word that a list holds in two cases, and for a list of fewer than FEWEST different
    words.
    """
    rows = imports.read_columns(file, "word", "list").map(str.strip)
    # what joins letters, as in Persian
    seen = rows.map(lambda cell: re.sub(r"(?<=\w)[\u200c\u200d](?=\w)", "", cell))
    is_clear = (seen != "") & seen.map(str.isprintable)
    if len(unclear := rows.index[~is_clear.all(axis=1)]):
        raise InputError(
            f"{file} line {unclear[0]} lacks a word or its list, or holds what cannot be seen; "
            "correct it"
        )
    plain = rows["word"].str.normalize("NFKC").str.casefold()
    different = rows.assign(plain=plain).drop_duplicates(["word", "list"])
    alike = different.duplicated(["plain", "list"])
    if len(twice := alike.index[alike]):
        raise InputError(
            f"{file} line {twice[0]} has a word that its list holds in another spelling; keep one"
        )
    # with accents as lexicons have
    accented = rows["word"].str.normalize("NFC")
    lists = pd.crosstab(accented, rows["list"]).astype(bool)
    if len(short := lists.columns[lists.sum() < FEWEST]):
        raise InputError(
            f"{file}: list {short[0]!r} needs at least {FEWEST} different words"
        )
    return lists


def own_lists(
    model: RewardModel, asked: pd.DataFrame, lists: pd.DataFrame, bos: str = "single"
) -> pd.DataFrame:
    """Return how much more a model rewards each list than the other words, at equal frequency,
    length and sentiment.

    The model has its random heads. `asked` is words of a card x heads, under `greatest`. `lists`
    comes from `read_lists`. Estimates are in standard deviations of reward, with intervals over
    words and the BAND of random heads.
    """
    further = list(lists.index.difference(asked.index))
    if further:
        asked = pd.concat([asked, _rewards_of_words(model, further, bos)])
    words = asked.index
    held = _held_equal(words)
    # random heads in the units of the model's own
    centred = asked - asked.mean()
    values = centred.to_numpy() / asked[0].std()
    rows = {}
    of_heads = {}
    for name in lists:
        is_listed = words.isin(lists.index[lists[name]])
        listed = is_listed.astype(float)
        slopes = crossed.slope(listed, values, held)
        of_heads[name] = slopes
        moved = crossed.slope_influence(listed, values[:, :1], held)
        measured = crossed.Measured(pd.Series(slopes[:1]), pd.DataFrame(moved))
        own = measured.by_model().loc[0, measures.COLUMNS[:3]]
        rows[name] = [*own, is_listed.sum()]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=measures.COLUMNS)
    band = random_heads.band(pd.DataFrame(of_heads).T)
    return table.join(band)


def _rewards_of_words(model: RewardModel, words: list[str], bos: str) -> pd.DataFrame:
    """Return the rewards of words, typed as replies to the first prompt: words x heads."""
    prompt = measures.prompts()[measures.PROMPTS[0]]
    scored = vocabulary.score_replies(model, prompt, words, bos=bos)
    rewards = scored.astype(float).reshape(len(words), -1)
    return pd.DataFrame(rewards, words)


def _held_equal(words: pd.Index) -> np.ndarray:
    """Return what is held equal between words, (words, 4): frequency, length, sentiment, and
    whether VADER rates the word.
    """
    frequency = measures.lexicon("wordfreq")
    sentiment = measures.lexicon("vader")
    known = frequency.reindex(words).fillna(frequency.min())
    columns = [
        np.log10(known),
        words.str.len(),
        sentiment.reindex(words).fillna(0.0),
        words.isin(sentiment.index),
    ]
    return np.column_stack(columns).astype(float)
