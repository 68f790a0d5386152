"""The explorer's page, read back: every number as it was, every text whatever it holds, and what was planted."""

import base64
import contextlib
import json
import re
import zlib

import numpy as np
import pandas as pd
import pytest

from lib import InputError, run
from lib.apps.explorer import about, page, texts
from lib.planted import planting, recovery
from lib.tables import scores
from lib.tables.collection import EMBEDDED, ITEMS, Collection

HOSTILE = [
    "</script><script>window.hacked = 1</script>", "<img src=x onerror='window.hacked = 1'>", "\ud800", "\u2028",
    "abc\u202edef", "x" * 100_000, "=HYPERLINK(\"http://x\")", "__proto__", "constructor", "", " ", "\n", "שלום", "$x$",
]  # fmt: skip
COLLECTION = Collection("mine-alone")


def table_of(words: list[str], seed: int = 0, first_id: int = 0, **columns) -> pd.DataFrame:
    """A score table of these texts with many tied rewards; ` love` is read as `love`."""
    ids = np.arange(first_id, first_id + len(words), dtype=np.int32)
    trimmed = pd.Series(words, dtype=object).str.strip()
    groups = pd.factorize(trimmed)[0].astype(np.int32)
    rng = np.random.default_rng(seed)
    rewards = {
        name: rng.integers(-9, 9, groups.max() + 1)[groups].astype(np.float32) / 7 for name in ("greatest", "worst")
    }
    first = pd.Series(ids).groupby(groups).transform("first")
    read = [np.array([i], dtype=np.int32) for i in first]
    reading = {"token_id": ids, "token": pd.Series(words, dtype=object), "text": pd.Series(words, dtype=object)}
    return pd.DataFrame(reading | {"reply_ids": read, "input_group": groups} | rewards | columns)


BLOCK = re.compile(r'<script id="block" type="application/octet-stream">([^<]*)</script>')


def read_block(content: str) -> tuple[dict, dict[str, np.ndarray]]:
    """Return description and arrays of a page, as its script reads them."""
    [found] = BLOCK.findall(content)
    return unpack(base64.b64decode(found))


