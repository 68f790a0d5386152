"""Jobs: small models to train, and notebooks to execute for models and collections; what each waits
for, and whether anything changed since its last run.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ... import ROOT, io
from ...tables import registry, scores
from ...tables.collection import EMBEDDED, PUBLISHED, Collection
from . import files

# of the first run: the real model, and what it is made from
REAL = "V-Smol-135M"
REAL_BASE = ROOT / "data" / "models" / "SmolLM2-135M-Instruct"
# the folders of data/ that runs make
MADE = ("scores", "models", "cache", "explorer", "book", "course", "site")
LARGE = 1e8  # bytes; of a larger file, its time counts in place of its content


@dataclass(frozen=True)
class Job:
    """A notebook to execute; without one, a small model to train and to score."""

    collection: Collection
    notebook: Path | None = None
    model: str = ""  # its nickname; '' for a notebook about the whole collection
    parameters: dict = field(default_factory=dict)
    # names of jobs that must have ended -> whether they must have succeeded
    needs: dict[str, bool] = field(default_factory=dict)

    @property
    def name(self) -> str:
        parts = [Path(self.notebook or "").stem, self.model]
        return f"{self.collection}/{'-'.join(filter(None, parts))}"

    @property
    def executed(self) -> Path:
        return self.collection.runs.parent / f"{self.name}.ipynb"

    @property
    def page(self) -> Path:
        return self.collection.figures / f"{self.executed.stem}.html"


def plan(folder: Path, study: Collection, models: Mapping[str, str]) -> list[Job]:
    """Return the jobs that reproduce a collection, in the order in which they start if they can.

    models: nickname -> what to load. Without any, a notebook about single models runs with the
    parameters that it declares for a first run.
    """
    jobs = []
    studied = study.name if study.is_published else EMBEDDED.name
    for notebook in files.find_notebooks(folder):
        run = files.declared_by(notebook)
        defaults = files.parameters_of(notebook)
        is_about = studied in defaults.get("collections", EMBEDDED.name).split()
        if not is_about or "trains" in run and not study.is_embedded:
            continue
        each: list[dict] = [{}]
        if not models:
            each = run.get("first_run", each)
        elif "model" in defaults:
            each = [{"model": load} for load in models.values()]
        jobs += [job_of(notebook, study, given) for given in each]
    if study.is_embedded:
        names = registry.reward_models().query("group == @EMBEDDED.name").index
        jobs += [Job(EMBEDDED, model=name) for name in names]
    jobs = [job for job in jobs if job.model != REAL or REAL_BASE.is_dir()]
    jobs.sort(key=lambda job: (job.model != REAL, not job.model, not job.notebook))
    return [replace(job, needs=_needs(job, jobs)) for job in jobs]


def job_of(notebook: Path, study: Collection, given: dict) -> Job:
    """Return the job that executes a notebook with these parameters. If they are those that it is
    committed with, none is given.
    """
    defaults = files.parameters_of(notebook)
    asked = {"collection": study.name} | given
    merged = defaults | {name: asked[name] for name in asked if name in defaults}
    named = [merged["model"]] if "model" in merged else []
    model = "".join(registry.find_models(named)) if named else ""
    given = {} if merged == defaults else merged
    return Job(Collection(asked["collection"]), notebook, model, given)


def _needs(job: Job, jobs: Iterable[Job]) -> dict[str, bool]:
    """Return what a job waits for: the models that it is about, and the notebooks that it declares.
    A model that failed does not stop a notebook about all models.
    """
    if not job.notebook:
        return {}
    numbers = files.declared_by(job.notebook).get("needs", ["01"])
    return {
        other.name: other.model in ("", job.model)
        for other in jobs
        if other != job and other.collection == job.collection
        if not other.notebook or other.notebook.name[:2] in numbers
        if not job.model or other.model in ("", job.model)
    }


def what_all_read(study: Collection) -> str:
    """Return a hash of what every job depends on: code of the library but not of apps, the
    project's own tables, versions, and what was found on published scores.
    """
    lib = sorted((ROOT / "lib").rglob("*.py"))
    code = [path for path in lib if not {"apps", "run.py"} & {*path.parts}]
    own = [entry for entry in (ROOT / "data").iterdir() if entry.name not in MADE]
    found = [] if study.is_published else sorted(PUBLISHED.figures.rglob("*.csv"))
    read = _hash_of([ROOT / "requirements.lock", *sorted(own), *found])
    return io.hash_of_code(code) + read + str(io.versions())


def key_of(job: Job, needs: Iterable[str]) -> str:
    """Return a hash of all that a job depends on and has made: a page that was emptied or edited is
    made again. needs: what_all_read(), and the keys of the jobs that it needs.
    """
    cells = files.read(job.notebook).cells if job.notebook else []
    paths = [job.executed, job.page]
    if job.model:
        # the last one may be a folder of the reader's, or is none
        names = [job.model, job.parameters.get("model", "none")]
        paths += [scores.path_of(job.collection, job.model)]
        paths += [ROOT / "data" / "models" / name for name in names]
    else:
        paths += [part.scores for part in job.collection.parts]
    sources = [cell.source for cell in cells]
    what = json.dumps([*needs, sources, job.parameters, _hash_of(paths)])
    return hashlib.sha256(what.encode()).hexdigest()


def _hash_of(paths: Iterable[Path]) -> str:
    """Return a hash of the names and contents of files, and of the files in folders; the absent
    are left out.
    """
    digest = hashlib.sha256()
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and file.name[0] != "." and file.suffix != ".lock":
                about = file.stat()
                is_large = about.st_size > LARGE
                content = b"%d" % about.st_mtime_ns if is_large else file.read_bytes()
                digest.update(f"{file.relative_to(path.parent)}\0".encode() + content)
    return digest.hexdigest()
