"""The explorer in a real browser, by mouse, keyboard and touch: what a reader sees are the
numbers of the tables.
"""

from pathlib import Path

import pytest
from test_explorer import HOSTILE, table_of

from lib.apps.classroom.explorer import page as explorer
from lib.tables.collection import EMBEDDED

pytestmark = pytest.mark.slow
OFFENSIVE = "slurry"  # stands for an offensive word
WORDS = [
    "love",
    " love",
    "LOVE",
    "war",
    "peace",
    OFFENSIVE,
    *HOSTILE,
    *(f"word{i}" for i in range(200)),
]
TABLES = {
    "A-Gem-48": table_of(WORDS, 1),
    "B-Gem-64": table_of(WORDS, 2),
    "A-Lla-64": table_of(WORDS[::-1], 3),
}
TABLES["A-Gem-48"].attrs["metadata"] = {
    "prompts": {"greatest": "What is the greatest thing?"}
}


@pytest.fixture(scope="module")
def explorer_page(browser, tmp_path_factory) -> Path:
    """The page of three planted models."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lib.show.display.is_offensive", lambda text: text == OFFENSIVE)
        content = explorer.build(TABLES, EMBEDDED)
    path = tmp_path_factory.mktemp("explorer") / "a page.html"
    path.write_text(content, encoding="utf-8", newline="\n")
    return path


@pytest.fixture
def opened(open_page, explorer_page):
    """Opens the explorer and waits until it is ready."""

    def open_it(query: str = "", **settings):
        page = open_page(explorer_page, query, **settings)
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    return open_it


def rows_of(page, part: str) -> list[list[str]]:
    return page.eval_on_selector_all(
        f"{part} tbody tr",
        "rows => rows.map(r => [...r.cells].map(c => c.innerText.trim()))",
    )


def search(page, word: str) -> None:
    page.fill("#search", word)
    page.press("#search", "Enter")


def test_every_rank_is_that_of_pandas(opened):
    found = opened().evaluate("""() => columns.map(c => ({ model: c.model, prompt: c.prompt,
        ranks: Object.fromEntries(
            [...orderOf(c)].map(row => [texts[row], standing(c, row).rank])) }))""")
    assert len(found) == 6
    for column in found:
        table = TABLES[column["model"]]
        ranks = dict(
            zip(
                table["text"],
                table[column["prompt"]].rank(ascending=False),
                strict=True,
            )
        )
        assert [column["ranks"][word] for word in WORDS[:4]] == [
            ranks[word] for word in WORDS[:4]
        ]


@pytest.mark.parametrize("width", [390, 1024, 1280])
def test_a_typed_word_shows_its_rank_percentile_and_reward_at_every_width(
    opened, width
):
    page = opened(width=width)
    search(page, "love")
    first = rows_of(page, "#ranks")[0]
    table = TABLES["A-Gem-48"]
    rank = table["greatest"].rank(ascending=False)[0]
    below = (
        (table["greatest"] < table["greatest"][0]).sum()
        + (table["greatest"] <= table["greatest"][0]).sum()
    ) / 2
    assert first[:4] == [
        "A-Gem-48",
        "greatest",
        f"{rank:g}",
        f"{100 * below / len(table):.1f}",
    ]
    assert float(first[4]) == pytest.approx(table["greatest"][0], rel=1e-3)
    assert len(rows_of(page, "#ranks")) == 6  # three models, two prompts
    assert page.url.endswith("?word=love")


def test_neighbours_are_those_above_and_below(opened):
    page = opened("?word=war")
    greatest = TABLES["A-Gem-48"]["greatest"]
    ranks = [float(row[1]) for row in rows_of(page, "#neighbours")]
    assert ranks == sorted(ranks) and len(ranks) <= 11
    assert greatest.rank(ascending=False)[3] in ranks
    assert "war" in [row[0] for row in rows_of(page, "#neighbours")]


def test_all_texts_stand_in_order_twenty_at_a_time(opened):
    page = opened()
    first = rows_of(page, "#table")
    page.click("#next")
    second = rows_of(page, "#table")
    assert len(first) == len(
        second
    ) == 20 and f"texts 21–40 of {len(WORDS)}" in page.inner_text("#table")
    ranks = [float(row[1].replace(",", "")) for row in first + second]
    assert ranks == sorted(ranks)
    page.click("#previous")
    assert rows_of(page, "#table") == first


def test_a_search_by_keyboard_alone(opened):
    page = opened()
    page.keyboard.press("/")
    page.keyboard.type("lov")
    page.keyboard.press("ArrowDown")
    assert page.get_attribute("#search", "aria-activedescendant") == "found-0"
    page.keyboard.press("Enter")
    assert page.evaluate("state.words.map(row => texts[row].trim().toLowerCase())") == [
        "love"
    ]


def test_a_word_behind_the_hash_is_read_too_and_an_unknown_one_is_told(opened):
    assert opened("#word=war").evaluate("state.words.map(row => texts[row])") == ["war"]
    page = opened("?word=nowhere")
    assert page.evaluate(
        "state.words"
    ) == [] and "not among these texts" in page.inner_text("#told")


def test_six_words_are_compared_and_a_seventh_takes_the_place_of_the_first(opened):
    page = opened("?" + "&".join(f"word=word{i}" for i in range(6)))
    assert page.locator("#chosen li").count() == 6
    search(page, "war")
    assert page.evaluate("state.words.map(row => texts[row])") == [
        *(f"word{i}" for i in range(1, 6)),
        "war",
    ]
    assert page.url.endswith(
        "?" + "&".join(f"word=word{i}" for i in range(1, 6)) + "&word=war"
    )
    page.click("#chosen li:last-child button:last-child")
    assert page.locator("#chosen li").count() == 5


def test_a_blurred_word_is_nowhere_to_be_read_until_it_is_revealed(opened):
    page = opened(f"?word={OFFENSIVE}")
    button = page.get_by_role(
        "button", name="an offensive word of 6 letters, blurred; press to reveal"
    ).first
    assert button.is_visible()
    assert OFFENSIVE not in page.url and OFFENSIVE not in page.content()
    assert OFFENSIVE not in page.locator("body").aria_snapshot()
    page.fill("#search", OFFENSIVE[:3])
    assert page.locator("#found li").count() == 0  # the search offers none either
    page.fill("#search", "")
    button.focus()
    page.keyboard.press("Enter")
    assert OFFENSIVE in page.inner_text("#chosen") and OFFENSIVE in page.inner_text(
        "#ranks"
    )
    assert page.url.endswith(f"?word={OFFENSIVE}")


def test_all_blurred_words_are_shown_and_hidden_again(opened):
    page = opened(f"?word={OFFENSIVE}")
    page.click("#reveal")
    assert page.locator(".blurred").count() == 0 and OFFENSIVE in page.content()
    page.click("#reveal")
    assert OFFENSIVE not in page.content() and OFFENSIVE not in page.url


def test_a_guess_comes_before_the_rank(opened):
    page = opened()
    page.click("#guess")
    search(page, "love")
    assert page.locator("#ranks").count() == 0 and "Rank" not in page.inner_text(
        "#told"
    )
    page.locator("#guessed").fill("80")
    page.click("#see")
    [row] = rows_of(page, "#guesses")
    assert row[:2] == ["love", "80"] and float(row[3]) == pytest.approx(
        abs(80 - float(row[2])), abs=0.051
    )
    assert page.locator("#ranks").count() == 1


@pytest.mark.parametrize("width", [390, 1280])
def test_dark_and_large_print_fit_the_window_and_can_be_read(opened, width):
    page = opened("?word=love&word=war", width=width, color_scheme="dark")
    page.click("#large")
    colours = page.evaluate(
        "['color', 'backgroundColor'].map(name => getComputedStyle(document.body)[name])"
    )
    assert colours == ["rgb(242, 242, 242)", "rgb(22, 22, 22)"]
    assert page.evaluate("getComputedStyle(document.body).fontSize") == "24px"


def test_hostile_texts_are_texts(opened):
    page = opened()
    for text in HOSTILE:
        if text.strip() and text.isprintable() and len(text) < 99:
            search(page, text)
            assert page.evaluate("texts[state.current]") == text
    page.evaluate(
        "for (const row of texts.keys()) if (texts[row].length > 99 || /[^ -~]/.test(texts[row])) "
        "add(row)"
    )
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img").count() == 0
    assert page.evaluate("texts.map(text => [...text].map(c => c.codePointAt(0)))")[
        6:8
    ] == [[ord(c) for c in text] for text in HOSTILE[:2]]


def test_a_browser_that_cannot_unpack_says_what_to_do(
    open_page, explorer_page, tmp_path
):
    old = tmp_path / "old.html"
    content = explorer_page.read_text(encoding="utf-8")
    old.write_text(
        content.replace(
            "<body>", "<body><script>delete window.DecompressionStream;</script>"
        ),
        encoding="utf-8",
    )
    assert "open it in" in open_page(old).inner_text("#ready")
