"""The runner: the right jobs in the right order, only what changed, and one line for whatever goes
wrong.
"""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from conftest import recorded
from nbformat import v4

from lib import ROOT, InputError, run
from lib.apps.runner import files, runs
from lib.apps.runner.jobs import Job, plan
from lib.io import lock
from lib.tables.collection import EMBEDDED, OWN, Collection
from lib.tables.registry import find_models, study_of

SCORE = """
import numpy as np, pandas as pd
from pathlib import Path
from lib import InputError
from lib.tables import scores
from lib.tables.collection import Collection
name = Path(model).name
if name == "broken":
    raise InputError("the weights are broken; download them again")
texts = [f"word{i}" for i in range(9)] + ["<script>"]
table = pd.DataFrame({"token_id": np.arange(10, dtype=np.int32), "token": texts, "text": texts,
                      "reply_ids": [[i] for i in range(10)],
                      "input_group": np.arange(10, dtype=np.int32),
                      "greatest": np.arange(10, dtype=np.float32)})
about = {"prompts": {"greatest": "What is best?"}}
path = scores.path_of(Collection(collection), name)
if not path.is_file():
    scores.write(table, path, about)
"""
COMPARE = """
import lib
from lib.show import display
from lib.tables import scores
from lib.tables.collection import Collection
display.record(models=len(scores.read_all(Collection(collection))), lib=lib.__file__)
"""
PARAMETERS = 'collection = "embedded"\nmodel = "A-Gem-48"'
SCORED = ["mine/01_score-broken", "mine/01_score-tiny-a", "mine/02_compare"]


@pytest.fixture
def project(tmp_path, place_project_in, write_notebook):
    """A project folder of its own, with small notebooks and folders to stand for reward models."""
    shutil.copytree(
        ROOT / "lib", tmp_path / "lib", ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "data").mkdir()
    for name in ("reward_models.csv", "language_models.csv", "offensive.txt"):
        shutil.copy(ROOT / "data" / name, tmp_path / "data")
    (tmp_path / "requirements.lock").touch()
    for name in ("tiny-a", "tiny-b", "broken"):
        (tmp_path / name).mkdir()
    folder = tmp_path / "notebooks"
    write_notebook(folder / "00_train.ipynb", "1 / 0", trains=True)
    write_notebook(folder / "01_score.ipynb", SCORE, parameters=PARAMETERS)
    write_notebook(folder / "02_compare.ipynb", COMPARE, needs=["01"])
    place_project_in(tmp_path)
    return tmp_path


def reproduce(project, *models, collection=None):
    return runs.reproduce([str(project / name) for name in models], collection)


# --- models and jobs ------------------------------------------------------------------------------


def test_models_are_found_by_nickname_hub_id_and_folder(tmp_path, monkeypatch):
    (tmp_path / "my-model").mkdir()
    monkeypatch.chdir(tmp_path)
    hub_id = "Ray2333/GRM-Llama3.2-3B-rewardmodel-ft"
    assert find_models(["R-Gem-2B", hub_id, "somebody/else", "my-model"]) == {
        "R-Gem-2B": "R-Gem-2B",
        "R-Lla-3B": hub_id,
        "else": "somebody/else",
        # whole, because notebooks run in a folder of their own
        "my-model": str(tmp_path / "my-model"),
    }


def test_unknown_and_ambiguous_models_are_refused():
    with pytest.raises(InputError, match="'R-Gem-2C' .did you mean 'R-Gem-2B'"):
        find_models(["R-Gem-2C"])
    with pytest.raises(InputError, match="unknown reward model 'nowhere'; give"):
        find_models(["nowhere"])
    with pytest.raises(InputError, match="two models are called same"):
        find_models(["one/same", "two/same"])


def test_other_models_do_not_go_into_the_embedded_collection():
    assert study_of(find_models(["R-Gem-2B"])) == OWN
    assert study_of(find_models([])) == EMBEDDED
    for foreign in ("somebody/A-Gem-96", "R-Gem-2B"):
        with pytest.raises(InputError, match="'embedded' holds models with planted"):
            study_of(find_models([foreign, "A-Lla-64"]), "embedded")


def test_what_waits_for_what_in_a_first_run(project, write_notebook):
    """A notebook about one model waits for it and for no other; one about all, for all."""
    first = [{"model": "A-Gem-96"}]
    for number, needs in (("01", []), ("08", ["01"])):
        path = project / "notebooks" / f"{number}_x.ipynb"
        given = {"first_run": first, "needs": needs}
        write_notebook(path, "1", parameters=PARAMETERS, **given)
    (project / "notebooks" / "01_score.ipynb").unlink()
    jobs = plan(project / "notebooks", EMBEDDED, {})
    of_model = {job.name: job.needs for job in jobs if job.notebook and job.model}
    model = {"embedded/A-Gem-96": True}
    assert of_model == {
        "embedded/01_x-A-Gem-96": model,
        "embedded/08_x-A-Gem-96": model | {"embedded/01_x-A-Gem-96": True},
    }
    [compare] = [job for job in jobs if job.name == "embedded/02_compare"]
    trained = [job.name for job in jobs if not job.notebook]
    # the failure of one model does not stop it
    assert compare.needs == dict.fromkeys([*trained, "embedded/01_x-A-Gem-96"], False)
    assert len(trained) == 10
    # nobody trains small models for a collection of one's own
    mine = plan(project / "notebooks", OWN, {"a": str(project / "tiny-a")})
    assert [job.name for job in mine] == [
        "mine/01_x-tiny-a",
        "mine/08_x-tiny-a",
        "mine/02_compare",
    ]


