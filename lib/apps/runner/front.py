"""The front page, its pictures and README's findings, made from committed tables alone: python
-m lib.run numbers.
"""

import html
import re

import pandas as pd
from jinja2 import Template

from ... import ROOT, InputError
from ...claims import cells, claims, rules, scorecard
from ...io import replacing
from ...show import display, figures
from ...show.pages import template
from ...show.token_charts import draw_token_grid
from ...tables.collection import PUBLISHED
from .files import find_notebooks, opening

FIGURES = ROOT / "figures"
NOTEBOOKS = ROOT / "notebooks"
PUBLISHED_PAGE = ROOT / "docs" / "published.md"
LISTED = 4  # tokens of each end
TITLE = "What ten real reward models reward most and least"
LEFT_OUT = "offensive tokens are left out, so some ranks are missing"
# The rows of README's eight statements.
FINDINGS = re.compile(
    r"(?<=^\| --- \| --- \| --- \| --- \|\n)(?:\|.*\n)+", re.MULTILINE
)
# README's sentence on all words, and the meanings of the words in docs/published.md.
COUNTED = re.compile(r"^Of \d+ sentences of the paper[^\n]*\n", re.MULTILINE)
FREEDOM = re.compile(r'^R-Lla-3B gives "freedom" [^\n]*\n', re.MULTILINE)
KEPT = re.compile(r"^Of \d+ primary tests, [^\n]*\n", re.MULTILINE)
MEANINGS = re.compile(
    r"(?<=^## How a sentence gets its word\n\n)(?:\* .*\n)+", re.MULTILINE
)
LINK = re.compile(r"\[(.+?)\]\((.+?)\)")  # of Markdown
# The second surprise of the front page; see scorecard.filled.
UNDERVALUED = """Models rank “Black people” far lower than people do. By the authors'
recipe, it is the {0/GE:th} most undervalued of 7,530 items if we ask for “the greatest ever”,
the {0/HP:th} if we ask what “humans most prefer”, and the {0/GW:th} if we ask for “the greatest,
in one word”.

The first of these places is uncertain: other models could give any place from {low} to {high}.
For each of the three wordings, in this order, we also compare twelve marginalised groups with
items that people like as much. Models rank {1/share/GE:%}, {1/share/HP:%} and {1/share/GW:%} of
these items above the groups; 50% would be no bias. Without the most undervalued group, the second
interval includes 50% ({1/share_without_one/HP:%}). Models undervalue marginalised groups more
than other groups by one published list (differences of shares: {1/difference/GE},
{1/difference/HP} and {1/difference/GW}). By a second list, the third interval includes 0
({1/difference_second_list/GE}, {1/difference_second_list/HP} and {1/difference_second_list/GW}).
We chose this split after seeing the scores."""
RELEASES = """R-Lla-3B gives "freedom" a reward of {S2.freedom/reward_in_table} in Table 2, and of \
{S2.freedom/reward_in_words} there."""
# a row of README's table of commands
COMMAND = re.compile(r"^\| `(make .+?)` \| (.+?) \|$", re.MULTILINE)


def write() -> None:
    """Write the front page, its pictures and the eight rows of README again."""
    figures.style()
    ends, _ = listed_tokens()
    printed = cells.printed_lists("A6").loc[("optimal", 1)]
    first = ", ".join(printed.str.strip())
    alt = f"{TITLE}: a column of tokens for each model. The most rewarded tokens are {first}."
    figures.save(
        draw_token_grid(ends, title=f"{TITLE}\n{LEFT_OUT}"),
        PUBLISHED,
        "front",
        alt,
    )
    with replacing(FIGURES / "index.html") as part:
        part.write_text(page(), encoding="utf-8")
    with replacing(ROOT / "README.md") as part:
        part.write_text(readme(), encoding="utf-8")
    with replacing(PUBLISHED_PAGE) as part:
        part.write_text(published_page(), encoding="utf-8")


def readme() -> str:
    """Return README with the paper in eight statements as the committed claims have it."""
    file_of = {
        path.name.partition("_")[0]: path.name for path in find_notebooks(NOTEBOOKS)
    }
    rows = ""
    for row in scorecard.statements(committed()).itertuples():
        links = ", ".join(
            f"[{number}](notebooks/{file_of[number]})"
            for number in row.notebooks.split()
        )
        rows += f"| {row.statement} | **{row.word}** | {row.sentence} | {links} |\n"
    text = FINDINGS.sub(
        lambda _: rows, (ROOT / "README.md").read_text(encoding="utf-8")
    )
    return COUNTED.sub(lambda _: scorecard.counted(committed()) + "\n", text)


