"""Pages: each executed notebook as one HTML file, the front page of a collection, and a summary for
the terminal.

A page fetches nothing, runs no foreign script, and names no folder of this machine. So formulas are
pictures.
"""

import base64
import io
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import nbformat

from ... import ROOT
from ...io import replacing
from ...show.display import ANSWER_TYPE
from ...show.pages import TEMPLATES, template
from ...tables.collection import HUMAN_RATINGS, Collection
from .files import INJECTED, opening, pictures_of, read, with_tag
from .jobs import SCORECARD, Job, Result

FORMULA = re.compile(r"(?<![\\$])(\$\$?)(?! )([^$]+?)(?<![ \\])\1(?!\$)", re.DOTALL)
# cards that come first, as wide as the page
FIRST = {"embedded": ("00",), "published": (SCORECARD, "02")}
TITLES = {
    "embedded": "A real reward model, and ten small ones with values that we chose",
    "published": "What reward models value: the paper's published scores",
}
Outcome = tuple[Job, Result]


def write_page(executed: Path, page: Path, title: str) -> None:
    """Write an executed notebook as one HTML file."""
    # here, as matplotlib below, so that the command line starts quickly
    import nbconvert

    notebook = nbformat.read(executed, 4)
    about = notebook.metadata.get("papermill", {})
    given = about.get("parameters", {}).values()
    folders = [
        Path(value).parent
        for value in given
        if isinstance(value, str) and Path(value).is_absolute()
    ]
    notebook = _everywhere(notebook, lambda text: without_folders(text, folders))
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = FORMULA.sub(_picture, cell.source)
    for cell in with_tag(notebook, INJECTED):
        # papermill draws another one each time, and a page that is made again is the same
        cell.id = INJECTED
    exporter = nbconvert.HTMLExporter(
        extra_template_paths=[str(TEMPLATES)],
        template_file="notebook.html.j2",
    )
    named = {"metadata": {"name": title}}
    body, _ = exporter.from_notebook_node(notebook, named)
    with replacing(page) as part:
        part.write_text(body, encoding="utf-8")


def _everywhere(value, change: Callable[[str], str]):
    """Return the value with all its strings changed, at every depth, except pictures."""
    if isinstance(value, dict):
        changed = {
            name: inner if name.startswith("image/") else _everywhere(inner, change)
            for name, inner in value.items()
        }
        return nbformat.NotebookNode(changed)
    if isinstance(value, list):
        return [_everywhere(inner, change) for inner in value]
    return change(value) if isinstance(value, str) else value


def without_folders(text: str, folders: Iterable[Path] = ()) -> str:
    """Return the text with paths relative to the project, and without the paths of these
    folders, Python and home.
    """
    short = {
        Path.home(): "~/",
        Path(sys.prefix): "python/",
        **dict.fromkeys(folders, ""),
        ROOT: "",
    }
    for folder in sorted(short, key=lambda folder: -len(str(folder))):
        if len(folder.parts) > 1:  # every path begins with the root
            place = re.escape(folder.as_posix())
            text = re.sub(f"{place}/", short[folder], text)
            alone = short[folder].rstrip("/") or "."
            text = re.sub(rf"{place}(?![\w.-])", alone, text)
    return text


def _picture(match: re.Match) -> str:
    """Return a formula as an image, on its own line if it is between double dollars. What cannot
    be drawn stays TeX.
    """
    from matplotlib import rc_context
    from matplotlib.mathtext import math_to_image

    tex = " ".join(match[2].split())
    file = io.BytesIO()
    try:
        with rc_context(
            {"mathtext.fontset": "cm", "savefig.transparent": True, "font.size": 13}
        ):
            depth = math_to_image(f"${tex}$", file, format="svg")
    except ValueError:
        return match[0]
    alt = "".join(f"&#{ord(c)};" for c in tex)  # inert in Markdown and in HTML
    svg = base64.b64encode(file.getvalue()).decode()
    return template("formula").render(
        display=match[1] == "$$",
        alt=alt,
        depth=f"{-depth:.1f}",
        svg=svg,
    )


# --- the front page -------------------------------------------------------------------------------


class Highlights(NamedTuple):
    """What an executed notebook says in short."""

    answer: str = ""
    alts: Mapping[str, str] = {}  # file of a picture -> alternative text
    hero: str = ""  # the file of the picture to show


def highlights_of(executed: Path) -> Highlights:
    """Return the highlights of an executed notebook; empty ones if the file is missing or
    incomplete.
    """
    try:
        notebook = read(executed)
    except (OSError, ValueError):
        return Highlights()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    answers = [
        output.data[ANSWER_TYPE]
        for output in outputs
        if ANSWER_TYPE in output.get("data", {})
    ]
    alts = pictures_of(notebook.cells)
    heroes = pictures_of(with_tag(notebook, "hero"))
    return Highlights(
        answers[-1] if answers else "",
        alts,
        next(iter([*heroes, *alts]), ""),
    )


