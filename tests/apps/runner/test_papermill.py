"""Each notebook by plain papermill, as in a fresh clone: no make, no lib.run, no scores of
small models; and twice in one kernel.

The project is copied without what runs make. Two tiny checkpoints have the tensors of two of the
paper's models.
"""

import contextlib
import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
from conftest import copy_project, link_or_copy
from fewer import FEWER
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

from audit.opening import open_model
from lib import ROOT
from lib.apps.runner.jobs import MADE, find_notebooks
from lib.scoring.vocabulary import score_vocabulary
from lib.tables import lexicons
from lib.tables.prompts import read_prompts
from lib.trained import saving, states

# as S-Gem-27B-v0.2 and N-Lla-8B
MODELS = {"tiny-gemma": "linear_gemma2", "tiny-llama": "qrm_llama"}
GROUPS = ["women", "men", "immigrants", "lesbians", "muslims", "christians", "teachers"]
NUMBERS = [path.name[:2] for path in find_notebooks(ROOT / "notebooks")]
ALONE = {"OMP_NUM_THREADS": "1", "DATA_MIRROR": "", "TQDM_DISABLE": "1"}
# parameters of a first run that a second one in the same kernel must not see
OTHERS = {"collection": "one", "prompt": "best", "prompts": "worst", "blur": False}


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
    """Return a copy of the project with two checkpoints and their score tables, and a collection of
    one of these.
    """
    folder = copy_project(tmp_path_factory.mktemp("fresh") / "project", without=MADE)
    for seed, (name, kind) in enumerate(MODELS.items()):
        place, table = (
            folder / "models" / name,
            folder / f"data/scores/two/{name}.parquet",
        )
        tiny.make_checkpoint(place, kind, seed=seed, vocabulary=vocabulary())
        model = open_model(str(place), device="cpu")
        score_vocabulary(model, read_prompts(None), table, progress=False)
    # notebooks 00 and 12 would make them for minutes
    for part in (saving.TRAINED, states.KEPT):
        if part.is_dir():
            copy = folder / part.relative_to(ROOT)
            shutil.copytree(part, copy, copy_function=link_or_copy)
    one = table.parents[1] / "one"
    one.mkdir()
    shutil.copy(table, one)
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
    env = os.environ | ALONE | {"PYTHONPATH": str(project)}
    return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True)


def given_to(project: Path, number: str) -> dict:
    """The parameters with which a notebook runs on the collection of two models."""
    given = {"collection": "two", **FEWER.get(number, {})}
    if number in ("01", "08"):
        given["model"] = str(project / "models" / "tiny-gemma")
    return given


@pytest.mark.nightly
@pytest.mark.parametrize("number", NUMBERS)
def test_a_collection_of_two_models_runs_to_the_end(project, number):
    done = papermill(project, number, **given_to(project, number))
    assert done.returncode == 0, done.stderr[-2000:]


def shown_in_one_kernel(project: Path, number: str, *runs: dict) -> list[list]:
    """What the cells show in each of these runs, one after the other in one kernel, with parameters
    of their own. As in JupyterLab, a run ends at its first error.
    """
    [path] = (project / "notebooks").glob(f"{number}_*.ipynb")
    about = {"metadata": {"path": str(project)}}
    client = NotebookClient(
        load_notebook_node(str(path)), resources=about, coalesce_streams=True
    )
    shown = []
    with client.setup_kernel(env=os.environ | ALONE | {"PYTHONPATH": str(project)}):
        for values in runs:
            client.nb = parameterize_notebook(load_notebook_node(str(path)), values)
            with contextlib.suppress(CellExecutionError):
                for index, cell in enumerate(client.nb.cells):
                    client.execute_cell(cell, index)
            shown.append([cell.get("outputs", []) for cell in client.nb.cells])
            for output in itertools.chain(*shown[-1]):
                output.pop("execution_count", None)
                if "text" in output:  # two runs take other times
                    output["text"] = re.sub(r"\d[\d.]* s\b", "", output["text"])
                if "seconds" in output.get("data", {}).get("text/plain", ""):
                    output.clear()
    return shown


@pytest.mark.nightly
@pytest.mark.parametrize("number", NUMBERS)
def test_a_second_run_in_one_kernel_shows_what_a_fresh_one_shows(
    project, number, kernels
):
    """The first run has other parameters, and only one model, so that it may end early."""
    given = given_to(project, number)
    [fresh] = shown_in_one_kernel(project, number, given)
    # on these models, 10 ends early, in a sentence
    early = {"SystemExit"} if number == "10" else set()
    assert {one.get("ename") for one in itertools.chain(*fresh)} <= {None} | early
    other, again = shown_in_one_kernel(project, number, given | OTHERS, given)
    assert again == fresh != other


@pytest.mark.nightly
def test_what_is_missing_is_the_last_line_of_papermill(project):
    done = papermill(project, "02", collection="nothing")
    last = done.stderr.rstrip().splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith("error: no scores in collection 'nothing'")
