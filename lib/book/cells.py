"""One executed notebook as the book shows it: answers folded, pictures with their texts, no run-time metadata."""

import base64
import hashlib
from collections.abc import Sequence

import nbformat
from nbformat import NotebookNode

from lib.display import ANSWER_TYPE, RECORD_TYPE
from lib.reproduce.documents import without_folders
from lib.reproduce.notebooks import INJECTED

FOLDED = {  # tag of a code cell -> what is folded of it, and what is written on the fold
    "solution": ("hide-input", "Show an answer"),
    "check": ("hide-output", "Show what the check prints"),
}


def for_book(notebook: NotebookNode, told: str = "", opening: str = "", others: Sequence[str] = ()) -> NotebookNode:
    """The notebook as a page of the book. Wrong answers, which metadata holds, are not in it.

    told: what is added to the title. opening: Markdown put below it. others: pages of the same notebook on other
    scores, as the links of a toctree; they stand below this one in the menu.
    """
    cells = [_for_book(cell) for cell in notebook.cells if INJECTED not in cell.metadata.get("tags", [])]
    title, _, rest = cells[0].source.partition("\n")
    cells[0].source = "\n".join([f"{title}: {told}" if told else title, "", opening, rest])
    if others:
        cells.append(nbformat.v4.new_markdown_cell("\n".join(["```{toctree}", ":hidden:", "", *others, "```"])))
    language = {"name": "python", "pygments_lexer": "ipython3"}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    page = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": language})
    return nbformat.from_dict(page)


def _for_book(cell: NotebookNode) -> NotebookNode:
    tags = list(cell.metadata.get("tags", []))
    shown = nbformat.from_dict({**cell, "metadata": {"tags": tags}})
    if cell.cell_type != "code":
        return shown
    for tag in FOLDED.keys() & set(tags):
        hide, prompt = FOLDED[tag]
        shown.metadata["tags"].append(hide)
        shown.metadata["mystnb"] = {"code_prompt_show": prompt, "code_prompt_hide": "Fold it away"}
    shown.outputs = [_plain(output) for output in shown.outputs]
    return shown


def _plain(output: NotebookNode) -> NotebookNode:
    """The output without what is kept for programs, and without the folders of this machine."""
    if "text" in output:
        output.text = without_folders(output.text)
    if "data" in output:
        for_readers = {kind: value for kind, value in output.data.items() if kind not in (ANSWER_TYPE, RECORD_TYPE)}
        texts = {kind: without_folders(value) for kind, value in for_readers.items() if kind.startswith("text/")}
        output.data = for_readers | texts
    return output


def picture_texts(notebook: NotebookNode) -> dict[str, str]:
    """What stands for each picture of the notebook where it cannot be seen, by the SHA-256 of the picture."""
    texts = {}
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        alt = output.get("metadata", {}).get("image/png", {}).get("alt", "")
        if alt and "image/png" in output.get("data", {}):
            texts[hashlib.sha256(base64.b64decode(output.data["image/png"])).hexdigest()] = alt
    return texts
