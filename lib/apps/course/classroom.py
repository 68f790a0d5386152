"""The folder for a class: all that a laptop needs, ready to be copied."""

import re
import shutil
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

import nbformat

from ... import ROOT, InputError
from ...notebooks.files import find_notebooks
from ...notebooks.jobs import tables
from ...tables.collection import EMBEDDED
from ..explorer import page as explorer
from .students import COURSE, student_copy

CLASS = COURSE / "class"
BOOK = ROOT / "data" / "book" / "html"  # where python -m lib.run book leaves it
START = "START.md"
MB = 1_000_000
LARGEST_ZIP = 100 * MB  # what a school's mail or learning platform still takes
INSTALLED = "1 GB"  # by pip: 824 MB without byte code were measured on Linux, which Python adds as it runs


def make(folder: Path = CLASS, notebooks: Path = ROOT / "notebooks", *, wheels: bool = False) -> None:
    """Write the folder, and a zip of it if that is small; print where they are. An earlier copy is replaced.

    wheels: include the packages to install, for laptops of this system and this version of Python. InputError if the
    folder holds something else, or if nothing was scored.
    """
    if not (EMBEDDED.models and EMBEDDED.logprobs.models):
        raise InputError(
            f"a class needs the scores of the small models, and {EMBEDDED.scores} has none; run: make reproduce"
        )
    if folder.is_dir() and any(folder.iterdir()) and not (folder / START).is_file():
        raise InputError(f"{folder} holds something else; name an empty folder: python -m lib.run class ...")
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    _fill(part, notebooks)
    if wheels:
        _add_wheels(part)
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size / MB:.0f} MB for each laptop; begin with its {START}.")
    if size < LARGEST_ZIP:
        print(shutil.make_archive(str(folder), "zip", folder.parent, folder.name))
    if not BOOK.is_dir():
        print("Without the book, which is not built: python -m lib.run book, then this again.")


def _fill(folder: Path, notebooks: Path) -> None:
    shutil.copytree(ROOT / "lib", folder / "lib", ignore=shutil.ignore_patterns("__pycache__", ".*"))
    # What notebooks read: the project's tables, scores, and claims of earlier runs. Each specification of an analysis
    # in a table of its own would be large, and no notebook reads it.
    studies = (*EMBEDDED.scores.glob("*.parquet"), *EMBEDDED.logprobs.scores.glob("*.parquet"))
    results = (path for path in (ROOT / "figures").rglob("*.csv") if "_specifications_" not in path.name)
    for path in {*tables(), *studies, *EMBEDDED.claims.glob("*.csv"), *results}:
        place = folder / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    for path in find_notebooks(notebooks):  # beside lib, so that their kernels import it without an installation
        nbformat.write(student_copy(path), folder / path.name)
    explorer.write(EMBEDDED, folder / "explorer.html")
    if BOOK.is_dir():
        shutil.copytree(BOOK, folder / "book")
    for name, extra in (("requirements.txt", ""), ("requirements-models.txt", "models")):
        (folder / name).write_text("\n".join([*requirements(extra), ""]), encoding="utf-8")
    start = resources.files("lib.apps.course").joinpath(START).read_text(encoding="utf-8")
    start = start.replace("{size}", INSTALLED).replace("{book}", "" if BOOK.is_dir() else " (not in this copy)")
    (folder / START).write_text(start, encoding="utf-8")


def _add_wheels(folder: Path) -> None:
    """Download the packages of requirements.txt into the folder, so that laptops install them without a network."""
    given = ["-c", "requirements.lock", "-r", "requirements.txt", "-w", "wheels"]
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", *given]
    try:
        subprocess.run(command, cwd=folder, check=True)
    except subprocess.CalledProcessError as error:
        raise InputError("pip could not get all packages (see above); use a network, or leave out --wheels") from error


def requirements(extra: str = "") -> list[str]:
    """Return the packages of the light installation, or of an extra, as `name==version` in requirements.lock."""

    def normalised(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["optional-dependencies"][extra] if extra else project["dependencies"]
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").split()
    pinned = {normalised(line.partition("==")[0]): line for line in lines}
    return [pinned[normalised(name)] for name in wanted]
