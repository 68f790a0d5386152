"""Score tables: the reward of every token of a vocabulary, one parquet file per reward model and collection.

Columns: token_id int32; token, text strings; reply_ids list<int32>, what was really fed for this token; input_group
int32, equal where the model's input was identical; then one float32 column per prompt. The file's metadata says which
model, revision and settings the rewards come from.
"""

import contextlib
import difflib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from lib import ROOT, InputError

with contextlib.suppress(ImportError):  # not on Windows, where a second writer is therefore not refused
    import fcntl

COLUMNS = {
    "token_id": pa.int32(),
    "token": pa.string(),
    "text": pa.string(),
    "reply_ids": pa.list_(pa.int32()),
    "input_group": pa.int32(),
}
METADATA_KEY = b"reward_model_values"
RECORD_TYPE = "application/vnd.reward-model-values+json"
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.EISDIR)


# --- files --------------------------------------------------------------------------------------------------------


def path_of(collection: str, nickname: str) -> Path:
    """Where the score table of a model in a collection is kept: data/scores/<collection>/<nickname>.parquet."""
    return _folder_of(collection) / f"{_plain_name(nickname)}.parquet"


def _folder_of(collection: str) -> Path:
    return ROOT / "data" / "scores" / _plain_name(collection)


def _plain_name(name: str) -> str:
    if not name or name.startswith(".") or any(c in '/\\:*?"<>|' or not c.isprintable() for c in name):
        raise InputError(f"{name!r} cannot name a collection or a model's file; use letters, digits, '-', '.' and '_'")
    return name


