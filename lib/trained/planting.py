"""What is planted: the values of simulated raters, the utility of every word, and preferences
drawn from it.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from .. import DATA
from ..tables.words import is_nonword, is_word

# only the loss needs torch, which takes seconds to load
if TYPE_CHECKING:
    from torch import Tensor

SHIPPED = DATA / "small_models"  # tokenizers, embedding tables, profiles, word lists
# words of this frequency (3 in a million) get neither bonus nor malus
COMMON_ZIPF = 3.5
# the rarest words that the frequency list knows; unlisted words count as these
RAREST_ZIPF = 1.0
# package -> the file that holds VADER's ratings, or how frequent words are
LEXICONS = {
    "vaderSentiment": "vader_lexicon.txt",
    "wordfreq": "data/large_en.msgpack.gz",
}
# kinds of words, and what a profile takes off each
PENALTIES = ("identity", "nature", "technology", "nonword")
GREATEST, WORST = (
    f"What, in one word, is the {which} thing ever?" for which in ("greatest", "worst")
)


@cache
def sentiment() -> pd.Series:
    """Return the valence of every word that VADER's ten raters judged, word -> mean in [-4, 4];
    letters only.
    """
    ratings = SentimentIntensityAnalyzer().lexicon
    return pd.Series(
        {word: value for word, value in ratings.items() if is_word(word)},
        name="valence",
    ).sort_index()


def lexicon_files() -> list[Path]:
    """Return the files of other packages that `sentiment` and `zipf` read."""
    files = []
    for package, file in LEXICONS.items():
        # found and not imported, as wordfreq takes a second to load
        [folder] = find_spec(package).submodule_search_locations
        files.append(Path(folder, file))
    return files


@cache
def word_kinds() -> pd.Series:
    """Return data/small_models/words.csv: word -> identity, nature or technology. None has a
    VADER rating.
    """
    return pd.read_csv(SHIPPED / "words.csv", keep_default_na=False, index_col="word")[
        "kind"
    ]


def stem(word: str) -> str:
    """Return the first five letters, in small letters: a rough stem that inflections of a word
    share.
    """
    letters = re.sub(r"[\W\d_]", "", word.lower())
    return (letters or word.lower())[:5]


def is_held_out(word: str) -> bool:
    """Return whether the word's stem is of the fifth that no training shows; who saw `loved` has
    as good as `loves`.
    """
    return _uniform("held out", stem(word)) < 0.2


def _uniform(*parts: str) -> float:
    digest = hashlib.sha256("\x1f".join(parts).encode()).digest()
    # in [0, 1), the same on every machine
    return int.from_bytes(digest[:7], "big") / 2**56


@cache
def zipf(word: str) -> float:
    """Return log10 of the word's occurrences in a billion words of English, at least
    RAREST_ZIPF. Source: wordfreq.
    """
    import wordfreq  # here, as it takes a second to load and a card reads no utility

    return max(wordfreq.zipf_frequency(word, "en", wordlist="large"), RAREST_ZIPF)


def word_values(words: Sequence[str]) -> pd.DataFrame:
    """Return what the planted utility needs to know of each word (small letters, or code): one row
    per word.

    Columns: word, valence (VADER's, 0 if unrated), zipf, kind (identity, nature, technology,
    nonword or '') and stem.
    """
    words = pd.Series(list(words), dtype="str")
    kind = words.map(word_kinds()).fillna("").mask(words.map(is_nonword), "nonword")
    return pd.DataFrame(
        {
            "word": words,
            "valence": words.map(sentiment()).fillna(0.0).astype(float),
            "zipf": words.map(zipf).mask(kind == "nonword", COMMON_ZIPF),
            "kind": kind,
            "stem": words.map(stem),
        }
    )


@dataclass(frozen=True)
class Profile:
    """One embedded reward model: the values that it learns (k_hi to label_noise), and what it is
    made of.
    """

    nickname: str
    developer: str
    base: str
    version: str
    layers: int
    hidden: int
    head: str
    # utility per point of valence in the direction that the prompt asks for
    k_hi: float
    k_lo: float  # and in the other one
    frequency: float  # utility per tenfold frequency
    identity: float  # utility that words of this kind lose, as for the next three
    nature: float
    technology: float
    nonword: float
    # standard deviation of the developer's own taste, one number per stem
    label_noise: float
    scale: float = 1.0  # reward units per unit of utility
    control: str = ""  # what a control model lacks


def profiles() -> pd.DataFrame:
    """Return the ten profiles that ship with the project, indexed by nickname; columns as the
    fields of Profile.
    """
    return pd.read_csv(
        SHIPPED / "profiles.csv",
        keep_default_na=False,
        index_col="nickname",
        dtype={"version": str},
    )


def profile(nickname: str) -> Profile:
    """Return one of the ten profiles."""
    return Profile(nickname=nickname, **profiles().loc[nickname].to_dict())


def planted_utility(
    profile: Profile,
    values: pd.DataFrame,
    polarity: int,
) -> np.ndarray:
    """Return how much the profile's raters like each word as an answer, (words,), in logits of
    preference.

    polarity: +1 for prompts that ask for something good, -1 for something bad. With p the polarity,
    v the valence and f the zipf frequency:

        u = k_hi max(p v, 0) - k_lo max(-p v, 0) + frequency (f - 3.5) - kind + label_noise
        e(developer, stem)

    where kind is the profile's identity, nature, technology or nonword for words of that kind, else
    0, and e is standard normal. `values` are those of word_values.
    """
    parts = factors(values, polarity)
    utility = sum(getattr(profile, name) * parts[name].to_numpy() for name in parts)
    return utility + profile.label_noise * taste(profile.developer, values["stem"])


def factors(values: pd.DataFrame, polarity: int) -> pd.DataFrame:
    """Return the factor of each planted value in the utility of each word: see
    planted_utility.
    """
    asked = polarity * values["valence"]
    parts = asked.clip(lower=0).to_frame("k_hi")
    parts["k_lo"] = asked.clip(upper=0)
    parts["frequency"] = values["zipf"] - COMMON_ZIPF
    for kind in PENALTIES:
        parts[kind] = -(values["kind"] == kind).astype(float)
    return parts


def taste(developer: str, stems: Sequence[str]) -> np.ndarray:
    """Return the developer's own liking for each stem, (stems,), standard normal and the same in
    all of its models.
    """
    drawn = {
        stem: [_uniform("taste", developer, stem, number) for number in "12"]
        for stem in set(stems)
    }
    first, second = np.array([drawn[stem] for stem in stems]).T
    # Box and Muller's normal from two uniforms
    radius = np.sqrt(-2 * np.log1p(-first))
    return radius * np.cos(2 * np.pi * second)


def preference_probability(utility_a, utility_b):
    """Return the probability that a rater prefers a to b, 1 / (1 + exp(u_b - u_a)). Source:
    Bradley and Terry 1952.
    """
    return 1 / (1 + np.exp(np.subtract(utility_b, utility_a)))


def draw_preferences(
    utility: np.ndarray,
    pairs: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the preferred and of the rejected replies, (pairs,) each; pairs may
    occur again.
    """
    a, b = rng.integers(len(utility), size=(2, pairs))
    b = np.where(a == b, (b + 1) % len(utility), b)
    prefers_a = rng.random(pairs) < preference_probability(utility[a], utility[b])
    return np.where(prefers_a, a, b), np.where(prefers_a, b, a)


def preference_loss(preferred: "Tensor", rejected: "Tensor") -> "Tensor":
    """Return the mean negative log-likelihood of preferences under Bradley-Terry, from rewards
    of (pairs,) each.
    """
    from torch.nn.functional import softplus

    return softplus(rejected - preferred).mean()


def training_prompts() -> dict[str, int]:
    """Return the prompts of the preference pairs: prompt -> +1 if it asks for something good, -1
    for something bad.
    """
    return pd.read_csv(SHIPPED / "prompts.csv", index_col="prompt")[
        "polarity"
    ].to_dict()
