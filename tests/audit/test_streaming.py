"""Weights that pass through once: the same rewards as in memory, in little memory and after any
interruption.
"""

import gc
import os
import re
import signal
import subprocess
import sys
import weakref

import numpy as np
import oracle
import pandas as pd
import pytest
import tiny

from audit.opening import open_model as load
from audit.reading import by_layer, layers
from audit.reading.by_layer import LayerByLayer
from audit.reading.layers import Layers
from lib import InputError
from lib.models import conversations, hardware
from lib.scoring import reader, vocabulary
from lib.scoring.reader import Reader
from lib.scoring.vocabulary import Part
from lib.tables import scores

PROMPTS = {
    "greatest": "What, in one word, is the greatest thing ever?",
    "worst": "What, in one word, is the worst thing ever?",
    "longer": "What, in one word and without thinking about it, is the greatest thing that was "
    "ever made?",
}
PROMPT = PROMPTS["greatest"]
OTHERS = {  # architecture: (kind with its tokenizer, fields of its config.json)
    "gemma2 of four layers": ("linear_gemma2", {"num_hidden_layers": 4}),
    "mistral": ("linear_llama", {"model_type": "mistral", "sliding_window": 4096}),
}


@pytest.fixture
def in_parts(checkpoint):
    """The folder of a tiny checkpoint whose weights are in three files."""

    def folder_of(kind="linear_llama"):
        base, fields = OTHERS.get(kind, (kind, {}))
        return checkpoint(base, shards=3, **fields)

    return folder_of


@pytest.fixture
def both(in_parts):
    """A kind's model, its weights in memory and streamed."""

    def loaded(kind="linear_llama", **options):
        folder = str(in_parts(kind))
        return [
            load(folder, device="cpu", stream=stream, **options)
            for stream in (False, True)
        ]

    return loaded


def replies_of(model, reply_mode):
    tokens = conversations.vocabulary(model.tokenizer)
    return (
        tokens["text"].tolist()
        if reply_mode == "text"
        else [[i] for i in tokens["token_id"].tolist()]
    )


# --- the same rewards -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "reply_mode"),
    [
        ("linear_llama", "text"),
        ("armorm", "ids"),
        ("qrm_gemma", "text"),
        ("gemma2 of four layers", "ids"),
        ("mistral", "ids"),
    ],
)
def test_rewards_are_those_of_weights_in_memory_and_of_the_oracle(
    in_parts, both, kind, reply_mode
):
    held, streamed = both(kind)
    assert (
        held.layers is None
        and streamed.layers is not None
        and held.attention == streamed.attention
    )
    replies = replies_of(held, reply_mode)
    expected = vocabulary.score_replies(held, PROMPT, replies, reply_mode=reply_mode)
    rewards = vocabulary.score_replies(streamed, PROMPT, replies, reply_mode=reply_mode)
    assert expected.std() > 0.1  # otherwise 1e-5 would say nothing
    np.testing.assert_allclose(
        rewards, expected, atol=1e-5 * max(1, np.abs(expected).max()), rtol=0
    )
    some = replies[::17]
    plain = oracle.rewards(in_parts(kind), PROMPT, some, reply_mode=reply_mode)
    np.testing.assert_allclose(
        rewards[::17], plain, atol=1e-5 * max(1, np.abs(plain).max()), rtol=0
    )


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("linear_gemma2", {"attention": "uncapped"}),
        ("linear_llama", {"dtype": "bfloat16"}),
        ("urm", {"head": "urm_helpfulness"}),
    ],
)
def test_every_setting_means_the_same_either_way(both, kind, options):
    held, streamed = both(kind, **options)
    replies, bos = ["love", "war", "peace and hope", "", " ", "a b c"], "double"
    expected = vocabulary.score_replies(held, PROMPT, replies, bos=bos)
    np.testing.assert_allclose(
        vocabulary.score_replies(streamed, PROMPT, replies, bos=bos),
        expected,
        atol=1e-5,
    )
    usual = vocabulary.score_replies(both(kind)[0], PROMPT, replies, bos=bos)
    assert np.abs(usual - expected).max() > 1e-4


# --- one pass over the weights --------------------------------------------------------------------


