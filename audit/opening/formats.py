"""Weights in other formats (pickles, other tensor names, models that also see), written once as
ordinary checkpoints.

No code runs: torch reads pickles with weights_only. data/tensor_names.csv has the names.
"""

import json
import re
import shutil
from functools import cache
from pathlib import Path

import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import MODEL_MAPPING, PreTrainedConfig

from ..paper import DATA, InputError, loading
from ..preflight import read_json

NAMES = DATA / "tensor_names.csv"
RESAVE = "save it with save_pretrained, which writes safetensors"
# of transformers' classifiers
HEADS = ("score.weight", "classifier.weight", "classifier.out_proj.weight")


def reason_to_convert(folder: Path, weights: list[Path]) -> str:
    """Return why a checkpoint with these weights cannot be read as it is; "" if it can."""
    if any(path.suffix == ".bin" for path in weights):
        return "its weights are pickled"
    config = read_json(folder / "config.json")
    if text_config(folder, config):
        return "it also reads pictures or sounds, and its language model is taken out"
    kind = _kind_of(config)
    names = loading.stored_tensors(weights)
    if any(_ordinary_name(name, kind) != name for name in names):
        return "it names its tensors in its own way"
    return ""


def text_config(folder: Path, config: dict) -> PreTrainedConfig | None:
    """Return the configuration of the language model in a model that reads more than text; None for
    other models.

    config: the content of the folder's config.json.
    """
    is_other = config.get("is_encoder_decoder") or "quantization_config" in config
    if is_other or not isinstance(config.get("text_config"), dict):
        return None
    whole = loading.config_of(loading.Files(folder, ""))
    text = whole.get_text_config()
    if text is whole or type(text) not in MODEL_MAPPING:
        return None
    text.dtype = whole.dtype
    text.tie_word_embeddings = whole.tie_word_embeddings
    return text


def convert(folder: Path, weights: list[Path], target: Path) -> None:
    """Write a checkpoint as an ordinary one, under transformers' own names, into `target`.

    Of models that also read pictures or sounds the part that reads text is written.
    """
    config = read_json(folder / "config.json")
    text = text_config(folder, config)
    kind = _kind_of(config) + " text_config" * bool(text)
    weight_map: dict[str, str] = {}
    outputs = 1
    for number, path in enumerate(weights):
        file = f"model-{number:05d}.safetensors"
        found = {}
        for name, tensor in read_tensors(path).items():
            ordinary = _ordinary_name(name, kind)
            if ordinary in HEADS:
                outputs = len(tensor)
            if ordinary in weight_map:  # Starling's hold parts twice
                there = weight_map[ordinary]
                held = found if there == file else load_file(target / there)
                if not torch.equal(held[ordinary], tensor):
                    raise InputError(
                        f"{folder} holds {ordinary} twice, with other numbers as {name}; take the "
                        "one out that the model was not trained with"
                    )
            elif ordinary:
                found[ordinary] = tensor.contiguous()
                weight_map[ordinary] = file
        save_file(found, target / file, metadata={"format": "pt"})
    index = json.dumps({"metadata": {}, "weight_map": weight_map})
    (target / "model.safetensors.index.json").write_text(index)
    copy_others(folder, target)
    if text:
        backbone = MODEL_MAPPING[type(text)].__name__.removesuffix("Model")
        task = _architecture_of(config).partition("For")[2] or "SequenceClassification"
        task = task.replace("ConditionalGeneration", "CausalLM")
        text.architectures = [f"{backbone}For{task}"]
        text.num_labels = outputs
        text.save_pretrained(target)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file. InputError if a pickled one holds more than tensors: reading
    it could run code.
    """
    with loading.refusing(f"{path} cannot be read as weights alone", RESAVE):
        if path.suffix != ".bin":
            return load_file(path)
        held = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        # a copy of each, so that no two share memory
        return {str(name): tensor.clone() for name, tensor in held.items()}


def copy_others(folder: Path, target: Path) -> None:
    """Copy configuration, tokenizer and templates of a checkpoint."""
    for path in folder.glob("*"):
        is_read = path.suffix in (".json", ".jinja", ".model", ".txt")
        is_other = ".index" in path.name or path.name == "adapter_config.json"
        if is_read and not is_other:
            shutil.copy(path, target)


# --- other names of tensors -----------------------------------------------------------------------


@cache
def rules(kind: str) -> list[tuple[str, str]]:
    """Return the patterns of data/tensor_names.csv for a kind of checkpoint, and what replaces
    each, in order.

    kind: its model type and its architecture, with a blank between.
    """
    table = pd.read_csv(NAMES, keep_default_na=False)
    applies = [re.fullmatch(which, kind) is not None for which in table["applies_to"]]
    table = table[applies]
    return list(zip(table["pattern"], table["replacement"], strict=True))


def _ordinary_name(name: str, kind: str) -> str:
    """Return the tensor's name in an ordinary checkpoint; "" for a tensor that is not read. See
    rules for `kind`.
    """
    for pattern, replacement in rules(kind):
        name = re.sub(pattern, replacement, name)
    return name


def _kind_of(config: dict) -> str:
    return f"{config.get('model_type')} {_architecture_of(config)}"


def _architecture_of(config: dict) -> str:
    return (config.get("architectures") or ["none"])[0]
