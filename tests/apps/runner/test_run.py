"""The runner: the right notebooks for the right models, only what changed, and one line for
whatever goes wrong.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pandas as pd
import psutil
import pytest
from conftest import recorded
from nbformat import v4
from papermill.exceptions import PapermillExecutionError

from lib import ROOT, InputError, io, run
from lib.apps.runner import files, listing, pages, runs
from lib.apps.runner.files import KERNEL, cause_of, opening
from lib.apps.runner.jobs import REAL, Declared, Job, first_run_jobs, plan
from lib.apps.runner.runs import next_job, run_all
from lib.apps.runner.workers import Running
from lib.io import lock
from lib.show import terminal
from lib.tables import scores
from lib.tables.collection import EMBEDDED, FIRST_RUN, OWN, Collection
from lib.tables.registry import EARLY, find_models, study_of

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
scores.write(table, scores.path_of(Collection(collection), name), about)
"""
COMPARE = """
from lib import ROOT
from lib.io import replacing
from lib.show import display
from lib.tables import scores
from lib.tables.collection import Collection
tables = scores.read_all(Collection(collection))
for file, content in [(Collection(collection).figures / "bar.svg", "<svg/>"),
                      (Collection(collection).claims / "02.csv", "claims")]:
    with replacing(file) as part:
        part.write_text(content)
display.record(models=len(tables))
"""


@pytest.fixture
def project(tmp_path, place_project_in, write_notebook):
    """A project folder of its own, with three small notebooks and three folders to stand for
    reward models.
    """
    shutil.copytree(
        ROOT / "lib", tmp_path / "lib", ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "data").mkdir()
    shutil.copy(ROOT / "data" / "reward_models.csv", tmp_path / "data")
    for name in ("tiny-a", "tiny-b", "broken", "figures/mine"):
        (tmp_path / name).mkdir(parents=True)
    train = {"needs": [], "after": [], "reads": ["trained"], "trains": True}
    write_notebook(tmp_path / "notebooks" / "00_train.ipynb", "1 / 0", **train)
    parameters = 'collection = "embedded"\nmodel = "tiny-a"'
    write_notebook(
        tmp_path / "notebooks" / "01_score.ipynb", SCORE, parameters=parameters
    )
    write_notebook(tmp_path / "notebooks" / "02_compare.ipynb", COMPARE)
    place_project_in(tmp_path)
    return tmp_path


@pytest.fixture
def executed(project, executing_in_forks):
    """Executes notebooks without kernels, which is quick; says what was executed since it was
    last asked, sorted.
    """
    return lambda: sorted(executing_in_forks())


def reproduce(project, *models, collection=None):
    return runs.reproduce(
        [str(project / name) for name in models], collection, project / "notebooks"
    )


# --- notebooks ------------------------------------------------------------------------------------


def test_the_opening_gives_title_and_question(tmp_path):
    text = (
        "# Framing effects\n\n*Section 3.* **The question:** do words\nof praise `spread` more? "
        "We will see. Or not?"
    )
    path = tmp_path / "a.ipynb"
    nbformat.write(v4.new_notebook(cells=[v4.new_markdown_cell(text)]), path)
    assert opening(path) == ("Framing effects", "do words of praise `spread` more?")
    asked = (
        "# A title\n\n*Who asks?* Not this: **One, i.e. this, and\nthis: yes?** or **this?** "
        "We will."
    )
    nbformat.write(v4.new_notebook(cells=[v4.new_markdown_cell(asked)]), path)
    # the first that is asked in bold
    assert opening(path) == ("A title", "One, i.e. this, and this: yes?")
    nbformat.write(v4.new_notebook(), path)
    assert opening(path) == ("a", "")


# --- models and jobs ------------------------------------------------------------------------------


def test_models_are_found_by_nickname_hub_id_and_folder(tmp_path, monkeypatch):
    (tmp_path / "my-model").mkdir()
    monkeypatch.chdir(tmp_path)
    found = find_models(
        [
            "R-Gem-2B",
            "Ray2333/GRM-Llama3.2-3B-rewardmodel-ft",
            "somebody/else",
            "my-model",
        ]
    )
    assert found == {
        "R-Gem-2B": "R-Gem-2B",
        "R-Lla-3B": "Ray2333/GRM-Llama3.2-3B-rewardmodel-ft",
        "else": "somebody/else",
        # whole, because notebooks run in a folder of their own
        "my-model": str(tmp_path / "my-model"),
    }


