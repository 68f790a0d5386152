"""Conversations: a prompt and its replies as a model reads them, rendered to text and then to token
ids.

A reward model reads whole conversations; a language model reads up to where the assistant is about
to speak (`frame`).
"""

import datetime
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from transformers import PreTrainedTokenizerBase
from transformers.utils import chat_template_utils

from .. import InputError
from .loading import refusing

# what the authors' transformers 4.43 rendered; Llama-3.2 templates otherwise print today's date
DATE = "26 Jul 2024"
DAY = datetime.datetime(2024, 7, 26)
# of pretrained language models; what follows begins with a space
FRAME = "User: {prompt}\nAssistant:"
# Replies that share no first or last token, so that what stays the same around them is not the
# reply.
STAND_INS = ("Zqxjv", "7kW", "-x-", "love")
# Beginning-of-sequence tokens: one; as many as template and tokenizer add together, as the paper's
# code fed; or those of the template alone, as apply_chat_template(tokenize=True) gives. With one,
# the tokenizer adds nothing behind a template that ends the reply's turn with a token of its own.
BOS = ("single", "double", "none")
# of a tokenizer's results
ONLY_IDS = {"return_attention_mask": False, "return_token_type_ids": False}
# conversations tokenised before their common prefix is dropped again
TEXTS_AT_ONCE = 8192

Ids = tuple[int, ...]
Turns = Sequence[dict[str, str]]  # each with role and content


# --- a prompt with a gap for the reply ------------------------------------------------------------


@dataclass(frozen=True)
class Conversation:
    """A prompt rendered for one reward model, with a gap where the reply stands.

    - turns: before the reply; the last one is the user's, and its text is the prompt
    - before, after: the rendered text around the reply
    - prefix_ids, closing_ids: the ids around the reply's ids in the whole model input
    - header_ids: the ids from the end of the user's turn to the reply. A gate reads the first of
      them. Empty without a gate.
    - gate_position: where the gate reads in prefix_ids; None without a gate
    """

    turns: Turns
    bos: str
    before: str
    after: str
    prefix_ids: Ids
    closing_ids: Ids
    header_ids: Ids = ()
    gate_position: int | None = None

    @property
    def prompt(self) -> str:
        return self.turns[-1]["content"]


def open_conversation(
    tokenizer: PreTrainedTokenizerBase,
    prompt: str | Turns,
    bos: str = "single",
    *,
    gated: bool = False,
) -> Conversation:
    """Return the prompt, or turns that end with the user's, rendered with a gap for the reply.

    `bos` is one of BOS. `gated` says whether a gate reads where the user's turn ends. InputError if
    the prompt is empty, or if the template does not write prompt and reply.
    """
    if bos not in BOS:
        raise InputError(f"bos must be one of {', '.join(BOS)}, not {bos!r}")
    turns = [_turn("user", prompt)] if isinstance(prompt, str) else prompt
    _refuse_empty(turns[-1]["content"])
    before, after, header = _text_around_reply(tokenizer, turns)
    inputs = _tokenise(tokenizer, turns, STAND_INS, bos, after)
    prefix_ids = tuple(os.path.commonprefix(inputs))
    reversed_ids = [ids[::-1] for ids in inputs]
    closing_ids = tuple(os.path.commonprefix(reversed_ids)[::-1])
    conversation = Conversation(turns, bos, before, after, prefix_ids, closing_ids)
    if not gated:
        return conversation
    header_ids = tuple(tokenizer(header, add_special_tokens=False)["input_ids"])
    place = _only_position(header_ids, prefix_ids + closing_ids)
    return replace(conversation, header_ids=header_ids, gate_position=place)


def encode(
    tokenizer: PreTrainedTokenizerBase,
    conversation: Conversation,
    replies: Sequence[str],
) -> list[list[int]]:
    """Return the whole model input for each reply as text: chat template, then tokenisation of the
    whole (section 2).

    InputError for a reply that opens another turn in which a gate would read.
    """
    around = (conversation.bos, conversation.after)
    inputs = _tokenise(tokenizer, conversation.turns, replies, *around)
    if conversation.header_ids:
        for ids in inputs:
            _only_position(conversation.header_ids, tuple(ids))
    return inputs


def render(
    tokenizer: PreTrainedTokenizerBase, prompt: str | Turns, replies: Sequence[str]
) -> list[str]:
    """Return the conversations (prompt, reply) as text: see apply_template."""
    before = [_turn("user", prompt)] if isinstance(prompt, str) else prompt
    turns = [[*before, _turn("assistant", reply)] for reply in replies]
    return apply_template(tokenizer, turns)


