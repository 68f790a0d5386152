"""Checks of a checkpoint's files. They read headers and the head, and no other weights."""

import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from ... import InputError
from ...models import checkpoints, conversations, hardware, layers, reward_models
from ...models.conversations import Conversation
from ...models.files import open_tensors, tensor_files
from ...models.heads import LAYOUTS, tensors_of_head
from .report import Row, attempt, note, ok, refused, wrong

CAP = 50.0  # of Gemma-2's attention, in all models that were published
DTYPES = {"F64": "float64", "F32": "float32", "BF16": "bfloat16", "F16": "float16", "I64": "int64"}  # in a header
BESIDE = 1.2  # memory that scoring takes, as a share of the weights'; what a batch needs adapts itself
PROMPT = "What, in one word, is the greatest thing ever?"
CONTROL = re.compile(r"<\|[^<>|\s]+\|>|<[a-z]+(?:_[a-z]+)+>")  # strings that look as if they were one token each


def numbers_stored(folder: Path) -> Counter:
    """Return how many numbers of each dtype a checkpoint's tensors hold. InputError as for files.tensor_files."""
    stored: Counter = Counter()
    for path in sorted(set(tensor_files(folder).values())):
        with open_tensors(path) as tensors:
            for key in tensors.keys():  # noqa: SIM118  # not a mapping
                part = tensors.get_slice(key)
                stored[DTYPES.get(part.get_dtype(), part.get_dtype())] += math.prod(part.get_shape())
    return stored


def size_of(dtype: str) -> int:
    """Return the bytes of a number; of a dtype that torch does not know, 1."""
    return getattr(getattr(torch, dtype, None), "itemsize", 1)


@dataclass(frozen=True)
class Files:
    """What was opened of a checkpoint, how it is to be run, and a conversation as it would read it."""

    folder: Path
    config: PreTrainedConfig
    stored: Counter  # numbers of each dtype
    head_name: str
    options: reward_models.Options
    device: str
    dtype: str
    tokenizer: PreTrainedTokenizerBase
    conversation: Conversation


def open_files(folder: Path, entry: dict, options: reward_models.Options, bos: str) -> Files | Row:
    """Return what can be opened of a checkpoint, or else the row that says what cannot."""
    step = "files"
    try:
        config, stored = checkpoints.config_of(folder), numbers_stored(folder)
        step = "head"
        given = options.head, entry["head"]
        head_name = reward_models.head_name_of(entry["nickname"], config, tensor_files(folder), *given)
        step = "precision"
        device = checkpoints.device_for(options.device)
        dtype = checkpoints.dtype_for(options.dtype or entry["dtype"], device, config)
        step = "template"
        tokenizer, opened = reward_models.tokenizer_for(folder, head_name, options.template)
        gated = LAYOUTS[head_name].gated
        conversations.check_closing(options.closing, opened, gated)
        conversation = conversations.open_conversation(tokenizer, PROMPT, bos, gated=gated)
    except InputError as error:
        return refused(step, error)
    return Files(folder, config, stored, head_name, options, device, dtype, tokenizer, conversation)


def file_rows(files: Files) -> list[Row]:
    """Return the rows about the files of a checkpoint."""
    rows = files.config.get_text_config().vocab_size
    return [
        attempt("files", _files, files),
        attempt("head", _head, files),
        attempt("vocabulary", vocabulary, files.tokenizer, rows),
        attempt("special tokens", special_tokens, files.tokenizer, files.conversation),
        attempt("attention", _attention, files),
        attempt("precision", _precision, files),
        attempt("memory", _memory, files),
    ]


def _files(files: Files) -> Row:
    text, parameters = files.config.get_text_config(), files.stored.total()
    held = sum(count * size_of(dtype) for dtype, count in files.stored.items())
    found = (
        f"{checkpoints.architecture_of(files.config)}, {text.num_hidden_layers} layers of width {text.hidden_size}; "
        f"{_size(held)}, {parameters / 1e9:.2g} billion numbers"
    )
    numbers = {"bytes": held, "parameters": parameters}
    if "auto_map" not in json.loads((files.folder / "config.json").read_text(encoding="utf-8")):
        return ok(found, "", numbers)
    formula = "is read by its tensors' names and shapes"
    if files.head_name != "classifier" and not LAYOUTS[files.head_name].is_linear:
        formula = "is written in lib/models/heads.py from its formula"
    return note(f"{found}; the code in its repository is not run: its head {formula}",
                "elsewhere say trust_remote_code=True, or another class is loaded without a word", numbers)  # fmt: skip


