"""Checks of a model's weights and vocabulary."""

import json
import math
import re
from collections import Counter
from pathlib import Path

import torch
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from ..paper import InputError, RewardModel, checkpoints, conversations, heads
from ..paper import files as models_files
from .report import Row, attempt, note, ok, wrong

CAP = 50.0  # of Gemma-2's attention, in all models that were published
# in a header
DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "BF16": "bfloat16",
    "F16": "float16",
    "I64": "int64",
}
# memory that scoring takes, as a share of the weights'; what a batch needs adapts itself
BESIDE = 1.2
# strings that look as if they were one token each
CONTROL = re.compile(r"<\|[^<>|\s]+\|>|<[a-z]+(?:_[a-z]+)+>")


def numbers_stored(files: models_files.Files) -> Counter:
    """Return how many numbers of each dtype a checkpoint's tensors hold. InputError as for
    files.stored_tensors.
    """
    stored: Counter = Counter()
    for _, dtype, shape in files.tensors.values():
        stored[DTYPES.get(dtype, dtype)] += math.prod(shape)
    return stored


def size_of(dtype: str) -> int:
    """Return the bytes of a number; of a dtype that torch does not know, 1."""
    return getattr(getattr(torch, dtype, None), "itemsize", 1)


def weight_rows(
    model: RewardModel, label: int | None, about: conversations.Conversation
) -> list[Row]:
    """Return the rows about the weights of a model, and how they are computed. `about` is some
    conversation.
    """
    assert model.files is not None
    folder = model.files.folder
    stored = numbers_stored(model.files)
    config = checkpoints.config_of(model.files)  # as in the file
    return [
        attempt("files", _files, model, folder, stored),
        attempt("head", _head, model, config, label, about),
        attempt("attention", _attention, model, config),
        attempt("precision", _precision, model, config, stored),
        attempt("memory", _memory, model, stored),
    ]


def _files(model: RewardModel, folder: Path, stored: Counter) -> Row:
    text = model.backbone.config.get_text_config()
    parameters = stored.total()
    held = sum(count * size_of(dtype) for dtype, count in stored.items())
    found = (
        f"{checkpoints.architecture_of(model.backbone.config)}, {text.num_hidden_layers} layers of "
        f"width {text.hidden_size}; {_size(held)}, {parameters / 1e9:.2g} billion numbers"
    )
    numbers = {"bytes": held, "parameters": parameters}
    if "auto_map" not in json.loads(
        (folder / "config.json").read_text(encoding="utf-8")
    ):
        return ok(found, "", numbers)
    formula = "is read by its tensors' names and shapes"
    if model.head is not None and not heads.LAYOUTS[model.head_name].is_linear:
        formula = "is written in lib/models/heads.py from its formula"
    return note(
        f"{found}; the code in its repository is not run: its head {formula}",
        "elsewhere say trust_remote_code=True, or another class is loaded without a word",
        numbers,
    )


def _head(
    model: RewardModel,
    config: PreTrainedConfig,
    label: int | None,
    about: conversations.Conversation,
) -> Row:
    """Check whether the head holds finite numbers that are not all zero, and say where its gate
    reads.
    """
    if model.head is None:
        outputs = (
            "one output"
            if label is None
            else f"its output {label} of {config.num_labels}"
        )
        return ok(f"the encoder's own classifier, with {outputs}")
    held = {
        key: tensor
        for key, tensor in model.head.state_dict().items()
        if tensor.is_floating_point()
    }
    for key, tensor in held.items():
        if not torch.isfinite(tensor).all():
            raise InputError(
                f"{key} holds numbers that are not finite; download the checkpoint again"
            )
        if key.endswith(".weight") and not tensor.any():
            raise InputError(
                f"{key} is zero throughout, so it was never trained; download the checkpoint again"
            )
    others = f" and {len(held) - 1} others" if len(held) > 1 else ""
    found = f"{model.head_name}: {next(iter(held))}{others}" + (
        f", output {label}" if label is not None else ""
    )
    mean, std = (
        getattr(model.head, name, usual)
        for name, usual in (("mean", 0.0), ("std", 1.0))
    )
    if (mean, std) != (0.0, 1.0):
        found += f", less {mean:g} and divided by {std:g}, as config.json says"
    if model.gated:
        found += f"; its gate reads position {about.gate_position}, where the user's turn ends"
    if model.head_name == "urm_helpfulness":
        return note(
            f"{found}; helpfulness alone, as the paper's code read it, is not the reward",
            "leave --head out",
        )
    is_linear = heads.LAYOUTS[model.head_name].is_linear
    if is_linear and config.num_labels != 1 and label is None:
        return note(
            f"{found}; config.json says {config.num_labels} labels, the head has one",
            "elsewhere load with num_labels=1, or the head is drawn at random",
        )
    return ok(found)