def apply_template(
    tokenizer: PreTrainedTokenizerBase, turns: Sequence, **options: Any
) -> Any:
    """Return conversations, or one, as text by the tokenizer's chat template, which takes DAY for
    today. InputError if the template fails.
    """
    options = {"date_string": DATE, "tokenize": False, **options}
    problem = f"the chat template of {tokenizer.name_or_path} fails"
    with refusing(problem, "give another one"):
        # transformers keeps what it compiled, and renders with it
        template = tokenizer.get_chat_template()
        compiled = chat_template_utils._compile_jinja_template(template)
        compiled.globals["strftime_now"] = DAY.strftime
        return tokenizer.apply_chat_template(turns, **options)


def _turn(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


def _tokenise(
    tokenizer: PreTrainedTokenizerBase,
    turns: Turns,
    replies: Sequence[str],
    bos: str,
    after: str,
) -> list[list[int]]:
    """Return the whole model input for each reply. after: the text that follows a reply."""
    if not tokenizer.chat_template:
        if len(turns) > 1:
            raise InputError(
                f"{tokenizer.name_or_path} reads pairs of a prompt and a reply; give no system or "
                "earlier turns"
            )
        prompts = [turns[0]["content"]] * len(replies)
        return tokenizer(prompts, list(replies), **ONLY_IDS)["input_ids"]
    texts = render(tokenizer, turns, replies)
    if bos == "single" and _adds_bos(tokenizer, texts[0]):
        texts = [text.removeprefix(tokenizer.bos_token) for text in texts]
    inputs = tokenizer(texts, add_special_tokens=bos != "none", **ONLY_IDS)["input_ids"]
    if bos == "single" and _ends_turn(tokenizer, after):
        end = _added_at_end(tokenizer)
        return [ids[: len(ids) - end] for ids in inputs]
    return inputs


def _ends_turn(tokenizer: PreTrainedTokenizerBase, after: str) -> bool:
    """Return whether the text after a reply holds a control token."""
    added = tokenizer.added_tokens_decoder.values()
    return any(token.special and token.content in after for token in added)


def _added_at_end(tokenizer: PreTrainedTokenizerBase) -> int:
    """Return how many tokens the tokenizer adds at the end of a text."""
    found = tokenizer("a", return_special_tokens_mask=True)
    return found["special_tokens_mask"][::-1].index(0)


def _adds_bos(tokenizer: PreTrainedTokenizerBase, text: str) -> bool:
    """Return whether the tokenizer puts a bos of its own before text that starts with one."""
    bos = tokenizer.bos_token
    start = [tokenizer.bos_token_id]
    if not bos or not text.startswith(bos):
        return False
    plain = tokenizer(text, add_special_tokens=False)["input_ids"]
    return tokenizer(text)["input_ids"][: len(plain) + 1] == start + plain


def _text_around_reply(
    tokenizer: PreTrainedTokenizerBase, turns: Turns
) -> tuple[str, str, str]:
    """Return the rendered text before the reply, the text after it, and the text between prompt
    and reply.
    """
    prompt = turns[-1]["content"]
    if not tokenizer.chat_template:
        # encoders read the pair (prompt, reply); there is no text around it
        return f"{prompt}\n", "", ""
    asked, replied = STAND_INS[:2]
    [rendered] = render(tokenizer, [*turns[:-1], _turn("user", asked)], [replied])
    header, place, after = rendered.partition(asked)[2].rpartition(replied)
    [whole] = render(tokenizer, turns, [replied])
    before = whole[: len(whole) - len(replied + after)]
    is_kept = before.endswith((prompt + header, prompt.strip() + header))
    if not (place and header and is_kept) or replied in header:
        raise InputError(
            f"the chat template of {tokenizer.name_or_path} does not write the prompt {prompt!r} "
            "and the reply as they are, one after the other; give another one"
        )
    return before, after, header


def _only_position(pattern: Ids, ids: Ids) -> int:
    positions = [i for i in range(len(ids)) if ids[i : i + len(pattern)] == pattern]
    if len(positions) != 1:
        raise InputError(
            f"the user's turn ends {len(positions)} times, so the model's gate has no single place "
            "to read; take control strings out of prompt and reply, or give another template"
        )
    return positions[0]


def _refuse_empty(prompt: str) -> None:
    if not prompt.strip():
        raise InputError(
            "the prompt is empty; give a question, for example one of data/prompts.csv"
        )


# --- many replies to one prompt -------------------------------------------------------------------


@dataclass(frozen=True)
class Inputs:
    """The distinct model inputs for one prompt, split after the longest prefix that all of them
    share.

    prefix_ids + suffixes[group[i]] is the whole input for reply i, and reply_ids[group[i]] the
    reply's own part of it.
    """

    conversation: Conversation
    prefix_ids: Ids
    suffixes: list[Ids]
    reply_ids: list[Ids]
    group: np.ndarray  # (replies,) int32


def inputs_for(
    tokenizer: PreTrainedTokenizerBase,
    conversation: Conversation,
    replies: Sequence,
    reply_mode: str = "text",
) -> Inputs:
    """Return the model inputs for these replies, identical ones merged.

    - reply_mode "text": each reply is a string, which is put into the chat template and tokenised
      with it (section 2)
    - reply_mode "ids": each reply is a sequence of token ids, inserted unchanged between prefix and
      closing ids

    InputError for another mode, and unless replies are a list of what it takes.
    """
    is_text = reply_mode == "text"
    is_known = is_text or reply_mode == "ids"
    is_list = not isinstance(replies, str) and len(replies) > 0
    if not (is_known and is_list) or any(
        isinstance(reply, str) != is_text for reply in replies
    ):
        raise InputError(
            "replies must be a list of strings (reply_mode 'text') or of sequences of token ids "
            f"('ids'), with one or more in it, not {str(replies)[:40]!r}"
        )
    prefix = conversation.prefix_ids
    if not is_text:
        replies = [tuple(ids) for ids in replies]
        tails = {ids: (len(prefix), ids + conversation.closing_ids) for ids in replies}
        return _merged(conversation, replies, tails)
    tails = {}
    distinct = list(dict.fromkeys(replies))
    for start in range(0, len(distinct), TEXTS_AT_ONCE):
        texts = distinct[start : start + TEXTS_AT_ONCE]
        whole = encode(tokenizer, conversation, texts)
        for reply, ids in zip(texts, whole, strict=True):
            tails[reply] = _after_prefix(tuple(ids), prefix)
    return _merged(conversation, replies, tails)


def _merged(conversation: Conversation, replies: Sequence, tails: dict) -> Inputs:
    """Return the inputs of the replies, identical ones merged.

    tails: reply -> how many ids of the conversation's prefix its input starts with, and the ids
    that follow them
    """
    prefix = conversation.prefix_ids
    number_of_tail = {
        tail: number for number, tail in enumerate(dict.fromkeys(tails.values()))
    }
    group = np.array(
        [number_of_tail[tails[reply]] for reply in replies], dtype=np.int32
    )
    # An input that ends with the prefix must keep a token of its own to be scored at.
    shared = min(
        (start if tail else start - 1 for start, tail in number_of_tail),
        default=len(prefix),
    )
    suffixes = [prefix[shared:start] + tail for start, tail in number_of_tail]
    reply_ids = [
        _without_closing(tail, conversation.closing_ids) for _, tail in number_of_tail
    ]
    return Inputs(conversation, prefix[:shared], suffixes, reply_ids, group)


def _after_prefix(ids: Ids, prefix: Ids) -> tuple[int, Ids]:
    shared = len(prefix)
    # a reply may merge with the end of the prefix when tokenised
    while ids[:shared] != prefix[:shared]:
        shared -= 1
    return shared, ids[shared:]


def _without_closing(tail: Ids, closing: Ids) -> Ids:
    kept = len(closing)
    while kept and tail[len(tail) - kept :] != closing[-kept:]:
        kept -= 1
    return tail[: len(tail) - kept]


# --- where a language model is about to speak -----------------------------------------------------


def frame(tokenizer: PreTrainedTokenizerBase, prompt: str, *, tuned: bool) -> str:
    """Return the text up to the assistant's reply: the plain frame, or the template with a
    generation prompt.
    """
    if not tuned:
        return FRAME.format(prompt=prompt)
    turn = [_turn("user", prompt)]
    return apply_template(tokenizer, turn, add_generation_prompt=True)


def frame_ids(
    tokenizer: PreTrainedTokenizerBase, prompt: str, *, tuned: bool
) -> list[int]:
    """Return the ids of the prompt's frame; a beginning-of-sequence token is there at most once."""
    _refuse_empty(prompt)
    text = frame(tokenizer, prompt, tuned=tuned)
    if _adds_bos(tokenizer, text):
        text = text.removeprefix(tokenizer.bos_token)
    ids = tokenizer(text)["input_ids"]
    return ids[: len(ids) - _added_at_end(tokenizer)]


# --- the whole vocabulary -------------------------------------------------------------------------


def vocabulary(
    tokenizer: PreTrainedTokenizerBase, some: Sequence[int] | None = None
) -> pd.DataFrame:
    """Return all ids of the tokenizer, or some, in order, with columns token_id, token (string),
    text (decoded).
    """
    known = set(tokenizer.get_vocab().values())
    token_id = np.array(
        sorted(known if some is None else known & set(some)), dtype=np.int32
    )
    ids = token_id.tolist()
    texts = tokenizer.batch_decode(
        [[i] for i in ids], clean_up_tokenization_spaces=False
    )
    return pd.DataFrame(
        {
            "token_id": token_id,
            "token": tokenizer.convert_ids_to_tokens(ids),
            "text": texts,
        }
    ).astype({"token": "str", "text": "str"})
