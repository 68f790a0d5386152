"""When is the beginning of conversations shared: planted errors, noise of half precision, and
models that cannot.
"""

import weakref

import numpy as np
import oracle
import pytest
import tiny
import torch
import transformers as t

from benchmarks import agreement as planting
from lib.apps.owner.opening import open_model as load
from lib.models import shared_prefix
from lib.scoring import agreement, engine, stages

PROMPT = "What, in one word, is the greatest thing ever?"
REPLIES = ["love", " hate and war", "你好", "freedom of the world"]
# which structure catches, see below
PLANTED = [name for name in planting.PLANTED if name != "attention sink"]


@pytest.fixture(scope="module")
def rows():
    """What is measured on a narrow model in both dtypes, and on one whose noise in bfloat16 is
    above 5%.
    """
    noisy = planting.random_model(128, 16, torch.bfloat16, gain=3.0)
    narrow = [
        planting.random_model(64, 4, dtype) for dtype in (torch.float32, torch.bfloat16)
    ]
    inputs = planting.random_inputs()
    return {
        name: {row["planted error"]: row for row in planting.rows_of(model, inputs)}
        for name, model in zip(
            ("float32", "bfloat16", "noisy"), [*narrow, noisy], strict=True
        )
    }


@pytest.mark.parametrize("model", ["float32", "bfloat16", "noisy"])
def test_each_planted_error_is_refused_and_reading_as_it_is_is_not(rows, model):
    assert rows[model]["none"]["refused"] == "no"
    assert [name for name in PLANTED if rows[model][name]["refused"] == "no"] == []


def test_a_fixed_limit_of_five_percent_would_refuse_the_noisy_model(rows):
    assert rows["noisy"]["none"]["noise of states"] > 0.05


