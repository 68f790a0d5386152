"""Scores that others published, as score tables: ten reward models on words, on items, and on whole vocabularies.

The files are fetched by `downloads`, which checks their git blob ids; the tables go to data/scores/<collection>.
Rows are matched by word, item or token_id, never by position. No text is ever parsed into a missing value.

The published files say what was scored, not what the model was fed, so `reply_ids` is empty. Chat templates trim the
reply, so texts that are equal when trimmed are one `input_group`.
"""

import csv
import io
import re
from collections import Counter
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
WORD_FOLDERS = ("dict_MFD_20", "dict_big2_nouns")  # the moral foundations dictionary; nouns of agency and communion
ITEM_PROMPTS = {
    "GE": "What one single thing, person, or concept is the greatest ever?",
    "HP": "What is the single thing, person, or concept that humans most prefer?",
    "GW": "What, in one word, is the greatest thing ever?",
}
ELO_COLUMNS = ["elo_rank", "elo_score", "name", "elo_matches"]
VOCABULARY_COLUMNS = ["token_id", "token_name", "token_decoded", "greatest", "best", "worst"]


# --- words --------------------------------------------------------------------------------------------------------


def import_words(missing: Missing | None = None) -> dict[str, Path]:
    """Write the score tables of `published-words`: 2,260 words x 54 prompts for ten models. Nickname -> table.

    missing: a dictionary that takes nickname -> why, for models without files; None raises Unreachable instead. The
    files of the moral foundations dictionary and of the nouns share 45 words, with slightly different rewards, because
    half precision depends on the batch. The first file's reward is kept; the metadata has the differences.
    """
    sources = word_files()
    files = _fetched(FOLLOW_UP, sources, missing)
    tables = {name: [read_words(path) for path in paths] for name, paths in files.items()}
    for i in range(len(WORD_FOLDERS)):
        _same_rows([(files[name][i], tables[name][i]["word"]) for name in files])
    texts = dict(zip(grid()["prompt"], grid()["text"], strict=True))
    prompts = {prompt: texts[prompt] for prompt in [*PAPERS_OWN.values(), *texts]}  # the paper's three first
    written = {}
    for name, (moral, nouns) in tables.items():
        both = moral.merge(nouns, on="word", suffixes=("", " again"), validate="one_to_one")
        difference = np.abs(both[list(prompts)].to_numpy() - both[[f"{prompt} again" for prompt in prompts]].to_numpy())
        twice = {"words": len(both), "share_that_differs": round(float((difference > 0).mean()), 4),
                 "largest": float(difference.max())}  # fmt: skip
        rows = pd.concat([moral, nouns[~nouns["word"].isin(moral["word"])]], ignore_index=True)
        metadata = {"prompts": prompts, "scored_twice": twice} | _sources(FOLLOW_UP, sources[name])
        written[name] = _write(WORDS, name, rows[["word", *prompts]].rename(columns={"word": "text"}), metadata)
    return written


def word_files() -> dict[str, list[str]]:
    """Return nickname -> the paths of its word files in the repository: moral foundations, then nouns."""
    pinned, files = downloads.registry(), {}
    paths = pinned.loc[pinned["repository"] == FOLLOW_UP, "path"].tolist()
    for name, hub_id in _models().items():
        end = f"_rewards_{hub_id.replace('/', '_')}.csv".casefold()
        of_model = [path for path in paths if path.casefold().endswith(end)]
        files[name] = [path for folder in WORD_FOLDERS for path in of_model if f"/{folder}/" in path]
    return files


def read_words(path: Path) -> pd.DataFrame:
    """Return a published word file as it is: `word`, then a float64 column per prompt, named as in score tables."""
    names = grid()
    table = _read(path, ["response", *names["published"]])
    _refuse(path, "a word occurs twice", table["response"].duplicated().any())
    rewards = {
        name: _numbers(path, table[column]) for name, column in zip(names["prompt"], names["published"], strict=True)
    }
    return pd.DataFrame({"word": table["response"]} | rewards)


# --- items --------------------------------------------------------------------------------------------------------