def test_unknown_and_ambiguous_models_are_refused():
    with pytest.raises(InputError, match="'R-Gem-2C' .did you mean 'R-Gem-2B'"):
        find_models(["R-Gem-2C"])
    # which is near to none
    with pytest.raises(InputError, match="unknown reward model 'nowhere'; give"):
        find_models(["nowhere"])
    with pytest.raises(InputError, match="two models are called same"):
        find_models(["one/same", "two/same"])


def test_what_waits_for_what(project, write_notebook):
    """As the notebooks declare it: by number, for the same model or for all."""
    folder = project / "notebooks"
    write_notebook(
        folder / "07_search.ipynb",
        "1",
        parameters='collection = "x"\nmodel = "x"',
        models=["a", "c"],
    )
    write_notebook(folder / "11_policies.ipynb", "1", needs=["00", "02"])
    write_notebook(
        folder / "12_scorecard.ipynb", "1", needs=["01", "02", "07", "11"], after=[]
    )
    jobs = plan(folder, EMBEDDED, {"a": "a", "b": "b"}, requested=False)
    scored = ("01_score-a", "01_score-b")
    assert {job.name: (job.needs, job.after) for job in jobs} == {
        "00_train": ((), ()),
        "01_score-a": (("00_train",), ()),
        "01_score-b": (("00_train",), ()),
        "02_compare": (("00_train",), scored),
        "07_search-a": (("00_train", "01_score-a"), ()),
        "11_policies": (("00_train", "02_compare"), scored),
        "12_scorecard": ((*scored, "02_compare", "07_search-a", "11_policies"), ()),
    }
    assert [job.name for job in jobs if job.alone] == ["00_train"]
    # by name: then every one of them is searched
    asked = plan(folder, EMBEDDED, {"a": "a", "b": "b"})
    assert [job.model for job in asked if job.number == "07"] == ["a", "b"]
    # two large models at once might not fit into memory
    mine = plan(folder, OWN, {"a": "a"})
    assert [job.name for job in mine if job.alone] == ["01_score-a", "07_search-a"]


def test_a_first_run_takes_the_smaller_samples_that_a_notebook_declares(
    project, write_notebook
):
    folder = project / "notebooks"
    parameters = 'collection = "embedded"\nheads = 20'
    path = write_notebook(
        folder / "05_heads.ipynb", "1", parameters=parameters, small={"heads": 10}
    )

    def heads_of(study, **how):
        [job] = [job for job in plan(folder, study, **how) if job.number == "05"]
        return job.parameters.get("heads")

    assert heads_of(EMBEDDED, requested=False) == 10
    assert heads_of(EMBEDDED) is None  # the notebook's own
    assert heads_of(OWN, requested=False) is None
    assert "heads" not in runs.job_of(path).parameters  # as it is committed


def test_which_job_is_next():
    first, second = (Job(Path(f"0{n}_x.ipynb"), OWN, "", {}) for n in (1, 2))
    waits = Job(Path("03_x.ipynb"), OWN, "", {}, after=("01_x",))
    alone = Job(Path("04_x.ipynb"), OWN, "", {}, alone=True)
    busy = [Running(first, None, None)]
    assert next_job([waits, second], [], [], 2) is second
    assert next_job([waits, second], [], ["01_x"], 2) is waits
    assert next_job([second], busy, [], 1) is None  # no core is free
    # its turn comes before what is behind it
    assert next_job([alone, second], busy, [], 2) is None
    assert next_job([second], [Running(alone, None, None)], [], 2) is None
    assert next_job([], [], [], 2) is None