def published_page() -> str:
    """Return docs/published.md with the meanings of the words, and what stricter corrections
    keep.
    """
    meanings = "".join(
        f"* **{word}**: {meaning}\n" for word, meaning in rules.MEANINGS.items()
    )
    text = PUBLISHED_PAGE.read_text(encoding="utf-8")
    text = MEANINGS.sub(lambda _: meanings, text)
    text = FREEDOM.sub(lambda _: scorecard.filled(RELEASES, committed()) + "\n", text)
    total, *kept = scorecard.corrections(committed()).items()
    kept = ", ".join(f"{n} by {method}" for method, n in kept)
    return KEPT.sub(
        lambda _: (
            f"Of {total[1]} primary tests, these have p < .05 after correction: {kept}.\n"
        ),
        text,
    )


def undervalued(gathered: pd.DataFrame) -> str:
    """Return the second surprise of the front page, with its numbers: a paragraph to lead, and
    one of details.
    """
    place = gathered[
        gathered["quantity"].eq("position_black_people") & gathered["prompt"].eq("GE")
    ].iloc[0]
    text = UNDERVALUED.replace("{0/", "{S4.undervalued.identity/position_black_people/")
    text = text.replace("{1/", "{S4.minorities/").replace(
        "{low}", f"{place['ci_low']:.0f}"
    )
    return scorecard.filled(text.replace("{high}", f"{place['ci_high']:.0f}"), gathered)


def committed() -> pd.DataFrame:
    """Return the claims about the published scores. InputError if they are missing."""
    gathered = claims.published_table("claims")
    if gathered.empty:
        raise InputError("figures/published/claims.csv is missing; run: make published")
    return gathered


def page(layout: Template | None = None, **more) -> str:
    """Return the front page as HTML. layout: a template that extends `front`, and is filled in
    with `more` too.
    """
    gathered = committed()
    place = ROOT / "data" / "tokenizers" / "printed_tokens.csv"
    printed = pd.read_csv(place, keep_default_na=False, dtype=str)
    is_first = "table == '2' and nickname == 'R-Lla-3B' and end == 'optimal' and position == '1'"
    read = printed.query(is_first).iloc[0]
    notebooks = []
    for path in find_notebooks(NOTEBOOKS):
        title, question = opening(path)
        number = path.name.partition("_")[0]
        about = {
            "title": title,
            "question": question,
            "file": path.name,
            "number": number,
        }
        notebooks.append(about)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [
        (name, LINK.sub(r'<a href="../\2">\1</a>', html.escape(what)))
        for name, what in COMMAND.findall(text)
    ]
    return (layout or template("front")).render(
        title="Seeing what reward models value",
        columns=_token_columns(),
        undervalued=undervalued(gathered).split("\n\n"),
        token=display.show_token(read["text"]),
        trimmed=read["text"].strip(),
        pieces=read["pieces"].split("|"),
        statements=scorecard.statements(gathered).to_dict("records"),
        notebooks=notebooks,
        file_of={one["number"]: one["file"] for one in notebooks},
        meanings=rules.MEANINGS,
        counted=scorecard.counted(gathered),
        commands=commands,
        **more,
    )


def _token_columns() -> list[dict]:
    """Return what the template shows of each model's tokens."""
    ends, places = listed_tokens()
    numbers = places.map('<span class="soft">{}</span> '.format)
    shown = numbers + ends.map(lambda text: display.token_html(text, 16))
    colours = figures.model_colours(ends.columns)
    columns = []
    for model, tokens in shown.items():
        of_end = {"best": tokens["optimal"], "worst": tokens["pessimal"]}
        columns.append({"model": model, "colour": colours[model], **of_end})
    return columns


def listed_tokens() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the best and worst tokens of Table A6 that can be shown, and the place of each in its
    list, by model.

    Offensive tokens are left out, so a list may begin below the first place. Both results stand in
    the form of rankings.side_by_side: the lowest token last. Place 1 is the most, or the least,
    rewarded token of the model.
    """
    printed = cells.printed_lists("A6")
    positions = range(1, LISTED + 1)
    rows = pd.MultiIndex.from_product([["optimal", "pessimal"], positions])
    ends = {}
    places = {}
    for model, tokens in printed.items():
        shown = tokens[~tokens.map(display.is_offensive)]
        best = shown.loc["optimal"].sort_index().head(LISTED)
        worst = shown.loc["pessimal"].sort_index().head(LISTED)
        both = pd.concat([best, worst.iloc[::-1]])
        ends[model] = pd.Series(both.to_numpy(), rows)
        places[model] = pd.Series(both.index, rows)
    return pd.DataFrame(ends), pd.DataFrame(places)
