"""Decoders whose type no test compares with a prompt that is read once: read whole, and said."""

import numpy as np
import oracle
import pytest
import tiny
import transformers as t

from audit.opening import open_model as load
from lib.scoring import vocabulary

PROMPT = "What, in one word, is the greatest thing ever?"
REPLIES = ["love", " hate and war", "你好", "freedom of the world"]
SMALL = tiny.TWO_LAYERS | {"num_labels": 1}
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2}
# one with sinks, one whose bias depends on distance, one with a cache of its own
CANNOT_SHARE = {
    "gpt_oss": {"head_dim": 8} | EXPERTS,
    "bloom": {},
    "minimax": {"layer_types": ["linear_attention", "full_attention"]} | EXPERTS,
}


@pytest.mark.parametrize("name", CANNOT_SHARE)
def test_a_decoder_has_the_rewards_of_its_own_class(name, tmp_path):
    config = t.CONFIG_MAPPING[name](**SMALL | CANNOT_SHARE[name])
    config.num_labels = 1
    tiny.save_other(tmp_path, config, family="llama", template="llama3")
    expected = oracle.own_logits(tmp_path, PROMPT, REPLIES)[:, 0]
    with pytest.warns(UserWarning, match="every conversation is read whole"):
        rewards = vocabulary.score_replies(
            load(tmp_path, device="cpu"), PROMPT, REPLIES
        )
    assert np.ptp(expected) > 1e-3
    np.testing.assert_allclose(
        rewards, expected, rtol=0, atol=1e-5 * max(1, np.abs(expected).max())
    )
