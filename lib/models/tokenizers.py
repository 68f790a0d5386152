"""Tokenizers of checkpoints: opened, and refused in one line where they fail or make texts grow without end."""

import base64
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer, models
from tqdm import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from .. import InputError
from . import templates
from .files import first_line, refusing

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
    if tokenizer.split_special_tokens:
        raise InputError(f"{folder}: its tokenizer cuts control tokens into pieces; unset split_special_tokens there")
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
        growths = {part: _growth(list(_steps(state.get(part)))) for part in ("normalizer", "decoder")}
    except Exception:  # there is none, or it is refused when it is opened
        return
    for part, growth in growths.items():
        if growth > MOST_GROWTH:
            raise InputError(
                f"{file}: its {part} may make a text {min(growth, 10**9):,.0f} times as long; save the tokenizer that "
                "the model was trained with"
            )


def _steps(part: dict | None) -> Iterator[tuple[dict, str, int]]:
    """Yield the steps of a normalizer or decoder, in order, out of sequences of any depth.

    Each comes with the text that it writes, the longest if there are several, and how many characters it replaces.
    """
    step = part or {"type": "Sequence"}
    if step["type"] == "Sequence":
        for inside in step.get("normalizers", step.get("decoders", [])):
            yield from _steps(inside)
    elif step["type"] == "Replace":
        yield step, step["content"], max(1, len(step["pattern"].get("String", "")))
    elif step["type"] == "Prepend":
        yield step, step["prepend"], 1
    elif step["type"] == "Precompiled":  # a trie, and the texts that it leads to, each ended by a zero
        table = base64.b64decode(step["precompiled_charsmap"] or "")
        texts = table[4 + int.from_bytes(table[:4], "little") :].split(b"\0")
        yield step, max(texts, key=len).decode(errors="replace"), 1
    else:
        yield step, "", 1


def _growth(steps: list[tuple[dict, str, int]]) -> float:
    """Return a bound on how many characters these steps make of one.

    A character stays until a step writes another text for it. What the later steps make of this text is computed, on
    two copies of it, so that a step that matches across the two also counts. The bound is the sum over all steps, as a
    step that matches no characters can write its text beside any other.
    """
    growth = 1.0
    for number, (_, written, matched) in enumerate(steps):
        text = 2 * written
        for later, _, _ in steps[number + 1 :]:
            if len(text) > 2 * MOST_GROWTH * matched:
                break
            state = json.loads(Tokenizer(models.BPE()).to_str()) | {"normalizer": later}
            with contextlib.suppress(Exception):  # it is damaged, which is told when the tokenizer is opened
                text = Tokenizer.from_str(json.dumps(state)).normalizer.normalize_str(text)
        growth += len(text) / (2 * matched)
    return growth


def refuse_larger_tokenizer(folder: Path, tokenizer: PreTrainedTokenizerBase, rows: int) -> None:
    """Raise InputError if the tokenizer has ids beyond the rows of the model's embedding table."""
    largest = max(tokenizer.get_vocab().values())
    if largest >= rows:
        raise InputError(
            f"{folder}: the tokenizer has ids up to {largest}, but the model has only {rows} rows of embeddings; "
            "give the tokenizer that the model was trained with"
        )