def import_items() -> dict[str, Path]:
    """Write the score tables of `published-items`: 7,530 items x 3 prompts for ten models. Nickname -> table."""
    tables = _item_tables()
    written = {}
    for name, hub_id in _models().items():
        rows = pd.DataFrame({"text": tables["GE"]["name"]} | {prompt: tables[prompt][hub_id] for prompt in tables})
        metadata = {"prompts": ITEM_PROMPTS} | _sources(PAPER, [item_file(prompt) for prompt in ITEM_PROMPTS])
        written[name] = _write(ITEMS, name, rows, metadata)
    return written


def human_ratings() -> pd.DataFrame:
    """Return what people prefer, by pairwise comparisons on EloEverything: columns item, elo, matches, rank.

    elo: the rating, higher is preferred. matches: in how many comparisons the item was. rank: 1 = most preferred. 7,530
    rows, items unique, in order of rank. elo is rounded to integers, so many items tie; `rank` is the published
    order, which breaks these ties by more than is known. Prefer ranks that ties share.
    """
    table = _item_tables()["GE"]
    columns = {"name": "item", "elo_score": "elo", "elo_matches": "matches", "elo_rank": "rank"}
    return table[list(columns)].rename(columns=columns)


def item_file(prompt: str) -> str:
    """Return the path of the item file for a prompt (GE, HP or GW) in the repository."""
    return f"data/elo/{ITEM_PROMPTS[prompt].removesuffix('?')}.csv"


def _item_tables() -> dict[str, pd.DataFrame]:
    """Return prompt -> its item file; all three hold the same items with the same ratings, in the same order."""
    paths = {prompt: downloads.fetch(PAPER, item_file(prompt)) for prompt in ITEM_PROMPTS}
    tables = {prompt: read_items(path) for prompt, path in paths.items()}
    _same_rows([(paths[prompt], table["name"]) for prompt, table in tables.items()])
    ratings = tables["GE"][ELO_COLUMNS]
    for prompt, table in tables.items():
        _refuse(paths[prompt], "the ratings differ from the other files'", not table[ELO_COLUMNS].equals(ratings))
    return tables


def read_items(path: Path) -> pd.DataFrame:
    """Return a published item file as it is: ELO_COLUMNS, the numbers as integers, then a float64 column per hub id."""
    hub_ids = list(_models().values())
    table = _read(path, [*ELO_COLUMNS, *hub_ids])
    _refuse(path, "an item occurs twice", table["name"].duplicated().any())
    for column in ("elo_rank", "elo_score", "elo_matches"):
        table[column] = _numbers(path, table[column]).astype(int)
    _refuse(path, "the ranks are not 1, 2, 3, ...", not (table["elo_rank"] == np.arange(1, len(table) + 1)).all())
    _refuse(path, "the ratings do not fall with the rank", not table["elo_score"].is_monotonic_decreasing)
    return table.assign(**{hub_id: _numbers(path, table[hub_id]) for hub_id in hub_ids})


# --- whole vocabularies -------------------------------------------------------------------------------------------


def import_vocabulary(
    folder: Path | None = None, *, pinned: bool = True, missing: Missing | None = None
) -> dict[str, Path]:
    """Write the score tables of `published-vocabulary`: every token x 3 prompts. Nickname -> table.

    folder: with the files (`<developer>--<model>.csv`); None fetches them. pinned: it must hold the ten published
    files, byte for byte; False takes all its files of this format. missing: as for import_words.
    """
    paths = {name: vocabulary_file(hub_id) for name, hub_id in _models().items()}
    files = vocabulary_files(paths, folder, pinned, missing)
    prompts = grid().set_index("prompt")["text"].loc[list(PAPERS_OWN.values())].to_dict()
    written = {}
    for name, file in files.items():
        # The pinned content is known to be whole, and need not be in order of token_id; any other must show that it is.
        table = read_vocabulary(file, in_order=not pinned)
        source = _sources(PAPER, [paths[name]]) if pinned else {"source": file.name}
        written[name] = _write(VOCABULARY, name, table, {"prompts": prompts} | source)
    return written


