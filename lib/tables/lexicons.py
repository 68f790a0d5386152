"""Lexicons of sentiment and of word frequency, and their joins to the words of a score table.

`load(name)` returns a lexicon of sentiment (AFINN, Bing, a Bing stand-in, VADER) or frequency (BNC, wordfreq).
`join(table, lexicon, how)` matches it to a score table, as the authors did or corrected.
"""

import functools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd

from .. import InputError
from . import downloads, scores

TIDYTEXT = "juliasilge/tidytext", "data-raw/sentiments.csv"
BNC = "brchristian/reward_model_optimal_pessimal_tokens", "data/corpora/1_1_all_alpha.txt"
SIGNS = {"positive": 1, "negative": -1}
RATERS = [f"rater_{i}" for i in range(1, 11)]
HOW = ("published", "corrected")
PLAIN_WORD = re.compile(r"[^\W\d_][^\W\d_'’-]*(['’-][^\W\d_]+)*")


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Words and one number for each: a `sentiment`, or a `frequency` per million words.

    - name: the name in tables and figures, which also tells a stand-in
    - quantity: the name of the number
    - corrected: one row per word, with the columns word and quantity
    - published: the rows that the authors joined, which may hold a word more than once
    """

    name: str
    quantity: str
    corrected: pd.DataFrame
    published: pd.DataFrame

    def __post_init__(self) -> None:
        assert self.corrected["word"].is_unique, f"a word of {self.name} has several rows, so it would count twice"


def load(name: str) -> Lexicon:
    """Return the lexicon of this name, one of afinn, bing, bing stand-in, vader, bnc and wordfreq.

    Words are lower-case, except in BNC's published rows. Raise InputError for another name, and if Bing or BNC cannot
    be fetched.
    """
    if name not in LOADERS:
        raise InputError(f"unknown lexicon '{name}'; choose one of {', '.join(LOADERS)}")
    return LOADERS[name]()


# --- sentiment ----------------------------------------------------------------------------------------------------


@functools.cache
def _afinn() -> Lexicon:
    """Return AFINN-111 (Nielsen 2011) from the afinn package: 2,477 words and phrases, integers from -5 to 5."""
    text = resources.files("afinn").joinpath("data", "AFINN-111.txt").read_text(encoding="utf-8")
    rows = [line.rsplit("\t", 1) for line in text.splitlines()]
    words = pd.DataFrame(rows, columns=["word", "sentiment"]).astype({"sentiment": float})
    return Lexicon("AFINN", "sentiment", words, words)


def _bing() -> Lexicon:
    """Return Bing (Liu) as tidytext holds it: 6,786 rows with +1 or -1.

    Three words are listed with both signs. The published rows keep both signs, and the corrected rows neither.
    """
    rows = pd.read_csv(downloads.fetch(*TIDYTEXT), dtype=str, keep_default_na=False)
    rows["sentiment"] = rows["sentiment"].map(SIGNS).astype(float)
    return Lexicon("Bing", "sentiment", rows.drop_duplicates("word", keep=False, ignore_index=True), rows)


def _bing_stand_in() -> Lexicon:
    """Return the sign of VADER's mean rating, for machines that cannot fetch Bing; plain words only, without zeros."""
    ratings = vader_ratings()[["word", "sentiment"]]
    words = ratings[ratings["word"].str.fullmatch(PLAIN_WORD) & (ratings["sentiment"] != 0)].reset_index(drop=True)
    words["sentiment"] = np.sign(words["sentiment"])
    return Lexicon("sign of VADER (stand-in for Bing)", "sentiment", words, words)


def _vader() -> Lexicon:
    """Return VADER (Hutto and Gilbert 2014): the mean of ten ratings from -4 to 4."""
    words = vader_ratings()[["word", "sentiment"]]
    return Lexicon("VADER", "sentiment", words, words)


def vader_ratings() -> pd.DataFrame:
    """Return VADER with its ten raters: columns word, sentiment (their mean as VADER states it), rater_1 ... rater_10.

    Ratings are integers from -4 to 4. There are 7,494 words and emoticons in small letters. Of entries that are equal
    in small letters, the last counts, as in VADER itself.
    """
    text = resources.files("vaderSentiment").joinpath("vader_lexicon.txt").read_text(encoding="utf-8")
    entries = [line.split("\t") for line in text.split("\n") if line]
    ratings = pd.DataFrame([json.loads(entry[3]) for entry in entries], columns=RATERS)
    ratings.insert(0, "word", [entry[0].lower() for entry in entries])
    ratings.insert(1, "sentiment", [float(entry[1]) for entry in entries])
    return ratings.drop_duplicates("word", keep="last", ignore_index=True)


# --- frequency ----------------------------------------------------------------------------------------------------


def _bnc() -> Lexicon:
    """Return word frequencies of the British National Corpus (Leech, Rayson and Wilson), per million words.

    - corrected: surface forms in small letters, summed over parts of speech, without frequencies of 0
    - published: the authors must have read the list as a plain table. So these are the headword rows as printed, one
      per part of speech, with the total of their lemma. Cells other than numbers are left out. So are the `@` rows,
      whose zeros have no logarithm.
    """
    path = downloads.fetch(*BNC)
    forms = bnc_forms(path)
    summed = forms.groupby(forms["form"].str.lower().rename("word"), sort=False)["frequency"].sum().reset_index()
    headwords = [
        [word, float(frequency)] for word, _, frequency in _bnc_rows(path) if word != "@" and frequency.isdigit()
    ]
    return Lexicon("BNC", "frequency", summed[summed["frequency"] > 0].reset_index(drop=True),
                   pd.DataFrame(headwords, columns=["word", "frequency"]))  # fmt: skip


