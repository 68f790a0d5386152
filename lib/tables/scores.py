"""Score tables: the reward of every token of a vocabulary, one parquet file per reward model and
collection.

The file's metadata names the model and the settings, and holds a digest, so that a damaged table is
refused.
"""

import json
from collections.abc import Mapping, Sized
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from .. import InputError, io
from ..io import replacing
from .collection import EMBEDDED, PUBLISHED, Collection
from .registry import did_you_mean

# reply_ids are the ids that the model read for this token; input_group is equal where the model's
# input was identical.
COLUMNS = {
    "token_id": pa.int32(),
    "token": pa.string(),
    "text": pa.string(),
    "reply_ids": pa.list_(pa.int32()),
    "input_group": pa.int32(),
}
LOGPROBS = "-logprobs"  # ends the names of collections that notebook 09 makes
# Settings in which tables that are read together must agree, and those in which tables of one model
# must agree too.
OF_ALL = ("reply_mode", "bos", "closing")
OF_ONE_MODEL = (
    "revision",
    "head",
    "dtype",
    "attention",
    "read_at",
    "chat_template",
    "date",
)
METADATA_KEY = b"reward_model_values"


def path_of(collection: Collection, nickname: str) -> Path:
    """Return where the score table of a model in a collection is kept:
    data/scores/<collection>/<nickname>.parquet.
    """
    return collection.scores / f"{io.checked(nickname, 'a model')}.parquet"


def write(table: pd.DataFrame, path: Path, metadata: dict) -> None:
    """Write a score table; the old one stays as it was until the new one is whole and on disk.

    `metadata` holds, as JSON, everything that the rewards depend on. Raise InputError if a reward
    is no finite number, or if the table cannot be written. The caller holds `lock(path)` where
    others may write the same table.
    """
    prompts = prompt_names(table)
    if not np.isfinite(table[prompts]).all(axis=None):
        raise InputError(f"{path} is not written: a reward is no finite number")
    schema = schema_of(prompts)
    arrow = pa.Table.from_pandas(table, schema=schema, preserve_index=False)
    # Nothing but our own metadata, so that one content is one sequence of bytes whatever pandas
    # wrote it.
    described = json.dumps(metadata, sort_keys=True).encode()
    with replacing(path) as part:
        pq.write_table(
            arrow.replace_schema_metadata({METADATA_KEY: described}),
            part,
            write_page_checksum=True,
        )


def schema_of(prompts: list[str]) -> pa.Schema:
    """Return the columns in the file of a score table with rewards for these prompts."""
    fields = COLUMNS | dict.fromkeys(prompts, pa.float32())
    return pa.schema(
        [pa.field(name, type_, nullable=False) for name, type_ in fields.items()]
    )


def read(path: Path) -> pd.DataFrame:
    """Return the score table in a file, in file order; `table.attrs["metadata"]` says what its
    rewards depend on.

    Raise InputError, naming the file, if it is missing, no score table as `write` writes it, or
    damaged by parquet's own checksums.
    """
    path = Path(path)
    command = _how_to_make(path.parent.name, path.stem)
    if not path.is_file():
        raise InputError(
            f"no scores for '{path.stem}' in {path.parent}; run: {command}"
        )
    try:
        # a machine that can start no thread would be taken for a damaged file
        arrow = pq.ParquetFile(path, page_checksum_verification=True).read(
            use_threads=False
        )
        metadata = json.loads(arrow.schema.metadata[METADATA_KEY])
        table = arrow.replace_schema_metadata(None).to_pandas()
        problem = _problem_of(table, arrow.schema, metadata)
    except Exception as error:  # damaged bytes fail in many ways
        problem = type(error).__name__
    if problem:
        raise InputError(
            f"{path} is no whole score table ({problem}); delete it and run: {command}"
        )
    table.attrs["metadata"] = metadata
    return table


def _problem_of(table: pd.DataFrame, schema: pa.Schema, metadata: Any) -> str:
    """Return why a table is none that `write` wrote; "" if it may be one."""
    prompts = prompt_names(table)
    if not schema.equals(schema_of(prompts)):
        return "its columns are not those of a score table"
    if not isinstance(metadata, dict) or not isinstance(
        metadata.get("prompts", {}), dict
    ):
        return "its metadata are not those of a score table"
    if not table["token_id"].is_unique:
        return "it holds a token id twice"
    is_finite = np.isfinite(table[prompts]).all(axis=None)
    return "" if is_finite else "a reward is no finite number"


def _how_to_make(study: str, model: str) -> str:
    """Return the command that makes a score table."""
    if study.startswith(PUBLISHED.name):
        return "make published"
    if study.startswith(EMBEDDED.name) or study.endswith(LOGPROBS):
        return f"make reproduce COLLECTION={study.removesuffix(LOGPROBS)}"
    return f"make score MODEL={model} COLLECTION={study}"


def read_all(collection: Collection) -> dict[str, pd.DataFrame]:
    """Return the score tables of a collection by nickname.

    InputError for none, and for two tables that were asked differently.
    """
    if not collection.models:
        command = _how_to_make(collection.name, "MODEL")
        if collection.kind == "own":
            notebook = "papermill notebooks/01_score_vocabulary.ipynb out.ipynb"
            command = f"{notebook} -r collection {collection} -p model MODEL"
        scored = {
            path.parent.name for path in collection.scores.parent.glob("*/*.parquet")
        }
        hint = did_you_mean(collection.name, scored)
        raise InputError(
            f"no scores in collection '{collection}'{hint}; run: {command}"
        )
    tables = {name: read(path_of(collection, name)) for name in collection.models}
    refuse_differing(
        {name: table.attrs["metadata"] for name, table in tables.items()},
        f"delete one of them in {collection.scores} and score it again as the other was",
    )
    return tables


