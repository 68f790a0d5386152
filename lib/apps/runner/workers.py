"""Jobs side by side: each notebook has its process, and its kernel is a fork of a process with the
usual imports.

A fork may hang if the libraries of its parent have started threads. So kernels are forked from
multiprocessing's fork server, which has one thread and runs no cell. Each kernel is a separate
process, and starts at once.
"""

import atexit
import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from importlib import import_module
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import psutil

from ... import ROOT
from ...io import WRITTEN, Visible
from . import files, pages
from .jobs import Job, Result

THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
# Read when libraries are imported. A kernel sets the backend of matplotlib itself, but after
# matplotlib is there.
ENVIRONMENT = dict.fromkeys(THREADS, "1") | {
    "MPLBACKEND": "module://matplotlib_inline.backend_inline"
}
HEAVY = [
    "lib.apps.runner.ended",  # first
    "lib.apps.runner",  # before nbformat, because it makes it quick
    "wordfreq",  # before torch, as it looks through all that is imported
    "ipykernel.kernelapp",
    "matplotlib.pyplot",
    "matplotlib_inline.backend_inline",
    "nbconvert",
    "papermill",
    "pingouin",
    "pyarrow.parquet",
    "scipy.stats",
    "seaborn",
    "sklearn.isotonic",
    "sklearn.manifold",
    "statsmodels.api",
    "torch",
    "transformers.modeling_utils",
    "transformers.models.gemma2.modeling_gemma2",
    "transformers.models.llama.modeling_llama",
]
# Windows has no forks, and those of macOS do not survive its own libraries
CAN_FORK = sys.platform == "linux"
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
    """Start a job. Unless it runs alone, it gets one thread, and a forked process if the system
    has forks.
    """
    # its server gets ready while a job runs alone
    forking = forking_context() if START == "forkserver" else None
    in_fork = forking is not None and not job.alone
    context = (
        forking
        if in_fork
        else multiprocessing.get_context("spawn" if forking else START)
    )
    answer, to_answer = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(to_answer, job, in_fork))
    process.start()
    to_answer.close()  # here, so that the answer has an end when the process has

    def ended() -> Result:
        try:
            return answer.recv()
        except EOFError:
            process.join()
            return Result(
                "failed",
                cause=f"its process ended with code {process.exitcode}, perhaps for want of memory",
            )

    return Running(job, (process, answer), ended)


def processes() -> int:
    """Return how many jobs may run at once."""
    return os.cpu_count() or 1


def first_to_end(running: list[Running], seconds: float) -> Running | None:
    """Wait until a running job has answered or ended; return it. None if that takes longer than
    these seconds.
    """
    connections = [job.handle[1] for job in running]
    answers = wait(connections, seconds)
    ended = (job for job in running if job.handle[1] in answers)
    return next(ended, None)


def stop(running: Iterable[Running]) -> None:
    """End jobs that still run, with their kernels."""
    for job in running:
        job.handle[0].terminate()
    begun = time.monotonic()
    for job in running:  # together, not one after the other
        left = begun + TO_END - time.monotonic()
        job.handle[0].join(timeout=max(0.0, left))
        job.handle[0].kill()


def _answer(connection: Connection, job: Job, in_fork: bool) -> None:
    """Carry out a job, and answer how it went. in_fork: whether this process is a fork for which
    imports are done.
    """
    engine = {"kernel_manager_class": fork_kernel(connection)} if in_fork else {}

    # a killed run cannot stop its notebooks, so they would continue
    def end_with_run() -> None:
        if run := multiprocessing.parent_process():
            run.join()
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(TO_END)
            # the kernel sees it, and so do the processes that the kernel has started
            os._exit(1)

    # Ctrl-C reaches every process, and the first one ends the others
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # in order, so that the kernel ends with this process
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    threading.Thread(target=end_with_run, daemon=True).start()
    # the kernel's bars, and a traceback of ours
    sys.stderr = Visible(sys.stderr, bars=True)
    if not job.alone:
        # of the kernel, which is started from here
        os.environ.update(dict.fromkeys(THREADS, "1"))
    connection.send(outcome(job, **engine))


