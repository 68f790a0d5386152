"""The front page in a browser: it fits a phone, loads its pictures, and can be read without
seeing them.
"""

import pytest

from lib import ROOT
from lib.apps.classroom.site.gathering import SITE

SIZES = "[...document.images].map(image => image.naturalWidth)"


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("folder", [ROOT / "figures", SITE], ids=["front page", "site"])
def test_the_front_page_fits_the_window_and_its_pictures_load(open_page, folder, width):
    if not (folder / "index.html").is_file():
        pytest.skip("the site is not built yet: python -m lib.apps.classroom site")
    page = open_page(folder / "index.html", width=width)
    page.evaluate("[...document.images].forEach(image => image.loading = 'eager')")
    page.wait_for_function("[...document.images].every(image => image.complete)")
    assert min(page.evaluate(SIZES)) > 0
    assert page.locator("img:not([alt]), img[alt='']").count() == 0
    headings = page.locator("h1, h2, h3").evaluate_all(
        "all => all.map(one => one.tagName)"
    )
    # the paper in eight statements
    assert headings.count("H1") == 1 and headings.count("H3") == 8
