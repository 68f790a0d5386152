"""Run the notebooks of a collection side by side. A notebook that is unchanged is not run again."""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from ... import ROOT, InputError
from ...claims.claims import published_table
from ...io import lock, shown_path
from ...show.terminal import score_lines
from ...tables import downloads, score_files, scores
from ...tables.collection import ITEMS, PUBLISHED, VOCABULARY, WORDS, Collection
from ...tables.registry import EARLY, REPORT, find_models, study_of
from . import files, workers
from .jobs import (
    REAL,
    Job,
    Result,
    exercise_job,
    first_run_jobs,
    is_unchanged,
    keep_hashes,
    keep_results,
    key_of,
    plan,
    read_results,
    state_of,
)
from .pages import highlights_of, outcome_lines, write_index

NOTEBOOKS = ROOT / "notebooks"
LOOK_AGAIN = 1.0  # seconds between looks for a trained model
# seconds between two versions of the index page of a run that goes on
INDEX_AGAIN = 15.0


def reproduce(
    models: Sequence[str] = (),
    collection: str | None = None,
    folder: Path = NOTEBOOKS,
    where=workers,
) -> int:
    """Run the notebooks for these reward models; return how many jobs failed. Unchanged jobs are
    not run again.

    If a notebook fails, the others that do not need it still run, and a line at the end names it.
    where: see run_all.
    """
    to_load = find_models(models)
    study = study_of(to_load, collection)
    jobs = plan(folder, study, to_load, requested=bool(models))
    if where is not workers:  # Ray itself keeps large models apart
        jobs = [replace(job, alone=False) for job in jobs]
    if study.is_embedded and not models:
        jobs = [*first_run_jobs(folder, jobs), *jobs]
    results = run_all(study, jobs, where)
    ended = [(job, results[job.name]) for job in jobs]
    write_index(study, ended)
    scored = score_lines(study, to_load)
    lines = ["", *scored, "", *outcome_lines(jobs, results)]
    print("\n".join(lines))
    print(
        f"Look at {shown_path(study.figures / 'index.html')}: questions, answers, pages and "
        "figures."
    )
    return sum(result.went_wrong for result in results.values())


def reproduce_published(
    folder: Path = NOTEBOOKS,
    measure: Callable[[], object] | None = None,
) -> int:
    """Import the published scores that can be had, and run the notebooks about them; return how
    many jobs failed.

    A line names what cannot be downloaded. InputError if nothing can, or if a file is corrupt.
    measure: called at the end, if words and items are there, for the numbers that value cards
    compare a model with.
    """
    imported, missing = _import_published()
    failed = 0
    lines = []
    outcomes = []
    before: dict[str, Result] = {}
    for study in [*imported, PUBLISHED]:
        jobs = plan(folder, study)
        # its scorecard gathers the claims of all, and what is committed must not be lost
        if study == PUBLISHED:
            before |= {
                f"the import of {part}": Result("failed") for part in _lost(imported)
            }
            jobs = [replace(job, needs=(*job.needs, *before)) for job in jobs]
        results = run_all(study, jobs, before=before)
        before |= {f"{name} of {study}": result for name, result in results.items()}
        ended = [(job, results[job.name]) for job in jobs]
        outcomes += ended
        write_index(study, outcomes if study == PUBLISHED else ended)
        lines += [
            f"{study}: {imported.get(study, 'the claims of all of them')}.",
            *outcome_lines(jobs, results),
        ]
        failed += sum(result.went_wrong for result in results.values())
    lines += missing
    if measure and {WORDS, ITEMS} <= set(imported):
        try:
            measure()
        except InputError as error:
            lines.append(f"not to be had: the published values of cards: {error}")
    lines.append(
        f"Look at {shown_path(PUBLISHED.figures / 'index.html')}: every notebook, its figures, "
        "claims.csv."
    )
    print("\n".join(["", *lines]))
    return failed


def _lost(imported: Iterable[Collection]) -> list[Collection]:
    """Return the published collections whose committed claims nothing on this machine replaces."""
    claims = published_table("claims")
    kept = set(claims.get("population", pd.Series(dtype=str)))
    absent = [part for part in PUBLISHED.parts if part not in imported]
    return [
        part
        for part in absent
        if part.population in kept and not any(part.claims.glob("*.csv"))
    ]


