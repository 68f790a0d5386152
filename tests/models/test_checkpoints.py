"""Checkpoints in folders: what identifies them, which files are read, and what is refused in one line."""

import json
import os
import shutil

import pytest
import tiny
import torch
from conftest import refusal_of
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from lib import InputError
from lib.models import checkpoints, tokenizers
from lib.models.reward_models import load
from lib.scoring import engine

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
    return engine.score_replies(load(str(folder), device="cpu"), PROMPT, REPLIES).tolist()


# --- identity -----------------------------------------------------------------------------------------------------


def edit(file, **fields):
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


EDITS = {
    "rope_theta": lambda f: edit(f / "config.json", rope_theta=10.0),
    "rms_norm_eps": lambda f: edit(f / "config.json", rms_norm_eps=0.5),
    "normaliser": lambda f: edit(f / "tokenizer.json", normalizer={"type": "Lowercase"}),
    "bos_token": lambda f: edit(f / "tokenizer_config.json", bos_token="<|end_of_text|>"),
    "template": lambda f: (f / "chat_template.jinja").write_text(tiny.TEMPLATES["llama3"]),
    "other template": lambda f: (
        (f / "additional_chat_templates").mkdir(),
        (f / "additional_chat_templates" / "rag.jinja").write_text("{{ 1 }}"),
    ),
}


@pytest.mark.parametrize("change", EDITS)
def test_an_edited_folder_is_another_model_and_its_table_is_not_kept(folder, tmp_path, change):
    prompts, path = {"greatest": PROMPT}, tmp_path / "table.parquet"
    before = load(str(folder), device="cpu")
    engine.score_vocabulary(before, prompts, path, token_ids=[5, 6], progress=False)
    EDITS[change](folder)
    after = load(str(folder), device="cpu")
    assert after.revision != before.revision
    with pytest.raises(InputError, match="other settings .*revision"):
        engine.score_vocabulary(after, prompts, path, token_ids=[5, 6], progress=False)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_byte_of_what_is_read_changes_the_revision(original, data):
    file = data.draw(st.sampled_from(sorted(path for path in original.iterdir() if path.suffix != ".py")))
    content = file.read_bytes()
    at, bit = data.draw(st.integers(0, len(content) - 1)), data.draw(st.integers(0, 7))
    revision = checkpoints.open_files(str(original), "").revision
    try:
        file.write_bytes(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
        assert checkpoints.open_files(str(original), "").revision != revision
    finally:
        file.write_bytes(content)
    assert checkpoints.open_files(str(original), "").revision == revision


def cuts_of(folder):
    tokenizer = tokenizers.tokenizer_of(folder)
    return [tuple(tokenizer(PROMPT)["input_ids"]) for _ in range(20)]


@pytest.mark.drill
@pytest.mark.parametrize("dropout", [0.5, 1.0])
def test_merges_are_not_dropped_at_random_and_that_is_told(folder, capsys, dropout):
    plain = cuts_of(folder)
    assert not "".join(capsys.readouterr())
    file = folder / "tokenizer.json"
    state = json.loads(file.read_text())
    file.write_text(json.dumps(state | {"model": state["model"] | {"dropout": dropout}}))
    assert len({tuple(AutoTokenizer.from_pretrained(folder)(PROMPT)["input_ids"]) for _ in range(20)} | {plain[0]}) > 1
    assert cuts_of(folder) == plain
    assert f"its tokenizer drops merges at random ({dropout:g})" in "".join(capsys.readouterr())


# --- which files are read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model_ema.safetensors", "a.safetensors", "model-00001-of-00002.safetensors"])
def test_weights_that_transformers_does_not_read_are_told_and_not_read(folder, capsys, name):
    expected = rewards(folder)
    tensors = load_file(folder / "model.safetensors")
    save_file({key: tensor + 1 for key, tensor in tensors.items()}, folder / name, metadata={"format": "pt"})
    assert rewards(folder) == expected
    assert f"{name} is not part of the checkpoint, and is not read" in "".join(capsys.readouterr())


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
    save_file(one | {name: torch.zeros_like(two[name])}, first, metadata={"format": "pt"})
    refused(folder, "two files hold the tensor", name)


@pytest.mark.parametrize(
    "content",
    ["", "{ torn", "{}", "[]", "null", '{"weight_map": null}', '{"weight_map": {}}', '{"weight_map": {"a": 1}}']
    + ['{"weight_map": {"a": "../model.safetensors"}}', '{"weight_map": {"a": "model.bin"}}', "[" * 100_000, "\xff"],
    ids=lambda content: content[:30],
)
def test_a_broken_index_is_one_line(sharded, tmp_path, content):
    folder = shutil.copytree(sharded, tmp_path / "model")
    (folder / "model.safetensors.index.json").write_bytes(content.encode("latin-1"))
    refused(folder, "model.safetensors.index.json", "download it again")


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "chat_template.jinja", "model.safetensors", "new.json"]
)
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(folder, name):
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    refused(folder, f"{name} is not a file that can be read")


