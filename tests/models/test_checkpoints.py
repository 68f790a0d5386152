"""Checkpoints in folders: what identifies them, which files are read, and what is refused in one
line.
"""

import json
import os
import shutil

import pytest
import torch
from conftest import refusal_of
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from audit.opening import open_model as load
from lib import InputError
from lib.models import checkpoints, files, tokenizers
from lib.scoring import vocabulary

PROMPT = "What, in one word, is the greatest thing ever?"
REPLIES = ["love", "war", "a b"]


@pytest.fixture(scope="module")
def original(checkpoint):
    return checkpoint("linear_llama")


@pytest.fixture(scope="module")
def sharded(checkpoint):
    return checkpoint("linear_llama", shards=3)


@pytest.fixture
def folder(copy_of):
    return copy_of("linear_llama")


def refused(folder, *words: str, **options) -> None:
    refusal_of(lambda: load(str(folder), device="cpu", **options), *words)


def rewards(folder):
    return vocabulary.score_replies(
        load(str(folder), device="cpu"), PROMPT, REPLIES
    ).tolist()


# --- identity -------------------------------------------------------------------------------------


def edit(file, **fields):
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_byte_of_what_is_read_changes_the_revision(original, data):
    file = data.draw(
        st.sampled_from(
            sorted(path for path in original.iterdir() if path.suffix != ".py")
        )
    )
    content = file.read_bytes()
    at, bit = data.draw(st.integers(0, len(content) - 1)), data.draw(st.integers(0, 7))
    revision = files.open_files(str(original), "").revision
    try:
        file.write_bytes(
            content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
        )
        assert files.open_files(str(original), "").revision != revision
    finally:
        file.write_bytes(content)
    assert files.open_files(str(original), "").revision == revision


@pytest.mark.drill
def test_merges_are_not_dropped_at_random_and_that_is_told(folder, capsys):
    def cuts(tokenizer):
        return {tuple(tokenizer(PROMPT)["input_ids"]) for _ in range(20)}

    plain = cuts(tokenizers.tokenizer_of(files.files_of(folder)))
    edit(
        folder / "tokenizer.json",
        model=json.loads((folder / "tokenizer.json").read_text())["model"]
        | {"dropout": 0.5},
    )
    assert len(cuts(AutoTokenizer.from_pretrained(folder))) > 1
    assert cuts(tokenizers.tokenizer_of(files.files_of(folder))) == plain
    assert "its tokenizer drops merges at random (0.5)" in "".join(capsys.readouterr())


# --- which files are read -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["model_ema.safetensors", "model-00001-of-00002.safetensors"]
)
def test_weights_that_transformers_does_not_read_are_told_and_not_read(
    folder, capsys, name
):
    expected = rewards(folder)
    tensors = load_file(folder / "model.safetensors")
    save_file(
        {key: tensor + 1 for key, tensor in tensors.items()},
        folder / name,
        metadata={"format": "pt"},
    )
    assert rewards(folder) == expected
    assert f"{name} is not part of the checkpoint, and is not read" in "".join(
        capsys.readouterr()
    )


def test_an_index_beside_whole_weights_is_not_read(folder, sharded):
    expected = rewards(folder)
    for file in sharded.glob("model*"):
        shutil.copy(file, folder)
    assert rewards(folder) == expected


def test_weights_under_another_name_are_refused(folder):
    (folder / "model.safetensors").rename(folder / "weights.safetensors")
    refused(folder, "weights.safetensors", "neither model.safetensors nor its index")


def test_a_tensor_that_two_files_hold_is_refused(sharded, tmp_path):
    folder = shutil.copytree(sharded, tmp_path / "model")
    first, second, _ = sorted(folder.glob("*.safetensors"))
    one, two = load_file(first), load_file(second)
    name = next(iter(two))
    save_file(
        one | {name: torch.zeros_like(two[name])}, first, metadata={"format": "pt"}
    )
    refused(folder, "two files hold the tensor", name)


@pytest.mark.parametrize(
    "content",
    [
        "{ torn",
        "[]",
        '{"weight_map": {"a": 1}}',
        '{"weight_map": {"a": "../model.safetensors"}}',
        "[" * 100_000,
    ],
    ids=lambda content: content[:30],
)
def test_a_broken_index_is_one_line(sharded, tmp_path, content):
    folder = shutil.copytree(sharded, tmp_path / "model")
    (folder / "model.safetensors.index.json").write_bytes(content.encode("latin-1"))
    refused(folder, "model.safetensors.index.json", "download it again")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "new.json"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(folder, name):
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    refused(folder, f"{name} cannot be read (OSError: it is not a file)")


