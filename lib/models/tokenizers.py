"""Tokenizers of checkpoints: opened with the ids that their files say; what fails is refused in
one line.
"""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from .. import InputError
from ..io import INVISIBLE
from . import templates
from .files import Files, first_line, quiet_transformers, refusing


def tokenizer_of(
    files: Files, template: str | Path | None = None, rows: int | None = None
) -> PreTrainedTokenizerBase:
    """Return the checkpoint's tokenizer, with the ids that tokenizer.json says and its chat
    template confined.

    template: a file with another chat template. rows: of the model's embedding table.

    A printed line says where the tokenizer's class in transformers gives other ids. BPE dropout is
    switched off, and a printed line says so: it is meant for training and cuts a text differently
    each time. Truncation and padding that the file asks for are left out, because whole
    conversations are scored, and nothing is padded. InputError if transformers can open no
    tokenizer, or if it has ids beyond the rows.
    """
    folder = files.folder
    # A broken file, or a class that is not there, fails in many ways.
    unreadable = f"{folder} holds no tokenizer that transformers can open"
    with refusing(unreadable, "save tokenizer.json there"), working_tokenizer(folder):
        tokenizer, change = open_as_file_says(files)
    if template is not None:
        tokenizer.chat_template = read_template(Path(template))
    elif _has_two_templates(files):
        tqdm.write(
            f"{folder}: chat_template.jinja and tokenizer_config.json hold two chat templates; the "
            "first one counts, as in transformers 5; name the other one to score with it: "
            "--template file"
        )
    if change:
        tqdm.write(f"{folder}: {change.line}")
    # parts of conversations are encoded by the library itself, which would obey both
    if tokenizer.is_fast:
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
    # nothing is cut to it, but it is compared with lengths
    if not isinstance(tokenizer.model_max_length, int | float):
        tokenizer.model_max_length = VERY_LARGE_INTEGER
    if tokenizer.is_fast and (
        dropout := getattr(tokenizer.backend_tokenizer.model, "dropout", None)
    ):
        tokenizer.backend_tokenizer.model.dropout = None
        tqdm.write(
            f"{folder}: its tokenizer drops merges at random ({dropout:g}), as in training; here "
            "it drops none"
        )
    largest = max(tokenizer.get_vocab().values())
    problem = ""
    if tokenizer.split_special_tokens:
        problem = "its tokenizer cuts control tokens into pieces; unset split_special_tokens there"
    elif rows is not None and largest >= rows:
        problem = (
            f"the tokenizer has ids up to {largest}, but the model has only {rows} rows of "
            "embeddings; give the tokenizer that the model was trained with"
        )
    if problem:
        raise InputError(f"{folder}: {problem}")
    return templates.confine(tokenizer)


def read_template(file: Path) -> str:
    """Return the chat template in a text file, without a byte order mark. InputError for what is
    no plain template.
    """
    with refusing(
        f"the chat template {file} cannot be read",
        "give a text file (jinja)",
        (OSError, ValueError),
    ):
        template = file.read_text(encoding="utf-8-sig")
        # without what colours an emoji
        seen = re.sub(r"(?<=[^\x00-\x7f])\ufe0f", "", template)
        odd = [
            c for c in seen if c in INVISIBLE or not (c.isprintable() or c in "\n\r\t")
        ]
        if odd:
            before = seen[: seen.index(odd[0])]
            line = before.count("\n") + 1
            raise ValueError(
                f"line {line} holds {odd[0]!a}, which is not seen: take it out, or write "
                f"{{{{ {odd[0]!a} }}}}"
            )
        with contextlib.suppress(json.JSONDecodeError, RecursionError):
            json.loads(template, strict=False)
            raise ValueError("it is JSON; take the template out of it")
    return template


# --- ids as the file says -------------------------------------------------------------------------

# Transformers 5 rebuilds a tokenizer whose class has an __init__ of its own from vocabulary and
# merges. What tokenizer.json says beside them (normalizer, pre-tokenizer, options of the model) is
# dropped.

