"""Checkpoints: opened as transformers' own classes, from safetensors and without remote code,
and checked.
"""

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from tqdm import tqdm
from transformers import (
    MODEL_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
)

from .. import InputError
from .files import (
    Files,
    Stored,
    enough_memory,
    open_tensors,
    other_weights,
    quiet_transformers,
    refusing,
)

AutoClass = (
    type[AutoModel]
    | type[AutoModelForSequenceClassification]
    | type[AutoModelForCausalLM]
)
# that any model may have; it is built before weights are looked at
MOST_LAYERS = 1000
MOST_TOKENS = 10_000_000
# tensors of old checkpoints that models now compute
COMPUTED = ("rotary_emb.inv_freq", "attn.bias", "masked_bias")
# modules with a row for each position
POSITIONS = ("embed_positions", "position_embeddings", "wpe")


@dataclass(frozen=True)
class Source:
    """A checkpoint that is open, and how it is computed."""

    files: Files
    config: PreTrainedConfig
    device: str
    dtype: str
    attention: str

    @property
    def folder(self) -> Path:
        return self.files.folder

    @property
    def rows(self) -> int:
        """Return the rows of the embedding table, one for each token id."""
        return self.config.get_text_config().vocab_size

    @property
    def tensors(self) -> dict[str, Stored]:
        return self.files.tensors


def open_source(
    files: Files,
    device: str | None,
    dtype: str,
    attention: str | None,
    *,
    heeds_declared: bool = False,
) -> Source:
    """Return a checkpoint whose configuration is read. InputError if that is broken or not
    supported.

    device, dtype, attention: see reward_models.Options. heeds_declared: whether the attention that
    config.json declares comes before the usual one.
    """
    config = config_of(files)
    device = device_for(device)
    if attention is None and heeds_declared:
        attention = _declared(files, config)
    dtype = dtype_for(dtype, device, config)
    return Source(files, config, device, dtype, set_attention(config, attention))


# --- how it is computed ---------------------------------------------------------------------------


def device_for(device: str | None) -> str:
    """Return the device, or for None the best one of this machine. InputError if it cannot be
    used.
    """
    if device is None:
        mps = "mps" if torch.backends.mps.is_available() else "cpu"
        return "cuda" if torch.cuda.is_available() else mps
    with refusing(
        f"device '{device}' cannot be used",
        "leave device out",
        (RuntimeError, AssertionError),
    ):
        torch.empty(0, device=device)
    return device


def dtype_for(wanted: str, device: str, config: PreTrainedConfig) -> str:
    """Return the dtype to compute in: the wanted one, or for '' the checkpoint's; on a cpu
    float32 for float16.
    """
    dtype = wanted or str(config.dtype or "float32").removeprefix("torch.")
    if dtype not in ("float32", "bfloat16", "float16", "float64"):
        raise InputError(
            f"dtype must be 'float32', 'bfloat16' or 'float16', not {dtype!r}"
        )
    if (device, dtype) != ("cpu", "float16"):
        return dtype
    slower = (
        "float16 is computed in float32 on a cpu, which takes twice the memory; "
        "--dtype bfloat16 takes half of that"
    )
    tqdm.write(f"{slower}, with rewards that repeat less exactly")
    return "float32"


def config_of(files: Files) -> PreTrainedConfig:
    """Return the checkpoint's configuration. InputError if there is none, or if it cannot be
    read or supported.
    """
    folder = files.folder
    fields = files.config
    if not fields:
        nothing = "no config.json; give the folder of a saved transformers checkpoint"
        problem = f"holds {other_weights(folder) or nothing}"
    else:
        config = parsed_config(folder)
        problem = _problem_of(config) or _two_rope_bases(fields)
    if problem:
        raise InputError(f"{folder} {problem}")
    # False changes no number, but what a model's outputs are called
    config.return_dict = True
    return config


