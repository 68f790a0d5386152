"""The book in a real browser, opened from a folder: warning, menu, search, formulas, folded
words, downloads.
"""

import shutil
from pathlib import Path

import pytest

from browser.conftest import check_width
from lib import ROOT
from lib.apps.classroom.book import building
from lib.apps.classroom.course import making

pytestmark = pytest.mark.slow
FORMULAS, TOKENS, SCORECARD = (
    "00_small_reward_models",
    "02_optimal_and_pessimal_tokens",
    "11_scorecard",
)
PAGES = [
    "index",
    f"notebooks/{FORMULAS}",
    f"notebooks/{TOKENS}",
    f"notebooks/{SCORECARD}",
    "notebooks",
    "docs/GLOSSARY",
    "docs/TEACHING",
    "downloads",
    "benchmarks/calibration",
    "search",
]


@pytest.fixture(scope="module")
def book(browser, tmp_path_factory) -> Path:
    """The folder of a book of three notebooks, with students' copies."""
    folder = tmp_path_factory.mktemp("a book")
    for place in ("notebooks", "notebooks/exercises"):
        (folder / place).mkdir()
        for name in (FORMULAS, TOKENS, SCORECARD):
            shutil.copyfile(
                ROOT / place / f"{name}.ipynb", folder / place / f"{name}.ipynb"
            )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(making, "fill_class", lambda *_: None)
        making.make(folder, folder / "notebooks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lib.apps.classroom.book.sources.COURSE", folder)
        return building.make(folder / "notebooks", folder / "html").parent


@pytest.fixture
def opened(open_page, book):
    """Opens a page of the book, and goes on past the content warning."""

    def open_it(page: str, query: str = "", **settings):
        opened = open_page(book / f"{page}.html", query, **settings)
        opened.click("#content-warning button")
        opened.wait_for_selector("#content-warning", state="detached")
        return opened

    return open_it


def address(book: Path, page: str) -> str:
    return (book / f"{page}.html").resolve().as_uri()


def test_no_page_is_wider_than_its_window_or_asks_for_anything(opened, book, wrong):
    page = opened("index")
    for name in PAGES:
        page.set_viewport_size({"width": 390, "height": 800})
        page.goto(address(book, name))
        assert page.locator("h1").first.is_visible(), name
        for width in (390, 1024, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            check_width(page, wrong)
            assert wrong == [], (name, width)


def test_the_content_warning_comes_once_on_whichever_page_one_enters_and_goes_by_keyboard(
    open_page, book
):
    page = open_page(book / "docs/GLOSSARY.html")
    assert page.locator("#content-warning").is_visible()
    page.keyboard.press("Enter")  # its button has the focus
    # the browser closes a dialog in its own time
    page.wait_for_selector("#content-warning", state="detached")
    page.goto(address(book, "index"))
    assert page.locator("#content-warning").count() == 0
    # the first page says it too, without a script
    assert "slurs" in page.inner_text("article")


def test_the_menu_of_a_phone_leads_to_every_part(opened):
    page = opened("index", width=390)
    menu = page.locator("#pst-primary-sidebar-modal")
    assert not menu.is_visible()
    page.click("button.primary-toggle")
    menu.wait_for(state="visible")
    assert [
        name
        for name in ("Scorecard", "Notebooks", "Glossary", "Teaching")
        if not menu.get_by_role("link", name=name, exact=True).is_visible()
    ] == []
    menu.get_by_role("link", name="Glossary", exact=True).click()
    page.wait_for_url("**/GLOSSARY.html")
    assert page.inner_text("h1").startswith("Glossary")


def test_a_search_finds_a_word_of_the_prose_and_no_folded_one(opened, book):
    page = opened("index")
    page.keyboard.press("Control+k")
    page.keyboard.type("skewness")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results li a")
    assert "Glossary" in page.inner_text("#search-results")
    page.goto(address(book, f"notebooks/{TOKENS}"))
    hidden = {
        word
        for word in page.locator("details.offensive bdi").all_text_contents()
        if word.isalpha()
    }
    assert len(hidden) > 5
    page.goto(f"{address(book, 'search')}?q={sorted(hidden)[0]}")
    page.wait_for_selector("#search-results p", state="attached")
    page.wait_for_function(
        "!/Searching|Preparing/.test(document.querySelector('#search-results').innerText)"
    )
    assert page.locator("#search-results li").count() == 0


def test_the_first_use_of_a_term_leads_to_its_place_in_the_glossary(opened):
    page = opened(f"notebooks/{FORMULAS}")
    page.locator("a.term", has_text="reward model").first.click()
    page.wait_for_url("**/GLOSSARY.html#reward-model")
    assert page.locator("section#reward-model h2").is_visible()


def test_every_formula_is_set(opened):
    page = opened(f"notebooks/{FORMULAS}")
    formulas = page.locator(".math").count()
    assert formulas >= 5
    page.wait_for_function(
        f"document.querySelectorAll('.math:has(mjx-container svg)').length === {formulas}"
    )
    assert page.locator("[data-mml-node='merror']").count() == 0


def test_folded_words_open_by_mouse_and_keyboard_and_stay_folded_on_paper(opened):
    page = opened(f"notebooks/{TOKENS}")
    words = page.locator("details.offensive")
    first, second = (words.nth(i).locator("bdi") for i in (0, 1))
    assert words.count() > 5 and not first.is_visible() and not second.is_visible()
    words.nth(0).locator("summary").click()
    assert first.is_visible() and not second.is_visible()
    words.nth(1).locator("summary").focus()
    page.keyboard.press("Enter")
    assert second.is_visible()
    page.emulate_media(media="print")
    assert not first.is_visible() and not second.is_visible()


def test_a_students_copy_is_downloaded_as_it_was_written(opened, book):
    page, copy = opened("downloads"), book.parent / "students" / f"{FORMULAS}.ipynb"
    with page.expect_download() as download:
        page.get_by_role("link", name=f"{FORMULAS}.ipynb").click()
    assert Path(download.value.path()).read_bytes() == copy.read_bytes()
    assert "your turn" in copy.read_text()
