"""Jobs: which notebooks are to run for which models, what each waits for, and whether anything changed since.

What the runner must know of a notebook, besides its parameters, is declared in KINDS.
"""

import ast
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from .. import ROOT, io
from ..io import hash_of_code, replacing
from ..tables import registry, scores
from ..tables.collection import EMBEDDED, ITEMS, PUBLISHED, WORDS, Collection
from .files import EXERCISE, find_notebooks, parameters_of, to_execute

TRAINING, SCORING, SCORECARD = "00", "01", "11"  # notebooks that others wait for, or that wait for all others
TRAINS = ("00_",)  # notebooks that train small models, so they are not about a reader's own
CARD_OF = "A-Gem-96"  # the embedded model that a card is made of; of a reader's own, each has one
MADE = ("scores", "models", "cache", "explorer", "book", "course")  # the folders of data/ that runs make
BESIDE = ("*.csv", "*.css", "*.j2", "templates/*.j2")  # what code reads that stands beside it
A_YEAR = 366 * 24 * 3600  # seconds; no job takes longer


@dataclass(frozen=True)
class Kind:
    """What the runner must know of a notebook. Other notebooks are named by their numbers, as `04b`."""

    needs: tuple[str, ...] = (TRAINING,)  # must have succeeded: for the same model, or for every model
    after: tuple[str, ...] = (SCORING,)  # must have ended, successfully or not
    after_first: tuple[str, ...] = ()  # the first of their runs must have ended
    reads: tuple[str, ...] = ("trained", "scores", "published")  # names of inputs, see `_inputs`
    seconds: float = 30  # usual time on one core; a measured time replaces it


OF_A_MODEL = Kind(needs=(TRAINING, SCORING), after=(), reads=("model",))
BEFORE_SCORECARD = ("00", "01", "02", "02b", "03", "03c", "04", "04b", "05", "06", "07", "08", "08b", "09", "10")
KINDS = {
    TRAINING: Kind(needs=(), after=(), reads=("trained",), seconds=120),
    SCORING: replace(OF_A_MODEL, needs=(TRAINING,), seconds=15),
    "06": Kind(seconds=45),
    # Its first run keeps what the others, and the language models' notebook, find again.
    "08": replace(OF_A_MODEL, after_first=("08",)),
    "08b": Kind(needs=(), after=(), reads=(), seconds=8),  # it reads committed results alone
    "09": Kind(after_first=("08",)),
    # A scorecard of fewer claims than the collection has would take the place of the whole one.
    SCORECARD: Kind(needs=BEFORE_SCORECARD, after=(), reads=("scores", "claims", "tables", "published"), seconds=8),
    "12": replace(OF_A_MODEL, reads=("model", "published"), seconds=60),
    "10": Kind(needs=(TRAINING, "09"), reads=("scores", "logprobs"), seconds=15),
}


@dataclass(frozen=True)
class Job:
    """One notebook to execute."""

    notebook: Path
    collection: Collection
    model: str  # its nickname, or '' for a notebook about the whole collection
    parameters: dict
    artefacts: tuple[Path, ...]  # files and folders that it reads or makes, other than the project's own sources
    needs: tuple[str, ...] = ()  # names of the jobs that must succeed before it
    after: tuple[str, ...] = ()  # names of the jobs that must have ended, successfully or not
    alone: bool = False  # whether no other job may run at the same time

    @property
    def name(self) -> str:
        return f"{self.notebook.stem}-{self.model}" if self.model else self.notebook.stem

    @property
    def number(self) -> str:
        """What KINDS calls the notebook, such as 04 or 04b."""
        return self.notebook.name.partition("_")[0]

    @property
    def kind(self) -> Kind:
        return KINDS.get(self.number, OF_A_MODEL if self.model else Kind())

    @property
    def page(self) -> Path:
        return self.collection.figures / f"{self.name}.html"

    @property
    def executed(self) -> Path:
        return self.collection.runs / f"{self.name}.ipynb"

    @property
    def shown(self) -> Path | None:
        """Return where the executed notebook is committed (next to the figures), or None for unpublished scores."""
        return self.collection.figures / f"{self.name}.ipynb" if self.collection.is_published else None