def parsed_config(folder: Path) -> PreTrainedConfig:
    """Return what transformers makes of config.json. InputError if it knows no such model."""
    place = folder / "config.json"
    try:
        with quiet_transformers():
            return AutoConfig.from_pretrained(folder, trust_remote_code=False)
    # what is not checked there fails in as many ways as there are fields
    except Exception as error:
        on_one_line = " ".join(str(error).split())
        message = on_one_line.partition(". ")[0][:150]
        raise InputError(
            f"{place} is not of an architecture that transformers knows ({message}), and code in "
            "its repository is not run; give another checkpoint, or install a newer transformers"
        ) from error


def _problem_of(config: PreTrainedConfig) -> str:
    """Return why a configuration is not supported here, with the remedy; "" if it is supported."""
    if config.get_text_config() is not config:
        return (
            f"is a {config.model_type} model that reads pictures too, and its language model is "
            "not one that transformers has by itself; save that part with the head as a checkpoint "
            "of its own"
        )
    if getattr(config, "quantization_config", None) is not None:
        return "is quantised, which changes rewards; give the checkpoint in its full precision"
    if getattr(config, "transformers_weights", None) is not None:
        return "names a weights file of its own in config.json; call it model.safetensors instead"
    window = getattr(config, "sliding_window", None)
    # transformers writes 0 where a model could have a window, but has none
    unused = window == 0 and not getattr(config, "use_sliding_window", True)
    is_count = isinstance(window, int) and window > 0
    if not (window is None or unused or is_count):
        return (
            f"has a config.json where sliding_window is {window!r}; write a number of tokens, "
            "or null"
        )
    named = config.architectures or []
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        return (
            f"has a config.json where architectures is {named!r}; write the name of its class, "
            "or null"
        )
    for name, most in {
        "num_hidden_layers": MOST_LAYERS,
        "vocab_size": MOST_TOKENS,
    }.items():
        size = getattr(config, name, 1)
        if not isinstance(size, int) or not 1 <= size <= most:
            return (
                f"has a config.json where {name} is {size!r}, which no model has; "
                "download it again"
            )
    return ""


def _two_rope_bases(fields: dict) -> str:
    """Return what is wrong with a config.json that names two bases of rotary positions; "" if it
    names one or none.
    """
    text = fields.get("text_config")
    levels = (fields, text) if isinstance(text, dict) else (fields,)
    for each in levels:
        parameters = each.get("rope_parameters")
        base = each.get("rope_theta")
        other = parameters.get("rope_theta") if isinstance(parameters, dict) else None
        if None not in (base, other) and base != other:
            return (
                f"has a config.json where rope_theta is {base:g}, which transformers 4 reads, and "
                f"rope_parameters says {other:g}, which transformers 5 reads; take the one out "
                "that the model was not trained with"
            )
    return ""


def _declared(files: Files, config: PreTrainedConfig) -> str | None:
    """Return the way of attention that config.json declares where it is not the usual one; a
    printed line says so.

    None if it declares none, or the usual one. "sdpa" drops soft-capping, and is called "uncapped"
    here.
    """
    usual = usual_attention(config)
    named = [
        files.config.get(name)
        for name in ("attn_implementation", "_attn_implementation")
    ]
    declared = next((name for name in named if name in ("eager", "sdpa")), usual)
    if declared == usual or declared == "sdpa" and not soft_caps(config):
        return None
    tqdm.write(
        f"{files.folder}: its config.json declares attention {declared!r}, which counts here; "
        f"--attention {usual} is usual for this architecture"
    )
    return "uncapped" if declared == "sdpa" else declared


def architecture_of(config: PreTrainedConfig) -> str:
    """Return the name of the class that the checkpoint was saved from, or "none"."""
    return (config.architectures or ["none"])[0]


def soft_caps(config: PreTrainedConfig) -> bool:
    """Return whether attention is soft-capped: in Gemma-2, and where the configuration names a
    cap (Gemma-3: none).
    """
    return (
        config.model_type == "gemma2"
        or getattr(config, "attn_logit_softcapping", None) is not None
    )


