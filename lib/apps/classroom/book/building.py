"""Builds the book: Sphinx over the sources, without executing anything, and with every warning
an error.
"""

import io
import shutil
from importlib import metadata
from pathlib import Path

from .... import ROOT, InputError
from ....io import lock, shown_path
from ..course.making import BOOK
from . import sources

# the wheel that brings MathJax 3, and its file
MATHJAX = ("sphinx-mathjax-offline", "tex-svg.js")


def make(notebooks: Path = ROOT / "notebooks", html: Path = BOOK) -> Path:
    """Build the book and return the path of its first page. InputError, in Sphinx's words, if it
    cannot be built.
    """
    work = html.parent / ".building"
    with lock(html):
        shutil.rmtree(work, ignore_errors=True)
        try:
            missing = sources.assemble(work / "source", work / "extra", notebooks)
            _run_sphinx(work)
            if html.exists():
                html.rename(work / "old")
            (work / "html").rename(html)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    files = [path for path in html.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 1e6
    print(
        *missing,
        f"Open {shown_path(html / 'index.html')} by double click: {size:.0f} MB, no network.",
        sep="\n",
    )
    return html / "index.html"


def _run_sphinx(work: Path) -> None:
    """Write the pages of work/source into work/html; a warning is an error."""
    from sphinx.application import Sphinx
    from sphinx.errors import SphinxError
    from sphinx.util.console import strip_escape_sequences
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    here = Path(__file__).parent
    static = work / "static"
    warnings = io.StringIO()
    wheel, script = MATHJAX
    shutil.copytree(here / "static", static)
    try:
        mathjax = next(
            file for file in metadata.files(wheel) or [] if file.name == script
        )
    except metadata.PackageNotFoundError as error:
        raise InputError(
            f"{wheel} is not installed; run: pip install -c requirements.lock -e '.[book]'"
        ) from error
    shutil.copyfile(mathjax.locate(), static / script)
    settings = {
        "html_static_path": [str(static)],
        "html_extra_path": [str(work / "extra")],
    }
    failure = ""
    try:
        # so that a second build in a process is like the first
        with patch_docutils(), docutils_namespace():
            app = Sphinx(
                work / "source",
                here,
                work / "html",
                work / "doctrees",
                "html",
                settings,
                status=None,
                warning=warnings,
                warningiserror=True,
            )
            app.build(force_all=True)
    except SphinxError as error:
        failure = str(error)
    failure = failure or strip_escape_sequences(warnings.getvalue()).strip()
    if failure:
        raise InputError(f"the book cannot be built: {failure}")
