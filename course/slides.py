"""Slides: for each notebook its question, its picture and its answer, in one page."""

import nbformat

from lib import ROOT
from lib.apps.runner.front import opening
from lib.apps.runner.jobs import find_notebooks
from lib.io import replacing
from lib.show.display import ANSWER_TYPE
from lib.show.pages import TEMPLATES

SLIDES = ROOT / "data" / "course" / "slides.html"


def write(path=SLIDES, notebooks=ROOT / "notebooks") -> None:
    """Write the slides as one page that fetches nothing, and print where it is."""
    from nbconvert import HTMLExporter  # here, because it takes a second to load

    cells = []
    for notebook in find_notebooks(notebooks):
        title, question = opening(notebook)
        text = f"# {notebook.name[:2]} {title}\n\n**{question}**"
        cells.append(nbformat.v4.new_markdown_cell(text))
        cells += filter(is_shown, nbformat.read(notebook, 4).cells)
    for number, cell in enumerate(cells):
        cell.id = f"slide-{number}"  # some notebooks give one id to their answer
    exporter = HTMLExporter(
        exclude_input=True,
        extra_template_paths=[str(TEMPLATES), str(ROOT / "course")],
        template_file="slides.html.j2",
    )
    slides = nbformat.v4.new_notebook(cells=cells)
    name = {"metadata": {"name": "What do reward models value?"}}
    body, _ = exporter.from_notebook_node(slides, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        part.write_text(body, encoding="utf-8")
    print(f"Open {path} by double click.")


def is_shown(cell: nbformat.NotebookNode) -> bool:
    """Return whether a cell shows the notebook's picture or answer."""
    outputs = cell.get("outputs", [])
    has_answer = any(ANSWER_TYPE in output.get("data", {}) for output in outputs)
    return has_answer or "hero" in cell.metadata.get("tags", [])
