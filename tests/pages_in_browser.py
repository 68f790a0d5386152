"""The built site, and a real browser for its pages: without a network, and with an eye on all that
goes wrong.

Playwright drives the system's Chromium, and downloads none of its own. Where there is no browser
these tests are skipped and counted; with REQUIRE_BROWSER=1 they fail instead.
"""

import os
import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LOCAL = ("file:", "data:", "blob:", "about:")
# in px, 0 where it fits
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of a whole site."""
    from course import site as sites

    folder = tmp_path_factory.mktemp("a site") / "site"
    sites.build(folder)
    return folder


def _without(reason: str):
    if os.environ.get("REQUIRE_BROWSER") == "1":
        pytest.fail(f"{reason}, and REQUIRE_BROWSER=1 asks for it", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser():
    """The system's Chromium, started once a file."""
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
def open_page(browser):
    """Opens a file in a window of its own, offline, and gives Playwright's page.

    When the test ends it fails for every request to anything but file, data and blob, every error
    of the page or its console, and a page that is wider than its window.
    """
    pages = []
    wrong = []

    def ask(request):
        if not request.url.startswith(LOCAL):
            wrong.append(f"asked for {request.url[:200]}")

    def say(message):
        if message.type == "error":
            wrong.append(message.text)

    def open_one(path, query="", width=1280, **settings):
        size = {"width": width, "height": 800}
        page = browser.new_context(offline=True, viewport=size, **settings).new_page()
        page.set_default_timeout(20_000)
        page.on("request", ask)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", say)
        pages.append(page)
        page.goto(path.resolve().as_uri() + query)
        return page

    yield open_one
    for page in pages:
        if (wider := page.evaluate(WIDER)) > 0:
            wrong.append(f"{page.url} is {wider} px wider than its window")
        page.context.close()
    assert wrong == []
