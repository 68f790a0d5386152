"""HTML pages: of executed notebooks, and from jinja2 templates. Shared templates are in
lib/show/templates, others next to their code.
"""

import functools
import re
from pathlib import Path

from ..io import replacing

TEMPLATES = Path(__file__).with_name("templates")


@functools.cache
def template(name: str, folder: Path = TEMPLATES):
    """Return the template <name>.html.j2 of a folder. Whatever is filled in is escaped, unless it
    is a Markup.

    It may extend or include the templates of lib/show/templates.
    """
    # here, because most of lib writes no page
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([folder, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(f"{name}.html.j2")


def write_page(executed: Path, page: Path) -> None:
    """Write an executed notebook as one HTML file, which fetches nothing.

    It ends where the notebook ended. Cells tagged `committed` report what the committed run shows,
    so the page of a run on another collection leaves them out.
    """
    import nbconvert  # here, because it takes a second
    import nbformat
    from traitlets.config import Config

    notebook = nbformat.read(executed, 4)
    cells = notebook.cells
    is_left = [cell.get("execution_count", 0) is None for cell in cells]
    notebook.cells = cells[: [*is_left, True].index(True)]
    # that of the committed run, and the one that papermill put in its place
    given = [cell.source for cell in cells if "parameters" in str(cell.metadata)]
    collections = re.findall(r'^collection = "(.*?)"', "\n".join(given), re.MULTILINE)
    gone = ["committed"] if len({*collections}) > 1 else []
    exporter = nbconvert.HTMLExporter(
        extra_template_paths=[str(TEMPLATES)],
        template_file="notebook.html.j2",
        config=Config(TagRemovePreprocessor={"remove_cell_tags": gone}),
    )
    about = {"metadata": {"name": executed.stem}}
    body, _ = exporter.from_notebook_node(notebook, about)
    with replacing(page) as part:
        part.write_text(body, encoding="utf-8")
