"""Conversations: a prompt and its replies as a model reads them, rendered to text and then to token
ids.

A reward model reads whole conversations; a language model reads up to where the assistant is about
to speak (`frame`).
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from transformers import PreTrainedTokenizerBase

from .. import InputError
from .heads import LAYOUTS
from .tokenizers import working_tokenizer

# what the authors' transformers 4.43 rendered; Llama-3.2 templates otherwise print today's date
DATE = "26 Jul 2024"
# of pretrained language models; what follows begins with a space
FRAME = "User: {prompt}\nAssistant:"
# Replies that share no first or last token, so that what stays the same around them is not the
# reply.
STAND_INS = ("Zqxjv", "7kW", "-x-", "love")
# where templates of models that reason split a reply into thought and answer
THOUGHT_END = "</think>"
# A role's name where a turn opens with it: at the start of a line, after a control token, or within
# one or brackets.
TURN = re.compile(
    r"(?:^|[>|\[<#])\s*(?:system|developer|user|human|assistant|model|tool)(?:_token)?\b",
    re.IGNORECASE | re.MULTILINE,
)
CLOSINGS = ("rendered", "trim")
# Beginning-of-sequence tokens: one; as many as template and tokenizer add together, as the paper's
# code fed; or those of the template alone, as apply_chat_template(tokenize=True) gives.
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

    - before, after: the rendered text around the reply
    - prefix_ids, closing_ids: the ids around the reply's ids in the whole model input
    - header_ids: the ids from the end of the user's turn to the reply. A gate reads the first of
      them. Empty without a gate.
    - gate_position: where the gate reads in prefix_ids; None without a gate
    """

    prompt: str
    bos: str
    before: str
    after: str
    prefix_ids: Ids
    closing_ids: Ids
    header_ids: Ids = ()
    gate_position: int | None = None


def open_conversation(
    tokenizer: PreTrainedTokenizerBase,
    prompt: str,
    bos: str = "single",
    *,
    gated: bool = False,
) -> Conversation:
    """Return the prompt rendered with a gap for the reply.

    `bos` is one of BOS. `gated` says whether a gate reads where the user's turn ends. InputError if
    the prompt is empty, or if the template leaves no place for the reply or adds something
    unexpected.
    """
    if bos not in BOS:
        raise InputError(f"bos must be one of {', '.join(BOS)}, not {bos!r}")
    _refuse_empty(prompt)
    before, after, header = _text_around_reply(tokenizer, prompt)
    inputs = _tokenise(tokenizer, prompt, STAND_INS, bos)
    prefix_ids = tuple(os.path.commonprefix(inputs))
    reversed_ids = [ids[::-1] for ids in inputs]
    closing_ids = tuple(os.path.commonprefix(reversed_ids)[::-1])
    conversation = Conversation(prompt, bos, before, after, prefix_ids, closing_ids)
    if not gated:
        return conversation
    header_ids = tuple(tokenizer(header, add_special_tokens=False)["input_ids"])
    return replace(
        conversation,
        header_ids=header_ids,
        gate_position=_only_position(header_ids, prefix_ids, "prompt"),
    )


def encode(
    tokenizer: PreTrainedTokenizerBase,
    conversation: Conversation,
    replies: Sequence[str],
) -> list[list[int]]:
    """Return the whole model input for each reply as text: chat template, then tokenisation of the
    whole (section 2).

    InputError for a reply that opens another turn in which a gate would read.
    """
    inputs = _tokenise(tokenizer, conversation.prompt, replies, conversation.bos)
    shortest = len(conversation.prefix_ids) + len(conversation.header_ids)
    for ids in inputs if conversation.header_ids else ():
        if len(ids) > shortest:
            _only_position(conversation.header_ids, tuple(ids), "reply")
    return inputs


def render(
    tokenizer: PreTrainedTokenizerBase, prompt: str, replies: Sequence[str]
) -> list[str]:
    """Return the conversations (prompt, reply) as text, by the tokenizer's chat template with
    its date fixed.
    """
    turns = [
        [{"role": "user", "content": prompt}, {"role": "assistant", "content": reply}]
        for reply in replies
    ]
    return tokenizer.apply_chat_template(turns, tokenize=False, date_string=DATE)


