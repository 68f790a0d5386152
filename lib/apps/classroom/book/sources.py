"""The book's sources, laid out as the repository is, so that links between its pages hold in
both.
"""

import base64
import re
import shutil
from pathlib import Path

import nbformat
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from nbformat import NotebookNode

from .... import ROOT
from ....show.display import ANSWER_TYPE, RECORD_TYPE
from ....tables.collection import (
    EMBEDDED,
    HUMAN_RATINGS,
    ITEMS,
    PUBLISHED,
    WORDS,
    Collection,
)
from ...runner.files import (
    EXERCISES,
    KERNEL,
    find_notebooks,
    highlights_of,
    opening,
    parameters_of,
)
from ..course.exercises import read_section
from ..course.making import COURSE, STUDENTS, without_folders
from ..explorer import page as explorer

SCORECARD = "11"  # the number of the notebook that gathers what the others found
CARD_OF = "A-Gem-96"  # the small model that has a card
DOCUMENTS = (
    "docs/GLOSSARY.md",
    "docs/TEACHING.md",
    "benchmarks/calibration.md",
    "benchmarks/search.md",
)
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
NAMES = {
    EMBEDDED: "On ten small models, whose values were planted.",
    PUBLISHED: "On the authors' released scores.",
    WORDS: "On the authors' released scores of 2,260 moral words.",
    ITEMS: "On the authors' released scores of 7,530 items.",
    HUMAN_RATINGS: "On a small reward model that we trained on people's ratings of words.",
}
# tag of a code cell -> MyST-NB's tag that folds a part of it, and what is written on the fold
FOLDED = {
    "solution": ("hide-input", "Show an answer"),
    "comparison": ("hide-input", "Show what the check compares"),
    "check": ("hide-output", "Show what the check prints"),
}


def assemble(
    folder: Path,
    extra: Path,
    notebooks: Path = ROOT / "notebooks",
) -> list[str]:
    """Write all sources into a folder, and files beside the pages into another; return lines on
    what is left out.
    """
    chapters = [_chapter_of(path) for path in find_notebooks(notebooks)]
    (folder / "notebooks" / EXERCISES).mkdir(parents=True)
    (extra / "tables").mkdir(parents=True, exist_ok=True)
    for chapter in chapters:
        _write_chapter(chapter, folder, extra / "tables")
    for place in map(Path, DOCUMENTS):
        _write_document(place, folder)
    picture = PUBLISHED.figures / "front.png"
    shutil.copyfile(picture, folder / picture.name)
    links = _files_beside(extra)
    scorecard = next(
        chapter for chapter in chapters if chapter["path"].name.startswith(SCORECARD)
    )
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "source"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    shown = {"chapters": chapters, "picture": picture.name, "scorecard": scorecard}
    for name in templates.list_templates():
        text = templates.get_template(name).render(links, **shown)
        (folder / name).write_text(text, encoding="utf-8")
    return [f"not in the book yet: {kind}" for kind in links if not links[kind]]


def _write_chapter(chapter: dict, folder: Path, tables: Path) -> None:
    """Write the pages of a notebook and its exercises, and copy the tables behind them."""
    path = chapter["path"]
    study = chapter["study"]
    data = sorted(study.figures.glob(f"{path.name.partition('_')[0]}_*.csv"))
    if not study.is_embedded:
        data += [PUBLISHED.figures / "claims.csv", PUBLISHED.figures / "scorecard.csv"]
    for table in data:
        shutil.copyfile(table, tables / table.name)
    linked = ", ".join(
        f'<a href="../tables/{table.name}">{table.name}</a>' for table in data
    )
    below = f"*{chapter['name']}*\n\n"
    below += f"<p>Data behind this page: {linked}.</p>" if data else ""
    page = for_book(nbformat.read(path, 4), below)
    nbformat.write(page, folder / chapter["place"])
    if chapter["exercises"]:
        exercises = nbformat.read(path.parent / EXERCISES / path.name, 4)
        nbformat.write(
            for_book(exercises), folder / f"{chapter['exercises_page']}.ipynb"
        )


