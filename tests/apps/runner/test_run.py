"""The runner: the right jobs in the right order, only what changed, and one line for whatever goes
wrong.
"""

import shutil
import signal
import subprocess
import sys
import time

import nbformat
import psutil
import pytest
from conftest import recorded

from lib import ROOT, InputError, run
from lib.apps.runner import runs
from lib.apps.runner.jobs import plan
from lib.io import lock
from lib.tables.collection import EMBEDDED, OWN
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


@pytest.fixture
def project(tmp_path, place_project_in, write_notebook):
    """A project folder of its own, with small notebooks and folders to stand for reward models."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "lib", tmp_path / "lib", ignore=ignored)
    (tmp_path / "data").mkdir()
    for name in ("reward_models.csv", "language_models.csv", "offensive.txt"):
        shutil.copy(ROOT / "data" / name, tmp_path / "data")
    for name in ("tiny-a", "broken"):
        (tmp_path / name).mkdir()
    folder = tmp_path / "notebooks"
    write_notebook(folder / "00_train.ipynb", "1 / 0", collections=["embedded"])
    write_notebook(folder / "01_score.ipynb", SCORE, parameters=PARAMETERS)
    write_notebook(folder / "02_compare.ipynb", COMPARE, needs=["01"])
    place_project_in(tmp_path)
    return tmp_path


def command(project, *words: str, **options) -> subprocess.Popen:
    """Start the command line of the project."""
    line = [sys.executable, "-m", "lib.run", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(line, cwd=project, text=True, **pipes, **options)


def test_models_are_found_by_nickname_hub_id_and_folder(tmp_path, monkeypatch):
    (tmp_path / "my-model").mkdir()
    monkeypatch.chdir(tmp_path)
    hub_id = "Ray2333/GRM-Llama3.2-3B-rewardmodel-ft"
    assert find_models(["R-Gem-2B", hub_id, "somebody/else", "my-model"]) == {
        "R-Gem-2B": "R-Gem-2B",
        "R-Lla-3B": hub_id,
        "else": "somebody/else",
        "my-model": str(tmp_path / "my-model"),
    }
    for names, words in [
        (["R-Gem-2C"], "did you mean 'R-Gem-2B'"),
        (["one/same", "two/same"], "two models are called same"),
        (["R-Gem-2B,R-Lla-3B"], "separate names by blanks"),
        (["one/a,two/b"], "separate names by blanks"),
    ]:
        with pytest.raises(InputError, match=words):
            find_models(names)
    assert study_of(find_models(["R-Gem-2B"])) == OWN
    with pytest.raises(InputError, match="'embedded' holds"):
        study_of(find_models(["somebody/A-Gem-96"]), "embedded")


def test_what_waits_for_what_in_a_first_run(project, write_notebook):
    """A notebook about one model waits for it and for no other, but for those that it names; one
    about all, for all. What most wait for starts first.
    """
    path = project / "notebooks" / "01_score.ipynb"
    first = [{"model": "A-Gem-96"}, {"model": "V-Smol-135M", "collection": "small"}]
    write_notebook(path, "1", parameters=PARAMETERS, first_run=first)
    third = project / "notebooks" / "03_search.ipynb"
    named = ["01", "F-Lla-64"]
    write_notebook(third, "1", parameters=PARAMETERS, first_run=first, needs=named)
    jobs = {job.name: job for job in plan(EMBEDDED, {})}
    trained = {name for name, job in jobs.items() if not job.notebook}
    assert len(trained) == 10
    assert next(iter(jobs)) == "small/01_score-V-Smol-135M"
    assert jobs["small/01_score-V-Smol-135M"].needs == set()
    assert jobs["embedded/01_score-A-Gem-96"].needs == {"embedded/A-Gem-96"}
    assert jobs["embedded/02_compare"].needs == trained | {"embedded/01_score-A-Gem-96"}
    of_real = {"small/01_score-V-Smol-135M", "embedded/F-Lla-64"}
    assert jobs["small/03_search-V-Smol-135M"].needs == of_real
    trainings = [name for name in jobs if name in trained]
    assert trainings[:2] == ["embedded/A-Gem-96", "embedded/F-Lla-64"]
    # nobody trains small models for a collection of one's own
    mine = plan(OWN, {"a": str(project / "tiny-a")})
    names = [job.name for job in mine]
    assert names == ["mine/01_score-a", "mine/02_compare", "mine/03_search-a"]


def test_a_failing_model_does_not_stop_another(project, kernels):
    """Through papermill, in kernels, which take this project's library and not an installed one."""
    models = [str(project / name) for name in ("broken", "tiny-a")]
    ran = command(project, "reproduce", "--models", *models)
    told, _ = ran.communicate()
    assert ran.returncode == 1, told
    broken = (
        "failed: InputError: the weights are broken; download them again (figures/mine/"
    )
    assert broken in told and "scored in collection 'mine': 1." in told
    assert "02_compare: run (figures/mine/02_compare.html)\n3 jobs, 1 failed." in told
    notebook = nbformat.read(project / "data/cache/runs/mine/02_compare.ipynb", 4)
    own = str(project / "lib" / "__init__.py")
    assert recorded(notebook) == {"models": 1, "lib": own}
    index = (project / "figures/mine/index.html").read_text()
    assert 'href="02_compare.html"' in index
    page = (project / "figures/mine/01_score-broken.html").read_text()
    assert "the weights are broken" in page


