"""What a reader opens first: the index of a collection."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...io import replacing
from ...show.display import ANSWER_TYPE
from ...show.pages import template
from ...tables.collection import Collection
from .jobs import Job, read


def opening(notebook: Path) -> Sequence[str]:
    """Return the title of a notebook and its question, which its first cell has in bold."""
    source = "".join(read(notebook)["cells"][0]["source"])
    return re.match(r"# (.*)(?s:.*?)\*\*([^*]*\?)\*\*", source).groups()  # type: ignore


def answer_of(executed: Path) -> str:
    """Return the answer of a notebook as far as it was executed; '' without one."""
    outputs = [
        each for cell in read(executed)["cells"] for each in cell.get("outputs", [])
    ]
    return "".join(output.get("data", {}).get(ANSWER_TYPE, "") for output in outputs)


def write_index(home: Collection, jobs: Iterable[Job]) -> None:
    """Write figures/<collection>/index.html: what the notebooks of these jobs ask and answer."""
    rows = [
        (job, *opening(job.notebook), answer_of(job.executed))
        for job in jobs
        if job.notebook
    ]
    index = template("index")
    page = index.render(
        title=f"Collection {home}", home=home, rows=rows, relpath=os.path.relpath
    )
    with replacing(home.figures / "index.html") as part:
        part.write_text(page, encoding="utf-8")
