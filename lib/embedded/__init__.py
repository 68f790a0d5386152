"""Planted values, and the small models trained on them.

What was planted is read and computed without torch, of which lib.embedded.planting names two things: the type and the
softplus of its loss on tensors. Where torch is not installed, both are stood in for while that module is imported. The
module itself stays as it is, because its code decides the fingerprint of every trained model.
"""

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType

from lib import InputError


def _without_torch(*tensors: object) -> object:
    raise InputError("this needs torch, and the light installation comes without; install the extra: models")


def _import_planting_without_torch() -> None:
    modules = {name: ModuleType(name) for name in ("torch", "torch.nn", "torch.nn.functional")}
    modules["torch"].Tensor = type("Tensor", (), {})  # nothing is one
    modules["torch.nn.functional"].softplus = _without_torch
    sys.modules.update(modules)
    try:
        importlib.import_module("lib.embedded.planting")
    finally:
        for name in modules:
            del sys.modules[name]


if find_spec("torch") is None:
    _import_planting_without_torch()
