"""Tokens and tables made visible and safe.

Nobody has checked the text of tokens. It may hold markup, formulas, terminal escapes, or characters
that turn the direction of a line. So a mark (MARKS) or a code point stands for every character that
cannot be seen. Offensive tokens are folded away in HTML until they are clicked, and hidden in plain
text; data/offensive.txt lists them as hashes.
"""

import base64
import functools
import hashlib
import html
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pandas.api.types import is_float_dtype, is_numeric_dtype

from .. import DATA
from ..io import INVISIBLE, visible
from ..stats import rankings

MARKS = {" ": "␣", "\n": "↵", "\t": "⇥"}
LEGEND = {
    "␣": "␣ space",
    "↵": "↵ newline",
    "⇥": "⇥ tab",
    "⟨U": "⟨U+…⟩ a character by its code point",
    "…⟨": "…⟨n⟩ cut, n characters in all",
    "▒⟨": "▒⟨n⟩ an offensive token of n characters, hidden",
}
# shown by code point in a token, since here, or to the reader, they mean something else
TAKEN = set("␣↵⇥⟨⟩▒\ufffd")
# combining marks on one letter; more of them would climb out of the line
MOST_MARKS = 2
NARROWEST = 10


# --- one token ------------------------------------------------------------------------------------


def show_token(
    text: str,
    width: int = 40,
    *,
    blur: bool = True,
    lacks: Callable[[str], bool] = lambda character: False,
) -> str:
    """Return a token as plain text that is safe anywhere and at most `width` columns wide, without
    space or newline.

    Different texts are shown differently, unless they are cut, as `…⟨n⟩` of n characters.
    Right-to-left characters are shown by code point, because they reorder the line; so are those of
    which `lacks` is true. With blur, an offensive token shows only its length, as `▒▒▒⟨n⟩`.
    """
    if blur and is_offensive(text):
        return hidden_word(text)
    pieces = _cut(
        text,
        width,
        lambda c: lacks(c) or unicodedata.bidirectional(c) in ("R", "AL", "AN"),
    )
    return "".join(shown for shown, _ in pieces)


def token_html(text: str, width: int = 40, *, blur: bool = True) -> str:
    """Return a token as HTML that holds nothing but its visible text: no markup, formula or
    direction of its own.

    With blur, an offensive token is folded until it is clicked, without style or script, which many
    viewers drop.
    """
    inside = "".join(
        f'<i style="{MARK_STYLE}">{_inert(shown)}</i>' if is_mark else _inert(shown)
        for shown, is_mark in _cut(text, width, lambda character: False)
    )
    # Both classes tell MathJax, old and new, to pass over the token; <bdi> keeps its direction to
    # itself.
    shown = f'<bdi class="token tex2jax_ignore mathjax_ignore" style="{TOKEN_STYLE}">{inside}</bdi>'
    if not (blur and is_offensive(text)):
        return shown
    hint = f"offensive token of {len(text)} characters: click to read"
    summary = (
        f'<summary title="{hint}" style="cursor: pointer">{hidden_word(text)}</summary>'
    )
    return f'<details class="offensive" style="display: inline-block">{summary}{shown}</details>'


def hidden_word(text: str) -> str:
    """Return what stands for an offensive text: its length in characters."""
    return f"▒▒▒⟨{len(text)}⟩"


def _cut(
    text: str,
    width: int,
    escaped: Callable[[str], bool],
) -> list[tuple[str, bool]]:
    """Return the pieces of a token's visible text, as (text, is it a mark), together at most
    `width` columns.
    """
    if not text:
        return [("⟨empty⟩", True)]
    # a column holds at most one letter and its combining marks
    longest = (MOST_MARKS + 1) * width
    kept = min(len(text), longest)
    end = [(f"…⟨{len(text)}⟩", True)]
    pieces = _pieces(text[:kept], escaped) + end * (kept < len(text))
    while kept and _columns_of("".join(shown for shown, _ in pieces)) > width:
        kept -= 1
        pieces = _pieces(text[:kept], escaped) + end
    return pieces