# --- runs -----------------------------------------------------------------------------------------


def command(project: Path, *words: str) -> subprocess.CompletedProcess:
    """Run the command line of the project."""
    return subprocess.run(
        [sys.executable, "-m", "lib.run", *words],
        cwd=project,
        capture_output=True,
        text=True,
    )


def test_a_failing_model_does_not_stop_the_others(project, kernels):
    """Through papermill, in kernels, which take this project's library and not an installed one."""
    models = [str(project / name) for name in ("tiny-a", "broken", "tiny-b")]
    ran = command(project, "reproduce", "--models", *models)
    assert ran.returncode == 1, ran.stderr
    told = ran.stdout
    broken = "01_score-broken: failed: the weights are broken; download them again\n"
    assert broken in told and "2 reward models scored in collection 'mine'" in told
    assert "[4/4] mine/02_compare: run\n4 jobs, 1 failed. Look at figures/mine/" in told
    notebook = nbformat.read(project / "data/cache/runs/mine/02_compare.ipynb", 4)
    own = str(project / "lib" / "__init__.py")
    assert recorded(notebook) == {"models": 2, "lib": own}
    page = (project / "figures/mine/index.html").read_text()
    assert "failed: the weights are broken" in page and "This run goes on" not in page
    assert str(project) not in (project / "figures/mine/02_compare.html").read_text()


def test_what_is_unchanged_is_not_run_again(project, executed, write_notebook, capsys):
    assert reproduce(project, "tiny-a") == 0
    both = ["mine/01_score-tiny-a", "mine/02_compare"]
    assert executed() == both
    assert reproduce(project, "tiny-a") == 0 and executed() == []
    assert "[2/2] mine/02_compare: unchanged" in capsys.readouterr().out
    code = project / "lib" / "stats" / "rankings.py"
    first = project / "notebooks" / "01_score.ipynb"
    second = project / "notebooks" / "02_compare.ipynb"
    figures, scored = project / "figures/mine", project / "data/scores/mine"
    for change, again in [
        (lambda: code.write_text(code.read_text() + "\n# a remark\n"), []),
        (lambda: code.write_text(code.read_text() + "\nMORE = 1\n"), both),
        (lambda: (project / "data" / "words.csv").write_text("a"), both),
        (lambda: (project / "tiny-a" / "config.json").write_text("{}"), both),
        (lambda: write_notebook(second, COMPARE + "1", needs=["01"]), both[1:]),
        (lambda: (figures / "02_compare.html").write_text(""), both[1:]),
        # a notebook is as new as those that it needs
        (lambda: write_notebook(first, SCORE + "1", parameters=PARAMETERS), both),
        # it makes the same table again
        (lambda: (scored / "tiny-a.parquet").unlink(), both[:1]),
    ]:
        change()
        assert reproduce(project, "tiny-a") == 0
        assert executed() == again
        assert reproduce(project, "tiny-a") == 0 and executed() == []


def test_later_notebooks_skip_a_model_that_failed(
    project, executed, write_notebook, capsys
):
    path = project / "notebooks" / "08_search.ipynb"
    write_notebook(path, "1", parameters=PARAMETERS, needs=["01"])
    assert reproduce(project, "tiny-a", "broken") == 2
    assert executed() == [*SCORED, "mine/08_search-tiny-a"]
    told = capsys.readouterr().out
    assert "08_search-broken: skipped: mine/01_score-broken failed" in told
    # it has no key, so it is run again
    reproduce(project, "tiny-a", "broken")
    assert executed() == ["mine/01_score-broken"]


def test_two_runs_of_one_collection_exclude_each_other(project, executed):
    with lock(project / "data/cache/runs/mine/run"):
        with pytest.raises(InputError, match="is writing .*run"):
            reproduce(project, "tiny-a")
        assert reproduce(project, "tiny-a", collection="another") == 0
    assert executed() == ["another/01_score-tiny-a", "another/02_compare"]


def die(job: Job) -> str:
    sys.exit(3) if job.model == "none" else None
    import os

    return os._exit(3) if job.model == "dies" else ""


def test_a_process_that_dies_is_a_failed_job_and_the_others_go_on(tmp_path):
    pool = runs.Pool(2)
    ended = [pool.submit(die, Job(OWN, model=name)) for name in ("dies", "a", "b")]
    assert [each.exception() is None for each in ended] == [False, True, True]
    assert len(pool.idle) <= 2
    pool.stop()


