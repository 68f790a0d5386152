"""The record of a collection's runs: how each job went, what it wrote, and whether anything changed since."""

import ast
import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import nbformat

from lib import ROOT
from lib.collection import Collection
from lib.files import hash_of_code, replacing
from lib.reproduce.jobs import Job
from lib.reproduce.notebooks import EXERCISE, to_execute

MADE = ("scores", "models", "cache", "explorer", "book", "course")  # the folders of data/ that runs make
A_YEAR = 366 * 24 * 3600  # seconds; no job takes longer


@dataclass(frozen=True)
class Result:
    """How a job went. status: run, unchanged, failed or skipped; wrote: names of the figures and tables it wrote.

    key: of what it depended on and made (see key_of); '' where it has to run again.
    """

    status: str
    seconds: float = 0.0
    cause: str = ""
    key: str = ""
    wrote: tuple[str, ...] = ()


# --- what was run -------------------------------------------------------------------------------------------------


def state_of(collection: Collection) -> Path:
    """The file that holds the record."""
    return collection.runs / "state.json"


def read_results(collection: Collection) -> dict[str, Result]:
    """How the jobs of earlier runs went, by job name; nothing, and a line that says so, where that cannot be read."""
    path = state_of(collection)
    try:
        return {name: _checked(values) for name, values in json.loads(path.read_bytes()).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        print(f"{path} is no record of runs, so every notebook of '{collection}' runs again", flush=True)
        return {}


def _checked(values: Mapping) -> Result:
    """A result as it was kept; ValueError or TypeError for anything else."""
    result = Result(**values)
    texts = (result.status, result.cause, result.key, *result.wrote)
    inside = all(not Path(name).is_absolute() and ".." not in Path(name).parts for name in result.wrote)
    if not (all(isinstance(text, str) for text in texts) and inside and 0 <= float(result.seconds) < A_YEAR):
        raise ValueError("no result of a job")
    return replace(result, seconds=float(result.seconds), wrote=tuple(result.wrote))


def keep_results(collection: Collection, results: dict[str, Result]) -> None:
    with replacing(state_of(collection)) as part:
        part.write_text(json.dumps({name: asdict(result) for name, result in results.items()}, indent=1))


def written(collection: Collection) -> dict[str, int]:
    """The figures and tables now there, with the time each was written."""
    files = [path for path in collection.figures.rglob("*") if path.is_file() and path.suffix != ".html"]
    return {path.relative_to(collection.figures).as_posix(): path.stat().st_mtime_ns for path in sorted(files)}


# --- what is unchanged --------------------------------------------------------------------------------------------


def is_unchanged(job: Job, earlier: Result) -> bool:
    """Whether all that the job made is there, and nothing of that and of what it depends on has changed since."""
    made = [job.page, *(job.collection.figures / name for name in earlier.wrote)]
    return all(path.is_file() for path in made) and earlier.key == key_of(job, earlier.wrote)


def key_of(job: Job, wrote: Iterable[str]) -> str:
    """A hash of all that a job depends on and all that it made: cells, code and tables, models, scores and claims.

    wrote: names of the figures and tables that it wrote. One that was emptied or edited is to be made again.
    """
    cells = [_told(cell) for cell in to_execute(job.notebook, job.parameters).cells]
    imported = imported_by("\n".join(source for kind, source, *_ in cells if kind == "code"))
    code = [[file.relative_to(ROOT).as_posix(), _code(file, file.stat().st_mtime_ns)] for file in imported]
    made = [job.page, *job.claims, *(job.collection.figures / name for name in wrote)]
    hashes = [hash_of(tables()), hash_of(job.artefacts), hash_of(made)]
    return hashlib.sha256(json.dumps([cells, job.parameters, code, hashes], sort_keys=True).encode()).hexdigest()


def _told(cell: nbformat.NotebookNode) -> list:
    """All of a cell that its executed copy keeps, outputs aside."""
    exercise = [cell.metadata[EXERCISE]] if EXERCISE in cell.metadata else []
    return [cell.cell_type, cell.source, cell.metadata.get("tags", []), *exercise]


def tables() -> list[Path]:
    """What any notebook may depend on besides code: the tables that the project owns, and the pinned versions."""
    own = [path for path in (ROOT / "data").rglob("*") if path.relative_to(ROOT / "data").parts[0] not in MADE]
    return sorted([ROOT / "requirements.lock", *filter(Path.is_file, own)])


def hash_of(paths: Iterable[Path]) -> str:
    """A hash of the names and contents of files, and of the files in folders; whatever is absent is left out."""
    digest = hashlib.sha256()
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in inside:
            if file.is_file() and not file.name.startswith(".") and file.suffix != ".lock":
                digest.update(f"{file.relative_to(path.parent)}\0".encode())
                digest.update(_content(file, file.stat().st_mtime_ns, file.stat().st_size))
    return digest.hexdigest()


@functools.cache
def _content(file: Path, written_at: int, size: int) -> bytes:
    """The hash of a file's content; the same large files belong to many jobs, so each is read once."""
    return hashlib.sha256(file.read_bytes()).digest()


@functools.cache
def _code(file: Path, written_at: int) -> str:
    return hash_of_code([file])


# --- the code that a notebook runs --------------------------------------------------------------------------------


def imported_by(source: str) -> list[Path]:
    """The files of lib/ that this code imports, directly or through each other, in order of their names."""
    files, waiting = set(), set(_files_named_in(source))
    while waiting:
        file = waiting.pop()
        files.add(file)
        waiting |= set(_imports_of(file, file.stat().st_mtime_ns)) - files
    return sorted(files)


@functools.cache
def _imports_of(file: Path, written_at: int) -> tuple[Path, ...]:
    return tuple(_files_named_in(file.read_text(encoding="utf-8")))


def _files_named_in(source: str) -> Iterable[Path]:
    for name in _names_in(ast.parse(source)):
        place = ROOT.joinpath(*name.split("."))
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if name.split(".")[0] == "lib" and file.is_file():
                yield file


def _names_in(tree: ast.AST) -> Iterable[str]:
    """Dotted names of all that is imported, and of the packages around it; an import in a function counts too."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{name}" for name in names]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))