def outcome(job: Job, **engine) -> Result:
    """Execute a notebook with options of nbclient, write its page, return the result; an error
    is a failure's cause.
    """
    cause = ""
    begun = sum(os.times()[:4])
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "written"
        # the kernel inherits it, and every file that it writes whole is listed there
        os.environ[WRITTEN] = str(log)
        try:
            job.executed.unlink(missing_ok=True)
            files.execute(
                job.notebook,
                job.executed,
                job.parameters,
                progress=job.alone,
                **engine,
            )
        except Exception as error:
            cause = files.cause_of(error)
        try:
            if job.executed.is_file():  # a failed notebook is shown as far as it got
                pages.write_page(job.executed, job.page, files.opening(job.notebook)[0])
        except Exception as error:
            cause = cause or files.cause_of(error)
        del os.environ[WRITTEN]
        wrote = (
            {Path(line) for line in log.read_text().splitlines()}
            if log.is_file()
            else set()
        )
    places = (ROOT / "figures", job.collection.claims)
    inside = sorted(
        path for path in wrote if any(path.is_relative_to(place) for place in places)
    )
    result = Result(
        "failed" if cause else "run",
        cause=cause,
        core_seconds=round(sum(os.times()[:4]) - begun, 1),
        peak_gb=_peak_gb(),
    )
    return replace(
        result,
        wrote=tuple(path.relative_to(ROOT).as_posix() for path in inside),
    )


def _peak_gb() -> float:
    """Return the memory of the largest process that this one has started and that has ended, in
    GB. Linux alone tells it in kilobytes; elsewhere it is 0.
    """
    if sys.platform != "linux":
        return 0.0
    import resource

    return round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6, 2)


# --- kernels that are forks -----------------------------------------------------------------------


def forking_context() -> BaseContext:
    """Return the context whose processes are forks of one thread, with those of HEAVY imported
    that are installed.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(HEAVY)
    before = dict(os.environ)
    try:
        os.environ.update(ENVIRONMENT)
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(before)
    return context


def fork_kernel(answer: Connection) -> type:
    """Fork this process of one thread; return the class of kernel managers, for nbclient, whose
    kernel is the fork.

    The fork waits for such a manager, and ends where this process does. answer: closed in the fork.
    """
    from jupyter_client.manager import AsyncKernelManager

    to_fork, commands = multiprocessing.Pipe()
    pid = os.fork()
    if pid == 0:
        answer.close()
        to_fork.close()
        _become_kernel(commands)
    commands.close()

    class ForkedKernelManager(AsyncKernelManager):
        """Starts its kernel by the command that another manager gives to a new interpreter."""

        async def _async_launch_kernel(self, kernel_cmd: list[str], **given) -> None:
            process = self.provisioner.process = Fork(pid)
            # it leads a session, as other kernels do
            self.provisioner.pid = self.provisioner.pgid = process.pid
            environment = given["env"] | {"JPY_PARENT_PID": str(os.getpid())}
            to_fork.send((kernel_cmd[3:], environment, os.getcwd()))

    return ForkedKernelManager


class Fork(psutil.Process):
    """A fork of this process, with what jupyter_client asks of subprocess.Popen."""

    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        """Return the fork's exit code, or None while it runs."""
        with contextlib.suppress(psutil.TimeoutExpired):
            return self.wait(0)
        return None


def _become_kernel(commands: Connection) -> None:
    """Wait for a kernel's arguments, environment and folder; be that kernel, and never return."""
    code = 1
    try:
        arguments, environment, folder = commands.recv()
        # so that this fork is ended too, which has a session of its own
        sys.modules.pop("lib.apps.runner.ended", None)
        import_module("lib.apps.runner.ended")
        os.setsid()
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        # As in a new interpreter: the project's code may have been edited since, and nothing is
        # found in this folder.
        for name in [
            name
            for name in sys.modules
            if name.partition(".")[0] in ("lib", "benchmarks")
        ]:
            del sys.modules[name]
        sys.path[:] = [place for place in sys.path if place]
        # Linux's own; a server's forks leave semaphores if killed
        multiprocessing.set_start_method(None, force=True)
        import numpy as np
        from ipykernel.kernelapp import launch_new_instance

        # else whoever draws without a seed draws the same in all forks
        np.random.seed()  # noqa: NPY002
        launch_new_instance(argv=arguments)
        atexit._run_exitfuncs()
        code = 0
    except EOFError:
        pass  # its process has ended without starting a kernel
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
