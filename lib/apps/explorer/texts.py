"""The texts of a collection, each once, and where the score tables of its models have them.

Models that share a tokenizer score the same vocabulary. The page has one row per text, so that models with different
vocabularies can be compared on it. If several ids of a vocabulary decode to one text, such as bytes that are no whole
character, each id has a separate row.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

READING = ["token_id", "text", "reply_ids", "input_group"]


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The texts that models with one tokenizer were asked about."""

    models: tuple[str, ...]  # nicknames
    tokens: pd.DataFrame  # a row per token id, with columns READING, in the order of the score tables
    rows: np.ndarray  # the page's row of each token, (tokens,) int32

    @property
    def is_reading_known(self) -> bool:
        """Return whether the tables say what was fed; published ones do not."""
        return bool(self.tokens["reply_ids"].map(len).any())

    def holds(self, table: pd.DataFrame) -> bool:
        """Return whether a score table is about these ids and texts, row by row."""
        return all(self.tokens[name].tolist() == table[name].tolist() for name in ("token_id", "text"))


def lay_out(tables: dict[str, pd.DataFrame]) -> tuple[list[str], list[Vocabulary]]:
    """Return the page's texts in order, and the vocabularies of these score tables (model -> table)."""
    alike: dict[bytes, list[str]] = {}
    for name, table in tables.items():
        alike.setdefault(_reading(table), []).append(name)
    row_of: dict[tuple, int] = {}
    vocabularies = []
    for number, models in enumerate(alike.values()):
        tokens = tables[models[0]][READING]
        rows = [row_of.setdefault(key, len(row_of)) for key in _keys(tokens, number)]
        vocabularies.append(Vocabulary(tuple(models), tokens, np.array(rows, dtype=np.int32)))
    return [text for text, *_ in row_of], vocabularies


def _reading(table: pd.DataFrame) -> bytes:
    """Return bytes that are the same for tables of the same tokens that were read alike."""
    ids = [tuple(map(int, ids)) for ids in table["reply_ids"]]
    columns = [table[name].tolist() for name in ("token_id", "text", "input_group")]
    return repr([*columns, ids]).encode("utf-8", "surrogatepass")


def _keys(tokens: pd.DataFrame, vocabulary: int) -> Iterable[tuple]:
    """Yield the key of each row of the page: the text, and where it is not unique in its vocabulary, also the id."""
    twice = tokens["text"].duplicated(keep=False)
    for text, token_id, is_twice in zip(tokens["text"], tokens["token_id"], twice, strict=True):
        yield (text, vocabulary, token_id) if is_twice else (text,)
