"""Drills of `reproduce`, on demand (make nightly): killed outright, it leaves nothing running and
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

from lib import ROOT
from lib.tables import scores

pytestmark = pytest.mark.drill
# in the environment of a run and of all that it starts: whose they are
MARK = "DRILL_OF"
TO_END = 10  # seconds that what a killed run has started may take to notice


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("models")
    names = ("tiny-a", "tiny-b")
    made = [
        tiny.make_checkpoint(folder / n, "linear_llama", seed=seed)
        for seed, n in enumerate(names)
    ]
    return [str(path) for path in made]


def project_in(folder: Path) -> Path:
    """A copy of what `reproduce` needs of the project, with two of its notebooks: each model is
    scored, then both are compared.
    """
    for name, made in (("lib", ()), ("data", ("scores", "cache", "models"))):
        ignored = shutil.ignore_patterns("__pycache__", *made)
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    (folder / "notebooks").mkdir()
    for path in (ROOT / "notebooks").glob("0[12]_*.ipynb"):
        shutil.copy(path, folder / "notebooks")
    return folder


def started(project: Path, models: list[str]) -> subprocess.Popen:
    words = ["-m", "lib.run", "reproduce", "--models", *models, "--collection", "mine"]
    environment = os.environ | {"PYTHONPATH": str(project), MARK: str(project)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(
        [sys.executable, *words], cwd=project, env=environment, **pipes
    )


def running_of(project: Path) -> list[str]:
    """The processes that a run in this project has started, directly or not, and that still run."""
    found = []
    for process in psutil.process_iter():
        try:
            is_its = process.environ().get(MARK) == str(project)
            if is_its and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline())[:200])
        except psutil.Error:  # it has ended, or is somebody else's
            continue
    return found


def made_in(project: Path) -> dict[str, bytes]:
    """The figures and tables of a project."""
    paths = (project / "figures" / "mine").rglob("*")
    return {
        path.name: path.read_bytes()
        for path in paths
        if path.suffix in (".png", ".csv")
    }


def tables_in(project: Path) -> dict[str, pd.DataFrame]:
    paths = (project / "data" / "scores" / "mine").glob("*.parquet")
    return {path.stem: scores.read(path) for path in paths}


def assert_same(project: Path, undisturbed: Path) -> None:
    assert made_in(project) == made_in(undisturbed)
    tables = tables_in(project)
    assert tables.keys() == {"tiny-a", "tiny-b"}
    for name, table in tables_in(undisturbed).items():
        pd.testing.assert_frame_equal(tables[name], table, check_exact=True)


def test_killed_outright_at_any_moment_and_of_two_at_once_one_runs(
    models, tmp_path_factory
):
    names = ("undisturbed", "killed", "shared")
    undisturbed, project, shared = (
        project_in(tmp_path_factory.mktemp(name)) for name in names
    )
    begin = time.monotonic()
    told, _ = started(undisturbed, models).communicate()
    assert "3 jobs, 0 failed" in told, told
    seconds, moments, most = time.monotonic() - begin, random.Random(0), 0
    for part in range(2):  # early and late: within a notebook each time
        process = started(project, models)
        time.sleep(seconds * (part + moments.random()) / 2.3)
        most = max(most, len(running_of(project)))
        process.kill()
        process.communicate()
        begin = time.monotonic()
        while running_of(project) and time.monotonic() - begin < TO_END:
            time.sleep(0.2)
        assert running_of(project) == []
        assert made_in(project).keys() <= made_in(undisturbed).keys()
    # a run, the process of a notebook, and its kernel: there was something to be left behind
    assert most >= 3
    told, _ = started(project, models).communicate()
    assert "3 jobs, 0 failed" in told, told
    assert_same(project, undisturbed)
    two = [started(shared, models) for _ in range(2)]
    told = {process.communicate()[0]: process.returncode for process in two}
    assert sorted(told.values()) == [0, 2]
    assert [text for text, code in told.items() if code == 2 and "is writing" in text]
    assert_same(shared, undisturbed)
