"""The front page is what the committed tables give, and it names committed files only."""

import re
import subprocess

from lib import ROOT
from lib.notebooks import front

LINKS = re.compile(r'(?:href|src)="([^"#]+)"')


def test_the_committed_front_page_is_what_the_committed_tables_give():
    assert (front.FIGURES / "index.html").read_text(encoding="utf-8") == front.page()


def test_every_link_of_the_front_page_is_a_committed_file():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    links = LINKS.findall(front.page())
    paths = {(front.FIGURES / link).resolve().relative_to(ROOT.resolve()).as_posix() for link in links}
    assert len(paths) > 20
    assert paths <= set(listed), sorted(paths - set(listed))
