"""How a model computes while it reads: on one thread, by oneDNN's products, by compiled parts.

On AMD processors with AVX-512, MKL multiplies float32 matrices at the rate of AVX2, and oneDNN,
which torch ships too, at about twice that rate. Benchmarks/scoring.md measures it.
"""

import contextlib
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..models.hardware import one_thread
from ..models.reward_models import RewardModel

SMALL = 10_000_000  # parameters; a model with fewer computes on one thread, and slower by oneDNN
PROMPTS = 4  # from which on compiling pays
PARTS = ("RMSNorm", "LayerNorm", "MLP")  # how the names of compiled classes end


def is_small(model: RewardModel) -> bool:
    """Return whether a model computes on one thread, because it is small and on the CPU."""
    on_cpu = torch.device(model.device).type == "cpu"
    return on_cpu and model.backbone.num_parameters() < SMALL


@cache
def onednn_pays() -> bool:
    """Return whether this is an AMD processor with AVX-512."""
    with contextlib.suppress(OSError):
        about = Path("/proc/cpuinfo").read_text()
        return "AuthenticAMD" in about and "avx512f" in about
    return False


def by_onednn(model: RewardModel) -> bool:
    """Return whether oneDNN multiplies for this model: as a table says, or where it pays."""
    on_cpu = torch.device(model.device).type == "cpu"
    if not on_cpu or model.dtype != "float32" or is_small(model):
        return False
    return onednn_pays() if model.onednn is None else model.onednn


@contextlib.contextmanager
def computing(model: RewardModel, stage: nn.Module) -> Iterator[None]:
    """Let a stage of this model compute as is quickest, while this lasts."""
    linear = []
    if by_onednn(model):
        linear = [each for each in stage.modules() if type(each) is nn.Linear]
    with one_thread(is_small(model)):
        for each in linear:
            each.forward = partial(_product, each)  # type: ignore[method-assign]
        try:
            yield
        finally:
            for each in linear:
                del each.forward


def _product(layer: nn.Linear, states: Tensor) -> Tensor:
    if torch.is_grad_enabled():
        return nn.Linear.forward(layer, states)
    weight, bias = layer.weight, layer.bias
    return torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "")


@contextlib.contextmanager
def compiled(backbone: PreTrainedModel, prompts: int) -> Iterator[None]:
    """Let norms and MLPs be compiled on a GPU while this lasts, if so many prompts pay for it."""
    usual = {}
    if prompts >= PROMPTS and backbone.device.type == "cuda":
        classes = {type(part) for part in backbone.modules()}
        usual = {
            each: each.forward for each in classes if each.__name__.endswith(PARTS)
        }
    for each, forward in usual.items():
        each.forward = torch.compile(forward, dynamic=True)
    try:
        yield
    finally:
        for each, forward in usual.items():
            each.forward = forward
