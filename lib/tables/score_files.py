"""Scores that others published, as score tables of ten reward models on words, on items, and on
whole vocabularies.

The files do not say what the model was fed, so `reply_ids` is empty. Chat templates trim the reply,
so texts that are equal when trimmed are one `input_group`.
"""

import csv
import io
import re
from collections.abc import Collection as Names
from pathlib import Path

import numpy as np
import pandas as pd

from .. import InputError
from ..io import lock
from . import downloads, registry, scores
from .collection import ITEMS, VOCABULARY, WORDS, Collection
from .prompts import PAPERS_OWN, grid

PAPER = "brchristian/reward_model_optimal_pessimal_tokens"
FOLLOW_UP = "brchristian/reward_models_inherit_value_biases_from_pretraining"
Missing = dict[str, downloads.Unreachable]  # nickname -> why its scores cannot be had
# the moral foundations dictionary; nouns of agency and communion
WORD_FOLDERS = ("dict_MFD_20", "dict_big2_nouns")
ITEM_PROMPTS = {
    "GE": "What one single thing, person, or concept is the greatest ever?",
    "HP": "What is the single thing, person, or concept that humans most prefer?",
    "GW": "What, in one word, is the greatest thing ever?",
}
ELO_COLUMNS = ["elo_rank", "elo_score", "name", "elo_matches"]
VOCABULARY_COLUMNS = [
    "token_id",
    "token_name",
    "token_decoded",
    "greatest",
    "best",
    "worst",
]


def import_words(missing: Missing) -> dict[str, Path]:
    """Write the score tables of `published-words`: 2,260 words x 54 prompts for ten models. Return
    nickname -> table.

    Models whose files cannot be fetched go to `missing`. Of the 45 words in both files, the first
    file's rewards count.
    """
    table = grid()
    texts = dict(zip(table["prompt"], table["text"], strict=True))
    # the paper's three first
    prompts = {prompt: texts[prompt] for prompt in [*PAPERS_OWN.values(), *texts]}
    pinned = downloads.registry()
    paths = pinned.loc[pinned["repository"] == FOLLOW_UP, "path"].tolist()
    sources: dict[str, list] = {}
    written = {}
    for name, hub_id in papers_models().items():
        end = f"_rewards_{hub_id.replace('/', '_')}.csv".casefold()
        of_model = [path for path in paths if path.casefold().endswith(end)]
        sources[name] = []
        for folder in WORD_FOLDERS:
            sources[name] += [path for path in of_model if f"/{folder}/" in path]
    for name, files in _fetch_all(FOLLOW_UP, sources, missing).items():
        moral, nouns = map(read_words, files)
        rows = pd.concat([moral, nouns], ignore_index=True).drop_duplicates(
            "word", ignore_index=True
        )
        rows = rows[["word", *prompts]].rename(columns={"word": "text"})
        written[name] = _write(
            WORDS, name, rows, FOLLOW_UP, sources[name], prompts=prompts
        )
    return written


def read_words(path: Path) -> pd.DataFrame:
    """Return a published word file: `word`, then a float64 column per prompt, named as in score
    tables.
    """
    names = grid()
    table = _read(path, ["response", *names["published"]], texts=["response"])
    return table.set_axis(["word", *names["prompt"]], axis=1)


def import_items() -> dict[str, Path]:
    """Write the score tables of `published-items`: 7,530 items x 3 prompts for ten models.
    Return nickname -> table.
    """
    tables = {prompt: read_items(prompt).set_index("name") for prompt in ITEM_PROMPTS}
    paths = [item_file(prompt) for prompt in ITEM_PROMPTS]
    written = {}
    for name, hub_id in papers_models().items():
        rewards = pd.concat(
            {prompt: table[hub_id] for prompt, table in tables.items()}, axis=1
        )
        rows = rewards.rename_axis("text").reset_index()
        written[name] = _write(ITEMS, name, rows, PAPER, paths, prompts=ITEM_PROMPTS)
    return written


def human_ratings() -> pd.DataFrame:
    """Return people's preferences by pairwise comparisons on EloEverything, in columns item, elo,
    matches, rank.

    Higher elo means more preferred. `rank` also orders items of equal elo, so prefer ranks of elo
    that ties share.
    """
    columns = {
        "name": "item",
        "elo_score": "elo",
        "elo_matches": "matches",
        "elo_rank": "rank",
    }
    ratings = read_items("GE")[list(columns)].rename(columns=columns)
    return ratings.astype({"elo": int, "matches": int, "rank": int})


def item_file(prompt: str) -> str:
    """Return the path of the item file for a prompt (GE, HP or GW) in the repository."""
    return f"data/elo/{ITEM_PROMPTS[prompt].removesuffix('?')}.csv"


def read_items(prompt: str) -> pd.DataFrame:
    """Return the published item file for a prompt: ELO_COLUMNS, then a float64 column per hub
    id.
    """
    columns = [*ELO_COLUMNS, *papers_models().values()]
    path = downloads.fetch(PAPER, item_file(prompt))
    return _read(path, columns, texts=["name"])


