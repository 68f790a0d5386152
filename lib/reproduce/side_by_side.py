"""Jobs side by side: each in a process of its own, as many as there are cores, the longest first."""

import contextlib
import multiprocessing
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from lib.reproduce import execution
from lib.reproduce.jobs import Job

# From a server process that has imported papermill once; where there is none (Windows) each process imports it anew.
START = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


@dataclass(frozen=True)
class Running:
    """A job that runs now. before: the figures that were there at its start, with the time each was written."""

    job: Job
    started: float
    before: Mapping[str, int]

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def ended(self) -> tuple[str, str]:
        """Once it has ended: its status, run or failed, and the cause of a failure."""
        raise NotImplementedError  # where it runs decides how that is learned


@dataclass(frozen=True)
class InProcess(Running):
    """A job that runs in a process of this machine, and what it answers through."""

    process: BaseProcess
    answer: Connection

    def ended(self) -> tuple[str, str]:
        try:
            return self.answer.recv()
        except EOFError:
            self.process.join()
            return "failed", f"its process ended with code {self.process.exitcode}, perhaps for want of memory"


def start(job: Job, before: Mapping[str, int]) -> InProcess:
    """Start a job, on one thread unless it runs alone."""
    context = multiprocessing.get_context(START)
    if START == "forkserver":
        context.set_forkserver_preload(["papermill", "nbconvert", "lib.reproduce.execution"])
    answer, to_answer = context.Pipe(duplex=False)
    task = execution.Task(job.notebook, job.parameters, job.executed, job.page, job.shown, job.alone)
    process = context.Process(target=execution.answer, args=(to_answer, task), daemon=True)
    process.start()
    to_answer.close()  # here, so that the answer has an end when the process has
    return InProcess(job, time.monotonic(), before, process, answer)


# --- which is next ------------------------------------------------------------------------------------------------


def next_of(waiting: list[Job], running: Iterable[Running], ended: Iterable[str], processes: int) -> Job | None:
    """The first of the waiting jobs that may start now; None where one of those that run has to end first.

    ended: names of the jobs that have ended. A job that runs alone holds back those behind it until it had its turn.
    """
    busy = [one.job for one in running]
    if len(busy) >= processes or any(job.alone for job in busy):
        return None
    ready = [job for job in waiting if {*job.needs, *job.after} <= set(ended)]
    return None if not ready or ready[0].alone and busy else ready[0]


def first_to_end(running: list[InProcess]) -> InProcess:
    """Waits until one of them has answered or ended."""
    answers = wait([one.answer for one in running])
    return next(one for one in running if one.answer in answers)


@contextlib.contextmanager
def ending(running: list[InProcess]) -> Iterator[None]:
    """Whatever still runs at the end of this is ended, with its kernel."""
    try:
        yield
    finally:
        for one in running:
            one.process.terminate()
        for one in running:
            one.process.join(timeout=5)
            one.process.kill()
