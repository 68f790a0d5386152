"""The site: notebooks, exercises, glossary and teaching plans as pages, and the explorers."""

import shutil

from lib import ROOT, InputError
from lib.io import lock
from lib.tables.collection import ITEMS, WORDS

from .explorer import page

SITE = ROOT / "data" / "site"
FIRST = '<meta http-equiv="refresh" content="0; url=course/index.html">'


def build(folder=SITE, *options: str) -> None:
    """Build the site and print its first page. InputError if Sphinx warns of anything.

    options: of sphinx-build.
    """
    from sphinx.cmd.build import build_main  # here, because it takes a second to load

    with lock(folder):
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
        (folder / "index.html").write_text(FIRST, encoding="utf-8")
        print(
            f"The site: open {folder / 'index.html'} by double click, or serve the folder."
        )
