"""Kernels that are forks: quick to start, and otherwise as kernels of a new interpreter."""

import contextlib
import multiprocessing
import subprocess
import sys
import time

import nbformat
import psutil
import pytest
from conftest import recorded

from lib import ROOT
from lib.apps.runner import files
from lib.apps.runner import workers as kernels

pytestmark = pytest.mark.skipif(
    not kernels.CAN_FORK, reason="here each kernel is a new interpreter"
)
LOOK = """
import multiprocessing, os, sys
import numpy as np
before = {name.partition(".")[0] for name in sys.modules}
from lib.models.hardware import each
from lib.show import display
display.record(heavy=sorted(before & {"torch", "seaborn", "statsmodels"}),
               ours=sorted(before & {"lib", "benchmarks"}), pid=os.getpid(),
               drawn=np.random.rand(), folder=os.getcwd(), absolute=list(each(abs, [-1, -2], 2)),
               threads=os.environ["OMP_NUM_THREADS"], starts=multiprocessing.get_start_method())
"""


def execute(answer, notebook, output) -> None:
    try:
        files.execute(
            notebook, output, {}, kernel_manager_class=kernels.fork_kernel(answer)
        )
        answer.send("done")
    except Exception as error:
        answer.send(files.cause_of(error))


def started(notebook, output):
    mine, theirs = multiprocessing.Pipe(duplex=False)
    process = kernels.forking_context().Process(
        target=execute, args=(theirs, notebook, output)
    )
    process.start()
    theirs.close()
    return process, mine


@pytest.mark.usefixtures("kernels")
def test_each_kernel_is_a_process_of_its_own_that_has_the_heavy_packages_and_none_of_ours(
    tmp_path, write_notebook
):
    notebook = write_notebook(tmp_path / "01_look.ipynb", LOOK)
    outputs = [tmp_path / name for name in ("a.ipynb", "b.ipynb")]
    for process, answer in [started(notebook, output) for output in outputs]:
        assert answer.recv() == "done"
        process.join()
    one, two = (recorded(nbformat.read(output, 4)) for output in outputs)
    # ours may have been edited since
    assert one["heavy"] == ["seaborn", "statsmodels", "torch"] and one["ours"] == []
    assert one["pid"] != two["pid"] and one["drawn"] != two["drawn"]
    assert (one["folder"], one["absolute"], one["threads"]) == (
        str(tmp_path),
        [1, 2],
        "1",
    )
    assert one["starts"] == multiprocessing.get_start_method()


@pytest.mark.usefixtures("kernels")
def test_a_fork_that_dies_is_seen_and_one_without_a_kernel_ends_with_its_process(
    tmp_path, write_notebook
):
    dies = write_notebook(tmp_path / "01_dies.ipynb", "import os\nos._exit(3)")
    process, answer = started(dies, tmp_path / "a.ipynb")
    assert answer.recv().startswith("DeadKernelError")
    process.join()
    process, answer = started(tmp_path / "absent.ipynb", tmp_path / "b.ipynb")
    assert "absent.ipynb" in answer.recv()
    process.join()
    with pytest.raises(EOFError):  # no fork holds the other end
        answer.recv()


KILLED = """
import os, time
from multiprocessing import forkserver
from lib.apps.runner import workers
workers.forking_context()
print(forkserver._forkserver._forkserver_pid, flush=True)
time.sleep(1)
os.kill(os.getpid(), 9)
"""


def test_a_fork_server_ends_with_a_killed_run_in_the_midst_of_its_imports():
    killed = subprocess.Popen(
        [sys.executable, "-c", KILLED], cwd=ROOT, stdout=subprocess.PIPE
    )
    server = psutil.Process(int(killed.stdout.readline()))
    killed.wait()
    spent = 0.0
    with contextlib.suppress(psutil.NoSuchProcess):
        while server.status() != psutil.STATUS_ZOMBIE:
            spent = sum(server.cpu_times()[:2])
            time.sleep(0.05)
    assert spent < 2  # seconds of the processor; all its imports take about five