# --- one clear line -------------------------------------------------------------------------------

WRONG = [
    ({"num_attention_heads": 5}, "multiple of the number of attention heads"),
    ({"hidden_size": "x"}, "hidden_size"),
    ({"vocab_size": -1}, "vocab_size is -1"),
    ({"vocab_size": 3}, "the model has only 3 rows of embeddings"),
    ({"num_hidden_layers": 10**7}, "num_hidden_layers is 10000000"),
    ({"hidden_act": "nothing"}, "KeyError: 'nothing'"),
    ({"torch_dtype": "int8"}, "dtype must be"),
    ({"rope_scaling": {"rope_type": "nope", "factor": 2.0}}, "nope"),
    ({"architectures": [3]}, "architectures is [3]"),
    ({"sliding_window": "many"}, "sliding_window is 'many'; write a number of tokens"),
    ({"sliding_window": 0}, "sliding_window is 0; write a number"),
    ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "is quantised"),
    ({"transformers_weights": "other.safetensors"}, "model.safetensors"),
    ({"model_type": "nothing-like-it"}, "config.json"),
]


@pytest.mark.parametrize(
    "fields, words",
    WRONG,
    ids=lambda value: "" if isinstance(value, str) else str(value)[:40],
)
def test_a_config_that_describes_no_model_is_one_line(folder, fields, words):
    edit(folder / "config.json", **fields)
    refused(folder, words)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 50) | st.text(max_size=3),
    lambda inside: (
        st.lists(inside, max_size=2)
        | st.dictionaries(st.text(max_size=3), inside, max_size=2)
    ),
    max_leaves=3,
)
FIELDS = [
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
    "hidden_act",
]
FIELDS += [
    "rope_scaling",
    "rms_norm_eps",
    "pad_token_id",
    "architectures",
    "model_type",
    "num_labels",
    "torch_dtype",
]
FIELDS += [
    "sliding_window",
    "attn_logit_softcapping",
    "bos_token_id",
    "type_vocab_size",
]


@settings(max_examples=40, deadline=None)
@given(field=st.sampled_from(FIELDS), value=JSON)
def test_no_field_of_a_config_is_a_traceback(original, field, value):
    file = original / "config.json"
    content = file.read_bytes()
    try:
        edit(file, **{field: value})
        vocabulary.score_replies(
            load(str(original), device="cpu"), "Why?", ["love", "war"]
        )
    except InputError as error:
        assert "\n" not in str(error)
    finally:
        file.write_bytes(content)


@pytest.mark.parametrize(
    "field",
    ["num_objectives", "num_quantiles", "gating_hidden_dim", "gating_temperature"],
)
def test_no_field_of_a_head_is_a_traceback(copy_of, field):
    folder = copy_of("qrm_gemma")
    edit(folder / "config.json", **{field: [1]})
    refused(folder, "no model can be built from config.json")


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{ torn", b"\xff\xfe", b'{"model": {"type": "Nope"}}']
)
@pytest.mark.parametrize("name", ["tokenizer.json", "config.json"])
def test_a_broken_file_is_one_line(folder, name, content):
    (folder / name).write_bytes(content)
    refused(folder, str(folder), ";")


def test_tokens_without_an_embedding_are_one_line(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = len(tokenizer)
    tokenizer.add_tokens(["<extra>", "<another>"])
    tokenizer.save_pretrained(folder)
    refused(
        folder,
        f"ids up to {rows + 1}, but the model has only {rows} rows of embeddings",
    )


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        torch.OutOfMemoryError("CUDA"),
    ],
)
def test_weights_that_do_not_fit_into_memory_are_one_line(folder, monkeypatch, error):
    def starved(*given, **options):
        raise error

    monkeypatch.setattr(checkpoints.PreTrainedModel, "from_pretrained", starved)
    refused(folder, "does not fit into memory: its weights take 0.0 GB")
    monkeypatch.undo()
    monkeypatch.setattr(torch.nn.Module, "to", starved)
    refused(folder, "the model does not fit on cpu: it takes 0.0 GB")
