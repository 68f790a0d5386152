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
    rewards = [
        vocabulary.score_replies(make(checkpoint(kind), device="cpu"), "Why?", REPLIES)
        for make in (reward_models.load, open_model)
    ]
    np.testing.assert_array_equal(*rewards)
    assert np.ptp(rewards[0]) > 0


def test_load_names_what_opens_other_models(checkpoint, tmp_path):
    pickled = tiny.make_checkpoint(tmp_path, "linear_llama")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    for folder in (checkpoint("deberta"), pickled):
        refusal_of(
            lambda folder=folder: reward_models.load(folder, device="cpu"), "audit.load"
        )
