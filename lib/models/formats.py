"""Weights in other formats (pickles, adapters, other tensor names), written once as ordinary
checkpoints.

No code runs: torch reads pickles with weights_only, and peft merges adapters. data/tensor_names.csv
has the names.
"""

import json
import re
import shutil
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    MODEL_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
)

from .. import DATA, InputError
from ..io import replacing
from .files import enough_memory, open_tensors, quiet_transformers, read_json, refusing

NAMES = DATA / "tensor_names.csv"
# Model type of a checkpoint -> the model type and the class of transformers that it is written for.
CLASSIFIERS = {"internlm2": ("llama", "LlamaForSequenceClassification")}
# what a dictionary of torch.save may hold weights under
NESTED = ("state_dict", "model_state_dict", "model", "module")
RESAVE = "save it with save_pretrained, which writes safetensors"
# in the names of what peft trained in full, beside what it replaces
SAVED = ".modules_to_save.default."
# of transformers' classifiers
HEADS = ("score.weight", "classifier.weight", "classifier.out_proj.weight")
TASKS = {
    "SEQ_CLS": AutoModelForSequenceClassification,
    "TOKEN_CLS": AutoModelForTokenClassification,
}
# other kinds, such as PiSSA, change the base too
START_VALUES = (None, True, False, "gaussian", "orthogonal")


def reason_to_convert(folder: Path, files: list[Path]) -> str:
    """Return why a checkpoint with these weights cannot be read as it is; "" if it can."""
    if any(path.suffix == ".bin" for path in files):
        return "its weights are pickled"
    try:
        config = read_json(folder / "config.json")
        if config.get("model_type") in CLASSIFIERS:
            return "it names its tensors in its own way"
        if files and text_config(folder, config):
            return "it also reads pictures or sounds, and its language model is taken out"
        for path in files:
            with open_tensors(path) as tensors:
                names = list(tensors.keys())
                if is_reward_head(
                    {
                        name: tensors.get_slice(name).get_shape()
                        for name in names
                        if "lm_head" in name
                    }
                ):
                    return "its lm_head has a row for each reward, and no row for each token"
                if any(
                    _ordinary_name(name, _kind_of(config)) != name or SAVED in name
                    for name in names
                ):
                    return "it names its tensors in its own way"
    except Exception:  # whoever opens the file says what is wrong with it
        return ""
    return ""


def is_reward_head(shapes: dict[str, Sequence[int]]) -> bool:
    """Return whether an lm_head among tensors of these shapes has one or two rows, as a reward
    model's head.
    """
    return any(shape[0] <= 2 for name, shape in shapes.items() if name.endswith("lm_head.weight"))


def text_config(folder: Path, config: dict) -> PreTrainedConfig | None:
    """Return the configuration of the language model in a model that reads more than text; None for
    other models.

    config: the content of the folder's config.json.
    """
    if not isinstance(config.get("text_config"), dict) or config.get("is_encoder_decoder"):
        return None
    whole = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    text = whole.get_text_config()
    return None if text is whole or type(text) not in MODEL_MAPPING else text


