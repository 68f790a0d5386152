"""Replies that share a long beginning have the rewards that they have alone."""

import numpy as np
import pytest

from lib.scoring import vocabulary

PROMPT = "What, in one word, is the greatest thing ever?"
BEGINNING = tuple(range(40, 60))
ENDINGS = [(), (3,), (5, 3), (5, 4), (6, 4, 3, 5), (6, 4, 3, 6)]
REPLIES = [BEGINNING + ending for ending in ENDINGS]
DECODERS = ["linear_llama", "linear_gemma2", "linear_qwen3", "urm", "qrm_llama"]


@pytest.mark.parametrize("kind", DECODERS)
def test_rewards_are_those_of_replies_scored_one_at_a_time(model_of, kind):
    model = model_of(kind)
    together = vocabulary.score_replies(model, PROMPT, REPLIES, reply_mode="ids")
    alone = [
        vocabulary.score_replies(model, PROMPT, [reply], reply_mode="ids")[0]
        for reply in REPLIES
    ]
    assert np.std(alone) > 0.001
    spread = np.ptp(alone)
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-5 * spread)
