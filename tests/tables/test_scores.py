"""Score tables: what is written is what is read, and whatever goes wrong is one line and costs
nothing.
"""

import errno
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import AWKWARD

from lib import InputError
from lib.io import lock
from lib.tables import scores
from lib.tables.collection import Collection


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    return tmp_path


@pytest.fixture
def path():
    return scores.path_of(Collection("words"), "model")


def refused(match: str):
    """Expects an InputError of one line."""
    return pytest.raises(InputError, match=rf"(?s)\A(?=[^\n]*\Z).*{match}")


def test_what_is_written_is_read(score_table, path, root):
    table = score_table(
        greatest=np.linspace(-1, 1, len(AWKWARD)), worst=np.zeros(len(AWKWARD))
    )
    scores.write(table, path, {"model": "m", "prompts": {"greatest": "?"}})
    again = scores.read(path)
    assert path == root / "data" / "scores" / "words" / "model.parquet"
    # 'null', 'NA', 'nan' and '' among them: none became a missing value
    assert again["text"].tolist() == AWKWARD
    assert {ids.dtype for ids in again["reply_ids"]} == {np.dtype("int32")}
    assert again.attrs["metadata"] == {"model": "m", "prompts": {"greatest": "?"}}
    pd.testing.assert_frame_equal(
        again.drop(columns="reply_ids"), table.drop(columns="reply_ids")
    )


def test_one_content_is_one_sequence_of_bytes(score_table, path):
    other = path.with_name("other.parquet")
    scores.write(score_table(), path, {"a": 1, "b": 2})
    scores.write(scores.read(path), other, {"b": 2, "a": 1})
    assert path.read_bytes() == other.read_bytes()


def kept(make, **settings) -> Collection:
    """A collection with a table for each of these settings."""
    for name, about in settings.items():
        scores.write(make(), scores.path_of(Collection("words"), name), about)
    return Collection("words")


def read_changed(make, change):
    path = scores.path_of(kept(make, model={}), "model")
    path.write_bytes(change(path.read_bytes()))
    return scores.read(path)


def read_altered(make, change):
    """Read a table whose columns or metadata another program changed."""
    path = scores.path_of(kept(make, model={}), "model")
    pq.write_table(change(pq.read_table(path)), path)
    return scores.read(path)


def with_nan(arrow):
    field = arrow.schema.field("greatest")
    rewards = pa.array([np.nan] * len(arrow), field.type)
    return arrow.drop_columns("greatest").append_column(field, rewards)


FOREIGN = {  # what is done to a table -> words of the line
    "its columns": lambda arrow: arrow.append_column("by", pa.array(["me"] * 15)),
    "its columns are": lambda arrow: arrow.drop_columns("reply_ids"),
    "its metadata": lambda arrow: arrow.replace_schema_metadata(
        {scores.METADATA_KEY: b"[1]"}
    ),
    "its metadata are": lambda arrow: arrow.replace_schema_metadata(
        {scores.METADATA_KEY: b'{"prompts": "greatest"}'}
    ),
    "it holds a token id twice": lambda arrow: pa.concat_tables([arrow, arrow[3:4]]),
    "a reward is no finite number": with_nan,
}


@pytest.mark.parametrize("words", FOREIGN)
def test_a_table_of_another_program_is_one_line(score_table, words):
    with refused(f"model.parquet is no whole score table .{words}.*; delete it"):
        read_altered(score_table, FOREIGN[words])


