"""Positions that depend on how long a conversation is: each is scored as if it were the only one
that was ever read.
"""

import numpy as np
import oracle
import pytest
import tiny

from audit.opening import open_model as load
from lib.models.loading import config_of, files_of, length_limit
from lib.scoring import vocabulary

pytestmark = pytest.mark.drill
PROMPTS = {
    "short": "What is best?",
    "long": "What, in one word and without thinking about it for long, is the greatest thing that "
    "was ever made by us?",
}
LONG = "the water, the forest, the sea and the universe and the thing and the word and the ever"
REPLIES = [
    "love",
    LONG,
    "war",
    f"{LONG} and {LONG}",
    "the sea",
    f"love, {LONG}",
    "hope",
    LONG[:40],
    "b c d",
]
KINDS = [("linear_llama", "dynamic"), ("qrm_llama", "longrope")]


def scaling(rope, limit):
    """The fields of config.json that give a model this kind of rotary embedding."""
    if rope == "dynamic":
        return {
            "max_position_embeddings": limit,
            "rope_scaling": {"rope_type": "dynamic", "factor": 8.0},
        }
    factors = {
        "short_factor": [1.0] * 4,
        "long_factor": [1.0 + 2 * k for k in range(4)],
    }
    fields = {
        "rope_type": "longrope",
        "factor": 8.0,
        "original_max_position_embeddings": limit,
        **factors,
    }
    return {"max_position_embeddings": 8 * limit, "rope_scaling": fields}


def made(folder, kind, rope, limit):
    return tiny.make_checkpoint(folder, kind, **scaling(rope, limit))


def lengths(folder, prompt):
    inputs = load(str(folder), device="cpu").inputs_for(prompt, REPLIES)
    return [
        len(inputs.prefix_ids) + len(inputs.suffixes[group]) for group in inputs.group
    ]


def alone(folder, prompt, replies, **how):
    """The oracle's rewards, by a model that was loaded anew for each conversation."""
    return np.array(
        [oracle.rewards(folder, prompt, [reply], **how)[0] for reply in replies]
    )


@pytest.fixture(scope="module", params=KINDS, ids=str)
def folder_and_rewards(request, tmp_path_factory):
    """A model whose limit lies between its shortest and its longest conversation, and each
    prompt's true rewards.
    """
    kind, rope = request.param
    place = tmp_path_factory.mktemp(kind)
    long = sorted(lengths(made(place / "far", kind, rope, 4096), PROMPTS["long"]))
    folder = made(place / "near", kind, rope, (long[2] + long[-3]) // 2)
    return folder, {
        prompt: alone(folder, prompt, REPLIES) for prompt in PROMPTS.values()
    }


def test_every_conversation_is_scored_as_if_it_were_the_only_one(folder_and_rewards):
    folder, rewards_of = folder_and_rewards
    limit = length_limit(config_of(files_of(folder)))
    assert min(lengths(folder, PROMPTS["long"])) <= limit
    assert max(lengths(folder, PROMPTS["long"])) > limit
    model = load(str(folder), device="cpu")
    # in either order: longer ones raise frequencies, which must not stay
    for prompt, expected in rewards_of.items():
        for order in (slice(None), slice(None, None, -1)):
            rewards = vocabulary.score_replies(model, prompt, REPLIES[order])
            within = 2e-5 * max(1, np.abs(expected).max())
            np.testing.assert_allclose(rewards, expected[order], atol=within, rtol=0)
    assert np.ptp(expected) > 0.1
