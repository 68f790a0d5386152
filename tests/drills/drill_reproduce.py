"""Drills of `reproduce`, on demand (make drills): killed outright, it leaves nothing running and
ends up the same.
"""

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
import tiny
from PIL import Image

from lib import ROOT
from lib.tables import scores

pytestmark = pytest.mark.drill
# each model scored, then both compared
MODELS, NOTEBOOKS = ("tiny-a", "tiny-b"), ("01_", "02_")
# in the environment of a run and of all that it starts: whose they are
MARK = "DRILL_OF"
TO_END = 10  # seconds that what a killed run has started may take to notice


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("models")
    return [
        str(tiny.make_checkpoint(folder / name, "linear_llama", seed=k))
        for k, name in enumerate(MODELS)
    ]


def project_in(folder: Path) -> Path:
    """A copy of what `reproduce` needs of the project, with two of its notebooks."""
    shutil.copytree(
        ROOT / "lib", folder / "lib", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(
        ROOT / "data",
        folder / "data",
        ignore=shutil.ignore_patterns("scores", "cache", "models"),
    )
    shutil.copy(ROOT / "requirements.lock", folder)
    (folder / "notebooks").mkdir()
    for start in NOTEBOOKS:
        [notebook] = (ROOT / "notebooks").glob(f"{start}*.ipynb")
        shutil.copy(notebook, folder / "notebooks")
    return folder


def started(project: Path, models: list[str]) -> subprocess.Popen:
    command = [
        sys.executable,
        "-m",
        "lib.run",
        "reproduce",
        "--models",
        *models,
        "--collection",
        "mine",
    ]
    environment = os.environ | {"PYTHONPATH": str(project), MARK: str(project)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, cwd=project, env=environment, text=True, **pipes)


def running_of(project: Path) -> list[str]:
    """The command lines of processes that a run in this project has started, directly or not,
    and that still run.
    """
    found = []
    for process in psutil.process_iter():
        try:
            if (
                process.environ().get(MARK) == str(project)
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(" ".join(process.cmdline())[:200])
        except psutil.Error:  # it has ended, or is somebody else's
            continue
    return found


def made_in(project: Path) -> dict[str, bytes]:
    """The figures and tables of a project, each looked at: there is no half one."""
    files = [
        path
        for path in (project / "figures" / "mine").rglob("*")
        if path.suffix in (".png", ".csv", ".html")
    ]
    for path in files:
        if path.suffix == ".png":
            Image.open(path).load()
        elif path.suffix == ".html":
            assert path.read_text().rstrip().endswith("</html>"), path
        else:
            assert len(pd.read_csv(path)), path
    return {path.name: path.read_bytes() for path in files if path.suffix != ".html"}


def tables_in(project: Path) -> dict[str, pd.DataFrame]:
    return {
        path.stem: scores.read(path)
        for path in (project / "data" / "scores" / "mine").glob("*.parquet")
    }


def test_killed_outright_at_any_moment(models, tmp_path_factory):
    undisturbed, project = (
        project_in(tmp_path_factory.mktemp(name)) for name in ("undisturbed", "killed")
    )
    begin = time.monotonic()
    first = started(undisturbed, models)
    told, _ = first.communicate()
    assert first.returncode == 0 and "3 jobs, 0 failed" in told, told
    seconds, moments, most = time.monotonic() - begin, random.Random(0), 0
    for part in range(2):  # early and late: within a notebook each time
        process = started(project, models)
        time.sleep(seconds * (part + moments.random()) / 2.3)
        most = max(most, len(running_of(project)))
        process.kill()
        process.communicate()
        wait_until(lambda: not running_of(project))
        assert running_of(project) == []
        assert made_in(project).keys() <= made_in(undisturbed).keys() and len(
            tables_in(project)
        ) <= len(MODELS)
    # a run, the process of a notebook, and its kernel: there was something to be left behind
    assert most >= 3
    last = started(project, models)
    told, _ = last.communicate()
    assert last.returncode == 0 and "failed" not in told, told
    assert running_of(project) == []
    assert made_in(project) == made_in(undisturbed)
    assert tables_in(project).keys() == set(MODELS)
    for name, table in tables_in(undisturbed).items():
        pd.testing.assert_frame_equal(tables_in(project)[name], table, check_exact=True)


def test_of_two_at_once_one_runs_and_the_other_says_so(models, tmp_path_factory):
    alone, shared = (
        project_in(tmp_path_factory.mktemp(name)) for name in ("alone", "shared")
    )
    one = started(alone, models)
    two = [started(shared, models) for _ in range(2)]
    told = {process.communicate()[0]: process.returncode for process in two}
    assert one.communicate() and one.returncode == 0
    (ran,) = (text for text, code in told.items() if code == 0)
    (refused,) = (text for text, code in told.items() if code == 2)
    assert "3 jobs, 0 failed" in ran, ran
    assert len(refused.strip().splitlines()) == 1 and "is writing" in refused, refused
    assert made_in(shared) == made_in(alone)
    for name, table in tables_in(alone).items():
        pd.testing.assert_frame_equal(tables_in(shared)[name], table, check_exact=True)


def wait_until(condition) -> None:
    begin = time.monotonic()
    while not condition() and time.monotonic() - begin < TO_END:
        time.sleep(0.2)
