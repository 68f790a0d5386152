"""Jobs: which notebooks run for which models, what each waits for, and whether anything changed
since its last run.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ... import ROOT, io
from ...io import replacing
from ...tables import registry, scores
from ...tables.collection import (
    EMBEDDED,
    FIRST_RUN,
    ITEMS,
    PUBLISHED,
    WORDS,
    Collection,
)
from .files import EXERCISE, EXERCISES, find_notebooks, parameters_of, read
from .hashes import Hashes

SCORECARD = "11"  # the number of the notebook that gathers what the others found
CARD_OF = "A-Gem-96"  # the small model that has a card
# of the first run: the real model, and what it is made from
REAL = "V-Smol-135M"
REAL_BASE = "SmolLM2-135M-Instruct"
# the folders of data/ that runs make
MADE = ("scores", "models", "cache", "explorer", "book", "course", "site")
# of lib: no notebook depends on it, unless its cells import an app
APART = ("apps", "run.py")


@dataclass(frozen=True)
class Declared:
    """What a notebook says under `run` in its metadata. It names other notebooks by their
    numbers, such as 04.
    """

    # notebooks that must have succeeded: for the same model, or for every model
    needs: tuple[str, ...] = ("00",)
    # notebooks that must have ended, successfully or not
    after: tuple[str, ...] = ("01",)
    # "each", or the small models that it runs for by default; (): once for all
    models: str | tuple[str, ...] = ()
    # names of inputs, see `_inputs`
    reads: tuple[str, ...] = ("trained", "scores", "published")
    trains: bool = False  # whether it trains the small models, on all cores
    seconds: float = 30  # usual time on one core; a measured time replaces it
    # parameters with which a first run executes it for V-Smol-135M, too
    first_run: Mapping | None = None
    # parameters with which a first run executes it for the small models: smaller samples
    small: Mapping | None = None


@dataclass(frozen=True)
class Job:
    """One notebook to execute."""

    notebook: Path
    collection: Collection
    model: str  # its nickname, or '' for a notebook about the whole collection
    parameters: dict
    # files and folders that it reads or makes, besides the project's own sources
    artefacts: tuple[Path, ...] = ()
    needs: tuple[str, ...] = ()  # names of jobs, as Declared
    after: tuple[str, ...] = ()
    alone: bool = False  # whether no other job may run at the same time
    declared: Declared = Declared()

    @property
    def name(self) -> str:
        stem = self.notebook.stem
        # the notebook itself has this stem too
        if self.notebook.parent.name == EXERCISES:
            return f"{EXERCISES}-{stem}"
        return f"{stem}-{self.model}" if self.model else stem

    @property
    def number(self) -> str:
        return self.notebook.name.partition("_")[0]

    @property
    def page(self) -> Path:
        return self.collection.figures / f"{self.name}.html"

    @property
    def executed(self) -> Path:
        return self.collection.runs / f"{self.name}.ipynb"


def plan(
    folder: Path,
    collection: Collection,
    models: Mapping[str, str] | None = None,
    requested: bool = True,
) -> list[Job]:
    """Return the jobs that reproduce a collection: each notebook about it, for every model or once
    for them all.

    - models: nickname -> what to load
    - requested: whether the reader named these models; otherwise some notebooks run for a part of
      the small ones only, or with the smaller samples that they declare
    """
    jobs = []
    for notebook in find_notebooks(folder):
        declared = declared_by(notebook)
        if _is_about(notebook, declared, collection):
            if requested or not collection.is_embedded:
                declared = replace(declared, small=None)
            chosen = _chosen_models(declared, models or {}, requested)
            jobs += [
                _job_for(notebook, collection, declared, *model)
                for model in chosen.items()
            ]
    return [_with_needs(job, jobs) for job in jobs]


def _is_about(notebook: Path, declared: Declared, collection: Collection) -> bool:
    """Return whether a run of the collection executes the notebook."""
    # A reader's own models are studied as the small ones are, except that nothing is trained.
    if declared.trains and not collection.is_embedded:
        return False
    studied = collection.name if collection.is_published else EMBEDDED.name
    collections = parameters_of(notebook).get("collections", EMBEDDED.name)
    return studied in collections.split()


def _chosen_models(
    declared: Declared,
    models: Mapping[str, str],
    requested: bool,
) -> Mapping[str, str]:
    """Return the models that a notebook runs for; '' stands for all of them together."""
    if not declared.models:
        return {"": ""}
    if requested or declared.models == "each":
        return models
    return {name: load for name, load in models.items() if name in declared.models}


def _job_for(
    notebook: Path,
    collection: Collection,
    declared: Declared,
    nickname: str,
    load: str,
) -> Job:
    defaults = parameters_of(notebook)
    given = {"collection": collection.name, "model": load}
    given = {name: value for name, value in given.items() if name in defaults}
    given |= declared.small or {}
    # two may not fit into memory
    alone = declared.trains or bool(nickname) and not collection.is_embedded
    artefacts = _inputs(collection, declared, nickname, load)
    return Job(
        notebook,
        collection,
        nickname,
        given,
        artefacts,
        alone=alone,
        declared=declared,
    )


def _with_needs(job: Job, jobs: Sequence[Job]) -> Job:
    """Return the job with the names of those of the jobs that it waits for."""
    of_model = [
        other for other in jobs if not job.model or other.model in ("", job.model)
    ]
    numbers = {*job.declared.needs} - {job.number}
    needs = tuple(other.name for other in of_model if other.number in numbers)
    after = tuple(other.name for other in jobs if other.number in job.declared.after)
    return replace(job, needs=needs, after=after)


def declared_by(notebook: Path) -> Declared:
    """Return what a notebook says under `run` in its metadata."""
    run = read(notebook).metadata.get("run", {})
    return Declared(
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in run.items()
        }
    )


def first_run_jobs(folder: Path, jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs about V-Smol-135M that a first run adds to these; none where its language
    model is missing.

    They wait for notebook 00, which trains it, and for each other as they declare.
    """
    if not (ROOT / "data" / "models" / REAL_BASE).is_dir():
        return []
    needs = tuple(job.name for job in jobs if job.declared.trains)
    added = []
    for notebook in find_notebooks(folder):
        declared = declared_by(notebook)
        if declared.first_run is not None:
            given = {"model": REAL, "collection": FIRST_RUN.name} | dict(
                declared.first_run
            )
            artefacts = _inputs(FIRST_RUN, declared, REAL, REAL)
            before = tuple(job.name for job in added if job.number in declared.needs)
            added.append(
                Job(
                    notebook,
                    FIRST_RUN,
                    REAL,
                    given,
                    artefacts,
                    needs + before,
                    declared=declared,
                )
            )
    return added


