"""Each notebook by plain papermill, as in a fresh clone: no make, no lib.run, no small model.

The project is copied without what runs make. Two tiny checkpoints have the tensors of two of the
paper's models.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
from conftest import copy_project

from audit.opening import open_model
from lib.apps.runner.jobs import MADE
from lib.scoring.vocabulary import score_vocabulary
from lib.tables import lexicons
from lib.tables.prompts import read_prompts

# as S-Gem-27B-v0.2 and N-Lla-8B
MODELS = {"tiny-gemma": "linear_gemma2", "tiny-llama": "qrm_llama"}
FEWER = {"02": {"resamples": 20}, "03": {"shuffles": 40}, "07": {"resamples": 20}}
GROUPS = ["women", "men", "immigrants", "lesbians", "muslims", "christians", "teachers"]
NIGHTLY = [f"{number:02d}" for number in (1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 0)]


def vocabulary() -> list[str]:
    """Return 900 words that AFINN and VADER both grade, and groups of people; each with and
    without a blank.
    """
    afinn, vader = (
        lexicons.load(name).corrected["word"] for name in ("afinn", "vader")
    )
    frequency = lexicons.load("wordfreq").corrected.set_index("word")["frequency"]
    graded = frequency[frequency.index.isin({*afinn} & {*vader})]
    words = [*graded.nlargest(900).index, *GROUPS, *frequency.nlargest(300).index]
    return list(dict.fromkeys(text for word in words for text in (f" {word}", word)))


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """Return a copy of the project with two checkpoints and their score tables."""
    folder = copy_project(tmp_path_factory.mktemp("fresh") / "project", without=MADE)
    for seed, (name, kind) in enumerate(MODELS.items()):
        place, table = (
            folder / "models" / name,
            folder / f"data/scores/two/{name}.parquet",
        )
        tiny.make_checkpoint(place, kind, seed=seed, vocabulary=vocabulary())
        model = open_model(str(place), device="cpu")
        score_vocabulary(model, read_prompts(None), table, progress=False)
    return folder


def papermill(project: Path, number: str, **values) -> subprocess.CompletedProcess:
    """Run papermill on a notebook of the project, as a reader types it in the project's folder."""
    [notebook] = (project / "notebooks").glob(f"{number}_*.ipynb")
    given = [
        part for name, value in values.items() for part in ("-p", name, str(value))
    ]
    command = [
        sys.executable,
        "-m",
        "papermill",
        str(notebook),
        f"{number}.ipynb",
        *given,
    ]
    alone = {"PYTHONPATH": str(project), "OMP_NUM_THREADS": "1", "DATA_MIRROR": ""}
    return subprocess.run(
        command, cwd=project, env=os.environ | alone, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    "number",
    ["04", *(pytest.param(each, marks=pytest.mark.nightly) for each in NIGHTLY)],
)
def test_a_collection_of_two_models_runs_to_the_end(project, number):
    given = {"collection": "two", **FEWER.get(number, {})}
    if number in ("01", "08"):
        given["model"] = str(project / "models" / "tiny-gemma")
    done = papermill(project, number, **given)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.nightly
def test_what_is_missing_is_the_last_line_of_papermill(project):
    done = papermill(project, "02", collection="nothing")
    last = done.stderr.rstrip().splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith("error: no scores in collection 'nothing'")
