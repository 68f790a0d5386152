"""The page of a notebook stands by itself: no script, and nothing fetched."""

import re

from lib import ROOT
from lib.apps.runner.front import write_page


def test_the_page_of_a_notebook_runs_and_fetches_nothing(tmp_path):
    [notebook] = (ROOT / "notebooks").glob("07_*.ipynb")  # it has formulas
    write_page(notebook, tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert "<script" not in page and not re.search(r"@import|url\(['\"]?https?:", page)
    fetched = re.findall(r"<(?!a\b)[^>]* (?:src|href)=\"([^\"]*)", page)
    assert fetched and all(url.startswith("data:") for url in fetched)