def _import_published() -> tuple[dict[Collection, str], list[str]]:
    """Return the imported collections with a description of each, and a line for everything that
    is missing.
    """
    importers: dict[Collection, Callable[[], dict[str, Path]]] = {
        WORDS: score_files.import_words,
        ITEMS: score_files.import_items,
        VOCABULARY: score_files.import_vocabulary,
    }
    imported = {}
    missing = []
    for study, importer in importers.items():
        try:
            paths = list(importer().values())
            table = scores.read(paths[0])
            prompts = scores.prompt_names(table)
            imported[study] = (
                f"{len(paths)} reward models, {len(table):,} replies, {len(prompts)} prompts"
            )
        except downloads.Unreachable as error:
            missing.append(f"not to be had: {study}: {error}")
    if not imported:
        raise InputError(missing[0].removeprefix("not to be had: "))
    return imported, missing


def run_all(
    study: Collection,
    jobs: list[Job],
    where=workers,
    before: Mapping[str, Result] | None = None,
) -> dict[str, Result]:
    """Run the jobs of a collection side by side; return the result of each by name, in the given
    order.

    - where: what starts jobs, waits for them and stops them, with the functions of
      lib.apps.runner.workers
    - before: results of earlier jobs that these jobs need
    """
    running: list[workers.Running] = []
    with lock(state_of(study)):
        progress = Progress(study, jobs, dict(before or {}))
        # longest first
        waiting = sorted(jobs, key=lambda job: -progress.seconds[job.name])
        try:
            while waiting or running:
                if job := next_job(
                    waiting,
                    running,
                    progress.results,
                    where.processes(),
                ):
                    waiting.remove(job)
                    if result := _result_without_run(job, progress):
                        progress.end(job, result, waiting, running)
                    else:
                        running.append(where.start(job))
                elif ended := where.first_to_end(running, LOOK_AGAIN):
                    running.remove(ended)
                    result = ended.ended()
                    result = replace(result, seconds=round(ended.seconds, 1))
                    if result.status == "run":
                        key = key_of(ended.job, result.wrote)
                        result = replace(result, key=key)
                    progress.end(ended.job, result, waiting, running)
                else:
                    progress.show_first(running, waiting)
        finally:
            where.stop(running)
        keep_hashes()
    return {job.name: progress.results[job.name] for job in jobs}


def _result_without_run(job: Job, progress: "Progress") -> Result | None:
    """Return the result of a job that cannot run or need not run; None for all others."""
    for name in job.needs:
        needed = progress.results.get(name)
        if needed and needed.went_wrong:
            return Result("skipped", cause=f"{name} {needed.status}")
    earlier = progress.record.get(job.name)
    if earlier and is_unchanged(job, earlier):
        return replace(earlier, status="unchanged")
    return None


def next_job(
    waiting: list[Job],
    running: list[workers.Running],
    ended: Iterable[str],
    processes: int,
) -> Job | None:
    """Return the first waiting job that may start now; None if a running job has to end first.

    ended: names of the jobs that have ended. A job that runs alone holds back all later jobs until
    it has run. But while the small models are trained, notebooks about the first ones run as soon
    as these models are there.
    """
    busy = [each.job for each in running]
    done = set(ended)
    if len(busy) == 1 and busy[0].declared.trains:
        reports = {name: ROOT / "data" / "models" / name / REPORT for name in EARLY}
        there = [
            name
            for name, report in reports.items()
            if report.is_file() and report.stat().st_mtime >= running[0].begun
        ]
        if there:
            done.add(busy[0].name)
            there.append(REAL)  # it was trained before them
            ready = (job for job in waiting if {*job.needs, *job.after} <= done)
            return next((job for job in ready if job.model in there), None)
    if len(busy) >= processes or any(job.alone for job in busy):
        return None
    ready = [job for job in waiting if {*job.needs, *job.after} <= done]
    if not ready or ready[0].alone and busy:
        return None
    return ready[0]


