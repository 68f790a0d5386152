"""Gathers the site in one folder, and writes the notebooks that Colab opens."""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import nbformat
import pandas as pd

from .... import ROOT, InputError
from ....io import lock, shown_path
from ....show.pages import template
from ....tables import scores
from ....tables.collection import ITEMS, WORDS, Collection
from ....tables.exports import write_csv
from ...runner import front
from ...runner.files import read
from ..book import building as book
from ..course import making as course
from ..explorer import page as explorer

SITE = ROOT / "data" / "site"
REWARDS = {
    f"{study}.csv": explorer.path_of(study).with_suffix(".csv")
    for study in (WORDS, ITEMS)
}
PARTS = {
    "book": course.BOOK,
    "class.zip": course.COURSE / f"{course.CLASS}.zip",
} | REWARDS
# a link of the front page to a source
PLACE = re.compile(r'<a href="\.\./([^"]+)\.(ipynb|md)">(.*?)</a>', re.DOTALL)
FULL = "!pip install -q -c requirements.lock -e '.[notebooks]'"
LIGHT = (
    "!grep -vE '^(ipyw|jupy|paper)' .binder/requirements.txt | xargs pip install -q && bash "
    ".binder/postBuild"
)
# 00 and 01 train what they read
INSTALL = dict.fromkeys(("00", "01"), FULL)
INSTALL |= dict.fromkeys(("02", "03", "04", "05", "06", "07"), LIGHT)
COLAB = """# Get the project and its packages.
# If Colab asks for a restart, restart and run this cell again.
![ -d /content/project ] \\
    || git clone --quiet --depth 1 https://github.com/{repository} /content/project
%cd /content/project
{install}"""


def make() -> None:
    """Build the explorer, the course and the book, gather them in data/site, and print the path of
    the first page.

    InputError if the released scores or those of the small models are missing, or if another
    process makes the site.
    """
    with lock(SITE):
        explorer.explore("published")
        tables = zip((WORDS, ITEMS), REWARDS.values(), strict=True)
        for study, path in tables:
            write_csv(rewards_of(study), path)
        # the book links students' copies; the class gets the book
        for build in (course.make, book.make, course.make):
            build()
        repository = os.environ.get("GITHUB_REPOSITORY", "")
        place = shown_path(gather(SITE, PARTS, repository))
        print(f"The site: open {place} by double click, or serve the folder.")


def rewards_of(study: Collection) -> pd.DataFrame:
    """Return all rewards of a collection: texts x (model, prompt), in columns named `model
    prompt`.
    """
    parts = []
    for name, table in scores.read_all(study).items():
        rewards = table.set_index("text")[scores.prompt_names(table)]
        parts.append(rewards.add_prefix(f"{name} "))
    return pd.concat(parts, axis=1)


def gather(folder: Path, parts: Mapping[str, Path], repository: str = "") -> Path:
    """Write the site into a folder and return the path of its first page. An earlier site is
    replaced.

    parts: place on the site -> the file or folder that is copied there. The place `book` holds the
    book. repository: owner/name on GitHub. Without one, no page links to Binder, to Colab or to
    files outside the site.
    """
    for place, path in parts.items():
        if not path.exists():
            raise InputError(
                f"{place} of the site is missing; run: make reproduce published"
            )
    shutil.rmtree(folder, ignore_errors=True)
    # figures and tables alone
    no_pages = shutil.ignore_patterns("*.html", "*.ipynb", "*.lock", ".*")
    shutil.copytree(front.FIGURES / "published", folder / "published", ignore=no_pages)
    for place, path in parts.items():
        copy = shutil.copytree if path.is_dir() else shutil.copyfile
        copy(path, folder / place)
    text = front.page(
        template("site", Path(__file__).parent),
        repository=repository,
        online=INSTALL,
    )
    first = folder / "index.html"
    first.write_text(
        PLACE.sub(lambda link: _moved(link, folder, repository), text),
        encoding="utf-8",
    )
    if repository:
        (folder / "colab").mkdir()
        for number, install in INSTALL.items():
            [path] = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
            notebook = read(path)
            first_cell = COLAB.format(repository=repository, install=install)
            cell = nbformat.v4.new_code_cell(first_cell, id="begin")
            notebook.cells.insert(0, cell)
            nbformat.write(notebook, folder / "colab" / path.name)
    return first


def _moved(link: re.Match, folder: Path, repository: str) -> str:
    """Return a link of the front page as the site has it: into the book, else to the repository,
    else its text.
    """
    source, ending, text = link.groups()
    if (folder / "book" / f"{source}.html").is_file():
        return f'<a href="book/{source}.html">{text}</a>'
    return (
        f'<a href="https://github.com/{repository}/blob/HEAD/{source}.{ending}">{text}</a>'
        if repository
        else text
    )
