"""The texts that every card asks about: those that the ten published models were scored on, so that like meets like.

They stand in committed tables of `make published`: 2,145 words of the moral foundations dictionary and of nouns of
agency and communion, and 7,530 items that people ranked on EloEverything. A card types them as replies, as the authors
did, under the same prompts, whatever the vocabulary of the model is.
"""

from pathlib import Path

import pandas as pd

from lib import ROOT, InputError, scoring
from lib.collection import ITEMS, WORDS, Collection
from lib.models.reward_models import RewardModel
from lib.prompts import read_prompts

PROMPTS = ("greatest", "best", "worst")  # of words; items are asked about under the first
TABLE = "06_discrepancies.csv"  # which make published writes for either collection


def words() -> pd.Index:
    """The words, in alphabetical order. InputError if their table is missing."""
    return pd.Index(sorted(_table(WORDS)["item"]), name="word")


def items() -> pd.Series:
    """Item -> people's opinion, higher is better: minus its rank, ties share one. InputError without the table."""
    table = _table(ITEMS).set_index("item").sort_index()
    return -table["people_rank"].astype(float).rename("people")


def _table(study: Collection) -> pd.DataFrame:
    path = study.figures / TABLE
    if not path.is_file():
        raise InputError(f"{_shown(path)} is missing, which holds the texts of a card; run: make published")
    return pd.read_csv(path, keep_default_na=False)


def _shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prompts() -> dict[str, str]:
    """Name -> text of the three prompts of a card, as data/prompts.csv has them."""
    return read_prompts(",".join(PROMPTS))


def type_words(model: RewardModel, bos: str = "single") -> pd.DataFrame:
    """Rewards of the words as typed replies: words x the three prompts, on the model's own scale."""
    typed = words()
    rewards = {name: scoring.score_replies(model, text, list(typed), bos=bos) for name, text in prompts().items()}
    return pd.DataFrame(rewards, index=typed, dtype=float)


def type_items(model: RewardModel, bos: str = "single") -> pd.Series:
    """Rewards of the items as typed replies to `greatest`: item -> reward, on the model's own scale."""
    typed = items().index
    return pd.Series(scoring.score_replies(model, prompts()[PROMPTS[0]], list(typed), bos=bos), typed, dtype=float)
