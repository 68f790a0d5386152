"""Implicit rewards against a second implementation: every conversation by the models' own
forward passes.
"""

import numpy as np
import pytest
import torch
from conftest import refusal_of
from tiny_causal import make_causal

from audit.check import checking
from audit.reading import implicit
from lib.models import language_models
from lib.scoring import vocabulary

PROMPT = "What, in one word, is the greatest thing ever?"
REPLIES = [
    "love",
    " love",
    "freedom of the world",
    "",
    "Émile",
    "<|eot_id|>",
    "\n\nlove",
]


@pytest.fixture(scope="module", params=["llama", "gemma2", "qwen3"])
def pair(request, tmp_path_factory):
    """The folders of two language models of one vocabulary, with other weights."""
    policy, reference = (
        str(make_causal(tmp_path_factory.mktemp(name) / name, request.param))
        for name in ("pi", "ref")
    )
    model = language_models.load(reference).model
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(0.1 * noise.to(parameter.device))
    model.save_pretrained(reference)
    return policy, reference


def by_forward_passes(model, folder, replies) -> np.ndarray:
    """The log-probability of each reply and its end after the prompt, (replies,): two passes over
    whole texts, nothing shared.
    """
    loaded, logs = language_models.load(folder), []
    inputs = model.inputs_for(PROMPT, replies)
    closing, prompt = inputs.conversation.closing_ids, inputs.conversation.prefix_ids
    for group in inputs.group:
        whole = [*inputs.prefix_ids, *inputs.suffixes[group]]
        whole = whole[: len(whole) - len(closing) + 1]
        logs.append(log_probability(loaded, whole) - log_probability(loaded, prompt))
    return np.array(logs)


def log_probability(model, ids) -> float:
    """The log-probability of all ids but the first after those before them."""
    ids = torch.tensor(ids, device=model.device)
    with torch.no_grad():
        logits = model.model(input_ids=ids[None]).logits[0, :-1]
    return -torch.nn.functional.cross_entropy(logits, ids[1:], reduction="sum").item()


def test_rewards_are_the_log_ratio_of_whole_conversations(pair):
    model = implicit.load(*pair, beta=0.3)
    rewards = vocabulary.score_replies(model, PROMPT, REPLIES)
    policy, reference = (by_forward_passes(model, each, REPLIES) for each in pair)
    assert rewards == pytest.approx(0.3 * (policy - reference), abs=1e-4)
    assert np.ptp(rewards) > 0.05


def test_a_check_takes_a_language_model_over_its_reference(pair):
    policy, reference = pair
    assert set(checking.check(policy, reference=reference).wrong) <= {"pairs"}


def test_other_vocabularies_are_refused(tmp_path):
    folders = [str(make_causal(tmp_path / kind, kind)) for kind in ("llama", "qwen3")]
    refusal_of(lambda: implicit.load(*folders), "different vocabularies")
