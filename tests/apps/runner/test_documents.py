"""Pages stand by themselves: no script and nothing fetched, no folder of this machine."""

import re
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

from lib import ROOT
from lib.apps.runner.files import write_page

# they have formulas
NOTEBOOKS = [
    next((ROOT / "notebooks").glob(f"{number}_*.ipynb")) for number in ("00", "07")
]


class Elements(HTMLParser):
    """Of a page: names of elements, what they fetch, and the texts that stand for pictures."""

    def __init__(self, page: str):
        super().__init__()
        self.tags, self.fetched, self.alts = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.append(tag)
        if tag != "a":
            self.fetched += [
                given[name] for name in ("src", "href", "data") if name in given
            ]
        self.alts += [given["alt"]] if tag == "img" and "alt" in given else []


def page_of(tmp_path: Path, notebook) -> str:
    nbformat.write(notebook, tmp_path / "a.ipynb")
    write_page(tmp_path / "a.ipynb", tmp_path / "a.html")
    return (tmp_path / "a.html").read_text()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_page_of_a_notebook_runs_and_fetches_nothing(tmp_path, path):
    write_page(path, tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    elements = Elements(page)
    assert (
        "script" not in elements.tags
        and [url for url in elements.fetched if not url.startswith("data:")] == []
    )
    assert not re.search(r"@import|url\(['\"]?https?:", page)


def test_an_exercises_answer_is_folded_away_and_nothing_else_is(tmp_path):
    cells = [
        v4.new_markdown_cell("# Title"),
        v4.new_code_cell("tau = ...", metadata={"tags": ["solution"]}),
        v4.new_code_cell("assert tau is not None"),
    ]
    page = page_of(tmp_path, v4.new_notebook(cells=cells))
    before, folded = page.split("<details><summary>Show an answer</summary>")
    answer, after = folded.split("</details>")
    assert (
        "tau" in answer
        and "assert" not in answer
        and "assert" in after
        and "<details>" not in after
    )


def test_a_page_names_no_folder_of_this_machine(tmp_path):
    outputs = [
        v4.new_output(
            "stream", text=f"wrote {ROOT}/figures/x.png in {Path.home()}/a\n"
        ),
        v4.new_output(
            "error", ename="E", evalue="", traceback=[f"File {ROOT}/lib/a.py"]
        ),
    ]
    cells = [v4.new_markdown_cell("# A"), v4.new_code_cell("1", outputs=outputs)]
    page = page_of(tmp_path, v4.new_notebook(cells=cells))
    assert f"{ROOT}/" not in page and f"{Path.home()}/" not in page
    assert "figures/x.png" in page and "lib/a.py" in page
