"""The explorer's page, read back: every number as it was, and every text whatever it holds."""

import base64
import json
import re
import zlib

import numpy as np
import pandas as pd
import pytest

from lib import InputError, run
from lib.apps.classroom.__main__ import COMMANDS
from lib.apps.classroom.explorer import page
from lib.tables import scores
from lib.tables.collection import Collection

HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "\ud800",
    "\u2028",
    "abc\u202edef",
    "x" * 100_000,
    '=HYPERLINK("http://x")',
    "__proto__",
    "constructor",
    "",
    " ",
    "\n",
    "שלום",
    "$x$",
]
COLLECTION = Collection("mine-alone")


def table_of(
    words: list[str], seed: int = 0, first_id: int = 0, **columns
) -> pd.DataFrame:
    """A score table of these texts with many tied rewards; ` love` is read as `love`."""
    ids = np.arange(first_id, first_id + len(words), dtype=np.int32)
    trimmed = pd.Series(words, dtype=object).str.strip()
    groups = pd.factorize(trimmed)[0].astype(np.int32)
    rng = np.random.default_rng(seed)
    rewards = {
        name: rng.integers(-9, 9, groups.max() + 1)[groups].astype(np.float32) / 7
        for name in ("greatest", "worst")
    }
    first = pd.Series(ids).groupby(groups).transform("first")
    read = [np.array([i], dtype=np.int32) for i in first]
    reading = {
        "token_id": ids,
        "token": pd.Series(words, dtype=object),
        "text": pd.Series(words, dtype=object),
    }
    return pd.DataFrame(
        reading | {"reply_ids": read, "input_group": groups} | rewards | columns
    )


BLOCK = re.compile(
    r'<script id="block" type="application/octet-stream">([^<]*)</script>'
)


def read_block(content: str) -> tuple[dict, dict[str, np.ndarray]]:
    """Return description and arrays of a page, as its script reads them."""
    [found] = BLOCK.findall(content)
    return unpack(base64.b64decode(found))


def unpack(packed: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    content = zlib.decompress(packed)
    at = 4 + int.from_bytes(content[:4], "little")
    description, arrays = json.loads(content[4:at]), {}
    for entry in description["arrays"]:
        arrays[entry["name"]] = array = np.frombuffer(
            content, "<f4", entry["count"], at
        )
        at += array.nbytes
    return description, arrays


def test_a_block_comes_back_bit_by_bit():
    arrays = {
        "rewards": np.array([0.1, -0.0, np.nan, 3.4e38, 1e-45], dtype=np.float32),
        "none": np.array([], dtype=np.float32),
    }
    description, found = unpack(page.pack({"texts": HOSTILE}, arrays))
    assert description["texts"] == HOSTILE
    assert {name: array.tobytes() for name, array in found.items()} == {
        n: a.tobytes() for n, a in arrays.items()
    }


def test_a_text_of_two_vocabularies_is_one_row_and_of_several_ids_of_a_text_the_first_counts():
    first, second = (
        table_of(["love", "\ufffd", "\ufffd", "war"]),
        table_of(["\ufffd", "peace"], first_id=5),
    )
    description, arrays = read_block(page.build({"a": first, "b": second}, COLLECTION))
    assert description["texts"] == ["love", "\ufffd", "war", "peace"]
    assert (
        arrays["a greatest"][:3].tolist() == first["greatest"].iloc[[0, 1, 3]].tolist()
    )
    assert np.isnan(arrays["b greatest"]).tolist() == [True, False, True, False]


@pytest.fixture(scope="module")
def tables():
    words = [
        "love",
        " love",
        "LOVE",
        "war",
        "peace",
        "hate",
        *HOSTILE,
        *(f"word{i}" for i in range(60)),
    ]
    return {
        "A-Gem-48": table_of(words, 1),
        "B-Gem-64": table_of(words, 2),
        "A-Lla-64": table_of(words[::-1][:70], 3),
    }


@pytest.fixture(scope="module")
def content(tables):
    return page.build(tables, COLLECTION)


def test_every_column_holds_the_rewards_of_its_model_and_prompt_by_text(
    tables, content
):
    description, arrays = read_block(content)
    columns = description["columns"]
    assert [(c["model"], c["prompt"]) for c in columns] == [
        (m, p) for m in tables for p in ("greatest", "worst")
    ]
    for column in columns:
        own = dict(zip(description["texts"], arrays[column["array"]], strict=True))
        table = tables[column["model"]]
        assert [own[text] for text in table["text"]] == table[column["prompt"]].tolist()


def test_no_text_stands_in_the_page_itself_and_it_forbids_itself_to_load_anything(
    content,
):
    outside = BLOCK.sub("", content)
    assert not [
        text
        for text in HOSTILE
        if len(text) > 4 and text not in ("constructor",) and text in outside
    ]
    assert "default-src 'none'" in outside


def test_texts_are_shown_as_in_tables_and_scripts_from_right_to_left_stay_readable():
    assert [
        page.visible(text) for text in (" love", "a\u202eb", "שלום", "<b>", "$x$", "")
    ] == [
        "␣love",
        "a⟨U+202E⟩b",
        "שלום",
        "<b>",
        "$x$",
        "⟨empty⟩",
    ]
    assert page.visible("x" * 100_000) == "x" * 31 + "…⟨100000⟩"  # 40 columns


def scored(table: pd.DataFrame, **settings) -> pd.DataFrame:
    """The same table, with the metadata of one that was scored so."""
    table = table.copy()
    table.attrs["metadata"] = {
        "prompts": {"greatest": "What is greatest?"},
        "reply_mode": "text",
    } | settings
    return table


def test_models_that_were_asked_otherwise_are_no_page():
    table = table_of(["love", "war"])
    first = scored(table, head="linear", dtype="float32")
    for other in ({"reply_mode": "ids"}, {"prompts": {"greatest": "What is worst?"}}):
        with pytest.raises(
            InputError,
            match=r"a and b differ in .*score these tables of 'mine-alone' again",
        ):
            page.build({"a": first, "b": scored(table, **other)}, COLLECTION)


def test_the_command_writes_one_file_and_names_it(
    tmp_path, place_project_in, capsys, monkeypatch
):
    place_project_in(tmp_path)
    monkeypatch.setattr("lib.apps.classroom.explorer.page.ROOT", tmp_path)
    study = Collection("mine")
    table = table_of(["love", "war"]).astype({"token": "str", "text": "str"})
    scores.write(
        table,
        scores.path_of(study, "one"),
        {"model": "one", "prompts": {"greatest": "What is greatest?"}},
    )
    assert (
        run.main(["explore", "--collection", "mine"], COMMANDS, "lib.apps.classroom")
        == 0
    )
    assert "data/explorer/mine.html" in capsys.readouterr().out
    description, _ = read_block(
        (tmp_path / "data" / "explorer" / "mine.html").read_text()
    )
    assert description["prompts"] == {"greatest": "What is greatest?", "worst": "worst"}
