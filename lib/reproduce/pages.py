"""What a run shows: an index of the pages of its notebooks, and a summary in words."""

import html
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import pandas as pd

from lib import ROOT, scores
from lib.collection import Collection
from lib.display import show_token
from lib.files import replacing
from lib.reproduce.documents import without_folders
from lib.reproduce.jobs import Job
from lib.reproduce.notebooks import opening
from lib.reproduce.record import Result, written

# --- what was found -----------------------------------------------------------------------------------------------


def summary(collection: Collection, models: list[str], jobs: list[Job], results: dict[str, Result]) -> str:
    """One screen in words: what was scored, the top and bottom tokens of each model, what failed, where to look."""
    lines = ["", *scored(collection, models), ""]
    lines += outcome(jobs, results)
    lines.append(
        f"Look at {shown_path(collection.figures / 'index.html')}: every notebook as a page, with its figures."
    )
    return "\n".join(lines)


def outcome(jobs: list[Job], results: dict[str, Result]) -> list[str]:
    """What failed and why, a line each, and how many notebooks ran."""
    causes = [(results[job.name].status, job.name, results[job.name].cause) for job in jobs]
    counts = Counter(result.status for result in results.values())
    counted = ", ".join(f"{n} {status}" for status, n in counts.most_common()) or "none"
    return [*(": ".join(line) for line in causes if line[2]), f"Notebooks: {counted}."]


def shown_path(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def scored(collection: Collection, models: list[str]) -> list[str]:
    """What was scored, and per model the three best and worst replies to the first prompt."""
    paths = {name: scores.path_of(collection, name) for name in models}
    tables = {name: scores.read(path) for name, path in paths.items() if path.is_file()}
    if not tables:
        return [f"No reward model of collection '{collection}' was scored."]
    prompts = scores.prompt_names(next(iter(tables.values())))
    asked = next(iter(tables.values())).attrs["metadata"].get("prompts", {}).get(prompts[0], prompts[0])
    width = max(map(len, ["model", *tables]))
    counts = f"{len(tables)} reward model{'s' * (len(tables) > 1)} scored in collection '{collection}'"
    return [
        f"{counts}: tokens of the vocabulary as the reply (prompts: {', '.join(prompts)}).",
        f'"{asked}"',
        f"{'model':{width}}   tokens  distinct  {'optimal':36}  pessimal",
        *(f"{name:{width}}  {_ends(table, prompts[0])}" for name, table in tables.items()),
    ]


def _ends(table: pd.DataFrame, prompt: str) -> str:
    inputs = scores.unique_inputs(table)
    ranked = inputs.iloc[(-inputs[prompt]).argsort(kind="stable")]["text"].tolist()
    best, worst = (", ".join(_short(show_token(text)) for text in some) for some in (ranked[:3], ranked[:-4:-1]))
    return f"{len(table):7,}  {len(inputs):8,}  {best:36}  {worst}"


def _short(token: str) -> str:
    return token if len(token) <= 10 else token[:9] + "…"


INDEX = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }}
td, th {{ text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #ddd; }}
figure {{ display: inline-block; margin: 0 1rem 1rem 0; }} img {{ max-width: 30rem; height: auto; display: block; }}
.failed, .skipped {{ color: #b00020; }}
</style>
<h1>{title}</h1>
<table><tr><th>notebook<th>question<th>model<th>status<th>seconds</tr>
{rows}
</table>
<h2>Figures and tables</h2>
{figures}
</html>
"""


def write_index(collection: Collection, jobs: list[Job], results: dict[str, Result]) -> None:
    """Write the page that links every notebook's page, with how it went, and all figures and tables."""
    title = html.escape(f"What reward models value: collection {collection}")
    rows = "\n".join(_row(job, results[job.name]) for job in jobs)
    figures = "\n".join(map(_figure, written(collection)))
    with replacing(collection.figures / "index.html") as part:
        part.write_text(INDEX.format(title=title, rows=rows, figures=figures), encoding="utf-8")


def _row(job: Job, result: Result) -> str:
    title, question = map(html.escape, opening(job.notebook))
    linked = f'<a href="{quote(job.page.name)}">{title}</a>' if job.page.is_file() else title
    status = html.escape(without_folders(": ".join(filter(None, [result.status, result.cause]))))
    cells = [linked, question, html.escape(job.model), f'<span class="{result.status}">{status}</span>']
    return "<tr><td>" + "<td>".join([*cells, f"{result.seconds:.0f}"]) + "</tr>"


def _figure(name: str) -> str:
    link, shown = quote(name), html.escape(name)
    if Path(name).suffix in (".png", ".svg"):
        return f'<figure><a href="{link}"><img src="{link}" alt="{shown}"></a><figcaption>{shown}</figcaption></figure>'
    return f'<p><a href="{link}">{shown}</a></p>'
