"""What is known about a text in addition to its rewards, such as its frequency and sentiment."""

import re
from contextlib import suppress

import numpy as np
import pandas as pd

from ... import ROOT, InputError
from ...alignment import human, kinds
from ...tables import lexicons
from ...tables.collection import ITEMS, WORDS, Collection
from ...tables.words import is_nonword, is_word

LISTS = ("moral foundations", "big two")  # of the published words, in the order in which a word's first list counts


def about(texts: list[str], collection: Collection) -> tuple[pd.Series, dict[str, np.ndarray]]:
    """Return the kind of each text and its known numbers, name -> (texts,) float32, NaN where unknown.

    Data that cannot be downloaded is left out.
    """
    series = _series(texts)
    words = series.str.strip().str.lower()
    frequency, sentiment = np.log10(_looked_up(words, "wordfreq")), _looked_up(words, "vader")
    columns = {"frequency": frequency.astype(np.float32), "sentiment": sentiment.astype(np.float32)}
    if collection == ITEMS:
        from ...tables.score_files import human_ratings  # here, because it loads what runs models

        with suppress(InputError):
            ranks = human.ranks(human_ratings().set_index("item")["elo"])  # 1 = most preferred
            columns["people's rank"] = series.map(ranks).to_numpy(dtype=np.float32)
    return _kinds(series, words, collection), columns


def _series(texts: list[str]) -> pd.Series:
    """Return the texts to look up, with U+FFFD for half a surrogate pair, which no table can hold."""
    return pd.Series([re.sub("[\ud800-\udfff]", "\ufffd", text) for text in texts], dtype="str")


def _looked_up(words: pd.Series, lexicon: str) -> np.ndarray:
    """Return the number that a lexicon has for each word (in small letters, trimmed), NaN for none."""
    listed = lexicons.load(lexicon)
    return words.map(listed.corrected.set_index("word")[listed.quantity]).to_numpy(dtype=float)


# --- kinds --------------------------------------------------------------------------------------------------------


def _kinds(texts: pd.Series, words: pd.Series, collection: Collection) -> pd.Series:
    """Return one kind per text, by which the page filters."""
    listed = pd.read_csv(ROOT / "data" / "small_models" / "words.csv", keep_default_na=False, index_col="word")["kind"]
    if collection == ITEMS:
        found = kinds.kinds_of(pd.Index(texts), listed, titles=True)
        return pd.Series(found.to_numpy(), dtype="str").replace("", "any other")
    if collection == WORDS:
        with suppress(InputError):
            return _of_lists(words)
    return _of_words(words, listed)


def _of_lists(words: pd.Series) -> pd.Series:
    """Return the first list of the moral foundations, or of agency and communion, that holds each word."""
    found = pd.Series("", index=words.index, dtype="str")
    for name in LISTS:
        of_word = lexicons.word_lists(name)
        first = of_word.idxmax(axis=1)[of_word.any(axis=1)]
        found = found.mask(found == "", words.map(first).fillna(""))
    return found.replace("", "any other")


def _of_words(words: pd.Series, listed: pd.Series) -> pd.Series:
    """Return the kind of each text: by a list, by the sign of VADER, or by its characters."""
    sentiment = _looked_up(words, "vader")
    frequency = _looked_up(words, "wordfreq")
    is_code = words.map(str.isascii) & words.map(is_nonword)
    choices = [
        (words.isin(listed.index), words.map(listed).fillna("")),
        (sentiment > 0, "positive word"),
        (sentiment < 0, "negative word"),
        (words.map(is_word) & np.isfinite(frequency), "other word"),
        (is_code, "code or symbols"),
    ]
    conditions, values = zip(*choices, strict=True)
    return pd.Series(np.select(conditions, values, "fragment or other script"), dtype="str")


# --- what was planted ---------------------------------------------------------------------------------------------


def planted(texts: list[str], models: list[str], prompts: list[str]) -> tuple[dict, dict[str, np.ndarray]]:
    """Return what the utility of embedded models is made of: a description, and arrays over the texts.

    The description holds:

    - `profiles`: model -> its numbers, see lib.planted.planting.Profile
    - `polarity`: prompt -> 1 or -1
    - `kinds`: the names of planted kinds

    The arrays are:

    - `valence`, `zipf`, `taste <developer>`: NaN if no utility is planted for the text
    - `planted kind`: 1 + the place in `kinds`, 0 for none
    - `held out`: 1 if no training pair shows the stem, else 0
    """
    from ...planted import planting, recovery  # here, because it loads torch, which only planted models need

    trimmed = _series(texts).str.strip()
    once = pd.DataFrame({"text": trimmed.drop_duplicates()}).assign(input_group=lambda table: range(len(table)))
    once = once.assign(**{prompt: 0.0 for prompt in prompts})
    profiles = {name: planting.profile(name) for name in models if name in planting.profiles().index}
    some_profile = planting.profile(planting.profiles().index[0])  # which texts have a utility is the same for all
    rows = recovery.planted_table(once, some_profile).set_index("text")
    arrays = {name: trimmed.map(rows[name]).to_numpy(dtype=np.float32) for name in ("valence", "zipf")}
    for developer in dict.fromkeys(profile.developer for profile in profiles.values()):
        liking = pd.Series(planting.taste(developer, rows["stem"]), rows.index)
        arrays[f"taste {developer}"] = trimmed.map(liking).to_numpy(dtype=np.float32)
    codes = rows["kind"].map({kind: 1 + number for number, kind in enumerate(planting.PENALTIES)})
    arrays["planted kind"] = trimmed.map(codes).fillna(0).to_numpy(dtype=np.uint8)
    arrays["held out"] = trimmed.map(rows["word"].map(planting.is_held_out)).eq(True).to_numpy(dtype=np.uint8)
    description = {
        "profiles": {name: vars(profile) for name, profile in profiles.items()},
        "polarity": recovery.polarities(once),
        "kinds": list(planting.PENALTIES),
        "common": planting.COMMON_ZIPF,
    }
    return description, arrays
