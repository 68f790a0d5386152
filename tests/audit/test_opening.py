"""What `load` reads by itself, and what only `open_model` opens."""

import numpy as np
import pytest
import tiny
from conftest import refusal_of

from audit.opening import open_model
from lib.models import reward_models
from lib.scoring import vocabulary

REPLIES = ["love", "war and peace", ""]


@pytest.mark.parametrize("kind", [kind for kind in tiny.KINDS if kind != "deberta"])
def test_load_and_open_model_give_the_paper_s_heads_the_same_rewards(checkpoint, kind):
    both = [
        make(checkpoint(kind), device="cpu")
        for make in (reward_models.load, open_model)
    ]
    assert (
        both[0].reader is both[1].reader is None
        and both[0].revision == both[1].revision
    )
    rewards = [vocabulary.score_replies(model, "Why?", REPLIES) for model in both]
    np.testing.assert_array_equal(*rewards)
    assert np.ptp(rewards[0]) > 0


@pytest.mark.parametrize(
    "option",
    [
        {"stream": True},
        {"label": 0},
        {"base": "x"},
        {"tokenizer": "x"},
    ],
    ids=str,
)
def test_load_names_open_model_for_options_of_other_models(checkpoint, option):
    folder = checkpoint("linear_llama")
    named = f"'{next(iter(option))}' is no option of load"
    refusal_of(lambda: reward_models.load(folder, **option), named, "audit.load")


def test_load_names_open_model_for_encoders_and_pickles(checkpoint, tmp_path):
    encoder = checkpoint("deberta")
    refusal_of(
        lambda: reward_models.load(encoder, device="cpu"), "encoder", "audit.load"
    )
    pickled = tiny.make_checkpoint(tmp_path, "linear_llama")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    refusal_of(
        lambda: reward_models.load(pickled, device="cpu"), "pickled", "audit.load"
    )
