"""Blank copies of the exercises, made from the notebooks that hold the solutions."""

import re
from pathlib import Path

import nbformat

from lib import ROOT
from lib.io import replacing

EXERCISES = ROOT / "notebooks" / "exercises"
TURN = "...  # your turn"
# What students do not get. A marked assignment keeps its name.
MARKED = re.compile(
    r"^( *)### BEGIN SOLUTION\n(\w+ = )?(?:.|\n)*?### END SOLUTION$",
    re.MULTILINE,
)


def write(exercises: Path = EXERCISES, folder: Path = EXERCISES / "blank") -> None:
    """Write a blank copy of each notebook of exercises, and print where they are."""
    folder.mkdir(exist_ok=True)
    for path in sorted(exercises.glob("*.ipynb")):
        with replacing(folder / path.name) as part:
            nbformat.write(blank_copy(path), part)
    print(f"Blank copies of the exercises are in {folder}.")


def blank_copy(path: Path) -> nbformat.NotebookNode:
    """Return a notebook of exercises with stubs, and without outputs, answers and mistakes."""
    notebook = nbformat.read(path, 4)
    cells = []
    for cell in notebook.cells:
        is_solution = "solution" in cell.metadata.get("tags", [])
        if cell.cell_type == "markdown" and is_solution:
            continue  # the answer in words
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None
        if is_solution:
            cell.metadata.exercise.pop("wrong")
            cell.metadata.tags = ["your-turn"]
            cell.source = stub_of(cell.source)
        cells.append(cell)
    notebook.cells = cells
    return notebook


def stub_of(solution: str) -> str:
    """Return the cell that a student gets, with TURN for each part between the marks."""
    return MARKED.sub(rf"\1\2{TURN}", solution)
