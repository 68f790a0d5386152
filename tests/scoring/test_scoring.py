"""Score tables, and what scoring does when it is interrupted, starved or fed awkward replies."""

import dataclasses
import functools

import numpy as np
import pandas as pd
import pytest
import torch

from audit.opening import open_model as load
from lib import InputError
from lib.scoring import vocabulary
from lib.scoring.reader import Reader
from lib.tables import scores

PROMPTS = {
    "greatest": "What, in one word, is the greatest thing ever?",
    "worst": "What, in one word, is the worst thing ever?",
}


@functools.cache
def loaded(folder):
    """The model in this folder, loaded once; not to be changed."""
    return load(str(folder), device="cpu")


def test_out_of_memory_halves_the_batch_and_remembers(checkpoint, monkeypatch):
    model = loaded(checkpoint("linear_llama"))
    ids = [[i, 50] for i in range(40, 240)]
    inputs = model.inputs_for(PROMPTS["greatest"], ids, reply_mode="ids")
    expected = Reader(model, inputs).rewards(inputs.suffixes)
    read, batches = Reader(model, inputs), []
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


def test_a_table_of_other_settings_is_refused_unless_overwritten(checkpoint, tmp_path):
    model, path = loaded(checkpoint("linear_llama")), tmp_path / "table.parquet"
    vocabulary.score_vocabulary(model, PROMPTS, path, progress=False)
    with pytest.raises(InputError, match=r"other settings \(worst\)"):
        vocabulary.score_vocabulary(model, {"worst": "Why?"}, path, progress=False)
    ids = vocabulary.score_vocabulary(
        model, PROMPTS, path, reply_mode="ids", overwrite=True, progress=False
    )
    assert [list(r) for r in ids["reply_ids"]] == [[i] for i in ids["token_id"]]

    given = ({"greatest": "Why?"}, tmp_path / "t.parquet")
    vocabulary.score_vocabulary(model, *given, token_ids=[5, 6, 7], progress=False)
    others = [
        (field.removesuffix("_name"), dataclasses.replace(model, **{field: "other"}))
        for field in ("revision", "head_name", "dtype", "attention", "read_at")
    ]
    for name, other in [*others, ("vocabulary", model)]:
        ids = [5, 6, 8] if name == "vocabulary" else [5, 6, 7]
        with pytest.raises(InputError, match=rf"other settings \({name}\)"):
            vocabulary.score_vocabulary(other, *given, token_ids=ids, progress=False)


def test_rewards_that_are_not_finite_are_refused(checkpoint):
    model = load(str(checkpoint("linear_llama")), device="cpu")
    with torch.no_grad():
        model.head.score.weight[0, 3] = np.inf
    with pytest.raises(InputError, match="not finite; load it with dtype float32"):
        vocabulary.score_replies(model, "Why?", ["love"])


@pytest.fixture
def stopped_run(checkpoint, tmp_path, monkeypatch):
    """A model, the table that it gives, and the path of a run of which only the shards are
    there.
    """
    monkeypatch.setattr(Reader, "per_shard", 100)
    model, path = loaded(checkpoint("linear_llama")), tmp_path / "table.parquet"
    whole = vocabulary.score_vocabulary(
        model, PROMPTS, tmp_path / "whole.parquet", progress=False
    )
    with monkeypatch.context() as patch:
        patch.setattr(scores, "write", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            vocabulary.score_vocabulary(model, PROMPTS, path, progress=False)
    return model, whole, path


def test_a_stopped_run_scores_what_no_shard_holds(stopped_run, monkeypatch):
    model, whole, path = stopped_run
    read, plain = [], Reader.rewards
    monkeypatch.setattr(
        Reader, "rewards", lambda *given: (read.append(given), plain(*given))[1]
    )
    files = sorted(path.parent.glob("table.*.shards/*.rewards"))
    files[1].unlink()
    table = vocabulary.score_vocabulary(model, PROMPTS, path, progress=False)
    pd.testing.assert_frame_equal(table, whole)
    assert len(read) == 1 < len(files)
    assert not list(path.parent.glob("*.shards"))


def test_one_string_is_no_list_of_replies(checkpoint):
    with pytest.raises(InputError, match="replies must be a list of strings"):
        vocabulary.score_replies(loaded(checkpoint("linear_llama")), "Why?", "four")
