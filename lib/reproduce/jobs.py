"""Jobs: which notebooks are to run for which models, what is unchanged, and how the rest is run."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import nbformat

from lib import ROOT, InputError, scores
from lib.collection import Collection
from lib.files import replacing
from lib.models import reward_models
from lib.reproduce.notebooks import find_notebooks, parameters_of

TRAINING = "00_"  # the notebook that makes the embedded reward models; it comes before any score, and only they need it
EMBEDDED = "embedded"  # the collection of the embedded reward models
SCORECARD = "09_"  # the notebook that gathers the claims of the others
PUBLISHED = "published"  # all collections of published scores together
OWN = "mine"  # the collection of other reward models, unless named
MADE = ("scores", "models", "cache")  # the folders of data/ that runs make


# --- what is to run -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """One notebook to execute. model: its nickname, '' for a notebook about the whole collection.

    artefacts: files and folders that it reads or makes, besides the project's own sources.
    """

    notebook: Path
    collection: str
    model: str
    parameters: dict
    artefacts: tuple[Path, ...]

    @property
    def name(self) -> str:
        return f"{self.notebook.stem}-{self.model}" if self.model else self.notebook.stem


@dataclass(frozen=True)
class Result:
    """How a job went. status: run, unchanged, failed or skipped; wrote: names of the figures and tables it wrote."""

    status: str
    seconds: float = 0.0
    cause: str = ""
    key: str = ""
    wrote: tuple[str, ...] = ()


def find_models(names: Sequence[str]) -> dict[str, str]:
    """Nickname -> what to load, for nicknames, hub ids, folders, and `paper` for the ten of the paper.

    No names: the embedded reward models. Raises InputError for a name that is nothing of this.
    """
    groups = reward_models.registry()["group"]
    names = names or [EMBEDDED]
    wanted = [one for name in names for one in (groups.index[groups == name] if name in groups.values else [name])]
    found = {}
    for name in dict.fromkeys(wanted):
        entry = reward_models.find(name)
        local = name not in groups.index and Path(name).is_dir()
        load = str(Path(name).resolve()) if local else name
        if found.setdefault(entry["nickname"], load) != load:
            raise InputError(f"two models are called {entry['nickname']}; score them into two collections")
    return found


def plan(folder: Path, models: dict[str, str], collection: str) -> list[Job]:
    """The jobs that reproduce a collection, in order: notebook after notebook, each for every model it is about."""
    jobs = []
    for notebook in find_notebooks(folder):
        has = parameters_of(notebook)
        if notebook.name.startswith(TRAINING) and collection != EMBEDDED:
            continue
        if EMBEDDED not in has.get("collections", EMBEDDED).split():  # it is about published scores only
            continue
        for nickname, load in models.items() if "model" in has else [("", "")]:
            values = {"collection": collection, "model": load}
            given = {name: value for name, value in values.items() if name in has}
            jobs.append(Job(notebook, collection, nickname, given, _artefacts(notebook, collection, nickname, load)))
    return jobs


def plan_published(folder: Path, collection: str, values: dict) -> list[Job]:
    """The jobs on one published collection: the notebooks whose `collections` name it. values: parameters to give."""
    jobs = []
    for notebook in find_notebooks(folder):
        has = parameters_of(notebook)
        if collection in has.get("collections", EMBEDDED).split():
            given = {name: value for name, value in (values | {"collection": collection}).items() if name in has}
            jobs.append(Job(notebook, collection, "", given, _artefacts(notebook, collection, "", "")))
    return jobs


def _artefacts(notebook: Path, collection: str, nickname: str, load: str) -> tuple[Path, ...]:
    table = scores.path_of(Collection(collection), nickname or "any")
    models = reward_models.registry()  # what else lies beside them, as language models, is no artefact of these
    trained = tuple(ROOT / place for place in models.loc[models["group"] == EMBEDDED, "hub_id"])
    if notebook.name.startswith(TRAINING):
        return trained
    if notebook.name.startswith(SCORECARD):
        gathered = f"{PUBLISHED}-*" if collection == PUBLISHED else collection
        return (table.parent, *sorted((ROOT / "data" / "cache" / "claims").glob(gathered)))
    if nickname:
        return table, ROOT / "data" / "models" / nickname, *([Path(load)] if Path(load).is_dir() else [])
    return (table.parent, *trained) if collection == EMBEDDED else (table.parent,)


# --- what is unchanged --------------------------------------------------------------------------------------------


def project_files() -> list[Path]:
    """The sources and tables that any notebook may depend on."""
    own = [path for path in (ROOT / "data").rglob("*") if path.relative_to(ROOT / "data").parts[0] not in MADE]
    return sorted([*(ROOT / "lib").glob("*.py"), ROOT / "requirements.lock", *filter(Path.is_file, own)])


def hash_of(paths: Iterable[Path]) -> str:
    """A hash of the names and contents of files, and of the files in folders; whatever is absent is left out."""
    digest = hashlib.sha256()
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in inside:
            if file.is_file() and not file.name.startswith(".") and file.suffix != ".lock":
                digest.update(f"{file.relative_to(path.parent)}\0".encode())
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def key_of(job: Job, project: str) -> str:
    """A hash of all that a job depends on and all that it made; project: the hash of the project's own files."""
    cells = [[c.cell_type, c.source, c.metadata.get("tags", [])] for c in nbformat.read(job.notebook, 4).cells]
    told = json.dumps([cells, job.parameters, project], sort_keys=True)
    return hashlib.sha256((told + hash_of(job.artefacts)).encode()).hexdigest()


class Places:
    """Where a collection's run keeps what it makes. figures: pages, figures and tables; cache: executed notebooks.

    On published scores, the executed notebooks are kept beside the figures too, for whoever cannot run them.
    """

    def __init__(self, collection: str):
        self.figures = Collection(collection).figures
        self.shows_notebooks = collection.startswith(PUBLISHED)
        self.cache = Collection(collection).runs
        self.state = self.cache / "state.json"

    def page(self, job: Job) -> Path:
        return self.figures / f"{job.name}.html"

    def executed(self, job: Job) -> Path:
        return self.cache / f"{job.name}.ipynb"

    def known(self) -> dict[str, Result]:
        """How the jobs of earlier runs went, by job name; nothing where the record cannot be read."""
        try:
            return {name: Result(**result) for name, result in json.loads(self.state.read_text()).items()}
        except (OSError, ValueError, TypeError):
            return {}

    def keep(self, results: dict[str, Result]) -> None:
        with replacing(self.state) as part:
            part.write_text(json.dumps({name: asdict(result) for name, result in results.items()}, indent=1))

    def written(self) -> dict[str, int]:
        """The figures and tables now there, with the time each was written."""
        files = [path for path in self.figures.rglob("*") if path.is_file() and path.suffix != ".html"]
        return {path.relative_to(self.figures).as_posix(): path.stat().st_mtime_ns for path in sorted(files)}


def usual_collection(found: Iterable[str]) -> str:
    models = reward_models.registry()
    return EMBEDDED if set(found) <= set(models.index[models["group"] == EMBEDDED]) else OWN
