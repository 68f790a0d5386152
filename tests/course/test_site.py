"""The site: it is built from the committed sources, every link leads somewhere, and Chromium opens
its pages from a folder.
"""

import json
import re
from urllib.parse import unquote

import pytest

from course import slides
from lib import ROOT, InputError
from lib.tables.collection import WORDS

ADDRESS = re.compile(r'<(?:a|img|link|script)\b[^>]*?\b(?:href|src)="([^"]+)"')
AWAY = re.compile(r"https?:|mailto:|data:|#")
NOTEBOOK = "notebooks/02_optimal_and_pessimal_tokens.html"
LONG = [  # pages, which axe reads for long
    (NOTEBOOK, "light", 390),
    ("notebooks/00_a_small_reward_model.html", "dark", 1280),
]
VIEWS = [
    ("course/index.html", "light", 390),
    ("course/index.html", "dark", 1280),
    *(pytest.param(*view, marks=pytest.mark.nightly) for view in LONG),
]
# Of the words of code that one kind of block shows in one colour, one stays: the time of axe grows
# with their number.
ONE_OF_EACH = """() => {
  const words = [...document.querySelectorAll("pre span:not(:has(*))")], seen = new Set();
  words.forEach((word) => {
    const kind = word.className + word.closest("pre").parentElement.parentElement.className;
    seen.has(kind) ? word.replaceWith(word.textContent) : seen.add(kind);
  });
}"""
OPTIONS = {"preload": False, "resultTypes": ["violations"]}


def broken_links(site) -> list[tuple[str, str]]:
    pages = [page for page in site.rglob("*.html") if "_static" not in page.parts]
    found = []
    for page in pages:
        for address in ADDRESS.findall(page.read_text(encoding="utf-8")):
            file = unquote(re.split("[#?]", address)[0])
            is_here = AWAY.match(address) or (page.parent / file).exists()
            # the explorers are there where released scores are
            if not is_here and not (
                file.startswith("../explorer/") and not WORDS.models
            ):
                found.append((page.name, address))
    return found


def test_every_notebook_has_a_page_and_every_link_leads_somewhere(site):
    for path in (ROOT / "notebooks").rglob("[0-9]*.ipynb"):
        page = site / path.relative_to(ROOT).with_suffix(".html")
        assert page.is_file() == (path.parent.name != "blank"), path
    assert broken_links(site) == []


def test_ten_slides_have_a_question_a_figure_or_table_and_a_sentence(tmp_path, capsys):
    slides.write(tmp_path / "slides.html")
    page = (tmp_path / "slides.html").read_text(encoding="utf-8")
    assert not re.findall(r"<script|(?:src|href)=.http", page)
    each = page.split('<section class="slide">')[1:]
    assert len(each) == 10 and capsys.readouterr().out.startswith("Open ")
    for slide in each:
        shown = re.findall("<img|<table", slide)
        assert re.search(r"<h1[^>]*>[^<]*\?<", slide) and len(shown) == 1
        assert re.search(r"<p>[^<].*\.</p>", slide.split(shown[0])[1])


def test_a_slide_whose_notebook_says_something_else_is_refused(monkeypatch, tmp_path):
    changed = {"A": [slides.SESSIONS["A"][0] | {"says": "Nothing is rated."}]}
    monkeypatch.setattr(slides, "SESSIONS", changed)
    with pytest.raises(InputError, match="does not say: Nothing is rated"):
        slides.write(tmp_path / "slides.html")


# --- in a browser ---------------------------------------------------------------------------------


@pytest.fixture
def opened(open_page, site):
    """Opens a page of the site, and goes on past its content warning."""

    def open_it(name, query="", **settings):
        page = open_page(site / name, query, **settings)
        if page.locator("#content-warning button").count():
            page.keyboard.press("Enter")  # its button has the focus
            page.wait_for_selector("#content-warning", state="detached")
        return page

    return open_it


@pytest.mark.parametrize("name, scheme, width", VIEWS)
def test_a_page_fits_its_window_and_nothing_serious_is_found(
    opened, name, scheme, width
):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = opened(name, width=width, color_scheme=scheme)
    page.evaluate(ONE_OF_EACH)
    found = axe.run(page, options=OPTIONS).response
    serious = [
        (one["id"], one["nodes"][0]["html"])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_folded_words_open_by_mouse_and_no_search_finds_them(opened, site):
    page = opened(NOTEBOOK)
    words = page.locator("details.offensive bdi")
    hidden = sorted({word for word in words.all_text_contents() if word.isalpha()})
    assert len(hidden) > 5 and not words.first.is_visible()
    page.locator("details.offensive summary").first.click()
    assert words.first.is_visible()
    index = json.loads(
        (site / "searchindex.js").read_text()[len("Search.setIndex(") : -1]
    )
    assert "skew" in index["terms"]
    assert {word.lower() for word in hidden} & {*index["terms"]} == set()