# --- one clear line -----------------------------------------------------------------------------------------------

WRONG = [
    ({"num_attention_heads": 5}, "multiple of the number of attention heads"),
    ({"num_attention_heads": 0}, "config.json"),
    ({"hidden_size": "x"}, "hidden_size"),
    ({"hidden_size": -1}, "config.json"),
    ({"vocab_size": -1}, "vocab_size is -1"),
    ({"vocab_size": 3}, "no model can be built from config.json"),
    ({"num_hidden_layers": 10**7}, "num_hidden_layers is 10000000"),
    ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
    ({"hidden_act": "nothing"}, "KeyError: 'nothing'"),
    ({"hidden_act": 3}, "hidden_act"),
    ({"torch_dtype": "float7"}, "float7"),
    ({"torch_dtype": "int8"}, "dtype must be"),
    ({"rope_scaling": {"rope_type": "nope", "factor": 2.0}}, "nope"),
    ({"architectures": [3]}, "architectures is [3]"),
    ({"architectures": 3}, "architectures is 3"),
    ({"architectures": {"a": 1}}, "architectures is {'a': 1}"),
    ({"sliding_window": "many"}, "sliding_window is 'many'; write a number of tokens"),
    ({"sliding_window": [8]}, "sliding_window is [8]"),
    ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "is quantised"),
    ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, "is quantised"),
    ({"quantization_config": 3}, "config.json"),
    ({"transformers_weights": "other.safetensors"}, "model.safetensors"),
]


@pytest.mark.parametrize("fields, words", WRONG, ids=lambda value: "" if isinstance(value, str) else str(value)[:40])
def test_a_config_that_describes_no_model_is_one_line(folder, fields, words):
    edit(folder / "config.json", **fields)
    refused(folder, words)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 50) | st.text(max_size=3),
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(st.text(max_size=3), inside, max_size=2),
    max_leaves=3,
)
FIELDS = ["hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size", "hidden_act"]
FIELDS += ["rope_scaling", "rms_norm_eps", "pad_token_id", "architectures", "model_type", "num_labels", "torch_dtype"]
FIELDS += ["sliding_window", "attn_logit_softcapping", "bos_token_id", "type_vocab_size"]
OF_HEADS = ["num_objectives", "num_quantiles", "gating_hidden_dim", "gating_n_hidden", "gating_temperature"]


@settings(max_examples=40, deadline=None)
@given(field=st.sampled_from(FIELDS), value=JSON)
def test_no_field_of_a_config_is_a_traceback(original, field, value):
    file = original / "config.json"
    content = file.read_bytes()
    try:
        edit(file, **{field: value})
        engine.score_replies(load(str(original), device="cpu"), "Why?", ["love", "war"])
    except InputError as error:
        assert "\n" not in str(error)
    finally:
        file.write_bytes(content)


@pytest.mark.parametrize("field", OF_HEADS)
def test_no_field_of_a_head_is_a_traceback(tmp_path, field):
    folder = tiny.make_checkpoint(tmp_path, "qrm_gemma")
    for value in ("many", [1], {"a": 1}) + ((-1, 1.5) if field == "num_quantiles" else ()):
        edit(folder / "config.json", **{field: value})
        refused(folder, "no model can be built from config.json")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b"{ torn", b"\xff\xfe", b'{"model": {"type": "Nope"}}']
)
@pytest.mark.parametrize("name", ["tokenizer.json", "config.json"])
def test_a_broken_file_is_one_line(folder, name, content):
    (folder / name).write_bytes(content)
    refused(folder, str(folder), ";")


@pytest.mark.parametrize("name", ["XLNetTokenizer", 3])
def test_a_tokenizer_class_that_cannot_be_opened_is_one_line(folder, name):
    edit(folder / "tokenizer_config.json", tokenizer_class=name)
    refused(folder, "no tokenizer that transformers can open")


def test_tokens_without_an_embedding_are_one_line(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = len(tokenizer)
    tokenizer.add_tokens(["<extra>", "<another>"])
    tokenizer.save_pretrained(folder)
    refused(folder, f"ids up to {rows + 1}, but the model has only {rows} rows of embeddings")


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory"), torch.OutOfMemoryError("CUDA")]
)
def test_weights_that_do_not_fit_into_memory_are_one_line(folder, monkeypatch, error):
    def starved(*given, **options):
        raise error

    monkeypatch.setattr(checkpoints.PreTrainedModel, "from_pretrained", starved)
    refused(folder, "does not fit into memory: its weights take 0.0 GB")
    monkeypatch.undo()
    monkeypatch.setattr(torch.nn.Module, "to", starved)
    refused(folder, "the model does not fit on cpu: it takes 0.0 GB")