def write_index(collection: Collection, outcomes: Sequence[Outcome]) -> None:
    """Write figures/<collection>/index.html: what was done, a card for each notebook, then every
    file.

    outcomes: the jobs, and how each went. A notebook that ran several times has one card with all
    links and answers. The page of a run that goes on says what runs and how much waits.
    """
    first = FIRST.get(collection.kind, ("02",))
    groups: dict[str, list[Outcome]] = {}
    for job, result in outcomes:
        groups.setdefault(job.number, []).append((job, result))
    others = set(groups) - set(first)
    numbers = [*filter(groups.get, first), *sorted(others)]
    cards = [
        _card(collection, groups[number]) | {"wide": number in first}
        for number in numbers
    ]
    statuses = [result.status for _, result in outcomes]
    page = template("index").render(
        title=TITLES.get(
            collection.name, f"What reward models value: collection {collection}"
        ),
        notice=" ".join(collection.notice.split()),
        cards=cards,
        groups=_files_by_writer(collection, [job for job, _ in outcomes]),
        running=[job.name for job, result in outcomes if result.status == "running"],
        waiting=statuses.count("waiting"),
        is_embedded=collection.is_embedded,
    )
    with replacing(collection.figures / "index.html") as part:
        part.write_text(page, encoding="utf-8")


def _files_by_writer(
    collection: Collection,
    jobs: Iterable[Job],
) -> dict[str, list[dict]]:
    """Return what the template shows of every file of a collection, by folder and notebook."""
    alts = {}
    writers = {}
    for job in jobs:
        writers.setdefault(job.number, job.notebook.stem)
        for name, alt in highlights_of(job.executed).alts.items():
            alts[job.collection.figures / name] = alt
    files: dict[str, list[dict]] = {}
    for path in sorted(collection.figures.rglob("*")):
        if path.is_file() and path.suffix != ".html":
            place = path.relative_to(collection.figures)
            # files are called after the notebook that writes them
            number = path.name.partition("_")[0]
            writer = place.parent / writers.get(number, "others")
            shown = {
                "href": _link(collection, path),
                "name": str(place),
                "alt": alts.get(path, ""),
            }
            files.setdefault(writer.as_posix(), []).append(shown)
    return dict(sorted(files.items()))


def _card(collection: Collection, group: list[Outcome]) -> dict:
    """Return what the template shows of one notebook (question, answers, a picture, and links to
    its pages).
    """
    runs = []
    answers = []
    pictures = []
    for job, result in group:
        name = job.model or job.collection.population
        own = highlights_of(job.executed)
        problem = f"{job.name}: {without_folders(str(result))}"
        href = _link(collection, job.page) if job.page.is_file() else ""
        runs.append(
            {
                "name": name,
                "href": href,
                "status": result.status,
                "problem": problem * result.went_wrong,
            }
        )
        answers += (
            [{"name": name if len(group) > 1 else "", "text": own.answer}]
            if own.answer
            else []
        )
        # notebook 00 is about both
        heroes = [study.figures / own.hero for study in (job.collection, HUMAN_RATINGS)]
        written = [ROOT / wrote for wrote in result.wrote]
        for file in (*heroes, *written):
            if file.suffix == ".png" and file.is_file():
                pictures.append(
                    {
                        "href": _link(collection, file),
                        "alt": own.alts.get(file.name, ""),
                    }
                )
    first = group[0][0]
    title, question = opening(first.notebook)
    return {
        "id": first.number,
        "title": title,
        "question": question,
        "runs": runs,
        "answers": answers,
        "what": "Models" if first.model else "Scores of",
        "picture": next(iter(pictures), None),
    }


def _link(collection: Collection, file: Path) -> str:
    place = os.path.relpath(file, collection.figures)
    return quote(Path(place).as_posix())


# --- the terminal ---------------------------------------------------------------------------------


def outcome_lines(jobs: Iterable[Job], results: Mapping[str, Result]) -> list[str]:
    """Return what failed and why, a line each, and how many notebooks ran."""
    lines = [
        f"{results[job.name].status}: {job.name}: {results[job.name].cause}"
        for job in jobs
        if results[job.name].cause
    ]
    counts = Counter(result.status for result in results.values())
    return [
        *lines,
        f"Notebooks: {', '.join(f'{n} {status}' for status, n in counts.most_common()) or 'none'}.",
    ]