def convert(folder: Path, files: list[Path], target: Path) -> None:
    """Write a checkpoint as an ordinary one, under transformers' own names, into `target`. files:
    its weights.

    InternLM2 computes as Llama does, with queries, keys and values in one tensor, and is read at a
    token that is put after the conversation. Of models that also read pictures or sounds the part
    that reads text is written.
    """
    config = read_json(folder / "config.json")
    family, rows = config.get("model_type"), {}
    with refusing(f"{folder} cannot be written under transformers' own names", "download it again"):
        text, names = text_config(folder, config), {name for path in files for name in _names(path)}
        kind = _kind_of(config) + " text_config" * bool(text)
        replaced = {name.replace(SAVED, ".") for name in names if SAVED in name}

        def renamed(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
            kept = {
                name.replace(SAVED, "."): tensor
                for name, tensor in tensors.items()
                if name not in replaced
            }
            parts = {
                part: tensor
                for name in kept
                for part, tensor in _apart(name, kept[name], config).items()
            }
            found = {
                new: tensor for name, tensor in parts.items() if (new := _ordinary_name(name, kind))
            }
            if is_reward_head({name: tensor.shape for name, tensor in found.items()}):
                found = {
                    name.replace("lm_head.", "score."): tensor for name, tensor in found.items()
                }
                rows["lm_head"] = len(found["score.weight"])
            rows.update({name: len(tensor) for name, tensor in found.items() if name in HEADS})
            return found

        _write(target, (renamed(read_tensors(path)) for path in files), [folder])
        if family == "internlm2":
            _end_with_token(target, config["reward_token_id"])
        _write_json(target / "config.json", _ordinary_fields(config, text, rows))


def _ordinary_fields(config: dict, text: PreTrainedConfig | None, rows: dict[str, int]) -> dict:
    """Return the fields of config.json for what was written.

    text: see text_config. rows: of each head that was found; of "lm_head" if it is a reward
    model's.
    """
    architecture = (config.get("architectures") or ["none"])[0]
    if config.get("model_type") in CLASSIFIERS:
        model_type, architecture = CLASSIFIERS[config["model_type"]]
        config = config | {"model_type": model_type, "num_labels": 1}
    if text is not None:
        whole, backbone = config, MODEL_MAPPING[type(text)].__name__.removesuffix("Model")
        task = architecture.partition("For")[2].replace("ConditionalGeneration", "CausalLM")
        architecture = f"{backbone}For{task or 'SequenceClassification'}"
        kept = ("dtype", "torch_dtype", "quantization_config", "tie_word_embeddings")
        config = text.to_dict() | {
            name: whole[name] for name in kept if whole.get(name) is not None
        }
        labels = next((number for name, number in rows.items() if name in HEADS), 1)
        config |= {
            "id2label": {str(i): f"LABEL_{i}" for i in range(labels)},
            "label2id": {},
            "num_labels": labels,
        }
    if "lm_head" in rows:
        architecture = re.sub(
            r"(ForCausalLM|LMHeadModel|ForConditionalGeneration)$", "", architecture
        )
        architecture = (
            architecture.removesuffix("ForSequenceClassification") + "ForSequenceClassification"
        )
        config = config | {"num_labels": rows["lm_head"], "tie_word_embeddings": False}
    if architecture != "none":
        config = config | {"architectures": [architecture]}
    return {name: value for name, value in config.items() if name != "auto_map"}


def _names(path: Path) -> list[str]:
    """Return the names of the tensors in a file. InputError as for read_tensors."""
    if path.suffix == ".bin":
        return list(_unpickled(path))
    with open_tensors(path) as tensors:
        return list(tensors.keys())


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file. InputError if a pickled one holds more than tensors: reading
    it could run code.
    """
    if path.suffix != ".bin":
        with refusing(f"{path} cannot be read as weights alone", RESAVE):
            return load_file(path)
    # no two share memory
    return {name: tensor.clone() for name, tensor in _unpickled(path).items()}


def _unpickled(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a pickled file, mapped into memory; also those of a dictionary that
    it holds by a name.
    """
    with refusing(f"{path} cannot be read as weights alone", RESAVE):
        held = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        inside = [
            held[name]
            for name in NESTED
            if isinstance(held, dict) and isinstance(held.get(name), dict)
        ]
        tensors = inside[0] if len(inside) == 1 else held
        if not all(isinstance(name, str) for name in tensors):
            raise TypeError("it names a tensor by what is no text")
        if not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
            raise TypeError("it holds something else under the name of a tensor")
        return tensors


def _write(target: Path, parts: Iterable[dict[str, Tensor]], sources: list[Path]) -> None:
    """Write tensors into the folder `target`, one part in memory at once. The first of two with one
    name counts.

    Tokenizer and templates are copied from `sources`; the last one counts. The caller writes
    config.json at the end, which shows that the checkpoint is complete.
    """
    weight_map: dict[str, str] = {}
    for number, part in enumerate(parts):
        name = f"model-{number:05d}.safetensors"
        tensors = {
            key: tensor.contiguous() for key, tensor in part.items() if key not in weight_map
        }
        with replacing(
            target / name, size=sum(tensor.nbytes for tensor in tensors.values())
        ) as file:
            save_file(tensors, file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(tensors, name)
    for path in (path for source in sources for path in source.glob("*")):
        beside = path.suffix in (".json", ".jinja", ".model", ".txt") and ".index" not in path.name
        if beside and path.name not in ("config.json", "adapter_config.json"):
            shutil.copy(path, target / path.name)
    _write_json(target / "model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})


def _write_json(path: Path, content: dict) -> None:
    with replacing(path) as part:
        part.write_text(json.dumps(content))


# --- other names of tensors -----------------------------------------------------------------------


@cache
def rules(kind: str) -> list[tuple[str, str]]:
    """Return the patterns of data/tensor_names.csv for a kind of checkpoint, and what replaces
    each, in order.

    kind: its model type and its architecture, with a blank between.
    """
    table = pd.read_csv(NAMES, keep_default_na=False)
    table = table[[re.fullmatch(which, kind) is not None for which in table["applies_to"]]]
    return list(zip(table["pattern"], table["replacement"], strict=True))


def _ordinary_name(name: str, kind: str) -> str:
    """Return the tensor's name in an ordinary checkpoint; "" for a tensor that is not read. See
    rules for `kind`.
    """
    for pattern, replacement in rules(kind):
        name = re.sub(pattern, replacement, name)
    return name


def _kind_of(config: dict) -> str:
    return f"{config.get('model_type')} {(config.get('architectures') or ['none'])[0]}"


def _apart(name: str, tensor: Tensor, config: dict) -> dict[str, Tensor]:
    """Split a tensor of InternLM2 that holds queries, keys and values into three; return any other
    unchanged.

    Its rows, (kv_heads * (group + 2) * head_dim), hold for each key head the queries of its group,
    its key and its value.
    """
    start, wqkv, end = name.rpartition(".attention.wqkv.")
    if not wqkv:
        return {name: tensor}
    kv_heads, head_dim = (
        config["num_key_value_heads"],
        config["hidden_size"] // config["num_attention_heads"],
    )
    rows = tensor.unflatten(0, (kv_heads, -1, head_dim))  # (kv_heads, group + 2, head_dim, ...)
    parts = {"q": rows[:, :-2], "k": rows[:, -2:-1], "v": rows[:, -1:]}
    return {
        f"{start}.self_attn.{part}_proj.{end}": its_rows.flatten(0, 2)
        for part, its_rows in parts.items()
    }


def _end_with_token(folder: Path, token_id: int) -> None:
    """Let a checkpoint's chat template end with this token, at which its rewards are read."""
    settings = folder / "tokenizer_config.json"
    fields = read_json(settings)
    # a class of its repository, which is not run; tokenizer.json says the same
    fields.pop("auto_map", None)
    _write_json(settings, fields | {"tokenizer_class": "PreTrainedTokenizerFast"})
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    token = tokenizer.convert_ids_to_tokens(token_id)
    tokenizer.add_special_tokens(
        {"additional_special_tokens": [token]}, replace_extra_special_tokens=False
    )
    tokenizer.chat_template += "{% if not add_generation_prompt %}{{ '" + token + "' }}{% endif %}"
    tokenizer.save_pretrained(folder)


# --- adapters -------------------------------------------------------------------------------------


def adapter_of(folder: Path) -> dict:
    """Return the configuration of a LoRA adapter. InputError, with the remedy, for an adapter of
    another kind.
    """
    adapter = read_json(folder / "adapter_config.json", "save the adapter again")
    for name, known in (("peft_type", ("LORA",)), ("init_lora_weights", START_VALUES)):
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
    adapter, config = adapter_of(folder), read_json(base / "config.json")
    files = [
        path
        for end in ("safetensors", "bin")
        if (path := folder / f"adapter_model.{end}").is_file()
    ][:1]
    if not files:
        raise InputError(
            f"{folder} holds an adapter's configuration but no weights; download it again"
        )
    stored = read_tensors(files[0])
    own = {
        name.removeprefix("base_model.model."): tensor
        for name, tensor in stored.items()
        if ".lora_" not in name
    }
    kind = TASKS.get(str(adapter.get("task_type")), AutoModelForCausalLM)
    if kind is not AutoModelForCausalLM:
        labels = next((len(tensor) for name, tensor in own.items() if name.endswith(HEADS)), 1)
        config |= {
            "id2label": {str(i): f"LABEL_{i}" for i in range(labels)},
            "label2id": {},
            "num_labels": labels,
        }
    memory = (
        f"{folder} is an adapter whose base, {base}, does not fit into memory in float32, as "
        "merging needs"
    )
    problem = f"{folder} is an adapter that peft does not merge into {base}"
    remedy = "give the adapter's own base, or merge it where it was trained"
    with enough_memory(line=f"{memory}; merge it on a larger machine"), refusing(problem, remedy):
        merged = _merged(kind, folder, base, stored, config.get("num_labels"))
        dtype = getattr(torch, config.get("dtype") or config.get("torch_dtype") or "float32")
        # By their places in memory, so that a tied tensor is written once, under its first name
        unshared = {
            tensor.data_ptr(): (name, tensor)
            for name, tensor in reversed(merged.state_dict().items())
        }
        tensors = {
            name: own[name] if name in own else tensor.to(dtype)
            for name, tensor in unshared.values()
        }
    heads = [
        path
        for path in (folder / f"value_head.{end}" for end in ("safetensors", "bin"))
        if path.is_file()
    ][:1]
    _write(target, (tensors, *map(read_tensors, heads)), [base, folder])
    _write_json(target / "config.json", config | {"architectures": [type(merged).__name__]})


def _merged(
    kind: Any, folder: Path, base: Path, stored: dict[str, Tensor], labels: int | None
) -> PreTrainedModel:
    """Return the base with the adapter merged into it. Any error is one line of `merge`."""
    import peft  # takes seconds

    known = {field.name for field in fields(peft.LoraConfig)}
    if unknown := [
        name for name, value in adapter_of(folder).items() if value and name not in known
    ]:
        raise ValueError(f"peft {peft.__version__} does not know its {unknown[0]}")
    # what is warned of is refused below
    with quiet_transformers(), warnings.catch_warnings(action="ignore"):
        plain, report = kind.from_pretrained(
            base,
            dtype=torch.float32,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **({} if labels is None else {"num_labels": labels}),
        )
        model = peft.PeftModel.from_pretrained(plain, folder).eval()
    if lost := {
        name for name in report["missing_keys"] if f"base_model.model.{name}" not in stored
    }:
        raise ValueError(f"the base lacks {min(lost)}")
    held = peft.get_peft_model_state_dict(model)
    for name in stored.keys() | {name for name in held if ".lora_" in name}:
        if not (
            name in stored
            and name in held
            and torch.equal(held[name].float(), stored[name].float())
        ):
            raise ValueError(f"it does not take up {name} as it is there")
    return model.merge_and_unload()
