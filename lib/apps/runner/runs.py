"""Run jobs side by side, each in a process. A job that is unchanged is not run again."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace

from ... import ROOT, InputError
from ...claims.claims import published_table
from ...io import Visible, lock, replacing, shown_path
from ...show.pages import template
from ...show.terminal import score_lines
from ...tables import downloads, score_files
from ...tables.collection import (
    FIRST_RUN,
    ITEMS,
    PUBLISHED,
    VOCABULARY,
    WORDS,
    Collection,
)
from ...tables.registry import find_models, study_of
from . import files
from .jobs import REAL, Job, job_of, key_of, plan, what_all_read

NOTEBOOKS = ROOT / "notebooks"
WRONG = ("failed", "skipped")  # how the result of a job begins that did not succeed


class Pool:
    """Processes that carry out jobs, so many at once. If one dies, its job alone has failed."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self.idle: list[ProcessPoolExecutor] = []

    def submit(self, function: Callable, job: Job) -> Future:
        """Start a job; return what gets its result."""
        if not self.idle:
            spawn = multiprocessing.get_context("spawn")
            self.idle.append(ProcessPoolExecutor(1, spawn, _begin))
        worker = self.idle.pop()
        future = worker.submit(function, job)

        def free(ended: Future) -> None:
            if not ended.exception():
                self.idle.append(worker)

        future.add_done_callback(free)
        return future

    def stop(self) -> None:
        """End all processes; kernels see it, and end."""
        for process in multiprocessing.active_children():
            process.terminate()


def _begin() -> None:
    """Prepare a process: it ends with the run, even with one that is killed, and not by Ctrl-C,
    which reaches every process.
    """

    def end_with_run() -> None:
        if run := multiprocessing.parent_process():
            run.join()
            os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_run, daemon=True).start()
    sys.stderr = Visible(sys.stderr, bars=True)


def outcome(job: Job) -> str:
    """Carry out a job; return why it failed, in one line, or ''."""
    try:
        if job.notebook:
            try:
                files.execute(job.notebook, job.executed, job.parameters)
            finally:
                if job.executed.is_file():
                    files.write_page(job.executed, job.page)
        else:
            from ...trained.making import make

            make(job.model)
    except Exception as error:
        name = getattr(error, "ename", type(error).__name__)
        lines = getattr(error, "evalue", str(error)).strip().splitlines()
        return f"{name}: {(lines or ['no message'])[0]}".removeprefix("InputError: ")
    return ""


class Run:
    """Jobs that run side by side; results: how each went, by name.

    home: whose folders hold the index page, and the lock against a second run.
    """

    def __init__(self, home: Collection, jobs: Sequence[Job]) -> None:
        self.home = home
        self.jobs = jobs
        self.results: dict[str, str] = {}
        self.keys = {"": what_all_read(home)}
        self.running: dict[Future, Job] = {}

    def carry_out(self, pool: Pool) -> dict[str, str]:
        """Run the jobs, each as soon as what it needs has ended; return the results."""
        waiting = list(self.jobs)
        with lock(self.home.runs / "run"):
            try:
                while waiting or self.running:
                    done = self.results.keys()
                    ready = [job for job in waiting if job.needs.keys() <= done]
                    if ready and len(self.running) < pool.at_once:
                        waiting.remove(ready[0])
                        self._start(ready[0], pool)
                    else:
                        self._wait()
            finally:
                pool.stop()
        return self.results

    def _start(self, job: Job, pool: Pool) -> None:
        """Start a job, unless it is unchanged or something that it needs is missing."""
        known = job.executed.with_suffix(".key")
        lost = [
            name
            for name, must in job.needs.items()
            if must and self.results[name].startswith(WRONG)
        ]
        if lost:
            self._end(job, f"skipped: {lost[0]} failed")
        elif known.is_file() and known.read_text() == self._key_of(job):
            self._end(job, "unchanged")
        else:
            known.unlink(missing_ok=True)
            self.running[pool.submit(outcome, job)] = job

    def _wait(self) -> None:
        """Wait until some jobs have ended."""
        for future in wait(self.running, return_when=FIRST_COMPLETED).done:
            error = future.exception()
            died = "its process ended, perhaps for want of memory"
            cause = died if error else future.result()
            self._end(self.running.pop(future), f"failed: {cause}" if cause else "run")

    def _end(self, job: Job, result: str) -> None:
        """Keep the result of a job, tell it, and write the index page again."""
        self.results[job.name] = result
        if not result.startswith(WRONG):
            self.keys[job.name] = self._key_of(job)
            with replacing(job.executed.with_suffix(".key")) as part:
                part.write_text(self.keys[job.name])
        ended = len(self.results)
        print(f"[{ended}/{len(self.jobs)}] {job.name}: {result}", flush=True)
        if result != "unchanged" or ended == len(self.jobs):
            write_index(self.home, self.jobs, self.results)

    def _key_of(self, job: Job) -> str:
        return key_of(job, [self.keys.get(name, "") for name in ("", *job.needs)])