def set_attention(config: PreTrainedConfig, attention: str | None) -> str:
    """Return the attention to run, written into the config where soft-capping is to be dropped."""
    capped = soft_caps(config)
    problem = ""
    if attention not in (None, "eager", "sdpa", "uncapped"):
        problem = f"attention must be 'eager', 'sdpa' or 'uncapped', not {attention!r}"
    elif attention == "uncapped" and not capped:
        problem = (
            "attention 'uncapped' is for models that soft-cap, as Gemma-2; leave "
            "attention out"
        )
    elif attention == "sdpa" and capped:
        problem = (
            "sdpa silently drops Gemma-2's soft-capping; leave attention out, or say "
            "'uncapped'"
        )
    if problem:
        raise InputError(problem)
    if attention == "uncapped":
        config.attn_logit_softcapping = None
    return attention or usual_attention(config)


def without_cap(attention: str) -> str:
    """Return the name by which transformers knows a way of attention of set_attention."""
    return "eager" if attention == "uncapped" else attention


def usual_attention(config: PreTrainedConfig) -> str:
    """Return the way of attention that is taken if nobody names one: "eager" where "sdpa" would
    drop something.
    """
    # BLOOM
    without_sdpa = not getattr(
        MODEL_MAPPING.get(type(config), None), "_supports_sdpa", True
    )
    return "eager" if soft_caps(config) or without_sdpa else "sdpa"


def from_safetensors(
    kind: AutoClass,
    files: Files,
    config: PreTrainedConfig,
    dtype: str,
    attention: str | None,
) -> tuple[PreTrainedModel, dict]:
    """Return the checkpoint as a model of this Auto class, without remote code, and the report of
    its loading.

    `attention` comes from set_attention, or is None where the architecture decides.
    """
    how = {
        "dtype": getattr(torch, dtype),
        "attn_implementation": attention and without_cap(attention),
    }
    with quiet_transformers(), built_from(files.folder):
        with torch.device("meta"):  # only to learn which class it is
            own = type(
                kind.from_config(copy.deepcopy(config), trust_remote_code=False, **how)
            )
        paths = {stored.path for stored in files.tensors.values()}
        opened = {path: open_tensors(path) for path in paths}
        tensors = {
            key: opened[stored.path].get_slice(key)
            for key, stored in files.tensors.items()
        }
        model, report = own.from_pretrained(
            None,
            config=config,
            state_dict=tensors,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **how,
        )
    _limit_positions(model, files.folder)
    return read_each_length_anew(model), report


def load_backbone(source: Source) -> PreTrainedModel:
    """Return the backbone with its weights, in eval mode on the device."""
    backbone, report = from_safetensors(
        AutoModel, source.files, source.config, source.dtype, source.attention
    )
    # what has no such prefix is the head's, and is checked there
    refuse_unloaded(source.folder, report, f"{backbone.base_model_prefix}.")
    return ready(backbone, source.device)


def _limit_positions(model: PreTrainedModel, folder: Path) -> None:
    """Let a model whose positions are rows of a table (GPT-2, OPT, BERT) refuse longer inputs
    before it reads them.
    """
    tables = [
        part
        for name, part in model.named_modules()
        if name.rpartition(".")[2] in POSITIONS
    ]
    # OPT begins at row 2, and RoBERTa behind the row of the padding token.
    limits = [
        table.num_embeddings
        - getattr(
            table, "offset", 0 if table.padding_idx is None else table.padding_idx + 1
        )
        for table in tables
        if isinstance(table, nn.Embedding)
    ]

    def check(_: nn.Module, given: tuple, named: dict) -> None:
        read = next(
            (
                named[name]
                for name in ("input_ids", "inputs_embeds")
                if named.get(name) is not None
            ),
            *given[:1],
        )
        positions = named.get("position_ids")
        length = read.shape[1]
        if positions is not None:
            length = int(positions.max()) + 1
        if length > min(limits):
            raise InputError(
                f"{folder} reads at most {min(limits):,} tokens, not {length:,}; shorten the "
                "prompt, or leave the reply out"
            )

    if limits:
        model.base_model.register_forward_pre_hook(check, with_kwargs=True)


