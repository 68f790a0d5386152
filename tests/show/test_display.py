"""Tokens are untrusted text: none may act on a page, a terminal or a table, and each must be
told from the others.
"""

import re
import unicodedata
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib import ROOT
from lib.show.display import (
    ANSWER_TYPE,
    MARK_STYLE,
    MARKS,
    Shown,
    answer,
    is_offensive,
    show_token,
    table_html,
    word_hash,
)

HOSTILE = [
    "love",
    " love",
    "Ġlove",
    "\u00a0love",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '" onmouseover="x',
    r"\(x\)",
    "$",
    "\\",
    "| a | b |",
    "\x1b[31mred",
    "\x9b31m",
    "\x00",
    "\n",
    "a\nb",
    "\u202eevil",
    "\u200b",
    "\ufeff",
    "\u2028",
    "❤",
    "❤\ufe0f",
    "\u3164",
    "\ud800",
    "\ufffd",
    "e\u0301",
    "é",
    "\u212a",
    "K",
    "\u1100\u1161",
    "가",
    "Z" + "\u0301" * 9,
    "עברית",
    "爱情",
    "😀",
    "👩\u200d💻",
    "",
    " ",
    "null",
    "⟨U+0041⟩",
    "⟨empty⟩",
    "↵",
    "▒▒▒⟨3⟩",
    "…⟨9⟩",
    "#" * 300,
    " " * 128,
    "\u0338=",
    "=\u0338",
]


def read_back(shown: str) -> str:
    """The inverse of show_token, written from its description: marks and code points back into
    characters.
    """
    if shown == "⟨empty⟩":
        return ""
    marks = {mark: character for character, mark in MARKS.items()}
    pieces = re.split(r"⟨([^⟩]*)⟩", shown)
    texts = ["".join(marks.get(c, c) for c in piece) for piece in pieces[::2]]
    points = [
        "".join(chr(int(point[2:], 16)) for point in piece.split(" "))
        for piece in pieces[1::2]
    ]
    return "".join(map("".join, zip(texts, [*points, ""], strict=True)))


class Page(HTMLParser):
    """Elements and attributes of a page, and the text of each <bdi> and each other element."""

    def __init__(self, page: str):
        super().__init__()
        self.tags, self.attributes, self.tokens, self.inside = [], set(), [], False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes |= {(tag, name, value) for name, value in attributes}
        if tag == "bdi":
            self.tokens.append("")
            self.inside = True

    def handle_endtag(self, tag):
        self.inside = self.inside and tag != "bdi"

    def handle_data(self, data):
        if self.inside:
            self.tokens[-1] += data


def table_of(tokens: list[str], **options) -> Shown:
    n = len(tokens)
    frame = pd.DataFrame(
        {
            "token_id": np.arange(n),
            "token": pd.Series(tokens, dtype=object),
            "reward": np.linspace(4, -9, n),
        }
    )
    return table_html(frame, ["token"], **options)


def unsafe(text: str) -> list[str]:
    """Characters that act on a terminal or a line: controls, formats, surrogates, right-to-left
    letters.
    """
    kinds = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "R", "AL", "AN"}
    about = (unicodedata.category, unicodedata.bidirectional)
    return [c for c in text if c != "\n" and kinds & {of(c) for of in about}]


def columns(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.category(c) in ("Mn", "Me") for c in text)


@pytest.mark.parametrize("token", HOSTILE)
def test_a_shown_token_is_safe_and_nothing_of_it_is_lost(token):
    shown = show_token(token, 10_000)
    assert not unsafe(shown) and not set(shown) & set("\n\t\r")
    assert " " not in re.sub("⟨[^⟩]*⟩", "", shown)
    assert read_back(shown) == token


def test_different_tokens_look_different_unless_they_are_cut():
    shown = [show_token(token, 16) for token in HOSTILE]
    whole = [s for s in shown if not re.search(r"…⟨\d+⟩$", s)]
    assert len(whole) == len(set(whole)) and len(whole) > len(HOSTILE) / 2
    # to the eye, not only to the computer
    assert len({unicodedata.normalize("NFC", s) for s in whole}) == len(whole)


def test_the_marks_that_a_reader_meets_most():
    assert show_token(" love") == "␣love"
    assert show_token("love") == "love"
    assert show_token("a\n\tb") == "a↵⇥b"
    assert show_token("\x1b[31m") == "⟨U+001B⟩[31m"
    assert show_token("a\u202e\u200bb") == "a⟨U+202E U+200B⟩b"
    assert show_token("\ufffd") == "⟨U+FFFD⟩"
    assert show_token("") == "⟨empty⟩"
    assert show_token("Ġlove") == "Ġlove"  # a vocabulary's own string stays as it is
    assert show_token("نف") == "⟨U+0646 U+0641⟩"
    assert show_token("e\u0301") == "e⟨U+0301⟩" != show_token("é") == "é"


def test_a_cut_token_says_so_and_keeps_to_its_width():
    assert show_token("#" * 300, 12) == "######…⟨300⟩"
    assert show_token("abcdefghijkl", 12) == "abcdefghijkl"
    # three wide characters of two columns, five for the end
    assert show_token("爱" * 30, 12) == "爱爱爱…⟨30⟩"
    for token in HOSTILE + ["x" * 10**6, "\u0301" * 1000]:
        for width in (10, 11, 24):
            assert columns(show_token(token, width)) <= width


def printed(*token_ids: int) -> list[str]:
    table = pd.read_csv(
        ROOT / "data" / "paper" / "table_2.csv", keep_default_na=False
    ).set_index("token_id")
    return [table.loc[i, "decoded"] for i in token_ids]


def test_slurs_and_profanities_of_the_papers_table_2_are_blurred():
    ids = (106863, 213624, 204573, 230672, 231158, 39688, 158058, 201371)
    assert all(map(is_offensive, printed(*ids)))


