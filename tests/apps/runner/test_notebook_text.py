"""What a reader of the committed notebooks meets: a question, prose between short cells, an answer,
safe outputs. Nothing is executed.
"""

import ast
import html
import itertools
import re

import nbformat
import pytest
from conftest import with_tag

from lib import ROOT
from lib.apps.runner.front import opening
from lib.show.display import ANSWER_TYPE, is_offensive

MOST_CODE_CELLS = 4
LONGEST_CELL, LONGEST_FUNCTION, WIDTH = 12, 30, 88
FOLDER = ROOT / "notebooks"
NOTEBOOKS = [*sorted(FOLDER.glob("*.ipynb")), ROOT / "audit" / "card.ipynb"]
EXERCISES = sorted((FOLDER / "exercises").glob("*.ipynb"))


def code_of(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def only_defines(cell) -> bool:
    """Whether a cell of code holds functions or imports, and nothing else."""
    body = ast.parse(cell.source).body if cell.cell_type == "code" else []
    kinds = {type(node) for node in body}
    return kinds <= {ast.FunctionDef} or kinds <= {ast.Import, ast.ImportFrom}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_asks_a_question_reads_its_cells_in_prose_and_answers(path):
    notebook = nbformat.read(path, 4)
    title, question = opening(path)
    assert title and question.endswith("?")
    [given] = with_tag(notebook, "parameters")
    assert given == code_of(notebook)[1] and "\ncollection = " in "\n" + given.source
    [answer] = with_tag(notebook, "answer")
    assert "display.answer(" in answer.source and len(with_tag(notebook, "hero")) <= 1
    first = "".join(answer.outputs[-1].data[ANSWER_TYPE])
    assert re.search(r"\d", first) and len(first.split()) <= 25
    is_end = lambda cell: "## The paper's sentences" in cell.source  # noqa: E731
    main = itertools.takewhile(lambda cell: not is_end(cell), notebook.cells[4:])
    read = [c for c in main if c.cell_type != "code" or not only_defines(c)]
    kinds = "".join(cell.cell_type[0] for cell in read)
    assert "c" * (MOST_CODE_CELLS + 1) not in kinds


@pytest.mark.parametrize("path", [*NOTEBOOKS, *EXERCISES], ids=lambda path: path.stem)
def test_code_is_narrow_and_its_cells_are_short(path):
    for cell in code_of(nbformat.read(path, 4)):
        lines = cell.source.splitlines()
        longest = LONGEST_FUNCTION if only_defines(cell) else LONGEST_CELL
        assert len(lines) <= longest and max(map(len, lines)) <= WIDTH, cell.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_committed_notebook_is_executed_and_holds_no_run_time_metadata(path):
    notebook = nbformat.read(path, 4)
    code = code_of(notebook)
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert notebook.metadata.keys() <= {"kernelspec", "language_info", "run"}
    assert {name for cell in notebook.cells for name in cell.metadata} <= {"tags"}
    text = nbformat.writes(notebook)
    # a cell that ends on a file names a folder of this machine; pandas' tables hide no word
    assert "PosixPath(" not in text and 'class=\\"dataframe' not in text
    outputs = [output for cell in code for output in cell.outputs]
    assert not {output.output_type for output in outputs} & {"error"}
    assert not any(output.get("name") == "stderr" for output in outputs)


# --- offensive words ------------------------------------------------------------------------------


def in_sight(output: dict) -> str:
    """What a reader of an output sees without opening anything."""
    data = output.get("data", {})
    data = {kind: text for kind, text in data.items() if kind.startswith("text/")}
    page = re.sub(r"(?s)(?<=</summary>).*?</details>", " ", data.pop("text/html", ""))
    said = [*data.values(), output.get("text", "")]
    return "\n".join([html.unescape(re.sub("<[^>]*>", " ", page)), *said])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_offensive_word_is_shown_in_the_open(path):
    cells = nbformat.read(path, 4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    texts = [*(cell.source for cell in cells), *map(in_sight, outputs)]
    words = {word for text in texts for word in text.split()}
    assert [len(word) for word in words if is_offensive(word)] == []
