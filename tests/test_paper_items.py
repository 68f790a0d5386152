"""Each of the paper's 33 figures and tables stands beside ours, or a sentence says why not."""

import nbformat
import pytest
from conftest import with_tag

from lib import ROOT
from lib.apps.runner.jobs import find_notebooks
from lib.claims import claims

ITEMS = claims.paper_table("items").set_index("item")


@pytest.mark.parametrize("item", ITEMS.index)
def test_the_item_has_a_cell_with_its_tag_that_shows_something(item):
    tag, name = ITEMS.loc[item, ["tag", "notebook"]]
    assert tag == "paper-" + item.lower().replace(" ", "-")
    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", 4)
    assert any(cell.outputs for cell in with_tag(notebook, tag))


def test_all_33_are_listed_once_and_no_notebook_tags_another():
    assert len(ITEMS) == 33 and ITEMS.index.is_unique
    tags = [
        tag
        for path in find_notebooks(ROOT / "notebooks")
        for cell in nbformat.read(path, 4).cells
        for tag in cell.metadata.get("tags", [])
    ]
    assert {tag for tag in tags if tag.startswith("paper-")} == set(ITEMS["tag"])


@pytest.mark.parametrize("picture", ITEMS["picture"][ITEMS["picture"] != ""])
def test_a_picture_is_committed(picture):
    assert (ROOT / "figures" / "published" / picture).is_file()