# Texts that reach every stage of a tokenizer: digits, blanks, line breaks, compatibility characters
# (NFKC), accents (composed and not), capitals, punctuation, other scripts.
STAGES = (
    "2023",
    "12345678",
    "3.14 and 1,000",
    "a  b",
    "   love",
    "love ",
    " love",
    "a\tb",
    "a\nb",
    "\n\nlove\r\n",
    "\ufb01ne\u2460",
    "\uff21\u00bd \u212b",
    "\u00c9mile caf\u00e9",
    "e\u0301 n\u0303",
    "\u0130I Love LOVE",
    "don't DON'T we'll",
    "!?... -- (x) </div> //",
    "a_b-c.d snake_case camelCase",
    "\u4f60\u597d\u4e16\u754c",
    "\u041f\u0440\u0438\u0432\u0435\u0442",
    "\u05e9\u05dc\u05d5\u05dd",
    "\U0001f600\U0001f600 \u2764\ufe0f",
    "\u200b\u00a0\u3000x",
)
# a control token and what stands beside it
CONTROL = ("{}love", "{} love", "a{}b", "a {}\nlove", "{0}{0}2023")
# control tokens, and words of the vocabulary, that are compared
MOST_CONTROL = 40
MOST_WORDS = 2000
# in tokenizer_config.json: asks transformers for Mistral's corrected pattern
FIXED_PATTERN = "fix_mistral_regex"


class Change(NamedTuple):
    """What the tokenizer's class in transformers, or an option of it, makes of tokenizer.json.

    - other: the tokenizer as transformers opens it, with other ids
    - text, ids, others: the shortest text with other ids, its ids by the file, and its ids by
      `other`
    """

    other: PreTrainedTokenizerBase
    text: str
    ids: list[int]
    others: list[int]

    @property
    def line(self) -> str:
        """Return the change in one line."""
        example = f"{self.text!a} is {len(self.ids)} ids by the file and {len(self.others)} by "
        if len(self.ids) == len(self.others):
            example = (
                f"{self.text!a} has the ids {self.ids[:4]} by the file and "
                f"{self.others[:4]} by "
            )
        if getattr(self.other, FIXED_PATTERN, False):
            return (
                "tokenizer.json cuts words by a pattern that Mistral corrected later "
                f"({example}the later one); ids "
                "are as the file says; if the model was trained with the later one, write "
                f'"{FIXED_PATTERN}": true '
                "into tokenizer_config.json"
            )
        name = type(self.other).__name__
        return (
            f"{name} of transformers drops parts of tokenizer.json ({example}{name}); ids are as "
            "the file says, which PreTrainedTokenizerFast gives elsewhere"
        )


def open_as_file_says(files: Files) -> tuple[PreTrainedTokenizerBase, Change | None]:
    """Return the tokenizer that gives the ids of tokenizer.json, and what its class in transformers
    changes, if any.

    The names of special tokens are those of the class. InputError if the class and the file
    contradict each other in what surrounds a text or in capitals, which configurations ask for: see
    _refuse_contradiction.
    """
    folder = files.folder
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    if not (folder / "tokenizer.json").is_file():
        return tokenizer, None
    if type(tokenizer) is PreTrainedTokenizerFast:  # it reads the file as it is
        return tokenizer, _corrected_pattern(files, tokenizer)
    with quiet_transformers():
        by_file = PreTrainedTokenizerFast.from_pretrained(folder)
    known = by_file.get_vocab()
    for name, token in tokenizer.special_tokens_map.items():
        if (
            isinstance(token, str)
            and token in known
            and getattr(by_file, name, None) is None
        ):
            by_file.add_special_tokens({name: token})
    _refuse_contradiction(files, tokenizer, by_file)
    change = _change(by_file, tokenizer)
    return (by_file, change) if change else (tokenizer, None)


