"""What follows the reply where a chat template opens another turn after it, as the original one of Llama 3 does.

That template always ends with the header of an assistant's turn. What follows the reply's own closing token is the same
whatever the reply, so it can be kept ("rendered": the model reads what its template gives) or left out ("trim": the
conversation ends where the reply's turn does). `lib.models.conversations` knows no such templates: it is given the
trimmed rendering, and what was left out is put back here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from transformers import PreTrainedTokenizerBase

from lib import InputError
from lib.models.conversations import STAND_INS, TURN, Conversation, Ids, Inputs, render

CLOSINGS = ("rendered", "trim")


@dataclass(frozen=True)
class OpenedTurn:
    """The header of a turn that a template opens after the reply: its text, and the ids that this text always has."""

    text: str
    ids: Ids


def leave_out_opened_turn(tokenizer: PreTrainedTokenizerBase) -> OpenedTurn | None:
    """The turn that the tokenizer's template opens after a reply; None if it opens none, as most do.

    From now on the tokenizer's apply_chat_template leaves it out after an assistant's turn. Only a turn that begins
    with a control token, and whose header is the one before the reply, is taken for one; `open_conversation` refuses
    what else may follow. InputError if the template fails.
    """
    asked, replied = STAND_INS[:2]
    whole = render(tokenizer, asked, [replied])[0]
    header, found, after = whole.partition(asked)[2].rpartition(replied)
    text = _opened_in(tokenizer, after) if found else ""
    if not text or not header.endswith(text):
        return None
    ids = tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
    if tokenizer(whole)["input_ids"] != tokenizer(whole.removesuffix(text))["input_ids"] + list(ids):
        return None
    tokenizer.apply_chat_template = partial(_apply, tokenizer.apply_chat_template, text)  # type: ignore[method-assign]
    return OpenedTurn(text, ids)


def _opened_in(tokenizer: PreTrainedTokenizerBase, after: str) -> str:
    """What follows the reply from the control token on that stands before a role's name; "" if there is none."""
    role = TURN.search(after)
    upto = after[: role.start() + 1] if role else ""
    control = [token for token in tokenizer.get_added_vocab() if token and upto.endswith(token)]
    return after[len(upto) - max(map(len, control)) :] if control else ""


def _apply(apply_template: Callable, opened: str, conversation: list, **options: object) -> str | list[str]:
    texts = apply_template(conversation, **options)
    if options.get("add_generation_prompt"):
        return texts
    return texts.removesuffix(opened) if isinstance(texts, str) else [text.removesuffix(opened) for text in texts]


def checked(closing: str | None, opened: OpenedTurn | None, gated: bool) -> str:
    """How a model's conversations end, one of CLOSINGS: as wanted, or for None as rendered.

    InputError for another word, for "trim" where the template opens no turn, and for "rendered" where it opens one and
    the head has a gate: its released code reads at the last header, which then comes after the reply.
    """
    if closing not in (None, *CLOSINGS):
        raise InputError(f"closing must be 'rendered' or 'trim', not {closing!r}")
    if closing == "trim" and opened is None:
        raise InputError("closing 'trim' is for templates that open another turn after the reply; leave closing out")
    if closing != "trim" and opened is not None and gated:
        raise InputError(
            "the chat template opens another turn after the reply, and the gate of this head would read there; "
            "say closing='trim', which ends the conversation with the reply"
        )
    return closing or "rendered"


def complete(conversation: Conversation, opened: OpenedTurn | None) -> Conversation:
    """The conversation with what was left out after the reply; as it is for None."""
    if opened is None:
        return conversation
    return replace(
        conversation, after=conversation.after + opened.text, closing_ids=conversation.closing_ids + opened.ids
    )


def complete_inputs(inputs: Inputs, opened: OpenedTurn | None) -> Inputs:
    """The inputs with what was left out after each reply; as they are for None."""
    if opened is None:
        return inputs
    suffixes = [suffix + opened.ids for suffix in inputs.suffixes]
    return replace(inputs, conversation=complete(inputs.conversation, opened), suffixes=suffixes)


def complete_ids(sequences: Sequence[list[int]], opened: OpenedTurn | None) -> list[list[int]]:
    """Whole model inputs with what was left out after the reply; as they are for None."""
    return [[*ids, *(opened.ids if opened else ())] for ids in sequences]
