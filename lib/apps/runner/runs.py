"""Run jobs side by side, each in a process. A job that is unchanged is not run again."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace

from ... import ROOT
from ...io import lock, shown_path, visible
from ...show.pages import write_page
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
from ...threads import end_with_parent
from .front import write_index
from .jobs import REAL, Job, key_of, needs_of, plan, what_all_read


def carry_out(job: Job) -> None:
    """Train and score a model, or execute a notebook by papermill in a fresh kernel and write its
    page. As far as it got, the page is kept.
    """
    if not job.notebook:
        from ...trained.making import make

        make(job.model)
        return
    import papermill  # here, because it takes a second

    job.executed.unlink(missing_ok=True)
    is_large = job.collection.kind == "own" and job.collection != FIRST_RUN
    try:
        papermill.execute_notebook(
            job.notebook,
            job.executed,
            job.parameters,
            cwd=ROOT,
            progress_bar=False,
            # a kernel's remarks on its own transport are not for the terminal
            extra_arguments=["--IPKernelApp.log_level=50"],
            # after each cell, which takes seconds, only where a kernel may run out of memory
            request_save_on_cell_execute=is_large,
        )
    finally:
        if job.executed.is_file():
            write_page(job.executed, job.page)


def run_all(
    home: Collection, jobs: Sequence[Job], submit: Callable, at_once: int
) -> int:
    """Run jobs, each as soon as what it needs has ended, and tell how each went; return 1 if any
    failed.

    home: whose folders hold the index page, and the lock against a second run; submit: of an
    executor, or what takes its place.
    """
    read = what_all_read(home)
    keys: dict[str, str] = {}  # of the jobs that have ended; '' of one that failed
    waiting = list(jobs)
    running: dict[Future, Job] = {}

    def end(job: Job, result: str) -> None:
        keys[job.name] = "" if result.startswith("failed") else key_of(job, read, keys)
        job.key.write_text(keys[job.name])
        log = f" ({shown_path(job.page)})" if job.notebook else ""
        print(
            f"[{len(keys)}/{len(jobs)}] {job.name}: {visible(result)}{log}", flush=True
        )

    with lock(home.runs / "run"):
        while waiting or running:
            ready = [job for job in waiting if job.needs <= keys.keys()]
            if ready and len(running) < at_once:
                job = ready[0]
                waiting.remove(job)
                if job.key.is_file() and job.key.read_text() == key_of(job, read, keys):
                    end(job, "unchanged")
                else:
                    job.key.parent.mkdir(parents=True, exist_ok=True)
                    running[submit(carry_out, job)] = job
                continue
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                error = future.exception()
                # papermill's errors are tracebacks, and end on what the notebook said
                last = str(error).strip().rpartition("\n")[2]
                end(job, f"failed: {last}" if error else "run")
            _write_index_of_ended(home, jobs, keys)
        _write_index_of_ended(home, jobs, keys)
    failed = sum(not key for key in keys.values())
    print(
        f"{len(jobs)} jobs, {failed} failed. Look at {shown_path(home.figures / 'index.html')}."
    )
    return failed > 0


def _write_index_of_ended(
    home: Collection, jobs: Sequence[Job], keys: Mapping[str, str]
) -> None:
    # the file of a notebook that is still running may be half written
    write_index(
        home, [job for job in jobs if job.name in keys and job.executed.is_file()]
    )


def run_here(home: Collection, jobs: Sequence[Job]) -> int:
    """Run jobs in processes: side by side, or one after the other for models that may be large."""
    cores = os.cpu_count() or 1
    at_once = 1 if home.kind == "own" else cores
    os.environ["OMP_NUM_THREADS"] = str(cores // at_once)  # of each process
    # Ctrl-C ends this process at once, as a kill does, and the others see it
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(at_once, spawn, end_with_parent) as pool:
        return run_all(home, jobs, pool.submit, at_once)


def reproduce(
    models: Sequence[str] = (), collection: str | None = None, run: Callable = run_here
) -> int:
    """Run the notebooks for these reward models; return 1 if any job failed. Unchanged jobs are
    not run again. If one fails, the others still run.
    """
    to_load = find_models(models)
    study = study_of(to_load, collection)
    code = run(study, plan(study, to_load if models else {}))
    if study.is_embedded:
        print("", *score_lines(FIRST_RUN, [REAL]), study.notice, sep="\n")
    print("", *score_lines(study, to_load), sep="\n")
    return code


def published() -> int:
    """Import the published scores, and run the notebooks about them; return 1 if any job failed.

    A line says so where the scores of whole vocabularies cannot be had.
    """
    score_files.import_words()
    score_files.import_items()
    studies = [WORDS, ITEMS, VOCABULARY]
    try:
        score_files.import_vocabulary()
    except downloads.Unreachable as error:
        print(f"not to be had: {studies.pop()}: {error}")
    planned = [job for study in [*studies, PUBLISHED] for job in plan(study, {})]
    # the scorecard corrects all tests together, so it waits until all are there
    jobs = [replace(job, needs=needs_of(job, planned)) for job in planned]
    return run_here(PUBLISHED, jobs)
