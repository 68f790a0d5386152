"""The folder for a class: it can be copied to any system, and its notebooks' exercises run there
without torch.
"""

import ast
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import nbformat
import pytest

from lib import ROOT, InputError
from lib.apps.classroom.course import making
from lib.apps.classroom.course.exercises import read_section
from lib.apps.runner.files import EXERCISES, find_notebooks, parameters_of
from lib.tables.registry import LOADERS

# they load no model
LIGHT = ("02_", "03_", "04_", "05_", "06_", "07_", "09_", "10_", "11_")
NOTEBOOKS = [
    path
    for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
    if path.name.startswith(LIGHT)
]
LONGEST = 200  # characters of a path; Windows takes 260 from the drive on
RESERVED = re.compile(
    r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?|.*[ .]|.*[<>:\"|?*\\\x00-\x1f].*"
)


@pytest.fixture(scope="module")
def folder(small_models, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("course") / "class"
    copies = {
        path.name: making.student_copy(path)
        for path in find_notebooks(ROOT / "notebooks" / EXERCISES)
    }
    making.fill_class(folder, find_notebooks(ROOT / "notebooks"), copies)
    return folder


@pytest.fixture(scope="module")
def run_without_models(folder, tmp_path_factory):
    """Runs code in the folder by a Python that has all installed packages but those that load
    models.
    """
    packages = tmp_path_factory.mktemp("packages")
    absent = {*LOADERS, "safetensors", "tokenizers"}
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        # one of these leads to the whole project
        if path.name not in absent and path.suffix != ".pth":
            (packages / path.name).symlink_to(path)

    def run(code: str) -> str:
        paths = os.pathsep.join([str(folder), str(packages)])
        environment = os.environ | {
            "PYTHONPATH": paths,
            "MPLBACKEND": "Agg",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-S", "-c", code]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    return run


# --- the folder -----------------------------------------------------------------------------------


def test_names_and_paths_can_be_had_on_windows_and_nothing_is_a_link(folder):
    paths = [path.relative_to(folder) for path in folder.rglob("*")]
    assert [
        path for path in paths if any(RESERVED.fullmatch(part) for part in path.parts)
    ] == []
    assert [path for path in paths if len(str(path)) > LONGEST] == []
    assert [path for path in paths if (folder / path).is_symlink()] == []
    # no two that differ by case alone
    assert len({str(path).lower() for path in paths}) == len(paths)


def test_it_holds_notebooks_about_the_small_models_and_exercises_without_answers(
    folder,
):
    names = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    exercises = {f"{name[:2]}_exercises.ipynb" for name in names}
    assert {path.name for path in folder.glob("*.ipynb")} == names | exercises
    collections = {
        name[:2]: parameters_of(folder / name)["collection"] for name in names
    }
    assert collections == {
        number: "published" if number == "11" else "embedded" for number in collections
    }
    assert not (folder / "answers").exists() and (folder.parent / "class.zip").is_file()


def test_what_is_to_be_installed_is_pinned_and_loads_no_models(folder):
    lines = (folder / "requirements.txt").read_text().split()
    assert set(lines) <= set((ROOT / "requirements.lock").read_text().split())
    names = {line.partition("==")[0] for line in lines}
    assert "jupyterlab" in names and not names & {*LOADERS, "safetensors", "tokenizers"}
    more = {
        line.partition("==")[0]
        for line in (folder / "requirements-models.txt").read_text().split()
    }
    assert {*LOADERS, "safetensors", "tokenizers"} <= more and not more & names


def test_the_first_page_fits_a_screen_and_names_files_that_are_there(folder):
    told = (folder / "START.md").read_text(encoding="utf-8")
    assert len(told.splitlines()) <= 50 and "{" not in told
    named = [name for name in re.findall(r"`([\w./]+\.(?:ipynb|txt))`", told)]
    assert named and all((folder / name).is_file() for name in named)


def test_another_folder_is_not_replaced(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something else; name another folder"):
        making.fill_class(tmp_path, [], {})
    assert (tmp_path / "thesis.txt").read_text() == "mine"


# --- without torch --------------------------------------------------------------------------------


def imports_of(notebook: Path) -> str:
    """The import statements at the top level of its code cells."""
    code = [
        cell.source
        for cell in nbformat.read(notebook, 4).cells
        if cell.cell_type == "code"
    ]
    nodes = [node for source in code for node in ast.parse(source).body]
    return "\n".join(
        ast.unparse(node)
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
    )


def test_what_the_notebooks_import_loads_no_torch(run_without_models):
    code = "\n".join(imports_of(path) for path in NOTEBOOKS)
    code += "\nimport importlib.util, sys, lib\nprint(lib.__file__, *sys.modules)"
    code += "\nassert importlib.util.find_spec('torch') is None"
    told = run_without_models(code)
    # they were really imported
    assert "lib.similarity.rsa" in told and "lib.language.leakage" in told
    assert not told.startswith(str(ROOT / "lib")) and not set(LOADERS) & set(
        told.split()
    )


def test_the_exercises_of_a_notebook_are_solved_without_torch(run_without_models):
    section = read_section(
        ROOT / "notebooks" / EXERCISES / "02_optimal_and_pessimal_tokens.ipynb"
    )
    cells = [
        section.setup,
        *(source for one in section.exercises for source in (one.solution, one.check)),
    ]
    told = run_without_models(f"for cell in {cells!r}:\n    exec(cell)")
    assert len(section.exercises) >= 2 and len(told.splitlines()) >= len(
        section.exercises
    )


def test_planted_values_are_computed_without_torch_and_what_needs_it_says_so(
    run_without_models,
):
    code = "from lib.trained import planting\nfrom lib.tables.registry import can_load_models\n"
    code += (
        "print(can_load_models(), planting.preference_probability(0.0, 0.0), "
        "len(planting.profiles()))\n"
    )
    code += (
        "try:\n    planting.preference_loss(1.0, 2.0)\nexcept ModuleNotFoundError as error:\n  "
        "  print(error)"
    )
    told = run_without_models(code)
    assert told.startswith("False 0.5 10") and "No module named 'torch'" in told
