"""Each notebook by plain papermill, as in a fresh clone: no make, no lib.run, no small model and no
score table.

The project is copied without what runs make. Two tiny checkpoints have the tensors of two of the
paper's models.
"""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import tiny
from conftest import copy_project
from scipy.special import logsumexp

from audit.opening import open_model as load
from lib.apps.runner.jobs import MADE
from lib.scoring.vocabulary import score_vocabulary
from lib.tables import lexicons, registry, scores
from lib.tables.prompts import read_prompts

# as S-Gem-27B-v0.2 and N-Lla-8B
MODELS = {"tiny-gemma": "linear_gemma2", "tiny-llama": "qrm_llama"}
FEWER = {"02": {"resamples": 20}, "03": {"shuffles": 40}, "07": {"resamples": 20}}
QUICK = ("02", "03", "04", "05", "06", "07", "11")
MIXED = ("02", "03", "04", "05", "06", "07", "08", "09", "10", "11")
# 00 last, because it trains the small models
SLOW = ("01", "08", "09", "10", "00")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("papermill")]


def vocabulary() -> list[str]:
    """Return 900 words that AFINN and VADER both grade, and groups of people; each with and
    without a blank.
    """
    graded = set(lexicons.load("afinn").corrected["word"]) & set(
        lexicons.load("vader").corrected["word"]
    )
    frequency = lexicons.load("wordfreq").corrected.set_index("word")["frequency"]
    words = frequency[frequency.index.isin(graded)].nlargest(900).index
    groups = [
        "women",
        "men",
        "immigrants",
        "lesbians",
        "muslims",
        "christians",
        "teachers",
        "farmers",
    ]
    common = frequency.nlargest(300).index
    return list(
        dict.fromkeys(
            text for word in [*words, *groups, *common] for text in (f" {word}", word)
        )
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """Return a copy of the project without models and scores, with the two checkpoints in its
    folder `models`.
    """
    folder = copy_project(tmp_path_factory.mktemp("fresh") / "project", without=MADE)
    for seed, (name, kind) in enumerate(MODELS.items()):
        tiny.make_checkpoint(
            folder / "models" / name, kind, seed=seed, vocabulary=vocabulary()
        )
    return folder


@pytest.fixture(scope="module")
def scored(project) -> Path:
    """Return the project with the score tables of both models in `two`, and of one model and one
    prompt in `one`.
    """
    prompts = read_prompts("greatest,best,worst")
    folder = project / "data" / "scores"
    for name in MODELS:
        model = load(str(project / "models" / name), device="cpu")
        score_vocabulary(
            model, prompts, folder / "two" / f"{name}.parquet", progress=False
        )
    table = scores.read(folder / "two" / f"{name}.parquet")
    about = table.attrs["metadata"] | {"prompts": {"greatest": prompts["greatest"]}}
    scores.write(
        table.drop(columns=["best", "worst"]), folder / "one" / f"{name}.parquet", about
    )
    return project


@pytest.fixture(scope="module")
def mixed(scored) -> Path:
    """Return the project with unlike models in the collection `mixed`.

    tiny-gemma and tiny-llama were asked three prompts, and their base is not known. R-Gem-2B has a
    base whose log-probabilities lie beside it. A model `third` was asked two prompts about 1,200
    tokens.
    """
    folder = scored / "data" / "scores"
    of_two = {name: scores.read(folder / "two" / f"{name}.parquet") for name in MODELS}
    for name, table in of_two.items():
        about = table.attrs["metadata"]
        scores.write(table, folder / "mixed" / f"{name}.parquet", about)
    gemma, llama = of_two.values()
    prompts = scores.prompt_names(gemma)
    reward_model = registry.reward_models().loc["R-Gem-2B", "hub_id"]
    about = gemma.attrs["metadata"] | {"model": reward_model, "revision": "one"}
    asked = gemma.assign(**gemma[prompts[::-1]].set_axis(prompts, axis=1))
    scores.write(asked, folder / "mixed" / "R-Gem-2B.parquet", about)
    said = gemma.assign(**(gemma[prompts] - logsumexp(gemma[prompts], axis=0)))
    base = registry.base_of("R-Gem-2B")
    about = {"model": base, "prompts": about["prompts"], "frame": "chat template"}
    scores.write(said, folder / "mixed-logprobs" / f"{base}.parquet", about)
    about = llama.attrs["metadata"] | {"model": "third", "revision": "third"}
    about["prompts"] = {name: about["prompts"][name] for name in prompts[:2]}
    few = llama.drop(columns=prompts[2:]).sample(1200, random_state=0).sort_index()
    scores.write(few, folder / "mixed" / "third.parquet", about)
    return scored


def papermill(project: Path, number: str, *options: str) -> subprocess.CompletedProcess:
    """Run papermill on a notebook of the project, as a reader types it in the project's folder."""
    [notebook] = (project / "notebooks").glob(f"{number}_*.ipynb")
    command = [
        sys.executable,
        "-m",
        "papermill",
        notebook.relative_to(project),
        f"{number}.ipynb",
        *options,
    ]
    environment = os.environ | {
        "PYTHONPATH": str(project),
        "OMP_NUM_THREADS": "1",
        "DATA_MIRROR": "",
    }
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True
    )


