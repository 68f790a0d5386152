"""The front page of the project, figures/index.html, its picture, and the numbers in README.md and docs/.

All are made from committed tables alone and name committed files only, so that a fresh clone can open them.
"""

from pathlib import Path

from .. import ROOT
from ..claims import cells, claims, scorecard, sections
from ..io import replacing
from ..show import figures
from ..show.pages import template
from ..show.token_charts import draw_token_grid
from ..tables.collection import PUBLISHED
from .files import find_notebooks, opening

FIGURES = ROOT / "figures"
PICTURE = "front"
LISTED = 4  # tokens of each end in the picture
TITLE = "What ten real reward models reward most and least"
COMMANDS = (
    ("make score MODEL=path/to/model", "score every token of its vocabulary"),
    ("make check MODEL=path/to/model", "is it scored as its makers meant?"),
    ("make card MODEL=path/to/model", "one page on what it values"),
    ('make compare MODELS="first second"', "what changed between two checkpoints?"),
)


def write() -> None:
    """Write the numbers of README.md and docs/, the front picture and the front page again."""
    sections.write()
    draw_picture()
    with replacing(FIGURES / "index.html") as part:
        Path(part).write_text(page(), encoding="utf-8")


def draw_picture() -> Path:
    """Draw the most and least rewarded tokens of the paper's ten models, as its Table A6 lists them; offensive ones
    are hidden."""
    figures.style()
    listed = cells.printed_lists("A6")
    ends = listed[listed.index.get_level_values("position") <= LISTED]
    return figures.save(draw_token_grid(ends, title=TITLE), PUBLISHED, PICTURE, alt_text())


def page() -> str:
    """Return the front page as HTML."""
    gathered = sections.committed()
    findings = sections.findings(scorecard.scorecard(gathered), gathered)
    notebooks = [dict(zip(("title", "question"), opening(path), strict=True), file=path.name)
                 for path in find_notebooks(ROOT / "notebooks")]  # fmt: skip
    return template("front").render(
        title="Seeing what reward models value", front=f"published/{PICTURE}.png", front_alt=alt_text(),
        findings=findings.to_dict("records"), commands=COMMANDS, notebooks=notebooks,
    )  # fmt: skip


def alt_text() -> str:
    """Return what the front picture shows, for those who cannot see it."""
    first = claims.paper_table("tables_a6_a7").query("table == 'A6' and end == 'optimal' and position == 1")
    tokens = ", ".join(first["text"].str.strip())
    return f"{TITLE}: a column of tokens for each model. The most rewarded tokens are {tokens}."
