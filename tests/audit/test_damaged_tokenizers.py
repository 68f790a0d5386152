"""Tokenizers and configurations that contradict themselves: one clear line."""

import json
import shutil

import pytest
from conftest import refusal_of

from audit.opening import open_model as load
from lib.scoring import vocabulary

PROMPT = "What, in one word, is the greatest thing ever?"
REPLIES = ["love", "war", "a b"]


@pytest.fixture
def spoiled(checkpoint, tmp_path):
    """Makes a copy of a tiny checkpoint in which some fields of a file are others."""

    def copy(file="config.json", kind="linear_llama", **fields):
        folder = shutil.copytree(checkpoint(kind), tmp_path / "model")
        state = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(state | fields))
        return folder

    return copy


def rewards(folder, **options):
    model = load(folder, device="cpu", **options)
    return vocabulary.score_replies(model, PROMPT, REPLIES).tolist()


REPLY = {"Sequence": {"id": "A", "type_id": 0}}
TO_NOWHERE = {
    "type": "TemplateProcessing",
    "pair": [REPLY],
    "special_tokens": {},
    "single": [{"SpecialToken": {"id": "[X]", "type_id": 0}}, REPLY],
}
DAMAGED = {
    "a post-processor that adds a token that is not there": {
        "post_processor": TO_NOWHERE
    },
    "no words": {"model": {"type": "WordLevel", "vocab": {}, "unk_token": "[UNK]"}},
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_tokenizer_that_contradicts_itself_is_one_line(spoiled, name):
    folder = spoiled("tokenizer.json", **DAMAGED[name])
    refusal_of(lambda: rewards(folder), "download")


@pytest.mark.parametrize("length", ["512", None, 4])
def test_a_greatest_length_of_any_type_cuts_nothing(spoiled, checkpoint, length):
    folder = spoiled("tokenizer_config.json", model_max_length=length)
    assert rewards(folder) == rewards(checkpoint("linear_llama"))


@pytest.mark.parametrize("stream", [False, True])
def test_what_a_model_gives_back_beside_its_output_changes_nothing(
    spoiled, checkpoint, stream
):
    fields = {"return_dict": False, "output_hidden_states": True}
    folder = spoiled(kind="linear_qwen3", **fields)
    expected = rewards(checkpoint("linear_qwen3"), stream=stream)
    assert rewards(folder, stream=stream) == pytest.approx(expected, abs=1e-5)
