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


def prose_after(item: str) -> str:
    """Return the text cells from the item's last cell to the next heading, and the next one's."""
    cells = notebook_of(item).cells
    last = max(
        i
        for i, cell in enumerate(cells)
        if ITEMS.loc[item, "tag"] in cell.metadata.get("tags", [])
    )
    texts = [
        cell.source
        for cell in cells[last + 1 : last + 5]
        if cell.cell_type == "markdown"
    ]
    return "\n".join(texts)


def names(text: str, item: str) -> bool:
    """Return whether a text names the item, as `Fig A3`, `Figure A3` or `Table A6`."""
    kind, number = item.split()
    return bool(
        re.search(
            rf"{kind[:3]}\w*\.? {number}\b|{kind[:3]}\w* [\w, ]*\b{number}\b", text
        )
    )


@pytest.mark.parametrize("item", ITEMS.index)
def test_the_item_has_a_cell_with_its_tag(item):
    assert ITEMS.loc[item, "tag"] == "paper-" + item.lower().replace(" ", "-")
    assert with_tag(notebook_of(item), ITEMS.loc[item, "tag"])


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


@pytest.mark.parametrize(
    "item", [item for item in ITEMS.index if item.startswith("Figure")]
)
def test_a_figure_has_the_papers_numbers_in_it_or_the_text_below_says_why_not(item):
    sources = "\n".join(
        cell.source for cell in notebook_of(item).cells if cell.cell_type == "code"
    )
    source = ITEMS.loc[item, "source"]
    reads_it = source and (
        source in sources
        or source == "fig2a_tau"
        and "printed_matrix()" in sources
        or source == "figa1_spearman"
        and "figa1_{name}" in sources
        or source == "table_1"
        and "traits[PRINTED]" in sources
    )
    assert reads_it or names(prose_after(item), item)
    picture = ITEMS.loc[item, "picture"]
    assert picture and (ROOT / "figures" / "published" / picture).is_file()


@pytest.mark.parametrize("item", ITEMS.index)
def test_ours_stands_beside_it_or_the_text_below_names_it_and_says_why_not(item):
    shown = outputs_of(item)
    assert shown.strip(), "the cell is executed and shows something"
    beside = re.search(
        r"\b(here|ours|published-\w+|of this collection|image/png)\b", shown
    )
    assert beside or names(prose_after(item), item)
