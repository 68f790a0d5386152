"""The explorer's page, read back: every number as it was, and every text whatever it holds."""

import base64
import json
import re
import zlib

import numpy as np
import pandas as pd
import pytest

from course.explorer import page
from lib.tables.collection import Collection

HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "\ud800",
    "\u2028",
    "abc\u202edef",
    "x" * 100_000,
    "__proto__",
    "",
    "\n",
    "שלום",
    "$x$",
]
OFFENSIVE = "slurry"  # stands for an offensive word
WORDS = ["love", " love", "war", OFFENSIVE, *HOSTILE, *(f"word{i}" for i in range(60))]
BLOCK = re.compile(r'<script id="block" type="application/octet-stream">([^<]*)<')


def table_of(words: list[str], seed: int) -> pd.DataFrame:
    """Texts and two columns of rewards, many of them tied."""
    rewards = np.random.default_rng(seed).integers(-9, 9, (2, len(words))) / 7
    columns = dict(zip(("greatest", "worst"), rewards.astype(np.float32), strict=True))
    table = pd.DataFrame({"text": pd.Series(words, dtype=object)} | columns)
    table.attrs["metadata"] = {"prompts": {"greatest": "What is greatest?"}}
    return table


TABLES = {"A-Gem-48": table_of(WORDS, 1), "A-Lla-64": table_of(WORDS[::-1][:50], 2)}


@pytest.fixture(scope="module")
def content():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lib.show.display.is_offensive", lambda text: text == OFFENSIVE)
        return page.build(TABLES, Collection("mine-alone"))


def read_block(content: str) -> tuple[dict, dict[str, np.ndarray]]:
    """Return description and arrays of a page, as its script reads them."""
    [found] = BLOCK.findall(content)
    block = zlib.decompress(base64.b64decode(found))
    at = 4 + int.from_bytes(block[:4], "little")
    description = json.loads(block[4:at])
    arrays = {}
    for entry in description["arrays"]:
        array = np.frombuffer(block, "<f4", entry["count"], at)
        arrays[entry["name"]] = array
        at += array.nbytes
    return description, arrays


def test_every_column_holds_the_rewards_of_its_model_and_prompt_by_text(content):
    description, arrays = read_block(content)
    assert description["texts"] == WORDS
    assert description["offensive"] == [WORDS.index(OFFENSIVE)]
    assert description["prompts"] == {"greatest": "What is greatest?", "worst": "worst"}
    assert len(description["columns"]) == 4
    for column in description["columns"]:
        table = TABLES[column["model"]]
        own = dict(zip(WORDS, arrays[column["array"]].tolist(), strict=True))
        assert [own[text] for text in table["text"]] == table[column["prompt"]].tolist()
        assert sum(np.isnan([*own.values()])) == len(WORDS) - len(table)


def test_of_several_ids_of_a_text_the_first_counts():
    table = table_of(["love", "\ufffd", "\ufffd", "war"], 0)
    description, arrays = read_block(page.build({"a": table}, Collection("mine")))
    assert description["texts"] == ["love", "\ufffd", "war"]
    assert arrays["a worst"].tolist() == table["worst"][[0, 1, 3]].tolist()


# --- in a browser ---------------------------------------------------------------------------------


@pytest.fixture
def opened(open_page, content, tmp_path):
    path = tmp_path / "a page.html"
    path.write_text(content, encoding="utf-8", newline="\n")

    def open_it(query=""):
        opened = open_page(path, query)
        opened.wait_for_selector("html[data-ready]", state="attached")
        return opened

    return open_it


def test_every_rank_is_that_of_pandas(opened):
    found = opened().evaluate("""() => columns.map(c => [c.model, c.prompt,
        [...orderOf(c)].map(row => [texts[row], standing(c, row).rank])])""")
    for model, prompt, ranks in found:
        table = TABLES[model].set_index("text")[prompt].rank(ascending=False)
        own = {text: rank for text, rank in ranks if text.isascii()}
        assert own == {text: table[text] for text in own} and len(own) > 40


def test_a_blurred_word_is_nowhere_to_be_read_until_it_is_revealed(opened):
    page = opened(f"?word={OFFENSIVE}")
    assert OFFENSIVE not in page.url and OFFENSIVE not in page.content()
    page.fill("#search", OFFENSIVE[:3])
    assert page.locator("#found li").count() == 0  # the search offers none either
    page.locator("#chosen .blurred").focus()
    page.keyboard.press("Enter")
    assert OFFENSIVE in page.inner_text("#chosen")


def test_hostile_texts_are_texts(opened):
    page = opened()
    page.evaluate("for (const row of texts.keys()) add(row)")
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img").count() == 0
