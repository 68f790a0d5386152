"""Replies to many prompts, read together with padding, get the rewards that they get one prompt
after another.
"""

import numpy as np
import pytest
import tiny

from lib.apps.owner.opening import open_model as load
from lib.apps.runner import api
from lib.scoring import engine

PROMPTS = [
    "Why?",
    "What, in one word, is the greatest thing ever?",
    "Name a thing that people like, and say why.",
]
REPLIES = [
    "love",
    "war and peace",
    "",
    "a cat that sits on the mat, because it is warm",
    "hope",
    "no",
]


@pytest.mark.parametrize("kind", tiny.KINDS)
@pytest.mark.parametrize("per_prompt", [1, 3])
def test_rows_get_the_rewards_of_each_prompt_by_itself(tmp_path, kind, per_prompt):
    model = load(tiny.make_checkpoint(tmp_path, kind), device="cpu")
    rows = [
        (prompt, reply)
        for i, prompt in enumerate(PROMPTS)
        for reply in REPLIES[i : i + per_prompt]
    ]
    prompts, replies = zip(*rows, strict=True)
    together = api.score(model, prompts, replies)["reward"]
    alone = [engine.score_replies(model, prompt, [reply])[0] for prompt, reply in rows]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-4)