def write(table: pd.DataFrame, path: Path, metadata: dict) -> None:
    """Write a score table; the old one stays as it was until the new one is whole and on disk.

    metadata: what the rewards depend on, as JSON. Raises InputError when the table breaks the contract, the folder
    cannot be written or the disk is full. The caller holds `lock(path)` where others may write the same table.
    """
    path = Path(path)
    validate(table, str(path))
    schema = pa.schema(COLUMNS | {name: pa.float32() for name in prompt_names(table)})
    arrow = pa.Table.from_pandas(table, schema=schema, preserve_index=False)
    # Nothing but our own metadata, so that one content is one sequence of bytes whatever pandas wrote it.
    arrow = arrow.replace_schema_metadata({METADATA_KEY: json.dumps(metadata, sort_keys=True)})
    with replacing(path) as part:
        pq.write_table(arrow, part)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`: write a file there, and it takes the place of `path` once it is on disk.

    If the block fails, `path` stays as it was and nothing is left beside it. A full disk or an unwritable folder is
    an InputError. A process that is killed leaves at most `.<name>.part`, which the next writer overwrites.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        if isinstance(error, OSError) and (told := _remedy(error, path)):
            raise InputError(told) from error
        raise


def _remedy(error: OSError, path: Path) -> str | None:
    """One line for the failures to write that the reader can mend; None for the others."""
    if error.errno in DISK_FULL:
        return f"the disk is full, so {path} was not written; free some space and run the same command again"
    if error.errno in UNWRITABLE:
        return f"{path.parent} cannot be written ({error.strerror}); make it a writable folder, or choose another"
    return None


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold the sole right to write `path`; a second writer gets an InputError that names the process holding it.

    The lock is the operating system's, on `<path>.lock`, so it ends with the process, however that ends.
    """
    path = Path(path)
    name = path.with_name(f"{path.name}.lock")
    try:
        name.parent.mkdir(parents=True, exist_ok=True)
        file = open(name, "a+")  # noqa: SIM115 - closed by the `with` below
    except OSError as error:
        raise InputError(_remedy(error, path) or f"{name} cannot be opened: {error.strerror}") from error
    # The file stays when the lock ends: removing it could pull it from under a process that has just opened it.
    with file:
        if "fcntl" in globals():
            _take(file, path)
        yield


def _take(file, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        pid = file.read().strip() or "unknown"
        raise InputError(f"process {pid} is writing {path}; wait until it ends, or stop it, then run again") from error
    with contextlib.suppress(OSError):  # on a full disk the number stays unknown; the lock itself needs no space
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()


def read(path: Path) -> pd.DataFrame:
    """The score table in a file, in file order; `table.attrs["metadata"]` says what its rewards depend on.

    Raises InputError, naming the file, if it is missing, corrupt, or a table of something else.
    """
    path = Path(path)
    again = f"delete it and score again: make score MODEL={path.stem} COLLECTION={path.parent.name}"
    if not path.is_file():
        raise InputError(
            f"no scores for '{path.stem}' in {path.parent}; run: make score MODEL={path.stem} "
            f"COLLECTION={path.parent.name}"
        )
    try:
        arrow = pq.ParquetFile(path).read()
    except PermissionError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); make it readable") from error
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is not a whole parquet file; {again}") from error
    try:
        metadata = json.loads((arrow.schema.metadata or {})[METADATA_KEY])
    except (KeyError, ValueError) as error:
        raise InputError(f"{path} is not a score table of this project (it has no metadata); {again}") from error
    table = arrow.replace_schema_metadata(None).to_pandas()
    validate(table, str(path), again)
    table.attrs["metadata"] = metadata
    return table


def collection(name: str) -> dict[str, pd.DataFrame]:
    """The score tables of a collection by model nickname, in alphabetical order; at least one.

    Raises InputError if there are none, or if one of them is not a score table.
    """
    paths = sorted(_folder_of(name).glob("*.parquet"))
    if not paths:
        raise InputError(f"no scores in {_folder_of(name)}; run: make reproduce COLLECTION={name}")
    return {path.stem: read(path) for path in paths}


# --- the contract -------------------------------------------------------------------------------------------------


def prompt_names(table: pd.DataFrame) -> list[str]:
    """The names of the prompts that a score table holds rewards for, in column order."""
    return [column for column in table.columns if column not in COLUMNS]


def validate(table: pd.DataFrame, name: str = "the score table", remedy: str = "build it with lib.scoring") -> None:
    """Raise InputError if this is not a score table; it names the first thing that is wrong, and the remedy."""
    problem = _problem(table)
    if problem:
        raise InputError(f"{name} is not a score table: {problem}; {remedy}")


def _problem(table: pd.DataFrame) -> str | None:
    missing = [column for column in COLUMNS if column not in table.columns]
    if missing:
        return f"column {missing[0]} is missing"
    prompts = prompt_names(table)
    if not prompts or not table.columns.is_unique:
        return "it has no prompt column" if not prompts else "two columns have one name"
    for column in table.columns:
        expected = COLUMNS.get(column, pa.float32())
        if not _holds(table[column], expected):
            return f"column {column} is not {expected}"
    if table.empty:
        return "it has no rows"
    if not table["token_id"].is_unique:
        return f"token_id {table.loc[table['token_id'].duplicated(), 'token_id'].iloc[0]} occurs more than once"
    return _wrong_reward(table, prompts)


def _holds(column: pd.Series, expected: pa.DataType) -> bool:
    """Whether the column is of that type throughout; a missing value is of none."""
    if expected == pa.string():
        return pd.api.types.is_string_dtype(column) and not column.isna().any()
    if expected == COLUMNS["reply_ids"]:
        return all(isinstance(ids, np.ndarray | list | tuple) and _are_ids(ids) for ids in column)
    return column.dtype == expected.to_pandas_dtype()


def _are_ids(ids) -> bool:
    if isinstance(ids, np.ndarray):
        return ids.dtype == np.int32 or ids.size == 0
    return all(isinstance(i, int | np.integer) for i in ids)


def _wrong_reward(table: pd.DataFrame, prompts: list[str]) -> str | None:
    # Sorted by group, a reward that differs from its predecessor's in the same group breaks the contract.
    ordered = table.sort_values("input_group", kind="stable")
    same_input = np.diff(ordered["input_group"].to_numpy()) == 0
    for prompt in prompts:
        rewards = ordered[prompt].to_numpy()
        if not np.isfinite(rewards).all():
            row = ordered.iloc[int(np.flatnonzero(~np.isfinite(rewards))[0])]
            return f"the reward of token {row['token_id']} ({row['token']!r}) for {prompt} is {row[prompt]}"
        if (differs := same_input & (np.diff(rewards) != 0)).any():
            group = ordered["input_group"].iloc[int(np.flatnonzero(differs)[0])]
            return f"the tokens of input_group {group} are one input but have different rewards for {prompt}"
    return None


# --- observations -------------------------------------------------------------------------------------------------


def unique_inputs(table: pd.DataFrame) -> pd.DataFrame:
    """One row per distinct model input, in order of token_id; the lowest token_id stands for its input_group.

    Tokens with one input have one reward by construction, so they are not independent observations.
    """
    return table.sort_values("token_id").drop_duplicates("input_group").reset_index(drop=True)


def shared_vocabulary(
    tables: dict[str, pd.DataFrame], prompt: str, *, trim: bool = True, duplicates: str = "drop"
) -> pd.DataFrame:
    """Rewards of the texts that all models can reply, for one prompt: indexed by text, one float32 column per model.

    Joined on text, never on row position; in the order of the first table's token ids.
    duplicates: what becomes of a text, as decoded, that more than one id of a model carries. "drop": removed, as the
    authors did (section 2.2); "first": the lowest id stands for it.
    trim: True joins on the trimmed text, which is what chat templates feed, so that ` love` and `love` are one row
    (the lowest id's); False joins on the decoded text as it is, as the authors did.
    Raises InputError if a table lacks the prompt, or no text is shared.
    """
    if duplicates not in ("drop", "first"):
        raise InputError(f"duplicates must be 'drop' or 'first', not {duplicates!r}")
    if not tables:
        raise InputError("no score tables to join; name a collection that has some")
    columns = {name: _by_text(name, table, prompt, trim, duplicates) for name, table in tables.items()}
    joined = pd.concat(columns, axis=1, join="inner", sort=False)
    if joined.empty:
        raise InputError(f"no text is shared by {', '.join(tables)}; compare models whose vocabularies overlap")
    return joined.rename_axis("text")


def _by_text(name: str, table: pd.DataFrame, prompt: str, trim: bool, duplicates: str) -> pd.Series:
    if prompt not in prompt_names(table):
        raise InputError(
            f"the scores of {name} have no prompt '{prompt}' (they have {', '.join(prompt_names(table))}); "
            f"run: make score MODEL={name} PROMPTS={prompt}"
        )
    rows = table.sort_values("token_id")
    rows = rows.drop_duplicates("text", keep=False if duplicates == "drop" else "first")
    # str.strip, because it is what a template's `trim` calls; Arrow's own trim leaves the control characters 1C - 1F.
    texts = [text.strip() if trim else text for text in rows["text"]]
    by_text = pd.Series(rows[prompt].to_numpy(), index=pd.Index(texts, dtype="str"))
    return by_text[~by_text.index.duplicated()]


def what_was_fed(table: pd.DataFrame) -> pd.Series:
    """How many tokens the model read as what: counts by kind, and the number of distinct inputs.

    itself: the token's own id, alone. another id: one other id (` love` fed as `love`). several ids: the text came back
    from the tokenizer in pieces. nothing: a blank text, which the template trims away. These four add up to `tokens`.
    undecodable: texts with U+FFFD, bytes that are no character by themselves; counted among the others too.
    """
    length = table["reply_ids"].map(len).to_numpy()
    first = np.array([ids[0] if len(ids) else -1 for ids in table["reply_ids"]])
    itself = (length == 1) & (first == table["token_id"].to_numpy())
    counts = {
        "tokens": len(table),
        "itself": itself.sum(),
        "another id": ((length == 1) & ~itself).sum(),
        "several ids": (length > 1).sum(),
        "nothing": (length == 0).sum(),
        "undecodable": table["text"].str.contains("\ufffd", regex=False).sum(),
        "distinct inputs": table["input_group"].nunique(),
    }
    return pd.Series(counts, name="tokens", dtype=int)


# --- prompts and the paper's tables -------------------------------------------------------------------------------


def read_prompts(chosen: str | None) -> dict[str, str]:
    """Name -> prompt. chosen: names from data/prompts.csv, separated by commas; a csv like it; None takes them all."""
    ours = _prompt_table(ROOT / "data" / "prompts.csv")
    if not chosen:
        return ours
    if Path(chosen).suffix == ".csv":
        return _prompt_table(Path(chosen))
    names = [name.strip() for name in chosen.split(",")]
    for name in names:
        if name not in ours:
            near = difflib.get_close_matches(name, ours, n=1, cutoff=0)[0]
            raise InputError(f"unknown prompt '{name}'; did you mean '{near}'? Or give a csv with columns prompt,text")
    return {name: ours[name] for name in names}


def _prompt_table(path: Path) -> dict[str, str]:
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); give a csv with columns prompt,text") from error
    if not {"prompt", "text"} <= set(table.columns) or table.empty:
        raise InputError(f"{path} has no columns prompt,text with a row; head it with: prompt,text")
    wrong = [name for name in table["prompt"] if not name.strip() or name in COLUMNS]
    wrong += table.loc[table["prompt"].duplicated(), "prompt"].tolist()
    if wrong or not table["text"].str.strip().all():
        raise InputError(f"{path}: each row needs a text and a name of its own, not one of {', '.join(COLUMNS)}")
    return dict(zip(table["prompt"], table["text"], strict=True))


def paper_table(name: str) -> pd.DataFrame:
    """A table printed in the paper, data/paper/<name>.csv; tokens such as `null` stay strings."""
    path = ROOT / "data" / "paper" / f"{name}.csv"
    if not path.is_file():
        known = ", ".join(sorted(one.stem for one in path.parent.glob("*.csv")))
        raise InputError(f"no table '{name}' of the paper in data/paper; there are {known}")
    return pd.read_csv(path, keep_default_na=False)


# --- numbers that notebooks state ---------------------------------------------------------------------------------


def record(**numbers) -> None:
    """Keep named numbers in the notebook that calls this, where `recorded` finds them after it was executed."""
    from IPython.display import display

    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in numbers.items()}
    told = ", ".join(f"{name} = {value}" for name, value in plain.items())
    display({RECORD_TYPE: plain, "text/plain": f"recorded: {told}"}, raw=True)


def recorded(notebook) -> dict:
    """The named numbers that an executed notebook (an nbformat node) recorded; of one name, the last."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    found = [output["data"].get(RECORD_TYPE, {}) for output in outputs if "data" in output]
    return {name: value for numbers in found for name, value in numbers.items()}
