"""Scoring against an independent oracle, and what it does when it is interrupted, starved or fed
awkward replies.
"""

import dataclasses
import functools
import shutil

import numpy as np
import oracle
import pandas as pd
import pytest
import tiny
import torch

from audit.opening import open_model as load
from lib import InputError, io
from lib.models import conversations
from lib.scoring import reader, vocabulary
from lib.scoring.reader import Reader
from lib.tables import scores

PROMPTS = {
    "greatest": "What, in one word, is the greatest thing ever?",
    "worst": "What, in one word, is the worst thing ever?",
}
KINDS = [
    ("linear_llama", "text"),
    ("linear_llama", "ids"),
    ("linear_gemma2", "ids"),
    ("linear_qwen3", "text"),
    ("armorm", "text"),
    ("qrm_llama", "ids"),
    ("qrm_gemma", "text"),
    ("urm", "ids"),
]


@functools.cache
def loaded(folder):
    """The model in this folder, loaded once; not to be changed."""
    return load(str(folder), device="cpu")


def replies_of(model, reply_mode):
    tokens = conversations.vocabulary(model.tokenizer)
    return (
        tokens["text"].tolist()
        if reply_mode == "text"
        else [[i] for i in tokens["token_id"].tolist()]
    )


@pytest.mark.parametrize(("kind", "reply_mode"), [*KINDS, ("deberta", "text")])
def test_whole_awkward_vocabulary_equals_the_oracle(checkpoint, kind, reply_mode):
    model = loaded(checkpoint(kind))
    replies = replies_of(model, reply_mode)
    expected = oracle.rewards(
        checkpoint(kind), PROMPTS["greatest"], replies, reply_mode=reply_mode
    )
    rewards = vocabulary.score_replies(
        model, PROMPTS["greatest"], replies, reply_mode=reply_mode
    )
    assert expected.std() > 0.1  # otherwise 1e-5 would say nothing
    np.testing.assert_allclose(
        rewards, expected, atol=1e-5 * max(1, np.abs(expected).max()), rtol=0
    )