def exercise_job(notebook: Path) -> Job:
    """Return the job that executes a notebook of exercises, which reads the small models
    whatever else is studied.
    """
    declared = Declared(needs=(), after=())
    return Job(
        notebook,
        EMBEDDED,
        "",
        {},
        _inputs(EMBEDDED, declared, "", ""),
        declared=declared,
    )


def _inputs(
    study: Collection,
    declared: Declared,
    model: str,
    load: str,
) -> tuple[Path, ...]:
    """Return the files and folders that a job reads or makes, besides the project's own sources."""
    small = registry.reward_models().query("group == @EMBEDDED.name")["hub_id"]
    tables = [
        path for part in (WORDS, ITEMS) for path in sorted(part.figures.glob("*.csv"))
    ]
    places = {
        "model": [
            scores.path_of(study, model),
            ROOT / "data" / "models" / model,
            Path(load),
        ]
        if model
        else [],
        "trained": [ROOT / place for place in small] if study.is_embedded else [],
        "scores": [part.scores for part in study.parts],
        "logprobs": [study.logprobs.scores],
        # "paper | published | ours" reads them, and exercises do too.
        "published": []
        if study.is_published
        else [PUBLISHED.figures / "claims.csv", *tables],
        "claims": [part.claims for part in study.parts],
    }
    return tuple(
        path for name in declared.reads for path in places[name] if path.is_absolute()
    )


