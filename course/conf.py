"""Sphinx's settings for the site, whose sources are the project's own notebooks and documents."""

from importlib.util import find_spec
from pathlib import Path

import nbformat
from docutils import nodes
from sphinx.application import Sphinx

project = html_title = "Seeing what reward models value"
copyright = "The project's contributors, MIT licence"
root_doc = "course/index"
include_patterns = [
    "README.md",
    "course/index.md",
    "benchmarks/calibration.md",
    "benchmarks/search.md",
    "docs/*.md",
    "notebooks/*.ipynb",
    "notebooks/exercises/*.ipynb",
]
exclude_patterns = [".*", "data", "figures", "lib", "tests"]  # not looked through
extensions = ["myst_nb", "sphinx.ext.mathjax"]
nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, str] = {}
nb_merge_streams = True
# programs read these outputs; a link to a document that has no page here becomes text
suppress_warnings = ["mystnb.unknown_mime_type", "myst.xref_missing"]
smartquotes = False  # pages print what was written
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
# MathJax 3 in one file, from a package: no page asks a network for it
[mathjax] = find_spec("sphinx-mathjax-offline").submodule_search_locations
mathjax_path = "tex-svg.js"
mathjax3_config = {"svg": {"fontCache": "global"}, "options": {"enableMenu": False}}
html_static_path = ["static", f"{mathjax}/static/mathjax/{mathjax_path}"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_theme = "pydata_sphinx_theme"
html_show_search_summary = False  # it prints folded words in clear
# sources hold folded words too, and answers
html_copy_source = html_show_sourcelink = False
html_show_sphinx = html_use_index = False
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_sidebars = {"**": ["globaltoc"]}
html_theme_options = {
    "logo": {"text": "What reward models value"},
    "navbar_center": [],
    "navbar_end": ["theme-switcher"],
    "primary_sidebar_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
# tag of a code cell -> MyST-NB's tag that folds a part of it, and what is written on the fold
FOLDED = {
    "solution": ("hide-input", "Show an answer"),
    "comparison": ("hide-input", "Show what the check compares"),
    "check": ("hide-output", "Show what the check prints"),
}


def setup(app: Sphinx) -> None:
    """Connect what the site adds; Sphinx calls this."""
    app.connect("source-read", fold)
    app.connect("doctree-read", leave_tokens_out_of_search)


def fold(app: Sphinx, name: str, source: list[str]) -> None:
    """Fold a notebook's answers, describe its pictures, and link its blank copy."""
    if not name.startswith("notebooks/"):
        return
    notebook = nbformat.reads(source[0], 4)
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        about = {}
        for tag in FOLDED.keys() & {*cell.metadata.get("tags", [])}:
            hidden, about["code_prompt_show"] = FOLDED[tag]
            cell.metadata.tags.append(hidden)
        for output in cell.outputs:
            alt = output.get("metadata", {}).get("image/png", {}).get("alt")
            about |= {"image": {"alt": alt}} if alt else {}
        cell.metadata.mystnb = about
    if "/exercises/" in name:
        copy = f"path:blank/{Path(name).name}.ipynb"
        notebook.cells[0].source += f"\n\n[Blank copy, to fill in]({copy})"
    source[0] = nbformat.writes(notebook)


def leave_tokens_out_of_search(app: Sphinx, page: nodes.document) -> None:
    """Mark outputs that show tokens, which hold folded words in clear."""
    for raw in page.findall(nodes.raw):
        if 'class="token' in raw.astext():
            raw["classes"].append("no-search")
