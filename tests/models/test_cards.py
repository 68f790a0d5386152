"""A backbone laid over several devices by accelerate: which part goes where, and that the rewards are the same.

No machine without two cards can hold a model on two; here one part is on the host and the other one fetched from disk.
"""

import numpy as np
import pytest
import tiny
import torch
import transformers

from lib.models import checkpoints, conversations, layers, reward_models
from lib.scoring import engine

accelerate = pytest.importorskip("accelerate")
PROMPT = "What, in one word, is the greatest thing ever?"


def bytes_of(folder):
    return sum(tensor.nbytes for tensor in reward_models.load(folder, device="cpu").backbone.parameters())


def test_parts_follow_each_other_over_cards_and_no_layer_is_cut(folder):
    config, needed = checkpoints.config_of(folder), bytes_of(folder)
    free = {0: needed * 2 // 3, 1: needed * 2 // 3}
    placed = layers.layout(folder, config, "linear", "float32", free)
    assert set(placed.values()) == {0, 1}
    names = [name for name, _ in reward_models.load(folder, device="cpu").backbone.named_parameters()]
    holds = [next(card for part, card in placed.items() if f"{name}.".startswith(f"{part}.")) for name in names]
    in_layers = [card for name, card in zip(names, holds, strict=True) if name.startswith("layers.")]
    assert in_layers == sorted(in_layers) and holds[names.index("embed_tokens.weight")] == 0
    for layer in {name.split(".")[1] for name in names if name.startswith("layers.")}:
        assert len({card for name, card in zip(names, holds, strict=True) if name.startswith(f"layers.{layer}.")}) == 1


def test_one_card_that_is_large_enough_holds_all_and_too_little_room_is_left_to_streaming(folder):
    config, needed = checkpoints.config_of(folder), bytes_of(folder)
    assert layers.layout(folder, config, "linear", "float32", {0: needed, 1: needed}) is None
    assert layers.layout(folder, config, "linear", "float32", {0: needed // 3, 1: needed // 3}) is None
    assert layers.free_on_cards("cpu") == {}


@pytest.mark.parametrize("kind", ["linear_llama", "linear_gemma2", "armorm"])
def test_rewards_are_those_of_one_device(tmp_path, kind):
    folder = tiny.make_checkpoint(tmp_path, kind)
    model = reward_models.load(folder, device="cpu")
    tokens = conversations.vocabulary(model.tokenizer)[::3]
    replies = tokens["text"].tolist()
    expected = engine.score_replies(model, PROMPT, replies)
    layers = [name for name, _ in model.backbone.layers.named_children()]
    placed = {name: "cpu" for name, _ in model.backbone.named_children() if name != "layers"}
    placed |= {f"layers.{number}": "cpu" if number == layers[0] else "disk" for number in layers}
    accelerate.dispatch_model(model.backbone, placed, main_device="cpu", offload_dir=tmp_path / "away")
    assert {parameter.device.type for parameter in model.backbone.parameters()} == {"cpu", "meta"}
    rewards = engine.score_replies(model, PROMPT, replies)
    assert torch.tensor(expected).std() > 0.1
    np.testing.assert_allclose(rewards, expected, atol=1e-6 * max(1, np.abs(expected).max()), rtol=0)


def test_a_layout_reaches_the_checkpoint_that_is_loaded(folder, monkeypatch):
    given, load = [], transformers.LlamaModel.from_pretrained
    monkeypatch.setattr(layers, "layout", lambda *_: {"": "cpu"})
    monkeypatch.setattr(
        transformers.LlamaModel, "from_pretrained",
        lambda *where, **options: given.append(options["device_map"]) or load(*where, **options),
    )  # fmt: skip
    model = reward_models.load(folder, device="cpu")
    assert given == [{"": "cpu"}] and model.layers is None and not model.backbone.training
