"""Slides for two sessions: a question, a figure or table of a notebook, and a sentence of it."""

import tomllib
from pathlib import Path

import nbformat

from lib import ROOT, InputError
from lib.io import replacing
from lib.show.pages import TEMPLATES

SLIDES = ROOT / "data" / "course" / "slides.html"
# session -> its slides: notebook, the cell that it shows, question and sentence
SESSIONS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def write(path=SLIDES, notebooks=ROOT / "notebooks") -> None:
    """Write the slides as one page that fetches nothing, and print where it is."""
    from nbconvert import HTMLExporter  # here, because it takes a second to load

    cells = []
    for session, slides in SESSIONS.items():
        cells += [slide_of(notebooks, session, **slide) for slide in slides]
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


def slide_of(
    notebooks: Path, session: str, notebook: str, shows: str, asks: str, says: str
) -> nbformat.NotebookNode:
    """Return a slide as one cell. InputError unless the executed notebook has what it shows and
    says.
    """
    [path] = notebooks.glob(f"{notebook}_*.ipynb")
    cells = nbformat.read(path, 4).cells
    shown = [cell.outputs for cell in cells if cell.id == shows]
    printed = [output for cell in cells for output in cell.get("outputs", [])]
    texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
    texts += [output.get("text", "") for output in printed]
    if not shown or says not in "\n".join(texts):
        raise InputError(f"{path.name} has no cell {shows!r}, or does not say: {says}")
    title = f"# {asks}\n\nSession {session}, notebook {notebook}"
    outputs = [in_words(title), *shown[0], in_words(says)]
    # else nbformat draws an id, and each page is another one
    return nbformat.v4.new_code_cell(outputs=outputs, id=f"{notebook}-{shows}")


def in_words(text: str) -> nbformat.NotebookNode:
    """Return text in Markdown as an output."""
    return nbformat.v4.new_output("display_data", {"text/markdown": text})
