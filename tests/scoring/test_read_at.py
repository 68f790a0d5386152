"""Where a reward is read when the pad token also closes a reply: as the checkpoint's own class
in transformers does.
"""

import numpy as np
import oracle
import pytest
import tiny
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from audit.opening import open_model as load
from lib.scoring import vocabulary
from lib.scoring.reader import Reader

PROMPT = "What, in one word, is the greatest thing ever?"
CLOSING = {"linear_llama": "<|eot_id|>", "linear_gemma2": "\n", "linear_qwen3": "Ċ"}


@pytest.fixture(scope="module", params=CLOSING)
def folder(request, tmp_path_factory):
    """A checkpoint whose pad token is the last token of every conversation."""
    kind = request.param
    pad = tiny.make_tokenizer(tiny.KINDS[kind][0]).convert_tokens_to_ids(CLOSING[kind])
    return tiny.make_checkpoint(tmp_path_factory.mktemp(kind), kind, pad_token_id=pad)


@pytest.fixture(scope="module")
def model(folder):
    return load(str(folder), device="cpu")


def logits(folder, sequences: list[list[int]], padding: str | None) -> np.ndarray:
    """transformers' own rewards, each sequence by itself or all in one batch padded on the left
    or the right.
    """
    own = AutoModelForSequenceClassification.from_pretrained(
        folder, attn_implementation="eager"
    ).eval()
    longest = max(map(len, sequences))
    rows = []
    with torch.no_grad():
        for ids in sequences:
            pads = [own.config.pad_token_id] * (longest - len(ids) if padding else 0)
            real, none = [1] * len(ids), [0] * len(pads)
            whole, mask = (
                (pads + ids, none + real)
                if padding == "left"
                else (ids + pads, real + none)
            )
            given = {
                "input_ids": torch.tensor([whole]),
                "attention_mask": torch.tensor([mask]),
            }
            rows.append(float(own(**given).logits[0, 0]))
    return np.array(rows, dtype=np.float32)


@pytest.mark.parametrize(
    ("reply_mode", "padding"), [("text", "right"), ("ids", "left"), ("ids", None)]
)
def test_rewards_are_read_where_transformers_reads_them(
    folder, model, reply_mode, padding
):
    pad, love = model.pad_token_id, model.tokenizer.convert_tokens_to_ids("love")
    texts = {
        "text": ["love", "", "a b", model.tokenizer.decode([pad]), "peace and hope"]
    }
    replies = texts.get(
        reply_mode,
        [[love], [], [pad], [pad, pad], [love, pad], [pad, love], [love, love, love]],
    )
    sequences = oracle.input_ids(
        AutoTokenizer.from_pretrained(folder), PROMPT, replies, reply_mode=reply_mode
    )
    assert all(ids[-1] == pad for ids in sequences)  # otherwise both rules are one
    expected = logits(folder, sequences, padding)
    rewards = vocabulary.score_replies(model, PROMPT, replies, reply_mode=reply_mode)
    np.testing.assert_allclose(
        rewards, expected, atol=2e-5 * max(1, np.abs(expected).max()), rtol=0
    )
    last = load(str(folder), device="cpu", read_at="last")
    assert (
        np.abs(
            vocabulary.score_replies(last, PROMPT, replies, reply_mode=reply_mode)
            - rewards
        ).max()
        > 0.1
    )


def test_reading_whole_and_reading_apart_agree(model):
    pad = model.pad_token_id
    inputs = model.inputs_for(
        PROMPT, [[pad], [5], [pad, pad], [6, pad]], reply_mode="ids"
    )
    read = Reader(model, inputs)
    assert read.limit
    apart = read.rewards(inputs.suffixes)
    read.limit = 0
    np.testing.assert_allclose(
        read.rewards(inputs.suffixes), apart, atol=2e-5 * max(1, np.abs(apart).max())
    )


def test_no_gradient_reaches_what_comes_after_the_token_that_is_read(model):
    read = Reader(model, model.inputs_for(PROMPT, ["love"]))
    pad = model.pad_token_id
    gradient, of_pads = read.gradients([(5, pad, pad), (pad,)])
    assert (gradient[0] != 0).any() and not gradient[1:].any()
    # the prompt is read, whatever the reply
    assert not of_pads.any()


@pytest.mark.parametrize(
    "kind, options, read_at",
    [
        ("linear_llama", {"pad": "none"}, "last"),
        ("armorm", {}, "last"),  # transformers has no class for these heads
        ("urm", {}, "last"),
        ("deberta", {}, "pooled"),
    ],
)
def test_every_head_has_its_rule(tmp_path, kind, options, read_at):
    folder = tiny.make_checkpoint(tmp_path, kind, **options)
    assert load(str(folder), device="cpu").read_at == read_at
