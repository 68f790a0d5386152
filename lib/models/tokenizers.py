"""Tokenizers of checkpoints: opened, and refused in one line where they fail or make texts grow without end."""

import base64
import contextlib
import json
import math
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from .. import InputError
from . import templates
from .checkpoints import first_line, refusing

MOST_GROWTH = 1000  # times that a tokenizer may make a text longer before it cuts it


def tokenizer_of(folder: Path) -> PreTrainedTokenizerBase:
    """Return the checkpoint's tokenizer, its chat template confined.

    BPE dropout is switched off, and a printed line says so. It is meant for training and cuts a text differently each
    time. InputError if transformers can open none, or if it may make a text more than MOST_GROWTH times as long.
    """
    _refuse_growing_texts(folder / "tokenizer.json")
    # A broken file, or a class that is not there, fails in many ways.
    unreadable = f"{folder} holds no tokenizer that transformers can open"
    with refusing(unreadable, "save tokenizer.json there"), working_tokenizer(folder):
        tokenizer = templates.confine(AutoTokenizer.from_pretrained(folder, trust_remote_code=False))
    if not isinstance(tokenizer.model_max_length, int | float):  # nothing is cut to it, but it is compared with lengths
        tokenizer.model_max_length = VERY_LARGE_INTEGER
    if tokenizer.is_fast and (dropout := getattr(tokenizer.backend_tokenizer.model, "dropout", None)):
        tokenizer.backend_tokenizer.model.dropout = None
        tqdm.write(f"{folder}: its tokenizer drops merges at random ({dropout:g}), as in training; here it drops none")
    return tokenizer


@contextlib.contextmanager
def working_tokenizer(where: Path | str) -> Iterator[None]:
    """Turn the error that the tokenizers library raises for an inconsistent tokenizer.json into one line."""
    try:
        yield
    except BaseException as error:  # a panic of that library is no Exception, and its class cannot be imported
        if type(error).__name__ != "PanicException" and type(error) is not Exception:
            raise
        raise InputError(f"the tokenizer of {where} fails ({first_line(error)}); download it again") from error


def _refuse_growing_texts(file: Path) -> None:
    """Raise InputError if a tokenizer.json may make a text more than MOST_GROWTH times as long.

    It would then compute for hours or fill the memory, in the tokenizers library, where Ctrl-C does not reach it.
    """
    try:
        state = json.loads(file.read_text(encoding="utf-8"))
        growths = {part: _growth(state[part]) for part in ("normalizer", "pre_tokenizer", "decoder") if state.get(part)}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return  # there is none, or it is refused when it is opened
    for part, growth in growths.items():
        if growth > MOST_GROWTH:
            raise InputError(
                f"{file}: its {part} may make a text {min(growth, 10**9):,} times as long; save the tokenizer that the "
                "model was trained with"
            )


def _growth(step: dict | list) -> int:
    """Return a bound on how many characters a step, or a list of steps, makes of one."""
    if isinstance(step, list):
        return math.prod(map(_growth, step))
    growth = math.prod(_growth(inside) for inside in step.values() if isinstance(inside, list | dict))
    kind, pattern = step.get("type"), step.get("pattern")
    if kind == "Replace":
        # What a regular expression matches may be empty, and is then found between any two characters.
        literal = len(pattern.get("String", "")) if isinstance(pattern, dict) else 0
        return growth * max(1, math.ceil(len(step["content"]) / literal) if literal else 1 + len(step["content"]))
    if kind == "Prepend":
        return growth * (1 + len(step["prepend"]))
    if kind == "Precompiled":  # a trie, and the texts that it leads to, each ended by a zero
        table = base64.b64decode(step["precompiled_charsmap"] or "")
        texts = table[4 + int.from_bytes(table[:4], "little") :].split(b"\0")
        return growth * max(1, *map(len, texts))
    return growth


def refuse_larger_tokenizer(folder: Path, tokenizer: PreTrainedTokenizerBase, rows: int) -> None:
    """Raise InputError if the tokenizer has ids beyond the rows of the model's embedding table."""
    largest = max(tokenizer.get_vocab().values())
    if largest >= rows:
        raise InputError(
            f"{folder}: the tokenizer has ids up to {largest}, but the model has only {rows} rows of embeddings; "
            "give the tokenizer that the model was trained with"
        )