def write_index(
    home: Collection, jobs: Sequence[Job], results: Mapping[str, str]
) -> None:
    """Write figures/<collection>/index.html: what each notebook asks and answers, and its page."""
    shown = {"home": home, "jobs": jobs, "results": results, "files": files}
    page = template("index").render(shown, root=ROOT, title=f"Collection {home}")
    with replacing(home.figures / "index.html") as part:
        part.write_text(page, encoding="utf-8")


def run_all(home: Collection, jobs: Sequence[Job], pool: Pool | None = None) -> int:
    """Run jobs, side by side unless they are about models that may be large; tell how they went,
    and return how many failed.
    """
    cores = os.cpu_count() or 1
    is_large = home.kind == "own" and any(job.model for job in jobs)
    if not is_large:
        os.environ["OMP_NUM_THREADS"] = "1"  # of each process
    results = Run(home, jobs).carry_out(pool or Pool(1 if is_large else cores))
    failed = sum(result.startswith(WRONG) for result in results.values())
    place = shown_path(home.figures / "index.html")
    print(f"{len(jobs)} jobs, {failed} failed. Look at {place}.")
    return failed


def reproduce(
    models: Sequence[str] = (), collection: str | None = None, pool: Pool | None = None
) -> int:
    """Run the notebooks for these reward models; return how many jobs failed. Unchanged jobs are
    not run again. If one fails, the others that do not need it still run.
    """
    to_load = find_models(models)
    study = study_of(to_load, collection)
    jobs = plan(NOTEBOOKS, study, to_load if models else {})
    failed = run_all(study, jobs, pool)
    if study.is_embedded:
        print("", *score_lines(FIRST_RUN, [REAL]), study.notice, sep="\n")
    print("", *score_lines(study, to_load), sep="\n")
    return failed


def published() -> int:
    """Import the published scores that can be had, and run the notebooks about them; return how
    many jobs failed.

    A line names what cannot be downloaded. InputError if nothing can, or if a file is corrupt.
    """
    studies = []
    lines = []
    for study, importer in {
        WORDS: score_files.import_words,
        ITEMS: score_files.import_items,
        VOCABULARY: score_files.import_vocabulary,
    }.items():
        try:
            importer()
            studies.append(study)
        except downloads.Unreachable as error:
            lines.append(f"not to be had: {study}: {error}")
    if not studies:
        raise InputError(lines[0])
    jobs = [job for study in studies for job in plan(NOTEBOOKS, study, {})]
    # what is committed must not be lost
    known = set(published_table("claims").get("population", ()))
    missing = {part.population for part in PUBLISHED.parts if part not in studies}
    if missing & known:
        lines.append(f"not run: the scorecard, which has claims on {missing & known}")
    else:
        needs = {job.name: True for job in jobs}
        last = plan(NOTEBOOKS, PUBLISHED, {})
        jobs += [replace(job, needs=needs) for job in last]
    failed = run_all(PUBLISHED, jobs)
    print(*lines, sep="\n")
    return failed


def refresh(names: Sequence[str] = ()) -> int:
    """Execute the committed notebooks whose names start so again, in place; return how many failed.

    A notebook that fails stays as it was. InputError for a name that no notebook starts with.

    names: such as 04, or exercises/04 for the exercises of notebook 04; default: all notebooks,
    then all exercises.
    """
    paths = {
        path.relative_to(NOTEBOOKS).as_posix(): path
        for folder in (NOTEBOOKS, NOTEBOOKS / files.EXERCISES)
        for path in files.find_notebooks(folder)
    }
    for name in names:
        if not any(place.startswith(name) for place in paths):
            raise InputError(
                f"no notebook starts with '{name}'; there are {', '.join(paths)}"
            )
    jobs = []
    for place, path in paths.items():
        if place.startswith(tuple(names) or ""):
            is_exercise = path.parent != NOTEBOOKS
            named = {} if is_exercise else files.parameters_of(path)
            study = Collection(named.get("collection", files.EXERCISES))
            jobs.append(job_of(path, study, {}))
            jobs[-1].executed.with_suffix(".key").unlink(missing_ok=True)
    pool = Pool(os.cpu_count() or 1)
    results = Run(Collection("notebooks"), jobs).carry_out(pool)
    for job in jobs:
        if job.notebook and results[job.name] == "run":
            files.commit(job.executed, job.notebook)
    return sum(result.startswith(WRONG) for result in results.values())
