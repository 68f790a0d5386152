"""Jobs side by side: each notebook has its process, and its kernel is a fork of a process with the usual imports."""

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .. import ROOT
from ..io import WRITTEN, Visible
from . import files, pages
from .jobs import Job, Result
from .kernels import CAN_FORK, THREADS, fork_kernel, forking_context

START = "forkserver" if CAN_FORK else "spawn"
TO_END = 4  # seconds that a kernel has to end in order


@dataclass(frozen=True)
class Running:
    """A job that runs now."""

    job: Job
    handle: Any  # what waits for the job and stops it
    ended: Callable[[], Result]  # returns the result once the job has ended
    begun: float = field(default_factory=time.time)

    @property
    def seconds(self) -> float:
        return time.time() - self.begun


def start(job: Job) -> Running:
    """Start a job. Unless it runs alone, it gets one thread, and a forked process if the system has forks."""
    forking = forking_context() if START == "forkserver" else None  # its server gets ready while a job runs alone
    in_fork = forking is not None and not job.alone
    context = forking if in_fork else multiprocessing.get_context("spawn" if forking else START)
    answer, to_answer = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(to_answer, job, in_fork))
    process.start()
    to_answer.close()  # here, so that the answer has an end when the process has

    def ended() -> Result:
        try:
            return answer.recv()
        except EOFError:
            process.join()
            return Result("failed", cause=f"its process ended with code {process.exitcode}, perhaps for want of memory")

    return Running(job, (process, answer), ended)


def processes() -> int:
    """Return how many jobs may run at once."""
    return os.cpu_count() or 1


def first_to_end(running: list[Running], seconds: float) -> Running | None:
    """Wait until a running job has answered or ended; return it. None if that takes longer than these seconds."""
    answers = wait([job.handle[1] for job in running], seconds)
    return next((job for job in running if job.handle[1] in answers), None)


def stop(running: Iterable[Running]) -> None:
    """End jobs that still run, with their kernels."""
    for job in running:
        job.handle[0].terminate()
    for job in running:
        job.handle[0].join(timeout=TO_END)
        job.handle[0].kill()


def _answer(connection: Connection, job: Job, in_fork: bool) -> None:
    """Carry out a job, and answer how it went. in_fork: whether this process is a fork for which imports are done."""
    engine = {"kernel_manager_class": fork_kernel(connection)} if in_fork else {}

    def end_with_run() -> None:  # a killed run cannot stop its notebooks, so they would continue
        if run := multiprocessing.parent_process():
            run.join()
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(TO_END)
            os._exit(1)  # the kernel sees it, and so do the processes that the kernel has started

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process, and the first one ends the others
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # in order, so that the kernel ends with this process
    threading.Thread(target=end_with_run, daemon=True).start()
    sys.stderr = Visible(sys.stderr, bars=True)  # the kernel's bars, and a traceback of ours
    if not job.alone:
        os.environ.update(dict.fromkeys(THREADS, "1"))  # of the kernel, which is started from here
    connection.send(outcome(job, **engine))


def outcome(job: Job, **engine) -> Result:
    """Execute a notebook with options of nbclient, write its page, return the result; an error is a failure's cause."""
    cause, begun = "", sum(os.times()[:4])
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "written"
        os.environ[WRITTEN] = str(log)  # the kernel inherits it, and every file that it writes whole is listed there
        try:
            job.executed.unlink(missing_ok=True)
            files.execute(
                job.notebook, job.executed, job.parameters, exercises=job.exercises, progress=job.alone, **engine
            )
        except Exception as error:
            cause = files.cause_of(error)
        try:
            if job.executed.is_file():  # a failed notebook is shown as far as it got
                pages.write_page(job.executed, job.page, files.opening(job.notebook)[0])
        except Exception as error:
            cause = cause or files.cause_of(error)
        del os.environ[WRITTEN]
        wrote = {Path(line) for line in log.read_text().splitlines()} if log.is_file() else set()
    places = (ROOT / "figures", job.collection.claims)
    inside = sorted(path for path in wrote if any(path.is_relative_to(place) for place in places))
    result = Result("failed" if cause else "run", cause=cause, core_seconds=round(sum(os.times()[:4]) - begun, 1))
    return replace(result, wrote=tuple(path.relative_to(ROOT).as_posix() for path in inside))
