"""Weights in other formats (pickles, adapters, other tensor names), written once as ordinary checkpoints.

What is written is an ordinary checkpoint in safetensors, so that all that reads one (streaming, the check, hashes)
reads these too. No code runs: torch reads pickled weights with weights_only, and the arithmetic of an adapter is
written out here. Which family calls a tensor by which name, and where that is written, is in data/tensor_names.csv.
"""

import json
import math
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pandas as pd
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from tqdm import tqdm
from transformers import AutoTokenizer

from .. import ROOT, InputError
from ..io import replacing

PICKLED = ("pytorch_model*.bin", "value_head.bin", "adapter_model.bin")
INDEX = "model.safetensors.index.json"
PLAIN_LORA = {"peft_type": "LORA", "use_dora": False, "fan_in_fan_out": False, "bias": "none", "alpha_pattern": {},
              "rank_pattern": {}, "layer_replication": None}  # fmt: skip  # what merge can do
# Model type of a checkpoint -> the model type and the class of transformers that it is written for.
CLASSIFIERS = {"internlm2": ("llama", "LlamaForSequenceClassification"),
               "gemma3": ("gemma3_text", "Gemma3TextForSequenceClassification")}  # fmt: skip
Change = Callable[[dict[str, Tensor]], dict[str, Tensor]]  # of the tensors of one file


def unpickle(folder: Path) -> None:
    """Write pickled weights as safetensors into the same folder, unless they are there, and print a line.

    Raises InputError if a file holds more than tensors: reading it could run code.
    """
    whole_model = (folder / "model.safetensors").is_file() or (folder / INDEX).is_file()
    pickled = [
        path
        for pattern in PICKLED
        for path in sorted(folder.glob(pattern))
        if not (whole_model if path.name.startswith("pytorch_model") else (folder / _renamed(path.name)).is_file())
    ]
    if not pickled:
        return
    for path in pickled:
        try:
            tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            whole = {name: tensor.clone().contiguous() for name, tensor in tensors.items()}  # no two share memory
        except Exception as error:  # a torn file, or one with code in it, fails in many ways
            raise InputError(
                f"{path} cannot be read as weights alone ({type(error).__name__}); save it with save_pretrained, "
                "which writes safetensors"
            ) from error
        with replacing(folder / _renamed(path.name), size=path.stat().st_size) as part:
            save_file(whole, part, metadata={"format": "pt"})
    index = folder / "pytorch_model.bin.index.json"
    if index.is_file():
        named = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        _write_index(folder, {tensor: _renamed(file) for tensor, file in named.items()})
    tqdm.write(f"{folder}: its weights were pickled; they are written as safetensors beside, and read from there")


def _renamed(name: str) -> str:
    return name.replace("pytorch_model", "model").replace(".bin", ".safetensors")


def _write_index(folder: Path, weight_map: dict[str, str]) -> None:
    _write_json(folder / INDEX, {"metadata": {}, "weight_map": weight_map})


def _write_json(path: Path, content: dict) -> None:
    with replacing(path) as part:
        part.write_text(json.dumps(content))


def _write(target: Path, files: list[Path], change: Change, sources: tuple[Path, ...], config: dict) -> Path:
    """Write a checkpoint of the files' tensors as `change` makes them, one file in memory at once; return `target`.

    The tokenizer and the templates are copied from the folders `sources`; the last one counts. config.json is written
    last, so its presence shows that the checkpoint is complete. If two files hold a tensor of one name, the first
    counts.
    """
    target.mkdir(parents=True, exist_ok=True)
    weight_map: dict[str, str] = {}
    for number, path in enumerate(files):
        name = f"model-{number:05d}.safetensors"
        tensors = {key: tensor for key, tensor in change(load_file(path)).items() if key not in weight_map}
        with replacing(target / name, size=path.stat().st_size) as part:
            save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, part, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(tensors, name)
    for source in sources:
        for path in source.glob("*"):
            if path.suffix in (".json", ".jinja", ".model", ".txt") and "safetensors" not in path.name:
                shutil.copy(path, target / path.name)
    _write_index(target, weight_map)
    _write_json(target / "config.json", config)
    return target


