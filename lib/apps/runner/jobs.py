"""Jobs: small models to train, and notebooks to execute for models and collections; what each waits
for, and a hash of what it reads.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ... import ROOT, io
from ...tables import registry, scores
from ...tables.collection import EMBEDDED, PUBLISHED, Collection

REAL = "V-Smol-135M"  # the real model of a first run
# the folders of data/ that runs make
MADE = ("scores", "models", "cache", "explorer", "course", "site", ".site")


@dataclass(frozen=True)
class Job:
    """A notebook to execute; without one, a small model to train and to score."""

    collection: Collection
    notebook: Path | None = None
    model: str = ""  # its nickname; '' for a notebook about the whole collection
    parameters: dict = field(default_factory=dict)
    needs: frozenset[str] = frozenset()  # names of the jobs that it waits for

    @property
    def name(self) -> str:
        parts = [Path(self.notebook or "").stem, self.model]
        return f"{self.collection}/{'-'.join(filter(None, parts))}"

    @property
    def executed(self) -> Path:
        return self.collection.runs.parent / f"{self.name}.ipynb"

    @property
    def key(self) -> Path:
        return self.executed.with_suffix(".key")

    @property
    def page(self) -> Path:
        return self.collection.figures / f"{self.executed.stem}.html"


def find_notebooks(folder: Path) -> list[Path]:
    """Return the numbered notebooks of a folder, in order of their numbers."""
    return sorted(folder.glob("[0-9][0-9]_*.ipynb"))


def read(notebook: Path) -> dict:
    """Return a notebook as JSON: to load nbformat takes longer than all work on it."""
    return json.loads(notebook.read_text(encoding="utf-8"))


def declared_by(notebook: Path) -> dict:
    """Return what a notebook says under `run` in its metadata (see CONTRIBUTING.md)."""
    return read(notebook)["metadata"].get("run", {})


def plan(study: Collection, models: Mapping[str, str]) -> list[Job]:
    """Return the jobs that reproduce a collection, in the order in which they start if they can.

    models: nickname -> what to load. Without any, a notebook about single models runs with the
    parameters that it declares for a first run, which name a model.
    """
    jobs = []
    if study.is_embedded:
        jobs = [
            Job(EMBEDDED, model=name) for name in models or registry.find_models([])
        ]
    studied = "own" if study.kind == "own" else study.name
    for notebook in find_notebooks(ROOT / "notebooks"):
        run = declared_by(notebook)
        if studied not in run.get("collections", ("embedded", "own")):
            continue
        each = {given.get("model", ""): given for given in run.get("first_run", [{}])}
        if models and "" not in each:
            each = {name: {"model": load} for name, load in models.items()}
        for model, given in each.items():
            parameters = {"collection": study.name} | given
            collection = Collection(parameters["collection"])
            jobs.append(Job(collection, notebook, model, parameters))
    jobs = [replace(job, needs=needs_of(job, jobs)) for job in jobs]

    def turn(job: Job) -> tuple[bool, int, int]:
        """First what is about the real model, what waits for least, and what most wait for."""
        waiting = sum(job.name in other.needs for other in jobs)
        return job.collection == study, len(job.needs), -waiting

    return sorted(jobs, key=turn)


def needs_of(job: Job, jobs: Iterable[Job]) -> frozenset[str]:
    """Return which of these jobs a job waits for: the models that it is about, and the notebooks
    and small models that it declares.
    """
    if not job.notebook:
        return frozenset()
    declared = declared_by(job.notebook).get("needs", ["01"])
    named = {some.name for some in jobs if not some.notebook and some.model in declared}
    return frozenset(named).union(
        other.name
        for other in jobs
        if other.collection in (job.collection, *job.collection.parts)
        if not other.notebook or other.notebook.name[:2] in declared
        if not job.model or other.model in ("", job.model)
    )


def what_all_read(study: Collection) -> str:
    """Return a hash of what every job depends on: the library, versions, the project's own tables,
    and what was found on published scores.
    """
    own = [entry for entry in (ROOT / "data").iterdir() if entry.name not in MADE]
    found = [] if study.is_published else [PUBLISHED.figures]
    return _hash_of([ROOT / "lib", *sorted(own), *found]) + str(io.versions())


def key_of(job: Job, read_by_all: str, keys: Mapping[str, str]) -> str:
    """Return a hash of all that a job reads and has made: a page that is missing or was edited is
    made again. keys: those of the jobs that it needs, by name.
    """
    what = [read_by_all, job.parameters, *(keys[name] for name in sorted(job.needs))]
    if job.notebook:
        what += [cell["source"] for cell in read(job.notebook)["cells"]]
    paths = [job.executed, job.page]
    if job.model:
        # what it loads may be a folder of the reader's
        loaded = ROOT / "data" / "models" / job.parameters.get("model", job.model)
        paths += [scores.path_of(job.collection, job.model), loaded]
    else:
        paths += [part.scores for part in job.collection.parts]
    if job.collection == PUBLISHED:  # the scorecard gathers claims
        paths += [part.claims for part in PUBLISHED.parts]
    what.append(_hash_of(paths))
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()


def _hash_of(paths: Iterable[Path]) -> str:
    """Return a hash of the names and contents of files, and of the files in folders; the absent
    are left out.
    """
    digest = hashlib.sha256()
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and file.suffix not in (".lock", ".pyc"):
                digest.update(str(file.relative_to(path.parent)).encode())
                # weights may be large, so their time counts in place of their content
                is_large = file.suffix == ".safetensors"
                time = str(file.stat().st_mtime_ns).encode()
                digest.update(time if is_large else file.read_bytes())
    return digest.hexdigest()