def _pieces(text: str, escaped: Callable[[str], bool]) -> list[tuple[str, bool]]:
    """Return runs of characters that show themselves, marks, and runs of code points in one pair
    of brackets.
    """
    pieces = []
    kind = ""
    marks = 0
    for i, character in enumerate(text):
        before = kind
        category = unicodedata.category(character)
        marks = marks + 1 if category[0] == "M" else 0
        # C: controls, formats (direction, zero width), surrogates, unassigned; Z: spaces that look
        # like the usual one.
        unseen = category[0] in "CZ" or character in INVISIBLE
        # looks like another, as the Kelvin sign does
        twin = unicodedata.normalize("NFC", character) != character
        hidden = unseen or twin or character in TAKEN or escaped(character)
        kind = "code" if hidden else "itself"
        # it has no letter of this token to sit on
        if marks and (before != "itself" or marks > MOST_MARKS):
            kind = "code"
        if (
            before == kind == "itself"
            and len(unicodedata.normalize("NFC", text[i - 1 : i + 1])) == 1
        ):
            kind = "code"  # e and an acute accent would look like é
        kind = "mark" if character in MARKS else kind
        shown = {"mark": MARKS.get(character), "code": f"⟨U+{ord(character):04X}⟩"}.get(
            kind, character
        )
        if kind == before == "code":
            shown = f"{pieces.pop()[0][:-1]} {shown[1:]}"
        elif kind == before == "itself":
            shown = pieces.pop()[0] + shown
        pieces.append((shown, kind != "itself"))
    return pieces


def _columns_of(text: str) -> int:
    """Return the columns that a text takes on a terminal: two for wide characters, none for
    combining ones.
    """
    separate = [c for c in text if unicodedata.category(c) not in ("Mn", "Me")]
    return len(separate) + sum(
        unicodedata.east_asian_width(c) in "WF" for c in separate
    )


def _inert(text: str) -> str:
    """Return text as HTML in which all ASCII punctuation is an entity, so that Markdown finds none
    either.

    A `$` or `\\` stands in an element of its own: MathJax does not look for formulas across
    elements.
    """
    entities = (
        f"&#{ord(c)};" if c.isascii() and not c.isalnum() and c != " " else c
        for c in text
    )
    return "".join(
        f"<span>{e}</span>" if e in ("&#36;", "&#92;") else e for e in entities
    )


# --- offensive tokens -----------------------------------------------------------------------------


@functools.lru_cache(1 << 18)  # many tables ask about the texts of one vocabulary
def is_offensive(text: str) -> bool:
    """Return whether a word of the text is on the project's list, in any case, behind any mark of a
    word's beginning.

    Terminal escapes, escapes as code writes them (`\\n`) and invisible characters are read as a
    gap, and as nothing.
    """
    # Ġ and Ċ stand for a space and a newline in byte-level vocabularies; as letters they would hide
    # the word.
    spaced = re.sub("[ĠĊ▁]", " ", text)
    readings = {spaced, *(re.sub(ESCAPE, gap, spaced) for gap in (" ", ""))}
    readings |= {re.sub(UNSEEN, "", reading) for reading in readings}
    # camelCase
    readings |= {re.sub(r"(?<=[a-z])(?=[A-Z])", " ", reading) for reading in readings}
    words = re.findall(WORD, " ".join(readings))
    return any(word_hash(word) in _offensive() for word in words)


ESCAPE = "|".join(
    [
        # colours; a token may begin behind the escape
        r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]",
        r"\[[0-9;]+[A-Za-z]",
        r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)",
        r"\x1b[ -/]*[0-~]",  # titles and links, and all others
        # as code writes them
        r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|u\{[0-9a-fA-F]+\}|[0-7]{1,3}|[abefnrtv])",
    ]
)
# Controls but for white space, what turns the direction of a line, and what says how the character
# before is drawn
UNSEEN = (
    r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u061c\u180e\u202a-\u202e\u2066-\u2069\ufe00-\ufe0f\ufeff"
    r"\U000e0000-\U000e01ef]+"
)
# letters, with what is put between them to hide them
WORD = r"(?:[^\W\d_]|[\u0300-\u036f\u00ad\u200b-\u200f\u2060])+"


def word_hash(word: str) -> str:
    """Return the hash by which data/offensive.txt lists a word, the same for any case or accent."""
    plain = unicodedata.normalize("NFKD", word.strip().casefold())
    seen = [c for c in plain if unicodedata.category(c) not in ("Mn", "Cf")]
    letters = "".join(seen).encode("utf-8", "replace")
    return hashlib.sha256(letters).hexdigest()[:16]