@dataclass(frozen=True)
class Result:
    """How a job went."""

    # run, unchanged, failed or skipped; on the page of a run that goes on: running or waiting
    status: str
    seconds: float = 0.0
    cause: str = ""  # why it failed or was skipped
    # the hash of what the job depended on and made (see key_of), or '' if it must run again
    key: str = ""
    # its pages, figures, tables and claims, relative to the project
    wrote: tuple[str, ...] = ()
    # processor time of the notebook and of all that it started
    core_seconds: float = 0.0
    # memory of the largest of these processes, in GB; 0 where the system does not tell
    peak_gb: float = 0.0

    @property
    def went_wrong(self) -> bool:
        return self.status in ("failed", "skipped")

    def __str__(self) -> str:
        return ": ".join(filter(None, [self.status, self.cause]))


def state_of(collection: Collection) -> Path:
    """Return the file that holds how the jobs of a collection went."""
    return collection.runs / "state.json"


def read_results(collection: Collection) -> dict[str, Result]:
    """Return the results of earlier runs by name of the job. If the record cannot be read, print
    a line; return {}.
    """
    path = state_of(collection)
    try:
        record = json.loads(path.read_bytes())
        return {name: _result_of(values) for name, values in record.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        print(
            f"{path} is no record of runs, so every notebook of '{collection}' runs again",
            flush=True,
        )
        return {}


def _result_of(values: dict) -> Result:
    return Result(
        values["status"],
        float(values["seconds"]),
        values["cause"],
        values["key"],
        tuple(map(str, values["wrote"])),
        float(values.get("core_seconds", 0.0)),
        float(values.get("peak_gb", 0.0)),
    )


def keep_results(collection: Collection, results: dict[str, Result]) -> None:
    """Write how the jobs went."""
    with replacing(state_of(collection)) as part:
        part.write_text(
            json.dumps(
                {name: asdict(result) for name, result in results.items()},
                indent=1,
            )
        )


def is_unchanged(job: Job, earlier: Result) -> bool:
    """Return whether everything that the job made is there, and neither this nor what it depends
    on has changed.
    """
    wrote = [ROOT / name for name in earlier.wrote]
    made = [job.executed, job.page, *wrote]
    is_there = all(path.is_file() for path in made)
    return is_there and earlier.key == key_of(job, earlier.wrote)


def key_of(job: Job, wrote: Iterable[str]) -> str:
    """Return a hash of all that a job depends on and has made (cells, code, versions, tables,
    models, scores, claims).

    wrote: as in Result. So an output that was emptied or edited is made again.
    """
    cells = [
        [
            cell.cell_type,
            cell.source,
            cell.metadata.get("tags", []),
            cell.metadata.get(EXERCISE),
        ]
        for cell in read(job.notebook).cells
    ]
    has_apps = any(
        kind == "code" and "lib.apps" in source for kind, source, *_ in cells
    )
    code = [
        path
        for path in sorted((ROOT / "lib").glob("*"))
        if path.name not in APART or has_apps and path.name == "apps"
    ]
    hashes = [
        hash_of(paths)
        for paths in (tables(), code, job.artefacts, [ROOT / name for name in wrote])
    ]
    what = [cells, job.parameters, hashes, io.versions()]
    content = json.dumps(what, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def tables() -> list[Path]:
    """Return what any notebook may depend on besides code: the project's own tables, and the
    pinned versions.
    """
    entries = (ROOT / "data").iterdir()
    own = [entry for entry in entries if entry.name not in MADE]
    below = [path for entry in own for path in entry.rglob("*")]
    files = filter(Path.is_file, own + below)
    return sorted([ROOT / "requirements.lock", *files])


def hash_of(paths: Iterable[Path]) -> str:
    """Return a hash of the names and contents of files, and of the files in folders; the absent
    are left out.
    """
    digest = hashlib.sha256()
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if (
                file.is_file()
                and not file.name.startswith(".")
                and file.suffix not in (".lock", ".pyc")
            ):
                content = _HASHES.of("content", file, _hash_content)
                digest.update(f"{file.relative_to(path.parent)}\0{content}".encode())
    return digest.hexdigest()


def _hash_content(file: Path) -> str:
    if file.suffix == ".py" and file.is_relative_to(ROOT / "lib"):
        return io.hash_of_code([file])
    return hashlib.sha256(file.read_bytes()).hexdigest()


_HASHES = Hashes(lambda: ROOT / "data" / "cache" / "hashes.json")
keep_hashes = _HASHES.keep
