"""Rewards from outside: `export` writes the texts of a card, and `import_rewards` reads the
rewards of any scorer.
"""

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd

from ..paper import (
    OWN,
    Collection,
    InputError,
    imports,
    io,
    registry,
    scores,
    write_csv,
)
from . import measures

# what the metadata of such a table says under `imported`
OUTSIDE = "rewards from outside"


def replies() -> pd.Index:
    """Return the replies of a card, each once: its words, then its items."""
    return measures.words().append(measures.items().index).unique()


def texts() -> pd.DataFrame:
    """Return what to score, with columns id, prompt_name, prompt, reply. The id is a hash of
    prompt and reply, as a reply such as `null` may come back as something else.
    """
    rows = [
        (name, text, reply)
        for name, text in measures.prompts().items()
        for reply in replies()
    ]
    table = pd.DataFrame(rows, columns=["prompt_name", "prompt", "reply"])
    typed = table["prompt"] + "\0" + table["reply"]
    ids = [hashlib.sha256(each.encode()).hexdigest()[:12] for each in typed]
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

    InputError names the first text without one finite reward.
    """
    study = Collection(collection or OWN.name)
    rows = imports.read_columns(file, "id", "reward")
    once = rows[~rows["id"].duplicated(keep=False)].set_index("id")["reward"]
    asked = texts()
    rewards = pd.to_numeric(once, errors="coerce")
    asked["reward"] = rewards.reindex(asked["id"]).to_numpy()
    # in a score table, a larger one would be infinite
    is_finite = asked["reward"].abs() <= np.finfo(np.float32).max
    lacking = asked[~is_finite]
    if len(lacking):
        first = lacking.iloc[0]
        raise InputError(
            f"{file} needs one row with a finite number for each id; {len(lacking):,} of "
            f"{len(asked):,} lack it, the first is {first['id']} ({first['reply']!r})"
        )
    wide = asked.pivot_table("reward", "reply", "prompt_name")
    write_table(wide.loc[replies()], name, study)
    print(
        f"{len(wide):,} replies to {len(measures.PROMPTS)} prompts; run: make card MODEL={name} "
        f"COLLECTION={study}"
    )


def write_table(rewards: pd.DataFrame, name: str, study: Collection) -> None:
    """Write the score table of a model that is not loaded here, from its rewards of all texts:
    replies x prompts. InputError for a collection that is not one's own.
    """
    registry.study_of({name: name}, study.name)
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
    )
    for prompt in measures.PROMPTS:
        table[prompt] = rewards[prompt].to_numpy(dtype=np.float32)
    path = scores.path_of(study, name)
    about = {
        "model": name,
        "imported": OUTSIDE,
        "prompts": measures.prompts(),
        "reply_mode": "text",
    }
    with io.lock(path):
        scores.write(table, path, about)


def table_of(name: str, study: Collection) -> pd.DataFrame | None:
    """Return the score table of a model whose rewards were imported; None if there is none of
    that name.
    """
    if "/" in name or "\\" in name:
        return None
    path = scores.path_of(study, name)
    if not path.is_file():
        return None
    table = scores.read(path)
    return table if table.attrs["metadata"].get("imported") == OUTSIDE else None