# --- other names of tensors ---------------------------------------------------------------------------------------


@cache
def rules(kind: str) -> list[tuple[str, str]]:
    """Return the patterns of data/tensor_names.csv for a kind of checkpoint, and what replaces each, in order.

    kind: its model type and its architecture, with a blank between.
    """
    table = pd.read_csv(ROOT / "data" / "tensor_names.csv", keep_default_na=False)
    table = table[[re.fullmatch(which, kind) is not None for which in table["applies_to"]]]
    return list(zip(table["pattern"], table["replacement"], strict=True))


def _ordinary_name(name: str, kind: str) -> str:
    """Return the tensor's name in an ordinary checkpoint; "" for a tensor that is not read. See rules for `kind`."""
    for pattern, replacement in rules(kind):
        name = re.sub(pattern, replacement, name)
    return name


def _kind_of(config: dict) -> str:
    return f"{config.get('model_type')} {(config.get('architectures') or ['none'])[0]}"


def needs_other_names(folder: Path, files: list[Path]) -> bool:
    """Return whether tensors in a checkpoint's files have other names than transformers' own classes give them.

    Return False for files that cannot be read; opening them reports the error.
    """
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        kind = _kind_of(config)
        if config.get("model_type") in CLASSIFIERS:
            return True
        for path in files:
            with safe_open(path, "pt", backend="pread") as tensors:
                if any(_ordinary_name(key, kind) != key for key in tensors.keys()):  # noqa: SIM118
                    return True
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, SafetensorError):
        pass
    return False