WAIT = "import time\n\ndef wait(path):\n    path.touch()\n    time.sleep(600)\n"
IN_TWO_PROCESSES = """
from lib import ROOT
from lib.models.hardware import each
from waiting import wait
list(each(wait, [ROOT / "first", ROOT / "second"], 2))
"""


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_a_run_that_is_stopped_leaves_no_process_behind(
    project, write_notebook, kernels, how
):
    """Nor the kernel, nor what the kernel started; what is done is kept. SIGTERM is what Ctrl-C
    does too.
    """
    (project / "waiting.py").write_text(WAIT)
    write_notebook(
        project / "notebooks" / "02_compare.ipynb", IN_TWO_PROCESSES, needs=["01"]
    )
    words = [sys.executable, "-m", "lib.run", "reproduce", "--models"]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen(
        [*words, str(project / "tiny-a")], cwd=project, text=True, **pipes
    )
    both = [project / "first", project / "second"]
    while process.poll() is None and not all(path.is_file() for path in both):
        time.sleep(0.1)
    started = psutil.Process(process.pid).children(recursive=True)
    assert len(started) >= 4  # a process, its kernel, and two that the kernel started
    getattr(process, how)()
    told = process.communicate(timeout=60)[1]
    _, left = psutil.wait_procs(started, timeout=60)
    for one in left:
        one.kill()  # whether this fails or not, nothing is left
    assert left == []
    keys = [path.stem for path in (project / "data/cache/runs/mine").glob("*.key")]
    assert keys == ["01_score-tiny-a"]
    if how == "terminate":
        assert process.returncode == 130
        assert "\ninterrupted; the same command goes on from here\n" in told


# --- committed notebooks --------------------------------------------------------------------------


def test_committed_notebooks_are_refreshed_in_place(project, write_notebook, kernels):
    folder = project / "notebooks"
    for path in folder.glob("*.ipynb"):
        path.unlink()
    source = (
        "import sys\nprint('50%\\r100%', file=sys.stderr)\nprint(collection)\n1 + 1"
    )
    good = write_notebook(folder / "01_good.ipynb", source)
    bad = write_notebook(folder / "02_bad.ipynb", "1 / 0")
    exercise = write_notebook(
        folder / "exercises/01_good.ipynb", "2", parameters="x = 1"
    )
    before, bad_bytes = nbformat.read(good, 4), bad.read_bytes()
    ran = command(project, "notebooks")
    assert ran.returncode == 1, ran.stderr
    assert "02_bad: failed: ZeroDivisionError: division by zero" in ran.stdout
    assert bad.read_bytes() == bad_bytes
    after = nbformat.read(good, 4)
    assert [cell.id for cell in after.cells] == [cell.id for cell in before.cells]
    assert [cell.metadata for cell in after.cells] == [{}, {"tags": ["parameters"]}, {}]
    shown = [
        each.get("text") or each.data["text/plain"] for each in after.cells[2].outputs
    ]
    assert shown == ["embedded\n", "2"]
    assert nbformat.read(exercise, 4).cells[2].outputs
    once = good.read_bytes()
    assert command(project, "notebooks", "01").returncode == 0
    assert good.read_bytes() == once  # nothing in it depends on when it ran
    with pytest.raises(InputError, match="no notebook starts with '99'; there are 01_"):
        runs.refresh(["01", "99"])


def test_the_opening_gives_title_and_question(tmp_path):
    text = (
        "# Framing effects\n\n*Section 3.* **The question:** do words\nof praise `spread` more? "
        "We will see. Or not?"
    )
    path = tmp_path / "a.ipynb"
    nbformat.write(v4.new_notebook(cells=[v4.new_markdown_cell(text)]), path)
    expected = ("Framing effects", "do words of praise `spread` more?")
    assert files.opening(path) == expected
    path.write_text('{"cells": [')
    assert files.highlights_of(path) == files.highlights_of(Path("absent")) == ("", {})


# --- command line ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raised, code, told",
    [
        (3, 1, ""),
        (0, 0, ""),
        (OSError(5, "Input/output error", "x"), 2, "error: [Errno 5]"),
        (ModuleNotFoundError("no", name="torch"), 2, "error: torch is not installed; "),
        (ModuleNotFoundError("no", name="lib.x"), 1, "Traceback"),
        (ValueError("a mistake"), 1, "Traceback"),
        (KeyboardInterrupt(), 130, "\ninterrupted"),
    ],
)
def test_exit_codes_tell_failure_from_bad_input(
    raised, code, told, monkeypatch, capsys
):
    def command(**options):
        if isinstance(raised, BaseException):
            raise raised
        return raised

    monkeypatch.setattr(runs, "reproduce", command)
    assert run.main(["reproduce"]) == code
    assert capsys.readouterr().err.startswith(told)


def test_a_command_loads_only_what_it_needs():
    code = "import sys, lib.run\nfrom lib.apps.runner import runs\nprint(*sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    ).stdout
    loaded = set(told.split())
    assert "lib.tables.registry" in loaded
    assert not loaded & {"torch", "matplotlib", "papermill", "nbconvert", "ray"}


def test_each_collection_has_names_of_its_own():
    jobs = [Job(Collection(name), Path("01_x.ipynb"), "a") for name in ("one", "two")]
    assert len({job.name for job in jobs} | {job.page for job in jobs}) == 4
