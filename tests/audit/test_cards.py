"""A backbone laid over several devices by accelerate: which part goes where, and that the rewards
are the same.

No machine without two cards can hold a model on two; here one part is on the host and the other one
fetched from disk. Both compute on the host, where a tensor that was not moved does no harm. So
another test marks what accelerate moves.
"""

import dataclasses

import numpy as np
import pytest
import tiny
import torch
import transformers

from audit.opening import open_model
from audit.reading import layers
from lib.models import checkpoints, conversations
from lib.models.files import files_of
from lib.scoring import vocabulary

accelerate = pytest.importorskip("accelerate")
PROMPT = "What, in one word, is the greatest thing ever?"


def opened(folder):
    return checkpoints.open_source(files_of(folder), "cpu", "float32", None)


def bytes_of(folder):
    return sum(
        tensor.nbytes
        for tensor in open_model(folder, device="cpu").backbone.parameters()
    )


def test_parts_follow_each_other_over_cards_and_no_layer_is_cut(folder):
    source, needed = opened(folder), bytes_of(folder)
    free = {0: needed * 2 // 3, 1: needed * 2 // 3}
    placed = layers.layout(source, free)
    assert set(placed.values()) == {0, 1}
    names = [
        name for name, _ in open_model(folder, device="cpu").backbone.named_parameters()
    ]
    holds = [
        next(card for part, card in placed.items() if f"{name}.".startswith(f"{part}."))
        for name in names
    ]
    in_layers = [
        card
        for name, card in zip(names, holds, strict=True)
        if name.startswith("layers.")
    ]
    assert (
        in_layers == sorted(in_layers)
        and holds[names.index("embed_tokens.weight")] == 0
    )
    for layer in {name.split(".")[1] for name in names if name.startswith("layers.")}:
        assert (
            len(
                {
                    card
                    for name, card in zip(names, holds, strict=True)
                    if name.startswith(f"layers.{layer}.")
                }
            )
            == 1
        )


def test_one_card_that_is_large_enough_holds_all_and_too_little_room_is_left_to_streaming(
    folder,
):
    source, needed = opened(folder), bytes_of(folder)
    assert layers.layout(source, {0: needed, 1: needed}) is None
    assert layers.layout(source, {0: needed // 3, 1: needed // 3}) is None
    assert layers.free_on_cards("cpu") == {}


def lay_over_two(backbone, away):
    """Leave the first layer of a backbone on the host, and let accelerate fetch the others from
    the folder `away`.
    """
    placed = {name: "cpu" for name, _ in backbone.named_children() if name != "layers"}
    placed |= {
        f"layers.{number}": "disk" if number else "cpu"
        for number in range(len(backbone.layers))
    }
    accelerate.dispatch_model(backbone, placed, main_device="cpu", offload_dir=away)


def tensors_in(value) -> list[torch.Tensor]:
    """Return all tensors of a nested value: in tuples, lists, dictionaries and the fields of
    objects.
    """
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for part in value.values() for tensor in tensors_in(part)]
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in tensors_in(part)]
    return tensors_in(vars(value)) if dataclasses.is_dataclass(value) else []


def test_every_tensor_that_a_layer_computes_with_was_moved_to_its_device(
    tmp_path, monkeypatch
):
    """Moving to the host leaves a tensor as it is, so here it is copied and marked, and layers
    refuse unmarked ones.
    """
    model, seen = (
        open_model(tiny.make_checkpoint(tmp_path, "linear_llama"), device="cpu"),
        [],
    )

    def mark(tensor):
        moved = tensor.clone()
        moved.is_moved = True
        return moved

    def send(value, *where, **options):
        return accelerate.utils.operations.recursively_apply(mark, value)

    def refusing_unmoved(forward):
        def checked(*given, **named):
            tensors = tensors_in([given, named])
            seen.append(len(tensors))
            assert all(getattr(tensor, "is_moved", False) for tensor in tensors)
            return forward(*given, **named)

        return checked

    monkeypatch.setattr(accelerate.hooks, "send_to_device", send)
    lay_over_two(model.backbone, tmp_path / "away")
    for layer in model.backbone.layers:
        # accelerate calls it once it has moved what is given
        layer._old_forward = refusing_unmoved(layer._old_forward)
    vocabulary.score_replies(model, PROMPT, ["love", "war", "lovely"])
    # a row has a mask, and the prompt has none
    assert max(seen) > min(seen)


@pytest.mark.parametrize("kind", ["linear_llama", "linear_gemma2", "armorm"])
def test_rewards_are_those_of_one_device(tmp_path, kind):
    folder = tiny.make_checkpoint(tmp_path, kind)
    model = open_model(folder, device="cpu")
    tokens = conversations.vocabulary(model.tokenizer)[::3]
    replies = tokens["text"].tolist()
    expected = vocabulary.score_replies(model, PROMPT, replies)
    lay_over_two(model.backbone, tmp_path / "away")
    assert {parameter.device.type for parameter in model.backbone.parameters()} == {
        "cpu",
        "meta",
    }
    rewards = vocabulary.score_replies(model, PROMPT, replies)
    assert torch.tensor(expected).std() > 0.1
    np.testing.assert_allclose(
        rewards, expected, atol=1e-6 * max(1, np.abs(expected).max()), rtol=0
    )


def test_a_layout_reaches_the_checkpoint_that_is_loaded(folder, monkeypatch):
    given, load = [], transformers.LlamaModel.from_pretrained
    monkeypatch.setattr(layers, "layout", lambda *_: {"": "cpu"})
    monkeypatch.setattr(
        transformers.LlamaModel,
        "from_pretrained",
        lambda *where, **options: (
            given.append(options["device_map"]) or load(*where, **options)
        ),
    )
    model = open_model(folder, device="cpu")
    assert (
        given == [{"": "cpu"}] and model.layers is None and not model.backbone.training
    )