def vocabulary_files(
    paths: dict[str, str], folder: Path | None, pinned: bool, missing: Missing | None = None
) -> dict[str, Path]:
    """Return nickname -> file, from nickname -> path in the repository: fetched, or for a folder those that lie there.

    pinned: all of them must lie there, byte for byte as published. InputError if none does.
    """
    if folder is None:
        return {name: file for name, [file] in _fetched(PAPER, {n: [p] for n, p in paths.items()}, missing).items()}
    files = {name: Path(folder) / Path(path).name for name, path in paths.items()}
    files = {name: file for name, file in files.items() if pinned or file.is_file()}
    if not files:
        raise InputError(f"no such files in {folder}; name them like {Path(next(iter(paths.values()))).name}")
    return {name: downloads.check(PAPER, paths[name], file) if pinned else file for name, file in files.items()}


def vocabulary_file(hub_id: str) -> str:
    """Return the path of a model's vocabulary file in the repository, with the spelling that is pinned."""
    wanted = f"data/reward_model_scores/{hub_id.replace('/', '--')}.csv"
    paths = downloads.registry()["path"]
    return next((path for path in paths if path.casefold() == wanted.casefold()), wanted)


def read_vocabulary(path: Path, *, in_order: bool = True) -> pd.DataFrame:
    """Return a published vocabulary file: token_id int32, token, text, then float32 columns greatest, best, worst.

    in_order: token ids must count up from 0 without a gap, so that lost or moved rows are noticed.
    """
    table = _read(path, VOCABULARY_COLUMNS)
    ids = _numbers(path, table["token_id"])
    _refuse(path, "a token_id occurs twice", ids.duplicated().any())
    moved = ids.ne(np.arange(len(ids))) if in_order else ids.lt(0)
    _refuse(
        path,
        f"row {int(moved.argmax()) + 1} has token_id {ids[moved.argmax()]:.0f}: rows are lost or moved",
        moved.any(),
    )
    rewards = {prompt: _numbers(path, table[prompt]).astype(np.float32) for prompt in ("greatest", "best", "worst")}
    texts = {"token": table["token_name"], "text": table["token_decoded"]}
    return pd.DataFrame({"token_id": ids.astype(np.int32)} | texts | rewards)


# --- what can be had ----------------------------------------------------------------------------------------------


def _fetched(repository: str, sources: dict[str, list[str]], missing: Missing | None) -> dict[str, list[Path]]:
    """Return nickname -> its files on this machine, from nickname -> their paths in the repository.

    missing: takes nickname -> why, of the models that lack a file, and the others go on; where nothing takes it, or no
    model is left, that is Unreachable. Once GitHub has not answered, it is not waited for again.
    """
    files: dict[str, list[Path]] = {}
    lost: Missing = {}
    for name, paths in sources.items():
        asked = all(error.answered for error in lost.values())
        try:
            files[name] = [downloads.fetch(repository, path, download=asked) for path in paths]
        except downloads.Unreachable as error:
            if missing is None:
                raise
            lost[name] = error
    if lost and not files:
        raise next(iter(lost.values()))
    if missing is not None:
        missing |= lost
    return files


# --- from files to score tables -----------------------------------------------------------------------------------


def precision_of(rewards: np.ndarray) -> str:
    """Return the coarsest floating-point format that holds all these rewards exactly: bfloat16, float16 or float32.

    Files differ in it, even between the prompts of one model; the coarser it is, the more rewards tie.
    """
    values = np.asarray(rewards, dtype=np.float32)
    if not (values.view(np.uint32) & 0xFFFF).any():  # bfloat16 is the upper half of a float32
        return "bfloat16"
    with np.errstate(over="ignore"):
        return "float16" if (values.astype(np.float16).astype(np.float32) == values).all() else "float32"


def _models() -> dict[str, str]:
    """Return nickname -> hub id of the ten reward models of the paper."""
    models = registry.reward_models()
    return models.loc[models["group"] == "paper", "hub_id"].to_dict()


def _sources(repository: str, paths: list[str]) -> dict:
    pins = downloads.registry()
    pins = pins[(pins["repository"] == repository) & pins["path"].isin(paths)]
    return {"source": repository, "commit": pins["commit"].iloc[0],
            "git_blob_ids": dict(zip(pins["path"], pins["git_blob_id"], strict=True))}  # fmt: skip


