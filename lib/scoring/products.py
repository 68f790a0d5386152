"""How a model computes while it reads: on one thread, or by oneDNN's products.

On AMD processors with AVX-512, MKL multiplies float32 matrices at the rate of AVX2, and oneDNN,
which torch ships too, at about twice that rate. Benchmarks/scoring.md measures it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

from ..models.hardware import one_thread
from ..models.reward_models import RewardModel

SMALL = 10_000_000  # parameters; a model with fewer computes on one thread, and slower by oneDNN


def is_small(model: RewardModel) -> bool:
    """Return whether a model computes on one thread, because it is small and on the CPU."""
    on_cpu = torch.device(model.device).type == "cpu"
    return on_cpu and model.backbone.num_parameters() < SMALL


@cache
def onednn_pays() -> bool:
    """Return whether this is an AMD processor with AVX-512."""
    file = Path("/proc/cpuinfo")
    about = file.read_text() if file.exists() else ""
    return "AuthenticAMD" in about and "avx512f" in about


def by_onednn(model: RewardModel) -> bool:
    """Return whether oneDNN multiplies for this model: as a table says, or where it pays."""
    pays = onednn_pays() if model.onednn is None else model.onednn
    can = torch.device(model.device).type == "cpu" and model.dtype == "float32"
    return pays and can and not is_small(model)


@contextmanager
def computing(model: RewardModel) -> Iterator[None]:
    """Let a model compute as is quickest, while this lasts."""
    usual = nn.Linear.forward
    if by_onednn(model) and not torch.is_grad_enabled():
        nn.Linear.forward = _product  # type: ignore
    try:
        with one_thread(is_small(model)):
            yield
    finally:
        nn.Linear.forward = usual  # type: ignore


def _product(layer: nn.Linear, states: Tensor) -> Tensor:
    product = torch.ops.mkldnn._linear_pointwise
    return product(states, layer.weight, layer.bias, "none", [], "")
