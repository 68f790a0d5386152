"""One reader: rewards and gradients are those of whole conversations, whatever shares a row."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModel

from lib.models.heads import ArmoHead, LinearHead
from lib.scoring import products, reader
from lib.scoring.reader import Reader
from lib.scoring.rows import laid_out, rows_of

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


def rewards_of_whole(model, inputs, replies):
    """The rewards of whole conversations, each read alone."""
    found = []
    gate = inputs.conversation.gate_position
    for reply in replies:
        ids = torch.tensor([inputs.prefix_ids + reply])
        states = model.backbone(input_ids=ids, use_cache=False)[0][0].float()
        opening = None if gate is None else model.head.gate(states[gate])
        found.append(model.head(states[-1:], opening)[0])
    return torch.stack(found)


def gradient_of_whole(model, inputs, reply):
    ids = torch.tensor([inputs.prefix_ids + reply])
    given = model.backbone.get_input_embeddings()(ids).detach().requires_grad_()
    state = model.backbone(inputs_embeds=given, use_cache=False)[0][:, -1].float()
    [gradient] = torch.autograd.grad(model.head(state, None).sum(), given)
    return gradient[0, len(inputs.prefix_ids) :]


@pytest.mark.parametrize(
    ("kind", "prompt"),
    [(kind, 200) for kind in sorted(reader.SHARES)] + [("llama", 5), ("gemma2", 5)],
)
def test_rewards_and_gradients_are_those_of_whole_conversations(kind, prompt):
    # a row is longer than the window, and no conversation is
    model, replies = made(kind, window=prompt + 41), drawn()
    inputs = asked(prompt, replies)
    read = Reader(model, inputs)
    assert read.limit >= 40
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


@pytest.mark.parametrize("kind", ["llama", "gemma2"])
def test_a_gate_reads_the_prompt(kind):
    model, replies = made(kind, window=100, gated=True), drawn()
    inputs = asked(20, replies, gated=True)
    with torch.no_grad():
        expected = rewards_of_whole(model, inputs, replies).numpy()
    read = Reader(model, inputs)
    atol = 1e-5 * expected.std()
    assert read.limit == 80
    np.testing.assert_allclose(read.rewards(replies), expected, rtol=0, atol=atol)
    read.limit = 0
    np.testing.assert_allclose(read.rewards(replies), expected, rtol=0, atol=atol)


@pytest.mark.parametrize("kind", ["gemma2", "gemma3_text", "llama", "qwen3"])
def test_in_bfloat16_rows_are_as_exact_as_plain_readings(kind):
    """The measure are exact rewards of the same weights."""
    model, replies = made(kind, torch.bfloat16, window=100), drawn()
    inputs = asked(20, replies)
    with torch.no_grad():
        alone = rewards_of_whole(model, inputs, replies)
        rows = torch.from_numpy(Reader(model, inputs).rewards(replies))
        model.backbone.float()
        exact = rewards_of_whole(model, inputs, replies)

    def apart(found, expected):
        return float((found - expected).square().mean().sqrt())

    assert 0 < apart(rows, exact) <= 1.5 * apart(alone, exact)


ATTENDS_OTHERWISE = {
    "both ways": ("llama", {"is_causal": False}),
    "both ways, Gemma 3": (
        "gemma3_text",
        {"use_bidirectional_attention": True, "window": 100},
    ),
    "a window shorter than the prompt": ("mistral", {"window": 12}),
    "a window between two replies": ("qwen3", {"window": 30}),
    "no type of SHARES": ("olmo", {}),
}


@pytest.mark.parametrize("case", ATTENDS_OTHERWISE)
def test_what_attends_otherwise_is_read_whole_and_right(case):
    kind, fields = ATTENDS_OTHERWISE[case]
    model, replies = made(kind, **fields), drawn()
    inputs = asked(20, replies)
    with torch.no_grad():
        expected = rewards_of_whole(model, inputs, replies).numpy()
    read = Reader(model, inputs)
    assert read.limit == (10 if "between" in case else 0)
    atol = 1e-5 * expected.std()
    np.testing.assert_allclose(read.rewards(replies), expected, rtol=0, atol=atol)


def test_rows_that_one_can_draw():
    """Two rows of four nodes: 5 1, 5 2 and 5 2 3 share their first tokens, and 6 1 has no room."""
    rows = laid_out(rows_of([(5, 1), (5, 2), (5, 2, 3), (6, 1)], 4))
    assert rows.ids.tolist() == [[5, 1, 2, 3], [6, 1, 0, 0]]
    assert rows.depths.tolist() == [[0, 1, 1, 2], [0, 1, 0, 0]]
    assert rows.nodes == [[0, 1], [0, 2], [0, 2, 3], [4, 5]]
    seen = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]]
    assert rows.seen[0].int().tolist() == seen
    alone = laid_out(rows_of([(5, 1), (5, 2)], 0))
    assert alone.ids.tolist() == [[5, 1], [5, 2]]


def test_products_of_onednn_are_those_of_torch_and_gradients_are_torchs_own():
    sizes = {"hidden_size": 512, "intermediate_size": 3072, "num_hidden_layers": 3}
    model, replies = made("llama", head_dim=128, **sizes), drawn()
    for parameter in model.backbone.parameters():
        parameter.data /= 4
    inputs = asked(20, replies)
    assert not products.is_small(model)
    usual = Reader(model, inputs)
    model.onednn = True
    calls, plain = [], products._product
    usual_product = torch.nn.Linear.forward
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "_product", lambda *a: (calls.append(1), plain(*a))[1])
        read = Reader(model, inputs)
        quick = read.rewards(replies)
        assert calls
    exact = usual.rewards(replies)
    np.testing.assert_allclose(quick, exact, rtol=0, atol=1e-4 * exact.std())
    assert torch.nn.Linear.forward is usual_product
