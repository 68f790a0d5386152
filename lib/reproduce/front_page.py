"""The front page of a collection: a card for each notebook with its question, its answer in a sentence, and a picture.

Answers and pictures are what the executed notebooks keep: the sentence of lib.display.answer, and the figure of the
cell tagged `hero`, with the text that stands for it.
"""

import html
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from lib.collection import Collection
from lib.display import ANSWER_TYPE
from lib.files import replacing
from lib.reproduce.documents import without_folders
from lib.reproduce.jobs import SCORECARD, Job
from lib.reproduce.notebooks import opening
from lib.reproduce.record import Result, written

HERO = "hero"  # tag of the cell whose picture is its notebook's
TOKENS = "02_"  # its picture, what models reward most and least, is the project's
FIRST = (SCORECARD, TOKENS)  # these cards come first, as wide as the page
Outcome = tuple[Job, Result]


@dataclass(frozen=True)
class Kept:
    """What an executed notebook keeps for this page: its answer, its pictures' files and texts, and the chosen one."""

    answer: str = ""
    alts: Mapping[str, str] = field(default_factory=dict)
    hero: str = ""


def kept_by(executed: Path) -> Kept:
    """What the executed notebook keeps; nothing where there is none, or half of one."""
    try:
        cells = json.loads(executed.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError):
        return Kept()
    answer, alts, heroes = "", {}, []
    for cell in cells:
        for output in cell.get("outputs", []):
            answer = output.get("data", {}).get(ANSWER_TYPE, answer)
            picture = output.get("metadata", {}).get("image/png", {})
            if picture.get("file"):
                alts[picture["file"]] = picture.get("alt", "")
                heroes += [picture["file"]] if HERO in cell["metadata"].get("tags", []) else []
    return Kept(answer, alts, next(iter([*heroes, *alts]), ""))


