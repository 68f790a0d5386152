"""Score tables: the reward of every token of a vocabulary, one parquet file per reward model and
collection.

The file's metadata names the model and the settings, and holds a digest, so that a damaged table is
refused.
"""

import itertools
import json
from collections.abc import Mapping, Sized
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from .. import DATA, InputError, io
from ..io import replacing
from .collection import OWN, PUBLISHED, Collection

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
OF_ALL = ("reply_mode", "bos", "closing", "number of texts")
OF_ONE_MODEL = (
    "revision",
    "head",
    "dtype",
    "attention",
    "read_at",
    "chat_template",
    "date",
)
# Settings that tell one model from another.
OF_WEIGHTS = ("revision", "head", "read_at")
METADATA_KEY = b"reward_model_values"


def path_of(collection: Collection, nickname: str) -> Path:
    """Return where the score table of a model in a collection is kept:
    data/scores/<collection>/<nickname>.parquet.
    """
    return collection.scores / f"{io.checked(nickname, 'a model')}.parquet"


def collection_of(path: Path) -> Collection | None:
    """Return the collection whose folder holds a score table; None for a table in another place."""
    folder = Path(path).absolute().parent
    if folder.parent == OWN.scores.parent:
        return Collection(folder.name)
    return None


def write(table: pd.DataFrame, path: Path, metadata: dict) -> None:
    """Write a score table; the old one stays as it was until the new one is whole and on disk.

    `metadata` holds, as JSON, everything that the rewards depend on. Raise InputError if this is no
    score table or it cannot be written. The caller holds `lock(path)` where others may write the
    same table.
    """
    path = Path(path)
    problem = _problem(table)
    fields = COLUMNS | dict.fromkeys(prompt_names(table), pa.float32())
    schema = pa.schema(
        [pa.field(name, type_, nullable=False) for name, type_ in fields.items()]
    )
    try:
        arrow = pa.Table.from_pandas(table, schema=schema, preserve_index=False)
    # a column that is missing, or holds something else
    except (ValueError, TypeError, KeyError) as error:
        problem = problem or str(error)
    if problem:
        raise InputError(
            f"{path} is not a score table: {problem}; build it with lib.scoring"
        )
    # Nothing but our own metadata, so that one content is one sequence of bytes whatever pandas
    # wrote it.
    described = json.dumps(metadata, sort_keys=True).encode()
    arrow = arrow.replace_schema_metadata({METADATA_KEY: described})
    with replacing(path, size=arrow.nbytes) as part:
        pq.write_table(arrow, part, write_page_checksum=True)


def _problem(table: pd.DataFrame) -> str | None:
    """Return the first thing that is wrong with the ids or rewards of a table; None for nothing."""
    if table.empty or not prompt_names(table):
        return "it has no rows or no prompt"
    if not table["token_id"].is_unique:
        return (
            f"token_id {table.loc[table['token_id'].duplicated(), 'token_id'].iloc[0]} occurs "
            "more than once"
        )
    # Sorted by group, a reward that differs from its predecessor's in the same group breaks the
    # contract.
    ordered = table.sort_values("input_group", kind="stable")
    same_input = np.diff(ordered["input_group"].to_numpy()) == 0
    for prompt in prompt_names(table):
        rewards = ordered[prompt].to_numpy()
        if not np.isfinite(rewards).all():
            place = np.flatnonzero(~np.isfinite(rewards))[0]
            row = ordered.iloc[int(place)]
            return (
                f"the reward of token {row['token_id']} ({row['token']!r}) for {prompt} is "
                f"{row[prompt]}"
            )
        if (differs := same_input & (np.diff(rewards) != 0)).any():
            place = np.flatnonzero(differs)[0]
            group = ordered["input_group"].iloc[int(place)]
            return (
                f"the tokens of input_group {group} are one input but have different rewards "
                f"for {prompt}"
            )
    return None


def read(path: Path) -> pd.DataFrame:
    """Return the score table in a file, in file order; `table.attrs["metadata"]` says what its
    rewards depend on.

    Raise InputError, naming the file, if it is missing, no score table, or damaged by parquet's own
    checksums.
    """
    path = Path(path)
    scoring = _how_to_make(path)
    if not path.is_file():
        raise InputError(
            f"no scores for '{path.stem}' in {path.parent}; run: {scoring}"
        )
    problem = ""
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        # a machine that can start no thread would be taken for a damaged file
        arrow = file.read(use_threads=False)
        described = (arrow.schema.metadata or {}).get(METADATA_KEY)
        metadata = None if described is None else json.loads(described)
        table = arrow.replace_schema_metadata(None).to_pandas()
    except PermissionError as error:
        problem = f"cannot be read ({error.strerror}); make it readable"
    except MemoryError:
        raise
    except Exception:
        # damaged bytes fail in many ways, and each of them means the same
        problem = f"is not a whole parquet file; delete it and score again: {scoring}"
    if not problem and metadata is None:
        problem = (
            "is not a score table of this project (it has no metadata); delete it and score again: "
            f"{scoring}"
        )
    if problem:
        raise InputError(f"{path} {problem}")
    table.attrs["metadata"] = metadata
    return table


