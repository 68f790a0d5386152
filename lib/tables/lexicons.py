"""Lexicons of sentiment and word frequency, and their joins to the words of a score table; lists of words.

`load(name)` gives one of AFINN, Bing, a stand-in for Bing, VADER (sentiment), BNC and wordfreq (frequency);
`join(table, lexicon, how)` matches it to a score table, as the authors did or corrected. `word_lists(name)` says which
words are of agency and communion, or of the moral foundations.
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
FOLLOW_UP = "brchristian/reward_models_inherit_value_biases_from_pretraining"
BNC = "brchristian/reward_model_optimal_pessimal_tokens", "data/corpora/1_1_all_alpha.txt"
SIGNS = {"positive": 1, "negative": -1}
RATERS = [f"rater_{i}" for i in range(1, 11)]
HOW = ("published", "corrected")
PLAIN_WORD = re.compile(r"[^\W\d_][^\W\d_'’-]*(['’-][^\W\d_]+)*")


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Words and one number for each. name: how to call it in tables and figures; a stand-in's name says so.

    quantity: `sentiment` or `frequency` (per million words). corrected: one row per word (columns word, quantity).
    published: the rows that the authors joined, which may hold a word more than once.
    """

    name: str
    quantity: str
    corrected: pd.DataFrame
    published: pd.DataFrame


def load(name: str) -> Lexicon:
    """Return a lexicon by name: afinn, bing, bing stand-in, vader, bnc or wordfreq.

    Words are lower-case, except in BNC's published rows. Bing and BNC are fetched; InputError if they cannot be had.
    """
    if name not in LOADERS:
        raise InputError(f"unknown lexicon '{name}'; choose one of {', '.join(LOADERS)}")
    return LOADERS[name]()


# --- sentiment ----------------------------------------------------------------------------------------------------


@functools.cache
def _afinn() -> Lexicon:
    """AFINN-111 (Nielsen 2011): 2,477 words and phrases, integers from -5 to 5; from the afinn package."""
    text = resources.files("afinn").joinpath("data", "AFINN-111.txt").read_text(encoding="utf-8")
    rows = [line.rsplit("\t", 1) for line in text.splitlines()]
    words = pd.DataFrame({"word": [word for word, _ in rows], "sentiment": [float(value) for _, value in rows]})
    return Lexicon("AFINN", "sentiment", words, words)


def _bing() -> Lexicon:
    """Bing (Liu): 6,786 rows, +1 or -1, as tidytext holds it. Three words are listed with both signs: the published
    rows keep both, the corrected ones neither."""
    rows = read_bing(downloads.fetch(*TIDYTEXT))
    return Lexicon("Bing", "sentiment", rows.drop_duplicates("word", keep=False, ignore_index=True), rows)


def read_bing(path: Path) -> pd.DataFrame:
    """Return the rows of tidytext's sentiments file: word, sentiment (+1 or -1). InputError if it is another file."""
    rows = pd.read_csv(path, dtype=str, keep_default_na=False)
    if list(rows.columns) != ["word", "sentiment"] or not rows["sentiment"].isin(SIGNS).all():
        raise InputError(
            f"{path} is refused: it needs columns word,sentiment with positive or negative; fetch it again"
        )
    return rows.assign(sentiment=rows["sentiment"].map(SIGNS).astype(float))


def _bing_stand_in() -> Lexicon:
    """The sign of VADER's mean rating, for machines that cannot fetch Bing; plain words only, zeros left out."""
    ratings = vader_ratings()
    chosen = ratings["word"].str.fullmatch(PLAIN_WORD) & (ratings["sentiment"] != 0)
    words = ratings.loc[chosen, ["word", "sentiment"]].reset_index(drop=True)
    words["sentiment"] = np.sign(words["sentiment"])
    return Lexicon("sign of VADER (stand-in for Bing)", "sentiment", words, words)


def _vader() -> Lexicon:
    """VADER (Hutto and Gilbert 2014): mean of ten ratings from -4 to 4."""
    words = vader_ratings()[["word", "sentiment"]]
    return Lexicon("VADER", "sentiment", words, words)