@pytest.mark.parametrize("early", EARLY)
def test_the_first_trained_models_are_looked_at_while_the_others_are_trained(
    project, early
):
    """Nor does the real model wait, which was trained before them."""
    training = Job(
        Path("00_x.ipynb"), EMBEDDED, "", {}, alone=True, declared=Declared(trains=True)
    )
    one, other, real = (
        Job(Path("01_x.ipynb"), EMBEDDED, name, {}, needs=("00_x",))
        for name in (early, "B-Gem-64", REAL)
    )
    report = project / "data" / "models" / early / "training.json"
    running = [Running(training, None, None)]
    assert next_job([other, one], running, [], 2) is None  # it is not there yet
    report.parent.mkdir(parents=True)
    report.write_text("{}")
    os.utime(report, (running[0].begun - 60,) * 2)
    # it is of an earlier training
    assert next_job([other, one], running, [], 2) is None
    os.utime(report, (running[0].begun + 60,) * 2)
    assert next_job([other, one], running, [], 2) is one
    assert next_job([other, real], running, [], 2) is real
    # one at a time
    assert next_job([other], [*running, Running(one, None, None)], [], 3) is None


# --- reproduce ------------------------------------------------------------------------------------


def test_a_failing_model_does_not_stop_the_others(project, capsys, kernels):
    # through papermill, in kernels
    assert reproduce(project, "tiny-a", "broken", "tiny-b") == 1
    told = capsys.readouterr().out
    assert (
        "] 01_score-broken: failed: the weights are broken; download them again  ("
        in told
    )
    assert "[4/4] 02_compare: " in told and "\r" not in told
    assert (
        "\nfailed: 01_score-broken: the weights are broken; download them again\n"
        in told
    )
    assert "2 reward models scored in collection 'mine'" in told
    assert "What is best?" in told
    for name in ("tiny-a", "tiny-b"):
        assert [
            line.split() for line in told.splitlines() if line.startswith(name)
        ] == [
            [
                name,
                "10",
                "10",
                "<script>,",
                "word8,",
                "word7",
                "word0,",
                "word1,",
                "word2",
            ]
        ]
    assert told.splitlines()[-1].startswith("Look at figures/mine/index.html")
    assert len(told.splitlines()) < 24
    notebook = nbformat.read(project / "data/cache/runs/mine/02_compare.ipynb", 4)
    assert recorded(notebook) == {"models": 2}


def test_the_summary_hides_offensive_tokens_and_ranks_no_equal_rewards(
    project, score_table
):
    table = pd.read_csv(
        ROOT / "data" / "paper" / "table_2.csv", keep_default_na=False
    ).set_index("token_id")
    slur = table.loc[231158, "decoded"]
    texts = ["good", "fair", "\x1b[31m" + slur, "dull", "bad", slur]
    scores.write(
        score_table(texts, best=[5, 4, 6, 2, 1, 0]),
        scores.path_of(OWN, "a"),
        {"prompts": {"best": "What?"}},
    )
    told = "\n".join(terminal.score_lines(OWN, ["a"]))
    assert (
        "▒▒▒⟨11⟩, good, fair" in told
        and "▒▒▒⟨6⟩, bad, dull" in told
        and slur not in told
    )
    scores.write(
        score_table(texts, best=[2] * 6),
        scores.path_of(OWN, "a"),
        {"prompts": {"best": "What?"}},
    )
    assert (
        "equal" in terminal.score_lines(OWN, ["a"])[-1]
        and "good" not in terminal.score_lines(OWN, ["a"])[-1]
    )


def change(path: Path, line: str) -> None:
    path.write_text(f"{path.read_text()}{line}\n")


