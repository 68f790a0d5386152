"""No notebook needs memory that grows with the square of a vocabulary: each by papermill on three
tiny models with 30,000 shared texts.
"""

import os
import subprocess
import sys

import pytest
import tiny
from conftest import copy_project
from fewer import FEWER

from lib.apps.runner.jobs import MADE
from lib.tables import lexicons

MODELS = {"one": "linear_gemma2", "two": "qrm_llama", "three": "linear_qwen3"}
TEXTS = 30_000  # the signs of all pairs of them would take 7.2 GB
LEAST, MOST = 0.1, 4  # GB; a kernel with pandas has more than .1
pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("memory")]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a copy of the project with three models that share the commonest words."""
    folder = copy_project(tmp_path_factory.mktemp("large") / "project", without=MADE)
    common = lexicons.load("wordfreq").corrected.nlargest(TEXTS, "frequency")
    words = [f" {word}" for word in common["word"]]
    for seed, (name, kind) in enumerate(MODELS.items()):
        path = folder / "models" / name
        tiny.make_checkpoint(path, kind, seed=seed, vocabulary=words)
    return folder


def peak_of(project, number: str, **values) -> float:
    """Run a notebook by papermill, and return the peak of resident memory of its largest process,
    in GB.
    """
    [notebook] = (project / "notebooks").glob(f"{number}_*.ipynb")
    command = [sys.executable, "-m", "papermill", str(notebook), f"{number}.ipynb"]
    for name, value in values.items():
        command += ["-p", name, str(value)]
    given = {"PYTHONPATH": str(project), "OMP_NUM_THREADS": "1", "DATA_MIRROR": ""}
    process = subprocess.Popen(command, cwd=project, env=os.environ | given)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0
    return used.ru_maxrss / 1e6  # of kilobytes, the kernel's included


@pytest.mark.parametrize("name", MODELS)
def test_notebook_01_scores_each_model(project, name):
    model = str(project / "models" / name)
    assert LEAST < peak_of(project, "01", model=model, collection="large") < MOST


# not 08, which searches replies that can be typed: no merge makes these words
@pytest.mark.parametrize("number", [f"{n:02d}" for n in range(2, 12) if n != 8])
def test_a_notebook_on_30_000_shared_texts_stays_below_4_gb(project, number):
    given = FEWER.get(number, {}) | {"collection": "large"}
    assert LEAST < peak_of(project, number, **given) < MOST