def vader_ratings() -> pd.DataFrame:
    """Return VADER with its ten raters: columns word, sentiment (their mean as VADER states it), rater_1 ... rater_10.

    Ratings are integers from -4 to 4. 7,494 words and emoticons, lower-cased; where that makes two entries
    one, or an entry is listed twice, the last counts, as in VADER itself.
    """
    text = resources.files("vaderSentiment").joinpath("vader_lexicon.txt").read_text(encoding="utf-8")
    entries = [line.split("\t") for line in text.split("\n") if line]
    ratings = pd.DataFrame([json.loads(entry[3]) for entry in entries], columns=RATERS)
    ratings.insert(0, "word", [entry[0].lower() for entry in entries])
    ratings.insert(1, "sentiment", [float(entry[1]) for entry in entries])
    return ratings.drop_duplicates("word", keep="last", ignore_index=True)


# --- frequency ----------------------------------------------------------------------------------------------------


def _bnc() -> Lexicon:
    """Word frequencies of the British National Corpus (Leech, Rayson and Wilson), per million words.

    corrected: surface forms, summed over parts of speech, without frequencies that round to 0 per million. published:
    headword rows as printed, one per part of speech, with the total of their lemma. Other cells than numbers are left
    out.
    """
    path = downloads.fetch(*BNC)
    words = bnc_forms(path).assign(word=lambda forms: forms["form"].str.lower())
    summed = words.groupby("word", as_index=False, sort=False)["frequency"].sum()
    return Lexicon("BNC", "frequency", summed[summed["frequency"] > 0].reset_index(drop=True), bnc_headwords(path))


def bnc_forms(path: Path) -> pd.DataFrame:
    """Return the surface forms in a BNC list: columns form, headword, pos, frequency (per million, whole numbers as
    floats).

    A `:` row is a form by itself. A `%` row is the total of a lemma, and no form; the `@` rows below it are its forms.
    Marks (`*`, `#`, `(to)`) are taken off, spellings that differ by case or apostrophe only (`A / a`) are one form, and
    halves of contractions (`ca~`, `~n't`) are left out.
    """
    rows, headword, pos = [], "", ""
    for word, part, form, frequency in _bnc_rows(path):
        if word != "@":
            headword, pos = _plain(word), part
        if form == "%":
            continue
        plain = _plain(word if form == ":" else form)
        if plain and "~" not in plain:
            rows.append([plain, headword, pos, float(frequency.rstrip("#"))])
    return pd.DataFrame(rows, columns=["form", "headword", "pos", "frequency"])


def bnc_headwords(path: Path) -> pd.DataFrame:
    """Return the headword rows of a BNC list read as a plain table: word as printed, frequency; several rows per word.

    This is how the authors' regression must have seen it: the `@` rows hold zeros, whose logarithm no regression takes.
    """
    rows = [
        [word, float(frequency)] for word, _, _, frequency in _bnc_rows(path) if word != "@" and frequency.isdigit()
    ]
    return pd.DataFrame(rows, columns=["word", "frequency"])


def _bnc_rows(path: Path) -> Iterator[tuple[str, str, str, str]]:
    """Yield word, part of speech, form, frequency of each row; a few rows lack the leading tab of the others."""
    header, *lines = Path(path).read_text(encoding="latin-1").rstrip("\n").split("\n")
    if header.split("\t")[1:5] != ["Word", "PoS", "", "Freq"]:
        raise InputError(f"{path} is refused: its columns should be Word, PoS, form, Freq, Ra, Disp; fetch it again")
    for number, line in enumerate(lines, start=2):
        cells = line.split("\t")
        if len(cells) == 4 and "[see " in cells[3]:  # a cross-reference, without a frequency
            continue
        cells = cells[1:] if len(cells) == 7 else cells
        if len(cells) != 6 or not cells[3].rstrip("#").isdigit():
            raise InputError(f"{path} is refused: line {number} is no row of this list; fetch it again")
        yield cells[0], cells[1], cells[2], cells[3]


def _plain(form: str) -> str:
    """Return the form without the list's marks; of spellings that differ by case or apostrophe only, one."""
    bare = re.sub(r"\(.*\)", "", form).replace("*", "").strip()
    spellings = {spelling.strip(" '").lower() for spelling in bare.split("/")}
    return spellings.pop() if "/" in bare and len(spellings) == 1 else bare


