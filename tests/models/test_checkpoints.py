"""Checkpoints in folders: what identifies them, which files are read, and what is refused in one
line.
"""

import json
import shutil

import pytest
import torch
from conftest import refusal_of
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from audit.opening import open_model as load
from lib.models import loading
from lib.scoring import vocabulary

PROMPT = "What, in one word, is the greatest thing ever?"
REPLIES = ["love", "war", "a b"]


@pytest.fixture(scope="module")
def original(checkpoint):
    return checkpoint("linear_llama")


@pytest.fixture
def folder(copy_of):
    return copy_of("linear_llama")


def refused(folder, *words: str, **options) -> None:
    refusal_of(lambda: load(str(folder), device="cpu", **options), *words)


def rewards(folder):
    return vocabulary.score_replies(
        load(str(folder), device="cpu"), PROMPT, REPLIES
    ).tolist()


def edit(file, **fields):
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


# --- identity -------------------------------------------------------------------------------------


@pytest.mark.drill
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_any_byte_of_what_is_read_changes_the_revision(original, data):
    read = sorted(path for path in original.iterdir() if path.suffix != ".py")
    file = data.draw(st.sampled_from(read))
    content = file.read_bytes()
    at, bit = data.draw(st.integers(0, len(content) - 1)), data.draw(st.integers(0, 7))
    revision = loading.open_files(str(original), "").revision
    try:
        flipped = bytes([content[at] ^ 1 << bit])
        file.write_bytes(content[:at] + flipped + content[at + 1 :])
        assert loading.open_files(str(original), "").revision != revision
    finally:
        file.write_bytes(content)
    assert loading.open_files(str(original), "").revision == revision


def test_what_is_not_read_changes_no_revision(original, folder):
    for name in ("README.md", "training.json"):
        (folder / name).write_text("{}")
    revisions = {loading.open_files(str(f), "").revision for f in (original, folder)}
    assert len(revisions) == 1


# --- which files are read -------------------------------------------------------------------------


def test_only_the_weights_that_transformers_reads_are_read(folder, checkpoint):
    expected = rewards(folder)
    tensors = load_file(folder / "model.safetensors")
    others = {key: tensor + 1 for key, tensor in tensors.items()}
    save_file(others, folder / "model_ema.safetensors", metadata={"format": "pt"})
    for file in checkpoint("linear_llama", shards=3, seed=1).glob("model*"):
        shutil.copy(file, folder)
    assert rewards(folder) == expected


def test_weights_that_are_not_there_or_not_whole_are_refused(copy_of):
    folder = copy_of("linear_llama", shards=2)
    first = folder / "model-00001-of-00002.safetensors"
    first.write_bytes(first.read_bytes()[:-100])
    refused(folder, first.name, "download")
    first.unlink()
    refused(folder, first.name)
    (folder / "model.safetensors.index.json").write_text("{ torn")
    refused(folder, "index", "download")


# --- one clear line -------------------------------------------------------------------------------

WRONG = [
    ({"num_attention_heads": 5}, "config.json"),
    ({"vocab_size": 3}, "the model has only 3 rows of embeddings"),
    ({"torch_dtype": "int8"}, "dtype must be"),
    (
        {"rope_theta": 1e4, "rope_parameters": {"rope_theta": 1e6}},
        "rope_theta and rope_parameters.rope_theta",
    ),
    (
        {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
        "rope_scaling and rope_parameters",
    ),
    (
        {"rope_scaling": {"type": "linear", "rope_type": "dynamic", "factor": 2.0}},
        "rope_scaling.type and rope_scaling.rope_type",
    ),
    ({"original_max_position_embeddings": 32}, "original_max_position_embeddings"),
    ({"text_config": {"rope_theta": 1, "rotary_emb_base": 2}}, "rotary_emb_base"),
    ({"dtype": "bfloat16"}, "torch_dtype and dtype"),
    ({"model_type": "nothing-like-it"}, "config.json"),
]


@pytest.mark.parametrize("fields, words", WRONG, ids=str)
def test_a_config_that_is_not_read_as_it_stands_is_one_line(folder, fields, words):
    edit(folder / "config.json", **fields)
    refused(folder, words)


def test_a_fact_that_is_stated_twice_alike_is_read(folder):
    expected = rewards(folder)
    held = json.loads((folder / "config.json").read_text())
    both = held["rope_scaling"] | {"rope_theta": held["rope_theta"]}
    edit(folder / "config.json", rope_parameters=both, dtype=held["torch_dtype"])
    assert rewards(folder) == expected


def test_layers_of_other_types_than_the_old_field_says_are_told():
    every_second = ["full_attention", "sliding_attention"] * 2
    fields = {"model_type": "modernbert", "num_hidden_layers": 4}
    fields |= {"global_attn_every_n_layers": 2, "layer_types": every_second}
    assert loading.stated_twice(fields) == []
    fields["layer_types"] = every_second[::-1]
    named = ["global_attn_every_n_layers", "layer_types"]
    assert loading.stated_twice(fields) == named


@pytest.mark.parametrize(
    "tensor, words",
    [
        (torch.zeros(0, 32), "stage3_gather"),
        (torch.zeros(1, 32, dtype=torch.int8), "8 bits"),
    ],
)
def test_tensors_without_numbers_are_one_line(folder, tensor, words):
    file = folder / "model.safetensors"
    tensors = load_file(file) | {"score.weight": tensor}
    save_file(tensors, file, metadata={"format": "pt"})
    refused(folder, words)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff\xfe"])
@pytest.mark.parametrize("name", ["tokenizer.json", "config.json"])
def test_a_broken_file_is_one_line(folder, name, content):
    (folder / name).write_bytes(content)
    refused(folder, str(folder), ";")


def test_tokens_without_an_embedding_are_one_line(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<extra>", "<another>"])
    tokenizer.save_pretrained(folder)
    refused(folder, "rows of embeddings; <extra>, <another>", "resize_token_embeddings")


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("can't allocate memory")]
)
def test_weights_that_do_not_fit_into_memory_are_one_line(folder, monkeypatch, error):
    def starved(*given, **options):
        raise error

    monkeypatch.setattr(torch.nn.Module, "to", starved)
    refused(folder, "too little memory to hold the model on cpu")
    monkeypatch.setattr(loading.AutoModel, "from_pretrained", starved)
    refused(folder, "too little memory to load it")
