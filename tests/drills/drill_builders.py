"""Drills of what is built for a class, on demand (make nightly): two builders of one folder at once
leave what one of them leaves.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from lib import ROOT

pytestmark = pytest.mark.drill
BOOK = """
import sys
from pathlib import Path
from lib import InputError
from lib.apps.classroom.book import building
try:
    building.make(Path(sys.argv[1]), Path(sys.argv[2]))
except InputError as error:
    sys.exit(f"error: {error}")
"""
# builds nothing but the front page: the parts are files that are there
SITE = """
import sys, time
from pathlib import Path
from lib import ROOT, InputError
from lib.apps.classroom.site import gathering
gathering.explorer.explore = lambda *which: time.sleep(3)
gathering.course.make = gathering.book.make = lambda: None
gathering.rewards_of = gathering.write_csv = lambda *given: None
gathering.PARTS = {"book": ROOT / "docs"}
gathering.SITE = Path(sys.argv[1])
try:
    gathering.make()
except InputError as error:
    sys.exit(f"error: {error}")
"""


def two_at_once(*command: str) -> list[tuple[int, str]]:
    """The exit code and the words of two processes of one command, started together."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    both = [
        subprocess.Popen([sys.executable, *command], cwd=ROOT, text=True, **pipes)
        for _ in range(2)
    ]
    told = [process.communicate()[0] for process in both]
    return [
        (process.returncode, words) for process, words in zip(both, told, strict=True)
    ]


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_two_courses_at_once_are_one_whole_course(tmp_path):
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    command = [sys.executable, "-m", "lib.run", "course"]
    subprocess.run([*command, str(alone)], cwd=ROOT, check=True)
    for code, words in two_at_once("-m", "lib.run", "course", str(shared)):
        assert "Traceback" not in words
        assert code == 0 or words.strip().splitlines()[-1].startswith("error: ")
    assert names_in(shared) == names_in(alone)
    for path in shared.rglob("*.ipynb"):
        nbformat.validate(nbformat.read(path, 4))


def test_of_two_books_at_once_one_is_built_and_the_other_says_so(tmp_path):
    notebooks, html = tmp_path / "notebooks", tmp_path / "html"
    (notebooks / "exercises").mkdir(parents=True)
    for number in ("02", "11"):
        [path] = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
        for place in (path.name, f"exercises/{path.name}"):
            shutil.copyfile(ROOT / "notebooks" / place, notebooks / place)
    ended = two_at_once("-c", BOOK, str(notebooks), str(html))
    assert sorted(code for code, _ in ended) == [0, 1], ended
    [refusal] = [words for code, words in ended if code]
    assert "Traceback" not in refusal
    assert "is writing" in refusal and "wait until it ends" in refusal
    assert (html / "index.html").read_text().rstrip().endswith("</html>")


def test_of_two_sites_at_once_one_is_built_and_the_other_says_so(tmp_path):
    ended = two_at_once("-c", SITE, str(tmp_path / "site"))
    assert sorted(code for code, _ in ended) == [0, 1], ended
    [refusal] = [words for code, words in ended if code]
    assert "Traceback" not in refusal and "is writing" in refusal
    assert (tmp_path / "site" / "index.html").is_file()
