"""What a reader of the committed notebooks meets: a question, prose between short cells, an answer,
safe outputs.

Numbers are for test_notebooks.py; here it is what stands on the page, so nothing is executed.
"""

import ast
import html
import itertools
import re
import tomllib
from fnmatch import fnmatch

import nbformat
import pandas as pd
import pytest

from lib import ROOT
from lib.apps.runner import files
from lib.apps.runner.files import EXERCISES
from lib.show.display import is_offensive, table_html

MOST_CODE_CELLS, WIDEST = 4, 400
LONGEST_CELL, LONGEST_FUNCTION, WIDTH = 12, 30, 88
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NOTEBOOKS += [ROOT / "audit" / "card.ipynb"]
STYLE = tomllib.loads((ROOT / "notebooks" / "ruff.toml").read_text())
# notebooks that are not formatted yet
WIDER = STYLE.get("format", {}).get("exclude", [])
READY = [
    path
    for path in [*NOTEBOOKS, *sorted((ROOT / "notebooks" / EXERCISES).glob("*.ipynb"))]
    if not any(fnmatch(path.name, pattern) for pattern in WIDER)
]


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, 4)


def code_of(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_asks_one_question_and_has_its_parameters_in_the_second_code_cell(
    path,
):
    notebook = nbformat.read(path, 4)
    assert [cell.cell_type for cell in notebook.cells[:4]] == [
        "markdown",
        "code",
        "code",
        "code",
    ]
    assert notebook.cells[0].source.startswith("# ") and files.opening(path)[
        1
    ].endswith("?")
    assert "collection" in files.parameters_of(path)  # the one such cell
    assert "parameters" in code_of(notebook)[1].metadata.get("tags", [])


def test_one_cell_answers_and_at_most_one_is_the_hero(notebook):
    [answer] = files.with_tag(notebook, "answer")
    assert "display.answer(" in answer.source
    assert len(files.with_tag(notebook, "hero")) <= 1


def test_code_cells_of_the_main_text_are_read_in_prose(notebook):
    main = itertools.takewhile(
        lambda cell: "## The paper's sentences" not in cell.source, notebook.cells[4:]
    )
    assert "c" * (MOST_CODE_CELLS + 1) not in "".join(
        cell.cell_type[0] for cell in main
    )


def test_after_every_figure_and_printed_table_of_the_paper_there_is_prose(notebook):
    for place, cell in enumerate(notebook.cells):
        if any(tag.startswith("paper-") for tag in cell.metadata.get("tags", [])):
            following = [
                after.cell_type for after in notebook.cells[place + 1 : place + 4]
            ]
            assert "markdown" in following, f"{cell.metadata.tags}: nothing reads it"


def is_one_function(source: str) -> bool:
    body = ast.parse(source).body
    return len(body) == 1 and isinstance(body[0], ast.FunctionDef)


@pytest.mark.parametrize(
    "path", READY, ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_code_is_narrow_and_its_cells_are_short(path):
    code = code_of(nbformat.read(path, 4))
    assert [
        line for cell in code for line in cell.source.splitlines() if len(line) > WIDTH
    ] == []
    for cell in code:
        longest = LONGEST_FUNCTION if is_one_function(cell.source) else LONGEST_CELL
        assert len(cell.source.splitlines()) <= longest, cell.source


def test_a_committed_notebook_is_executed_and_holds_no_run_time_metadata(notebook):
    assert files.stripped(notebook) == notebook, "run: python -m lib.run notebooks"
    code = code_of(notebook)
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), (
        "run: python -m lib.run notebooks"
    )
    # a cell that ends on a file names a folder of this machine
    assert "PosixPath(" not in nbformat.writes(notebook)
    assert not [
        output
        for cell in code
        for output in cell.outputs
        if output.output_type == "error"
    ]


def test_committing_a_committed_notebook_changes_no_byte(tmp_path):
    files.commit(NOTEBOOKS[0], tmp_path / "again.ipynb")
    assert (tmp_path / "again.ipynb").read_bytes() == NOTEBOOKS[0].read_bytes()


def test_what_is_shown_is_no_wide_array_and_no_table_of_pandas_own(notebook):
    """Such a table hides no offensive word."""
    for cell in code_of(notebook):
        for output in cell.outputs:
            shown = output.get("data", {})
            plain = shown.get("text/plain", "") if "text/html" not in shown else ""
            is_wide = (
                plain.startswith("array(")
                or len(plain) >= WIDEST
                or re.search(r"^dtype: ", plain, re.MULTILINE)
            )
            assert plain.startswith("recorded: ") or not is_wide, cell.source
            assert 'class="dataframe"' not in shown.get("text/html", ""), cell.source
            # sixteen digits
            assert not re.search(r"\d\.\d{9,}", output.get("text", "")), cell.source


# --- offensive words ------------------------------------------------------------------------------


def in_sight(output: dict) -> str:
    """What a reader of an output sees without opening anything, where styles and scripts are
    dropped too.
    """
    data = {
        kind: text
        for kind, text in output.get("data", {}).items()
        if kind.startswith("text/")
    }
    page = re.sub(r"(?s)(?<=</summary>).*?</details>", " ", data.pop("text/html", ""))
    said = [*data.values(), output.get("text", ""), *output.get("traceback", [])]
    return "\n".join([html.unescape(re.sub("<[^>]*>", " ", page)), *said])


def offensive_words(text: str) -> set[str]:
    return {word for word in re.findall(r"\S+", text) if is_offensive(word)}


def test_no_offensive_word_is_shown_in_the_open(notebook):
    texts = [
        (i, text)
        for i, cell in enumerate(notebook.cells)
        for text in [cell.source, *map(in_sight, cell.get("outputs", []))]
    ]
    found = [
        (i, sorted(map(len, words)))
        for i, text in texts
        if (words := offensive_words(text))
    ]
    assert found == []  # cells, and how long the words are


def test_a_word_in_the_open_is_found_and_a_folded_one_is_not():
    table = pd.read_csv(
        ROOT / "data" / "paper" / "table_2.csv", keep_default_na=False
    ).set_index("token_id")
    frame = pd.DataFrame({"token": [table.loc[231158, "decoded"], "love"]})
    open_, folded = (table_html(frame, ["token"], blur=blur) for blur in (False, True))
    shown = [
        in_sight({"data": {"text/html": one.html, "text/plain": one.text}})
        for one in (open_, folded)
    ]
    assert [len(offensive_words(text)) for text in shown] == [1, 0] and "love" in shown[
        1
    ]
