"""Positions that depend on how long a conversation is: each is scored as if it were the only one
that was ever read.
"""

import numpy as np
import oracle
import pandas as pd
import pytest
import tiny
import torch

from audit.opening import open_model as load
from lib.models import checkpoints, language_models
from lib.models.files import files_of
from lib.scoring import vocabulary
from lib.scoring.reader import Reader, laid_out, rows_of

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
KINDS = [
    ("linear_llama", "dynamic"),
    ("linear_qwen3", "longrope"),
    ("qrm_llama", "longrope"),
]


def scaling(rope, limit, half):
    """The fields of config.json that give a model this kind of rotary embedding; half: of a
    head's width.
    """
    if rope == "dynamic":
        return {
            "max_position_embeddings": limit,
            "rope_scaling": {"rope_type": "dynamic", "factor": 8.0},
        }
    factors = {
        "short_factor": [1.0] * half,
        "long_factor": [1.0 + 2 * k for k in range(half)],
    }
    fields = {
        "rope_type": "longrope",
        "factor": 8.0,
        "original_max_position_embeddings": limit,
        **factors,
    }
    return {"max_position_embeddings": 8 * limit, "rope_scaling": fields}


def made(folder, kind, rope, limit):
    half = 8 if "qwen" in kind else 4
    return tiny.make_checkpoint(folder, kind, **scaling(rope, limit, half))


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


@pytest.mark.parametrize("stream", [False, True], ids=["in memory", "streamed"])
def test_every_conversation_is_scored_as_if_it_were_the_only_one(
    folder_and_rewards, stream
):
    folder, rewards_of = folder_and_rewards
    limit = checkpoints.length_limit(checkpoints.config_of(files_of(folder)))
    assert (
        min(lengths(folder, PROMPTS["long"]))
        <= limit
        < max(lengths(folder, PROMPTS["long"]))
    )
    model = load(str(folder), device="cpu", stream=stream)
    # in either order: longer ones raise frequencies, which must not stay
    for prompt, expected in rewards_of.items():
        for order in (slice(None), slice(None, None, -1)):
            rewards = vocabulary.score_replies(model, prompt, REPLIES[order])
            np.testing.assert_allclose(
                rewards,
                expected[order],
                atol=2e-5 * max(1, np.abs(expected).max()),
                rtol=0,
            )
    assert np.ptp(expected) > 0.1


def test_tables_in_memory_and_streamed_are_the_same_and_whole_reading_is_reported(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(Reader, "per_shard", 100)
    folder = made(tmp_path / "model", "linear_llama", "dynamic", 20)
    tables = {}
    for stream in (False, True):
        path = tmp_path / f"{stream}.parquet"
        tables[stream] = vocabulary.score_vocabulary(
            load(str(folder), device="cpu", stream=stream), PROMPTS, path
        )
        assert "every conversation is read whole" in "".join(capsys.readouterr())
    pd.testing.assert_frame_equal(tables[False], tables[True], atol=4e-5, rtol=0)
    some = tables[False].iloc[::37]
    expected = alone(folder, PROMPTS["long"], some["text"].tolist())
    np.testing.assert_allclose(
        some["long"], expected, atol=2e-5 * max(1, np.abs(expected).max()), rtol=0
    )


def test_gradients_and_values_of_a_search_cross_the_limit(tmp_path):
    """A small step along the gradient changes the reward of a conversation beyond the limit as
    the gradient says.
    """
    folder = made(tmp_path, "armorm", "longrope", 20)
    model = load(str(folder), device="cpu")
    inputs = model.inputs_for(PROMPTS["long"], [[5], [6, 7]], reply_mode="ids")
    read, suffix = Reader(model, inputs), inputs.suffixes[0]
    assert not read.limit
    embed = model.backbone.get_input_embeddings()
    [gradient] = read.gradients([suffix])
    reward = read.rewards([suffix])[0]

    def moved(sign):
        rows = laid_out(rows_of([inputs.prefix_ids + suffix], 0))
        given = embed(rows.ids).detach()
        step = 1e-3 * sign * gradient / gradient.norm()
        given[0, -len(suffix) :] += step
        with torch.no_grad():
            return float(read.read(rows, read.states(rows, given)))

    np.testing.assert_allclose(moved(0), reward, atol=1e-5)
    np.testing.assert_allclose(
        (moved(1) - moved(-1)) / 2e-3, gradient.norm(), rtol=0.05
    )


def test_below_the_limit_the_prefix_is_shared_as_in_any_model(tmp_path):
    folder = made(tmp_path, "linear_llama", "longrope", 4096)
    model = load(str(folder), device="cpu")
    inputs = model.inputs_for(PROMPTS["long"], REPLIES)
    assert Reader(model, inputs).limit == 4096 - len(inputs.prefix_ids)
    expected = alone(folder, PROMPTS["long"], REPLIES[:4])
    np.testing.assert_allclose(
        vocabulary.score_replies(model, PROMPTS["long"], REPLIES[:4]),
        expected,
        atol=1e-4,
    )


def test_a_language_model_reads_each_prompt_as_the_first(tmp_path):
    folder = tiny.make_checkpoint(tmp_path, "linear_llama", **scaling("dynamic", 12, 4))
    config = (
        (folder / "config.json")
        .read_text()
        .replace("ForSequenceClassification", "ForCausalLM")
    )
    (folder / "config.json").write_text(config)
    tensors = {
        name: tensor
        for name, tensor in oracle.read_tensors(folder).items()
        if not name.startswith("score")
    }
    tiny.write_weights(folder, tensors)
    model = language_models.load(str(folder), device="cpu", tuned=False)
    first = language_models.next_token_logits(model, PROMPTS["short"])
    language_models.next_token_logits(model, PROMPTS["long"])
    np.testing.assert_array_equal(
        language_models.next_token_logits(model, PROMPTS["short"]), first
    )
