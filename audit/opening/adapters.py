"""LoRA adapters, merged by peft into their bases and written as ordinary checkpoints."""

from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)

from ..paper import InputError, loading
from ..preflight import read_json
from .formats import HEADS, copy_others

TASKS = {
    "SEQ_CLS": AutoModelForSequenceClassification,
    "TOKEN_CLS": AutoModelForTokenClassification,
}
# other kinds, such as PiSSA, change the base too
START_VALUES = (None, True, False, "gaussian", "orthogonal")


def adapter_of(folder: Path) -> dict:
    """Return the configuration of a LoRA adapter. InputError for an adapter of another kind."""
    adapter = read_json(folder / "adapter_config.json")
    start = adapter.get("init_lora_weights")
    if adapter.get("peft_type") != "LORA" or start not in START_VALUES:
        raise InputError(
            f"{folder} is an adapter of {adapter.get('peft_type')} that begins with {start!r}, and "
            "is not merged here; merge it where it was trained (merge_and_unload)"
        )
    return adapter


def merge(folder: Path, base: Path, target: Path) -> None:
    """Write a LoRA adapter, merged by peft into its base in float32, as a checkpoint in `target`.

    InputError if peft does not merge it, or does not take up every tensor of the adapter as it is.
    """
    problem = f"{folder} is an adapter that peft does not merge into {base}"
    remedy = "give the adapter's own base, or merge it where it was trained"
    sources = [base, folder]
    # the adapter's own tokenizer counts whole, and no file of its base's stands beside it
    if (folder / "tokenizer_config.json").is_file():
        loading.tokenizer_of(loading.Files(folder, ""))  # refuses a part of one
        sources = [folder]
    for source in sources:
        copy_others(source, target)
    with (
        loading.enough_memory("merge it in float32"),
        loading.refusing(problem, remedy),
    ):
        _merged(folder, base).save_pretrained(target)


def _merged(folder: Path, base: Path) -> PreTrainedModel:
    """Return the base with the adapter merged into it, in the base's dtype; what was trained in
    full keeps its own. Any error is one line of `merge`.
    """
    import peft  # takes seconds

    stored = peft.load_peft_weights(str(folder), device="cpu")
    heads = [len(tensor) for name, tensor in stored.items() if name.endswith(HEADS)]
    kind = TASKS.get(adapter_of(folder).get("task_type"), AutoModelForCausalLM)
    is_classifier = kind is not AutoModelForCausalLM
    plain, report = kind.from_pretrained(
        base,
        dtype=torch.float32,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
        **({"num_labels": (heads or [1])[0]} if is_classifier else {}),
    )
    model = peft.PeftModel.from_pretrained(plain, folder).eval()
    needed = {f"base_model.model.{name}" for name in report["missing_keys"]}
    if lost := needed - stored.keys():
        raise ValueError(f"neither holds {min(lost)}")
    held = peft.get_peft_model_state_dict(model)
    in_model = {name for name in held if ".lora_" in name}
    for name in stored.keys() | in_model:
        in_both = name in stored and name in held
        if not in_both or not torch.equal(held[name].float(), stored[name].float()):
            raise ValueError(f"it does not take up {name} as it is there")
    named = read_json(base / "config.json")
    dtype = named.get("dtype") or named.get("torch_dtype") or "float32"
    merged = model.merge_and_unload().to(getattr(torch, dtype))
    for name, parameter in merged.named_parameters():
        in_full = stored.get(f"base_model.model.{name}")
        if in_full is not None:
            parameter.data = in_full
    return merged
