"""One reader: rewards and gradients are those of whole conversations, whatever shares a row."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoModel, CONFIG_MAPPING

from lib.models.heads import ArmoHead, LinearHead
from lib.scoring import reader
from lib.scoring.reader import Reader

# two layers of each kind of attention that the config knows
LAYERS = {
    "gemma2": {"num_hidden_layers": 4},
    "gemma3_text": {"layer_types": ["sliding_attention", "full_attention"] * 2},
    "qwen2": {"use_sliding_window": True, "max_window_layers": 2},
    "qwen3": {"use_sliding_window": True, "max_window_layers": 2},
    "smollm3": {"no_rope_layers": [1, 0, 1, 0]},
}
VOCABULARY = 50


def made(kind, dtype=torch.float32, window=None, gated=False, **fields):
    """A model of this type with random weights, large enough that attention matters."""
    config = CONFIG_MAPPING[kind](
        **{
            "num_hidden_layers": 4 if kind in LAYERS else 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "head_dim": 8,
            "vocab_size": VOCABULARY,
            "pad_token_id": None,
            "bos_token_id": None,
            "eos_token_id": None,
            "sliding_window": window,
        }
        | LAYERS.get(kind, {})
        | fields
    )
    attention = "eager" if kind == "gemma2" else "sdpa"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        backbone = AutoModel.from_config(config, attn_implementation=attention)
        for parameter in backbone.parameters():
            parameter.data += 0.2 * torch.randn(parameter.shape)
        config.gating_hidden_dim, config.gating_n_hidden = 16, 1
        head = ArmoHead(config) if gated else LinearHead(config)
    return SimpleNamespace(
        device="cpu",
        nickname=kind,
        dtype=str(dtype).removeprefix("torch."),
        read_at="last",
        pad_token_id=None,
        onednn=False,
        backbone=backbone.to(dtype).eval(),
        head=head.eval(),
        reader=None,
    )


def asked(prompt, replies, gated=False):
    """Inputs of a prompt of so many tokens and these replies."""
    prefix = tuple(np.random.default_rng(1).integers(VOCABULARY, size=prompt).tolist())
    gate = prompt // 2 if gated else None
    conversation = SimpleNamespace(prefix_ids=prefix, gate_position=gate)
    return SimpleNamespace(
        conversation=conversation, prefix_ids=prefix, suffixes=replies
    )


def drawn():
    """Replies of 1 to 40 tokens: some begin alike, some are beginnings of others."""
    rng = np.random.default_rng(0)
    long = [tuple(rng.integers(VOCABULARY, size=40).tolist()) for _ in range(8)]
    some = [each[:length] for each in long for length in (1, 2, 5, 20, 40)]
    alike = [each[:3] + (int(t),) for each in long for t in rng.integers(50, size=3)]
    return list(dict.fromkeys([*some, *alike, (7,), (7, 8), (7, 9)]))


def rewards_of_whole(model, inputs, replies, batch=1):
    """The rewards of whole conversations, padded behind in batches."""
    found = []
    for start in range(0, len(replies), batch):
        whole = [list(inputs.prefix_ids + r) for r in replies[start : start + batch]]
        lengths = list(map(len, whole))
        ids = torch.tensor([row + [0] * (max(lengths) - len(row)) for row in whole])
        mask = torch.tensor([[1] * n + [0] * (max(lengths) - n) for n in lengths])
        given = {} if batch == 1 else {"attention_mask": mask}
        states = model.backbone(input_ids=ids, use_cache=False, **given)[0].float()
        for row, length in zip(states, lengths, strict=True):
            gate = inputs.conversation.gate_position
            opening = None if gate is None else model.head.gate(row[gate])
            found.append(model.head(row[length - 1][None], opening)[0])
    return torch.stack(found)


def gradient_of_whole(model, inputs, reply):
    ids = torch.tensor([inputs.prefix_ids + reply])
    given = model.backbone.get_input_embeddings()(ids).detach().requires_grad_()
    state = model.backbone(inputs_embeds=given, use_cache=False)[0][:, -1].float()
    [gradient] = torch.autograd.grad(model.head(state, None).sum(), given)
    return gradient[0, len(inputs.prefix_ids) :]


@pytest.mark.parametrize("prompt", [5, 200])
@pytest.mark.parametrize("kind", sorted(reader.SHARES))
def test_rewards_and_gradients_are_those_of_whole_conversations(kind, prompt):
    # a row is longer than the window, and no conversation is
    model, replies = made(kind, window=prompt + 41), drawn()
    inputs = asked(prompt, replies)
    read = Reader(model, inputs)
    assert read.shares(40)
    assert sum(map(len, replies)) > prompt + 41
    with torch.no_grad():
        expected = rewards_of_whole(model, inputs, replies).numpy()
    spread = expected.std()
    assert spread > 0.01
    atol = 1e-5 * spread
    np.testing.assert_allclose(read.rewards(replies), expected, rtol=0, atol=atol)
    for reply, gradient in zip(replies, read.gradients(replies[:9]), strict=False):
        exact = gradient_of_whole(model, inputs, reply)
        assert (gradient - exact).norm() <= 1e-4 * exact.norm()