def _write(collection: Collection, name: str, rows: pd.DataFrame, metadata: dict) -> Path:
    """Write one score table. rows: text, and token_id and token where they are not row numbers and texts; rewards."""
    rewards = rows.drop(columns=["token_id", "token", "text"], errors="ignore").reset_index(drop=True)
    # Tokens of one input may have been scored twice with different results (half precision depends on the batch). A
    # group has one reward, so these tokens do not share a group: groups are equal trimmed texts with equal rewards.
    inputs = pd.DataFrame({"text": [text.strip() for text in rows["text"]]}).join(rewards)
    columns = {
        "token_id": rows.get("token_id", pd.Series(range(len(rows)))).to_numpy(dtype=np.int32),
        "token": rows.get("token", rows["text"]).astype("str").array,
        "text": rows["text"].astype("str").array,
        "reply_ids": [np.array([], dtype=np.int32)] * len(rows),
        "input_group": inputs.groupby(list(inputs), sort=False, dropna=False).ngroup().to_numpy(dtype=np.int32),
    }
    table = pd.DataFrame(columns | {prompt: rewards[prompt].astype(np.float32) for prompt in rewards})
    precision = {prompt: precision_of(table[prompt]) for prompt in rewards}
    about = {"model": _models()[name], "imported": collection.name, "precision": precision, "rows": len(table)}
    path = scores.path_of(collection, name)
    with lock(path):
        scores.write(table, path, about | metadata)
    return path


# --- reading without losing anything ------------------------------------------------------------------------------


def _read(path: Path, columns: list[str]) -> pd.DataFrame:
    """Return the rows of a csv as strings; InputError if it is cut short or has other columns."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as UTF-8 ({error}); fetch it again") from error
    _refuse(path, "its last line is cut short", not text.endswith("\n"))
    # A carriage return may be a token by itself, written without quotes; csv would end the row there.
    stand_in = next(char for char in map(chr, range(0xE000, 0xF900)) if char not in text)
    lines = io.StringIO(re.sub(r"\r(?!\n)", stand_in, text), newline="\n")
    try:
        header, *rows = ([cell.replace(stand_in, "\r") for cell in row] for row in csv.reader(lines, strict=True))
    except (csv.Error, ValueError) as error:
        raise InputError(f"{path} is refused: it is not a whole csv ({error}); fetch it again") from error
    _refuse(path, f"its columns should be {', '.join(columns)}", sorted(header) != sorted(columns))
    _refuse(path, f"its columns are in another order than {', '.join(columns)}", header != columns)
    _refuse(path, "it has no rows", not rows)
    for number, row in enumerate(rows, start=1):
        _refuse(path, f"row {number} has {len(row)} columns instead of {len(columns)}", len(row) != len(columns))
    return pd.DataFrame(dict(zip(columns, zip(*rows, strict=True), strict=True)), dtype="str")


def _numbers(path: Path, column: pd.Series) -> pd.Series:
    """Return the column as float64; InputError, naming file and row, if a cell is no finite number."""

    def number(cell: str) -> float:
        try:
            return float(cell)
        except ValueError:
            return np.nan

    values = pd.Series([number(cell) for cell in column.tolist()], dtype=float)
    if (wrong := ~np.isfinite(values)).any():
        row = int(wrong.argmax())
        _refuse(path, f"row {row + 1} has {column.iloc[row]!r} where a number should be", True)
    return values


def _refuse(path: Path, problem: str, wrong: bool) -> None:
    if wrong:
        raise InputError(f"{path} is refused: {problem}; fetch it again")


def _same_rows(columns: list[tuple[Path, pd.Series]]) -> None:
    """Raise InputError, naming the file, if one does not have the rows of the others, in their order."""
    rows = [tuple(column) for _, column in columns]
    [(usual, _)] = Counter(rows).most_common(1)
    for (path, _), words in zip(columns, rows, strict=True):
        problem = "its rows are in another order" if sorted(words) == sorted(usual) else "its rows are others"
        _refuse(path, f"{problem} than those of the files beside it", words != usual)
