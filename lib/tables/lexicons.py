"""Lexicons of sentiment and of word frequency, and their joins to a score table, as the authors
did or corrected.
"""

import functools
import json
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from operator import itemgetter

import pandas as pd

from .. import InputError
from . import downloads, scores

TIDYTEXT = "juliasilge/tidytext", "data-raw/sentiments.csv"
BNC = (
    "brchristian/reward_model_optimal_pessimal_tokens",
    "data/corpora/1_1_all_alpha.txt",
)
# a table in which quotes are letters, and no word is a missing value
TABBED = {"sep": "\t", "na_filter": False, "quoting": 3}
RATERS = [f"rater_{i}" for i in range(1, 11)]


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Words and one number for each: a `sentiment`, or a `frequency` per million words."""

    name: str  # in tables and figures
    quantity: str  # the name of the number
    corrected: pd.DataFrame  # one row per word, with the columns word and quantity
    # the rows that the authors joined, which may hold a word more than once
    published: pd.DataFrame


def load(name: str, instead: str | None = None) -> Lexicon:
    """Return the lexicon of this name (see LOADERS). If it cannot be fetched, print a line and
    return the one to use instead; InputError if none is named.
    """
    try:
        return LOADERS[name]()
    except downloads.Unreachable as error:
        if instead is None:
            raise
        print(f"not to be had, so {load(instead).name} instead: {error}", flush=True)
        return load(instead)


@functools.cache
def _afinn() -> Lexicon:
    """Return AFINN-111 (Nielsen 2011) from the afinn package: 2,477 words and phrases, integers
    from -5 to 5.
    """
    file = resources.files("afinn") / "data" / "AFINN-111.txt"
    words = pd.read_csv(file, names=["word", "sentiment"], **TABBED)
    words = words.astype({"sentiment": float})
    return Lexicon("AFINN", "sentiment", words, words)


def _bing() -> Lexicon:
    """Return Bing (Liu) as tidytext holds it. Three words have both signs as published; they are
    left out corrected.
    """
    rows = pd.read_csv(downloads.fetch(*TIDYTEXT), dtype=str, keep_default_na=False)
    signs = {"positive": 1.0, "negative": -1.0}
    rows["sentiment"] = rows["sentiment"].map(signs)
    corrected = rows.drop_duplicates("word", keep=False, ignore_index=True)
    return Lexicon("Bing", "sentiment", corrected, rows)


def _vader() -> Lexicon:
    """Return VADER (Hutto and Gilbert 2014): the mean of ten ratings from -4 to 4."""
    words = vader_ratings()[["word", "sentiment"]]
    return Lexicon("VADER", "sentiment", words, words)


def vader_ratings() -> pd.DataFrame:
    """Return VADER with its ten raters: columns word, sentiment (their mean as VADER states it),
    rater_1 ... rater_10.

    Ratings are integers from -4 to 4. Of entries that are equal in small letters the last counts,
    as in VADER itself.
    """
    file = resources.files("vaderSentiment") / "vader_lexicon.txt"
    columns = ["word", "sentiment", "deviation", "ratings"]
    table = pd.read_csv(file, names=columns, **TABBED)
    of_raters = pd.DataFrame([*map(json.loads, table["ratings"])], columns=RATERS)
    ratings = table[["word", "sentiment"]].join(of_raters)
    ratings["word"] = ratings["word"].str.lower()
    return ratings.drop_duplicates("word", keep="last", ignore_index=True)


def _bnc() -> Lexicon:
    """Return word frequencies of the British National Corpus (Leech, Rayson and Wilson), per
    million words.

    - corrected: surface forms in small letters, summed over parts of speech, without frequencies of
      0. A `:` row is a form by itself, a `%` row the total of a lemma, whose forms are the `@` rows
      below it.
    - published: the headword rows as printed, with the total of their lemma, because the authors
      must have read the list as a plain table. Cells other than numbers are left out, and so are
      `@` rows.
    """
    forms: dict[str, float] = defaultdict(float)
    headwords = []
    for line in downloads.fetch(*BNC).read_text(encoding="latin-1").splitlines()[1:]:
        cells = line.split("\t")
        if len(cells) == 4:  # a cross-reference, without a frequency
            continue
        # a few rows lack the leading tab of the others
        word, _, form, frequency, _, _ = cells[-6:]
        if word != "@" and frequency.isdigit():
            headwords.append([word, float(frequency)])
        bare = re.sub(r"\(.*\)|\*", "", word if form == ":" else form).strip().lower()
        # `A / a` is one form, `and/or` another
        spellings = {spelling.strip(" '") for spelling in bare.split("/")}
        plain = bare if len(spellings) > 1 or "/" not in bare else spellings.pop()
        # `ca~` and `~n't` are halves of contractions
        if form != "%" and plain and "~" not in plain:
            forms[plain] += float(frequency.rstrip("#"))
    names = ["word", "frequency"]
    corrected = pd.DataFrame(filter(itemgetter(1), forms.items()), columns=names)
    published = pd.DataFrame(headwords, columns=names)
    return Lexicon("BNC", "frequency", corrected, published)


@functools.cache
def _wordfreq() -> Lexicon:
    """Return English frequencies per million words; without numbers, as wordfreq gives those of
    one length the same.
    """
    from wordfreq import get_frequency_dict  # here, because it takes a second

    per_million = pd.Series(get_frequency_dict("en", "best")) * 1e6
    plain = per_million[~per_million.index.str.contains(r"\d")]
    words = plain.rename_axis("word").reset_index(name="frequency")
    return Lexicon("wordfreq", "frequency", words, words)


LOADERS: dict[str, Callable[[], Lexicon]] = {
    "afinn": _afinn,
    "bing": _bing,
    "vader": _vader,
    "bnc": _bnc,
    "wordfreq": _wordfreq,
}


def join(
    table: pd.DataFrame,
    lexicon: Lexicon,
    how: str = "published",
    *,
    control: Lexicon | None = None,
) -> pd.DataFrame:
    """Return the rows of a score table that are words of the lexicon: word, sentiment or frequency,
    then the prompts.

    how="published" takes each token whose lower-cased text is in the lexicon, once per row there.
    Texts keep their spaces, so ` love` never matches. how="corrected" trims texts and takes one row
    per word: of several inputs of one word (`love`, `Love`) the lexicon's spelling, else the lowest
    token id. `control` is a second lexicon, whose number becomes a column too. Raise InputError if
    no word matches.
    """
    texts = table["text"].map(str.strip) if how == "corrected" else table["text"]
    small = texts.str.lower()
    words = table.assign(word=small, is_respelled=texts != small)
    if how == "corrected":
        words = words.sort_values(["is_respelled", "token_id"]).drop_duplicates("word")
    words = words.sort_values("token_id")
    lexicons = [lexicon, control] if control else [lexicon]
    for listed in lexicons:
        rows = getattr(listed, how)
        # quicker than the join; as Python's strings, as pandas looks its own texts up one by one
        is_there = rows["word"].astype(object).isin(words["word"].astype(object))
        rows = rows[is_there]
        words = words.merge(rows, on="word")
    if words.empty:
        raise InputError(
            f"no word of {lexicon.name} is among these {len(table)} tokens; choose another "
            "collection"
        )
    numbers = [listed.quantity for listed in lexicons]
    return words[["word", *numbers, *scores.prompt_names(table)]]