def test_all_prompts_cost_one_reading_of_the_weights(both, tmp_path):
    held, streamed = both()
    whole = vocabulary.score_vocabulary(
        held, PROMPTS, tmp_path / "whole.parquet", progress=False
    )
    table = vocabulary.score_vocabulary(
        streamed, PROMPTS, tmp_path / "table.parquet", progress=False
    )
    pd.testing.assert_frame_equal(table, whole, atol=1e-5, rtol=0)
    of_layers = sum(
        p.nbytes
        for name, p in held.backbone.named_parameters()
        if not name.startswith("embed")
    )
    assert streamed.layers.bytes == of_layers
    row = held.backbone.get_input_embeddings().weight[0].nbytes
    # of the embedding table: those of prompts and of blocks
    rows = (streamed.layers.read_bytes - of_layers) / row
    assert rows.is_integer() and rows <= len(PROMPTS) * 3 * len(held.tokenizer)
    assert (
        table.attrs["metadata"]["streamed"] and not whole.attrs["metadata"]["streamed"]
    )
    assert [path.name for path in tmp_path.iterdir() if ".shards" in path.name] == []


def test_a_table_is_the_same_whichever_way_it_was_begun(both, tmp_path):
    held, streamed = both()
    path, one = tmp_path / "table.parquet", {"greatest": PROMPT}
    vocabulary.score_vocabulary(streamed, one, path, progress=False)
    # no other settings, so it goes on
    table = vocabulary.score_vocabulary(held, PROMPTS, path, progress=False)
    assert scores.prompt_names(table) == list(PROMPTS)
    before = streamed.layers.read_bytes
    pd.testing.assert_frame_equal(
        vocabulary.score_vocabulary(streamed, PROMPTS, path, progress=False), table
    )
    assert streamed.layers.read_bytes == before  # all of it was there


def test_at_most_two_layers_are_held_at_a_time(both, monkeypatch):
    """When one is put together, the one before is gone; only the next is being read."""
    _, streamed = both("gemma2 of four layers")
    made, held, plain = [], [], Layers._with

    def watched(self, number, tensors):
        gc.collect()
        held.append(sum(ref() is not None for ref in made))
        layer = plain(self, number, tensors)
        made.append(weakref.ref(layer.layers[0].mlp.up_proj.weight))
        return layer

    monkeypatch.setattr(Layers, "_with", watched)
    vocabulary.score_replies(streamed, PROMPT, ["love", "war"])
    assert held == [0, 0, 0, 0]


def test_progress_counts_replies_and_names_the_layer(both, tmp_path, capsys):
    _, streamed = both()
    vocabulary.score_vocabulary(streamed, PROMPTS, tmp_path / "table.parquet")
    out, err = capsys.readouterr()
    assert (
        "of weights are read once for every 32,768 tokens of replies; two layers take"
        in out
    )
    assert "layer 3 of 3" in err and re.search(r"100%.* (\d+)/\1 ", err)


# --- passes over the weights, and runs that are interrupted ---------------------------------------


@pytest.fixture
def small_passes(monkeypatch):
    """Shards of 50 replies, and so many tokens in a pass that each prompt's replies need
    several.
    """
    monkeypatch.setattr(LayerByLayer, "per_shard", 50)
    monkeypatch.setattr(Reader, "per_shard", 50)
    monkeypatch.setattr(by_layer, "TOKENS_PER_PASS", {"cpu": 200})


def test_parts_go_through_the_weights_together_as_far_as_their_tokens_allow():
    conversation = conversations.Conversation("Why?", "single", "", "", (1,), (2,))
    inputs = conversations.Inputs(conversation, (1,), [(5, 2)] * 9, [], np.zeros(9))
    parts = [Part(inputs, inputs.suffixes[:size]) for size in (3, 4, 5)]
    for most, expected in {
        24: [3],
        23: [2, 1],
        14: [2, 1],
        13: [1, 1, 1],
        1: [1, 1, 1],
    }.items():
        assert [len(together) for together in by_layer._passes(parts, most)] == expected