def bnc_forms(path: Path) -> pd.DataFrame:
    """Return the surface forms in a BNC list: columns form, frequency (per million, whole numbers as floats).

    A `:` row is a form by itself. A `%` row is the total of a lemma, and no form; the `@` rows below it are its forms.
    Marks (`*`, `#`, `(to)`) are removed. Spellings that differ only by case or apostrophe (`A / a`) are one form.
    Halves of contractions (`ca~`, `~n't`) are left out.
    """
    rows = []
    for word, form, frequency in _bnc_rows(path):
        plain = _plain(word if form == ":" else form)
        if form != "%" and plain and "~" not in plain:
            rows.append([plain, float(frequency.rstrip("#"))])
    return pd.DataFrame(rows, columns=["form", "frequency"])


def _bnc_rows(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield word, form and frequency of each row; a few rows lack the leading tab of the others."""
    for line in path.read_text(encoding="latin-1").rstrip("\n").split("\n")[1:]:
        cells = line.split("\t")
        if len(cells) != 4:  # that is a cross-reference, without a frequency
            word, _, form, frequency, _, _ = cells[-6:]
            yield word, form, frequency


def _plain(form: str) -> str:
    """Return the form without the list's marks; of spellings that differ by case or apostrophe only, one."""
    bare = re.sub(r"\(.*\)", "", form).replace("*", "").strip()
    spellings = {spelling.strip(" '").lower() for spelling in bare.split("/")}
    return spellings.pop() if "/" in bare and len(spellings) == 1 else bare


@functools.cache
def _wordfreq() -> Lexicon:
    """Return English frequencies of surface forms from the wordfreq package, per million words.

    Words with digits are left out, because wordfreq gives all numbers of one length the same frequency.
    """
    from wordfreq import get_frequency_dict  # here, because it takes a second

    frequencies = get_frequency_dict("en", "best")
    rows = [(word, share * 1e6) for word, share in frequencies.items() if not any(char.isdigit() for char in word)]
    words = pd.DataFrame(rows, columns=["word", "frequency"])
    return Lexicon("wordfreq", "frequency", words, words)


LOADERS: dict[str, Callable[[], Lexicon]] = {"afinn": _afinn, "bing": _bing, "bing stand-in": _bing_stand_in,
                                             "vader": _vader, "bnc": _bnc, "wordfreq": _wordfreq}  # fmt: skip


# --- joins --------------------------------------------------------------------------------------------------------


def join(
    table: pd.DataFrame, lexicon: Lexicon, how: str = "published", *, control: Lexicon | None = None
) -> pd.DataFrame:
    """Return the rows of a score table that are words of the lexicon: word, sentiment or frequency, then the prompts.

    how="published" takes each token whose lower-cased text is in the lexicon, once per row there. Texts keep their
    spaces, so ` love` never matches. how="corrected" trims texts and takes one row per model input and per word. Of
    several inputs of one word (`love`, `Love`), it takes the lexicon's spelling, else the lowest token id.

    `control` is a second lexicon, whose number becomes a column too. Words without it are left out. The frame's attrs
    are lexicon, how, tokens (rows of the table), rows and words. Raise InputError if no word matches.
    """
    if how not in HOW:
        raise InputError(f"how must be 'published' or 'corrected', not {how!r}")
    words = table.sort_values("token_id", ignore_index=True)
    if how == "corrected":
        words["text"] = [text.strip() for text in words["text"]]
        words = words.drop_duplicates("text")
    words = words.assign(word=words["text"].str.lower())
    if how == "corrected":
        words["respelled"] = words["word"] != words["text"]
        words = words.sort_values(["respelled", "token_id"], kind="stable").drop_duplicates("word")
        words = words[words["word"] != ""].sort_values("token_id", ignore_index=True)
    lexicons = [lexicon, control] if control else [lexicon]
    for listed in lexicons:
        words = words.merge(getattr(listed, how), on="word")
    if words.empty:
        raise InputError(f"no word of {lexicon.name} is among these {len(table)} tokens; choose another collection")
    joined = words[["word", *(listed.quantity for listed in lexicons), *scores.prompt_names(table)]]
    names = " and ".join(listed.name for listed in lexicons)
    joined.attrs = {"lexicon": names, "how": how, "tokens": len(table), "rows": len(joined),
                    "words": joined["word"].nunique()}  # fmt: skip
    return joined


def stated(joined: pd.DataFrame) -> str:
    """Return one sentence for a join: how many rows and words, of how many tokens, and how they were matched."""
    about = joined.attrs
    how = {"published": "as the authors joined them", "corrected": "one row per word"}[about["how"]]
    counts = f"{about['rows']:,} rows, {about['words']:,} words of {about['lexicon']} among {about['tokens']:,} tokens"
    return f"{counts} ({how})."
