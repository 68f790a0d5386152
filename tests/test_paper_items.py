"""Every figure and table of the paper has its counterpart: a cell with its tag, in the notebook that is named."""

import json

import pytest

from lib import ROOT
from lib.claims.claims import paper_table

ITEMS = paper_table("items")
TAGGED = {
    path.stem: {tag for cell in json.loads(path.read_text())["cells"] for tag in cell["metadata"].get("tags", [])}
    for path in (ROOT / "notebooks").glob("*.ipynb")
}


@pytest.mark.parametrize("item", ITEMS.to_dict("records"), ids=lambda item: item["tag"])
def test_the_notebook_shows_the_item(item):
    assert item["tag"] in TAGGED[item["notebook"]]
    assert item["tag"] == "paper-" + item["item"].lower().replace(" ", "-")


def test_a_notebook_tags_no_item_that_the_paper_lacks():
    assert {tag for tags in TAGGED.values() for tag in tags if tag.startswith("paper-")} == set(ITEMS["tag"])
    assert len(ITEMS) == 33 and ITEMS["item"].is_unique
