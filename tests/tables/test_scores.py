"""Score tables: what is written is what is read, and whatever goes wrong is one line and costs
nothing.
"""

import io
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from conftest import AWKWARD
from hypothesis import given, settings
from hypothesis import strategies as st

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


def only(path, *names):
    """Whether the folder of `path` holds exactly these files (locks aside)."""
    return sorted(
        p.name for p in path.parent.iterdir() if p.suffix != ".lock"
    ) == sorted(names)


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


def read_damaged(make, content: bytes):
    path = scores.path_of(kept(make, model={}), "model")
    path.write_bytes(content or path.read_bytes()[:-100])
    return scores.read(path)


ASKED = {"prompts": {"greatest": "Why?", "best": "What?"}, "reply_mode": "text"}
OTHER = {"prompts": {"best": "What?", "greatest": "Who?"}}
FOREIGN = io.BytesIO()
pd.DataFrame({"x": [1]}).to_parquet(FOREIGN)
REFUSED = {
    "no table at all": (
        lambda make: scores.read_all(Collection("published-none")),
        "no scores in .*published-none.*make published",
    ),
    "cut short": (
        lambda make: read_damaged(make, b""),
        "model.parquet is no whole score table .*; delete it and run: make score",
    ),
    "another project's": (
        lambda make: read_damaged(make, FOREIGN.getvalue()),
        "model.parquet is no whole score table",
    ),
    "no number": (
        lambda make: kept(lambda: make(greatest=[np.nan] * 15), a={}),
        "a.parquet is not written: a reward is no finite number",
    ),
    "asked otherwise": (
        lambda make: scores.read_all(kept(make, a={}, b=ASKED, c=ASKED | OTHER)),
        "b and c differ in text of the prompt greatest .'Why.', 'Who.'.; delete one",
    ),
    "read otherwise": (
        lambda make: scores.read_all(kept(make, b=ASKED, c={"reply_mode": "ids"})),
        "b and c differ in reply_mode .'text', 'ids'.; delete one",
    ),
    "no shared text": (
        lambda make: scores.shared_vocabulary(
            {"a": make(["x"], greatest=[1]), "b": make(["y"], greatest=[1])}, "greatest"
        ),
        "no text is shared by a, b",
    ),
    "no shared prompt": (
        lambda make: scores.shared_prompts(
            {"a": make(["x"], best=[1]), "c": make(["x"], first=[1])}
        ),
        "a, c share no prompt",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_written_or_joined_is_one_line(score_table, name):
    call, line = REFUSED[name]
    with refused(line):
        call(score_table)


def as_read(path) -> tuple:
    """All that reading a table gives, or None where it is refused in one line."""
    try:
        table = scores.read(path)
    except InputError as error:
        assert "\n" not in str(error) and "model.parquet" in str(error)
        return ()
    return (
        table.to_json(double_precision=15),
        list(table.dtypes),
        table.attrs["metadata"],
    )


def test_a_flipped_bit_of_the_values_is_refused_or_changes_nothing(score_table, path):
    scores.write(
        score_table(groups=[0, 0, *range(1, 14)], greatest=[0.5, 0.5, *range(13)]),
        path,
        {"model": "m"},
    )
    whole, content = as_read(path), path.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little")  # has no checksum

    @settings(max_examples=300, deadline=None)
    @given(bit=st.integers(0, 8 * (len(content) - footer - 8) - 1))
    def flip(bit):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        assert as_read(path) in ((), whole)

    flip()


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="needs a device that is always full"
)
def test_a_full_disk_leaves_the_old_table_and_nothing_else(
    score_table, path, monkeypatch
):
    scores.write(score_table(greatest=range(15)), path, {})
    old = path.read_bytes()
    write = pq.write_table

    def refused_by_the_disk(arrow, part, **options) -> None:
        # every write to it is refused; pyarrow then removes the link, not the device
        part.symlink_to("/dev/full")
        write(arrow, part, **options)

    monkeypatch.setattr(pq, "write_table", refused_by_the_disk)
    with refused("model.parquet was not written .*No space left on device.*; free"):
        scores.write(score_table(greatest=range(15, 30)), path, {})
    assert path.read_bytes() == old
    assert only(path, "model.parquet")


HOLDER = """
import sys, time
from lib import io as files
with files.lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_writer_is_refused_and_kill_frees_the_lock(score_table, path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "held\n"
        with (
            refused("another process is writing .*model.parquet; wait until it ends"),
            lock(path),
        ):
            pass
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
    with lock(path):  # the kernel freed it with the process
        scores.write(score_table(), path, {})
        with refused("another process is writing"), lock(path):
            pass
    assert only(path, "model.parquet")


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