ASKED = {"prompts": {"greatest": "Why?", "best": "What?"}, "reply_mode": "text"}
IDS = {"reply_mode": "ids"}
OTHER = {"prompts": {"best": "What?", "greatest": "Who?"}}
REFUSED = {
    "no table at all": (
        lambda make: scores.read_all(Collection("published-none")),
        "no scores in .*published-none.*make published",
    ),
    "one letter off": (
        lambda make: [kept(make, a={}), scores.read_all(Collection("word"))],
        r"'word' \(did you mean 'words'\?\); run: .* -r collection word ",
    ),
    "cut short": (
        lambda make: read_changed(make, lambda content: content[:-100]),
        "model.parquet is no whole score table .*; delete it and run: make score",
    ),
    "a value changed": (
        lambda make: read_changed(
            make, lambda content: content.replace(b"love", b"lovf")
        ),
        "model.parquet is no whole score table",
    ),
    "a prompt that has the name of a column": (
        lambda make: scores.checked_prompt("text"),
        "another name",
    ),
    "no number": (
        lambda make: kept(lambda: make(greatest=[np.nan] * 15), a={}),
        "a.parquet is not written: a reward is no finite number",
    ),
    "asked otherwise": (
        lambda make: scores.read_all(kept(make, a={}, b=ASKED, c=ASKED | OTHER)),
        "b and c differ in text of the prompt greatest .'Why.', 'Who.'.; delete one",
    ),
    "replies read otherwise": (
        lambda make: scores.read_all(kept(make, a=ASKED, b=ASKED | IDS)),
        "a and b differ in reply_mode .'text', 'ids'.; delete one",
    ),
    "no shared text": (
        lambda make: scores.shared_vocabulary(
            {"a": make(["x"], greatest=[1]), "b": make(["y"], greatest=[1])}, "greatest"
        ),
        "no text is shared by a, b",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_written_or_joined_is_one_line(score_table, name):
    call, line = REFUSED[name]
    with refused(line):
        call(score_table)


def test_a_full_disk_leaves_the_old_table_and_nothing_else(
    score_table, path, monkeypatch
):
    scores.write(score_table(greatest=range(15)), path, {})
    old = path.read_bytes()

    def half_of_it(arrow, part, **options) -> None:
        part.write_bytes(old[:100])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pq, "write_table", half_of_it)
    with refused("model.parquet was not written .*No space left on device.*; free"):
        scores.write(score_table(greatest=range(15, 30)), path, {})
    assert path.read_bytes() == old
    assert list(path.parent.glob("*.part")) == []


def test_a_link_stays_and_what_is_no_file_is_not_replaced(score_table, path):
    path.parent.mkdir(parents=True)
    path.symlink_to("elsewhere.parquet")
    scores.write(score_table(), path, {})
    assert path.is_symlink() and path.with_name("elsewhere.parquet").is_file()
    os.mkfifo(path.with_name("pipe"))
    for place in (path.with_name("pipe"), path.parent):
        with refused("is a folder or a device; name a file"):
            scores.write(score_table(), place, {})


def test_a_second_writer_is_refused_and_the_lock_ends(path):
    with (
        lock(path),
        refused("another process is writing .*model.parquet; wait until it ends"),
    ):
        lock(path).__enter__()
    with lock(path):
        pass


def test_one_row_per_input_with_the_lowest_id(score_table):
    table = score_table(
        ["a", " a", "b", "a "], groups=[4, 4, 1, 4], greatest=[1, 1, 2, 1]
    )
    for shuffled in (table, table.iloc[[3, 2, 1, 0]]):
        assert scores.unique_inputs(shuffled)["token_id"].tolist() == [0, 2]


def test_shared_texts_are_joined_on_text_not_on_position(score_table):
    a = score_table(
        ["nan", "love", "null", "NA", "", "only a"], greatest=[0, 1, 2, 3, 4, 5]
    )
    b = score_table(
        ["only b", "", "NA", "null", "love", "nan"], greatest=[50, 40, 30, 20, 10, 0]
    )
    shared = scores.shared_vocabulary({"a": a, "b": b}, "greatest", trim=False)
    assert shared.index.tolist() == ["nan", "love", "null", "NA", ""]
    assert shared.index.name == "text"
    assert shared["b"].tolist() == [0, 10, 20, 30, 40]
    assert (shared["b"] == 10 * shared["a"]).all()


def test_trimmed_texts_are_one_observation(score_table):
    a = score_table(
        [" love", "love", "x", "\x1c"], groups=[0, 0, 1, 2], greatest=[1, 1, 2, 3]
    )
    b = score_table(["love", "x", ""], greatest=[5, 6, 7])
    shared = scores.shared_vocabulary({"a": a, "b": b}, "greatest")
    assert shared.reset_index().to_numpy().tolist() == [
        ["love", 1, 5],
        ["x", 2, 6],
        ["", 3, 7],
    ]


def test_texts_of_several_ids_are_dropped_or_the_first_is_taken(score_table):
    a = score_table(["\ufffd", "x", "\ufffd", "y"], greatest=[1, 2, 3, 4])
    b = score_table(["x", "\ufffd", "y"], greatest=[5, 6, 7])
    dropped = scores.shared_vocabulary({"a": a, "b": b}, "greatest")
    assert dropped.index.tolist() == ["x", "y"]  # U+FFFD is two ids of a
    first = scores.shared_vocabulary({"a": a, "b": b}, "greatest", duplicates="first")
    assert first["a"].to_dict() == {"\ufffd": 1, "x": 2, "y": 4}


def test_what_was_read_for_each_token(score_table):
    table = score_table(["love", " love", "lovely", " ", "war"], best=range(5))
    ids = [[0], [0], [0, 9], [], [4]]
    table["reply_ids"] = [np.array(each, dtype=np.int32) for each in ids]
    # " love" as love, "lovely" in two pieces, the blank as nothing
    read = ["itself", "another id", "several ids", "nothing", "itself"]
    assert scores.read_as(table).tolist() == read


def test_prompts_that_all_tables_hold_are_in_the_order_of_the_first():
    one = pd.DataFrame(columns=["text", "worst", "best", "greatest"])
    other = pd.DataFrame(columns=["greatest", "text", "worst"])
    assert scores.shared_prompts({"a": one, "b": other}) == ["worst", "greatest"]