def _head(files: Files) -> Row:
    """Check whether the head is whole, holds finite numbers that are not all zero, and where its gate reads."""
    config, head_name, label = files.config, files.head_name, files.options.label
    if head_name == "classifier":
        outputs = "one output" if label is None else f"its output {label} of {config.num_labels}"
        return ok(f"the encoder's own classifier, with {outputs}")
    tensors = tensors_of_head(config, tensor_files(files.folder))
    head = reward_models.load_head(files.folder, tensors, config, head_name, label)
    held = {key: tensor for key, tensor in head.state_dict().items() if tensor.is_floating_point()}
    for key, tensor in held.items():
        if not torch.isfinite(tensor).all():
            raise InputError(f"{key} holds numbers that are not finite; download the checkpoint again")
        if key.endswith(".weight") and not tensor.any():
            raise InputError(f"{key} is zero throughout, so it was never trained; download the checkpoint again")
    others = f" and {len(held) - 1} others" if len(held) > 1 else ""
    found = f"{head_name}: {next(iter(held))}{others}" + (f", output {label}" if label is not None else "")
    if getattr(head, "std", 1.0) != 1.0 or getattr(head, "mean", 0.0) != 0.0:
        found += f", less {head.mean:g} and divided by {head.std:g}, as config.json says"
    if files.conversation.gate_position is not None:
        found += f"; its gate reads position {files.conversation.gate_position}, where the user's turn ends"
    if head_name == "urm_helpfulness":
        return note(f"{found}; helpfulness alone, as the paper's code read it, is not the reward", "leave --head out")
    if LAYOUTS[head_name].is_linear and config.num_labels != 1 and label is None:
        return note(f"{found}; config.json says {config.num_labels} labels, the head has one",
                    "elsewhere load with num_labels=1, or the head is drawn at random")  # fmt: skip
    return ok(found)


def vocabulary(tokenizer: PreTrainedTokenizerBase, rows: int) -> Row:
    """Check whether every token has a row of the embedding table, which has this many rows."""
    largest = max(tokenizer.get_vocab().values())
    if largest >= rows:
        return wrong(f"the tokenizer has ids up to {largest}, but there are {rows} rows of embeddings",
                     "give the tokenizer that the model was trained with")  # fmt: skip
    spare = f"; {rows - 1 - largest} rows have no token, and are not scored" if rows - 1 > largest else ""
    return ok(f"{len(tokenizer):,} tokens in {rows:,} rows of embeddings{spare}")


def special_tokens(tokenizer: PreTrainedTokenizerBase, about: Conversation) -> Row:
    """Check whether the control strings that the template prints are tokens of this tokenizer."""
    strings = dict.fromkeys(CONTROL.findall(about.before.replace(about.prompt.strip(), "") + about.after))
    ids = {text: tokenizer(text, add_special_tokens=False)["input_ids"] for text in strings}
    if lost := [text for text, parts in ids.items() if tokenizer.unk_token_id in parts]:
        found = f"the template prints {', '.join(lost)}, which this tokenizer does not know"
        return wrong(found, "give the tokenizer that the model was trained with")
    if split := [f"{text} is read as {len(parts)} ids" for text, parts in ids.items() if len(parts) != 1]:
        remedy = "right only if the model was trained with this template and this tokenizer"
        return note(f"no tokens, but text: {', '.join(split)}", remedy)
    return ok(f"{', '.join(strings)} are one id each" if strings else "the template prints none")


def _attention(files: Files) -> Row:
    """Check that Gemma-2's soft-capping is there and runs."""
    # set_attention writes into the config that it is given
    attention = checkpoints.set_attention(checkpoints.config_of(files.folder), files.options.attention)
    if attention == "uncapped":
        return note("without soft-capping, as asked for and as the paper's code ran it",
                    "leave --attention out to score it as it was trained")  # fmt: skip
    if not checkpoints.soft_caps(files.config):
        return ok(f"{attention}; the architecture has no soft-capping")
    if (cap := files.config.attn_logit_softcapping) is None:
        return wrong("config.json says attn_logit_softcapping null, so nothing is capped",
                     f"Gemma-2 was trained with {CAP:g}: write that there")  # fmt: skip
    return ok(f"{attention}, soft-capped at {cap:g}; sdpa would drop the cap, and is refused")


def _precision(files: Files) -> Row:
    dtype, declared = files.dtype, str(files.config.dtype or "").removeprefix("torch.")
    stored = files.stored.most_common(1)[0][0]
    found = f"kept in {' and '.join(files.stored)}, computed in {dtype}, the head in float32"
    if dtype == "float16" and stored in ("bfloat16", "float32"):
        return note(f"{found}: numbers beyond 65,504 become infinite", f"say --dtype {stored}")
    if size_of(dtype) < size_of(stored):
        return note(f"{found}: rounded", f"say --dtype {stored} for rewards with fewer ties")
    if declared and declared != stored:
        return note(f"{found}; config.json says {declared}", f"elsewhere dtype='auto' takes {declared}: name the dtype")
    return ok(found)


def _memory(files: Files) -> Row:
    needed, free = files.stored.total() * size_of(files.dtype) * BESIDE, hardware.free(files.device)
    found = f"about {_size(needed)} of {files.device} memory, {_size(free)} are free"
    numbers = {"bytes needed": int(needed), "bytes free": free}
    if needed <= free:
        return ok(found, "", numbers)
    if layers.can_be_read_singly(files.config, files.head_name):
        return note(f"{found}: it is scored layer by layer, which needs room for two layers at a time",
                    "nothing to do: make score chooses that by itself, and STREAM=1 asks for it", numbers)  # fmt: skip
    return note(f"{found}; layers of such a model are not read one by one here",
                "use another device, or a machine with more", numbers)  # fmt: skip


def _size(number: float) -> str:
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.2g} MB"
