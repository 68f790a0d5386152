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
from hypothesis import given, settings
from hypothesis import strategies as st

from lib import ROOT, InputError, io
from lib.apps.owner.opening import open_model as load
from lib.models import conversations, shared_prefix
from lib.scoring import engine, shards, stages, trees
from lib.tables import scores
from lib.tables.collection import Collection

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
    rewards = engine.score_replies(
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
    replies, how = (
        replies_of(model, "ids")[:100],
        {"reply_mode": "ids", "tokens_per_batch": tokens_per_batch},
    )
    usual = engine.score_replies(model, PROMPTS["worst"], replies, reply_mode="ids")
    model = (
        load(str(checkpoint("linear_gemma2")), device="cpu", stream=True)
        if stream
        else model
    )
    np.testing.assert_allclose(
        engine.score_replies(model, PROMPTS["worst"], replies, **how), usual, atol=1e-5
    )


def test_half_precision_is_as_exact_as_reading_whole_in_half_precision(checkpoint):
    folder, prompt = checkpoint("linear_llama"), PROMPTS["greatest"]
    model = load(str(folder), device="cpu", dtype="bfloat16")
    replies = replies_of(model, "ids")
    half = engine.score_replies(model, prompt, replies, reply_mode="ids")
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


def test_attention_over_a_shared_prefix_is_attention():
    torch.manual_seed(0)
    prefix, batch, heads, kv_heads, length, d = 5, 3, 4, 2, 3, 8
    query = torch.randn(batch, heads, length, d)
    key, value = torch.randn(2, batch, kv_heads, length, d)
    shared = torch.randn(2, kv_heads, prefix, d)
    module = type("Layer", (), {"layer_idx": 0})
    ours, _ = shared_prefix.shared_prefix_attention(
        module, query, key, value, None, scaling=0.3, shared=[shared]
    )
    keys, values = (
        torch.cat([part.expand(batch, -1, -1, -1), own], 2).repeat_interleave(
            heads // kv_heads, 1
        )
        for part, own in zip(shared, (key, value), strict=True)
    )
    mask = torch.ones(length, prefix + length).tril(prefix).bool()
    plain = torch.nn.functional.scaled_dot_product_attention(
        query, keys, values, attn_mask=mask, scale=0.3
    )
    torch.testing.assert_close(ours, plain.transpose(1, 2))


def test_a_sliding_window_shorter_than_the_input_is_read_whole(tmp_path):
    folder = tiny.make_checkpoint(tmp_path, "linear_gemma2", sliding_window=8)
    model = loaded(folder)
    inputs = model.inputs_for(PROMPTS["greatest"], ["love", "war"])
    assert not stages.reader_of(model)(model, inputs).shares_prefix
    rewards = engine.score_replies(model, PROMPTS["greatest"], ["love", "war"])
    np.testing.assert_allclose(
        rewards, oracle.rewards(folder, PROMPTS["greatest"], ["love", "war"]), atol=1e-5
    )


def test_out_of_memory_halves_the_batch_and_remembers(checkpoint, monkeypatch):
    model = loaded(checkpoint("linear_llama"))
    ids = [[i] for i in range(40, 140)]
    expected = engine.score_replies(model, PROMPTS["greatest"], ids, reply_mode="ids")
    inputs = model.inputs_for(PROMPTS["greatest"], ids, reply_mode="ids")
    scorer, batches = stages.reader_of(model)(model, inputs, tokens_per_batch=128), []
    plain = scorer._rewards

    def starved(batch, ids=None):
        batches.append(len(batch))
        if len(batch) > 20:
            raise RuntimeError(
                "DefaultCPUAllocator: not enough memory: you tried to allocate 99 bytes"
            )
        return plain(batch)

    monkeypatch.setattr(scorer, "_rewards", starved)
    np.testing.assert_allclose(scorer(inputs.suffixes), expected, atol=1e-5)
    # 128 tokens are 64 replies of 2 tokens, then half, then half again
    assert batches[:3] == [64, 32, 16]
    assert max(batches[2:]) == 16  # never tried the larger ones again
    # no want of memory, so no smaller batch helps
    mismatch = RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    monkeypatch.setattr(
        scorer, "_rewards", lambda batch: (_ for _ in ()).throw(mismatch)
    )
    with pytest.raises(RuntimeError, match="mat1"):
        scorer(inputs.suffixes)


NO_MEMORY = [MemoryError(), torch.OutOfMemoryError("CUDA out of memory")]


@pytest.mark.parametrize("error", NO_MEMORY, ids=lambda error: type(error).__name__)
def test_every_want_of_memory_makes_smaller_batches_or_is_one_line(
    checkpoint, tmp_path, monkeypatch, error
):
    model, path = loaded(checkpoint("linear_llama")), tmp_path / "table.parquet"
    whole = engine.score_vocabulary(
        model, PROMPTS, tmp_path / "whole.parquet", progress=False
    )
    plain, largest, calls = trees.outputs, [20], []

    def starved(backbone, length, shared, tree):
        calls.append(len(tree.leaves))
        if calls[-1] > largest[0]:
            raise error
        return plain(backbone, length, shared, tree)

    monkeypatch.setattr(trees, "outputs", starved)
    monkeypatch.setattr(engine, "REPLIES_PER_SHARD", 100)
    table = engine.score_vocabulary(model, PROMPTS, path, progress=False)
    np.testing.assert_allclose(table["worst"], whole["worst"], atol=1e-5)
    largest[0] = 0
    with pytest.raises(
        InputError,
        match="too little memory to read one reply;.* what was scored is kept",
    ):
        engine.score_vocabulary(model, PROMPTS | {"best": "Why?"}, path, progress=False)
    assert calls[-1] == 1
    assert scores.prompt_names(scores.read(path)) == ["greatest", "worst"]
    monkeypatch.setattr(
        shared_prefix, "states_and_keys", lambda *given: (_ for _ in ()).throw(error)
    )
    with pytest.raises(InputError, match="too little memory to read a prompt"):
        engine.score_replies(model, "Why?", ["love"])


# --- tables ---------------------------------------------------------------------------------------


def test_table_holds_the_contract_and_the_rewards_of_single_replies(
    checkpoint, tmp_path
):
    model = loaded(checkpoint("linear_llama"))
    table = engine.score_vocabulary(
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
    alone = engine.score_replies(model, PROMPTS["worst"], [" love"])[0]
    assert row["worst"] == pytest.approx(alone, abs=1e-5)
    assert model.tokenizer.decode(row["reply_ids"]) == "love"
    metadata = table.attrs["metadata"]
    assert metadata["prompts"] == PROMPTS
    assert metadata["head"] == "linear"
    assert list(tmp_path.glob("*.shards")) == []


@pytest.mark.parametrize("study", ["embedded", "published-words", "published-mine"])
def test_a_foreign_model_joins_neither_planted_nor_published_ones(
    checkpoint, tmp_path, monkeypatch, study
):
    """However it is scored: notebook 01, opened by hand, calls this itself, and overwrites
    tables of `embedded`.
    """
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    model = dataclasses.replace(loaded(checkpoint("linear_llama")), nickname="A-Gem-96")
    path = scores.path_of(Collection(study), "A-Gem-96")
    with pytest.raises(
        InputError, match=f"'{study}' holds .*; choose another: --collection mine"
    ):
        engine.score_vocabulary(model, PROMPTS, path, overwrite=True, progress=False)
    assert not path.parent.exists()
    engine.score_vocabulary(
        model, PROMPTS, scores.path_of(Collection("mine"), "A-Gem-96"), progress=False
    )
    ships = dataclasses.replace(
        model, hub_id=str(ROOT / "data" / "models" / "A-Gem-96")
    )
    if study == "embedded":
        assert len(engine.score_vocabulary(ships, PROMPTS, path, progress=False))


def test_a_finished_table_is_not_scored_again_and_new_prompts_join_it(
    checkpoint, tmp_path, monkeypatch
):
    model, path = loaded(checkpoint("linear_llama")), tmp_path / "table.parquet"
    first = engine.score_vocabulary(
        model, {"greatest": PROMPTS["greatest"]}, path, progress=False
    )
    both = engine.score_vocabulary(model, PROMPTS, path, progress=False)
    pd.testing.assert_frame_equal(both.drop(columns="worst"), first)
    # anything scored from here on would fail
    monkeypatch.setattr(stages, "Scorer", None)
    pd.testing.assert_frame_equal(
        engine.score_vocabulary(model, PROMPTS, path, progress=False), both
    )


@pytest.mark.parametrize("name", ["", "a/b", "x\n", "text", "token_id"])
def test_a_prompt_whose_name_no_column_can_have_is_refused_before_it_is_scored(
    checkpoint, tmp_path, monkeypatch, name
):
    model = load(str(checkpoint("linear_llama")), device="cpu")
    monkeypatch.setattr(engine, "tokens_of", lambda *_: pytest.fail("it scores"))
    with pytest.raises(InputError, match="cannot name a prompt|another name"):
        engine.score_vocabulary(model, {name: "What?"}, tmp_path / "table.parquet")


def test_a_table_of_other_settings_is_refused_unless_overwritten(checkpoint, tmp_path):
    model, path = loaded(checkpoint("linear_llama")), tmp_path / "table.parquet"
    engine.score_vocabulary(model, PROMPTS, path, progress=False)
    with pytest.raises(
        InputError,
        match=r"other settings \(reply_mode\); score into another collection",
    ):
        engine.score_vocabulary(model, PROMPTS, path, reply_mode="ids", progress=False)
    with pytest.raises(InputError, match=r"other settings \(worst\)"):
        engine.score_vocabulary(model, {"worst": "Why?"}, path, progress=False)
    ids = engine.score_vocabulary(
        model, PROMPTS, path, reply_mode="ids", overwrite=True, progress=False
    )
    assert [list(r) for r in ids["reply_ids"]] == [[i] for i in ids["token_id"]]

    given = ({"greatest": "Why?"}, tmp_path / "t.parquet")
    engine.score_vocabulary(model, *given, token_ids=[5, 6, 7], progress=False)
    for field in ("revision", "head_name", "dtype", "attention", "read_at"):
        other = dataclasses.replace(model, **{field: "other"})
        with pytest.raises(
            InputError, match=rf"other settings \({field.removesuffix('_name')}\)"
        ):
            engine.score_vocabulary(other, *given, token_ids=[5, 6, 7], progress=False)
    with pytest.raises(InputError, match=r"other settings \(vocabulary\)"):
        engine.score_vocabulary(model, *given, token_ids=[5, 6, 8], progress=False)
    for ids in ([], [5, 10**6]):  # none, and one that the vocabulary lacks
        with pytest.raises(
            InputError, match="token_ids must be one or more of the vocabulary's ids"
        ):
            engine.score_vocabulary(model, *given, token_ids=ids, progress=False)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_rewards_that_are_not_finite_name_the_token_and_the_prompt(
    value, checkpoint, tmp_path, monkeypatch
):
    model = loaded(checkpoint("linear_llama"))
    plain = stages.Scorer.of_pieces

    def poisoned(self, pieces):
        rewards = plain(self, pieces)
        rewards[torch.cat([piece[:, 0] for piece in pieces]) == 77] = value
        return rewards

    monkeypatch.setattr(stages.Scorer, "of_pieces", poisoned)
    for dtype, remedy in {
        "float32": "may be damaged, since it is computed in float32",
        "float16": "--dtype bfloat16 or",
    }.items():
        with pytest.raises(
            InputError,
            match=rf"greatest thing ever\?' is {value} .its token ids: 77.; .*{remedy}",
        ):
            engine.score_vocabulary(
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
        patch.setattr(engine, "REPLIES_PER_SHARD", 100)
        whole = engine.score_vocabulary(
            model,
            PROMPTS,
            tmp_path_factory.mktemp("whole") / "t.parquet",
            progress=False,
        )
        patch.setattr(scores, "write", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            engine.score_vocabulary(
                model, PROMPTS, folder / "table.parquet", progress=False
            )
    return model, whole, folder


@pytest.fixture
def stopped_run(stopped, tmp_path, monkeypatch):
    """A model, the table that it gives, and the path of one of which only the shards are there;
    to be spoiled.
    """
    model, whole, folder = stopped
    monkeypatch.setattr(engine, "REPLIES_PER_SHARD", 100)
    return model, whole, shutil.copytree(folder, tmp_path / "copy") / "table.parquet"


DAMAGES = {
    "cut": lambda content: content[:-9],
    "flipped": lambda content: (
        content[:-40] + bytes([content[-40] ^ 1]) + content[-39:]
    ),
    "of another length": lambda content: content[:28] + content[-32:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_shard_is_dropped_told_and_scored_again(stopped_run, capsys, damage):
    model, whole, path = stopped_run
    file = sorted(path.parent.glob("table.*.shards/*.rewards"))[1]
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    pd.testing.assert_frame_equal(
        engine.score_vocabulary(model, PROMPTS, path, progress=False), whole
    )
    assert f"{file} is damaged" in capsys.readouterr().out


@pytest.mark.drill
@pytest.mark.parametrize("of", ["another prompt", "another number", "other settings"])
def test_a_shard_that_was_renamed_is_scored_again_and_the_others_are_not(
    stopped_run, capsys, of
):
    model, whole, path = stopped_run
    [folder] = path.parent.glob("table.*.shards")
    first, second = (
        shards.path_of(folder, PROMPTS["greatest"], number) for number in (0, 1)
    )
    others = path.parent / "table.000000000000.shards"
    worst = shards.path_of(folder, PROMPTS["worst"], 1)
    if of == "other settings":
        shards.write(others / second.name, np.zeros(100, dtype=np.float32))
    source = {
        "another prompt": worst,
        "another number": first,
        "other settings": others / second.name,
    }[of]
    assert source.stat().st_size == second.stat().st_size
    shutil.copy(source, second)
    pd.testing.assert_frame_equal(
        engine.score_vocabulary(model, PROMPTS, path, progress=False), whole
    )
    out = capsys.readouterr().out
    assert f"{second} is damaged" in out and out.count("is damaged") == 1


def test_shards_of_other_versions_are_not_taken_up(stopped_run, monkeypatch):
    """Rewards of two versions may differ in the last digits, and a table names one."""
    model, whole, path = stopped_run
    written, plain, versions = [], shards.write, io.versions()
    monkeypatch.setattr(
        shards,
        "write",
        lambda file, rewards: (written.append(file), plain(file, rewards)),
    )
    monkeypatch.setattr(io, "versions", lambda: versions | {"torch": "0.1"})
    kept = len(list(path.parent.glob("table.*.shards/*.rewards")))
    table = engine.score_vocabulary(model, PROMPTS, path, progress=False)
    pd.testing.assert_frame_equal(table, whole)
    assert (
        len(written) == kept and table.attrs["metadata"]["versions"]["torch"] == "0.1"
    )
    monkeypatch.setattr(io, "versions", lambda: versions)
    about = engine.score_vocabulary(
        model, PROMPTS | {"more": "Why?"}, path, progress=False
    ).attrs["metadata"]
    # the prompts that were kept, and what they were computed with
    [earlier] = about["earlier"]
    assert (
        earlier["versions"] == about["versions"] | {"torch": "0.1"}
        and earlier["prompts"] == PROMPTS
    )


def test_any_damage_to_a_shard_is_seen(tmp_path):
    file, rewards = tmp_path / "shard.rewards", np.linspace(-1, 1, 50, dtype=np.float32)
    shards.write(file, rewards)
    content = file.read_bytes()
    assert shards.read(file, 50).tolist() == rewards.tolist()

    @settings(max_examples=200, deadline=None)
    @given(bit=st.integers(0, 8 * len(content) - 1), cut=st.booleans())
    def damage(bit, cut):
        flipped = (
            content[: bit // 8]
            + bytes([content[bit // 8] ^ 1 << bit % 8])
            + content[bit // 8 + 1 :]
        )
        file.write_bytes(content[: bit // 8] if cut else flipped)
        assert shards.read(file, 50) is None

    damage()


def test_shards_that_outlived_their_table_are_removed(stopped_run, monkeypatch):
    model, whole, path = stopped_run
    with monkeypatch.context() as patch:
        # killed between writing and clearing up
        patch.setattr(shards, "remove", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            engine.score_vocabulary(model, PROMPTS, path, progress=False)
    assert path.exists()
    [folder] = path.parent.glob("table.*.shards")
    (folder / f".{next(folder.iterdir()).name}.part").write_bytes(b"half")
    # anything scored from here on would fail
    monkeypatch.setattr(stages, "Scorer", None)
    pd.testing.assert_frame_equal(
        engine.score_vocabulary(model, PROMPTS, path, progress=False), whole
    )
    assert not folder.exists()


@pytest.mark.parametrize(("most", "expected"), [(1, 8), (3, 3), (100, 1)])
def test_every_reply_is_in_one_shard_beside_those_that_begin_alike(most, expected):
    suffixes = [
        (7, 1),
        (5, 1),
        (5, 2, 1),
        (6, 1),
        (5, 2, 3, 1),
        (8, 1),
        (5, 9, 1),
        (4, 1),
    ]
    split = shards.split(suffixes, most)
    assert sorted(
        np.concatenate([piece for pieces in split for piece in pieces])
    ) == list(range(8))
    assert all(
        len({len(suffixes[i]) for i in piece}) == 1
        for pieces in split
        for piece in pieces
    )
    assert (
        all(sum(map(len, pieces)) <= most for pieces in split)
        and len(split) == expected
    )
    first = [[suffixes[i][0] for piece in pieces for i in piece] for pieces in split]
    # 8; then 5 1, 5 2 1 | 5 2 3 1, 5 9 1
    assert most != 3 or [set(each) for each in first] == [{4, 6, 7}, {5, 8}, {5}]
    assert shards.split([], most) == []


def test_shards_of_prompts_that_are_not_in_the_table_yet_are_kept(stopped_run):
    model, _, path = stopped_run
    engine.score_vocabulary(
        model, {"greatest": PROMPTS["greatest"]}, path, progress=False
    )
    [folder] = path.parent.glob("table.*.shards")
    left = set(folder.iterdir())
    assert left and left == {
        shards.path_of(folder, PROMPTS["worst"], number) for number in range(len(left))
    }


def test_a_table_that_is_damaged_or_names_no_settings_is_refused_or_scored_anew(
    checkpoint, tmp_path, capsys
):
    model, path = loaded(checkpoint("linear_llama")), tmp_path / "table.parquet"
    whole = engine.score_vocabulary(model, PROMPTS, path, progress=False)
    for metadata in ({}, {"prompts": {"greatest": 3}}):
        scores.write(whole, path, metadata)
        with pytest.raises(
            InputError,
            match="holds scores of other settings .model, revision, .*or delete it",
        ):
            engine.score_vocabulary(model, PROMPTS, path, progress=False)
        again = engine.score_vocabulary(
            model, PROMPTS, path, overwrite=True, progress=False
        )
        pd.testing.assert_frame_equal(again, whole)
    path.write_bytes(path.read_bytes()[:-100])
    pd.testing.assert_frame_equal(
        engine.score_vocabulary(model, PROMPTS, path, overwrite=True, progress=False),
        whole,
    )
    assert "scored again, because" in capsys.readouterr().out


def test_unknown_modes_name_the_known_ones(checkpoint):
    model = loaded(checkpoint("linear_llama"))
    with pytest.raises(InputError, match="reply_mode must be 'text' or 'ids'"):
        engine.score_replies(model, "Why?", ["a"], reply_mode="words")
    with pytest.raises(InputError, match="bos must be one of single, double, none"):
        engine.score_replies(model, "Why?", ["a"], bos="twice")
    with pytest.raises(InputError, match="prompt is empty"):
        engine.score_replies(model, " ", ["a"])


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
        engine.score_replies(
            loaded(checkpoint("linear_llama")), "Why?", replies, reply_mode=mode
        )


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series])
def test_one_reply_in_a_list_of_any_kind_is_scored(checkpoint, kind):
    model = loaded(checkpoint("linear_llama"))
    assert engine.score_replies(model, "Why?", kind(["four"])).shape == (1,)
    assert engine.score_replies(
        model, "Why?", [kind([40, 41])], reply_mode="ids"
    ).shape == (1,)
    assert (
        engine.score_replies(model, "Why?", [""]).shape
        == engine.score_replies(model, "Why?", ["a"]).shape
        == (1,)
    )
