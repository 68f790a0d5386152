"""The front page, its pictures and README's findings, made from committed tables alone: python -m lib.run numbers."""

import re

import pandas as pd
from jinja2 import Template

from .. import ROOT, InputError
from ..claims import cells, claims, scorecard
from ..io import replacing
from ..show import display, figures
from ..show.pages import template
from ..show.token_charts import draw_token_grid
from ..tables.collection import PUBLISHED
from .files import find_notebooks, opening

FIGURES, NOTEBOOKS = ROOT / "figures", ROOT / "notebooks"
LISTED = 4  # tokens of each end
TITLE = "What ten real reward models reward most and least"
# The rows of README's eight statements.
FINDINGS = re.compile(r"(?<=^\| --- \| --- \| --- \| --- \|\n)(?:\|.*\n)+", re.MULTILINE)
COMMAND = re.compile(r"^\| `(make .+?)` \| (.+?) \|$", re.MULTILINE)  # a row of README's table of commands


def write() -> None:
    """Write the front page, its pictures and the eight rows of README again."""
    figures.style()
    ends, _ = listed_tokens()
    first = ", ".join(cells.printed_lists("A6").loc[("optimal", 1)].str.strip())
    alt = f"{TITLE}: a column of tokens for each model. The most rewarded tokens are {first}."
    figures.save(draw_token_grid(ends, title=TITLE), PUBLISHED, "front", alt)
    with replacing(FIGURES / "index.html") as part:
        part.write_text(page(), encoding="utf-8")
    with replacing(ROOT / "README.md") as part:
        part.write_text(readme(), encoding="utf-8")


def readme() -> str:
    """Return README with the paper in eight statements as the committed claims have it."""
    file_of = {path.name.partition("_")[0]: path.name for path in find_notebooks(NOTEBOOKS)}
    rows = ""
    for row in scorecard.statements(committed()).itertuples():
        links = ", ".join(f"[{number}](notebooks/{file_of[number]})" for number in row.notebooks.split())
        rows += f"| {row.statement} | **{row.word}** | {row.number} {row.what} | {links} |\n"
    return FINDINGS.sub(lambda _: rows, (ROOT / "README.md").read_text(encoding="utf-8"))


def committed() -> pd.DataFrame:
    """Return the claims about the published scores. InputError if they are missing."""
    gathered = claims.published_table("claims")
    if gathered.empty:
        raise InputError("figures/published/claims.csv is missing; run: make published")
    return gathered


def page(layout: Template | None = None, **more) -> str:
    """Return the front page as HTML. layout: a template that extends `front`, and is filled in with `more` too."""
    gathered, (ends, hidden) = committed(), listed_tokens()
    printed = pd.read_csv(ROOT / "data" / "tokenizers" / "printed_tokens.csv", keep_default_na=False, dtype=str)
    read = printed.query("table == '2' and nickname == 'R-Lla-3B' and end == 'optimal' and position == '1'").iloc[0]
    notebooks = [{"title": title, "question": question, "file": path.name, "number": path.name.partition("_")[0]}
                 for path in find_notebooks(NOTEBOOKS) for title, question in [opening(path)]]  # fmt: skip
    colours = figures.model_colours(ends.columns)
    shown = ends.map(lambda text: display.token_html(text, 16))
    columns = [{"model": model, "colour": colours[model], "best": shown.loc["optimal", model],
                "worst": shown.loc["pessimal", model], "hidden": hidden[model]} for model in ends]  # fmt: skip
    minorities = gathered[gathered["claim"] == "S4.minorities"]
    gaps = "; ".join(f"{row['prompt']}: {claims.number_text(row)}" for _, row in minorities.iterrows())
    return (layout or template("front")).render(
        title="Seeing what reward models value", columns=columns, gaps=gaps,
        token=display.show_token(read["text"]), trimmed=read["text"].strip(), pieces=read["pieces"].split("|"),
        statements=scorecard.statements(gathered).to_dict("records"), notebooks=notebooks,
        file_of={one["number"]: one["file"] for one in notebooks},
        commands=COMMAND.findall((ROOT / "README.md").read_text(encoding="utf-8")), **more,
    )  # fmt: skip


def listed_tokens() -> tuple[pd.DataFrame, pd.Series]:
    """Return the best and worst tokens of Table A6 that can be shown, and how many worse ones are hidden, by model.

    The tokens stand in the form of rankings.side_by_side: the lowest one last.
    """
    printed = cells.printed_lists("A6")
    best = printed.loc["optimal"].head(LISTED)
    worst, hidden = {}, {}
    for model, lowest_last in printed.loc["pessimal"].items():
        upward = lowest_last.iloc[::-1]
        is_hidden = upward.map(display.is_offensive)
        shown = upward[~is_hidden].head(LISTED)
        hidden[model] = int(is_hidden.loc[: shown.index[-1]].sum())
        worst[model] = shown.to_numpy()[::-1]
    ends = pd.concat({"optimal": best, "pessimal": pd.DataFrame(worst, index=range(len(shown), 0, -1))})
    return ends, pd.Series(hidden)
