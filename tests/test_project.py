"""The project as a whole: one list of dependencies, small files, notebooks in the house's style."""

import os
import re
import shutil
import statistics
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, distribution

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lib import ROOT
from lib.reproduce import notebooks

MB = 1_000_000
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|Users|root|tmp|work|mnt)/\w")


def lock() -> dict[str, str]:
    """Name -> version of requirements.lock."""
    lines = (ROOT / "requirements.lock").read_text().split()
    assert all(re.fullmatch(r"[\w.-]+==[\w.!]+", line) for line in lines)  # exact, and no local version label
    return {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in lines}


def direct() -> list[str]:
    """The dependencies that pyproject.toml lists, extras included."""
    extras = PYPROJECT["optional-dependencies"].values()
    return [canonicalize_name(Requirement(r).name) for r in sum(extras, PYPROJECT["dependencies"])]


def is_installed(name: str) -> bool:
    try:
        return bool(distribution(name))
    except PackageNotFoundError:
        return False


def requires(name: str) -> list[str]:
    """What a distribution requires, on whatever platform and with whatever extra; nothing if it is not installed."""
    return (distribution(name).requires or []) if is_installed(name) else []


def needed_by(name: str, extras: set[str]) -> list[Requirement]:
    """What an installed distribution needs on this machine; nothing if it is not installed."""
    requirements = map(Requirement, requires(name))
    environments = [{"extra": extra} for extra in extras or {""}]
    return [r for r in requirements if not r.marker or any(map(r.marker.evaluate, environments))]


def tracked() -> list:
    """The files that git tracks; the test is skipped where the project is no git repository."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("not a git repository")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in names.split("\0") if name and (path := ROOT / name).is_file()]


# --- dependencies -------------------------------------------------------------------------------------------------


def test_the_lock_pins_every_dependency_and_all_that_they_need():
    pinned, seen = lock(), set()
    waiting = [(name, frozenset()) for name in direct()]
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        assert name in pinned, f"{name} is needed but not in requirements.lock"
        waiting += [(canonicalize_name(r.name), frozenset(r.extras)) for r in needed_by(name, extras)]
    assert len(seen) > 50


def test_the_lock_pins_nothing_that_is_not_needed():
    needed, waiting = set(), list(direct())
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += [canonicalize_name(Requirement(r).name) for r in requires(name)]
    # What other platforms need, such as torch's CUDA libraries, is not installed here and cannot be followed.
    assert {name for name in lock() if is_installed(name)} - needed == set()


def test_what_is_installed_is_what_the_lock_says():
    assert [name for name in direct() if not is_installed(name)] == [], "run: make install"
    for name, version in lock().items():
        if not is_installed(name):  # needed on another platform
            continue
        installed = distribution(name).version
        assert installed.split("+")[0] == version, f"{name} {installed} is installed, the lock says {version}"


def test_pyproject_lists_names_and_leaves_versions_to_the_lock():
    for requirement in sum(PYPROJECT["optional-dependencies"].values(), PYPROJECT["dependencies"]):
        assert requirement == Requirement(requirement).name


def test_the_conda_environment_installs_the_same_through_pip():
    *conda, pip = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert [one.split("=")[0] for one in conda] == ["python", "pip"]  # every other version is the lock's
    assert pip == {"pip": ["-c requirements.lock", "-e .[dev]"]}
    version = conda[0].split("=")[1]
    assert version in ("3.11", "3.12")
    assert PYPROJECT["requires-python"] == ">=3.11,<3.13"


def test_make_installs_from_the_same_two_files():
    makefile = (ROOT / "Makefile").read_text()
    assert "pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[dev]'" in makefile
    assert "$(INSTALLED): pyproject.toml requirements.lock" in makefile


# --- files --------------------------------------------------------------------------------------------------------


def test_tracked_files_are_small():
    sizes = {path: path.stat().st_size for path in tracked()}
    assert [path.name for path, size in sizes.items() if size > 5 * MB] == []
    assert sum(sizes.values()) < 30 * MB


def test_nothing_that_runs_make_is_tracked():
    made = ("data/scores/", "data/models/", "data/cache/", ".venv/")
    names = [path.relative_to(ROOT).as_posix() for path in tracked()]
    assert [name for name in names if name.startswith(made) or name.endswith((".pyc", ".bin", ".pt", ".pkl"))] == []


def test_no_tracked_text_names_a_folder_of_somebodys_machine():
    assert MACHINE_PATH.search(" /home/somebody/x") and not MACHINE_PATH.search("https://example.org/home/x")
    text = (".py", ".ipynb", ".md", ".csv", ".toml", ".yml", ".cff", ".html", ".svg")
    found = {path.name: MACHINE_PATH.search(path.read_text()) for path in tracked() if path.suffix in text}
    found.pop("test_project.py", None)  # this one names them
    assert {name: match[0] for name, match in found.items() if match} == {}


def test_what_ci_runs_is_executable():
    ci = ROOT / ".ci" / "run"
    assert os.access(ci, os.X_OK)
    assert "for target in lint test reproduce" in ci.read_text()


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_make_alone_lists_every_target():
    told = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split()
    assert [target for target in targets if f"\n  make {target} " not in told] == []


# --- notebooks ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, 4)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_states_its_question_and_has_one_parameters_cell_of_literals(path):
    cells = nbformat.read(path, 4).cells
    assert cells[0].cell_type == "markdown" and cells[0].source.startswith("# ")
    assert notebooks.opening(path)[1].endswith("?")
    assert "collection" in notebooks.parameters_of(path)  # raises unless there is one such cell
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert "parameters" in code[1].metadata.get("tags", [])  # the second code cell


def test_code_cells_are_short(notebook):
    lengths = [len(cell.source.splitlines()) for cell in notebook.cells if cell.cell_type == "code"]
    assert max(lengths) <= 20
    assert statistics.median(lengths) <= 4


def test_a_committed_notebook_is_executed_and_holds_no_run_time_metadata(notebook):
    assert notebooks.stripped(notebook) == notebook, "run: make notebooks"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), "run: make notebooks"
    assert not [output for cell in code for output in cell.outputs if output.output_type == "error"]
