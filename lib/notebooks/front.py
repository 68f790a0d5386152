"""The front page of the project, its picture, the numbers in README.md and docs/, and slides for a lecture.

All are made from committed tables and notebooks alone, so that a fresh clone can make and open them.
"""

import html
import re
from pathlib import Path

from nbformat import NotebookNode, v4

from .. import ROOT
from ..claims import cells, claims, scorecard, sections
from ..io import replacing
from ..show import figures
from ..show.pages import TEMPLATES, template
from ..show.token_charts import draw_token_grid
from ..tables.collection import PUBLISHED
from .files import find_notebooks, opening, read
from .pages import highlights_of, shown_path, without_folders

FIGURES, NOTEBOOKS = ROOT / "figures", ROOT / "notebooks"
PICTURE = "front"
LISTED = 4  # tokens of each end in the picture
TITLE = "What ten real reward models reward most and least"
COMMAND = re.compile(r"^\| `(make .+?)` \| (.+?) \|$", re.MULTILINE)  # a row of README's table of commands


def write() -> None:
    """Write the numbers of README.md and docs/, the front picture and the front page again."""
    sections.write()
    draw_picture()
    with replacing(FIGURES / "index.html") as part:
        part.write_text(page(), encoding="utf-8")


def draw_picture() -> Path:
    """Draw the most and least rewarded tokens of the paper's ten models from its Table A6, offensive ones hidden."""
    figures.style()
    listed = cells.printed_lists("A6")
    ends = listed[listed.index.get_level_values("position") <= LISTED]
    return figures.save(draw_token_grid(ends, title=TITLE), PUBLISHED, PICTURE, alt_text())


def page() -> str:
    """Return the front page as HTML."""
    gathered = sections.committed()
    findings = sections.findings(scorecard.scorecard(gathered), gathered)
    notebooks = [dict(zip(("title", "question"), opening(path), strict=True), file=path.name)
                 for path in find_notebooks(NOTEBOOKS)]  # fmt: skip
    return template("front").render(
        title="Seeing what reward models value", front=f"published/{PICTURE}.png", front_alt=alt_text(),
        findings=findings.to_dict("records"), notebooks=notebooks,
        commands=COMMAND.findall((ROOT / "README.md").read_text(encoding="utf-8")),
    )  # fmt: skip


def alt_text() -> str:
    """Return what the front picture shows, for those who cannot see it."""
    first = claims.paper_table("tables_a6_a7").query("table == 'A6' and end == 'optimal' and position == 1")
    tokens = ", ".join(first["text"].str.strip())
    return f"{TITLE}: a column of tokens for each model. The most rewarded tokens are {tokens}."


# --- slides -------------------------------------------------------------------------------------------------------


def write_slides(path: Path = ROOT / "data" / "course" / "slides.html") -> None:
    """Write a slide per notebook into one page, and print where it is. Space or Page Down shows the next slide."""
    import nbconvert  # here, because it takes a second to load

    cells = [slide_of(notebook) for notebook in find_notebooks(NOTEBOOKS)]
    exporter = nbconvert.HTMLExporter(extra_template_paths=[str(TEMPLATES)], template_file="slides.html.j2")
    metadata = {"metadata": {"name": "What do reward models value?"}}
    slides, _ = exporter.from_notebook_node(v4.new_notebook(cells=cells), metadata)
    with replacing(path) as part:
        part.write_text(slides, encoding="utf-8")
    print(f"Open {shown_path(path)} by double click: {len(cells)} slides, no network.")


def slide_of(notebook: Path) -> NotebookNode:
    """Return the slide of an executed notebook: a Markdown cell with its question, its picture and its answer."""
    title, question = opening(notebook)
    highlights, attachments = highlights_of(notebook), {}
    parts = [f"# {notebook.name.partition('_')[0]} {title}", f"**{question}**" if question else ""]
    for output in [output for cell in read(notebook).cells for output in cell.get("outputs", [])]:
        about = output.get("metadata", {}).get("image/png", {})
        if highlights.hero and about.get("file") == highlights.hero:
            attachments = {"picture.png": {"image/png": output.data["image/png"]}}
            parts.append(f"![{about['alt'].replace('[', '(').replace(']', ')')}](attachment:picture.png)")
    if highlights.answer:
        parts.append(f"<p>{html.escape(without_folders(highlights.answer))}</p>")
    return v4.new_markdown_cell("\n\n".join(filter(None, parts)), attachments=attachments)