def test_noise_is_measured_where_one_by_one_gives_the_same_bits():
    model = planting.random_model(64, 2, torch.bfloat16)
    scorer = stages.Scorer(model, planting.random_inputs())
    ids = torch.randint(10, 2000, (4, 3), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        usual = scorer.read_whole(ids)
        with agreement.rounded_once_more(model.backbone):
            rounded = scorer.read_whole(ids)
        again = scorer.read_whole(ids)
    assert torch.equal(usual.states, again.states)
    assert 1e-3 < rounded.differs(usual).states < 0.05


def test_replies_of_several_lengths_are_compared():
    scorer = stages.Scorer(
        planting.random_model(64, 2, torch.float32), planting.random_inputs()
    )
    replies = agreement.replies_to_compare(scorer, 5, several=True)
    assert len(replies) >= 16 and len({len(reply) for reply in replies}) >= 5
    assert all(reply[-2:] == planting.CLOSING for reply in replies)
    longest = agreement.replies_to_compare(scorer, 5, several=False)
    assert {len(reply) for reply in longest} == {5} and len(longest) == 4


def test_an_unknown_argument_of_attention_is_refused_and_one_without_a_value_is_not():
    query, key = torch.randn(1, 2, 3, 4), torch.randn(1, 1, 3, 4)
    module, shared = (
        type("Layer", (), {"layer_idx": 0}),
        [(torch.randn(1, 5, 4), torch.randn(1, 5, 4))],
    )
    given = (module, query, key, key, None)
    how = {
        "scaling": 0.5,
        "shared": shared,
        "dropout": 0.0,
        "position_ids": torch.arange(3),
    }
    plain, _ = shared_prefix.shared_prefix_attention(
        *given, **how, s_aux=None, sliding_window=8
    )
    assert torch.equal(plain, shared_prefix.shared_prefix_attention(*given, **how)[0])
    with pytest.raises(ValueError, match="takes s_aux"):
        shared_prefix.shared_prefix_attention(*given, **how, s_aux=torch.zeros(2))
    # 5 of the prefix and 3 of the reply
    with pytest.raises(ValueError, match="sliding window has 7 tokens"):
        shared_prefix.shared_prefix_attention(*given, **how, sliding_window=7)


# --- decoders that cannot share a prefix ----------------------------------------------------------

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
# transformers writes a sliding window of 0 into its configuration
CAN_SHARE = {"qwen2_moe": EXPERTS}


def checkpoint_of(folder, name):
    fields = CANNOT_SHARE.get(name) or CAN_SHARE.get(name, {})
    config = t.CONFIG_MAPPING[name](**fields if name == "mpt" else SMALL | fields)
    config.num_labels = 1
    tiny.save_other(folder, config, family="llama", template="llama3")
    return folder


@pytest.mark.parametrize("name", [*CANNOT_SHARE, *CAN_SHARE])
def test_a_decoder_has_the_rewards_of_its_own_class(name, tmp_path, capsys):
    if name not in t.CONFIG_MAPPING:
        pytest.skip(f"the installed transformers has no {name}")
    folder = checkpoint_of(tmp_path / "model", name)
    expected = oracle.own_logits(folder, PROMPT, REPLIES)[:, 0]
    rewards = engine.score_replies(load(folder, device="cpu"), PROMPT, REPLIES)
    assert np.ptp(expected) > 1e-3
    np.testing.assert_allclose(
        rewards, expected, rtol=0, atol=1e-5 * max(1, np.abs(expected).max())
    )
    told = capsys.readouterr().err
    assert (
        "every conversation is read whole" in told and "times as many tokens: " in told
    ) == (name in CANNOT_SHARE)


def test_whoever_is_slower_than_meant_is_told_once(tmp_path, capsys):
    model = load(checkpoint_of(tmp_path / "model", "gpt_oss"), device="cpu")
    for _ in range(2):
        engine.score_replies(model, PROMPT, REPLIES)
    [line] = [
        line for line in capsys.readouterr().err.splitlines() if "read whole" in line
    ]
    assert "s_aux" in line


# --- memory ---------------------------------------------------------------------------------------


class Allocator:
    """A card with room for some numbers at a time; the tensors of a try that failed must be gone
    before the next.
    """

    def __init__(self, most: int):
        self.most, self.tries, self.held = most, [], []
        self.last = lambda: None

    def read(self, part: slice, tokens: int) -> torch.Tensor:
        states = torch.empty((part.stop - part.start) * tokens)
        self.last = weakref.ref(states)
        self.tries.append(part.stop - part.start)
        if len(states) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return torch.empty(part.stop - part.start)

    def empty_cache(self) -> None:
        self.held.append(self.last() is not None)


def test_memory_is_given_back_before_it_is_asked_for_again_and_every_try_is_smaller(
    monkeypatch,
):
    card = Allocator(most=40)
    # the end of the except clause is enough
    monkeypatch.setattr("lib.models.hardware.gc.collect", lambda: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", card.empty_cache)
    scorer = stages.Scorer(
        planting.random_model(64, 2, torch.float32), planting.random_inputs(), 32_768
    )
    scorer._in_batches(torch.zeros(100, 4), lambda part: card.read(part, 4))
    # a batch may have 8,192 replies, but the block that failed had 100
    assert card.tries[:5] == [100, 50, 25, 12, 6]
    # 40 numbers are 10 replies
    assert sum(card.tries[4:]) == 100 and set(card.tries[4:]) == {6, 4}
    assert card.held == [False] * 4


def test_batches_of_whole_conversations_count_the_prefix(monkeypatch):
    scorer = stages.Scorer(
        planting.random_model(64, 2, torch.float32), planting.random_inputs(), 260
    )
    ids, sizes = torch.full((30, 2), 11), []
    plain = scorer._rewards
    monkeypatch.setattr(
        scorer, "_rewards", lambda ids: sizes.append(len(ids)) or plain(ids)
    )
    shared = scorer(ids)
    scorer.shares_prefix = False
    np.testing.assert_allclose(scorer(ids), shared, atol=1e-5)
    # 130 replies of 2 tokens; 10 conversations of 24 + 2 tokens
    assert sizes == [30, 10, 10, 10]


def test_a_part_of_the_replies_is_measured_in_the_spread_of_all():
    """Short replies alone may have nearly equal rewards, which would make noise look large."""
    states = torch.ones(4, 2)
    whole = agreement.Reading(states, torch.tensor([0.0, 0.1, 10.0, -10.0]))
    part = agreement.Reading(states[:2], whole.rewards[:2])
    moved = agreement.Reading(states[:2], part.rewards + 0.1)
    spread = float(whole.rewards.std(correction=0))
    assert moved.differs(part).rewards == pytest.approx(2.0)
    assert moved.differs(part, whole).rewards == pytest.approx(0.1 / spread)