def parameters(**values) -> list[str]:
    """Return parameters as papermill's command line takes them."""
    return [part for name, value in values.items() for part in ("-p", name, str(value))]


def said(project: Path, number: str) -> str:
    """Return all that an executed notebook printed."""
    cells = nbformat.read(project / f"{number}.ipynb", 4).cells
    return "".join(
        output.get("text", "") for cell in cells for output in cell.get("outputs", [])
    )


def check_run(project: Path, number: str, *options: str) -> str:
    """Run a notebook by papermill, fail unless it runs to its end, and return what its cells
    printed.
    """
    done = papermill(project, number, *options)
    assert done.returncode == 0, done.stderr[-2000:]
    return said(project, number)


@pytest.mark.parametrize("number", QUICK)
def test_a_collection_of_two_models_runs_to_the_end(scored, number):
    check_run(scored, number, *parameters(collection="two", **FEWER.get(number, {})))


@pytest.mark.nightly
@pytest.mark.parametrize("number", MIXED)
def test_a_collection_of_unlike_models_runs_to_the_end(mixed, number):
    model = {}
    if number == "08":
        model["model"] = str(mixed / "models" / "tiny-gemma")
    given = parameters(collection="mixed", **model, **FEWER.get(number, {}))
    check_run(mixed, number, *given)


def test_what_is_missing_is_the_last_line_of_papermill(project):
    done = papermill(project, "02", *parameters(collection="nothing"))
    assert done.returncode == 1
    last = done.stderr.rstrip().splitlines()[-1]
    assert (
        last.startswith("error: no scores in collection 'nothing'")
        and "01_score_vocabulary.ipynb" in last
    )


@pytest.mark.nightly
@pytest.mark.parametrize(
    "number", [number for number in QUICK if number != "11"] + ["09", "10"]
)
def test_a_collection_of_one_model_and_prompt_runs_to_the_end_and_says_what_is_missing(
    scored, number
):
    shown = check_run(scored, number, *parameters(collection="one"))
    assert "This section needs" in shown or number == "09"


@pytest.mark.nightly
@pytest.mark.parametrize("place", ["02", "08", "exercises/02"])
def test_nbconvert_ends_on_the_same_line(project, place):
    """The defaults: scores that are not downloaded, a small model that is not trained, and its
    scores. It stands before the test in which notebook 00 makes some.
    """
    [notebook] = (project / "notebooks").glob(f"{place}_*.ipynb")
    command = [
        sys.executable,
        "-m",
        "jupyter",
        "nbconvert",
        "--execute",
        "--to",
        "notebook",
        "--output-dir",
        "out",
    ]
    environment = os.environ | {"PYTHONPATH": str(project), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, notebook],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and done.stderr.rstrip().splitlines()[-1].startswith(
        "error: no"
    )


@pytest.mark.nightly
@pytest.mark.parametrize("number", SLOW)
def test_every_other_notebook_runs_into_a_collection_that_is_empty_at_first(
    project, number
):
    """In the order in which a reader types them: notebook 01 scores the model that 08 to 10 then
    read.
    """
    model = (
        {"model": str(project / "models" / "tiny-gemma")}
        if number in ("01", "08")
        else {}
    )
    check_run(project, number, *parameters(collection="mine", **model))
    tables = {
        path.name for path in (project / "data" / "scores" / "mine").glob("*.parquet")
    }
    assert tables <= {"tiny-gemma.parquet"}


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name, value, words",
    [
        ("prompt", "gratest", ["no prompt 'gratest'", "greatest, best, worst"]),
        ("resamples", "few", ["resamples is 'few'", "of type int"]),
    ],
)
def test_a_mistyped_parameter_is_the_last_line(scored, name, value, words):
    done = papermill(
        scored, "02", *parameters(collection="two"), *parameters(**{name: value})
    )
    assert done.returncode == 1
    last = done.stderr.rstrip().splitlines()[-1]
    assert last.startswith("error: ") and all(word in last for word in words)
