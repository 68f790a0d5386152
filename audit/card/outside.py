"""Rewards from outside: `export` writes the texts of a card, and `import_rewards` reads the
rewards of any scorer.
"""

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd

from ..paper import (
    Collection,
    InputError,
    imports,
    io,
    kinds,
    planting,
    registry,
    scores,
    write_csv,
)
from ..paper import collection as tables_collection
from . import measures

# what the metadata of such a table says under `imported`
OUTSIDE = "rewards from outside"


def replies(quick: bool = False) -> pd.Index:
    """Return the replies of a card, each once: its words, then its items.

    quick: every fifth word, the items of a kind that a card measures, and every sixteenth of the
    other items.
    """
    words = measures.words()
    items = measures.items().index
    if quick:
        known = planting.word_kinds()
        kind = kinds.kinds_of(items, known, titles=True).to_numpy()
        is_sixteenth = np.arange(len(items)) % 16 == 0
        words = words[::5]
        items = items[(kind != "") | is_sixteenth]
    return words.append(items).unique()


def texts() -> pd.DataFrame:
    """Return what to score, with columns id, prompt_name, prompt, reply. The id is a hash of
    prompt and reply.
    """
    rows = [
        (name, text, reply)
        for name, text in measures.prompts().items()
        for reply in replies()
    ]
    ids = [
        hashlib.sha256(f"{text}\0{reply}".encode()).hexdigest()[:12]
        for _, text, reply in rows
    ]
    table = pd.DataFrame(rows, columns=["prompt_name", "prompt", "reply"])
    table.insert(0, "id", ids)
    return table


def export(file: str) -> None:
    """Write the texts to score to a csv, and print what to do with it."""
    asked = texts()
    write_csv(asked, Path(file))
    print(
        f"{file} holds {len(asked):,} texts. Score each reply to its prompt, write a csv with "
        "columns id,reward, and"
    )
    print("run: python -m audit import REWARDS.csv --name <name of the model>")


def import_rewards(file: str, name: str, collection: str | None = None) -> None:
    """Write the score table of a model whose rewards somebody else computed: a csv with columns id
    and reward.

    InputError names an id that is unknown, missing or given twice, or a reward that is no finite
    number.
    """
    study = Collection(collection or tables_collection.OWN.name)
    registry.refuse_foreign(study, {name: name})
    asked = texts()
    given = _read(file)
    _refuse(
        file,
        given[~given["id"].isin(asked["id"])],
        "id {id!r} is none of ours; export the texts again and score them",
    )
    missing = asked[~asked["id"].isin(given["id"])]
    if len(missing):
        first = missing.iloc[0]
        raise InputError(
            f"{file} lacks {len(missing):,} of {len(asked):,} rewards, the first of them "
            f"{first['id']} ({first['reply']!r} as the reply to {first['prompt']!r}); add a row "
            "for each"
        )
    wide = asked.merge(given, on="id", validate="one_to_one").pivot_table(
        "reward", "reply", "prompt_name", sort=False
    )
    write_table(wide, name, study)
    print(
        f"{len(wide):,} replies to {len(measures.PROMPTS)} prompts; run: make card MODEL={name} "
        f"COLLECTION={study}"
    )


def write_table(rewards: pd.DataFrame, name: str, study: Collection) -> None:
    """Write the score table of a model that is not loaded here, from its rewards of all texts:
    replies x prompts.
    """
    numbers = np.arange(len(rewards), dtype=np.int32)
    replies = pd.Series(rewards.index, dtype="str")
    no_ids = np.array([], dtype=np.int32)
    table = pd.DataFrame(
        {
            "token_id": numbers,
            "token": replies,
            "text": replies,
            "input_group": numbers,
            "reply_ids": [no_ids] * len(rewards),
        }
        | {
            prompt: rewards[prompt].to_numpy(dtype=np.float32)
            for prompt in measures.PROMPTS
        }
    )
    path = scores.path_of(study, name)
    about = {
        "model": name,
        "imported": OUTSIDE,
        "prompts": measures.prompts(),
        "reply_mode": "text",
        "number of texts": len(rewards),
    }
    with io.lock(path):
        scores.write(table, path, about)


def _read(file: str) -> pd.DataFrame:
    """Return the columns id and reward of a csv, indexed by line. InputError for an id given
    twice, or no number.
    """
    rows = imports.read_columns(file, "id", "reward")
    different = rows.reset_index(names="line").drop_duplicates("id")
    first = different.set_index("id")["line"]
    twice = rows[rows["id"].duplicated()]
    _refuse(
        file,
        twice.assign(first=twice["id"].map(first)),
        "id {id!r} is on line {first} too",
    )
    numbers = pd.to_numeric(rows["reward"], errors="coerce")
    # it would be infinite in a score table
    is_large = numbers.abs() > np.finfo(np.float32).max
    _refuse(
        file,
        rows[numbers.isna() | is_large],
        "{reward!r} is no finite number; score this reply again",
    )
    return rows.assign(reward=numbers)


def _refuse(file: str, rows: pd.DataFrame, why: str) -> None:
    """Raise InputError for the first of these rows, with its line."""
    for line, row in rows.iterrows():
        raise InputError(f"{file} line {line}: {why.format(**row)}")


def table_of(name: str, collection: str | None) -> pd.DataFrame | None:
    """Return the score table of a model whose rewards were imported; None if there is none of
    that name.
    """
    if "/" in name or "\\" in name:
        return None
    path = scores.path_of(Collection(collection or tables_collection.OWN.name), name)
    if not path.is_file():
        return None
    table = scores.read(path)
    return table if table.attrs["metadata"].get("imported") == OUTSIDE else None