@functools.cache
def _wordfreq() -> Lexicon:
    """English frequencies of surface forms from the wordfreq package, per million words; words with digits left out,
    because wordfreq gives all numbers of one length the same frequency."""
    from wordfreq import get_frequency_dict  # here, because it takes a second

    frequencies = get_frequency_dict("en", "best")
    rows = [(word, share * 1e6) for word, share in frequencies.items() if not any(char.isdigit() for char in word)]
    words = pd.DataFrame(rows, columns=["word", "frequency"])
    return Lexicon("wordfreq", "frequency", words, words)


LOADERS: dict[str, Callable[[], Lexicon]] = {"afinn": _afinn, "bing": _bing, "bing stand-in": _bing_stand_in,
                                             "vader": _vader, "bnc": _bnc, "wordfreq": _wordfreq}  # fmt: skip


# --- lists of words -----------------------------------------------------------------------------------------------


def word_lists(name: str) -> pd.DataFrame:
    """Return which words are of which list: words (small letters) x lists, True or False.

    `big two` has the 263 nouns of agency and communion that the authors' follow-up paper scored. `big two expanded` has
    936 words with their inflections. Both are from the Big Two dictionary (Pietraszkiewicz et al. 2019, European
    Journal of Social Psychology 49, 871-887). `moral foundations` has the virtues and vices of five foundations (Moral
    Foundations Dictionary 2.0, Frimer et al. 2019, osf.io/ezn37). InputError if a list cannot be downloaded.
    """
    if name not in WORD_LISTS:
        raise InputError(f"unknown lists '{name}'; choose one of {', '.join(WORD_LISTS)}")
    rows = pd.read_csv(downloads.fetch(FOLLOW_UP, WORD_LISTS[name]), dtype=str, keep_default_na=False)
    if "Category" in rows:  # a row per word and list
        return pd.crosstab(rows["token_decoded"].str.lower(), rows["Category"]).gt(0).rename_axis("word", columns=None)
    listed = rows.set_index(rows["DicTerm"].str.lower().rename("word")).drop(columns="DicTerm") == "X"
    return listed.rename(columns=lambda column: column.replace("_", " ").capitalize()).groupby(level=0).any()


WORD_LISTS = {
    "big two": "data/corpora/dict_big2_nouns.csv",
    "big two expanded": "data/corpora/dict_big2_expanded.csv",
    "moral foundations": "data/corpora/moral-foundations-dictionary-20.dicx",
}


# --- joins --------------------------------------------------------------------------------------------------------


def join(
    table: pd.DataFrame, lexicon: Lexicon, how: str = "published", *, control: Lexicon | None = None
) -> pd.DataFrame:
    """Return the rows of a score table that are words of the lexicon: columns word, sentiment or frequency, then the
    prompts.

    how="published" takes each token whose lower-cased text is in the lexicon, once per row there. Texts keep their
    spaces, so ` love` never matches. how="corrected" trims texts and takes one row per model input and per word. Of
    several inputs of one word (`love`, `Love`), it takes the lexicon's spelling, else the lowest token id.
    control: a second lexicon whose number becomes a column, too; words without it are left out.
    attrs: lexicon, how, tokens (rows of the table), rows, words. InputError if nothing matches.
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
    validate = "many_to_many" if how == "published" else "one_to_one"
    for listed in lexicons:
        words = words.merge(getattr(listed, how), on="word", validate=validate)
    if words.empty:
        raise InputError(f"no word of {lexicon.name} is among these {len(table)} tokens; choose another collection")
    joined = words[["word", *(listed.quantity for listed in lexicons), *scores.prompt_names(table)]]
    names = " and ".join(listed.name for listed in lexicons)
    joined.attrs = {"lexicon": names, "how": how, "tokens": len(table), "rows": len(joined)}
    joined.attrs["words"] = joined["word"].nunique()
    return joined


def stated(joined: pd.DataFrame) -> str:
    """Return one sentence for a join: how many rows and words, of how many tokens, and how they were matched."""
    about = joined.attrs
    how = {"published": "as the authors joined them", "corrected": "one row per word"}[about["how"]]
    counts = f"{about['rows']:,} rows, {about['words']:,} words of {about['lexicon']} among {about['tokens']:,} tokens"
    return f"{counts} ({how})."
