"""Every notebook runs from a fresh kernel with small parameters, and records the numbers that it should.

A notebook that is not listed in RUNS fails; so does a number that is recorded and not expected, or the reverse. The
notebooks run in a copy of the project, so that nothing of the reader's own is touched.
"""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lib import ROOT, reward_models, run, scores, scoring, small_models


@dataclass(frozen=True)
class Run:
    """One execution: papermill parameters (absent ones keep their defaults) and the numbers that it records."""

    parameters: dict = field(default_factory=dict)
    records: dict = field(default_factory=dict)


RUNS: dict[str, list[Run]] = {}

FIRST = ("00_", "01_")  # what these make, every later notebook reads


class Project:
    """A copy of the project, and what its notebooks recorded there; each is executed once, when first asked for."""

    def __init__(self, folder: Path, notebooks: Path, runs: dict[str, list[Run]]):
        self.folder, self.runs, self.done = folder, runs, {}
        made = shutil.ignore_patterns("scores", "models", "cache", "__pycache__")
        for name in ("lib", "data"):
            shutil.copytree(ROOT / name, folder / name, ignore=made)
        shutil.copytree(notebooks, folder / "notebooks")

    def recorded(self, name: str) -> list[dict]:
        """The numbers that each run of a notebook recorded; the notebooks that it builds on are run first."""
        for earlier in sorted(self.runs):
            if earlier < name and earlier.startswith(FIRST):
                self._run(earlier)
        return self._run(name)

    def _run(self, name: str) -> list[dict]:
        if name not in self.done:
            try:
                self.done[name] = [self._execute(name, i, one) for i, one in enumerate(self.runs[name])]
            except run.PapermillExecutionError as error:
                self.done[name] = error
        if isinstance(self.done[name], Exception):
            raise self.done[name]
        return self.done[name]

    def _execute(self, name: str, number: int, one: Run) -> dict:
        notebook = self.folder / "notebooks" / f"{name}.ipynb"
        unknown = set(one.parameters) - set(run.parameters_of(notebook))
        assert not unknown, f"{name} has no parameters {unknown}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(self.folder), prepend=os.pathsep)  # its kernel imports the copied lib
            executed = run.execute(notebook, self.folder / "executed" / f"{name}-{number}.ipynb", one.parameters)
        return scores.recorded(executed)


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    """The copy with the ten embedded models, which are trained in place if they are not current, and their scores."""
    small_models.train_all(progress=False)
    made = Project(tmp_path_factory.mktemp("project"), ROOT / "notebooks", RUNS)
    (made.folder / "data" / "models").symlink_to(ROOT / "data" / "models")
    for nickname in small_models.profiles().index:
        path = made.folder / "data" / "scores" / "embedded" / f"{nickname}.parquet"
        model = reward_models.load(nickname, device="cpu")
        scoring.score_vocabulary(model, scores.read_prompts(None), path, progress=False)
    return made


def test_every_notebook_is_listed_and_every_listed_one_exists():
    assert {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")} == set(RUNS)
    assert all(RUNS.values())


@pytest.mark.parametrize("name", sorted(RUNS))
def test_a_notebook_records_what_it_should(project, name):
    expected = [one.records for one in RUNS[name]]
    assert all(expected), f"{name} should record at least one number"
    assert project.recorded(name) == expected


# --- the mechanism itself -----------------------------------------------------------------------------------------


def test_recorded_numbers_are_compared_after_the_notebooks_that_come_first(tmp_path, write_notebook):
    notebooks = tmp_path / "notebooks"
    write_notebook(
        notebooks / "01_make.ipynb", "from lib import ROOT\n(ROOT / 'made').write_text(str(n))", parameters="n = 1"
    )
    source = (
        "import numpy as np\nfrom lib import ROOT, scores\n"
        "scores.record(made=int((ROOT / 'made').read_text()), third=1 / 3)\nscores.record(third=np.float32(0.5))"
    )
    write_notebook(notebooks / "02_read.ipynb", source)
    write_notebook(notebooks / "03_fail.ipynb", "1 / 0")
    runs = {
        "01_make": [Run({"n": 7})],
        "02_read": [Run({}, {"made": 7, "third": pytest.approx(0.5)})],
        "03_fail": [Run()],
    }
    project = Project(tmp_path / "copy", notebooks, runs)
    found = project.recorded("02_read")
    assert found == [one.records for one in runs["02_read"]]
    assert found != [{"made": 7, "third": pytest.approx(0.4)}]
    assert not (ROOT / "made").exists()
    with pytest.raises(run.PapermillExecutionError, match="division by zero"):
        project.recorded("03_fail")


def test_a_parameter_that_the_notebook_does_not_have_is_refused(tmp_path, write_notebook):
    write_notebook(tmp_path / "notebooks" / "02_a.ipynb")
    project = Project(tmp_path / "copy", tmp_path / "notebooks", {"02_a": [Run({"typo": 1})]})
    with pytest.raises(AssertionError, match="has no parameters {'typo'}"):
        project.recorded("02_a")