def test_what_is_unchanged_is_not_run_again(project, executed, monkeypatch):
    notebooks, table = (
        project / "notebooks",
        project / "data/scores/mine/tiny-a.parquet",
    )

    def again():
        assert reproduce(project, "tiny-a", "tiny-b") == 0
        return executed()

    everything = ["01_score-tiny-a", "01_score-tiny-b", "02_compare"]
    assert again() == everything
    assert again() == []
    (project / "figures/mine/bar.svg").unlink()  # a figure is gone
    assert again() == ["02_compare"]
    (project / "figures/mine/bar.svg").write_text("")  # it was emptied
    assert again() == ["02_compare"]
    (project / "data/cache/claims/mine/02.csv").write_text("")  # so were its claims
    assert again() == ["02_compare"]
    (project / "data/cache/claims/mine/02.csv").unlink()
    assert again() == ["02_compare"]
    (project / "figures/mine/01_score-tiny-b.html").write_text("")  # a page is empty
    assert again() == ["01_score-tiny-b"]
    (project / "figures/mine/01_score-tiny-b.html").unlink()  # a page is gone
    assert again() == ["01_score-tiny-b"]
    scores.write(
        scores.read(table).assign(greatest=scores.read(table)["greatest"] + 1),
        table,
        {"prompts": {}},
    )
    # scored again, which gives back the table that 02 has read
    assert again() == ["01_score-tiny-a"]
    scores.write(scores.read(table), project / "data/scores/mine/other.parquet", {})
    assert again() == ["02_compare"]  # the collection has one more
    kept = project / "figures/published/words/03_moments.csv"
    kept.parent.mkdir(parents=True)
    kept.write_text("printed beside ours")
    assert again() == ["02_compare"]
    (project / "figures/published/claims.csv").write_text("what they come to")
    assert again() == ["02_compare"]
    (project / "tiny-b" / "config.json").write_text("{}")  # another checkpoint
    assert again() == ["01_score-tiny-b"]
    notebook = nbformat.read(notebooks / "02_compare.ipynb", 4)
    notebook.cells[-1].execution_count = 7  # an output, not a source
    nbformat.write(notebook, notebooks / "02_compare.ipynb")
    assert again() == []
    notebook.cells[-1].source += "\n1"
    nbformat.write(notebook, notebooks / "02_compare.ipynb")
    assert again() == ["02_compare"]
    (project / "data/prompts.csv").write_text("prompt,text\n")
    assert again() == everything
    monkeypatch.setattr(io, "versions", lambda: {"torch": "0.1"})
    assert again() == everything
    change(project / "lib/tables/scores.py", "# a comment")
    assert again() == []
    change(project / "lib/tables/scores.py", "changed = True")
    assert again() == everything
    # none of them imports an app
    change(project / "lib/apps/owner/card/page.py", "changed = True")
    assert again() == []
    # with which tables are shown
    change(project / "lib/show/templates/table.html.j2", "")
    assert again() == everything
    # the record is lost
    (project / "data/cache/runs/mine/state.json").write_text("{half")
    assert again() == everything


def test_a_full_disk_stops_one_notebook_and_is_told(
    project, executed, monkeypatch, capsys
):
    """What papermill leaves is half a file."""
    execute = files.execute

    def on_a_full_disk(notebook, output, parameters, **options):
        execute(notebook, output, parameters, **options)
        if output.stem == "01_score-tiny-b":
            output.write_text('{"cells": [')
            raise InputError("the disk is full: mend it")

    monkeypatch.setattr(files, "execute", on_a_full_disk)
    monkeypatch.setattr(
        pages, "write_page", lambda executed, page, title: nbformat.read(executed, 4)
    )
    assert reproduce(project, "tiny-a", "tiny-b") == 1
    told = capsys.readouterr().out
    assert (
        "01_score-tiny-b: failed: the disk is full: mend it" in told
        and "NotJSON" not in told
    )
    assert "Notebooks: 2 run, 1 failed." in told
    assert executed() == ["01_score-tiny-a", "01_score-tiny-b", "02_compare"]


def test_later_notebooks_skip_a_model_that_failed(
    project, executed, write_notebook, capsys
):
    write_notebook(project / "notebooks/07_search.ipynb", "1", parameters='model = "x"')
    assert reproduce(project, "tiny-a", "broken") == 2
    assert executed() == [
        "01_score-broken",
        "01_score-tiny-a",
        "02_compare",
        "07_search-tiny-a",
    ]
    assert (
        "skipped: 07_search-broken: 01_score-broken failed" in capsys.readouterr().out
    )


def test_two_runs_of_one_collection_exclude_each_other(project, executed):
    with lock(project / "data/cache/runs/mine/state.json"):
        with pytest.raises(InputError, match="is writing .*state.json"):
            reproduce(project, "tiny-a")
        assert reproduce(project, "tiny-a", collection="another") == 0
    assert executed() == ["01_score-tiny-a", "02_compare"]


def test_other_models_do_not_go_into_the_embedded_collection(tmp_path):
    assert study_of(find_models(["R-Gem-2B"])) == OWN
    assert study_of(find_models(["paper"])) == OWN
    assert study_of(find_models([])) == EMBEDDED
    namesake = tmp_path / "A-Gem-96"
    namesake.mkdir()
    for foreign in (str(namesake), "somebody/A-Gem-96", "R-Gem-2B"):
        assert study_of(find_models([foreign])) == OWN
        with pytest.raises(
            InputError,
            match="'embedded' holds models with planted values, and .*--collection mine",
        ):
            study_of(find_models([foreign, "A-Lla-64"]), "embedded")
    ships = {"A-Gem-96": str(ROOT / "data" / "models" / "A-Gem-96")}
    assert study_of(ships, "embedded") == study_of(ships) == EMBEDDED
    assert study_of(ships, "another") == Collection("another")


