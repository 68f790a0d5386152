"""Kernels that start at once: forks of a process that has imported the heavy packages and has computed nothing yet.

A fork may hang if the libraries of its parent have started threads. So kernels are forked from multiprocessing's fork
server, which has one thread and runs no cell. Each kernel is a separate process.
"""

import atexit
import contextlib
import multiprocessing
import os
import sys
import traceback
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext

import psutil

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
# Read when libraries are imported. A kernel sets the backend of matplotlib itself, but after matplotlib is there.
ENVIRONMENT = dict.fromkeys(THREADS, "1") | {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
HEAVY = [
    "lib.notebooks",  # first, because it makes nbformat quick
    "ipykernel.kernelapp", "matplotlib.pyplot", "matplotlib_inline.backend_inline", "nbconvert", "papermill",
    "pingouin", "pyarrow.parquet", "scipy.stats", "seaborn", "sklearn.isotonic", "sklearn.manifold",
    "statsmodels.api", "torch", "transformers.modeling_utils", "transformers.models.gemma2.modeling_gemma2",
    "transformers.models.llama.modeling_llama", "wordfreq",
]  # fmt: skip
CAN_FORK = sys.platform == "linux"  # Windows has no forks, and those of macOS do not survive its own libraries


def forking_context() -> BaseContext:
    """Return the context whose processes are forks of one thread, with those of HEAVY imported that are installed."""
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
    """Fork this process of one thread; return the class of kernel managers, for nbclient, whose kernel is the fork.

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
            self.provisioner.pid = self.provisioner.pgid = process.pid  # it leads a session, as other kernels do
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
        os.setsid()
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        # As in a new interpreter: the project's code may have been edited since, and nothing is found in this folder.
        for name in [name for name in sys.modules if name.partition(".")[0] in ("lib", "benchmarks")]:
            del sys.modules[name]
        sys.path[:] = [place for place in sys.path if place]
        import numpy as np
        from ipykernel.kernelapp import launch_new_instance

        np.random.seed()  # noqa: NPY002 - else whoever draws without a seed draws the same in all forks
        launch_new_instance(argv=arguments)
        atexit._run_exitfuncs()
        code = 0
    except EOFError:
        pass  # its process has ended without starting a kernel
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