def _has_two_templates(files: Files) -> bool:
    """Return whether tokenizer_config.json holds another chat template than the file
    chat_template.jinja.
    """
    file = files.folder / "chat_template.jinja"
    inline = files.tokenizer_config.get("chat_template")
    if isinstance(inline, list):  # several, with names
        named = [each for each in inline if isinstance(each, dict)]
        by_name = {each.get("name"): each.get("template") for each in named}
        inline = by_name.get("default")
    if not isinstance(inline, str) or not file.is_file():
        return False
    with file.open(encoding="utf-8", errors="replace") as opened:
        return inline.strip() != opened.read().strip()


def _corrected_pattern(
    files: Files, tokenizer: PreTrainedTokenizerBase
) -> Change | None:
    """Return what Mistral's corrected pattern would change in a tokenizer of which transformers
    warns.
    """
    if "stral" not in str(files.config.get("model_type")):
        return None
    fixed = {FIXED_PATTERN: True}
    with quiet_transformers():
        other = PreTrainedTokenizerFast.from_pretrained(files.folder, **fixed)
    other.fix_mistral_regex = True
    return _change(tokenizer, other)


def _change(
    by_file: PreTrainedTokenizerBase, other: PreTrainedTokenizerBase
) -> Change | None:
    """Return the first text of STAGES, of control tokens or of the vocabulary that has other
    ids; None if none has.
    """
    added = by_file.get_added_vocab()
    control = sorted(added, key=added.__getitem__)
    every = sorted(by_file.get_vocab().values())
    some = every[:: max(1, len(by_file) // MOST_WORDS)]
    texts = list(STAGES)
    for token in control[:MOST_CONTROL]:
        texts += [form.format(token) for form in CONTROL]
    texts += by_file.batch_decode(
        [[word] for word in some], clean_up_tokenization_spaces=False
    )
    for whole in (False, True):  # with what surrounds a text
        ids, others = (
            each(texts, add_special_tokens=whole)["input_ids"]
            for each in (by_file, other)
        )
        for text, by_one, by_other in zip(texts, ids, others, strict=True):
            if by_one != by_other:
                return Change(other, text, by_one, by_other)
    pair = by_file("a", "b")["input_ids"], other("a", "b")["input_ids"]
    if pair[0] != pair[1]:
        return Change(other, "the pair of a and b", *pair)
    return None


def _refuse_contradiction(
    files: Files, tokenizer: PreTrainedTokenizerBase, by_file: PreTrainedTokenizerBase
) -> None:
    """Raise InputError where the class has a reason to change the file, so that neither can be
    taken.

    Classes of encoders put control tokens around texts, such as [CLS] and [SEP], which a file may
    lack; and do_lower_case in tokenizer_config.json may contradict the file.
    """
    name = type(tokenizer).__name__
    problem = ""
    by_class = tokenizer("a", "b")["input_ids"]
    pair = by_file("a", "b")["input_ids"]
    bare = by_file("a", "b", add_special_tokens=False)["input_ids"]
    if len(pair) == len(bare) < len(by_class):
        problem = (
            f"its {name} surrounds texts ({tokenizer.decode(by_class)}), but its tokenizer.json "
            "does not"
        )
    stated = files.tokenizer_config.get("do_lower_case")
    lowers = [
        each("LOVE", add_special_tokens=False)["input_ids"]
        == each("love", add_special_tokens=False)["input_ids"]
        for each in (tokenizer, by_file)
    ]
    if stated is not None and lowers[0] != lowers[1]:
        problem = (
            f"tokenizer_config.json says do_lower_case {stated}, and tokenizer.json the "
            "opposite"
        )
    if problem:
        raise InputError(
            f"{files.folder}: {problem}; save the tokenizer that the model was trained with "
            "(save_pretrained)"
        )


# --- what fails -----------------------------------------------------------------------------------


@contextlib.contextmanager
def working_tokenizer(where: Path | str) -> Iterator[None]:
    """Turn the error that the tokenizers library raises for an inconsistent tokenizer.json into
    one line.
    """
    try:
        yield
    # a panic of that library is no Exception, and its class cannot be imported
    except BaseException as error:
        if type(error).__name__ != "PanicException" and type(error) is not Exception:
            raise
        raise InputError(
            f"the tokenizer of {where} fails ({first_line(error)}); download it again"
        ) from error