def plan(
    folder: Path, collection: Collection, models: Mapping[str, str] | None = None, values: dict | None = None
) -> list[Job]:
    """Return the jobs that reproduce a collection: each notebook about it, for every model or once for them all.

    models: nickname -> what to load. values: more parameters, for the notebooks that declare them.
    """
    jobs: list[Job] = []
    models = models or {}
    # A reader's own models are studied as the embedded ones are, except that nothing is trained.
    studied = collection.name if collection.is_published else EMBEDDED.name
    for notebook in find_notebooks(folder):
        defaults = parameters_of(notebook)
        for_embedded_only = notebook.name.startswith(TRAINS) and not collection.is_embedded
        if for_embedded_only or studied not in defaults.get("collections", EMBEDDED.name).split():
            continue
        for nickname, load in models.items() if "model" in defaults else [("", "")]:
            given = (values or {}) | {"collection": collection.name, "model": load}
            given = {name: value for name, value in given.items() if name in defaults}
            job = Job(notebook, collection, nickname, given, ())
            if job.number == "12" and collection.is_embedded and CARD_OF in models and nickname != CARD_OF:
                continue
            alone = job.number == TRAINING or bool(nickname) and not collection.is_embedded
            jobs.append(replace(job, artefacts=_inputs(job, load), alone=alone))
    return [_waiting(job, jobs) for job in jobs]


def _waiting(job: Job, jobs: list[Job]) -> Job:
    """Return the job with what it waits for among all jobs: the scorecard also waits for notebooks behind it."""
    of_same_model = [other for other in jobs if not job.model or other.model in ("", job.model)]
    needs = [other.name for other in of_same_model if other.number in job.kind.needs]
    after = [other.name for other in jobs if other.number in job.kind.after]
    firsts = [next((other.name for other in jobs if other.number == number), "") for number in job.kind.after_first]
    return replace(job, needs=tuple(needs), after=(*after, *(name for name in firsts if name and name != job.name)))


def _inputs(job: Job, load: str) -> tuple[Path, ...]:
    """Return the files and folders that a job reads or makes, besides the project's own sources."""
    study, models = job.collection, registry.reward_models()
    trained = [ROOT / place for place in models.loc[models["group"] == EMBEDDED.name, "hub_id"]]
    tables = [path for part in (WORDS, ITEMS) for path in sorted(part.figures.glob("*.csv"))]
    published = [PUBLISHED.figures / "claims.csv", *tables]  # "paper | published | ours" reads them, and exercises do
    places = {
        "trained": trained if study.is_embedded else [],
        "scores": [study.scores],
        "logprobs": [study.logprobs.scores],
        "published": [] if study.is_published else published,
        "claims": [part.claims for part in study.parts],
        "tables": [path for part in study.parts for path in sorted(part.figures.glob("*_specifications.csv"))],
        "model": [scores.path_of(study, job.model), ROOT / "data" / "models" / job.model, Path(load)]
        if job.model
        else [],
    }
    return tuple(path for name in job.kind.reads for path in places[name] if path.is_absolute())


# --- how jobs went ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """How a job went."""

    status: str  # run, unchanged, failed or skipped
    seconds: float = 0.0
    cause: str = ""  # why it failed or was skipped
    key: str = ""  # the hash of what the job depended on and made (see key_of), or '' if it must run again
    wrote: tuple[str, ...] = ()  # its pages, figures, tables and claims, relative to the project

    @property
    def went_wrong(self) -> bool:
        return self.status in ("failed", "skipped")

    def __str__(self) -> str:
        return ": ".join(filter(None, [self.status, self.cause]))


def state_of(collection: Collection) -> Path:
    """Return the file that holds how the jobs of a collection went."""
    return collection.runs / "state.json"