def rename(folder: Path, files: list[Path], target: Path) -> Path:
    """Write a checkpoint under transformers' own names into `target`, unless it is there; return that folder.

    files: its weights. InternLM2 computes as Llama does, with queries, keys and values in one tensor, and is read at a
    token that is put after the conversation. Of Gemma-3 with pictures the part that reads text is written.
    """
    if (target / "config.json").is_file():
        return target
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    kind, family = _kind_of(config), config["model_type"]

    def change(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        parts = {part: tensor for name in tensors for part, tensor in _apart(name, tensors[name], config).items()}
        return {new: tensor for name, tensor in parts.items() if (new := _ordinary_name(name, kind))}

    written = config
    if family in CLASSIFIERS:
        model_type, architecture = CLASSIFIERS[family]
        written = config | config.get("text_config", {})
        written |= {"model_type": model_type, "num_labels": 1, "architectures": [architecture]}
        for name in ("auto_map", "text_config", "vision_config"):
            written.pop(name, None)
    _write(target, files, change, (folder,), written)
    if family == "internlm2":
        _end_with_token(target, config["reward_token_id"])
    return target


def _apart(name: str, tensor: Tensor, config: dict) -> dict[str, Tensor]:
    """Split a tensor of InternLM2 that holds queries, keys and values into three; return any other unchanged.

    Its rows, (kv_heads * (group + 2) * head_dim), hold for each key head the queries of its group, its key and its
    value.
    """
    start, wqkv, end = name.rpartition(".attention.wqkv.")
    if not wqkv:
        return {name: tensor}
    kv_heads, head_dim = config["num_key_value_heads"], config["hidden_size"] // config["num_attention_heads"]
    rows = tensor.unflatten(0, (kv_heads, -1, head_dim))  # (kv_heads, group + 2, head_dim, ...)
    parts = {"q": rows[:, :-2], "k": rows[:, -2:-1], "v": rows[:, -1:]}
    return {f"{start}.self_attn.{part}_proj.{end}": its_rows.flatten(0, 2) for part, its_rows in parts.items()}


def _end_with_token(folder: Path, token_id: int) -> None:
    """Let a checkpoint's chat template end with this token, at which its rewards are read."""
    settings = folder / "tokenizer_config.json"
    fields = json.loads(settings.read_text(encoding="utf-8"))
    fields.pop("auto_map", None)  # a class of its repository, which is not run; tokenizer.json says the same
    _write_json(settings, fields | {"tokenizer_class": "PreTrainedTokenizerFast"})
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    token = tokenizer.convert_ids_to_tokens(token_id)
    tokenizer.add_special_tokens({"additional_special_tokens": [token]}, replace_extra_special_tokens=False)
    tokenizer.chat_template += "{% if not add_generation_prompt %}{{ '" + token + "' }}{% endif %}"
    tokenizer.save_pretrained(folder)


# --- adapters -----------------------------------------------------------------------------------------------------


def is_adapter(folder: Path) -> bool:
    """Return whether the folder holds an adapter (peft) and no whole checkpoint."""
    return (folder / "adapter_config.json").is_file() and not (folder / "config.json").is_file()


def adapter_of(folder: Path) -> dict:
    """Return the configuration of a LoRA adapter that can be merged. InputError, with the remedy, for any other."""
    try:
        adapter = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
        base, rank = adapter["base_model_name_or_path"], int(adapter["r"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder}/adapter_config.json names no base model and rank; save it again") from error
    unusual = [name for name, plain in PLAIN_LORA.items() if (adapter.get(name) or plain) != plain]
    if unusual or not base or rank < 1:
        raise InputError(
            f"{folder} is an adapter with {unusual[0] if unusual else 'no base model'} set, which is not merged here; "
            "merge it with peft (merge_and_unload, then save_pretrained)"
        )
    return adapter


def merge(folder: Path, base: Path, files: dict[str, Path], target: Path) -> Path:
    """Write a LoRA adapter merged into its base as a checkpoint in `target`, unless it is there; return that folder.

    W + scale B A, with scale = alpha / r, or alpha / sqrt(r) where the adapter says use_rslora (Hu et al. 2022,
    section 4.1; Kalajdzievski 2023). files: which of the base's files holds each tensor.
    """
    adapter = adapter_of(folder)
    if (target / "config.json").is_file():
        return target
    scale = adapter["lora_alpha"] / (math.sqrt(adapter["r"]) if adapter.get("use_rslora") else adapter["r"])
    of_adapter = _tensors_of_adapter(folder)
    pairs = {name.removesuffix(".lora_A.weight") for name in of_adapter if name.endswith(".lora_A.weight")}
    if unknown := sorted({f"{name}.weight" for name in pairs} - files.keys()):
        raise InputError(f"{folder} adapts {unknown[0]}, which {base} lacks; give the adapter's own base")
    whole = {name: tensor for name, tensor in of_adapter.items() if ".lora_" not in name}  # the head, as a rule

    def change(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        for name in pairs & {name.removesuffix(".weight") for name in tensors}:
            weight = tensors[f"{name}.weight"]
            low_rank = of_adapter[f"{name}.lora_B.weight"].float() @ of_adapter[f"{name}.lora_A.weight"].float()
            tensors[f"{name}.weight"] = (weight.float() + scale * low_rank).to(weight.dtype)
        return whole | {name: tensor for name, tensor in tensors.items() if name not in whole}

    config = json.loads((base / "config.json").read_text(encoding="utf-8"))
    if adapter.get("task_type") == "SEQ_CLS":
        named = str((config.get("architectures") or ["none"])[0])
        config |= {"architectures": [named.replace("ForCausalLM", "ForSequenceClassification")],
                   "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}  # fmt: skip
    return _write(target, sorted(set(files.values())), change, (base, folder), config)


def _tensors_of_adapter(folder: Path) -> dict[str, Tensor]:
    """Return an adapter's tensors, by the names of the base's parts. InputError if there are none."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise InputError(f"{folder} holds an adapter's configuration but no weights; download it again")
    tensors = {name: tensor for path in files for name, tensor in load_file(path).items()}
    return {
        name.removeprefix("base_model.model.").replace(".modules_to_save.", "."): tensor
        for name, tensor in tensors.items()
    }