def vocabulary(tokenizer: PreTrainedTokenizerBase, rows: int) -> Row:
    """Say how many rows of the embedding table have a token. Loading refuses a token without a
    row.
    """
    largest = max(tokenizer.get_vocab().values())
    spare = (
        f"; {rows - 1 - largest} rows have no token, and are not scored"
        if rows - 1 > largest
        else ""
    )
    return ok(f"{len(tokenizer):,} tokens in {rows:,} rows of embeddings{spare}")


def special_tokens(
    tokenizer: PreTrainedTokenizerBase, about: conversations.Conversation
) -> Row:
    """Check whether the control strings that the template prints are tokens of this tokenizer."""
    prompt = about.prompt.strip()
    around = about.before.replace(prompt, "") + about.after
    strings = dict.fromkeys(CONTROL.findall(around))
    ids = {
        text: tokenizer(text, add_special_tokens=False)["input_ids"] for text in strings
    }
    unknown = tokenizer.unk_token_id
    if lost := [text for text, parts in ids.items() if unknown in parts]:
        found = (
            f"the template prints {', '.join(lost)}, which this tokenizer does not know"
        )
        return wrong(found, "give the tokenizer that the model was trained with")
    if split := [
        f"{text} is read as {len(parts)} ids"
        for text, parts in ids.items()
        if len(parts) != 1
    ]:
        remedy = (
            "right only if the model was trained with this template and this tokenizer"
        )
        return note(f"no tokens, but text: {', '.join(split)}", remedy)
    return ok(
        f"{', '.join(strings)} are one id each"
        if strings
        else "the template prints none"
    )


def _attention(model: RewardModel, config: PreTrainedConfig) -> Row:
    """Check that Gemma-2's soft-capping is there and runs."""
    if model.attention == "uncapped":
        return note(
            "without soft-capping, as asked for and as the paper's code ran it",
            "leave --attention out to score it as it was trained",
        )
    if not checkpoints.soft_caps(config):
        return ok(f"{model.attention}; the architecture has no soft-capping")
    if config.attn_logit_softcapping is None:
        return wrong(
            "config.json says attn_logit_softcapping null, so nothing is capped",
            f"Gemma-2 was trained with {CAP:g}: write that there",
        )
    return ok(
        f"{model.attention}, soft-capped at {config.attn_logit_softcapping:g}; sdpa would drop the "
        "cap"
    )


def _precision(model: RewardModel, config: PreTrainedConfig, stored: Counter) -> Row:
    dtype = model.dtype
    declared = str(config.dtype or "").removeprefix("torch.")
    most, _ = stored.most_common()[0]
    found = f"kept in {' and '.join(stored)}, computed in {dtype}, the head in float32"
    if dtype == "float16" and most in ("bfloat16", "float32"):
        return note(
            f"{found}: numbers beyond 65,504 become infinite", f"say --dtype {most}"
        )
    if size_of(dtype) < size_of(most):
        return note(
            f"{found}: rounded", f"say --dtype {most} for rewards with fewer ties"
        )
    if declared and declared != most:
        return note(
            f"{found}; config.json says {declared}",
            f"elsewhere dtype='auto' takes {declared}: name the dtype",
        )
    return ok(found)


def _memory(model: RewardModel, stored: Counter) -> Row:
    needed = stored.total() * size_of(model.dtype) * BESIDE
    found = f"about {_size(needed)} of {model.device} memory"
    if model.layers is None:
        return ok(found, "", {"bytes needed": int(needed)})
    return note(
        f"{found}: it is scored layer by layer, which needs room for two layers at a time",
        "nothing to do: make score chooses that by itself, and STREAM=1 asks for it",
    )


def _size(number: float) -> str:
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.2g} MB"