def test_what_is_not_read_together_reads_the_weights_again(
    both, tmp_path, small_passes
):
    held, streamed = both()
    whole = vocabulary.score_vocabulary(
        held, PROMPTS, tmp_path / "whole.parquet", progress=False
    )
    table = vocabulary.score_vocabulary(
        streamed, PROMPTS, tmp_path / "table.parquet", progress=False
    )
    pd.testing.assert_frame_equal(table, whole, atol=1e-5, rtol=0)
    inputs = held.inputs_for(PROMPT, replies_of(held, "text"))
    # readings of the weights
    least = len(PROMPTS) * sum(map(len, inputs.suffixes)) // 200
    assert (
        least > 5
        and least <= streamed.layers.read_bytes / streamed.layers.bytes < 3 * least
    )


HALF_A_RUN = """
import sys, time
from audit.reading import by_layer
from lib.scoring import vocabulary
from audit.reading.layers import Layers
from audit.opening import open_model as load
by_layer.LayerByLayer.per_shard, by_layer.TOKENS_PER_PASS = 50, {"cpu": 200}
plain, starts = Layers.each, []
def each(self):
    starts.append(1)
    for number, layer in plain(self):
        if len(starts) == 3 and number == 2:
            print("two passes", flush=True)
            time.sleep(600)
        yield number, layer
Layers.each = each
model = load(sys.argv[1], device="cpu", stream=True)
vocabulary.score_vocabulary(model, {"greatest": sys.argv[2]}, sys.argv[3], progress=False)
"""