def test_inflections_and_disguises_of_a_word():
    profanity, slur = printed(106863, 231158)
    stem = profanity.removesuffix("ING")
    forms = [stem, stem.lower() + "s", stem.title() + "ed", f"Ġ{slur}", f" {slur}s!"]
    forms += [f"get{stem.title()}", f"{slur[:3]}\u200b{slur[3:]}", f"_{stem}_"]
    forms += ["".join(chr(ord(c) + 0xFEE0) for c in slur)]  # wide letters
    assert [form for form in forms if not is_offensive(form)] == []


CSI = st.from_regex(r"(\x1b\[|\x9b)[0-9;?]{0,8}[A-Za-z]", fullmatch=True)
OTHER_ESCAPES = st.sampled_from(
    ["\x1b]0;title\x07", "\x1b(B", "[31m", "\\n", "\\u202e", "\x00", "\u2066"]
)
ESCAPES = st.lists(CSI | OTHER_ESCAPES, min_size=1, max_size=3).map("".join)


@given(before=ESCAPES, cut=st.integers(1, 4), between=ESCAPES, after=ESCAPES)
def test_no_escape_sequence_hides_a_word(before, cut, between, after):
    slur = printed(231158)[0]
    assert is_offensive(before + slur) and is_offensive(slur + after)
    assert is_offensive(f"{before}{slur[:cut]}{between}{slur[cut:]}")


def test_words_that_name_a_group_are_not_offensive():
    named = [
        "homosexuals",
        "lesbian",
        "gay",
        "blacks",
        "Jews",
        "Muslim",
        "women",
        "trans",
        "disabled",
        "Roma",
    ]
    everyday = [
        "love",
        "classic",
        "assess",
        "Scunthorpe",
        "grape",
        "therapist",
        "prickly",
        "cocktail",
    ]
    everyday += ["Black people", "", " ", "\ud800", "$x$"]
    assert [word for word in named + everyday if is_offensive(word)] == []


def test_the_list_prints_no_word():
    lines = (ROOT / "data" / "offensive.txt").read_text(encoding="utf-8").splitlines()
    hashes = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch("[0-9a-f]{16}", line) for line in hashes)
    assert hashes == sorted(set(hashes)) and len(hashes) > 500
    assert word_hash(" Café ") == word_hash("cafe")


def test_a_table_of_hostile_tokens_has_the_elements_of_a_harmless_one():
    hostile, harmless = (
        Page(table_of(tokens).html) for tokens in (HOSTILE, ["love"] * len(HOSTILE))
    )
    own = {"bdi", "i", "span", "small"}  # marks, and the legend that explains them
    assert [t for t in hostile.tags if t not in own] == [
        t for t in harmless.tags if t not in own
    ]
    assert hostile.attributes - {("i", "style", MARK_STYLE)} == harmless.attributes
    assert not set(table_of(HOSTILE).html) & set("$\\`*")  # what formulas begin with
    assert len(hostile.tokens) == len(HOSTILE)
    assert [
        read_back(t) for t in Page(table_of(HOSTILE, width=10_000).html).tokens
    ] == HOSTILE


def in_sight(page: str) -> str:
    """The text of a page that a reader sees without opening anything, whether or not it keeps
    styles and scripts.
    """
    return re.sub("<[^>]*>", "", re.sub("(?s)</summary>.*?</details>", "", page))


def test_no_style_and_no_script_is_needed_to_hide_a_word():
    slur = printed(231158)[0]
    frame = pd.DataFrame(
        {
            "token": [slur, f" {slur}"],
            "note": [f"see {slur}, then", "-"],
            "reward": [1.0, 2.0],
        }
    )
    table = table_html(frame, ["token"])
    bare = re.sub(r' (style|class|title|tabindex|on\w+)="[^"]*"', "", table.html)
    assert (
        show_token(f"\x1b[31m{slur}").startswith("▒▒▒⟨")
        and show_token(slur, blur=False) == slur
    )
    # all there, each behind its own fold
    assert bare.count(slur) == bare.count("<details>") == 3
    assert (
        slur not in in_sight(bare)
        and slur not in repr(table)
        and "see ▒▒▒⟨7⟩ then" in in_sight(bare)
    )
    assert not re.search("<style|<script| open[ >]", table.html)
    assert slur in table_html(frame, ["token"], blur=False).text


def test_values_and_names_are_inert_too():
    frame = pd.DataFrame(
        {"<b>$note$</b>": ["<i>\x1b[0m</i>", ""], "token": ["a", None]}
    )
    table = table_html(frame, ["token"], caption="<u>$c$</u>")
    assert not set(Page(table.html).tags) & {"b", "u"} and not unsafe(repr(table))
    assert not re.search(r"[$\\]", table.html)
    # a missing value is blank, not a token called nan
    assert Page(table.html).tokens == ["a"] and "nan" not in repr(table)


def test_an_answer_is_shown_and_kept_and_nothing_in_it_acts(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data))
    slur = printed(231158)[0]
    answer(
        f"In 8 of 10 models\n  (mean 0.3 [0.1, 0.5])  {show_token(' love')} <b>leads</b> "
        f"{slur}\u202e \x1b[31m. More."
    )
    first = "In 8 of 10 models (mean 0.3 [0.1, 0.5]) ␣love <b>leads</b> ▒▒▒⟨7⟩ ⟨U+001B⟩[31m."
    assert shown[0][ANSWER_TYPE] == first
    assert shown[0]["text/plain"] == f"{first} More."
    page = shown[0]["text/html"]
    assert Page(page).tags == ["p", "strong", "details", "summary"]
    assert "</summary>More" in page and not unsafe(page)