# --- the page -----------------------------------------------------------------------------------------------------

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 17px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 1.5rem auto; padding: 0 1rem; color: #1a1a1a; }}
h1 {{ line-height: 1.2; margin-bottom: .3rem; }} h2 {{ font-size: 1.15rem; margin: 0; }}
.cards {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(min(27rem, 100%), 1fr)); gap: 1.2rem; }}
article {{ border: 1px solid #ccc; border-radius: .5rem; padding: 1rem 1.2rem; }}
article {{ min-width: 0; overflow-wrap: break-word; }}
article.wide {{ grid-column: 1 / -1; display: grid; grid-template-columns: 2fr 3fr; column-gap: 1.5rem; }}
@media (max-width: 60rem) {{ article.wide {{ display: block; }} }}
article p {{ margin: .4rem 0; }} .question {{ font-style: italic; }} .answer {{ font-weight: 600; }}
figure {{ margin: .6rem 0 0; min-width: 0; }} figcaption {{ margin-top: .3rem; }}
img {{ max-width: 100%; height: auto; display: block; }} article:not(.wide) img {{ max-height: 24rem; }}
.variants a {{ display: inline-block; margin-right: .9rem; }} summary {{ cursor: pointer; }}
a {{ color: #084594; }} .failed, .skipped {{ color: #b00020; }}
@media print {{ article {{ break-inside: avoid; }} }}
</style>
<h1>{title}</h1>
{notice}
<main class="cards">
{cards}
</main>
<h2 style="margin-top: 2rem">All figures and tables</h2>
{files}
</html>
"""


def write_index(collection: Collection, outcomes: Sequence[Outcome]) -> None:
    """Write figures/<collection>/index.html: the scorecard first, then a card for each notebook, then every file.

    outcomes: the jobs that it shows and how each went. A notebook that ran for several models, or on several published
    collections, has one card, with a link and an answer for each.
    """
    groups: dict[str, list[Outcome]] = {}
    for job, result in outcomes:
        groups.setdefault(job.notebook.stem, []).append((job, result))
    order = sorted(groups.values(), key=lambda group: _place(group[0][0]))
    cards = "\n".join(_card(collection, group) for group in order)
    alts = {name: alt for job, _ in outcomes for name, alt in _alts(collection, job).items()}
    files = "\n".join(_files(number, names, alts) for number, names in _by_number(written(collection)).items())
    title = html.escape(f"What reward models value: {_described(collection)}")
    notice = f"<p>{html.escape(' '.join(collection.notice.split()))}</p>" if collection.notice else ""
    with replacing(collection.figures / "index.html") as part:
        part.write_text(PAGE.format(title=title, notice=notice, cards=cards, files=files), encoding="utf-8")


def _described(collection: Collection) -> str:
    names = {"embedded": "small models whose values were planted", "published": "the paper's published scores"}
    return names.get(collection.name, f"collection {collection}")


def _place(job: Job) -> tuple[int, str]:
    return (FIRST.index(job.number) if job.number in FIRST else len(FIRST), job.notebook.name)


# --- a card -------------------------------------------------------------------------------------------------------


def _card(collection: Collection, group: list[Outcome]) -> str:
    """Title, question, the answers, a picture, and links to the pages of one notebook."""
    wide = group[0][0].number in FIRST
    title, question = map(html.escape, opening(group[0][0].notebook))
    kept = [(job, kept_by(job.executed)) for job, _ in group]
    texts = [
        f"<h2>{_linked(collection, group[0][0], title) if len(group) == 1 else title}</h2>",
        f'<p class="question">{question}</p>' if question else "",
        *_answers(kept),
        _variants(collection, group) if len(group) > 1 else "",
        *(f'<p class="{result.status}">{_told(job, result)}</p>' for job, result in group if _went_wrong(result)),
    ]
    inside = "<div>\n" + "\n".join(filter(None, texts)) + "\n</div>\n" + _picture(collection, kept, wide)
    return f'<article{" class=wide" if wide else ""} id="{group[0][0].number}">\n{inside}\n</article>'


def _name(job: Job) -> str:
    """What tells this run of a notebook from its other runs: the model, or what texts it was about."""
    return job.model or job.collection.population


def _answers(kept: list[tuple[Job, Kept]]) -> Iterable[str]:
    """The first answer in sight, and those of other runs folded behind it."""
    given = [(job, one.answer) for job, one in kept if one.answer]
    named = [f"{html.escape(_name(job))}: " if len(kept) > 1 else "" for job, _ in given]
    lines = [f"{name}{html.escape(text)}" for name, (_, text) in zip(named, given, strict=True)]
    yield from (f'<p class="answer">{line}</p>' for line in lines[:1])
    if lines[1:]:
        others = "".join(f"<p>{line}</p>" for line in lines[1:])
        yield f"<details><summary>the other answers ({len(lines) - 1})</summary>{others}</details>"


def _picture(collection: Collection, kept: list[tuple[Job, Kept]], wide: bool) -> str:
    """The notebook's picture with its caption, on a wide card with what must be said of these scores; '' for none."""
    for job, one in kept:
        chosen = [file for file in (one.hero, _first_figure(job)) if (job.collection.figures / file).is_file()]
        if chosen:
            file = job.collection.figures / chosen[0]
            alt = html.escape(one.alts.get(file.name, ""))
            image = f'<a href="{_link(collection, file)}"><img src="{_link(collection, file)}" alt="{alt}"></a>'
            said = f"{alt} {html.escape(' '.join(job.collection.notice.split()))}".strip() if wide else ""
            return f"<figure>{image}{f'<figcaption>{said}</figcaption>' if said else ''}</figure>"
    return ""


def _first_figure(job: Job) -> str:
    """The first picture by name that may be this notebook's; '.' (a folder, so no picture) for none."""
    found = sorted(path.name for path in job.collection.figures.glob(f"{job.number}*.png"))
    return next(iter(sorted(found, key=lambda name: not name.endswith(f"_{job.model}.png"))), ".")


def _variants(collection: Collection, group: list[Outcome]) -> str:
    what = "Models" if group[0][0].model else "Scores of"
    links = " ".join(_linked(collection, job, html.escape(_name(job))) for job, _ in group)
    return f'<p class="variants">{what}: {links}</p>'


def _linked(collection: Collection, job: Job, text: str) -> str:
    return f'<a href="{_link(collection, job.page)}">{text}</a>' if job.page.is_file() else text


def _link(collection: Collection, file: Path) -> str:
    return quote(Path(os.path.relpath(file, collection.figures)).as_posix())


def _went_wrong(result: Result) -> bool:
    return result.status in ("failed", "skipped")


def _told(job: Job, result: Result) -> str:
    return html.escape(f"{job.name}: " + without_folders(": ".join(filter(None, [result.status, result.cause]))))


# --- every file ---------------------------------------------------------------------------------------------------


def _alts(collection: Collection, job: Job) -> dict[str, str]:
    """File as seen from this collection's folder -> the text that stands for it."""
    place = Path(os.path.relpath(job.collection.figures, collection.figures))
    return {(place / name).as_posix(): alt for name, alt in kept_by(job.executed).alts.items()}


def _by_number(names: Iterable[str]) -> dict[str, list[str]]:
    """The files by the notebook, and the folder, that their names begin with."""
    groups: dict[str, list[str]] = {}
    for name in names:
        head = Path(name).name.partition("_")[0]
        groups.setdefault(str(Path(name).parent / head) if head[:2].isdigit() else "others", []).append(name)
    return dict(sorted(groups.items()))


def _files(group: str, names: list[str], alts: Mapping[str, str]) -> str:
    rows = "\n".join(_file(name, alts.get(name, "")) for name in names)
    return f"<details><summary>{html.escape(group)} ({len(names)})</summary>\n<ul>\n{rows}\n</ul></details>"


def _file(name: str, alt: str) -> str:
    return f'<li><a href="{quote(name)}">{html.escape(name)}</a>{f": {html.escape(alt)}" if alt else ""}</li>'