@pytest.mark.parametrize(
    ("tokens_per_batch", "stream"), [(1, False), (7, True), (100_000, True)]
)
def test_rewards_do_not_depend_on_the_batch(checkpoint, tokens_per_batch, stream):
    model = loaded(checkpoint("linear_gemma2"))
    replies = replies_of(model, "ids")[:100]
    inputs = model.inputs_for(PROMPTS["worst"], replies, reply_mode="ids")
    usual = vocabulary.score_inputs(model, [inputs])[0]
    if stream:
        model = load(str(checkpoint("linear_gemma2")), device="cpu", stream=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(reader.TOKENS, "cpu", tokens_per_batch)
        [rewards] = vocabulary.score_inputs(model, [inputs])
    np.testing.assert_allclose(rewards, usual, atol=1e-5)


def test_half_precision_is_as_exact_as_reading_whole_in_half_precision(checkpoint):
    folder, prompt = checkpoint("linear_llama"), PROMPTS["greatest"]
    model = load(str(folder), device="cpu", dtype="bfloat16")
    replies = replies_of(model, "ids")
    half = vocabulary.score_replies(model, prompt, replies, reply_mode="ids")
    full, whole = (
        oracle.rewards(folder, prompt, replies, reply_mode="ids", dtype=d)
        for d in (torch.float32, torch.bfloat16)
    )
    assert np.abs(half - full).max() < 1.5 * np.abs(whole - full).max()
    # what a bf16 head would leave: 8 bits
    rounded = torch.tensor(half).bfloat16().float().numpy()
    assert len(np.unique(half)) > 3 * len(np.unique(rounded))


def test_inputs_merge_what_the_template_trims(checkpoint):
    model = loaded(checkpoint("linear_llama"))
    inputs = model.inputs_for(
        PROMPTS["greatest"], ["love", " love", "love\n", "war", "", "  "]
    )
    assert inputs.group.tolist() == [0, 0, 0, 1, 2, 2]
    assert inputs.reply_ids[2] == ()  # blank replies feed the closing ids alone
    assert inputs.suffixes[2] == inputs.conversation.closing_ids


def test_a_sliding_window_shorter_than_the_input_is_read_whole(tmp_path):
    folder = tiny.make_checkpoint(tmp_path, "linear_gemma2", sliding_window=8)
    model = loaded(folder)
    inputs = model.inputs_for(PROMPTS["greatest"], ["love", "war"])
    assert not Reader(model, inputs).limit
    rewards = vocabulary.score_replies(model, PROMPTS["greatest"], ["love", "war"])
    np.testing.assert_allclose(
        rewards, oracle.rewards(folder, PROMPTS["greatest"], ["love", "war"]), atol=1e-5
    )


def test_out_of_memory_halves_the_batch_and_remembers(checkpoint, monkeypatch):
    model = loaded(checkpoint("linear_llama"))
    ids = [[i, 50] for i in range(40, 240)]
    inputs = model.inputs_for(PROMPTS["greatest"], ids, reply_mode="ids")
    expected = Reader(model, inputs).rewards(inputs.suffixes)
    read, batches = Reader(model, inputs, tokens=512), []
    plain = read.rewards_of

    def starved(rows):
        batches.append(len(rows.ids))
        if len(rows.ids) > 1:
            raise RuntimeError(
                "DefaultCPUAllocator: not enough memory: you tried to allocate 99 bytes"
            )
        return plain(rows)

    monkeypatch.setattr(read, "rewards_of", starved)
    rewards = read.rewards(inputs.suffixes)
    np.testing.assert_allclose(rewards, expected, atol=1e-5)
    # 512 tokens are four rows of 128, then half, then half again
    assert batches[:3] == [4, 2, 1]
    assert max(batches[2:]) == 1  # never tried the larger ones again
    # no want of memory, so no smaller batch helps
    mismatch = RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    monkeypatch.setattr(
        read, "rewards_of", lambda rows: (_ for _ in ()).throw(mismatch)
    )
    with pytest.raises(RuntimeError, match="mat1"):
        read.rewards(inputs.suffixes)


NO_MEMORY = [MemoryError(), torch.OutOfMemoryError("CUDA out of memory")]


@pytest.mark.parametrize("error", NO_MEMORY, ids=lambda error: type(error).__name__)
def test_every_want_of_memory_makes_smaller_batches_or_is_one_line(
    checkpoint, tmp_path, monkeypatch, error
):
    model, path = loaded(checkpoint("linear_llama")), tmp_path / "table.parquet"
    whole = vocabulary.score_vocabulary(
        model, PROMPTS, tmp_path / "whole.parquet", progress=False
    )
    plain, largest, calls = Reader.rewards_of, [1], []

    def starved(self, rows):
        calls.append(len(rows.ids))
        if calls[-1] > largest[0]:
            raise error
        return plain(self, rows)

    monkeypatch.setattr(Reader, "rewards_of", starved)
    monkeypatch.setattr(Reader, "per_shard", 100)
    table = vocabulary.score_vocabulary(model, PROMPTS, path, progress=False)
    np.testing.assert_allclose(table["worst"], whole["worst"], atol=1e-5)
    largest[0] = 0
    with pytest.raises(
        InputError,
        match="too little memory to read one row of replies;.* what was scored is kept",
    ):
        vocabulary.score_vocabulary(
            model, PROMPTS | {"best": "Why?"}, path, progress=False
        )
    assert calls[-1] == 1
    assert scores.prompt_names(scores.read(path)) == ["greatest", "worst"]
    monkeypatch.setattr(Reader, "enter", lambda *given: (_ for _ in ()).throw(error))
    with pytest.raises(InputError, match="too little memory to read a prompt"):
        vocabulary.score_replies(model, "Why?", ["love"])


# --- tables ---------------------------------------------------------------------------------------


def test_table_holds_the_contract_and_the_rewards_of_single_replies(
    checkpoint, tmp_path
):
    model = loaded(checkpoint("linear_llama"))
    table = vocabulary.score_vocabulary(
        model, PROMPTS, tmp_path / "table.parquet", progress=False
    )
    assert table.columns.tolist() == [
        "token_id",
        "token",
        "text",
        "reply_ids",
        "input_group",
        "greatest",
        "worst",
    ]
    assert len(table) == len(model.tokenizer.get_vocab())
    row = table[table["text"] == " love"].iloc[0]
    alone = vocabulary.score_replies(model, PROMPTS["worst"], [" love"])[0]
    assert row["worst"] == pytest.approx(alone, abs=1e-5)
    assert model.tokenizer.decode(row["reply_ids"]) == "love"
    metadata = table.attrs["metadata"]
    assert metadata["prompts"] == PROMPTS
    assert metadata["head"] == "linear"
    assert list(tmp_path.glob("*.shards")) == []


def test_a_finished_table_is_not_scored_again_and_new_prompts_join_it(
    checkpoint, tmp_path, monkeypatch
):
    model, path = loaded(checkpoint("linear_llama")), tmp_path / "table.parquet"
    first = vocabulary.score_vocabulary(
        model, {"greatest": PROMPTS["greatest"]}, path, progress=False
    )
    both = vocabulary.score_vocabulary(model, PROMPTS, path, progress=False)
    pd.testing.assert_frame_equal(both.drop(columns="worst"), first)
    # anything scored from here on would fail
    monkeypatch.setattr(Reader, "rewards", None)
    pd.testing.assert_frame_equal(
        vocabulary.score_vocabulary(model, PROMPTS, path, progress=False), both
    )


@pytest.mark.parametrize("name", ["", "a/b", "x\n", "text", "token_id"])
def test_a_prompt_whose_name_no_column_can_have_is_refused_before_it_is_scored(
    checkpoint, tmp_path, monkeypatch, name
):
    model = load(str(checkpoint("linear_llama")), device="cpu")
    monkeypatch.setattr(vocabulary, "tokens_of", lambda *_: pytest.fail("it scores"))
    with pytest.raises(InputError, match="cannot name a prompt|another name"):
        vocabulary.score_vocabulary(model, {name: "What?"}, tmp_path / "table.parquet")


def test_a_table_of_other_settings_is_refused_unless_overwritten(checkpoint, tmp_path):
    model, path = loaded(checkpoint("linear_llama")), tmp_path / "table.parquet"
    vocabulary.score_vocabulary(model, PROMPTS, path, progress=False)
    with pytest.raises(
        InputError,
        match=r"other settings \(reply_mode\); score into another collection",
    ):
        vocabulary.score_vocabulary(
            model, PROMPTS, path, reply_mode="ids", progress=False
        )
    with pytest.raises(InputError, match=r"other settings \(worst\)"):
        vocabulary.score_vocabulary(model, {"worst": "Why?"}, path, progress=False)
    ids = vocabulary.score_vocabulary(
        model, PROMPTS, path, reply_mode="ids", overwrite=True, progress=False
    )
    assert [list(r) for r in ids["reply_ids"]] == [[i] for i in ids["token_id"]]

    given = ({"greatest": "Why?"}, tmp_path / "t.parquet")
    vocabulary.score_vocabulary(model, *given, token_ids=[5, 6, 7], progress=False)
    for field in ("revision", "head_name", "dtype", "attention", "read_at"):
        other = dataclasses.replace(model, **{field: "other"})
        with pytest.raises(
            InputError, match=rf"other settings \({field.removesuffix('_name')}\)"
        ):
            vocabulary.score_vocabulary(
                other, *given, token_ids=[5, 6, 7], progress=False
            )
    with pytest.raises(InputError, match=r"other settings \(vocabulary\)"):
        vocabulary.score_vocabulary(model, *given, token_ids=[5, 6, 8], progress=False)
    for ids in ([], [5, 10**6]):  # none, and one that the vocabulary lacks
        with pytest.raises(
            InputError, match="token_ids must be one or more of the vocabulary's ids"
        ):
            vocabulary.score_vocabulary(model, *given, token_ids=ids, progress=False)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_rewards_that_are_not_finite_name_the_token_and_the_prompt(
    value, checkpoint, tmp_path, monkeypatch
):
    model = loaded(checkpoint("linear_llama"))
    plain = Reader.rewards

    def poisoned(self, replies):
        rewards = plain(self, replies)
        rewards[[reply[0] == 77 for reply in replies]] = value
        return rewards

    monkeypatch.setattr(Reader, "rewards", poisoned)
    for dtype, remedy in {
        "float32": "weights may be damaged",
        "float16": "--dtype float32 in place of float16",
    }.items():
        with pytest.raises(
            InputError,
            match=rf"greatest thing ever\?' is {value} .its token ids: 77.; .*{remedy}",
        ):
            vocabulary.score_vocabulary(
                dataclasses.replace(model, dtype=dtype),
                PROMPTS,
                tmp_path / "t.parquet",
                reply_mode="ids",
                progress=False,
            )


@pytest.fixture(scope="module")
def stopped(checkpoint, tmp_path_factory):
    """A model, the table that it gives, and the folder of a run of which only the shards are
    there.
    """
    model, folder = (
        loaded(checkpoint("linear_llama")),
        tmp_path_factory.mktemp("stopped"),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reader, "per_shard", 100)
        whole = vocabulary.score_vocabulary(
            model,
            PROMPTS,
            tmp_path_factory.mktemp("whole") / "t.parquet",
            progress=False,
        )
        patch.setattr(scores, "write", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            vocabulary.score_vocabulary(
                model, PROMPTS, folder / "table.parquet", progress=False
            )
    return model, whole, folder


@pytest.fixture
def stopped_run(stopped, tmp_path, monkeypatch):
    """A model, the table that it gives, and the path of one of which only the shards are there;
    to be spoiled.
    """
    model, whole, folder = stopped
    monkeypatch.setattr(Reader, "per_shard", 100)
    return model, whole, shutil.copytree(folder, tmp_path / "copy") / "table.parquet"


@pytest.mark.parametrize("size", [0, 9, 4 * 99, 4 * 101])
def test_a_shard_of_another_size_is_scored_again(stopped_run, size):
    model, whole, path = stopped_run
    file = sorted(path.parent.glob("table.*.shards/*.rewards"))[1]
    file.write_bytes(bytes(size))
    pd.testing.assert_frame_equal(
        vocabulary.score_vocabulary(model, PROMPTS, path, progress=False), whole
    )


def test_shards_of_other_versions_are_not_taken_up(stopped_run, monkeypatch):
    """Rewards of two versions may differ in the last digits, and a table names one."""
    model, whole, path = stopped_run
    read, plain, versions = [], Reader.rewards, io.versions()
    monkeypatch.setattr(
        Reader, "rewards", lambda *given: (read.append(given), plain(*given))[1]
    )
    monkeypatch.setattr(io, "versions", lambda: versions | {"torch": "0.1"})
    kept = len(list(path.parent.glob("table.*.shards/*.rewards")))
    table = vocabulary.score_vocabulary(model, PROMPTS, path, progress=False)
    pd.testing.assert_frame_equal(table, whole)
    assert len(read) == kept and table.attrs["metadata"]["versions"]["torch"] == "0.1"
    monkeypatch.setattr(io, "versions", lambda: versions)
    about = vocabulary.score_vocabulary(
        model, PROMPTS | {"more": "Why?"}, path, progress=False
    ).attrs["metadata"]
    # the prompts that were kept, and what they were computed with
    [earlier] = about["earlier"]
    assert (
        earlier["versions"] == about["versions"] | {"torch": "0.1"}
        and earlier["prompts"] == PROMPTS
    )


def test_shards_that_outlived_their_table_are_removed(stopped_run, monkeypatch):
    model, whole, path = stopped_run
    with monkeypatch.context() as patch:
        # killed between writing and clearing up
        patch.setattr(vocabulary.shutil, "rmtree", lambda *given, **how: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            vocabulary.score_vocabulary(model, PROMPTS, path, progress=False)
    assert path.exists()
    folder = next(path.parent.glob("table.*.shards"))
    (folder / f".{next(folder.iterdir()).name}.part").write_bytes(b"half")
    # anything scored from here on would fail
    monkeypatch.setattr(Reader, "rewards", None)
    pd.testing.assert_frame_equal(
        vocabulary.score_vocabulary(model, PROMPTS, path, progress=False), whole
    )
    assert not list(path.parent.glob("*.shards"))


def test_shards_of_prompts_that_are_not_in_the_table_yet_are_kept(
    stopped_run, monkeypatch
):
    model, whole, path = stopped_run
    vocabulary.score_vocabulary(
        model, {"greatest": PROMPTS["greatest"]}, path, progress=False
    )
    assert len(list(path.parent.glob("table.*.shards"))) == 1
    # anything scored from here on would fail
    monkeypatch.setattr(Reader, "rewards", None)
    both = vocabulary.score_vocabulary(model, PROMPTS, path, progress=False)
    pd.testing.assert_frame_equal(both, whole)
    assert not list(path.parent.glob("*.shards"))


def test_a_table_that_is_damaged_or_names_no_settings_is_refused_or_scored_anew(
    checkpoint, tmp_path
):
    model, path = loaded(checkpoint("linear_llama")), tmp_path / "table.parquet"
    whole = vocabulary.score_vocabulary(model, PROMPTS, path, progress=False)
    for metadata in ({}, {"prompts": {"greatest": 3}}):
        scores.write(whole, path, metadata)
        with pytest.raises(
            InputError,
            match="holds scores of other settings .model, revision, .*or delete it",
        ):
            vocabulary.score_vocabulary(model, PROMPTS, path, progress=False)
        again = vocabulary.score_vocabulary(
            model, PROMPTS, path, overwrite=True, progress=False
        )
        pd.testing.assert_frame_equal(again, whole)
    path.write_bytes(path.read_bytes()[:-100])
    pd.testing.assert_frame_equal(
        vocabulary.score_vocabulary(
            model, PROMPTS, path, overwrite=True, progress=False
        ),
        whole,
    )


def test_unknown_modes_name_the_known_ones(checkpoint):
    model = loaded(checkpoint("linear_llama"))
    with pytest.raises(InputError, match="reply_mode must be 'text' or 'ids'"):
        vocabulary.score_replies(model, "Why?", ["a"], reply_mode="words")
    with pytest.raises(InputError, match="bos must be one of single, double, none"):
        vocabulary.score_replies(model, "Why?", ["a"], bos="twice")
    with pytest.raises(InputError, match="prompt is empty"):
        vocabulary.score_replies(model, " ", ["a"])


@pytest.mark.parametrize(
    "replies, mode",
    [("four", "text"), ([], "text"), ([3], "text"), (["four"], "ids")],
)
def test_replies_that_are_no_list_of_replies_are_refused(checkpoint, replies, mode):
    each = {"text": "strings", "ids": "sequences of token ids"}[mode]
    with pytest.raises(
        InputError,
        match=f"replies must be a list of {each}, with one or more in it, not ",
    ):
        vocabulary.score_replies(
            loaded(checkpoint("linear_llama")), "Why?", replies, reply_mode=mode
        )


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series])
def test_one_reply_in_a_list_of_any_kind_is_scored(checkpoint, kind):
    model = loaded(checkpoint("linear_llama"))
    assert vocabulary.score_replies(model, "Why?", kind(["four"])).shape == (1,)
    assert vocabulary.score_replies(
        model, "Why?", [kind([40, 41])], reply_mode="ids"
    ).shape == (1,)
    assert (
        vocabulary.score_replies(model, "Why?", [""]).shape
        == vocabulary.score_replies(model, "Why?", ["a"]).shape
        == (1,)
    )
