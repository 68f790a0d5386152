"""The book's sources, laid out as the repository is, so that links between its pages hold in both."""

import base64
import html
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from urllib.parse import quote

import nbformat

from lib import ROOT
from lib.book.cells import for_book, picture_texts
from lib.collection import EMBEDDED, ITEMS, PUBLISHED, WORDS, Collection
from lib.course.exercises import read_section
from lib.course.students import COURSE, STUDENTS
from lib.explorer import page as explorer
from lib.reproduce.front_page import kept_by
from lib.reproduce.jobs import CARD_OF, SCORECARD
from lib.reproduce.notebooks import find_notebooks, opening

DOCUMENTS = ("GLOSSARY.md", "TEACHING.md", "benchmarks/calibration.md")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
NAMES = {EMBEDDED: "small models, planted values", PUBLISHED: "published scores",
         WORDS: "published scores of words", ITEMS: "published scores of items"}  # fmt: skip


@dataclass
class Sources:
    """Where the book's sources lie, and what Sphinx must know of them besides.

    extra: files that are copied beside the pages, as (file, place). missing: what could not be taken in, a line each.
    """

    folder: Path
    picture_texts: dict[str, str] = field(default_factory=dict)
    extra: list[tuple[Path, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Chapter:
    """A notebook on the scores of one collection. place: of its page, as seen from the repository."""

    path: Path
    place: Path
    collection: Collection

    @property
    def page(self) -> str:
        """Its page as Sphinx names it."""
        return self.place.with_suffix("").as_posix()

    @property
    def name(self) -> str:
        return NAMES[self.collection]


def assemble(folder: Path, notebooks: Path = ROOT / "notebooks") -> Sources:
    """Write all sources of the book into an empty folder."""
    sources = Sources(folder)
    chapters = [_chapters_of(path) for path in find_notebooks(notebooks)]
    for versions in chapters:
        _write_chapters(sources, versions)
    for name in DOCUMENTS:
        _write_document(sources, Path(name))
    _write_notebooks_page(sources, chapters)
    _write_downloads_page(sources)
    _write_index(sources, chapters)
    return sources


# --- notebooks ----------------------------------------------------------------------------------------------------


def _chapters_of(notebook: Path) -> list[Chapter]:
    """The notebook as it is committed, and as executed on published scores where that was kept; the main one first."""
    chapters = [Chapter(notebook, Path("notebooks", notebook.name), EMBEDDED)]
    for collection in (WORDS, ITEMS, PUBLISHED):
        path = collection.figures / notebook.name
        if path.is_file():
            chapters.append(Chapter(path, path.relative_to(ROOT), collection))
    return chapters[::-1] if notebook.name.startswith(SCORECARD) else chapters


def _write_chapters(sources: Sources, versions: list[Chapter]) -> None:
    for chapter in versions:
        notebook = nbformat.read(chapter.path, 4)
        sources.picture_texts |= picture_texts(notebook)
        first = chapter is versions[0]
        others = [f"On {other.name} </{other.page}>" for other in versions[1:]] if first else []
        told = "" if first else chapter.name
        target = sources.folder / chapter.place
        target.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(for_book(notebook, told, _beside(chapter, versions), others), target)


def _beside(chapter: Chapter, versions: list[Chapter]) -> str:
    """The line under a title that says whose scores these are, and links to the same notebook on others."""
    links = [f"[{other.name}](/{other.place.as_posix()})" for other in versions if other is not chapter]
    return f"*This page: {chapter.name}.*" + (f" The same on {', '.join(links)}." if links else "")


def _write_document(sources: Sources, place: Path) -> None:
    """A page that the repository holds too; its links to what is not in the book become plain text."""

    def kept(link: re.Match) -> str:
        text, target = link.groups()
        there = (sources.folder / place.parent / target.partition("#")[0]).is_file() or target.startswith("#")
        return link[0] if there else text

    text = LINK.sub(kept, (ROOT / place).read_text(encoding="utf-8"))
    (sources.folder / place).parent.mkdir(parents=True, exist_ok=True)
    (sources.folder / place).write_text(text, encoding="utf-8")


# --- pages about the notebooks and the files beside them ----------------------------------------------------------


def _write_notebooks_page(sources: Sources, chapters: list[list[Chapter]]) -> None:
    """The list of notebooks: question, answers, exercises. The scorecard has its own place in the menu."""
    about = "\n".join(_about(versions) for versions in chapters)
    own = [versions[0] for versions in chapters if not versions[0].path.name.startswith(SCORECARD)]
    listed = "\n".join(f"{_numbered(chapter.path)} </{chapter.page}>" for chapter in own)
    _fill(sources, "notebooks", notebooks=about, listed=listed)


def _about(versions: list[Chapter]) -> str:
    """A notebook's heading, its question, and what each version of it answers."""
    first, (_, question) = versions[0], opening(versions[0].path)
    answers = [(chapter, kept_by(chapter.path).answer) for chapter in versions]
    items = [f"{_link(f'{chapter.page}.html', chapter.name)}: {html.escape(answer)}" for chapter, answer in answers]
    lines = [f"## [{_numbered(first.path)}](/{first.place.as_posix()})", "", f"*{question}*", "", _list(items)]
    [own] = [chapter for chapter in versions if chapter.collection == EMBEDDED]
    found = read_section(own.path).exercises
    if told := [f"{one.title} ({one.minutes} minutes, {'★' * one.difficulty})" for one in found]:
        lines += ["", f"Exercises: {'; '.join(told)}"]
    return "\n".join([*lines, ""])


def _numbered(notebook: Path) -> str:
    return f"{notebook.name.partition('_')[0]} {opening(notebook)[0]}"


def _write_downloads_page(sources: Sources) -> None:
    """Value card, explorer and student copies: what is there is copied beside the pages, what is not is said."""
    card = EMBEDDED.figures / f"card-{CARD_OF}.html"
    pages = [(explorer.path_of(study), f"explorer/{study}.html", f"Rewards of {NAMES[study]}")
             for study in (EMBEDDED, WORDS, ITEMS)]  # fmt: skip
    _fill(
        sources,
        "downloads",
        card=_links(sources, [(card, card.name, f"Value card of {CARD_OF}")], "make reproduce"),
        explorers=_links(sources, pages, "make explore"),
        copies=_copies(sources),
    )


def _links(sources: Sources, files: Iterable[tuple[Path, str, str]], command: str) -> str:
    """A list of links to those of the files that are there, and takes these in; a sentence where there is none."""
    there = [(path, place, text) for path, place, text in files if path.is_file()]
    sources.extra += [(path, place) for path, place, _ in there]
    return _list(_link(place, text) for _, place, text in there) if there else _not_made(sources, command)


def _copies(sources: Sources) -> str:
    """Students' copies, each inside its link: of a folder's page, browsers save such files only, and show others."""
    items = []
    for path in sorted((COURSE / STUDENTS).glob("*.ipynb")):
        content = base64.b64encode(path.read_bytes()).decode()
        items.append(f'<a download="{path.name}" href="data:application/x-ipynb+json;base64,{content}">{path.name}</a>')
    return _list(items) if items else _not_made(sources, "make students")


def _not_made(sources: Sources, command: str) -> str:
    sources.missing.append(f"not in the book yet: what `{command}` makes")
    return f"Not made yet when this book was built: `{command}`."


def _list(items: Iterable[str]) -> str:
    """A list as HTML, in which Markdown is not looked for."""
    return "<ul>\n" + "\n".join(f"<li>{item}</li>" for item in items) + "\n</ul>"


def _link(place: str, text: str) -> str:
    return f'<a href="{quote(place)}">{html.escape(text)}</a>'


def _write_index(sources: Sources, chapters: list[list[Chapter]]) -> None:
    [scorecard] = [versions[0] for versions in chapters if versions[0].path.name.startswith(SCORECARD)] or [None]
    picture = EMBEDDED.figures / "02_optimal_and_pessimal.png"
    shutil.copyfile(picture, sources.folder / picture.name)
    without = "" if scorecard.collection == PUBLISHED else "The published scores were not read yet (`make published`)."
    _fill(
        sources, "index",
        scorecard=scorecard.page, scorecard_place=scorecard.place.as_posix(), picture=picture.name,
        answer=html.escape(kept_by(scorecard.path).answer), without=without,
    )  # fmt: skip


def _fill(sources: Sources, name: str, **values: str) -> None:
    """Write a page from its template in lib/book/source, in which {name} stands for a value."""
    text = resources.files("lib.book").joinpath("source", f"{name}.md").read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"{{{{{key}}}}}", value)
    (sources.folder / f"{name}.md").write_text(text, encoding="utf-8")