def import_vocabulary(missing: Missing) -> dict[str, Path]:
    """Write the score tables of `published-vocabulary`: every token x 3 prompts (see
    import_words).
    """
    sources = {
        name: [vocabulary_file(hub_id)] for name, hub_id in papers_models().items()
    }
    prompts = (
        grid().set_index("prompt")["text"].loc[list(PAPERS_OWN.values())].to_dict()
    )
    written = {}
    for name, [file] in _fetch_all(PAPER, sources, missing).items():
        rows = read_vocabulary(file)
        written[name] = _write(
            VOCABULARY, name, rows, PAPER, sources[name], prompts=prompts
        )
    return written


def vocabulary_file(hub_id: str) -> str:
    """Return the path of a model's vocabulary file in the repository, with the spelling that is
    pinned.
    """
    wanted = f"data/reward_model_scores/{hub_id.replace('/', '--')}.csv"
    paths = downloads.registry()["path"]
    return next(
        (path for path in paths if path.casefold() == wanted.casefold()), wanted
    )


def read_vocabulary(path: Path) -> pd.DataFrame:
    """Return a published vocabulary file: token_id (int32), token, text, and greatest, best and
    worst (float32).
    """
    table = _read(path, VOCABULARY_COLUMNS, texts=["token_name", "token_decoded"])
    rewards = VOCABULARY_COLUMNS[3:]
    types = {"token_id": np.int32} | dict.fromkeys(rewards, np.float32)
    return table.astype(types).rename(
        columns={"token_name": "token", "token_decoded": "text"}
    )


def papers_models() -> dict[str, str]:
    """Return nickname -> hub id of the ten reward models of the paper."""
    models = registry.reward_models()
    return models.loc[models["group"] == "paper", "hub_id"].to_dict()


def _fetch_all(
    repository: str, sources: dict[str, list[str]], missing: Missing
) -> dict[str, list[Path]]:
    """Return nickname -> its files on this machine, from nickname -> their paths in the repository.

    Models that lack a file go to `missing`; Unreachable if none is left. If GitHub does not answer,
    it is asked once.
    """
    files: dict[str, list[Path]] = {}
    for name, paths in sources.items():
        has_answered = all(error.answered for error in missing.values())
        try:
            files[name] = [
                downloads.fetch(repository, path, download=has_answered)
                for path in paths
            ]
        except downloads.Unreachable as error:
            missing[name] = error
    if not files:
        raise next(iter(missing.values()))
    return files


def _read(path: Path, columns: list[str], texts: Names[str]) -> pd.DataFrame:
    """Return the rows of a csv, `texts` as strings and all other columns as float64. InputError
    for another file.
    """
    content = path.read_bytes().decode("utf-8-sig")
    # A carriage return may be a token by itself, written without quotes; csv would end the row
    # there.
    stand_in = next(
        char for char in map(chr, range(0xE000, 0xF900)) if char not in content
    )
    content = re.sub(r"\r(?!\n)", stand_in, content)
    lines = io.StringIO(content, newline="\n")
    header, *rows = (
        [cell.replace(stand_in, "\r") for cell in row]
        for row in csv.reader(lines, strict=True)
    )
    if header != columns or any(len(row) != len(columns) for row in rows):
        raise InputError(
            f"{path} is refused: its columns should be {', '.join(columns)}; fetch it again"
        )
    table = pd.DataFrame(rows, columns=columns, dtype="str")
    return table.assign(
        **{
            column: table[column].map(float)
            for column in columns
            if column not in texts
        }
    )


def _write(
    collection: Collection,
    name: str,
    rows: pd.DataFrame,
    repository: str,
    paths: list[str],
    **metadata: object,
) -> Path:
    """Write one score table. rows: text, rewards, and token_id and token unless they are row
    numbers and texts.
    """
    pins = downloads.registry()
    is_source = (pins["repository"] == repository) & pins["path"].isin(paths)
    pins = pins[is_source]
    metadata |= {
        "model": papers_models()[name],
        "imported": collection.name,
        "rows": len(rows),
        "source": repository,
        "commit": pins["commit"].iloc[0],
        "git_blob_ids": dict(zip(pins["path"], pins["git_blob_id"], strict=True)),
    }
    path = scores.path_of(collection, name)
    with lock(path):
        scores.write(_score_table(rows), path, metadata)
    return path


def _score_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the score table of rows as `_write` takes them."""
    rewards = rows.drop(columns=["token_id", "token", "text"], errors="ignore")
    table = pd.DataFrame(
        {"token_id": rows.get("token_id", pd.Series(range(len(rows))))}
    )
    table = table.astype(np.int32)
    table["token"] = rows.get("token", rows["text"]).array
    table["text"] = rows["text"].array
    table["reply_ids"] = [np.array([], dtype=np.int32)] * len(rows)
    # Groups are equal trimmed texts with equal rewards: tokens of one input may have been scored
    # twice, differently.
    inputs = pd.DataFrame({"text": [text.strip() for text in rows["text"]]}).join(
        rewards
    )
    alike = inputs.groupby(list(inputs), sort=False, dropna=False)
    groups = alike.ngroup()
    return table.assign(input_group=groups.astype(np.int32)).join(
        rewards.astype(np.float32)
    )
