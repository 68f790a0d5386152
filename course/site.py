"""The site: notebooks, exercises, glossary and teaching plans as pages, and the explorers."""

import re
import shutil

from lib import ROOT, InputError
from lib.tables.collection import ITEMS, WORDS

from .explorer import page

SITE = ROOT / "data" / "site"
FIGURES = ROOT / "figures"
# links of the front page to the sources of pages
SOURCE = re.compile(r'(?<=href=")\.\./([^"]+)\.(?:ipynb|md)(?=")')
CONTENTS = (
    '<nav><a href="course/index.html">All pages: contents and explorers</a></nav>'
)


def build(folder=SITE, *options: str) -> None:
    """Build the site and print its first page. InputError if Sphinx warns of anything.

    options: of sphinx-build.
    """
    from sphinx.cmd.build import build_main  # here, because it takes a second to load

    work = folder.with_name(".site")  # each build reads everything anew
    shutil.rmtree(work, ignore_errors=True)
    settings = ["-q", "--fail-on-warning", "-c", f"{ROOT / 'course'}"]
    settings += ["-d", f"{work / 'doctrees'}", *options]
    if build_main([*settings, f"{ROOT}", f"{work / 'html'}"]):
        raise InputError("the site cannot be built: see the warnings above")
    shutil.rmtree(folder, ignore_errors=True)
    (work / "html").rename(folder)
    shutil.rmtree(work)
    for study in filter(lambda study: study.models, (WORDS, ITEMS)):
        page.write(study, folder / "explorer" / f"{study}.html")
    text = (FIGURES / "index.html").read_text("utf-8")
    text = SOURCE.sub(r"\1.html", text).replace("<h1>", f"{CONTENTS}<h1>", 1)
    (folder / "index.html").write_text(text, encoding="utf-8")
    no_pages = shutil.ignore_patterns("*.html", "*.ipynb", "*.lock")
    shutil.copytree(FIGURES / "published", folder / "published", ignore=no_pages)
    print(
        f"The site: open {folder / 'index.html'} by double click, or serve the folder."
    )
