"""Accessibility: axe-core finds nothing serious on any kind of page, and the explorer's parts
are reached by Tab.
"""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lib.apps.classroom.book.sources import CARD_OF
from lib.apps.classroom.site.gathering import SITE
from lib.tables.collection import EMBEDDED

# Of the words of code that one kind of block shows in one colour, one stays: the time of axe grows
# with their number.
ONE_OF_EACH = """() => {
  const words = [...document.querySelectorAll("pre span:not(:has(*))")], seen = new Set();
  const shown = words.map((word) => word.checkVisibility());
  words.forEach((word, i) => {
    const around = word.closest("pre").parentElement.parentElement;
    const kind = [word, around].map((one) => one.className).join(" in ");
    shown[i] && !seen.has(kind) ? seen.add(kind) : word.replaceWith(word.textContent);
  });
}"""
OPTIONS = {
    "preload": False,  # it would ask for style sheets again
    "resultTypes": ["violations"],
    # a moderate one, which takes a third of the time
    "rules": {"region": {"enabled": False}},
}
PAGES = {
    "first page": SITE / "index.html",
    "book": SITE / "book" / "notebooks" / "02_optimal_and_pessimal_tokens.html",
    "wide formulas": SITE / "book" / "notebooks" / "00_small_reward_models.html",
    "explorer": SITE / "book" / "explorer" / "published-words.html",
    "card": SITE / "book" / f"card-{CARD_OF}.html",
    "index": EMBEDDED.figures / "index.html",
}


@pytest.fixture
def opened(open_page):
    """Opens one of PAGES, and goes on past a content warning."""

    def open_it(name: str, query: str = "", **settings):
        if not PAGES[name].is_file():
            pytest.skip("the site is not built yet: python -m lib.apps.classroom site")
        page = open_page(PAGES[name], query, **settings)
        if page.locator("#content-warning button").count():
            page.click("#content-warning button")
        # it may set formulas that are wider than the page
        page.evaluate("window.MathJax?.startup.promise")
        if name == "explorer":
            page.wait_for_selector("html[data-ready]", state="attached")
        return page

    return open_it


@pytest.mark.parametrize("scheme, width", [("light", 390), ("dark", 1280)])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_serious_is_found(opened, name, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = opened(
        name,
        "?word=love" if name == "explorer" else "",
        width=width,
        color_scheme=scheme,
    )
    page.evaluate(ONE_OF_EACH)
    found = axe.run(page, options=OPTIONS).response["violations"]
    assert {
        one["id"]: one["nodes"][0]["html"]
        for one in found
        if one["impact"] in ("serious", "critical")
    } == {}
    assert page.get_attribute("html", "lang") == "en"


def test_tab_reaches_the_search_field_then_every_choice_and_word(opened):
    page = opened("explorer", "?word=love")
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "document.activeElement.id || document.activeElement.innerText"
            )
        )
    order = [
        reached.index(name)
        for name in ("search", "love", "model", "prompt", "every", "next")
    ]
    assert order == sorted(order)
    assert (
        page.locator("#table button.token").first.inner_text() in reached[order[-1] :]
    )


@pytest.mark.parametrize("name", ["first page", "book", "explorer", "card"])
def test_on_a_server_no_page_asks_for_what_is_not_there(browser, name):
    if not PAGES[name].is_file():
        pytest.skip("the site is not built yet: python -m lib.apps.classroom site")
    missing = []

    class Server(SimpleHTTPRequestHandler):
        def send_error(self, code, message=None, explain=None):
            missing.append(self.path)
            super().send_error(code, message, explain)

    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Server, directory=SITE)
    ) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        page = browser.new_page()
        page.goto(
            f"http://127.0.0.1:{server.server_port}/{PAGES[name].relative_to(SITE)}",
            wait_until="networkidle",
        )
        page.close()
        server.shutdown()
    assert missing == []
