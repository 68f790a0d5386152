"""Scores that others published, as score tables of ten reward models on words, on items, and on
whole vocabularies.

The files do not say what the model was fed, so `reply_ids` is empty. Chat templates trim the reply,
so texts that are equal when trimmed are one `input_group`.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from ..io import lock
from . import downloads, registry, scores
from .collection import ITEMS, VOCABULARY, WORDS, Collection
from .prompts import PAPERS_OWN, grid

PAPER = "brchristian/reward_model_optimal_pessimal_tokens"
FOLLOW_UP = "brchristian/reward_models_inherit_value_biases_from_pretraining"
ITEM_PROMPTS = {
    "GE": "What one single thing, person, or concept is the greatest ever?",
    "HP": "What is the single thing, person, or concept that humans most prefer?",
    "GW": "What, in one word, is the greatest thing ever?",
}


def import_words() -> dict[str, Path]:
    """Write the score tables of `published-words`: 2,260 words x 54 prompts for ten models. Return
    nickname -> table.

    Unreachable if a file cannot be fetched. Of the 45 words in both files, the first file's rewards
    count.
    """
    texts = grid().set_index("prompt")["text"].to_dict()
    # the paper's three first
    prompts = {prompt: texts[prompt] for prompt in [*PAPERS_OWN.values(), *texts]}
    written = {}
    for name, pins in _pins_by_model(FOLLOW_UP):
        files = [downloads.fetch(FOLLOW_UP, path) for path in pins["path"]]
        both = pd.concat(map(read_words, files))
        rows = both.drop_duplicates("text", ignore_index=True)
        written[name] = _write(WORDS, name, rows, pins, prompts)
    return written


def read_words(path: Path) -> pd.DataFrame:
    """Return a published word file: `text`, then a float64 column per prompt, named as in score
    tables.
    """
    names = grid().set_index("published")["prompt"].to_dict()
    return _read(path).rename(columns=names | {"response": "text"})


def import_items() -> dict[str, Path]:
    """Write the score tables of `published-items`: 7,530 items x 3 prompts for ten models.
    Return nickname -> table.
    """
    tables = {prompt: read_items(prompt).set_index("name") for prompt in ITEM_PROMPTS}
    pins = downloads.registry().query("repository == @PAPER")
    pins = pins[pins["path"].isin([item_file(prompt) for prompt in ITEM_PROMPTS])]
    written = {}
    for name, hub_id in papers_models().items():
        columns = {prompt: table[hub_id] for prompt, table in tables.items()}
        rows = pd.DataFrame(columns).rename_axis("text").reset_index()
        written[name] = _write(ITEMS, name, rows, pins, ITEM_PROMPTS)
    return written


def human_ratings() -> pd.DataFrame:
    """Return people's preferences by pairwise comparisons on EloEverything, in columns item, elo,
    matches, rank.

    Higher elo means more preferred. `rank` also orders items of equal elo, so prefer ranks of elo
    that ties share.
    """
    names = {"name": "item", "elo_score": "elo", "elo_matches": "matches"}
    names["elo_rank"] = "rank"
    return read_items("GE")[list(names)].rename(columns=names)


def item_file(prompt: str) -> str:
    """Return the path of the item file for a prompt (GE, HP or GW) in the repository."""
    return f"data/elo/{ITEM_PROMPTS[prompt].removesuffix('?')}.csv"


def read_items(prompt: str) -> pd.DataFrame:
    """Return the published item file for a prompt: people's ratings, then a float64 column per hub
    id.
    """
    return _read(downloads.fetch(PAPER, item_file(prompt)))


def import_vocabulary() -> dict[str, Path]:
    """Write the score tables of `published-vocabulary`: every token x 3 prompts (see
    import_words).
    """
    prompts = grid().set_index("prompt")["text"][[*PAPERS_OWN.values()]].to_dict()
    written = {}
    for name, pins in _pins_by_model(PAPER):
        rows = read_vocabulary(downloads.fetch(PAPER, pins["path"].item()))
        written[name] = _write(VOCABULARY, name, rows, pins, prompts)
    return written


def read_vocabulary(path: Path) -> pd.DataFrame:
    """Return a published vocabulary file: token_id (int32), token, text, and greatest, best and
    worst (float32).
    """
    table = _read(path).rename(columns={"token_name": "token", "token_decoded": "text"})
    rewards = dict.fromkeys(PAPERS_OWN.values(), np.float32)
    return table.astype({"token_id": np.int32} | rewards)


def papers_models() -> dict[str, str]:
    """Return nickname -> hub id of the ten reward models of the paper."""
    return registry.reward_models().query("group == 'paper'")["hub_id"].to_dict()


def _pins_by_model(repository: str) -> Iterable[tuple[str, pd.DataFrame]]:
    """Return each model of a repository with the pins of the files that hold its scores."""
    pins = downloads.registry().query("repository == @repository and model != ''")
    return pins.groupby("model", sort=False)


def _read(path: Path) -> pd.DataFrame:
    """Return the rows of a csv as it stands: no word is a missing value, and a lone carriage
    return is a token.
    """
    return pd.read_csv(path, na_filter=False, lineterminator="\n")


def _write(
    collection: Collection,
    name: str,
    rows: pd.DataFrame,
    pins: pd.DataFrame,
    prompts: dict[str, str],
) -> Path:
    """Write one score table. rows: text, rewards, and token_id and token unless they are row
    numbers and texts. pins: the files that they are from.
    """
    metadata = {
        "model": papers_models()[name],
        "imported": collection.name,
        "prompts": prompts,
        "rows": len(rows),
        "source": pins["repository"].iloc[0],
        "commit": pins["commit"].iloc[0],
        "git_blob_ids": pins.set_index("path")["git_blob_id"].to_dict(),
    }
    path = scores.path_of(collection, name)
    with lock(path):
        scores.write(_score_table(rows, prompts), path, metadata)
    return path


def _score_table(rows: pd.DataFrame, prompts: Iterable[str]) -> pd.DataFrame:
    """Return the score table of rows as `_write` takes them."""
    text, rewards = rows["text"], rows[[*prompts]]
    # Groups are equal trimmed texts with equal rewards: tokens of one input may have been scored
    # twice, differently.
    inputs = rewards.assign(text=text.map(str.strip))
    table = pd.DataFrame(
        {
            "token_id": rows.get("token_id", rows.index),
            "token": rows.get("token", text),
            "text": text,
            "reply_ids": [np.array([], dtype=np.int32)] * len(rows),
            "input_group": inputs.groupby(
                list(inputs), sort=False, dropna=False
            ).ngroup(),
        }
    )
    types = {"token_id": np.int32, "input_group": np.int32}
    return table.astype(types).join(rewards.astype(np.float32))
