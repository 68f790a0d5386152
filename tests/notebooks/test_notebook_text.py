"""What a reader of notebooks meets: a question, prose between cells, an answer; and tables of our own kind.

Numbers are for test_notebooks.py; here it is what stands on the page, so nothing is executed.
"""

import itertools
import json
import re

import pytest

from lib import ROOT

MOST_CODE_CELLS, WIDEST = 4, 400
NAMES = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


def cells_of(name: str) -> list[dict]:
    cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return [cell | {"source": "".join(cell["source"])} for cell in cells]


def code_of(name: str) -> list[dict]:
    return [cell for cell in cells_of(name) if cell["cell_type"] == "code"]


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def test_the_first_cell_asks_one_question_in_bold_and_one_cell_answers_it(name):
    bold = re.findall(r"\*\*(.+?)\*\*", cells_of(name)[0]["source"], re.DOTALL)
    assert any(sentence.endswith("?") for sentence in bold)
    answers = [cell for cell in code_of(name) if "answer" in cell["metadata"].get("tags", [])]
    assert len(answers) == 1 and "display.answer(" in answers[0]["source"]
    assert sum("hero" in cell["metadata"].get("tags", []) for cell in code_of(name)) <= 1


def test_code_cells_of_the_main_text_are_read_in_prose(name):
    main = itertools.takewhile(lambda cell: "## The paper's sentences" not in cell["source"], cells_of(name)[4:])
    kinds = "".join(cell["cell_type"][0] for cell in main)
    assert "c" * (MOST_CODE_CELLS + 1) not in kinds


def test_the_first_cells_are_the_opening_imports_parameters_and_study(name):
    assert [cell["cell_type"] for cell in cells_of(name)[:4]] == ["markdown", "code", "code", "code"]


def test_after_every_figure_and_printed_table_of_the_paper_there_is_prose(name):
    cells = cells_of(name)
    for place, cell in enumerate(cells):
        tags = cell["metadata"].get("tags", [])
        if any(tag.startswith("paper-") for tag in tags):
            following = [after["cell_type"] for after in cells[place + 1 : place + 4]]
            assert "markdown" in following, f"{tags}: nothing reads it"


def test_what_is_shown_is_no_wide_array(name):
    for cell in code_of(name):
        for output in cell["outputs"]:
            shown = output.get("data", {})
            plain = "".join(shown.get("text/plain", "")) if "text/html" not in shown else ""
            is_record = plain.startswith("recorded: ")
            assert is_record or not plain.startswith("array(") and len(plain) < WIDEST, cell["source"]
            assert not re.search(r"\d\.\d{9,}", "".join(output.get("text", ""))), cell["source"]  # sixteen digits
