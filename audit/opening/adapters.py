"""LoRA adapters, merged by peft into their bases and written as ordinary checkpoints."""

import sys
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)

from ..paper import InputError, files
from .formats import HEADS, SAVED, label_fields, read_tensors, write, write_json

TASKS = {
    "SEQ_CLS": AutoModelForSequenceClassification,
    "TOKEN_CLS": AutoModelForTokenClassification,
}
# other kinds, such as PiSSA, change the base too
START_VALUES = (None, True, False, "gaussian", "orthogonal")


def adapter_of(folder: Path) -> dict:
    """Return the configuration of a LoRA adapter. InputError, with the remedy, for an adapter of
    another kind.
    """
    adapter = files.read_json(folder / "adapter_config.json", "save the adapter again")
    checked = (("peft_type", ("LORA",)), ("init_lora_weights", START_VALUES))
    for name, known in checked:
        if adapter.get(name) not in known:
            raise InputError(
                f"{folder} is an adapter with {name} {adapter.get(name)!r}, which is not merged "
                "here; merge it where it was trained (merge_and_unload, then save_pretrained)"
            )
    return adapter


def merge(folder: Path, base: Path, target: Path) -> None:
    """Write a LoRA adapter, merged by peft into its base in float32, as a checkpoint in `target`.

    InputError if peft does not merge it, or does not take up every tensor of the adapter as it is.
    """
    adapter = adapter_of(folder)
    config = files.read_json(base / "config.json")
    weights = files.first_file(folder, "adapter_model")
    if not weights:
        raise InputError(
            f"{folder} holds an adapter's configuration but no weights; download it again"
        )
    stored = trained_ones(read_tensors(weights[0]), folder)
    own = _trained_in_full(stored)
    kind = TASKS.get(str(adapter.get("task_type")), AutoModelForCausalLM)
    if kind is not AutoModelForCausalLM:
        rows = [len(tensor) for name, tensor in own.items() if name.endswith(HEADS)]
        config |= label_fields(rows[0] if rows else 1)
    memory = (
        f"{folder} is an adapter whose base, {base}, does not fit into memory in float32, as "
        "merging needs; merge it on a larger machine"
    )
    problem = f"{folder} is an adapter that peft does not merge into {base}"
    remedy = "give the adapter's own base, or merge it where it was trained"
    with files.enough_memory(line=memory), files.refusing(problem, remedy):
        merged = _merged(kind, folder, base, stored, config.get("num_labels"))
        named = config.get("dtype") or config.get("torch_dtype")
        dtype = getattr(torch, named or "float32")
        tensors = {
            name: own[name] if name in own else tensor.to(dtype)
            for name, tensor in _untied(merged).items()
        }
    value_head = map(read_tensors, files.first_file(folder, "value_head"))
    write(target, (tensors, *value_head), [base, folder])
    write_json(
        target / "config.json", config | {"architectures": [type(merged).__name__]}
    )


def trained_ones(stored: dict[str, Tensor], folder: Path) -> dict[str, Tensor]:
    """Return the tensors of an adapter's folder under peft's names. Of a module that is stored
    twice, the trained copy counts, and a printed line says so.
    """
    trained = {
        name.replace(SAVED, "."): tensor
        for name, tensor in stored.items()
        if SAVED in name
    }
    usual = {
        name: tensor
        for name, tensor in stored.items()
        if SAVED not in name and ".original_module." not in name
    }
    if twice := sorted(usual.keys() & trained.keys()):
        tqdm.write(
            f"{folder}: {twice[0]} is stored twice; the trained one (modules_to_save) counts",
            file=sys.stderr,
        )
    return usual | trained


def _trained_in_full(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors that are no part of a LoRA, by their names in the base."""
    return {
        name.removeprefix("base_model.model."): tensor
        for name, tensor in stored.items()
        if ".lora_" not in name
    }


def _untied(model: PreTrainedModel) -> dict[str, Tensor]:
    """Return the model's tensors by name, a tied one once, under its first name."""
    by_place = {  # in memory
        tensor.data_ptr(): (name, tensor)
        for name, tensor in reversed(model.state_dict().items())
    }
    return dict(by_place.values())


def _merged(
    kind: Any, folder: Path, base: Path, stored: dict[str, Tensor], labels: int | None
) -> PreTrainedModel:
    """Return the base with the adapter merged into it. Any error is one line of `merge`."""
    import peft  # takes seconds

    known = {field.name for field in fields(peft.LoraConfig)}
    unknown = [
        name
        for name, value in adapter_of(folder).items()
        if value and name not in known
    ]
    if unknown:
        raise ValueError(f"peft {peft.__version__} does not know its {unknown[0]}")
    # what is warned of is refused below
    with files.quiet_transformers(), warnings.catch_warnings(action="ignore"):
        plain, report = kind.from_pretrained(
            base,
            dtype=torch.float32,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **({} if labels is None else {"num_labels": labels}),
        )
        model = peft.PeftModel.from_pretrained(plain, folder).eval()
        # of a module that is stored twice, peft has read the copy that was not trained
        peft.set_peft_model_state_dict(model, stored)
    needed = {f"base_model.model.{name}" for name in report["missing_keys"]}
    if lost := needed - stored.keys():
        raise ValueError(
            f"the base lacks {min(lost).removeprefix('base_model.model.')}"
        )
    held = peft.get_peft_model_state_dict(model)
    in_model = {name for name in held if ".lora_" in name}
    for name in stored.keys() | in_model:
        in_both = name in stored and name in held
        if not in_both or not torch.equal(held[name].float(), stored[name].float()):
            raise ValueError(f"it does not take up {name} as it is there")
    return model.merge_and_unload()