def _how_to_make(path: Path) -> str:
    study = path.parent.name
    nickname = path.stem
    if study.startswith(PUBLISHED.name):
        return "make published"
    if study.endswith(LOGPROBS):
        return f"make reproduce COLLECTION={study.removesuffix(LOGPROBS)}"
    return f"make score MODEL={_what_to_load(nickname)} COLLECTION={study}"


def _what_to_load(nickname: str, model: str = "") -> str:
    """Return the value of MODEL= for a table of that nickname, whose metadata names this model."""
    registered = pd.read_csv(DATA / "reward_models.csv", usecols=["nickname"])[
        "nickname"
    ]
    if nickname in registered.values:
        return nickname
    # the nickname alone would not be found
    return model if "/" in model else f"<folder or hub id of {nickname}>"


def read_all(collection: Collection) -> dict[str, pd.DataFrame]:
    """Return the score tables of a collection by nickname.

    InputError for none, for a model that would count twice, for a renamed table, and for two tables
    that were asked differently.
    """
    if not collection.models:
        raise InputError(_without_scores(collection))
    tables = {
        nickname: read(path_of(collection, nickname)) for nickname in collection.models
    }
    settings = {nickname: table.attrs["metadata"] for nickname, table in tables.items()}
    _refuse_copies(settings, collection.scores)
    refuse_differing(
        settings,
        f"delete one of them in {collection.scores} and score it again as the other was",
    )
    return tables


def _refuse_copies(settings: dict[str, dict], folder: Path) -> None:
    """Raise InputError if two tables of a folder hold one model, or a table has another's name."""
    problem = ""
    for name, metadata in settings.items():
        model = metadata.get("model", name)
        if "/" not in model and model != name:  # a hub id has a nickname of its own
            problem = (
                f"{folder / name}.parquet holds the rewards of {model}; call it "
                f"{model}.parquet"
            )
    for one, other in itertools.combinations(settings, 2):
        weights = [
            tuple(settings[name].get(key) for key in OF_WEIGHTS)
            for name in (one, other)
        ]
        both = f"{one} and {other} in {folder} are"
        if "model" in settings[one] and settings[one] == settings[other]:
            problem = f"{both} one table, counted twice; delete a copy"
        elif weights[0] == weights[1] and weights[0][0]:
            problem = (
                f"{both} the same model ({weights[0][0]}), counted twice; delete one "
                "of the tables"
            )
    if problem:
        raise InputError(problem)


def _without_scores(collection: Collection) -> str:
    """Return one line that says which collections have scores, and what makes those of this
    collection.
    """
    others = [
        folder.name
        for folder in sorted(OWN.scores.parent.glob("*"))
        if Collection(folder.name).models
    ]
    listed = f" (there are: {', '.join(others)})" if others else ""
    notebook = "papermill notebooks/01_score_vocabulary.ipynb out.ipynb"
    command = f"{notebook} -p collection {collection} -p model MODEL"
    if collection.is_embedded:
        command = "make reproduce, or notebook 00"
    if collection.is_published:
        command = "make published"
    return f"no scores in collection '{collection}'{listed}; run: {command}"


