"""What the process of one job does. It loads no models and no tables, so that such processes are small and quick."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from lib.reproduce import documents, notebooks
from lib.terminal import Visible

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
TO_END = 10  # seconds that a kernel has to end in order


@dataclass(frozen=True)
class Task:
    """A notebook to execute, where to write it and its page, and where to keep it without run-time metadata, if at all.

    alone: on all cores; else on one thread.
    """

    notebook: Path
    parameters: dict
    executed: Path
    page: Path
    shown: Path | None
    alone: bool


def answer(connection: Connection, task: Task) -> None:
    """In a process of its own: carry out the task, and answer with status and cause."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process, and the first one ends the others
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # in order, so that the kernel ends with this process
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.stderr = Visible(sys.stderr, bars=True)  # the kernel's bars, and a traceback of ours
    if not task.alone:
        os.environ.update(dict.fromkeys(THREADS, "1"))  # of the kernel, which is started from here
    connection.send(outcome(task))


def _end_with_parent() -> None:
    """A run that is killed outright can tell nobody; its notebooks would go on, and so would what they train."""
    run = multiprocessing.parent_process()
    if run is not None:
        run.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(TO_END)
        os._exit(1)  # the kernel sees it, and so do the processes that the kernel has started


def outcome(task: Task) -> tuple[str, str]:
    """Execute a notebook and write its page; its status, run or failed, and the cause of a failure."""
    task.executed.unlink(missing_ok=True)
    cause = _cause(lambda: notebooks.execute(task.notebook, task.executed, task.parameters, progress=task.alone))
    if task.executed.is_file():  # a failed notebook is shown as far as it got
        unwritten = _cause(lambda: _write(task, whole=not cause))
        cause = cause or unwritten
    return ("failed", cause) if cause else ("run", "")


def _write(task: Task, whole: bool) -> None:
    documents.write_page(task.executed, task.page, notebooks.opening(task.notebook)[0])
    if whole and task.shown:
        notebooks.write_stripped(task.executed, task.shown)


def _cause(step: Callable[[], object]) -> str:
    """Why a step failed, '' if it did not. Whatever stops one notebook, the others still run, and the cause is told."""
    try:
        step()
    except Exception as error:
        return notebooks.cause_of(error)
    return ""
