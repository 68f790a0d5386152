"""The texts of a collection, each once, and where the score tables of its models have them.

Models that share a tokenizer score the same vocabulary. The page has one row per text: a text that two vocabularies
hold is one row, so that models of both can be compared on it. If several ids of a
vocabulary decode to one text, such as bytes that are no whole character, each id has a separate row.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

READING = ["token_id", "text", "reply_ids", "input_group"]


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """What models with one tokenizer were asked: a row per token id, with columns READING, in the tables' order.

    models: their nicknames. rows: the page's row of each, (tokens,) int32.
    """

    models: tuple[str, ...]
    tokens: pd.DataFrame
    rows: np.ndarray

    @property
    def is_reading_known(self) -> bool:
        """Whether the tables say what was fed; published ones do not."""
        return bool(self.tokens["reply_ids"].map(len).any())

    def holds(self, table: pd.DataFrame) -> bool:
        """Whether a score table is about these ids and texts, row by row."""
        return all(self.tokens[name].tolist() == table[name].tolist() for name in ("token_id", "text"))


def lay_out(tables: dict[str, pd.DataFrame]) -> tuple[list[str], list[Vocabulary]]:
    """The page's texts in order, and the vocabularies of these score tables (model -> table)."""
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
    """The same bytes for tables of the same tokens that were read alike."""
    ids = [tuple(int(i) for i in ids) for ids in table["reply_ids"]]
    columns = [table[name].tolist() for name in ("token_id", "text", "input_group")]
    return repr([*columns, ids]).encode("utf-8", "surrogatepass")


def _keys(tokens: pd.DataFrame, vocabulary: int) -> Iterable[tuple]:
    """What makes a row of the page: the text, and where it is not alone in its vocabulary, which id it is of."""
    for text, token_id, is_twice in zip(
        tokens["text"], tokens["token_id"], tokens["text"].duplicated(keep=False), strict=True
    ):
        yield (text, vocabulary, token_id) if is_twice else (text,)