def refuse_differing(settings: dict[str, dict], remedy: str) -> None:
    """Raise InputError, which names the difference, if rewards that are read together were computed
    differently.

    `settings` are the metadata of score tables, by name. Texts of prompts and the settings OF_ALL
    must agree, and those OF_ONE_MODEL between tables of one `model`. What a table does not state
    agrees with anything.
    """
    # model ("" for all) and setting -> the first table, its value
    seen: dict[tuple[str, str], tuple[str, object]] = {}
    for name, metadata in settings.items():
        values = {
            ("", f"text of the prompt {prompt}"): text
            for prompt, text in metadata.get("prompts", {}).items()
        }
        values |= {("", key): metadata[key] for key in OF_ALL if key in metadata}
        if model := metadata.get("model"):
            values |= {
                (model, key): metadata[key] for key in OF_ONE_MODEL if key in metadata
            }
        for what, value in values.items():
            first, expected = seen.setdefault(what, (name, value))
            if value != expected:
                raise InputError(
                    f"{first} and {name} differ in {what[1]} ({str(expected)[:200]!r}, "
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

    InputError, which says what each table holds, if there is none.
    """
    names = {model: prompt_names(table) for model, table in tables.items()}
    first, *others = names.values()
    shared = [prompt for prompt in first if all(prompt in one for one in others)]
    if not shared:
        held = "; ".join(f"{model}: {', '.join(each)}" for model, each in names.items())
        raise InputError(
            f"these models share no prompt ({held}); score them for the same prompts"
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
    tables: dict[str, pd.DataFrame],
    prompt: str,
    *,
    trim: bool = True,
    duplicates: str = "drop",
) -> pd.DataFrame:
    """Return rewards of the texts that all models can reply, for one prompt: texts x models,
    float32.

    Rows are in the order of the first table's token ids. Raise InputError if a table lacks the
    prompt, no text is shared, or tables were scored differently.

    - duplicates: "drop" removes a text that more than one id of a model has, as the authors did
      (section 2.2). "first" takes the lowest of these ids, as in the list of 85,524 texts that they
      released.
    - trim: join on the trimmed text, which chat templates feed, and not on the decoded one, as the
      authors did
    """
    settings = {name: table.attrs.get("metadata", {}) for name, table in tables.items()}
    refuse_differing(
        settings, "join tables that were scored alike, or score one of them again"
    )
    columns = {
        name: _by_text(name, table, prompt, trim, duplicates)
        for name, table in tables.items()
    }
    joined = pd.concat(columns, axis=1, join="inner", sort=False)
    if joined.empty:
        raise InputError(
            f"no text is shared by {', '.join(tables)}; compare models whose vocabularies overlap"
        )
    return joined.rename_axis("text")


def _by_text(
    name: str, table: pd.DataFrame, prompt: str, trim: bool, duplicates: str
) -> pd.Series:
    if prompt not in prompt_names(table):
        metadata = table.attrs.get("metadata", {})
        model = str(metadata.get("model", ""))
        raise InputError(
            f"the scores of {name} have no prompt '{prompt}' (they have "
            f"{', '.join(prompt_names(table))}); run: make score "
            f"MODEL={_what_to_load(name, model)} PROMPTS={prompt}"
        )
    rows = table.sort_values("token_id")
    rows = rows.drop_duplicates("text", keep=False if duplicates == "drop" else "first")
    # str.strip, because it is what a template's `trim` calls; Arrow's own trim leaves the control
    # characters 1C - 1F.
    texts = [text.strip() if trim else text for text in rows["text"]]
    index = pd.Index(texts, dtype="str")
    by_text = pd.Series(rows[prompt].to_numpy(), index=index)
    return by_text[~by_text.index.duplicated()]


def refuse_few(texts: Sized, least: int, what: str) -> None:
    """Raise InputError if there are fewer texts than that. what: what they are, as `words that
    people rated`.
    """
    if len(texts) < least:
        raise InputError(
            f"{len(texts)} {what} are too few, {least} are needed; score a model with a larger "
            "vocabulary"
        )


# Such as `love`; ` love` fed as `love`; a text that the tokenizer splits; a blank text that the
# template trims
READ_AS = ["itself", "another id", "several ids", "nothing"]


def read_as(table: pd.DataFrame) -> pd.Series:
    """Return what the model read for each token of a score table, one of READ_AS."""
    length = table["reply_ids"].map(len)
    itself = (length == 1) & (
        table["reply_ids"].map(lambda ids: ids[0] if len(ids) else -1)
        == table["token_id"]
    )
    kinds = length.map({0: "nothing", 1: "another id"}).fillna("several ids")
    return kinds.mask(itself, "itself").astype("str")


def what_was_fed(table: pd.DataFrame) -> pd.Series:
    """Return counts of tokens by what the model read for them (READ_AS), and the number of distinct
    inputs.

    The counts of READ_AS add up to `tokens`. Texts with U+FFFD are counted once more as
    `undecodable`.
    """
    counts = {
        "tokens": len(table),
        **read_as(table).value_counts().reindex(READ_AS, fill_value=0).to_dict(),
        # bytes that are no character
        "undecodable": table["text"].str.contains("\ufffd", regex=False).sum(),
        "distinct inputs": table["input_group"].nunique(),
    }
    return pd.Series(counts, name="tokens", dtype=int)


def as_score_table(tokens: pd.DataFrame) -> pd.DataFrame:
    """Return the tokens with reply_ids and input_group, as in score tables: every token is
    predicted as itself.
    """
    ids = tokens["token_id"].to_numpy(dtype=np.int32)
    return tokens.assign(reply_ids=list(ids[:, None]), input_group=ids)
