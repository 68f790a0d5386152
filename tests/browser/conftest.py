"""A real browser for pages that are opened from a folder: without a network, and with an eye on all
that goes wrong.

The system's Chromium is driven by Playwright, which downloads none of its own. Where there is no
browser these tests are skipped and counted; with REQUIRE_BROWSER=1 they fail instead.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LOCAL = ("file:", "data:", "blob:", "about:")
# in px, 0 where it fits
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def _without(reason: str):
    if os.environ.get("REQUIRE_BROWSER") == "1":
        pytest.fail(f"{reason}, and REQUIRE_BROWSER=1 asks for it", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser():
    """The system's Chromium, started once a file: while Playwright runs, nothing else in this
    process runs a loop.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _without("playwright is not installed")
    if not (path := next(filter(None, map(shutil.which, NAMES)), None)):
        _without("no Chromium is installed")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path)
        yield started
        started.close()


@pytest.fixture
def wrong() -> list[str]:
    """What went wrong on the pages that the test opened; whatever is left here when it ends
    fails it.
    """
    return []


@pytest.fixture
def open_page(browser, wrong) -> Callable:
    """Opens a file in a window of its own, offline, and gives Playwright's page.

    When the test ends it fails for every request to anything but file, data and blob, every error
    of the page or its console, and a page that is wider than its window. Settings are those of a
    browser context, as `color_scheme`.
    """
    pages = []

    def open_one(path: Path, query: str = "", width: int = 1280, **settings):
        context = browser.new_context(
            offline=True, viewport={"width": width, "height": 800}, **settings
        )
        context.set_default_timeout(20_000)
        page = context.new_page()
        page.on(
            "request",
            lambda asked: (
                asked.url.startswith(LOCAL)
                or wrong.append(f"asked for {asked.url[:200]}")
            ),
        )
        page.on("pageerror", lambda error: wrong.append(f"page error: {error}"))
        page.on(
            "console",
            lambda said: said.type == "error" and wrong.append(f"console: {said.text}"),
        )
        pages.append(page)
        page.goto(path.resolve().as_uri() + query)
        return page

    yield open_one
    for page in pages:
        check_width(page, wrong)
        page.context.close()
    assert wrong == []


def check_width(page, wrong: list[str]) -> None:
    """Note it where the page is wider than its window, so that a reader would have to scroll
    sideways.
    """
    if (wider := page.evaluate(WIDER)) > 0:
        wrong.append(f"the page is {wider} px wider than its window")