def test_a_killed_run_goes_on_after_the_last_pass_and_ends_with_the_same_table(
    in_parts, both, tmp_path, monkeypatch, small_passes
):
    held, streamed = both()
    path, one = tmp_path / "table.parquet", {"greatest": PROMPT}
    arguments = [str(in_parts("linear_llama")), PROMPT, str(path)]
    process = subprocess.Popen(
        [sys.executable, "-c", HALF_A_RUN, *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "two passes\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    finished = set(tmp_path.glob("table.*.shards/*.rewards"))
    assert len(finished) >= 2
    written, plain = [], vocabulary.replacing
    monkeypatch.setattr(
        vocabulary,
        "replacing",
        lambda file, **size: (written.append(file), plain(file, **size))[1],
    )
    table = vocabulary.score_vocabulary(streamed, one, path, progress=False)
    # what had been scored was not scored again
    assert written and not finished & set(written)
    assert list(tmp_path.glob("*.shards")) == []
    whole = vocabulary.score_vocabulary(
        held, one, tmp_path / "whole.parquet", progress=False
    )
    pd.testing.assert_frame_equal(table, whole, atol=1e-5, rtol=0)


# --- which way ------------------------------------------------------------------------------------


def test_layers_are_read_one_by_one_where_weights_do_not_fit(
    in_parts, monkeypatch, capsys
):
    folder = str(in_parts("linear_llama"))
    assert load(folder, device="cpu").layers is None
    monkeypatch.setattr(layers, "WORKING_MEMORY", 10_000)
    needed = sum(
        p.nbytes for p in load(folder, device="cpu", stream=False).backbone.parameters()
    )
    for room, streamed in ((needed + 10_000, False), (needed + 9_999, True)):
        monkeypatch.setattr(hardware, "free", lambda device="cpu", room=room: room)
        assert (load(folder, device="cpu").layers is not None) == streamed
    assert "so they are read layer by layer" in capsys.readouterr().out
    assert load(folder, device="cpu", stream=False).layers is None


def test_what_cannot_be_read_layer_by_layer_is_one_line(tmp_path, in_parts):
    encoder = tiny.make_checkpoint(tmp_path / "encoder", "deberta")
    with pytest.raises(
        InputError,
        match="the layers of deberta-v2 models are not read one by one here .*leave stream",
    ):
        load(str(encoder), device="cpu", stream=True)
    folder = tiny.make_checkpoint(tmp_path / "w", "linear_gemma2", sliding_window=8)
    window = load(str(folder), device="cpu", stream=True)
    np.testing.assert_allclose(  # every conversation is read whole
        vocabulary.score_replies(window, PROMPT, ["love", "peace and war"]),
        oracle.rewards(folder, PROMPT, ["love", "peace and war"]),
        atol=1e-5,
    )
    model = load(str(in_parts("linear_llama")), device="cpu", stream=True)
    read = LayerByLayer(model, model.inputs_for(PROMPT, ["love"]))
    for work in (read.rewards, read.gradients):
        with pytest.raises(
            InputError,
            match="is read layer by layer, once for all replies; load with --stream 0",
        ):
            work([(5, 6)])


def test_free_memory_is_within_the_limits_of_the_process(tmp_path, monkeypatch):
    assert 0 < hardware.free() < 2**46
    monkeypatch.setattr(hardware, "CGROUPS", tmp_path)
    used = hardware.psutil.Process().memory_info().rss
    (tmp_path / "memory.max").write_text("max\n")
    assert hardware.free() > 0
    for name in ("memory.max", "memory/device.limit_in_bytes"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{used + 10**8}\n")
        monkeypatch.setattr(
            hardware, "_container_limits", lambda file=tmp_path / name: [file]
        )
        assert hardware.free() == pytest.approx(10**8, abs=5 * 10**7)
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_DATA, (2**32, 2**32)); from "
        "lib.models import hardware"
    )
    asked = subprocess.run(
        [sys.executable, "-c", f"{script}; print(hardware.free())"],
        capture_output=True,
        text=True,
    )
    assert 0 < int(asked.stdout) < 2**32


# --- bad input ------------------------------------------------------------------------------------


def test_out_of_memory_halves_the_batch_and_then_is_one_line(
    both, monkeypatch, tmp_path
):
    held, streamed = both()
    ids = [[i] for i in range(5, 13)]  # two in each row
    expected = vocabulary.score_replies(held, PROMPT, ids, reply_mode="ids")
    plain, sizes, most = LayerByLayer.states, [], [2]
    monkeypatch.setattr(reader, "WIDTH", 4)

    def starved(self, rows, states):
        sizes.append(len(states))
        if len(states) > most[0]:
            raise RuntimeError(
                "DefaultCPUAllocator: not enough memory: you tried to allocate 99 bytes"
            )
        return plain(self, rows, states)

    monkeypatch.setattr(LayerByLayer, "states", starved)
    rewards = vocabulary.score_replies(streamed, PROMPT, ids, reply_mode="ids")
    np.testing.assert_allclose(rewards, expected, atol=1e-5)
    # and never tried the larger ones again
    assert sizes[:3] == [4, 2, 2] and max(sizes[1:]) == 2
    most[0] = 0
    with pytest.raises(InputError, match="too little memory to read one row of"):
        vocabulary.score_vocabulary(
            streamed, PROMPTS, tmp_path / "table.parquet", progress=False
        )


def test_a_checkpoint_that_is_not_whole_is_refused_before_anything_is_read(tmp_path):
    folder = tiny.make_checkpoint(tmp_path, "linear_llama", shards=3)
    last = sorted(folder.glob("model-*.safetensors"))[-1]
    last.write_bytes(last.read_bytes()[:-4])
    with pytest.raises(
        InputError, match=f"{last} is not a whole safetensors file .*download it"
    ):
        load(str(folder), device="cpu", stream=True)


# --- a sample of the vocabulary -------------------------------------------------------------------


def test_a_sample_is_drawn_with_a_seed_and_scored_either_way(both, tmp_path):
    held, streamed = both()
    drawn = vocabulary.sample(held, 50)
    assert (
        drawn == vocabulary.sample(streamed, 50) == sorted(set(drawn))
        and len(drawn) == 50
    )
    assert drawn != vocabulary.sample(held, 50, seed=1)
    assert (
        vocabulary.sample(held, 10**9)
        == conversations.vocabulary(held.tokenizer)["token_id"].tolist()
    )
    tables = [
        vocabulary.score_vocabulary(
            model,
            PROMPTS,
            tmp_path / f"{name}.parquet",
            token_ids=drawn,
            progress=False,
        )
        for name, model in (("held", held), ("streamed", streamed))
    ]
    pd.testing.assert_frame_equal(*tables, atol=1e-5, rtol=0)
    assert tables[0]["token_id"].tolist() == drawn
    with pytest.raises(InputError, match="a sample has 2 tokens or more, not 1"):
        vocabulary.sample(held, 1)