@functools.cache
def _offensive() -> frozenset[str]:
    lines = (DATA / "offensive.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


# --- tables ---------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Shown:
    """What a notebook shows, as HTML where that is possible and as plain text elsewhere; it
    stores both.
    """

    html: str
    text: str
    pictures: Mapping[str, str] | None = (
        None  # of what is folded: file -> alternative text
    )

    def _repr_html_(self) -> str | tuple[str, dict]:
        if self.pictures is None:
            return self.html
        return self.html, {"pictures": dict(self.pictures)}

    def __repr__(self) -> str:
        return self.text


# In each element, since many viewers drop what a <style> block says.
TOKEN_STYLE = "unicode-bidi: isolate; font-family: monospace"
MARK_STYLE = "opacity: .7; font-style: normal"
CAPTION_STYLE = "caption-side: top; text-align: left; font-weight: bold"
CELL_STYLES = {
    "token": "text-align: left; vertical-align: top; white-space: normal; min-width: 5em; "
    "overflow-wrap: anywhere",
    "text": "text-align: left; vertical-align: top; white-space: normal; max-width: 40em; "
    "overflow-wrap: break-word",
    "number": "text-align: right; vertical-align: top; white-space: nowrap",
}


def table_html(
    frame: pd.DataFrame,
    token_columns: Sequence[str],
    blur: bool = True,
    caption: str = "",
    width: int = 24,
) -> Shown:
    """Return a table that shows itself in notebooks and pages, and safely as plain text;
    token_columns hold tokens.

    A named index is shown as columns. Numbers have four significant digits of the column's largest,
    less the zeros that all end on. With blur, offensive words of any column are hidden. width is
    the columns of text per token.
    """
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    # in plain text, where a row is one line
    narrow = max(NARROWEST, min(width, 120 // max(1, len(token_columns))))
    pages = []
    texts = []
    for name, values in frame.items():
        if name in token_columns:
            kind = "token"
            cells = [_token_cell(token, width, narrow, blur) for token in values]
        else:
            kind = "number" if is_numeric_dtype(values) else "text"
            cells = [_text_cell(text, blur) for text in _as_texts(values)]
        style = f'style="{CELL_STYLES[kind]}"'
        head = _plain(name)
        column = [f"<td {style}>{page}</td>" for page, _ in cells]
        pages.append([f"<th {style}>{_inert(head)}</th>", *column])
        texts.append(_aligned([head, *(text for _, text in cells)], kind == "number"))
    text = "\n".join("  ".join(row).rstrip() for row in zip(*texts, strict=True))
    lines = [_plain(caption), text, legend_of(text)]
    rows = ["".join(row) for row in zip(*pages, strict=True)]
    return Shown(_table_page(rows, caption), "\n".join(filter(None, lines)))


def _table_page(rows: list[str], caption: str) -> str:
    """Return a table as HTML; rows: the HTML of the cells of its head and of each row."""
    legend = _inert(legend_of(html.unescape(re.sub("<[^>]*>", "", "".join(rows[1:])))))
    caption = _inert(_plain(caption))
    if caption:
        caption = f'<caption style="{CAPTION_STYLE}">{caption}</caption>'
    return (
        '<div class="tokens tex2jax_ignore mathjax_ignore" style="overflow-x: auto">'
        f"<table>{caption}\n<thead><tr>{''.join(rows[:1])}</tr></thead>\n<tbody>\n"
        + "".join(f"<tr>{row}</tr>\n" for row in rows[1:])
        + "</tbody></table>"
        + (f"\n<small>{legend}</small>" if legend else "")
        + "</div>"
    )


def _token_cell(token, width: int, narrow: int, blur: bool) -> tuple[str, str]:
    """Return a token as HTML and as plain text; a missing token is an empty cell."""
    if pd.isna(token):
        return "", ""
    return token_html(str(token), width, blur=blur), show_token(
        str(token), narrow, blur=blur
    )


def _text_cell(text: str, blur: bool) -> tuple[str, str]:
    """Return a number or a text as HTML and as plain text; blur hides offensive words."""
    pages = []
    texts = []
    for word in text.split(" "):
        is_hidden = blur and is_offensive(word)
        pages.append(token_html(word, 80) if is_hidden else _inert(word))
        texts.append(hidden_word(word) if is_hidden else word)
    return " ".join(pages), " ".join(texts)


def folded(line: str, *shown) -> Shown:
    """Return tables and charts behind one line of text, which opens them when it is clicked.

    It is for what stands for completeness only. Plain text shows the line alone. `shown`: results
    of table_html, and charts.
    """
    inside = []
    pictures = {}
    for one in shown:
        if isinstance(one, Shown):
            inside.append(one.html)
            continue
        png, about = one._repr_png_()
        encoded = base64.b64encode(png).decode()
        inside.append(
            f'<img alt="{_inert(about["alt"])}" src="data:image/png;base64,{encoded}">'
        )
        pictures[about["file"]] = about["alt"]
    plain = _plain(line)
    summary = f'<summary style="cursor: pointer">{_inert(plain)}</summary>'
    page = f"<details>{summary}{''.join(inside)}</details>"
    return Shown(page, f"{plain} (folded; open it in the notebook)", pictures)


def _as_texts(values: pd.Series) -> list[str]:
    """Return numbers or texts as a table shows them; a control character in a text is made
    visible.
    """
    if not is_float_dtype(values):
        return ["" if pd.isna(value) else _plain(value) for value in values]
    finite = values[values.abs() < math.inf]
    largest = finite.abs().max()
    most = 3
    if largest > 0:
        most = min(max(3 - math.floor(math.log10(largest)), 0), 9)
    ends = [f"{x:.{most}f}".partition(".")[2].rstrip("0") for x in finite]
    decimals = max(map(len, ends), default=0)
    return ["" if pd.isna(value) else f"{value:.{decimals}f}" for value in values]


def _plain(value) -> str:
    """Return a name or a note with what cannot be seen made visible; it is ours, and never
    hidden.
    """
    return " ".join(
        show_token(word, 80, blur=False) if word else ""
        for word in str(value).split(" ")
    )


def _aligned(cells: list[str], to_right: bool) -> list[str]:
    widest = max(map(_columns_of, cells))
    texts = []
    for cell in cells:
        blank = " " * (widest - _columns_of(cell))
        texts.append(blank + cell if to_right else cell + blank)
    return texts


def legend_of(shown: str) -> str:
    """Return what the marks that occur in some shown text mean; '' if there are none."""
    return ", ".join(meaning for mark, meaning in LEGEND.items() if mark in shown)


def ranked_table(
    table: pd.DataFrame,
    prompt: str,
    n: int = 22,
    blur: bool = True,
    caption: str = "",
) -> Shown:
    """Return the n optimal and the n pessimal tokens of a score table, side by side, as in the
    paper's Table 2.

    Position 1 is the most optimal or the most pessimal; ties are in order of token_id.
    """
    ends = rankings.ends(table, prompt, n)
    sides = [pd.Series(range(1, n + 1), name="position")]
    for end, rows in (("optimal", ends.head(n)), ("pessimal", ends.tail(n)[::-1])):
        side = rows[["token_id", "text", prompt]].reset_index(drop=True)
        sides.append(side.set_axis([f"{end} id", end, f"{end} reward"], axis=1))
    shown = pd.concat(sides, axis=1)
    return table_html(shown, ["optimal", "pessimal"], blur, caption)


def with_interval(row: Mapping, sign: str = "") -> str:
    """Return an estimate with its interval as text, `0.40 (0.31 to 0.49)`. sign: "+" shows the
    sign of each number.
    """
    estimate, low, high = (
        f"{row[name]:{sign}.2f}" for name in ("estimate", "ci_low", "ci_high")
    )
    return f"{estimate} ({low} to {high})"


def with_intervals(rows: pd.DataFrame, sign: str = "") -> str:
    """Return the estimates of a frame with their intervals, each behind the name of its row."""
    return ", ".join(
        f"{name} {with_interval(row, sign)}" for name, row in rows.iterrows()
    )


def content_warning(blur: bool = True) -> Shown:
    """Return the line at the top of a notebook that shows tokens."""
    line = (
        "Content warning: the tokens below include slurs, profanities and other harmful text. "
        "They are data here."
    )
    how = (
        "An offensive one is folded away: click ▒▒▒ to read it."
        if blur
        else "They are not folded away."
    )
    return Shown(f"<p><strong>{line}</strong> {how}</p>", f"{line} {how}")


# --- what notebooks state -------------------------------------------------------------------------


RECORD_TYPE = "application/vnd.reward-model-values+json"
ANSWER_TYPE = "application/vnd.reward-model-values.answer+json"


def record(**numbers) -> None:
    """Keep named numbers in the notebook that calls this, where `recorded` finds them after it
    was executed.
    """
    from IPython.display import display

    plain = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in numbers.items()
    }
    listed = ", ".join(f"{name} = {value}" for name, value in plain.items())
    display({RECORD_TYPE: plain, "text/plain": f"recorded: {listed}"}, raw=True)


def answer(text: str) -> None:
    """Show what answers the notebook's question: the first sentence, and the others folded. The
    first is kept in the notebook, where the index page finds it.

    Tokens in it come from show_token. An offensive word is hidden, and controls are shown by code
    point.
    """
    from IPython.display import display

    said = " ".join(
        hidden_word(word) if is_offensive(word) else visible(word, kept="")
        for word in text.split()
    )
    first, *others = re.split(r"(?<=[.?!]) ", said, maxsplit=1)
    page = f"<p><strong>{_inert(first)}</strong></p>"
    for rest in others:
        page += f"<details><summary>The numbers</summary>{_inert(rest)}</details>"
    display({ANSWER_TYPE: first, "text/html": page, "text/plain": said}, raw=True)
