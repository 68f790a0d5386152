"""The page of a notebook stands by itself: no script, and nothing fetched."""

import re

import nbformat
import pytest

from lib import ROOT
from lib.show.pages import write_page


def test_the_page_of_a_notebook_runs_and_fetches_nothing(tmp_path):
    [notebook] = (ROOT / "notebooks").glob("07_*.ipynb")  # it has formulas
    write_page(notebook, tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert "<script" not in page and not re.search(r"@import|url\(['\"]?https?:", page)
    fetched = re.findall(r"<(?!a\b)[^>]* (?:src|href)=\"([^\"]*)", page)
    assert fetched and all(url.startswith("data:") for url in fetched)


@pytest.mark.parametrize(
    "collection, holds", [("published-words", True), ("mine", False)]
)
def test_what_the_committed_run_shows_is_told_of_no_other_run(
    collection, holds, tmp_path
):
    new, tags = nbformat.v4, {"tags": ["committed"]}
    cells = [
        new.new_code_cell(
            'collection = "published-words"  # read', metadata={"tags": ["parameters"]}
        ),
        new.new_code_cell(
            f'collection = "{collection}"', metadata={"tags": ["injected-parameters"]}
        ),
        new.new_markdown_cell("A slope is a rise.", metadata={}),
        new.new_markdown_cell("Six of ten models agree.", metadata=tags),
        new.new_code_cell("needs(False)"),
        new.new_code_cell("never()"),
        new.new_markdown_cell("What the rest says."),
    ]
    for number in (0, 1, 4):
        cells[number].execution_count = number
    executed = tmp_path / "02.ipynb"
    nbformat.write(new.new_notebook(cells=cells), executed)
    write_page(executed, tmp_path / "02.html")
    page = (tmp_path / "02.html").read_text()
    assert "A slope" in page and ("Six of ten" in page) == holds
    assert "needs" in page and "never" not in page and "the rest says" not in page