def test_the_index_reads_no_notebook_that_is_still_being_written(project, executed):
    half = project / "data/cache/runs/mine/02_compare.ipynb"
    half.parent.mkdir(parents=True)
    half.write_text("")
    for _ in range(2):  # the second time, both are unchanged
        assert runs.reproduce([str(project / "tiny-a")]) == 0
        assert "02_compare" in (project / "figures/mine/index.html").read_text()


def test_what_is_unchanged_is_not_run_again(project, executed, write_notebook):
    def reproduce() -> list[str]:
        assert runs.reproduce([str(project / "tiny-a")]) == 0
        return executed()

    both = ["mine/01_score-tiny-a", "mine/02_compare"]
    assert reproduce() == both and reproduce() == []
    code = project / "lib" / "stats" / "rankings.py"
    second = project / "notebooks" / "02_compare.ipynb"
    for change, again in [
        (lambda: code.write_text(code.read_text() + "\nMORE = 1\n"), both),
        (lambda: (project / "data" / "words.csv").write_text("a"), both),
        (lambda: (project / "tiny-a" / "config.json").write_text("{}"), both),
        (lambda: write_notebook(second, COMPARE + "1", needs=["01"]), both[1:]),
        (lambda: (project / "figures/mine/02_compare.html").unlink(), both[1:]),
        (lambda: (project / "data/scores/mine/tiny-a.parquet").unlink(), both[:1]),
    ]:
        change()
        assert reproduce() == again and reproduce() == []


def test_of_two_runs_at_once_the_second_is_refused(project):
    with (
        lock(project / "data/cache/runs/mine/run"),
        pytest.raises(InputError, match="another process is writing"),
    ):
        runs.reproduce([str(project / "tiny-a")])


WAIT = "import time\n\ndef wait(path):\n    path.touch()\n    time.sleep(600)\n"
IN_TWO_PROCESSES = """
from lib import ROOT
from lib.models.hardware import each
from waiting import wait
list(each(wait, [ROOT / "first", ROOT / "second"], 2))
"""


@pytest.mark.parametrize(
    "how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.nightly)]
)
def test_a_run_that_is_stopped_leaves_no_process_behind(
    project, write_notebook, kernels, how
):
    """Nor the kernel, nor what the kernel started; what is done is kept."""
    (project / "waiting.py").write_text(WAIT)
    second = project / "notebooks" / "02_compare.ipynb"
    write_notebook(second, IN_TWO_PROCESSES, needs=["01"])
    process = command(project, "reproduce", "--models", str(project / "tiny-a"))
    both = [project / "first", project / "second"]
    while process.poll() is None and not all(path.is_file() for path in both):
        time.sleep(0.1)
    started = psutil.Process(process.pid).children(recursive=True)
    assert len(started) >= 4  # a process, its kernel, and two that the kernel started
    process.send_signal(how)
    _, left = psutil.wait_procs(started, timeout=60)
    for one in left:
        one.kill()  # whether this fails or not, nothing is left
    assert left == [] and process.wait() == -how
    keys = [path.stem for path in (project / "data/cache/runs/mine").glob("*.key")]
    assert keys == ["01_score-tiny-a"]


@pytest.mark.parametrize(
    "raised, code, told",
    [
        (None, 0, ""),
        (InputError("it\x1b[2J\nis"), 2, "error: it⟨U+001B⟩[2J is\n"),
        (OSError(5, "Input/output error", "x"), 2, "error: [Errno 5]"),
        (ModuleNotFoundError("No module named 'torch'"), 2, "error: No module"),
    ],
)
def test_exit_codes_tell_success_from_bad_input(
    raised, code, told, monkeypatch, capsys
):
    def published():
        if raised:
            raise raised

    monkeypatch.setattr(runs, "published", published)
    assert run.main(["published"]) == code
    assert capsys.readouterr().err.startswith(told)


def test_a_command_loads_only_what_it_needs():
    code = "import sys, lib.run\nfrom lib.apps.runner import runs\nprint(*sys.modules)"
    told = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True)
    unwanted = {"torch", "matplotlib", "papermill", "nbconvert", "nbformat", "ray"}
    assert "lib.tables.registry" in told.split() and not unwanted & {*told.split()}