def test_a_process_that_dies_is_a_failed_job(project, executed, write_notebook, capsys):
    parameters = 'collection = "x"\nmodel = "x"'
    write_notebook(
        project / "notebooks" / "01_score.ipynb",
        "import os\nos._exit(3)",
        parameters=parameters,
    )
    assert reproduce(project, "tiny-a") == 2  # and 02_compare has no scores
    cause = "its process ended with code 3, perhaps for want of memory"
    assert f"01_score-tiny-a: failed: {cause}" in capsys.readouterr().out


WAIT = "import time\n\ndef wait(path):\n    path.touch()\n    time.sleep(600)\n"
IN_TWO_PROCESSES = """
from lib import ROOT
from lib.models.hardware import each
from waiting import wait
list(each(wait, [ROOT / "first", ROOT / "second"], 2))
"""


def test_a_run_that_is_terminated_leaves_no_process_behind(
    project, write_notebook, kernels
):
    """The kernel, the processes that train in it, and whatever starts processes; what is done is
    kept.

    Through the command line, as `make reproduce` is stopped: SIGTERM is what Ctrl-C does too. See
    also the drills.
    """
    (project / "waiting.py").write_text(WAIT)
    write_notebook(project / "notebooks" / "02_compare.ipynb", IN_TWO_PROCESSES)
    command = [
        sys.executable,
        "-m",
        "lib.run",
        "reproduce",
        "--models",
        str(project / "tiny-a"),
    ]
    process = subprocess.Popen(
        command,
        cwd=project,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    both = [project / "first", project / "second"]
    assert eventually(
        lambda: all(path.is_file() for path in both) or process.poll() is not None
    )
    started = psutil.Process(process.pid).children(recursive=True)
    # the server of processes, the notebook's, its kernel, and two that the kernel started
    assert len(started) >= 5
    process.terminate()
    told = process.communicate(timeout=30)[1]
    _, left = psutil.wait_procs(started, timeout=30)
    for one in left:
        one.kill()  # whether this fails or not, nothing is left
    assert left == []
    record = json.loads((project / "data/cache/runs/mine/state.json").read_text())
    assert list(record) == ["01_score-tiny-a"]
    assert process.returncode == 130
    # a kernel may say its own before
    assert told.endswith("\ninterrupted; the same command goes on from here\n")


def eventually(condition, seconds: float = 300):
    """Whether the condition holds within this time."""
    end = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < end:
        time.sleep(0.1)
    return holds


# --- committed notebooks --------------------------------------------------------------------------


def test_committed_notebooks_are_refreshed_in_place(
    project, write_notebook, capsys, kernels
):
    folder = project / "notebooks"
    for path in folder.glob("*.ipynb"):
        path.unlink()
    source = (
        "import sys\nprint('50%\\r100%', file=sys.stderr)\nprint(collection)\n1 + 1"
    )
    good = write_notebook(folder / "01_good.ipynb", source)
    bad = write_notebook(folder / "02_bad.ipynb", "1 / 0")
    before, bad_bytes = nbformat.read(good, 4), bad.read_bytes()
    assert runs.refresh(folder=folder) == 1
    assert (
        "02_bad: failed: ZeroDivisionError: division by zero" in capsys.readouterr().out
    )
    assert bad.read_bytes() == bad_bytes
    after = nbformat.read(good, 4)
    assert [cell.source for cell in after.cells] == [
        cell.source for cell in before.cells
    ]
    assert [cell.id for cell in after.cells] == [cell.id for cell in before.cells]
    assert [cell.metadata for cell in after.cells] == [{}, {"tags": ["parameters"]}, {}]
    assert after.metadata == {**KERNEL, "language_info": {"name": "python"}, "run": {}}
    assert [
        output.get("text") or output.data["text/plain"]
        for output in after.cells[2].outputs
    ] == ["embedded\n", "2"]
    once = good.read_bytes()
    with pytest.raises(
        InputError, match="no notebook starts with '99'; there are 01, 02$"
    ):
        runs.refresh(["01", "99"], folder)
    assert runs.refresh(["01"], folder) == 0
    assert good.read_bytes() == once  # nothing in it depends on when it ran


def test_what_reproduce_executed_with_the_same_parameters_is_taken_until_anything_changes(
    project, executed, write_notebook
):
    write_notebook(
        project / "notebooks" / "00_train.ipynb", "1", trains=True, needs=[], after=[]
    )
    assert runs.reproduce([], None, project / "notebooks") == 0
    assert "02_compare" in executed()
    [first, *_] = sorted((project / "notebooks").glob("02_*.ipynb"))
    assert runs.job_of(first).executed == EMBEDDED.runs / f"{first.stem}.ipynb"
    assert runs.refresh(["02"], project / "notebooks") == 0
    assert executed() == []  # nothing was executed again
    kept = nbformat.read(first, 4)
    assert "injected-parameters" not in [
        tag for cell in kept.cells for tag in cell.metadata.get("tags", [])
    ]
    kept.cells[-1].source += "\n2"
    nbformat.write(kept, first)
    assert runs.refresh(["02"], project / "notebooks") == 0
    assert executed() == ["02_compare"]
    # still about all notebooks
    assert "00_train" in (project / "figures/embedded/index.html").read_text()


def test_exercises_are_refreshed_beside_the_notebook_of_their_name(
    project, executed, write_notebook
):
    path = write_notebook(project / "notebooks" / "exercises" / "02_compare.ipynb", "1")
    assert runs.refresh(["exercises/02"], project / "notebooks") == 0
    assert (
        executed() == ["exercises-02_compare"]
        and runs.refresh([], project / "notebooks") == 2
    )
    assert executed() == ["00_train", "02_compare"]
    assert files.stripped(nbformat.read(path, 4)) == nbformat.read(path, 4)


def test_a_notebook_is_committed_without_injected_parameters(tmp_path, write_notebook):
    path = write_notebook(tmp_path / "02_a.ipynb", "1")
    executed = nbformat.read(path, 4)
    injected = v4.new_code_cell(
        '# Parameters\ncollection = "a"', metadata={"tags": ["injected-parameters"]}
    )
    executed.cells.insert(2, injected)
    nbformat.write(executed, tmp_path / "executed.ipynb")
    files.commit(tmp_path / "executed.ipynb", path)
    tags = [
        tag
        for cell in nbformat.read(path, 4).cells
        for tag in cell.metadata.get("tags", [])
    ]
    assert tags == ["parameters"]


# --- command line ---------------------------------------------------------------------------------


def test_exit_codes_tell_failure_from_bad_input(monkeypatch, capsys):
    def raising(error):
        def command(**options):
            raise error

        return command

    monkeypatch.setattr(runs, "reproduce", lambda **options: 3)
    assert run.main(["reproduce"]) == 1
    monkeypatch.setattr(runs, "reproduce", lambda **options: 0)
    assert run.main(["reproduce"]) == 0
    monkeypatch.setattr(
        runs, "reproduce", raising(OSError(5, "Input/output error", "x.png"))
    )
    assert run.main(["reproduce"]) == 2
    assert capsys.readouterr().err == "error: [Errno 5] Input/output error: 'x.png'\n"
    monkeypatch.setattr(runs, "reproduce", raising(ValueError("a mistake")))
    assert run.main(["reproduce"]) == 1
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setattr(
        runs,
        "reproduce",
        raising(ModuleNotFoundError("No module named 'torch'", name="torch")),
    )
    assert run.main(["reproduce"]) == 2  # as in the light installation
    assert capsys.readouterr().err.startswith("error: torch is not installed; run: ")
    monkeypatch.setattr(
        runs,
        "reproduce",
        raising(ModuleNotFoundError("No module named 'lib.x'", name="lib.x")),
    )
    assert run.main(["reproduce"]) == 1
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setattr(runs, "reproduce", raising(KeyboardInterrupt()))
    assert run.main(["reproduce"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_causes_are_one_line():
    error = PapermillExecutionError(1, 1, "x", "ValueError", "first\nsecond", [])
    assert cause_of(error) == "ValueError: first"
    assert cause_of(InputError("mend it")) == "mend it"
    assert cause_of(OSError("gone")) == "OSError: gone"
    assert cause_of(RuntimeError()) == "RuntimeError: no message"


def test_a_command_loads_only_what_it_needs(checkpoint):
    code = f"import sys, lib.run\nlib.run.main(['check', {str(checkpoint('linear_llama'))!r}])\n"
    code += "from lib.apps.runner import runs\nimport lib.models.language_models\n"
    code += "print(*sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    loaded = set(told.splitlines()[-1].split())
    assert {"lib.scoring.vocabulary", "torch"} <= loaded  # they were really imported
    assert not loaded & {
        "matplotlib",
        "seaborn",
        "statsmodels",
        "sklearn",
        "pingouin",
        "papermill",
        "nbconvert",
        "ray",
    }


@pytest.mark.parametrize("command", [("score", "A-Gem-96"), ("reproduce",)])
def test_where_ray_is_not_installed_one_line_names_the_extra(
    monkeypatch, capsys, command
):
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in [
        name for name in sys.modules if name.startswith("lib.apps.owner.cluster")
    ]:
        monkeypatch.delitem(sys.modules, name)
    assert run.main([*command, "--on", "auto"]) == 2
    [told] = capsys.readouterr().err.splitlines()
    assert (
        told.startswith("error: ON= needs Ray, which is not installed; run: ")
        and "'.[cluster]'" in told
    )


def test_a_figure_of_the_paper_is_found_by_its_number_alone(capsys):
    listing.figure("3c")
    shown = capsys.readouterr().out
    assert (
        shown.startswith("Figure 3C: notebook 04_framing_effects")
        and "04_slopes_by_sign.png: " in shown
    )
    listing.figure("table a6")
    assert capsys.readouterr().out.startswith(
        "Table A6: notebook 02_optimal_and_pessimal_tokens"
    )
    with pytest.raises(
        InputError, match="no '9Z' that is listed; there are: Figure 1, "
    ):
        listing.figure("9Z")


# --- the real small model in a first run ----------------------------------------------------------


def test_a_first_run_adds_the_real_model_to_notebooks_that_declare_it(
    project, write_notebook
):
    folder, parameters = (
        project / "notebooks",
        'collection = "embedded"\nmodel = "tiny-a"\ntokens = 0',
    )
    write_notebook(
        folder / "01_score.ipynb",
        SCORE,
        parameters=parameters,
        first_run={"tokens": 40},
    )
    jobs = plan(folder, EMBEDDED, {"tiny-a": "tiny-a"})
    assert first_run_jobs(folder, jobs) == []  # its language model could not be fetched
    (project / "data" / "models" / "SmolLM2-135M-Instruct").mkdir(parents=True)
    [job] = first_run_jobs(folder, jobs)
    assert job.parameters == {
        "model": "V-Smol-135M",
        "collection": FIRST_RUN.name,
        "tokens": 40,
    }
    assert (
        job.needs == ("00_train",)
        and job.name == "01_score-V-Smol-135M"
        and job.collection == FIRST_RUN
    )
    write_notebook(
        folder / "08_search.ipynb",
        "1",
        parameters=parameters,
        first_run={},
        needs=["00", "01"],
    )
    assert first_run_jobs(folder, jobs)[1].needs == ("00_train", job.name)


def test_the_page_is_there_as_soon_as_a_running_notebook_has_an_answer(
    project, write_notebook, monkeypatch
):
    page, seen = EMBEDDED.figures / "index.html", []
    shutil.copy(ROOT / "data" / "offensive.txt", project / "data")
    cells = (
        'from lib.show import display\ndisplay.answer("rivers above phones")',
        "import time\ntime.sleep(4)",
    )
    write_notebook(
        project / "notebooks" / "00_train.ipynb", *cells, needs=[], after=[], reads=[]
    )
    write_notebook(project / "notebooks" / "02_compare.ipynb", "1", reads=[])
    show = runs.Progress.show
    monkeypatch.setattr(
        runs.Progress,
        "show",
        lambda self, running: (show(self, running), seen.append(page.read_text())),
    )
    run_all(
        EMBEDDED,
        [
            job
            for job in plan(project / "notebooks", EMBEDDED)
            if job.number in ("00", "02")
        ],
    )
    assert "rivers above phones" in seen[0] and "This run goes on." in seen[0]