def refuse_differing(settings: dict[str, dict], remedy: str) -> None:
    """Raise InputError, which names the difference, if rewards that are read together were computed
    differently.

    `settings` are the metadata of score tables, by name. Texts of prompts and the settings OF_ALL
    must agree, and those OF_ONE_MODEL between tables of one `model`. What a table does not state
    agrees with anything.
    """
    seen: dict[str, tuple[str, object]] = {}  # setting -> the first table, its value
    for name, metadata in settings.items():
        prompts = metadata.get("prompts", {})
        values = {f"text of the prompt {each}": prompts[each] for each in prompts}
        values |= {key: metadata.get(key) for key in OF_ALL}
        model = metadata.get("model", name)
        values |= {f"{key} of {model}": metadata.get(key) for key in OF_ONE_MODEL}
        for what, value in values.items():
            if value is None:
                continue
            first, expected = seen.setdefault(what, (name, value))
            if value != expected:
                raise InputError(
                    f"{first} and {name} differ in {what} ({str(expected)[:200]!r}, "
                    f"{str(value)[:200]!r}); {remedy}"
                )


def checked_prompt(name: str) -> str:
    """Return the name of a prompt, which is that of a column. InputError for one that no file can
    have, and for the columns of every table.
    """
    if name in COLUMNS:
        raise InputError(
            f"'{name}' is a column of every score table; give the prompt another name"
        )
    return io.checked(name, "a prompt")


def prompt_names(table: pd.DataFrame) -> list[str]:
    """Return the names of the prompts that a score table holds rewards for, in column order."""
    return [column for column in table.columns if column not in COLUMNS]


def shared_prompts(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return the prompts that all these score tables hold, in the column order of the first.
    InputError if there is none.
    """
    first, *others = map(prompt_names, tables.values())
    shared = [prompt for prompt in first if all(prompt in one for one in others)]
    if not shared:
        raise InputError(
            f"{', '.join(tables)} share no prompt; score them for the same prompts"
        )
    return shared


def unique_inputs(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per distinct model input, in order of token_id; the lowest token_id stands
    for its input_group.
    """
    return (
        table.sort_values("token_id")
        .drop_duplicates("input_group")
        .reset_index(drop=True)
    )


def shared_vocabulary(
    tables: Mapping[str, pd.DataFrame],
    prompt: str,
    *,
    trim: bool = True,
    duplicates: str = "drop",
) -> pd.DataFrame:
    """Return rewards of the texts that all models can reply, for one prompt: texts x models,
    float32.

    Rows are in the order of the first table's token ids. InputError if no text is shared.

    - duplicates: "drop" removes a text that more than one id of a model has, as the authors did
      (section 2.2). "first" takes the lowest of these ids, as in the list of 85,524 texts that they
      released.
    - trim: join on the trimmed text, which chat templates feed, and not on the decoded one, as the
      authors did
    """
    columns = {}
    for name, table in tables.items():
        rows = table.sort_values("token_id")
        rows = rows.drop_duplicates(
            "text", keep=False if duplicates == "drop" else "first"
        )
        # str.strip, because it is what a template's `trim` calls; Arrow's own trim leaves the
        # control characters 1C - 1F.
        texts = rows["text"].map(str.strip) if trim else rows["text"]
        by_text = rows[prompt].set_axis(pd.Index(texts, dtype="str"))
        columns[name] = by_text[~by_text.index.duplicated()]
    joined = pd.concat(columns, axis=1, join="inner", sort=False)
    if joined.empty:
        raise InputError(
            f"no text is shared by {', '.join(tables)}; compare models whose vocabularies overlap"
        )
    return joined.rename_axis("text")


def refuse_few(texts: Sized, least: int, what: str) -> None:
    """Raise InputError if there are fewer texts than that. what: what they are, as `words that
    people rated`.
    """
    if len(texts) < least:
        raise InputError(
            f"{len(texts)} {what} are too few, {least} are needed; score a model with a larger "
            "vocabulary"
        )


def read_as(table: pd.DataFrame) -> pd.Series:
    """Return what the model read for each token of a score table.

    `itself`, such as `love`; `another id`, as ` love` fed as `love`; `several ids`, for a text that
    the tokenizer splits; `nothing`, for a blank text that the template trims.
    """
    lengths = table["reply_ids"].map(len)
    is_itself = table["reply_ids"].str[0] == table["token_id"]
    kinds = np.select(
        [lengths == 0, lengths > 1, is_itself],
        ["nothing", "several ids", "itself"],
        "another id",
    )
    return pd.Series(kinds, table.index, dtype="str")


def as_score_table(tokens: pd.DataFrame) -> pd.DataFrame:
    """Return the tokens with reply_ids and input_group, as in score tables: every token is
    predicted as itself.
    """
    ids = tokens["token_id"]
    return tokens.assign(reply_ids=[[each] for each in ids], input_group=ids)
