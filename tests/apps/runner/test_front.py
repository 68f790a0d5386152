"""The front page is what the committed tables give, README has the same words, and both link
committed files only.
"""

import re
import subprocess

from lib import ROOT
from lib.apps.runner import front
from lib.claims import claims, rules, scorecard
from lib.show import display

LINKS = re.compile(r'(?:href|src)="([^"#]+)"')


def test_the_committed_front_page_is_what_the_committed_tables_give():
    assert (front.FIGURES / "index.html").read_text(encoding="utf-8") == front.page()


def test_every_link_of_the_front_page_is_a_committed_file():
    told = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    links = [
        link
        for link in LINKS.findall(front.page())
        if not link.startswith(("https://arxiv.org/", "data:"))
    ]
    paths = {
        (front.FIGURES / link).resolve().relative_to(ROOT.resolve()).as_posix()
        for link in links
    }
    assert len(paths) > 20
    assert paths <= set(told.split("\n")), sorted(paths - set(told.split("\n")))


def test_readme_has_the_words_and_numbers_of_the_committed_claims():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| \*\*(.+?)\*\* \|", text, re.MULTILINE)
    stated = scorecard.statements(claims.published_table("claims"))
    assert rows == list(zip(stated["statement"], stated["word"], strict=True))
    assert text == front.readme()


def test_the_page_on_published_scores_has_the_meanings_of_the_words_and_the_committed_numbers():
    text = front.PUBLISHED_PAGE.read_text(encoding="utf-8")
    assert text == front.published_page()
    assert all(
        f"* **{word}**: {meaning}\n" in text for word, meaning in rules.MEANINGS.items()
    )


def test_the_front_page_has_no_markdown_and_no_name_of_a_number_that_is_not_filled_in():
    page = front.page()
    assert "](" not in page and not re.search(r"\{\w+\.", page)


def test_of_the_lowest_tokens_those_are_shown_that_can_be_with_their_places():
    (ends, places), printed = front.listed_tokens(), front.cells.printed_lists("A6")
    assert not ends.map(display.is_offensive).any(axis=None)
    for (end, _), row in places.iterrows():
        for model, place in row.items():
            assert (ends.loc[end, model] == printed.loc[(end, place), model]).any()
    assert (
        places.loc[("pessimal", 4), "S-Gem-27B"]
        == 1
        < places.loc[("pessimal", 4), "L-Lla-8B"]
    )
