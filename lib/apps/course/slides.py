"""Slides for a lecture: one per notebook, with its question, its picture and its answer."""

import html
from pathlib import Path

from nbformat import NotebookNode, v4

from ... import ROOT
from ...io import replacing
from ...notebooks.files import find_notebooks, opening, read
from ...notebooks.pages import highlights_of, shown_path, without_folders
from ...show.pages import TEMPLATES
from .students import COURSE

SLIDES = COURSE / "slides.html"
TITLE = "What do reward models value?"


def make(path: Path = SLIDES, notebooks: Path = ROOT / "notebooks") -> None:
    """Write a slide per notebook into one page, and print where it is. Space or Page Down shows the next slide."""
    import nbconvert  # here, because it takes a second to load

    cells = [slide_of(notebook) for notebook in find_notebooks(notebooks)]
    exporter = nbconvert.HTMLExporter(extra_template_paths=[str(TEMPLATES)], template_file="slides.html.j2")
    page, _ = exporter.from_notebook_node(v4.new_notebook(cells=cells), {"metadata": {"name": TITLE}})
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        part.write_text(page, encoding="utf-8")
    print(f"Open {shown_path(path)} by double click: {len(cells)} slides, no network.")


def slide_of(notebook: Path) -> NotebookNode:
    """Return the slide of an executed notebook as a Markdown cell; what the notebook does not have is left out."""
    title, question = opening(notebook)
    highlights, attachments = highlights_of(notebook), {}
    parts = [f"# {notebook.name.partition('_')[0]} {title}", f"**{question}**" if question else ""]
    outputs = [output for cell in read(notebook).cells for output in cell.get("outputs", [])]
    for output in outputs if highlights.hero else ():
        about = output.get("metadata", {}).get("image/png", {})
        if about.get("file") == highlights.hero:
            attachments = {"picture.png": {"image/png": output.data["image/png"]}}
            parts.append(f"![{about['alt'].replace('[', '(').replace(']', ')')}](attachment:picture.png)")
    if highlights.answer:
        parts.append(f"<p>{html.escape(without_folders(highlights.answer))}</p>")
    return v4.new_markdown_cell("\n\n".join(filter(None, parts)), attachments=attachments)
