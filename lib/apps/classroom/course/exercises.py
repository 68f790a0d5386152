"""A notebook of exercises, each of the cells in ORDER, and the stubs that students get for
solutions.
"""

import itertools
import re
from dataclasses import dataclass
from pathlib import Path

import nbformat

from .... import InputError
from ....io import replacing
from ...runner.files import EXERCISE, read, with_tag

SETUP, SOLUTION, CHECK = "exercise-setup", "solution", "check"  # tags of cells
# tag of a notebook's function, and of the setup cell, with the same id, that repeats it
PLAIN = "plain"
TITLE = "# Exercises: "  # how the first cell begins
ORDER = (
    ("markdown", EXERCISE),
    ("markdown", "prediction"),
    ("code", SOLUTION),
    ("code", CHECK),
    ("markdown", SOLUTION),
)
# before the check may stand hidden cells, with functions that it calls; they are a part of it
COMPARISON = ("code", "comparison")
# nbgrader's marks around what students do not get
BEGIN = "### BEGIN SOLUTION"
END = "### END SOLUTION"
INSIDE = r"(?:.|\n)*?"
TURN = "...  # your turn"


@dataclass(frozen=True)
class Wrong:
    """A mistake that students make: the whole source of their cell, and a part of the message of
    the check.
    """

    answer: str
    says: str


@dataclass(frozen=True)
class Exercise:
    """One exercise, with the sources of its cells."""

    name: str
    minutes: int  # about how long it takes
    difficulty: int  # 1 to 3
    task: str
    prediction: str
    solution: str
    check: str
    answer: str
    wrong: tuple[Wrong, ...]

    @property
    def title(self) -> str:
        return self.task.partition("\n")[0].removeprefix("## Exercise:").strip()


@dataclass(frozen=True)
class Section:
    """A notebook of exercises, in order. `setup` is the code before the first one."""

    setup: str
    exercises: tuple[Exercise, ...]


def read_section(notebook: Path) -> Section:
    """Return the exercises of a notebook that has nothing else. InputError names a cell of
    another form.
    """
    cells = with_functions(notebook).cells
    before = list(
        itertools.takewhile(lambda cell: EXERCISE not in cell.metadata, cells)
    )
    after = cells[len(before) :]
    title, *setup = before or [nbformat.v4.new_markdown_cell()]
    has_title = title.cell_type == "markdown" and title.source.startswith(TITLE)
    has_setup = setup and all(SETUP in _tags(cell) for cell in setup)
    has_only_exercises = all(EXERCISE in cell.metadata for cell in after)
    if not (has_title and has_setup and has_only_exercises):
        raise InputError(
            f"{notebook.name}: before its exercises stand a cell '{TITLE}...' and cells tagged "
            f"{SETUP}, and no cell without exercise metadata stands among them"
        )
    groups = itertools.groupby(
        after, lambda cell: cell.metadata[EXERCISE].get("name", "")
    )
    exercises = [_exercise(notebook, name, list(group)) for name, group in groups]
    sources = [cell.source for cell in setup]
    return Section("\n".join(sources), tuple(exercises))


def _exercise(
    notebook: Path,
    name: str,
    cells: list[nbformat.NotebookNode],
) -> Exercise:
    """Return one exercise from its five cells and those that belong to its check."""
    where = f"{notebook.name}: exercise '{name}'"
    kinds = tuple((cell.cell_type, *_tags(cell)) for cell in cells)
    extra = [COMPARISON] * (len(cells) - len(ORDER))
    if kinds != (*ORDER[:3], *extra, *ORDER[3:]):
        wanted = ", ".join(" ".join(kind) for kind in ORDER)
        raise InputError(f"{where} has to have the cells {wanted}; it has {kinds}")
    about = cells[0].metadata[EXERCISE]
    solution = cells[2].metadata[EXERCISE]
    sources = [cell.source for cell in cells]
    sources[3:-1] = ["\n\n\n".join(sources[3:-1])]
    try:
        cases = solution["wrong"]
        wrong = tuple(Wrong(case["answer"], case["says"]) for case in cases)
        return Exercise(name, about["minutes"], about["difficulty"], *sources, wrong)
    except KeyError as error:
        raise InputError(f"{where} has no {error} in its metadata") from error


def with_functions(exercises: Path) -> nbformat.NotebookNode:
    """Return a notebook of exercises with the functions that these continue, as the notebook that
    they belong to has them. InputError if it has no such function.
    """
    node = read(exercises)
    copies = with_tag(node, PLAIN)
    if copies:
        notebook = exercises.parent.parent / exercises.name
        functions = with_tag(read(notebook), PLAIN)
        sources = {cell.id: cell.source for cell in functions}
        for cell in copies:
            if cell.id not in sources:
                raise InputError(
                    f"{notebook.name} has no cell '{cell.id}' tagged {PLAIN}"
                )
            cell.source = sources[cell.id]
    return node


def copy_functions(exercises: Path) -> None:
    """Write the functions that exercises continue into their notebook, if they changed."""
    node = with_functions(exercises)
    if node != read(exercises):
        with replacing(exercises) as part:
            nbformat.write(node, part)


def _tags(cell: nbformat.NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def stub_of(solution: str) -> str:
    """Return the cell that a student gets, with TURN for each marked part; a marked assignment
    keeps its name.
    """
    named = re.sub(
        rf"^{BEGIN}\n(\w+) = {INSIDE}{END}$",
        rf"\1 = {TURN}",
        solution,
        flags=re.MULTILINE,
    )
    return re.sub(
        rf"^( *){BEGIN}\n{INSIDE}{END}$",
        rf"\1{TURN}",
        named,
        flags=re.MULTILINE,
    )


def without_marks(solution: str) -> str:
    """Return a solution as a reader sees it, without the lines that mark it."""
    return "\n".join(
        line for line in solution.splitlines() if line.strip() not in (BEGIN, END)
    )
