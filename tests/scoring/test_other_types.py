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
EXPERTS = {
    "num_experts": 4,
    "num_local_experts": 4,
    "moe_intermediate_size": 16,
    "num_experts_per_tok": 2,
}
LATENT = {
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "qk_nope_head_dim": 8,
}
ROUTED = (
    LATENT
    | EXPERTS
    | {"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}
)
LINEAR = EXPERTS | {
    "num_hidden_layers": 4,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "head_dim": 8,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "shared_expert_intermediate_size": 16,
}
CANNOT_SHARE = {
    "deepseek_v3": ROUTED,
    "mistral4": ROUTED,
    "minicpm3": LATENT,
    "jetmoe": {"kv_channels": 8} | EXPERTS,
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2},
    "qwen3_5_text": LINEAR,
    "qwen3_next": LINEAR,
    "jamba": {
        "mamba_d_state": 4,
        "mamba_dt_rank": 4,
        "use_mamba_kernels": False,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "num_experts": 2,
    },
    "minimax": {"block_size": 8, "head_dim": 8} | EXPERTS,
    "gpt_oss": {"head_dim": 8} | EXPERTS,
    "falcon": {},
    "bloom": {},
}
# a type that attends as those that share do, and that no test names
CANNOT_SHARE["qwen2_moe"] = EXPERTS


def checkpoint_of(folder, name):
    fields = CANNOT_SHARE[name]
    config = t.CONFIG_MAPPING[name](**fields if name == "mpt" else SMALL | fields)
    config.num_labels = 1
    tiny.save_other(folder, config, family="llama", template="llama3")
    return folder


@pytest.mark.parametrize("name", CANNOT_SHARE)
def test_a_decoder_has_the_rewards_of_its_own_class(name, tmp_path, capsys):
    if name not in t.CONFIG_MAPPING:
        pytest.skip(f"the installed transformers has no {name}")
    folder = checkpoint_of(tmp_path / "model", name)
    expected = oracle.own_logits(folder, PROMPT, REPLIES)[:, 0]
    rewards = vocabulary.score_replies(load(folder, device="cpu"), PROMPT, REPLIES)
    assert np.ptp(expected) > 1e-3
    np.testing.assert_allclose(
        rewards, expected, rtol=0, atol=1e-5 * max(1, np.abs(expected).max())
    )
    told = capsys.readouterr().err
    assert "every conversation is read whole" in told
    assert "times as many tokens" in told


def test_whoever_is_slower_than_meant_is_told_once(tmp_path, capsys):
    model = load(checkpoint_of(tmp_path / "model", "gpt_oss"), device="cpu")
    for _ in range(2):
        vocabulary.score_replies(model, PROMPT, REPLIES)
    [line] = [
        line for line in capsys.readouterr().err.splitlines() if "read whole" in line
    ]
    assert line.startswith(model.nickname)
