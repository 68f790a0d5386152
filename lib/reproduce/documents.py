"""A page that stands by itself: it fetches nothing, runs nothing from elsewhere, and names no folder of this machine.

Formulas, which a script from elsewhere would set, are pictures in the page; what matplotlib cannot set stays as TeX.
"""

import base64
import io
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import nbformat

from lib import ROOT
from lib.files import replacing

# The blocks of nbconvert's template that load scripts: for formulas, diagrams and widgets, of which a page needs none.
SCRIPTS = ("html_head_js", "html_head_js_mathjax", "html_head_js_mermaidjs", "jupyter_widgets")
# Nothing runs off a page: code and printed lines wrap, pictures shrink, and a narrow screen is not spent on margins.
STYLE = """<style>
body.jp-Notebook { max-width: 76rem; margin: 0 auto; }
.highlight pre, .jp-RenderedText pre, .jp-OutputArea-output pre { white-space: pre-wrap; overflow-wrap: anywhere;
  word-break: normal !important; }
.jp-RenderedImage img, .jp-RenderedHTMLCommon img { max-width: 100%; height: auto; }
.jp-InputArea > details > summary { font: 14px/1.6 system-ui, sans-serif; cursor: pointer; }
.jp-OutputArea-output, .jp-RenderedHTMLCommon { min-width: 0; overflow-x: auto; }
@media (max-width: 50rem) {
  body.jp-Notebook { padding: .3rem; } .jp-InputPrompt, .jp-OutputPrompt { display: none; }
}
</style>"""
# A picture with the text that stands for it (see lib.figures.save), which the lab template leaves out.
PICTURE = """{% block data_png %}{% set alt = output | get_metadata('alt', 'image/png') %}
<div class="jp-RenderedImage jp-OutputArea-output" tabindex="0">
<img {% if alt %}alt="{{ alt | escape_html }}"{% endif %}
 src="data:image/png;base64,{{ output.data['image/png'] | escape_html }}">
</div>{% endblock %}"""
# An exercise's answer is folded away, as in the book.
ANSWER = """{% block input %}{% if 'solution' in cell.metadata.get('tags', []) %}
<details><summary>Show an answer</summary>{{ super() }}</details>{% else %}{{ super() }}{% endif %}{% endblock %}"""
TEMPLATE = (
    "{% extends 'lab/index.html.j2' %}"
    + "".join(f"{{% block {name} %}}{{% endblock %}}" for name in SCRIPTS)
    + f"{{% block html_head_css %}}{{{{ super() }}}}{STYLE}{{% endblock %}}"
    + PICTURE
    + ANSWER
)
FORMULA = re.compile(r"(?<![\\$])(\$\$?)(?! )([^$]+?)(?<![ \\])\1(?!\$)", re.DOTALL)


def write_page(executed: Path, page: Path, title: str) -> None:
    """Write an executed notebook as one HTML file."""
    import nbconvert
    from jinja2 import DictLoader

    notebook = _told(nbformat.read(executed, 4))
    loaders = [DictLoader({"page.html.j2": TEMPLATE})]
    exporter = nbconvert.HTMLExporter(extra_loaders=loaders, template_file="page.html.j2")
    body, _ = exporter.from_notebook_node(notebook, {"metadata": {"name": title}})
    with replacing(page) as part:
        part.write_text(body, encoding="utf-8")


def _told(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with formulas as pictures and without the folders of this machine, in its parameters too."""
    given = notebook.metadata.get("papermill", {}).get("parameters", {}).values()
    folders = [Path(value).parent for value in given if isinstance(value, str) and Path(value).is_absolute()]
    notebook = _everywhere(notebook, lambda text: without_folders(text, folders))
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = FORMULA.sub(_picture, cell.source)
    return notebook


def _everywhere(value, change):
    """The value with all its strings changed, however deep in lists and mappings; pictures are no strings to read."""
    if isinstance(value, dict):
        kept = {name: inner if name.startswith("image/") else _everywhere(inner, change)
                for name, inner in value.items()}  # fmt: skip
        return nbformat.NotebookNode(kept)
    if isinstance(value, list):
        return [_everywhere(inner, change) for inner in value]
    return change(value) if isinstance(value, str) else value


# --- folders ------------------------------------------------------------------------------------------------------


def without_folders(text: str, folders: Iterable[Path] = ()) -> str:
    """The text with paths inside the project as seen from it, and without where these folders, Python and home lie."""
    short = {Path.home(): "~/", Path(sys.prefix): "python/", **dict.fromkeys(folders, ""), ROOT: ""}
    for folder in sorted(short, key=lambda folder: -len(str(folder))):
        if len(folder.parts) > 1:  # every path begins with the root
            place = re.escape(folder.as_posix())
            text = re.sub(f"{place}/", short[folder], text)
            text = re.sub(rf"{place}(?![\w.-])", short[folder].rstrip("/") or ".", text)
    return text


# --- formulas -----------------------------------------------------------------------------------------------------


def _picture(found: re.Match) -> str:
    """A formula as an image in the line, or, between double dollars, in a line of its own."""
    from matplotlib import rc_context
    from matplotlib.mathtext import math_to_image

    tex, file = " ".join(found[2].split()), io.BytesIO()
    try:
        with rc_context({"mathtext.fontset": "cm", "savefig.transparent": True, "font.size": 13}):
            depth = math_to_image(f"${tex}$", file, format="svg")
    except ValueError:
        return found[0]
    source = base64.b64encode(file.getvalue()).decode()
    alt = "".join(f"&#{ord(c)};" for c in tex)  # inert in Markdown and in HTML
    image = f'<img alt="{alt}" style="vertical-align: {-depth:.1f}pt" src="data:image/svg+xml;base64,{source}">'
    return f"<p>{image}</p>" if found[1] == "$$" else image