def unpack(packed: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    content = zlib.decompress(packed)
    at = 4 + int.from_bytes(content[:4], "little")
    description, arrays = json.loads(content[4:at]), {}
    for entry in description["arrays"]:
        dtype = np.dtype(entry["type"]).newbyteorder("<")
        arrays[entry["name"]] = array = np.frombuffer(content, dtype, entry["count"], at)
        at += -(-array.nbytes // 4) * 4
    return description, arrays


# --- the block ----------------------------------------------------------------------------------------------------


def test_a_block_comes_back_bit_by_bit():
    arrays = {
        "odd": np.array([1, 2, 3], dtype=np.uint8),  # 3 bytes: the next array starts at a multiple of four
        "rewards": np.array([0.1, -0.0, np.nan, 3.4e38, 1e-45], dtype=np.float32),
        "none": np.array([], dtype=np.int32),
    }
    description, found = unpack(page.pack({"texts": HOSTILE}, arrays))
    assert description["texts"] == HOSTILE
    assert {name: array.tobytes() for name, array in found.items()} == {n: a.tobytes() for n, a in arrays.items()}


def test_a_block_refuses_what_a_browser_would_read_as_something_else():
    with pytest.raises(TypeError, match="float64"):
        page.pack({}, {"rewards": np.zeros(2)})


# --- texts --------------------------------------------------------------------------------------------------------


def test_a_text_of_two_vocabularies_is_one_row_and_one_that_several_ids_carry_is_joined_with_nothing():
    first, second = table_of(["love", "\ufffd", "\ufffd", "war"]), table_of(["\ufffd", "love"], first_id=5)
    rows, vocabularies = texts.lay_out({"a": first, "b": second, "c": first})
    assert rows == ["love", "\ufffd", "\ufffd", "war", "\ufffd"]
    assert [(v.models, v.rows.tolist()) for v in vocabularies] == [(("a", "c"), [0, 1, 2, 3]), (("b",), [4, 0])]


def test_tables_of_the_same_texts_that_were_read_otherwise_are_two_vocabularies():
    alike = table_of(["love", " love"])
    spliced = alike.assign(input_group=np.array([0, 1], dtype=np.int32))
    assert len(texts.lay_out({"a": alike, "b": spliced})[1]) == 2


# --- the page -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tables():
    words = ["love", " love", "LOVE", "war", "peace", "hate", *HOSTILE, *(f"word{i}" for i in range(60))]
    return {"A-Gem-48": table_of(words, 1), "B-Gem-64": table_of(words, 2), "A-Lla-64": table_of(words[::-1][:70], 3)}


@pytest.fixture(scope="module")
def content(tables):
    return page.build(tables, COLLECTION)


def test_ranks_from_the_page_equal_those_of_pandas_in_every_column(tables, content):
    description, arrays = read_block(content)
    columns = [column for column in description["columns"] if column["quantity"] == "reward"]
    assert [(c["model"], c["prompt"]) for c in columns] == [(m, p) for m in tables for p in ("greatest", "worst")]
    for column in columns:
        expected = tables[column["model"]][column["prompt"]]
        own = arrays[column["array"]]
        assert own.tobytes() == expected.to_numpy().tobytes()
        ascending = np.sort(own)
        less, at_most = (np.searchsorted(ascending, own, side) for side in ("left", "right"))
        rank = len(own) - at_most + (at_most - less + 1) / 2  # as the page's script has it
        assert rank.tolist() == expected.rank(ascending=False).tolist()
        assert expected.duplicated().any()


def test_every_text_is_found_again_and_none_stands_in_the_page_itself(tables, content):
    description, arrays = read_block(content)
    found = [description["texts"][row] for row in arrays["rows 0"]]
    assert found == tables["A-Gem-48"]["text"].tolist()
    outside = BLOCK.sub("", content)
    assert not [text for text in HOSTILE if len(text) > 4 and text not in ("constructor",) and text in outside]
    assert base64.b64decode(BLOCK.search(content)[1])


def test_the_page_loads_nothing_and_forbids_itself_to(content):
    outside = BLOCK.sub("", content)
    assert re.findall(r"https?:|src=|<link|@import|url\(|fetch\(", outside) == []
    assert "default-src 'none'" in outside


def test_what_was_read_is_there_for_every_token(tables, content):
    description, arrays = read_block(content)
    assert description["vocabularies"] == [{"models": ["A-Gem-48", "B-Gem-64"], "known": True},
                                           {"models": ["A-Lla-64"], "known": True}]  # fmt: skip
    pieces = np.split(arrays["read 0"], np.cumsum(arrays["read_length 0"])[:-1])
    assert [piece.tolist() for piece in pieces] == [ids.tolist() for ids in tables["A-Gem-48"]["reply_ids"]]
    assert arrays["input_group 0"].tolist() == tables["A-Gem-48"]["input_group"].tolist()


def test_texts_are_shown_as_in_tables_and_scripts_from_right_to_left_stay_readable():
    assert [page.visible(text) for text in (" love", "a\u202eb", "שלום", "<b>", "$x$", "")] == [
        "␣love", "a⟨U+202E⟩b", "שלום", "<b>", "$x$", "⟨empty⟩"]  # fmt: skip
    assert page.visible("x" * 100_000) == "x" * 31 + "…⟨100000⟩"  # 40 columns


def test_offensive_texts_are_marked(tables, content, monkeypatch):
    monkeypatch.setattr("lib.show.display.is_offensive", lambda text: text.strip() == "war")
    description, _ = read_block(page.build(tables, COLLECTION))
    assert [description["texts"][row] for row in description["offensive"]] == ["war"]


def test_frequency_sentiment_and_kind_of_words():
    kind, known = about.about([" Love", "war", "the", "qzxv", "a_b()"], COLLECTION)
    assert kind.tolist() == ["positive word", "negative word", "other word", "fragment or other script",
                             "code or symbols"]  # fmt: skip
    assert known["sentiment"][:2] == pytest.approx([3.2, -2.9])  # VADER's means
    assert known["frequency"][2] > known["frequency"][1]
    assert np.isnan(known["frequency"][3])


def test_people_rank_items_with_ties_shared(monkeypatch):
    rated = pd.DataFrame({"item": ["Water", "Air", "War"], "elo": [1500, 1500, 900]})
    monkeypatch.setattr("lib.tables.score_files.human_ratings", lambda: rated)
    _, known = about.about(["War", "Air", "Water", "Nothing"], ITEMS)
    assert known["people's rank"].tolist()[:3] == [3, 1.5, 1.5]
    assert np.isnan(known["people's rank"][3])


# --- what was planted ---------------------------------------------------------------------------------------------


def test_the_terms_of_a_planted_utility_add_up_to_it():
    words = ["love", "war", "nature", "muslim", "a_b", "table", " Love", "qzxv"]
    table = table_of(words)
    description, arrays = about.planted(words, ["B-Gem-64", "unknown"], ["greatest", "worst", "other"])
    assert list(description["profiles"]) == ["B-Gem-64"] and description["polarity"] == {"greatest": 1, "worst": -1}
    profile = planting.profile("B-Gem-64")
    known = recovery.planted_table(table, profile).set_index("text")
    for row, text in enumerate(words[:6]):
        of = {name: float(array[row]) for name, array in arrays.items()}
        kind = int(of["planted kind"])
        utility = profile.k_hi * max(-of["valence"], 0) - profile.k_lo * max(of["valence"], 0)  # of worst
        utility += profile.frequency * (of["zipf"] - description["common"])
        utility -= getattr(profile, description["kinds"][kind - 1]) if kind else 0
        utility += profile.label_noise * of["taste Brackenfold"]
        assert utility == pytest.approx(known.loc[text, "planted worst"], abs=1e-5)
    assert arrays["valence"][6] == arrays["valence"][0]  # ` Love` is the input `Love`
    assert np.isnan(arrays["valence"][7])


def test_a_page_of_planted_models_says_so_and_others_do_not_load_what_trains(tables):
    embedded, _ = read_block(page.build(tables, EMBEDDED))
    own, _ = read_block(page.build(tables, COLLECTION))
    assert embedded["banner"].startswith("Planted") and "planted" in embedded
    assert own["banner"].startswith("Your own") and "planted" not in own


def scored(table: pd.DataFrame, **settings) -> pd.DataFrame:
    """The same table, with the metadata of one that was scored so."""
    table = table.copy()
    table.attrs["metadata"] = {"prompts": {"greatest": "What is greatest?"}, "reply_mode": "text"} | settings
    return table


def test_models_that_were_asked_otherwise_are_no_page_and_how_they_were_run_is_listed():
    table = table_of(["love", "war"])
    first = scored(table, head="linear", dtype="float32")
    for other in ({"reply_mode": "ids"}, {"prompts": {"greatest": "What is worst?"}}):
        with pytest.raises(InputError, match=r"a and b differ in .*score these tables of 'mine-alone' again"):
            page.build({"a": first, "b": scored(table, **other)}, COLLECTION)
    alike = {"a": first, "b": scored(table, head="urm", dtype="bfloat16"), "c": first}
    description, _ = read_block(page.build(alike, COLLECTION))
    assert description["runs"] == "a, c: linear, float32; b: urm, bfloat16"


@pytest.mark.parametrize(("question", "is_refused"), [("What is greatest?", False), ("What is worst?", True)])
def test_log_probabilities_stand_beside_rewards_of_the_same_question_only(monkeypatch, question, is_refused):
    table = scored(table_of(["love", "war"]))
    beside = {"LM": scored(table, prompts={"greatest": question}, reply_mode="next token")}
    monkeypatch.setattr(page, "_beside", lambda collection, vocabularies: beside)
    problem = r"a and LM \(log-probabilities\) differ in text of the prompt greatest"
    with pytest.raises(InputError, match=problem) if is_refused else contextlib.nullcontext():
        page.build({"a": table}, COLLECTION)


# --- the command --------------------------------------------------------------------------------------------------


def test_the_command_writes_one_file_and_names_it(tmp_path, place_project_in, capsys, monkeypatch):
    place_project_in(tmp_path)
    monkeypatch.setattr("lib.apps.explorer.page.ROOT", tmp_path)
    study = Collection("mine")
    table = table_of(["love", "war"]).astype({"token": "str", "text": "str"})
    scores.write(table, scores.path_of(study, "one"), {"model": "one", "prompts": {"greatest": "What is greatest?"}})
    assert run.main(["explore", "--collection", "mine"]) == 0
    assert "data/explorer/mine.html" in capsys.readouterr().out
    description, _ = read_block((tmp_path / "data" / "explorer" / "mine.html").read_text())
    assert description["prompts"] == {"greatest": "What is greatest?", "worst": "worst"}


def test_a_collection_without_scores_is_one_line(tmp_path, place_project_in):
    place_project_in(tmp_path)
    with pytest.raises(InputError, match="make reproduce"):
        page.write(Collection("nothing"), tmp_path / "page.html")
