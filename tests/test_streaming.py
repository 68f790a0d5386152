"""Weights that pass through once: the same rewards as in memory."""

import numpy as np
import oracle
import pytest
import tiny

from lib import scoring
from lib.models.reward_models import load

PROMPT = "What, in one word, is the greatest thing ever?"


@pytest.mark.parametrize("kind", list(tiny.KINDS)[:-1])
def test_rewards_equal(kind, tmp_path):
    folder = tiny.make_checkpoint(tmp_path, kind)
    replies = ["love", "war", "peace and hope", "", " ", "a b c d"]
    streamed = scoring.score_replies(load(str(folder), device="cpu", stream=True), PROMPT, replies)
    held = scoring.score_replies(load(str(folder), device="cpu"), PROMPT, replies)
    print(np.abs(streamed - held).max(), held)
    np.testing.assert_allclose(streamed, held, atol=1e-5, rtol=0)
    np.testing.assert_allclose(streamed, oracle.rewards(folder, PROMPT, replies), atol=2e-5, rtol=0)
