"""Runs by Ray: what is placed where, and notebooks on two nodes of one machine, where workers are
killed.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from lib import ROOT, InputError

ray = pytest.importorskip(
    "ray",
    reason="Ray is not installed: pip install -c requirements.lock -e '.[cluster]'",
)

from ray.cluster_utils import Cluster as Nodes  # noqa: E402

from audit.cluster import commands  # noqa: E402

GB = 10**9
PATIENCE = 240  # seconds, on a machine on which others compute too
NODE = {"CPU": 16, "GPU": 8, "memory": 64 * GB}


# of 76 usable GB in twentieths; 77 GB are read layer by layer
@pytest.mark.parametrize("memory, gpus", [(10, 0.15), (77, 1)])
def test_a_model_takes_a_fraction_of_a_card_by_its_memory(memory, gpus):
    asks = {"num_cpus": 1, "num_gpus": gpus}
    assert commands.place(memory * GB, NODE, card=80 * GB) == asks


def test_on_cpus_a_model_takes_the_cores_of_a_node():
    assert commands.place(GB, NODE, 0) == {"num_cpus": 16, "memory": GB}
    assert commands.place(70 * GB, NODE, 0) == {"num_cpus": 16}  # layer by layer


def test_where_no_head_answers_one_line_says_so():
    with pytest.raises(InputError, match="^no Ray head answers at '127.0.0.1:1' "):
        commands.reproduce("127.0.0.1:1")


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A copy of what the command needs of the project, without notebooks."""
    folder = tmp_path_factory.mktemp("project")
    made = {"data": ("scores", "cache", "models")}
    for name in ("lib", "audit", "data"):
        ignored = shutil.ignore_patterns("__pycache__", *made.get(name, ()))
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    return folder


@pytest.fixture
def nodes(project, monkeypatch):
    """A head and another node, with one core each."""
    monkeypatch.setenv("PYTHONPATH", str(project))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    small = {"num_cpus": 1, "object_store_memory": 100_000_000}
    head = small | {"include_dashboard": False}
    running = Nodes(initialize_head=True, head_node_args=head)
    running.add_node(**small)
    yield running
    running.shutdown()


SLOW = """
import time
from pathlib import Path
from lib import ROOT, InputError
if "bad" in model:
    raise InputError("the weights are broken")
(ROOT / f"begun-{Path(model).name}").touch()
time.sleep(5)
"""
PARAMETERS = 'model = "x"\ncollection = "mine"'


def running_jobs() -> list[psutil.Process]:
    """Return the processes of Ray in which jobs run, of nodes that this process has started."""
    children = psutil.Process().children(recursive=True)
    return [one for one in children if "ray::carry_out" in "".join(one.cmdline())]


def test_killed_workers_begin_again_and_a_failing_model_fails_alone(
    project, checkpoint, nodes, write_notebook
):
    place = project / "models"
    models = [
        str(shutil.copytree(checkpoint("linear_llama"), place / n))
        for n in ("good", "bad")
    ]
    write_notebook(project / "notebooks/01_score.ipynb", SLOW, parameters=PARAMETERS)
    write_notebook(project / "notebooks/02_all.ipynb", "1")
    asked = [
        "reproduce",
        "--collection",
        "ours",
        "--on",
        nodes.address,
        "--models",
        *models,
    ]
    command = [sys.executable, "-m", "audit", *asked]
    process = subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True)
    begin = time.monotonic()
    while not (project / "begun-good").is_file() and process.poll() is None:
        assert time.monotonic() - begin < PATIENCE
        time.sleep(0.1)
    for one in running_jobs():
        os.kill(one.pid, signal.SIGKILL)
    told, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1, told
    assert "ours/01_score-bad: failed: InputError: the weights are broken" in told
    assert "ours/01_score-good: run" in told and "3 jobs, 1 failed." in told
    assert (project / "figures" / "ours" / "02_all.html").is_file()
    again = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert "ours/01_score-good: unchanged" in again.stdout
