"""When the first picture of a page of the site is there. Run after python -m lib.run site: python
-m benchmarks.pages

Each page is opened from its folder in the system's Chromium without a window, seven times, without
a cache. The first picture (first contentful paint) is in milliseconds of the clock; the processor's
time is that of the page's thread until everything is loaded. The report replaces its part of
benchmarks/README.md.
"""

import shutil

import pandas as pd
from playwright.sync_api import Browser, sync_playwright

from benchmarks.scoring import machine, table, write_report
from lib.apps.classroom.site.gathering import SITE
from lib.apps.runner.jobs import CARD_OF

PAGES = {
    "first page": "index.html",
    "explorer of words": "book/explorer/published-words.html",
    "explorer of items": "book/explorer/published-items.html",
    "book": "book/index.html",
    "scorecard": "book/notebooks/11_scorecard.html",
    "framing": "book/notebooks/04_framing_effects.html",
    "glossary": "book/docs/GLOSSARY.html",
    "card": f"book/card-{CARD_OF}.html",
}
FIRST_PICTURE = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def open_once(browser: Browser, address: str) -> dict[str, float]:
    """Open a page in a window of its own, offline; return when it showed something, and what it
    cost.
    """
    page = browser.new_context(
        offline=True, viewport={"width": 1280, "height": 800}
    ).new_page()
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(address)
    page.wait_for_function(FIRST_PICTURE)
    spent = {
        one["name"]: one["value"]
        for one in session.send("Performance.getMetrics")["metrics"]
    }
    found = {
        "first picture, ms": page.evaluate(FIRST_PICTURE),
        "processor, ms": 1000 * spent["TaskDuration"],
    }
    page.context.close()
    return found


def main() -> None:
    rows = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        for name, place in PAGES.items():
            tries = (
                pd.DataFrame(
                    [open_once(browser, (SITE / place).as_uri()) for _ in range(7)]
                )
                .round()
                .astype(int)
            )
            slowest = {"slowest of seven": tries["first picture, ms"].max()}
            rows.append({"page": name} | tries.median().astype(int).to_dict() | slowest)
        browser.close()
    write_report("pages", f"{machine('cpu')}\n\n{table(pd.DataFrame(rows))}")


if __name__ == "__main__":
    main()
