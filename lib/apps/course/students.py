"""Copies of the notebooks for students, with stubs in the place of solutions, and the answer key, kept apart."""

import re
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from ... import ROOT
from ...io import replacing
from ...notebooks.files import EXERCISE, KERNEL, NUMBER, find_notebooks, opening, read
from .exercises import CHECK, SOLUTION, read_section, stub_of, without_marks

COURSE = ROOT / "data" / "course"
STUDENTS, ANSWERS = "students", "answers"  # folders
STUB = "your-turn"  # tag of a cell with a stub


def make(folder: Path = COURSE, notebooks: Path = ROOT / "notebooks") -> None:
    """Write the students' copies and the answer key into their folders, and print where they are.

    InputError, with nothing written, for an exercise that does not have the right form.
    """
    paths = find_notebooks(notebooks)
    copies = {path.name: student_copy(path) for path in paths}
    keys = {path.name: answer_key(path) for path in paths if read_section(path).exercises}
    _write(folder / STUDENTS, copies)
    _write(folder / ANSWERS, keys)
    print(f"Students' copies of {len(copies)} notebooks: {folder / STUDENTS}")
    print(f"The answers, for the teacher: {folder / ANSWERS}")


def _write(folder: Path, notebooks: dict[str, NotebookNode]) -> None:
    for path in folder.glob("*.ipynb"):  # other files are the teacher's own
        if re.match(NUMBER, path.name) and path.name not in notebooks:
            path.unlink()
    for name, notebook in notebooks.items():
        nbformat.validate(notebook)
        with replacing(folder / name) as part:
            nbformat.write(notebook, part)


# --- one notebook -------------------------------------------------------------------------------------------------


def student_copy(notebook: Path) -> NotebookNode:
    """Return the notebook without outputs, with stubs for its exercises' solutions, and without their answers."""
    read_section(notebook)  # refuses what has not the form of exercises
    node = read(notebook)
    node.metadata = nbformat.from_dict(KERNEL)
    node.cells = [
        cell for cell in node.cells if (cell.cell_type, cell.metadata.get("tags")) != ("markdown", [SOLUTION])
    ]
    for cell in node.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        if EXERCISE in cell.metadata:
            cell.metadata[EXERCISE].pop("wrong", None)
            if SOLUTION in cell.metadata.tags:
                cell.source, cell.metadata.tags = stub_of(cell.source), [STUB]
    return node


def answer_key(notebook: Path) -> NotebookNode:
    """Return the exercises with solutions, answers, and the mistakes that checks know; the notebook runs by itself."""
    section, new = read_section(notebook), nbformat.v4
    cells = [new.new_markdown_cell(f"# Answers: {opening(notebook)[0]}"), new.new_code_cell(section.setup)]
    for exercise in section.exercises:
        wrong = [f"The check says *{case.says}* of:\n\n```python\n{case.answer}\n```" for case in exercise.wrong]
        answer = exercise.answer.replace("<details>", "<details open>")
        cells += [
            new.new_markdown_cell(f"{exercise.task}\n\n{exercise.prediction}"),
            new.new_code_cell(without_marks(exercise.solution), metadata={"tags": [SOLUTION]}),
            new.new_code_cell(exercise.check, metadata={"tags": [CHECK]}),
            new.new_markdown_cell("\n\n".join([answer, *wrong])),
        ]
    for number, cell in enumerate(cells):
        cell.id = f"answer-{number}"  # nbformat draws another one each time
    return new.new_notebook(cells=cells, metadata=KERNEL)
