"""Words that people rated, and how they become replies: a third of them is held out, by stem.

VADER (Hutto and Gilbert 2014) gives the mean of ten people's ratings of each word.
"""

import zlib
from collections.abc import Iterable

import numpy as np
import pandas as pd
from transformers import PreTrainedTokenizerBase

from .. import DATA
from ..models import conversations
from ..tables import lexicons
from ..tables.stems import stems

HELD_OUT = 3  # one stem of so many
# Words that no lexicon of ours rates, not even by their stem: kind, word. Groups are plural nouns.
UNRATED = DATA / "human_ratings" / "unrated.csv"


def is_held_out(words: Iterable[str]) -> np.ndarray:
    """Return whether V-Smol's training leaves out each word, (words,) bool: a third of all stems of
    English words.

    It depends on the word's stem alone, so `joy` is held out exactly if `joyful` is, and any list
    of words can be asked about. What is measured with VADER's ratings must use held-out words only,
    because the others are labels.
    """
    numbers = [zlib.crc32(stem.encode()) for stem in stems(words)]
    return np.array(numbers, dtype=np.int64) % HELD_OUT == 0


def rated_words() -> pd.DataFrame:
    """Return VADER's words in small letters: word, sentiment (the mean, about -4 to 4), stem,
    held_out.
    """
    words = lexicons.vader_ratings()[["word", "sentiment"]]
    words = words[words["word"].str.fullmatch("[a-z]+")].reset_index(drop=True)
    return words.assign(stem=stems(words["word"]), held_out=is_held_out(words["word"]))


def replies_of(words: pd.DataFrame, tokenizer: PreTrainedTokenizerBase) -> pd.DataFrame:
    """Return a row for each form of a rated word that is one token: the columns of `words`, and
    `reply`.

    The forms are the word alone and after a blank, as tokens of a vocabulary are. Longer words are
    left out.
    """
    forms = [words.assign(reply=blank + words["word"]) for blank in (" ", "")]
    rows = pd.concat(forms, ignore_index=True)
    ids = tokenizer(list(rows["reply"]), add_special_tokens=False)["input_ids"]
    return rows[[len(each) == 1 for each in ids]].reset_index(drop=True)


def unlisted(tokenizer: PreTrainedTokenizerBase) -> pd.DataFrame:
    """Return tokens that VADER does not list, which it gives 0: reply, word, sentiment, stem,
    held_out.

    Left out are tokens with the stem of a listed word, of a word of data/identity_terms.csv or of
    one of UNRATED: what a model says about these is asked later.
    """
    texts = conversations.vocabulary(tokenizer)["text"]
    rows = pd.DataFrame({"reply": texts, "word": texts.str.strip().str.lower()})
    rows = rows.assign(sentiment=0.0, stem=stems(rows["word"]))
    rows["held_out"] = is_held_out(rows["word"])
    terms = pd.read_csv(DATA / "identity_terms.csv")[["term", "title"]]
    asked = [*pd.read_csv(UNRATED)["word"], *" ".join(terms.to_numpy().ravel()).split()]
    left_out = {"", *stems(lexicons.vader_ratings()["word"]), *stems(asked)}
    return rows[~rows["stem"].isin(left_out)]
