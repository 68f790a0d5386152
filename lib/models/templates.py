"""Chat templates: programs of strangers, rendered in the sandbox of transformers, on one day and
without chance. Every failure becomes one line.
"""

import datetime
import functools
import re
from typing import Literal

import jinja2
from transformers import PreTrainedTokenizerBase
from transformers.utils import chat_template_utils

from .. import InputError

# as conversations.DATE: the day that a template takes for today
DAY = datetime.datetime(2024, 7, 26)
# what Python writes for an object without a text of its own
ADDRESS = re.compile(r"<[^<>]* at 0x[0-9a-f]+>")
# of jinja: they draw at random, or sort keys by their addresses
RANDOM = re.compile(r"\|\s*(?:random|pprint)\b|\blipsum\b")


def confine(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Return the same tokenizer. Its apply_chat_template then renders to text only, and takes DAY
    for today.

    InputError if the template fails, draws at random, or writes an object.
    """
    tokenizer.apply_chat_template = functools.partial(_apply, tokenizer)
    return tokenizer


def _apply(
    tokenizer: PreTrainedTokenizerBase,
    conversation: list,
    *,
    tokenize: Literal[False],
    **options: object,
) -> str | list[str]:
    is_one = isinstance(conversation[0], dict)
    variables = tokenizer.special_tokens_map | options
    try:
        template = tokenizer.get_chat_template()
        if drawn := RANDOM.search(template):
            raise InputError(f"fails ({drawn[0]} is not the same in each process)")
        # transformers keeps what it compiled, and the rendering below takes it from there
        compiled = chat_template_utils._compile_jinja_template(template)
        compiled.globals["strftime_now"] = DAY.strftime
        texts, _ = chat_template_utils.render_jinja_template(
            [conversation] if is_one else conversation,
            chat_template=template,
            **variables,
        )
        if any(map(ADDRESS.search, texts)) and not ADDRESS.search(str(conversation)):
            raise InputError("writes an object as text, another one in each process")
    # a template can raise anything, and a tokenizer may hold several, none the usual one
    except Exception as error:
        raise InputError(
            f"the chat template of {tokenizer.name_or_path} {_problem(error)}; give another one"
        ) from error
    return texts[0] if is_one else texts


def _problem(error: Exception) -> str:
    if isinstance(error, InputError):
        return str(error)
    message = " ".join(str(error).split())[:150]
    is_clear = isinstance(error, jinja2.TemplateError) and message
    return (
        f"fails ({message})"
        if is_clear
        else f"fails ({type(error).__name__}: {message})"
    )
