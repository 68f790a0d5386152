"""Heads that read tokens' logits, --head yes,no, against the language model's own class."""

import json

import numpy as np
import oracle
import pytest
import tiny
import torch
from conftest import refusal_of
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, Gemma2Config, LlamaConfig

from audit.opening import open_model as load
from lib.scoring import vocabulary
from lib.search.gcg import Settings
from lib.search.objective import Objective, allowed_ids
from lib.search.searches import search

PROMPT, REPLIES = "What is best?", ["love", " hate and war", "hope", "你好"]
HEADS = {"untied": "yes,no", "capped": "love,Hate"}


def saved(folder, name: str):
    """A language model with an output matrix of its own, or (capped) with the embeddings and a
    narrow soft cap.
    """
    config, family, template = {
        "untied": (LlamaConfig(**tiny.TWO_LAYERS), "llama", "llama3"),
        "capped": (
            Gemma2Config(**tiny.TWO_LAYERS, head_dim=16, final_logit_softcapping=1.5),
            "gemma",
            "gemma",
        ),
    }[name]
    return tiny.save_other(
        folder,
        config,
        family,
        auto=AutoModelForCausalLM,
        vocabulary=["yes", "no", " maybe"],
        template=template,
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {name: saved(tmp_path_factory.mktemp(name), name) for name in HEADS}


def expected(folder, *tokens: str) -> np.ndarray:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    logits = oracle.next_logits(
        folder, oracle.input_ids(tokenizer, PROMPT, REPLIES)
    ).numpy()
    of_tokens = logits[:, tokenizer.convert_tokens_to_ids(list(tokens))]
    return of_tokens[:, 0] - of_tokens[:, 1:].sum(1)


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("stream", [False, True])
def test_rewards_are_logits_of_the_models_own_class(folders, name, stream):
    for head in (HEADS[name], HEADS[name].split(",")[1]):
        model = load(folders[name], device="cpu", head=head, stream=stream)
        rewards = vocabulary.score_replies(model, PROMPT, REPLIES)
        np.testing.assert_allclose(
            rewards, expected(folders[name], *head.split(",")), rtol=0, atol=1e-4
        )
        assert np.ptp(rewards) > 1e-2 and model.revision.endswith(f" head {head}")
    assert ("lm_head.weight" in load_file(folders[name] / "model.safetensors")) == (
        name == "untied"
    )


def test_a_token_that_begins_with_a_blank_is_found(folders):
    model = load(folders["untied"], device="cpu", head="maybe,no")
    rewards = vocabulary.score_replies(model, PROMPT, REPLIES)
    np.testing.assert_allclose(
        rewards, expected(folders["untied"], "Ġmaybe", "no"), rtol=0, atol=1e-4
    )


def test_a_search_follows_the_gradient_of_the_language_models_own_logits(folders):
    model = load(folders["untied"], device="cpu", head="yes,no")
    objective = Objective(
        model, PROMPT, "optimal", allowed_ids(model), reply_mode="ids"
    )
    reply = tuple(objective.allowed[[3, 50, 90]].tolist())
    ids = oracle.input_ids(model.tokenizer, PROMPT, [reply], reply_mode="ids")[0]
    own = AutoModelForCausalLM.from_pretrained(
        folders["untied"], dtype=torch.float32
    ).eval()
    embedded = own.get_input_embeddings()(torch.tensor([ids])).detach().requires_grad_()
    yes, no = own(inputs_embeds=embedded).logits[
        0, -1, model.tokenizer.convert_tokens_to_ids(["yes", "no"])
    ]
    (yes - no).backward()
    closing = len(objective.conversation.closing_ids)
    gradient = embedded.grad[0, -closing - 3 : -closing]  # (3, d)
    there, here = (
        own.get_input_embeddings().weight[objective.allowed],
        embedded[0, -closing - 3 : -closing],
    )
    gains = gradient @ there.T - (gradient * here).sum(1, keepdim=True)
    [found] = objective.gains([reply])
    np.testing.assert_allclose(found, gains.detach(), rtol=0, atol=1e-4)
    [found] = search(objective, [reply], Settings(budget=60, width=16, patience=1))
    assert found.reward > (yes - no).item()


@pytest.mark.parametrize(
    "head",
    [
        "yes,perhaps",
        "yes, maybe",
        "yes,yes",
        "yes,no,yes",
        "yes,",
        "linea",
        "next_token",
    ],
)
def test_names_that_are_not_one_token_each_are_refused(folders, head):
    refusal_of(
        lambda: load(folders["untied"], device="cpu", head=head),
        f"head '{head}'",
        "--head yes,no",
    )


def test_a_head_of_the_checkpoint_gives_way_only_to_an_output_matrix(tmp_path):
    own = tiny.make_checkpoint(tmp_path / "own", "linear_llama")
    refusal_of(
        lambda: load(own, device="cpu", head="+,-"),
        "no output matrix",
        "leave head out",
    )
    tensors = load_file(own / "model.safetensors")
    tensors["lm_head.weight"] = torch.randn(tensors["model.embed_tokens.weight"].shape)
    tiny.write_weights(own, tensors)
    assert (
        load(own, device="cpu", head="+,-").head_name
        == "next_token"
        != load(own, device="cpu").head_name
    )
    refusal_of(
        lambda: load(own, device="cpu", head="+,-", label=1), "label 1", "--head +,-"
    )
    config = json.loads((own / "config.json").read_text())
    (own / "config.json").write_text(json.dumps(config | {"logits_scaling": 8.0}))
    refusal_of(
        lambda: load(own, device="cpu", head="+,-"), "logits_scaling", "leave head out"
    )