def _write_document(place: Path, folder: Path) -> None:
    """Write a document with the tables that it links; a link that leaves the book becomes text."""
    source = ROOT / place.parent
    here = folder / place.parent
    here.mkdir(exist_ok=True)

    def checked_link(link: re.Match) -> str:
        target = link[2].partition("#")[0]
        if target.endswith(".csv"):
            (here / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / target, here / target)
        if not target or (here / target).is_file():
            return link[0]
        return link[1]

    text = (ROOT / place).read_text(encoding="utf-8")
    text = LINK.sub(checked_link, text)
    (folder / place).write_text(text, encoding="utf-8")


def _chapter_of(notebook: Path) -> dict:
    """Return what templates say of a committed notebook."""
    title, question = opening(notebook)
    study = Collection(parameters_of(notebook)["collection"])
    exercises = notebook.parent / EXERCISES / notebook.name
    return {
        "path": notebook,
        "study": study,
        "place": f"notebooks/{notebook.name}",
        "page": f"notebooks/{notebook.stem}",
        "name": NAMES[study],
        "title": f"{notebook.name.partition('_')[0]} {title}",
        "question": question,
        "answer": highlights_of(notebook)[0],
        "exercises_page": f"notebooks/{EXERCISES}/{notebook.stem}",
        "exercises": read_section(exercises).exercises if exercises.is_file() else (),
    }


def for_book(notebook: NotebookNode, below: str = "") -> NotebookNode:
    """Return the notebook as a page of the book: answers folded, no wrong answers, `below` below
    its title.
    """
    cells = []
    for cell in notebook.cells:
        tags = list(cell.metadata.get("tags", []))
        mystnb = {}
        folded = FOLDED.keys() & set(tags) if cell.cell_type == "code" else ()
        for tag in folded:
            tags.append(FOLDED[tag][0])
            mystnb |= {
                "code_prompt_show": FOLDED[tag][1],
                "code_prompt_hide": "Fold it away",
            }
        for output in cell.get("outputs", []):
            _clean(output)
            about = output.get("metadata", {})
            if alt := about.get("image/png", {}).get("alt"):
                mystnb["image"] = {"alt": alt}
        metadata = {"tags": tags} | ({"mystnb": mystnb} if mystnb else {})
        cells.append(nbformat.from_dict({**cell, "metadata": metadata}))
    title, _, rest = cells[0].source.partition("\n")
    cells[0].source = "\n".join([title, "", below, rest])
    language = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
    return nbformat.v4.new_notebook(cells=cells, metadata=KERNEL | language)


def _clean(output: NotebookNode) -> None:
    """Take what programs read, and the folders of this machine, out of an output."""
    if "text" in output:
        output.text = without_folders(output.text)
    for kind, value in dict(output.get("data", {})).items():
        if kind in (ANSWER_TYPE, RECORD_TYPE):
            del output.data[kind]
        elif kind.startswith("text/"):
            output.data[kind] = without_folders(value)


def _files_beside(extra: Path) -> dict[str, list[tuple[str, str]]]:
    """Copy the files that the page of downloads links; return (place, text) of each, and copies for
    students.

    Students' copies lie inside their links: browsers save such files, and show those of a folder.
    """
    card = EMBEDDED.figures / f"card-{CARD_OF}.html"
    files = [
        ("cards", card, card.name, f"Value card of {CARD_OF}"),
        (
            "cards",
            card.with_suffix(".json"),
            f"{card.stem}.json",
            "Its numbers as JSON",
        ),
        *(
            (
                "explorers",
                explorer.path_of(study),
                f"explorer/{study}.html",
                f"Rewards: {study}",
            )
            for study in (WORDS, ITEMS)
        ),
    ]
    links: dict[str, list[tuple[str, str]]] = {"cards": [], "explorers": []}
    (extra / "explorer").mkdir(parents=True)
    for kind, path, place, text in files:
        if path.is_file():
            shutil.copyfile(path, extra / place)
            links[kind].append((place, text))
    copies = sorted((COURSE / STUDENTS).glob("*.ipynb"))
    return links | {
        "copies": [
            (path.name, base64.b64encode(path.read_bytes()).decode()) for path in copies
        ]
    }
