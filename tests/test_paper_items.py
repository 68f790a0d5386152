"""Each of the paper's 33 figures and tables stands beside ours, or a sentence says why not."""

import html
import re

import nbformat
import pytest
from conftest import with_tag

from lib import ROOT
from lib.apps.runner.jobs import find_notebooks
from lib.claims import claims
from lib.show.display import is_offensive

ITEMS = claims.paper_table("items").set_index("item")
LOOKED_FOR = 3  # printed texts of a table
# where a table has a column for each model and a notebook shows one
SHOWN_ALWAYS = "R-Gem-2B"
# Of a printed table: the column that a reader has to see, and the column of the table's own number.
PRINTED = {
    "table_1": ("model_name", None),
    "table_2": ("decoded", None),
    "table_3": ("skewness", None),
    "table_4": ("result", None),
    "table_5": ("result", None),
    "tables_a1_to_a5": ("text", "table"),
    "tables_a6_a7": ("text", "table"),
    "tables_a8_a9": ("text", "table"),
}


def notebook_of(item: str) -> nbformat.NotebookNode:
    path = ROOT / "notebooks" / f"{ITEMS.loc[item, 'notebook']}.ipynb"
    return nbformat.read(path, 4)


def outputs_of(item: str) -> str:
    """Return all that the item's cells show, as text: HTML, plain text and what pictures say of
    themselves.
    """
    shown = []
    for cell in with_tag(notebook_of(item), ITEMS.loc[item, "tag"]):
        for output in cell.outputs:
            shown += [
                output.get("text", ""),
                *output.get("data", {}),
                *map(str, output.get("data", {}).values()),
            ]
            shown.append(output.get("metadata", {}).get("image/png", {}).get("alt", ""))
    return "\n".join(shown)


@pytest.mark.parametrize("item", ITEMS.index)
def test_the_item_has_a_cell_with_its_tag_that_shows_something(item):
    assert ITEMS.loc[item, "tag"] == "paper-" + item.lower().replace(" ", "-")
    assert outputs_of(item).strip()


def test_all_33_are_listed_once_and_no_notebook_tags_another():
    assert len(ITEMS) == 33 and ITEMS.index.is_unique
    tags = [
        tag
        for path in find_notebooks(ROOT / "notebooks")
        for cell in nbformat.read(path, 4).cells
        for tag in cell.metadata.get("tags", [])
    ]
    assert {tag for tag in tags if tag.startswith("paper-")} == set(ITEMS["tag"])


@pytest.mark.parametrize(
    "item",
    [
        item
        for item in ITEMS.index
        if ITEMS.loc[item, "source"] in PRINTED and item.startswith("Table")
    ],
)
def test_a_printed_table_is_shown_with_what_the_paper_prints(item):
    column, of_table = PRINTED[ITEMS.loc[item, "source"]]
    rows = claims.paper_table(ITEMS.loc[item, "source"])
    if of_table:
        rows = rows[rows[of_table] == item.split()[1]]
    if "nickname" in rows and (rows["nickname"] == SHOWN_ALWAYS).sum() > 1:
        rows = rows[rows["nickname"] == SHOWN_ALWAYS]
    printed = [str(text) for text in rows[column] if not is_offensive(str(text))]
    # The first word of a text, because cells are cut and blanks are made visible.
    words = [re.search(r"[\w.]{3,12}", text) for text in printed]
    looked_for = [word[0] for word in words if word][:LOOKED_FOR]
    assert len(looked_for) == LOOKED_FOR
    shown = html.unescape(re.sub("<[^>]*>", " ", outputs_of(item))).casefold()
    assert [text for text in looked_for if text.casefold() not in shown] == []


@pytest.mark.parametrize("picture", ITEMS["picture"][ITEMS["picture"] != ""])
def test_a_picture_is_committed(picture):
    assert (ROOT / "figures" / "published" / picture).is_file()