def length_limit(config: PreTrainedConfig) -> int | None:
    """Return how many tokens a conversation may have before its length changes all positions; None:
    no limit.

    Rotary embeddings of the kinds `dynamic` and `longrope` choose other frequencies for longer
    conversations.
    """
    rope = getattr(config, "rope_parameters", None) or {}
    # one, or one per kind of layer
    of_kinds = [value for value in rope.values() if isinstance(value, dict)]
    ropes = [rope, *of_kinds]
    limits = [
        config.max_position_embeddings
        for rope in ropes
        if "dynamic" in str(rope.get("rope_type"))
    ]
    limits += [
        rope["original_max_position_embeddings"]
        for rope in ropes
        if rope.get("rope_type") == "longrope"
    ]
    return min(limits, default=None)


def read_each_length_anew(model: PreTrainedModel) -> PreTrainedModel:
    """Return the same model, which forgets before each input the frequencies of the longest
    conversation so far.
    """

    def forget(*_: object) -> None:
        for module in model.modules():
            if not hasattr(module, "original_max_seq_len"):
                continue
            buffers = dict(module.named_buffers(recurse=False))
            for name in [*vars(module), *buffers]:
                if name.endswith("max_seq_len_cached"):
                    setattr(module, name, module.original_max_seq_len)
                elif name.endswith("original_inv_freq"):
                    # so that it can be changed in any mode
                    with torch.inference_mode(False):
                        setattr(
                            module,
                            name.replace("original_", ""),
                            getattr(module, name).clone(),
                        )

    if length_limit(model.config) is not None:
        model.register_forward_pre_hook(forget)
    return model


@contextlib.contextmanager
def built_from(folder: Path) -> Iterator[None]:
    """Turn a failure to build a model into one line: too little memory, or a config.json that is
    wrong.
    """
    sizes = [path.stat().st_size for path in folder.glob("*.safetensors")]
    gigabytes = sum(sizes) / 1e9
    memory = (
        f"{folder} does not fit into memory: its weights take {gigabytes:.1f} GB on disk, and "
        "twice that in float32 if they are kept in half precision; use a GPU or a machine with more"
    )
    wrong = f"{folder}: no model can be built from config.json"
    with (
        refusing(wrong, "correct it, or download the checkpoint again"),
        enough_memory(line=memory),
    ):
        yield


def ready(model: PreTrainedModel, device: str) -> PreTrainedModel:
    """Return the same model on the device and in eval mode. InputError if it does not fit there."""
    gigabytes = model.get_memory_footprint() / 1e9
    with enough_memory(
        line=f"the model does not fit on {device}: it takes {gigabytes:.1f} GB; use a larger one"
    ):
        return model.to(device).eval()


def refuse_unloaded(
    folder: Path, report: dict, prefix: str = "", head_name: str = ""
) -> None:
    """Raise InputError if the loading report names a tensor that is missing or misshapen, or one
    with this prefix that is left over.

    head_name: the head that the tensors belong to; "" for the tensors of the backbone.
    """
    misshapen = [
        key[0] if isinstance(key, tuple) else str(key)
        for key in report["mismatched_keys"]
    ]
    extra = [
        key
        for key in report["unexpected_keys"]
        if key.startswith(prefix) and not key.endswith(COMPUTED)
    ]
    what, whose = (
        ("head tensors", f" for head {head_name}") if head_name else ("tensors", "")
    )
    for problem, wrong in (
        ("lacks", report["missing_keys"]),
        ("misshapes", misshapen),
        ("has unexpected", extra),
    ):
        if wrong:
            raise InputError(
                f"{folder} {problem} {what} {', '.join(sorted(wrong)[:3])}{whose}; check "
                "config.json and the revision, or download the checkpoint again"
            )