def cuts_thoughts(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return whether the chat template takes what stands before THOUGHT_END, and this text
    itself, out of a reply.
    """
    if not tokenizer.chat_template or THOUGHT_END not in str(tokenizer.chat_template):
        return False
    thought, answer = STAND_INS[:2]
    return (
        thought + THOUGHT_END + answer
        not in render(tokenizer, "Why?", [thought + THOUGHT_END + answer])[0]
    )


def _tokenise(
    tokenizer: PreTrainedTokenizerBase, prompt: str, replies: Sequence[str], bos: str
) -> list[list[int]]:
    if tokenizer.chat_template:
        return _ids_of_texts(tokenizer, render(tokenizer, prompt, replies), bos)
    return _ids_of_pairs(tokenizer, [prompt] * len(replies), replies)


def _ids_of_texts(
    tokenizer: PreTrainedTokenizerBase, texts: list[str], bos: str
) -> list[list[int]]:
    """Return the ids of rendered conversations, which all begin alike."""
    with working_tokenizer(tokenizer.name_or_path):
        if bos == "single" and _adds_bos(tokenizer, texts[0]):
            texts = [text.removeprefix(tokenizer.bos_token) for text in texts]
        return tokenizer(texts, add_special_tokens=bos != "none", **ONLY_IDS)[
            "input_ids"
        ]


def _ids_of_pairs(
    tokenizer: PreTrainedTokenizerBase, prompts: Sequence[str], replies: Sequence[str]
) -> list[list[int]]:
    with working_tokenizer(tokenizer.name_or_path):
        return tokenizer(list(prompts), list(replies), **ONLY_IDS)["input_ids"]


def _adds_bos(tokenizer: PreTrainedTokenizerBase, text: str) -> bool:
    """Return whether the tokenizer puts a bos of its own before text that starts with one."""
    bos = tokenizer.bos_token
    start = [tokenizer.bos_token_id]
    if not bos or not text.startswith(bos):
        return False
    plain = tokenizer(text, add_special_tokens=False)["input_ids"]
    return tokenizer(text)["input_ids"][: len(plain) + 1] == start + plain


def _text_around_reply(
    tokenizer: PreTrainedTokenizerBase, prompt: str
) -> tuple[str, str, str]:
    """Return the rendered text before the reply, the text after it, and the text between prompt
    and reply.
    """
    if not tokenizer.chat_template:
        # encoders read the pair (prompt, reply); there is no text around it
        return f"{prompt}\n", "", ""
    asked, replied, other = STAND_INS[:3]
    [rendered] = render(tokenizer, asked, [replied])
    _, _, behind = rendered.partition(asked)
    header, _, after = behind.rpartition(replied)
    whole = render(tokenizer, prompt, [replied])[0]
    before = whole[: len(whole) - len(replied + after)]
    problem = ""
    if render(tokenizer, asked, [other])[0].count(other) != 1 or not header:
        problem = (
            "leaves no place for the reply, or more than one; give a checkpoint whose template "
            "prints the assistant's turn once, as it is"
        )
    # White space alone between prompt and reply opens no turn that one could find again.
    elif TURN.search(after) or header.strip() and header.strip() in after:
        problem = "opens another turn after the reply; give another one"
    elif not before.endswith((prompt + header, prompt.strip() + header)):
        problem = f"drops or alters the prompt {prompt!r}; word it otherwise"
    elif any("\ud800" <= character <= "\udfff" for character in before + after):
        problem = (
            "writes half of a surrogate pair, which is no character; correct it, or give another "
            "one (template=)"
        )
    if problem:
        raise InputError(f"the chat template of {tokenizer.name_or_path} {problem}")
    return before, after, header


def _only_position(pattern: Ids, ids: Ids, where: str) -> int:
    positions = [i for i in range(len(ids)) if ids[i : i + len(pattern)] == pattern]
    if len(positions) != 1:
        raise InputError(
            f"the user's turn ends {len(positions)} times, so the model's gate has no single place "
            f"to read; take control strings out of the {where}"
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
    prompt: str,
    replies: Sequence,
    *,
    reply_mode: str = "text",
    bos: str = "single",
    gated: bool = False,
) -> Inputs:
    """Return the model inputs for these replies to the prompt, identical ones merged.

    - reply_mode "text": each reply is a string, which is put into the chat template and tokenised
      with it (section 2)
    - reply_mode "ids": each reply is a sequence of token ids, inserted unchanged between prefix and
      closing ids
    - bos, gated: see `open_conversation`, also for its InputError

    InputError also for another mode, for a single string, and for no reply.
    """
    replies = _listed(replies, reply_mode)
    conversation = open_conversation(tokenizer, prompt, bos, gated=gated)
    prefix = conversation.prefix_ids
    closing = conversation.closing_ids
    distinct = list(dict.fromkeys(replies))
    if reply_mode == "ids":
        tails = [(len(prefix), ids + closing) for ids in distinct]
    else:
        tails = []
        for start in range(0, len(distinct), TEXTS_AT_ONCE):
            texts = distinct[start : start + TEXTS_AT_ONCE]
            tails += [
                _after_prefix(tuple(ids), prefix)
                for ids in encode(tokenizer, conversation, texts)
            ]
    return _merged(conversation, replies, dict(zip(distinct, tails, strict=True)))


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


def inputs_for_rows(
    tokenizer: PreTrainedTokenizerBase,
    contexts: Sequence[Turns],
    replies: Sequence[Sequence[str]],
    bos: str = "single",
    *,
    gated: bool = False,
) -> list[Inputs]:
    """Return for each context (turns that end with the user's) the inputs of its replies, as
    inputs_for does.

    All conversations are rendered and tokenised together. An encoder reads the last turn alone.
    InputError as for open_conversation.
    """
    prompts = [context[-1]["content"] for context in contexts]
    for prompt in prompts:
        _refuse_empty(prompt)
    first = open_conversation(tokenizer, prompts[0], bos, gated=gated)
    before = _texts_before_replies(tokenizer, contexts, first)
    ids = iter(_ids_of_rows(tokenizer, contexts, replies, before, bos))
    opening = [tuple(next(ids)) for _ in contexts]
    inputs = []
    for prompt, text, start, some in zip(
        prompts, before, opening, replies, strict=True
    ):
        conversation = replace(first, prompt=prompt, before=text)
        whole = [tuple(next(ids)) for _ in some]
        inputs.append(_inputs_of_context(conversation, start, some, whole))
    return inputs


def _ids_of_rows(
    tokenizer: PreTrainedTokenizerBase,
    contexts: Sequence[Turns],
    replies: Sequence[Sequence[str]],
    before: list[str],
    bos: str,
) -> list[list[int]]:
    """Return the ids up to the reply of each context, and then those of each whole conversation.

    before: the rendered text before the reply, of each context.
    """
    pairs = zip(contexts, replies, strict=True)
    flat = [(context, reply) for context, some in pairs for reply in some]
    if tokenizer.chat_template:
        turns = [
            [*context, {"role": "assistant", "content": reply}]
            for context, reply in flat
        ]
        texts = tokenizer.apply_chat_template(turns, tokenize=False, date_string=DATE)
        return _ids_of_texts(tokenizer, before + texts, bos)
    asked = [
        context[-1]["content"]
        for context in (*contexts, *(context for context, _ in flat))
    ]
    return _ids_of_pairs(
        tokenizer, asked, [""] * len(contexts) + [reply for _, reply in flat]
    )


def _inputs_of_context(
    conversation: Conversation, start: Ids, replies: Sequence[str], whole: list[Ids]
) -> Inputs:
    """Return the inputs of the replies to one context. start: the ids up to the reply; whole: those
    of each conversation. A gate, if there is one, has a header to look for.
    """
    prefix = tuple(os.path.commonprefix([*whole, start]))
    conversation = replace(conversation, prefix_ids=prefix)
    if header := conversation.header_ids:
        position = _only_position(header, prefix, "prompt")
        conversation = replace(conversation, gate_position=position)
        for ids in whole:
            _only_position(header, ids, "reply")
    tails = [(len(prefix), ids[len(prefix) :]) for ids in whole]
    return _merged(conversation, replies, dict(zip(replies, tails, strict=True)))


def _texts_before_replies(
    tokenizer: PreTrainedTokenizerBase, contexts: Sequence[Turns], first: Conversation
) -> list[str]:
    """Return the rendered text before the reply to each context. InputError if a template alters
    the last turn.
    """
    if not tokenizer.chat_template:
        return [f"{context[-1]['content']}\n" for context in contexts]
    header = _text_around_reply(tokenizer, first.prompt)[2]
    turns = [
        [*context, {"role": "assistant", "content": STAND_INS[0]}]
        for context in contexts
    ]
    rendered = tokenizer.apply_chat_template(turns, tokenize=False, date_string=DATE)
    texts = [text.removesuffix(STAND_INS[0] + first.after) for text in rendered]
    for text, context in zip(texts, contexts, strict=True):
        prompt = context[-1]["content"]
        if not text.endswith((prompt + header, prompt.strip() + header)):
            raise InputError(
                f"the chat template of {tokenizer.name_or_path} drops or alters the prompt "
                f"{prompt!r}, or an earlier turn after it; word it otherwise"
            )
    return texts


def _listed(replies: Iterable, reply_mode: str) -> list:
    """Return the replies as a list of strings, or of tuples of ids. InputError for a single
    string and for no reply.
    """
    given = [] if isinstance(replies, str | bytes) else list(replies)
    texts = [isinstance(reply, str) for reply in given]
    if reply_mode == "text" and given and all(texts):
        return given
    sequences = [isinstance(reply, Iterable) for reply in given]
    if reply_mode == "ids" and given and not any(texts) and all(sequences):
        return [tuple(ids) for ids in given]
    wanted = {"text": "strings", "ids": "sequences of token ids"}.get(reply_mode)
    if wanted is None:
        raise InputError(f"reply_mode must be 'text' or 'ids', not {reply_mode!r}")
    raise InputError(
        f"replies must be a list of {wanted}, with one or more in it, not {str(replies)[:40]!r}"
    )


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


# --- what follows the reply -----------------------------------------------------------------------

# A chat template may open another turn after the reply, as the original one of Llama 3 does. The
# turn can be kept ("rendered") or left out ("trim"). All of the above is given the trimmed
# rendering; `complete` puts back the turn.


@dataclass(frozen=True)
class OpenedTurn:
    """The header of a turn that a template opens after the reply: its text, and the ids that
    this text always has.
    """

    text: str
    ids: Ids


def prepare_tokenizer(
    tokenizer: PreTrainedTokenizerBase, head_name: str
) -> OpenedTurn | None:
    """Let a tokenizer render conversations as a model with this head reads them. Return the turn
    that is left out after a reply.

    InputError if the tokenizer lacks what the head needs.
    """
    adds = LAYOUTS[head_name].adds
    missing = ""
    if head_name == "classifier":
        if tokenizer.pad_token_id is None:
            missing = "no pad token, which an encoder needs; name one there"
    elif not tokenizer.chat_template:
        missing = (
            "no chat template; name a file with the one that the reward model was trained with: "
            "--template file, or save it beside as chat_template.jinja"
        )
    elif adds and getattr(tokenizer, adds) is None:
        missing = f"no {adds}, where rewards are read; save the model's own"
    if missing:
        raise InputError(f"{tokenizer.name_or_path}: the tokenizer has {missing}")
    if head_name == "classifier":
        return None
    opened = leave_out_opened_turn(tokenizer, judges=head_name == "next_token")
    if adds:
        token = getattr(tokenizer, adds)
        change_rendered(tokenizer, lambda text: text + token)
    return opened


def leave_out_opened_turn(
    tokenizer: PreTrainedTokenizerBase, judges: bool = False
) -> OpenedTurn | None:
    """Return the turn that the tokenizer's template opens after a reply; None if it opens none, as
    most do.

    From now on the tokenizer's apply_chat_template leaves it out after an assistant's turn. Such a
    turn begins with a control token, and has the header that stands before the reply, except if a
    judge reads the reply in the user's turn and answers next (`judges`). `open_conversation`
    refuses what else may follow.
    """
    asked, replied = STAND_INS[:2]
    whole = render(tokenizer, asked, [replied])[0]
    header, place, after = whole.partition(asked)[2].rpartition(replied)
    role = TURN.search(after) if place else None
    until_role = after[: role.start() + 1] if role else ""
    control = [
        token
        for token in tokenizer.get_added_vocab()
        if token and until_role.endswith(token)
    ]
    text = after[len(until_role) - max(map(len, control)) :] if control else ""
    if not text or not (judges or header.endswith(text)):
        return None
    ids = tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
    if tokenizer(whole)["input_ids"] != tokenizer(whole.removesuffix(text))[
        "input_ids"
    ] + list(ids):
        return None
    change_rendered(tokenizer, lambda rendered: rendered.removesuffix(text))
    return OpenedTurn(text, ids)


def change_rendered(
    tokenizer: PreTrainedTokenizerBase, change: Callable[[str], str]
) -> None:
    """Make the tokenizer's apply_chat_template change each conversation that does not end with a
    generation prompt.
    """
    tokenizer.apply_chat_template = partial(
        _apply, tokenizer.apply_chat_template, change
    )


def _apply(
    apply_template: Callable, change: Callable, conversation: list, **options: object
) -> str | list[str]:
    texts = apply_template(conversation, **options)
    if options.get("add_generation_prompt"):
        return texts
    if isinstance(texts, str):
        return change(texts)
    return list(map(change, texts))


def check_closing(closing: str | None, opened: OpenedTurn | None, gated: bool) -> str:
    """Return how a model's conversations end, one of CLOSINGS: as wanted, or for None as rendered.

    InputError for "trim" if the template opens no turn, and for "rendered" if it opens one and the
    head has a gate: the released code of such heads reads at the last header, which then follows
    the reply.
    """
    problem = ""
    if closing not in (None, *CLOSINGS):
        problem = f"closing must be 'rendered' or 'trim', not {closing!r}"
    elif closing == "trim" and opened is None:
        problem = (
            "closing 'trim' is for templates that open another turn after the reply; leave closing "
            "out"
        )
    elif closing != "trim" and opened is not None and gated:
        problem = (
            "the chat template opens another turn after the reply, and the gate of this head would "
            "read there; say --closing trim, which ends the conversation with the reply"
        )
    if problem:
        raise InputError(problem)
    return closing or "rendered"


def complete(conversation: Conversation, opened: OpenedTurn | None) -> Conversation:
    """Return the conversation with the turn that was left out after the reply; unchanged for
    None.
    """
    if opened is None:
        return conversation
    return replace(
        conversation,
        after=conversation.after + opened.text,
        closing_ids=conversation.closing_ids + opened.ids,
    )


# --- where a language model is about to speak -----------------------------------------------------


def frame(tokenizer: PreTrainedTokenizerBase, prompt: str, *, tuned: bool) -> str:
    """Return the text up to the assistant's reply: the plain frame, or the template with a
    generation prompt.
    """
    if not tuned:
        return FRAME.format(prompt=prompt)
    turn = [{"role": "user", "content": prompt}]
    return tokenizer.apply_chat_template(
        turn, tokenize=False, date_string=DATE, add_generation_prompt=True
    )


def frame_ids(
    tokenizer: PreTrainedTokenizerBase, prompt: str, *, tuned: bool
) -> list[int]:
    """Return the ids of the prompt's frame; a beginning-of-sequence token is there at most once."""
    _refuse_empty(prompt)
    text = frame(tokenizer, prompt, tuned=tuned)
    with working_tokenizer(tokenizer.name_or_path):
        return tokenizer(
            text.removeprefix(tokenizer.bos_token)
            if _adds_bos(tokenizer, text)
            else text
        )["input_ids"]


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
    with working_tokenizer(tokenizer.name_or_path):
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
