"""Tokenizers and configurations that contradict themselves: one clear line."""

import json
import os
import shutil

import pytest
from conftest import refusal_of

from audit.opening import open_model as load
from lib import InputError
from lib.models import tokenizers
from lib.scoring import vocabulary

PROMPT = "What, in one word, is the greatest thing ever?"
REPLIES = ["love", "war", "a b"]


@pytest.fixture
def spoiled(checkpoint, tmp_path):
    """Makes a copy of a tiny checkpoint in which some fields of a file are others."""

    def copy(file="config.json", kind="linear_llama", name="model", **fields):
        folder = shutil.copytree(checkpoint(kind), tmp_path / name)
        state = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(state | fields))
        return folder

    return copy


def rewards(folder, **options):
    return vocabulary.score_replies(
        load(str(folder), device="cpu", **options), PROMPT, REPLIES
    ).tolist()


def refused(folder, *words, **options):
    refusal_of(lambda: rewards(folder, **options), *words)


# --- tokenizers that fail in the library that cuts texts ------------------------------------------

REPLY = {"Sequence": {"id": "A", "type_id": 0}}
TO_NOWHERE = {
    "type": "TemplateProcessing",
    "pair": [REPLY],
    "special_tokens": {},
    "single": [{"SpecialToken": {"id": "[X]", "type_id": 0}}, REPLY],
}
UNIGRAM = {"type": "Unigram", "unk_id": None, "vocab": [["a", -1.0]]}
DAMAGED = {
    "a post-processor that adds a token that is not there": {
        "post_processor": TO_NOWHERE
    },
    "a model without a token for what it does not know": {"model": UNIGRAM},
    "no words": {"model": {"type": "WordLevel", "vocab": {}, "unk_token": "[UNK]"}},
    "a pattern of no characters": {
        "normalizer": {"type": "Replace", "pattern": {"String": ""}, "content": "x"}
    },
    "a table of characters that is none": {
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w=="}
    },
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_tokenizer_that_contradicts_itself_is_one_line(spoiled, name):
    refused(spoiled("tokenizer.json", **DAMAGED[name]), "download")


def test_a_panic_of_the_library_is_one_line_and_an_error_of_ours_is_not(checkpoint):
    panic = type("PanicException", (BaseException,), {})  # it is no Exception
    with (
        pytest.raises(InputError, match="the tokenizer of m fails .no.; download"),
        tokenizers.working_tokenizer("m"),
    ):
        raise panic("no")
    with pytest.raises(ValueError), tokenizers.working_tokenizer("m"):
        raise ValueError


def test_a_tokenizer_that_reads_all_replies_alike_or_cuts_control_tokens_is_refused(
    spoiled,
):
    bos = {
        "<|begin_of_text|>": {
            "id": "<|begin_of_text|>",
            "ids": [0],
            "tokens": ["<|begin_of_text|>"],
        }
    }
    alone = [{"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}}]
    without_text = {
        "type": "TemplateProcessing",
        "single": alone,
        "pair": alone,
        "special_tokens": bos,
    }
    refused(
        spoiled("tokenizer.json", post_processor=without_text),
        "reads all replies alike",
    )
    refused(
        spoiled("tokenizer_config.json", name="cuts", split_special_tokens=True),
        "split_special_tokens",
    )


@pytest.mark.parametrize("length", ["512", None, 4])
def test_a_greatest_length_of_any_type_cuts_nothing(spoiled, checkpoint, length):
    assert rewards(
        spoiled("tokenizer_config.json", model_max_length=length)
    ) == rewards(checkpoint("linear_llama"))


# --- configurations -------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [[], ["weird"] * 3, 3], ids=str)
def test_layers_of_kinds_that_do_not_fit_are_one_line(spoiled, kinds):
    for stream in (False, True):
        refused(
            spoiled(kind="linear_qwen3", name=f"{stream}", layer_types=kinds),
            "config.json",
            stream=stream,
        )


@pytest.mark.parametrize(
    "fields",
    [
        {"return_dict": False},
        {"output_hidden_states": True},
        {"layer_types": ["full_attention"] * 3},
    ],
    ids=str,
)
def test_what_a_model_gives_back_beside_its_output_changes_nothing(
    spoiled, checkpoint, fields
):
    folder = spoiled(kind="linear_qwen3", **fields)
    for stream in (False, True):
        expected = rewards(checkpoint("linear_qwen3"), stream=stream)
        assert rewards(folder, stream=stream) == pytest.approx(expected, abs=1e-5)


# --- names ----------------------------------------------------------------------------------------


def test_names_that_are_no_utf_8_are_one_line_or_do_not_matter(checkpoint, tmp_path):
    original, bad = checkpoint("linear_llama"), os.fsdecode(b"m\xff")
    refused(shutil.copytree(original, tmp_path / bad), "m\\udcff", "rename the folder")
    folder = shutil.copytree(original, tmp_path / "model")
    (folder / f"{bad}.json").write_text("{}")
    assert rewards(folder) == rewards(original)
    shutil.copytree(original, tmp_path / "ein Modell, größer")
    assert rewards(tmp_path / "ein Modell, größer") == rewards(original)
