"""Weights that another program may have used in place of the model's own, and roundings of them."""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from transformers import PreTrainedConfig

from ..paper import loading
from .readings import Reader, config_in_file, open_reader
from .sources import Cause

# with which transformers may have drawn a head
SEEDS = [*range(128), 1234, 1337, 2023, 2024, 2025, 3407]
THETAS = (10_000.0, 500_000.0, 1_000_000.0)  # usual bases of rotary positions
FP8 = torch.float8_e4m3fn
QUANTISED = "load the weights in the dtype of the checkpoint there"


def other_weights(
    name: str, label: int | None, reader: Reader, given: dict
) -> Iterator[Reader]:
    """Yield readers with the weights that another program may have used in place of the model's
    own.
    """
    model = reader.model
    if model.is_served:
        return
    config = config_in_file(model)
    if model.head is None:
        yield from other_pooling(reader, config)
        return
    if loading.soft_caps(config) and model.attention != "uncapped":
        remedy = "say attn_implementation='eager' there, or --attention uncapped here"
        uncapped = open_reader(name, label, {**given, "attention": "uncapped"})
        cause = Cause("dropped the soft-capping of attention", remedy)
        yield replace(uncapped, cause=cause)
    if model.head_name == "linear":
        yield of_random_heads(reader, config)
    yield of_normalised_states(reader)
    yield from other_positions(reader)


def of_random_heads(reader: Reader, config: PreTrainedConfig) -> Reader:
    """Return the reader of the heads that transformers draws with each of SEEDS, one label each."""
    width = config.hidden_size
    spread = getattr(config, "initializer_range", 0.02)
    drawn = []
    for seed in SEEDS:
        generator = torch.manual_seed(seed)
        row = torch.empty(1, width)
        drawn.append(row.normal_(0, spread, generator=generator))
    head = nn.Linear(width, len(SEEDS), bias=False)
    head.weight = nn.Parameter(torch.cat(drawn))
    head = head.to(reader.model.device)
    remedy = "load the checkpoint's own head: its class, and num_labels=1"
    cause = Cause("drew the head at random", remedy)
    return Reader(reader.model, [head], cause, of_any=True)


def of_normalised_states(reader: Reader) -> Reader:
    """Return the reader whose heads read states of length 1, as servers give embeddings."""
    cause = Cause(
        "scaled the last state to length 1 before the head",
        "switch the normalisation of states off there (normalize=False)",
    )
    return Reader(reader.model, reader.heads, cause, states=partial(normalize, dim=-1))


def other_positions(reader: Reader) -> Iterator[Reader]:
    """Yield the model with other bases of its rotary positions, and without their scaling."""
    backbone = reader.model.backbone
    held = getattr(backbone.config, "rope_parameters", None)
    if (
        not hasattr(backbone, "rotary_emb")
        or not isinstance(held, dict)
        or "rope_theta" not in held
    ):
        return
    own = held["rope_theta"]
    kind = held.get("rope_type", "default")
    remedy = f"read rope_parameters of config.json there ({kind}, base {own:g})"
    texts = {
        theta: f"computed rotary positions with the base {theta:g}" for theta in THETAS
    }
    texts[own] = f"left out the scaling of rotary positions ({kind})"
    if kind == "default":
        del texts[own]  # as here
    for theta, text in texts.items():
        parameters = {**held, "rope_type": "default", "rope_theta": theta}
        config = copy.deepcopy(backbone.config)
        config.rope_parameters = parameters
        rotary = type(backbone.rotary_emb)(config).to(reader.model.device)
        other = with_module(backbone, "rotary_emb", rotary)
        model = replace(reader.model, backbone=other)
        yield Reader(model, reader.heads, Cause(text, remedy))


def other_pooling(reader: Reader, config: PreTrainedConfig) -> Iterator[Reader]:
    """Yield an encoder that names its pooling, as ModernBERT does, with the other one."""
    held = getattr(config, "classifier_pooling", None)
    if held not in ("cls", "mean"):
        return
    other = {"cls": "mean", "mean": "cls"}[held]
    words = {"cls": "at the first token", "mean": "as the mean over all tokens"}
    backbone = copy.copy(reader.model.backbone)
    backbone.config = copy.deepcopy(backbone.config)
    backbone.config.classifier_pooling = other
    cause = Cause(
        f"pooled {words[other]}", f"pool {words[held]} there, as config.json says"
    )
    model = replace(reader.model, backbone=backbone)
    yield Reader(model, [], cause)


def with_module(backbone: nn.Module, name: str, module: nn.Module) -> nn.Module:
    """Return a model that shares all modules but one with this one."""
    other = copy.copy(backbone)
    other._modules = dict(backbone._modules)
    other._modules[name] = module
    return other


# --- rounded weights and numbers ------------------------------------------------------------------


def to_int8(weight: Tensor) -> Tensor:
    """Return weights rounded to int8, in 127 steps up to the largest one of each output."""
    step = weight.abs().amax(1, keepdim=True) / 127
    return (weight / step.clamp(min=1e-12)).round() * step


def to_fp8(weight: Tensor) -> Tensor:
    """Return weights rounded to fp8 (E4M3), of which the largest one becomes 448."""
    scale = weight.abs().max() / torch.finfo(FP8).max
    rounded = (weight / scale).to(FP8)
    return rounded.to(weight.dtype) * scale


# name -> (weight of a layer, outputs first) -> rounded weight
ROUNDED: Mapping[str, Callable[[Tensor], Tensor]] = {
    "int8, one scale for each output": to_int8,
    "fp8, one scale for each layer": to_fp8,
}


def rounded_weights(reader: Reader) -> Iterator[Reader]:
    """Yield the model with the weights of its layers rounded to 8 bits, one at a time. Embeddings
    and the head are kept.
    """
    for text, rounding in ROUNDED.items():
        backbone = copy.deepcopy(reader.model.backbone)
        # of an encoder, the backbone holds the head too
        for module in backbone.base_model.modules():
            if isinstance(module, nn.Linear):
                module.weight.data = rounding(module.weight.data)
        cause = Cause(f"rounded the weights of layers to {text}", QUANTISED)
        model = replace(reader.model, backbone=backbone)
        yield Reader(model, reader.heads, cause)


def in_half(reader: Reader, dtype: str) -> Iterator[Reader]:
    """Yield the model in this dtype, by its own attention and by the plain one: they round in
    other orders.
    """
    model = reader.model
    remedy = f"compute in float32 there, or say --dtype {dtype} here"
    cause = Cause(f"computed in {dtype}", remedy)
    copied = copy.deepcopy(model.backbone)
    backbone = copied.to(getattr(torch, dtype))
    half = replace(model, backbone=backbone, dtype=dtype)
    yield Reader(half, reader.heads, cause)
    if model.attention == "sdpa":
        backbone.config._attn_implementation = "eager"
        yield Reader(half, reader.heads, cause)
