"""What a score table lacks of the prompts that are wanted of it, and the table once that is scored, wherever it was."""

import datetime
import hashlib
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from lib import InputError, scores, shards
from lib.models.conversations import Inputs


@dataclass(frozen=True)
class Unscored:
    """What a score table lacks of the prompts that are wanted of it.

    settings: all that its rewards depend on, other than the prompt, as of scoring.settings_of. tokens: the replies,
    as of scoring.tokens_of. table: what is there already, empty if nothing. scored: its prompts, name -> prompt;
    missing: the others that are wanted.
    """

    path: Path
    settings: dict
    tokens: pd.DataFrame
    table: pd.DataFrame
    scored: dict[str, str]
    missing: dict[str, str]

    @property
    def folder(self) -> Path:
        """Where the shards of the missing prompts are kept: beside the table, by its settings."""
        return self.path.with_name(f"{self.path.stem}.{hash_of(self.settings)}.shards")


def lacking(path: Path, settings: dict, tokens: pd.DataFrame, prompts: dict[str, str], overwrite: bool) -> Unscored:
    """What the table at `path` lacks of these prompts. The caller holds lock(path).

    InputError where the table is of other settings, unless `overwrite`.
    """
    table, scored = _table_so_far(path, settings, prompts, overwrite)
    missing = {name: prompt for name, prompt in prompts.items() if name not in scored}
    return Unscored(path, settings, tokens, table, scored, missing)


def complete(
    lacks: Unscored, found: Iterable[tuple[str, Inputs, np.ndarray]], about: dict, started: float
) -> pd.DataFrame:
    """The table with what it lacked, written, and its shards removed. The caller holds the lock of its path.

    found: for each missing prompt its name, its inputs and their rewards, (inputs,) float32. about: as of
    scoring.about_run. started: when the run began, seconds of the clock.
    """
    table, columns, prompts = lacks.table, {}, lacks.scored | lacks.missing
    for name, inputs, rewards in found:
        table = with_inputs(table if len(table) else lacks.tokens, inputs)
        columns[name] = rewards[inputs.group]
    if columns:
        table = pd.concat([table, pd.DataFrame(columns, index=table.index)], axis=1)
        start = datetime.datetime.fromtimestamp(started, datetime.UTC).isoformat(timespec="seconds")
        when = {"prompts": prompts, "start": start, "seconds": round(time.time() - started, 1)}
        scores.write(table, lacks.path, lacks.settings | about | when)
    shards.remove(lacks.folder, prompts.values())
    return scores.read(lacks.path) if columns else table


def _table_so_far(path: Path, settings: dict, prompts: dict, overwrite: bool) -> tuple[pd.DataFrame, dict]:
    """The table at `path` and its prompts, if they are of these settings; else an empty one."""
    if not path.exists():
        return pd.DataFrame(), {}
    try:
        table = scores.read(path)
    except InputError as error:
        if not overwrite:
            raise
        tqdm.write(f"scored again, because {error}")
        return pd.DataFrame(), {}
    metadata = table.attrs["metadata"]
    scored = metadata.get("prompts", {})
    differ = [key for key, value in settings.items() if metadata.get(key) != value]
    differ += [name for name, prompt in scored.items() if prompts.get(name, prompt) != prompt]
    differ += ["prompts"] * (set(scored) != set(scores.prompt_names(table)))
    if not differ:
        return table, scored
    if overwrite:
        return pd.DataFrame(), {}
    raise InputError(
        f"{path} holds scores of other settings ({', '.join(differ)}); score into another collection, or delete it"
    )


def with_inputs(table: pd.DataFrame, inputs: Inputs) -> pd.DataFrame:
    """The table with `reply_ids` and `input_group`: what is fed for each token, the same for every prompt.

    InputError if a prompt merges other replies than the first did; no template that ends in control tokens does.
    """
    if "input_group" in table:
        if not np.array_equal(table["input_group"], inputs.group):
            raise InputError(f"the prompt {inputs.conversation.prompt!r} merges other replies; score it by itself")
        return table
    reply_ids = [np.array(inputs.reply_ids[group], dtype=np.int32) for group in inputs.group]
    return table.assign(reply_ids=reply_ids, input_group=inputs.group)


def hash_of(value: object) -> str:
    """Twelve hex digits that stand for a value of plain types."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