def read_results(collection: Collection) -> dict[str, Result]:
    """Return the results of earlier runs by name of the job. If the record cannot be read, print a line; return {}."""

    def checked(values: Mapping) -> Result:
        result = Result(**values)
        texts = (result.status, result.cause, result.key, *result.wrote)
        inside = all(not Path(name).is_absolute() and ".." not in Path(name).parts for name in result.wrote)
        if not (all(isinstance(text, str) for text in texts) and inside and 0 <= float(result.seconds) < A_YEAR):
            raise ValueError("no result of a job")
        return replace(result, seconds=float(result.seconds), wrote=tuple(result.wrote))

    path = state_of(collection)
    try:
        return {name: checked(values) for name, values in json.loads(path.read_bytes()).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        print(f"{path} is no record of runs, so every notebook of '{collection}' runs again", flush=True)
        return {}


def keep_results(collection: Collection, results: dict[str, Result]) -> None:
    """Write how the jobs went."""
    with replacing(state_of(collection)) as part:
        part.write_text(json.dumps({name: asdict(result) for name, result in results.items()}, indent=1))


# --- what is unchanged --------------------------------------------------------------------------------------------


def is_unchanged(job: Job, earlier: Result) -> bool:
    """Return whether everything that the job made is there, and neither this nor what it depends on has changed."""
    made = [job.executed, job.page, *(ROOT / name for name in earlier.wrote)]
    return all(path.is_file() for path in made) and earlier.key == key_of(job, earlier.wrote)


def key_of(job: Job, wrote: Iterable[str]) -> str:
    """Return a hash of all that a job depends on and has made (cells, code, templates, tables, models, scores, claims).

    wrote: as in Result. So an output that was emptied or edited is made again.
    """
    cells = [
        [cell.cell_type, cell.source, cell.metadata.get("tags", []), cell.metadata.get(EXERCISE)]
        for cell in to_execute(job.notebook, job.parameters).cells
    ]
    imported = imported_by("\n".join(source for kind, source, *_ in cells if kind == "code"))
    code = [[file.relative_to(ROOT).as_posix(), _code_of(file)[0]] for file in imported]
    folders = sorted({file.parent for file in imported})
    beside = [path for folder in folders for pattern in BESIDE for path in sorted(folder.glob(pattern))]
    hashes = [hash_of(paths) for paths in (tables(), job.artefacts, [ROOT / name for name in wrote], beside)]
    return hashlib.sha256(json.dumps([cells, job.parameters, code, hashes], sort_keys=True).encode()).hexdigest()


def tables() -> list[Path]:
    """Return what any notebook may depend on besides code: the project's own tables, and the pinned versions."""
    own = [entry for entry in (ROOT / "data").iterdir() if entry.name not in MADE]
    below = [path for entry in own for path in entry.rglob("*")]
    return sorted([ROOT / "requirements.lock", *filter(Path.is_file, own + below)])


def hash_of(paths: Iterable[Path]) -> str:
    """Return a hash of the names and contents of files, and of the files in folders; the absent are left out."""
    digest = hashlib.sha256()
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and not file.name.startswith(".") and file.suffix != ".lock":
                digest.update(f"{file.relative_to(path.parent)}\0{_content_of(file)}".encode())
    return digest.hexdigest()


_HASHES = io.Hashes(lambda: ROOT / "data" / "cache" / "hashes.json")
keep_hashes = _HASHES.keep


def _content_of(file: Path) -> str:
    return _HASHES.of("content", file, lambda file: hashlib.sha256(file.read_bytes()).hexdigest())


def _code_of(file: Path) -> list:
    """Return the hash of what the code of a Python file does, and the dotted names of ours that it imports."""
    package = file.parent.relative_to(ROOT).parts
    return _HASHES.of(
        "code", file, lambda file: [hash_of_code([file]), sorted(names_imported(file.read_text("utf-8"), package))]
    )


# --- the code that a notebook runs --------------------------------------------------------------------------------


def imported_by(source: str) -> list[Path]:
    """Return the files of ours that this code imports, directly or through each other, in order of their names."""
    files: set[Path] = set()
    waiting = _files_named(names_imported(source))
    while waiting:
        file = waiting.pop()
        files.add(file)
        waiting |= _files_named(_code_of(file)[1]) - files
    return sorted(files)


def _files_named(names: Iterable[str]) -> set[Path]:
    places = [ROOT.joinpath(*name.split(".")) for name in names]
    return {file for place in places for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()}


def names_imported(source: str, package: tuple[str, ...] = ()) -> set[str]:
    """Return the dotted names of ours that code imports, and of the packages around them, in functions too.

    package: the folders of the file that holds the code, for its relative imports.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            dotted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            around = package[: len(package) - node.level + 1] if node.level else ()
            dotted = [".".join([*around, *([node.module] if node.module else []), alias.name]) for alias in node.names]
        else:
            continue
        for parts in (name.split(".") for name in dotted):
            if parts[0] in ("lib", "benchmarks"):
                names |= {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
    return names
