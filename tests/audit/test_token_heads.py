"""Heads that read tokens' logits, --head yes,no, against the language model's own class."""

import json
import shutil

import numpy as np
import oracle
import pytest
import tiny
from conftest import refusal_of
from safetensors.torch import load_file
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Gemma2Config,
    GPTNeoXConfig,
    LlamaConfig,
)

from audit.opening import open_model as load
from lib.models.heads import OUTPUTS
from lib.scoring import vocabulary

PROMPT, REPLIES = "What is best?", ["love", " hate and war", "hope", "你好"]
HEADS = {"untied": "yes,no", "capped": "love,Hate", "blank": "maybe,no"}


def saved(folder, name: str):
    """A language model with an output matrix of its own, or (capped) with the embeddings and a
    narrow soft cap.
    """
    config, family = LlamaConfig(**tiny.TWO_LAYERS), "llama"
    if name == "capped":
        narrow = {"head_dim": 16, "final_logit_softcapping": 1.5}
        config, family = Gemma2Config(**tiny.TWO_LAYERS, **narrow), "gemma"
    how = {"auto": AutoModelForCausalLM, "vocabulary": ["yes", "no", " maybe"]}
    template = {"llama": "llama3", "gemma": "gemma"}[family]
    return tiny.save_other(folder, config, family, template=template, **how)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {name: saved(tmp_path_factory.mktemp(name), name) for name in HEADS}


def expected(folder, tokens: list[str]) -> np.ndarray:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = oracle.input_ids(tokenizer, PROMPT, REPLIES)
    named = tokenizer.convert_tokens_to_ids(tokens)
    of_tokens = oracle.next_logits(folder, ids).numpy()[:, named]
    return of_tokens[:, 0] - of_tokens[:, 1:].sum(1)


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("stream", [False, True])
def test_rewards_are_logits_of_the_models_own_class(folders, name, stream):
    for head in (HEADS[name], HEADS[name].split(",")[1]):
        model = load(folders[name], device="cpu", head=head, stream=stream)
        rewards = vocabulary.score_replies(model, PROMPT, REPLIES)
        tokens = [{"maybe": "Ġmaybe"}.get(token, token) for token in head.split(",")]
        logits = expected(folders[name], tokens)
        np.testing.assert_allclose(rewards, logits, rtol=0, atol=1e-4)
        assert np.ptp(rewards) > 1e-2 and model.revision.endswith(f" head {head}")


def test_names_that_are_not_one_token_each_are_refused(folders):
    for head in ("yes,perhaps", "yes,yes", "linea"):
        refusal_of(
            lambda head=head: load(folders["untied"], device="cpu", head=head),
            "--head yes,no",
        )


def test_an_output_under_two_names_is_refused(tmp_path):
    config = GPTNeoXConfig(**tiny.TWO_LAYERS)
    how = {"auto": AutoModelForCausalLM, "template": "llama3"}
    folder = tiny.save_other(tmp_path, config, vocabulary=["yes", "no"], **how)
    tensors = load_file(folder / "model.safetensors")
    [own] = [name for name in tensors if name.startswith(OUTPUTS)]
    two = {f"{name}weight": tensors[own] + i for i, name in enumerate(OUTPUTS)}
    tiny.write_weights(folder, tensors | two)
    for options in ({"head": "yes,no"}, {"reference": str(folder)}):
        refusal_of(lambda options=options: load(folder, device="cpu", **options), *two)


def test_only_an_output_matrix_of_a_language_model_gives_logits(folders, tmp_path):
    own = tiny.make_checkpoint(tmp_path / "own", "linear_llama")
    refusal_of(lambda: load(own, device="cpu", head="+,-"), "output matrix")
    scaled = shutil.copytree(folders["untied"], tmp_path / "scaled")
    config = json.loads((scaled / "config.json").read_text())
    (scaled / "config.json").write_text(json.dumps(config | {"logits_scaling": 8.0}))
    refusal_of(lambda: load(scaled, device="cpu", head="yes,no"), "scales its logits")