class Progress:
    """How far a run is: on the terminal, on the index page and in the record of the collection."""

    def __init__(self, study: Collection, jobs: list[Job], results: dict[str, Result]):
        self.study = study
        self.jobs = jobs
        self.results = results
        self.record = read_results(study)
        self.shown = 0.0  # when the index page was written last
        self.seconds = {job.name: job.declared.seconds for job in jobs}
        for name, result in self.record.items():
            if result.seconds:
                self.seconds[name] = result.seconds

    def end(
        self,
        job: Job,
        result: Result,
        waiting: list[Job],
        running: list[workers.Running],
    ) -> None:
        """Note the result of a job: keep it, print a line, and write the index page again while
        others run.
        """
        self.results[job.name] = result
        # A job that failed must run next time, so only the others are remembered.
        results = self.record | {job.name: result}
        self.record = {name: known for name, known in results.items() if known.key}
        if result.status != "unchanged":
            keep_results(self.study, self.record)
        how = f"{result.seconds:.0f} s" if result.status == "run" else str(result)
        goes_on = result.status in ("run", "failed") and (waiting or running)
        if goes_on:
            how += f"  ({self.what_is_left(waiting, running)})"
        done = len(self.jobs) - len(waiting) - len(running)
        print(f"[{done}/{len(self.jobs)}] {job.name}: {how}", flush=True)
        if goes_on and time.monotonic() - self.shown > INDEX_AGAIN:
            self.show(running)

    def what_is_left(self, waiting: list[Job], running: list[workers.Running]) -> str:
        """Return which jobs run, how many wait, and about how long they take if all of them run."""
        cores = os.cpu_count() or 1
        left = sum(
            max(self.seconds[each.job.name] - each.seconds, 0) / cores
            for each in running
        )
        left += sum(
            self.seconds[job.name] / (1 if job.alone else cores) for job in waiting
        )
        minutes = f"{left / 60:.0f} min" if left >= 90 else f"{left:.0f} s"
        names = (
            f"{', '.join(each.job.name for each in running)} running, "
            if running
            else ""
        )
        return f"{names}{len(waiting)} waiting, about {minutes} left"

    def show_first(self, running: list[workers.Running], waiting: list[Job]) -> None:
        """Write the index page as soon as a running notebook has an answer, if there is no page
        of this run yet.
        """
        if not waiting or self.shown:
            return
        if any(highlights_of(each.job.executed).answer for each in running):
            self.show(running)

    def show(self, running: list[workers.Running]) -> None:
        """Write the index page of a run that goes on, and name it on the terminal the first
        time.
        """
        first = not self.shown
        self.shown = time.monotonic()
        now = (
            dict.fromkeys([each.job.name for each in running], Result("running"))
            | self.results
        )
        write_index(
            self.study,
            [(job, now.get(job.name, Result("waiting"))) for job in self.jobs],
        )
        if first:
            place = shown_path(self.study.figures / "index.html")
            print(f"Look at {place}: it shows what is done so far.", flush=True)


def refresh(names: Sequence[str] = (), folder: Path = NOTEBOOKS) -> int:
    """Execute the committed notebooks whose names start so again, in place; return how many failed.

    Each is executed with its own parameters, unless `reproduce` or `published` did so and nothing
    has changed since. A notebook that fails stays as it was. InputError for a name that no notebook
    starts with.

    names: such as 04, or exercises/04 for the exercises of notebook 04; default: all notebooks,
    then all exercises.
    """
    exercises = folder / files.EXERCISES
    paths = files.find_notebooks(folder) + (
        files.find_notebooks(exercises) if exercises.is_dir() else []
    )
    places = {path.relative_to(folder).as_posix(): path for path in paths}
    if unknown := [
        name for name in names if not any(place.startswith(name) for place in places)
    ]:
        numbers = ", ".join(place.partition("_")[0] for place in places)
        raise InputError(f"no notebook starts with '{unknown[0]}'; there are {numbers}")
    chosen = [
        path
        for place, path in places.items()
        if not names or place.startswith(tuple(names))
    ]
    found = [
        exercise_job(path) if path.parent == exercises else job_of(path)
        for path in chosen
    ]
    jobs = [replace(job, needs=(), after=()) for job in found if job]
    failed = 0
    for study in dict.fromkeys(job.collection for job in jobs):
        of_study = [job for job in jobs if job.collection == study]
        results = run_all(study, of_study)
        failed += sum(result.went_wrong for result in results.values())
        for job in of_study:
            if not results[job.name].went_wrong:
                files.commit(job.executed, job.notebook)
    return failed


def job_of(notebook: Path) -> Job | None:
    """Return the job that executes a notebook with its own parameters, on embedded or published
    scores, or None.
    """
    defaults = files.parameters_of(notebook)
    study = Collection(defaults["collection"])
    own = study.kind == "own" and defaults.get("model")
    models: dict[str, str] = {}
    if not study.is_published:
        models = find_models([own] if own else [])
    jobs = plan(notebook.parent, study, models)  # with all of its samples
    return next(
        (
            job
            for job in jobs
            if job.notebook == notebook and defaults | job.parameters == defaults
        ),
        None,
    )
