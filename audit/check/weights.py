"""Checks of a model's weights and special tokens."""

import math
import re
from collections import Counter

import torch
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from ..opening import labels
from ..paper import InputError, RewardModel, conversations, loading, reward_models
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
# whose own code has ReLU between the layers of the head
OF_RELU = (reward_models.TWO_LAYERS, "Qwen2ForRewardModel")
# memory that scoring takes, as a share of the weights'; what a batch needs adapts itself
BESIDE = 1.2
# strings that look as if they were one token each
CONTROL = re.compile(r"<\|[^<>|\s]+\|>|<[a-z]+(?:_[a-z]+)+>")


def numbers_stored(files: loading.Files) -> Counter:
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
    stored = numbers_stored(model.files)
    config = loading.config_of(model.files)  # as in the file
    return [
        attempt("files", _files, model, config, stored),
        attempt("head", _head, model, config, label, about),
        attempt("attention", _attention, model, config),
        attempt("precision", _precision, model, stored),
    ]


def _files(model: RewardModel, config: PreTrainedConfig, stored: Counter) -> Row:
    text = config.get_text_config()
    held = sum(count * size_of(dtype) for dtype, count in stored.items())
    found = (
        f"{loading.architecture_of(config)}, {text.num_hidden_layers} layers of width "
        f"{text.hidden_size}; {held / 1e9:.2g} GB, {stored.total() / 1e9:.2g} billion numbers"
    )
    if getattr(config, "auto_map", None):
        return note(
            f"{found}; the code in its repository is not run",
            "elsewhere say trust_remote_code=True, or another class is loaded without a word",
        )
    return ok(found)


def _head(
    model: RewardModel,
    config: PreTrainedConfig,
    label: int | None,
    about: conversations.Conversation,
) -> Row:
    """Check whether the head holds finite numbers that are not all zero, and say where its gate
    reads.
    """
    output = ""
    if label is not None:
        output = f", output {labels.named(label, config)} of {config.num_labels}"
    if model.head is None:
        return ok(f"the encoder's own classifier{output}")
    held = model.head.state_dict()
    for key, tensor in held.items():
        if not torch.isfinite(tensor).all():
            raise InputError(
                f"{key} holds numbers that are not finite; download the checkpoint again"
            )
        if key.endswith(".weight") and not tensor.any():
            raise InputError(
                f"{key} is zero throughout, so it was never trained; download the checkpoint again"
            )
    found = f"{model.head_name}: {next(iter(held))}{output}"
    if model.gated:
        found += f"; its gate reads position {about.gate_position}, where the user's turn ends"
    if len(held) > 1 and model.head_name == "linear" and "score.weight" not in held:
        found += ", with ReLU between its layers"
        if loading.architecture_of(config) not in OF_RELU:
            return note(
                f"{found}, which is assumed, because no file names another function",
                "compare some rewards with those of the program that trained it: python -m audit "
                "why",
            )
    if model.head_name == "linear" and config.num_labels != 1 and label is None:
        return note(
            f"{found}; config.json says {config.num_labels} labels, the head has one",
            "elsewhere load with num_labels=1, or the head is drawn at random",
        )
    return ok(found)


def special_tokens(
    tokenizer: PreTrainedTokenizerBase, about: conversations.Conversation
) -> Row:
    """Check whether the control strings that the template prints are tokens of this tokenizer."""
    around = about.before.replace(about.prompt.strip(), "") + about.after
    ids = {
        text: tokenizer(text, add_special_tokens=False)["input_ids"]
        for text in CONTROL.findall(around)
    }
    lost = [text for text, parts in ids.items() if tokenizer.unk_token_id in parts]
    if lost:
        found = (
            f"the template prints {', '.join(lost)}, which this tokenizer does not know"
        )
        return wrong(found, "give the tokenizer that the model was trained with")
    split = [text for text, parts in ids.items() if len(parts) != 1]
    if split:
        return note(
            f"{', '.join(split)} of the template are no tokens, and read as text",
            "right only if the model was trained with this template and this tokenizer",
        )
    return ok(f"control strings of the template that are one token each: {len(ids)}")


def _attention(model: RewardModel, config: PreTrainedConfig) -> Row:
    """Check that Gemma-2's soft-capping is there and runs."""
    if model.attention == "uncapped":
        return note(
            "without soft-capping, as asked for and as the paper's code ran it",
            "leave --attention out to score it as it was trained",
        )
    if not loading.soft_caps(config):
        return ok(f"{model.attention}; the architecture has no soft-capping")
    if config.attn_logit_softcapping is None:
        return wrong(
            "config.json says attn_logit_softcapping null, so nothing is capped",
            f"Gemma-2 was trained with {CAP:g}: write that there",
        )
    return ok(f"{model.attention}, soft-capped at {config.attn_logit_softcapping:g}")


def _precision(model: RewardModel, stored: Counter) -> Row:
    dtype = model.dtype
    most, _ = stored.most_common()[0]
    found = f"kept in {' and '.join(stored)}, computed in {dtype}, the head in float32"
    is_narrow = dtype == "float16" != most  # its largest number is 65,504
    if is_narrow or size_of(dtype) < size_of(most):
        return note(f"{found}: rounded", f"say --dtype {most}")
    return ok(found)
