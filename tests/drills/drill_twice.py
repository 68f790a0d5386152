"""Drills of what is started twice at once, on demand (make nightly): notebooks and trainings. Each
ends whole, or says in one line that another process is writing.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
from conftest import copy_project

from lib import ROOT
from lib.apps.runner.jobs import MADE
from lib.trained import smollm2

pytestmark = pytest.mark.drill


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A copy of what is committed, without what runs make."""
    return copy_project(tmp_path_factory.mktemp("twice") / "project", without=MADE)


def at_once(project: Path, count: int, *words: str) -> tuple[list[int], list[str]]:
    """Run Python with these words in so many processes at once; exit codes, and what they say."""
    environment = os.environ | {"PYTHONPATH": str(project), "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    command = [sys.executable, *words]
    started = [
        subprocess.Popen(command, cwd=project, env=environment, **pipes)
        for _ in range(count)
    ]
    said = [process.communicate()[0] for process in started]
    return [process.returncode for process in started], said


def files_in(*folders: Path) -> dict[Path, bytes]:
    paths = [path for folder in folders for path in folder.rglob("*[!k]")]  # no lock
    return {path: path.read_bytes() for path in paths if path.is_file()}


def test_two_papermills_into_one_collection(project):
    """Both notebooks find what one alone makes; who scores too late is told so."""
    models = [
        tiny.make_checkpoint(project / f"tiny-{seed}", "linear_llama", seed=seed)
        for seed in (0, 1)
    ]
    runs = [["01_score_vocabulary", "-p", "model", str(model)] for model in models]
    runs.append(["02_optimal_and_pessimal_tokens"])
    folders = [project / "data" / "scores" / "mine", project / "figures" / "mine"]
    made = []
    for count in (1, 2):
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        for name, *given in runs:
            words = ["-m", "papermill", f"notebooks/{name}.ipynb", "-", *given]
            codes, said = at_once(project, count, *words, "-p", "collection", "mine")
            late = [text for code, text in zip(codes, said, strict=True) if code]
            assert len(late) < count, said
            assert all("error: another process is writing" in text for text in late)
        made.append(files_in(*folders))
    assert made[0] == made[1] != {}


def test_a_model_that_is_put_together_twice_at_once_is_whole(project):
    """Who comes second waits, and takes the models of the first: SmolLM2 and V-Smol."""
    if not (smollm2.WHEELS / smollm2.WHEEL).is_file():
        pytest.skip(f"{smollm2.WHEEL} is not there: python -m lib.trained.smollm2")
    shutil.copytree(smollm2.WHEELS, project / smollm2.WHEELS.relative_to(ROOT))
    code = "from lib.trained import v_smol; print(v_smol.load().revision)"
    codes, said = at_once(project, 2, "-c", code)
    assert codes == [0, 0], said
    first, second = (text.split()[-1] for text in said)
    assert first == second  # a hash of what each has loaded
