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
    figures.save(draw_reading(), PUBLISHED, "freedom", reading_text())
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
    notebooks = []
    for path in find_notebooks(NOTEBOOKS):
        title, question = opening(path)
        number = path.name.partition("_")[0]
        notebooks.append({"title": title, "question": question, "file": path.name, "number": number})
    colours = figures.model_colours(ends.columns)
    shown = ends.map(lambda text: display.token_html(text, 16))
    columns = [{"model": model, "colour": colours[model], "best": shown.loc["optimal", model],
                "worst": shown.loc["pessimal", model], "hidden": hidden[model]} for model in ends]  # fmt: skip
    minorities = gathered[gathered["claim"] == "S4.minorities"]
    gaps = "; ".join(f"{row['prompt']}: {claims.number_text(row)}" for _, row in minorities.iterrows())
    return (layout or template("front")).render(
        title="Seeing what reward models value", columns=columns, reading=reading_text(), gaps=gaps,
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


# --- a token in pieces --------------------------------------------------------------------------------------------


def first_token() -> pd.Series:
    """Return how R-Lla-3B read its most rewarded token of Table 2, a row of data/tokenizers/printed_tokens.csv."""
    printed = pd.read_csv(ROOT / "data" / "tokenizers" / "printed_tokens.csv", keep_default_na=False, dtype=str)
    return printed.query("table == '2' and nickname == 'R-Lla-3B' and end == 'optimal' and position == '1'").iloc[0]


def reading_text() -> str:
    """Return what the picture of the token in pieces shows, as a sentence."""
    token = first_token()
    before, after, pieces = display.show_token(token["text"]), token["text"].strip(), token["pieces"].split("|")
    return f"The token “{before}” became “{after}”, and was read as “{'” and “'.join(pieces)}”."


def draw_reading() -> figures.Chart:
    """Draw what became of R-Lla-3B's most rewarded token before the model read it."""
    token = first_token()
    steps = (("the token", [display.show_token(token["text"])]),
             ("the chat template trims it", [token["text"].strip()]),
             ("the tokenizer reads it again", token["pieces"].split("|")))  # fmt: skip
    figure = figures.new_chart(9, 2.2, "R-Lla-3B's most rewarded token was never read as this word")
    axes = figure.subplots()
    axes.set(xlim=(0, len(steps)), ylim=(0, 1))
    axes.set_axis_off()
    for place, (step, texts) in enumerate(steps):
        axes.text(place + 0.5, 0.9, step, ha="center")
        for part, text in enumerate(texts):
            x = place + (part + 1) / (len(texts) + 1)
            axes.text(x, 0.45, text, ha="center", va="center", fontsize=20, family="monospace",
                      bbox={"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": figures.GREY})  # fmt: skip
        if place:
            axes.annotate("", (place + 0.06, 0.45), (place - 0.06, 0.45), arrowprops={"arrowstyle": "->"})
    return figure
