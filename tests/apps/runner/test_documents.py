"""Pages stand by themselves: no script and nothing fetched, no folder of this machine, formulas
as pictures.
"""

import re
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

from lib import ROOT
from lib.apps.runner.pages import FORMULA, without_folders, write_page

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
    write_page(tmp_path / "a.ipynb", tmp_path / "a.html", "Title")
    return (tmp_path / "a.html").read_text()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_page_of_a_notebook_runs_and_fetches_nothing(tmp_path, path):
    write_page(path, tmp_path / "a.html", "Title")
    page = (tmp_path / "a.html").read_text()
    elements = Elements(page)
    assert (
        "script" not in elements.tags
        and [url for url in elements.fetched if not url.startswith("data:")] == []
    )
    assert not re.search(r"@import|url\(['\"]?https?:", page)
    cells = nbformat.read(path, 4).cells
    formulas = sum(
        len(FORMULA.findall(cell.source))
        for cell in cells
        if cell.cell_type == "markdown"
    )
    pictures = [
        output.metadata["image/png"]
        for cell in cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("metadata", {})
    ]
    assert all(picture["alt"] for picture in pictures)
    folded = [
        output.get("metadata", {}).get("text/html", {}).get("pictures", {})
        for cell in cells
        for output in cell.get("outputs", [])
    ]
    assert len(elements.alts) == formulas + len(pictures) + sum(map(len, folded))


def test_an_exercises_answer_is_folded_away_and_nothing_else_is(tmp_path):
    cells = [
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


def test_a_formula_is_a_picture_with_its_text(tmp_path):
    source = (
        r"With $k_{hi} > 0$ and"
        + "\n\n"
        + r"$$p = \frac{e^{z}}{2}$$"
        + "\n\nit costs 5$ or 6$; \\$x$ $\\nonsense{$."
    )
    elements = Elements(
        page_of(tmp_path, v4.new_notebook(cells=[v4.new_markdown_cell(source)]))
    )
    assert elements.alts == ["k_{hi} > 0", r"p = \frac{e^{z}}{2}"]


def test_a_page_names_no_folder_of_this_machine(tmp_path):
    model, root = tmp_path / "elsewhere" / "my-model", str(ROOT)
    outputs = [
        v4.new_output("stream", text=f"wrote {root}/figures/x.png; read {model}\n"),
        v4.new_output(
            "error",
            ename="E",
            evalue=f"{root}/lib",
            traceback=[f"File \x1b[32m{root}/lib/claims.py:3\x1b[39m"],
        ),
        v4.new_output(
            "display_data",
            data={"text/html": f"<p>{Path.home()}/a</p>", "text/plain": root},
        ),
    ]
    cells = [
        v4.new_code_cell(f'model = "{model}"'),
        v4.new_code_cell("1", outputs=outputs),
    ]
    metadata = {"papermill": {"parameters": {"model": str(model), "tokens": 0}}}
    page = page_of(tmp_path, v4.new_notebook(cells=cells, metadata=metadata))
    for folder in (root, str(tmp_path), str(Path.home()) + "/"):
        assert folder not in page
    assert "figures/x.png" in page and "lib/claims.py:3" in page and "my-model" in page


def test_only_whole_folders_are_left_out():
    assert without_folders(f"{ROOT}/a {ROOT} {ROOT}2/a {ROOT}") == f"a . {ROOT}2/a ."
    assert without_folders("/x/y/z /x/yz", [Path("/x/y"), Path("/")]) == "z /x/yz"


def test_a_page_that_is_made_again_is_the_same(tmp_path):
    """Where papermill puts the parameters in, it draws an id for their cell."""
    injected = {"tags": ["injected-parameters"]}
    drawn = [
        v4.new_notebook(cells=[v4.new_code_cell("a = 1", metadata=injected)])
        for _ in range(2)
    ]
    assert drawn[0].cells[0].id != drawn[1].cells[0].id and page_of(
        tmp_path, drawn[0]
    ) == page_of(tmp_path, drawn[1])
