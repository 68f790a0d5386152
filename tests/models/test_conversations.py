"""Conversations as a model reads them: ids around and of replies, beginning tokens, turns."""

import itertools

import oracle
import pytest
import tiny
from tokenizers import AddedToken, normalizers

from lib.models import conversations, templates

PROMPT = "What, in one word, is the greatest thing ever?"
FAMILIES = {
    "llama3": "llama",
    "llama32": "llama",
    "llama31_no_bos": "llama",
    "gemma": "gemma",
    "gemma_no_bos": "gemma",
    "chatml": "qwen",
    "qwen3": "qwen",
}
LAST_CONTROL = {
    "llama": "<|end_header_id|>",
    "gemma": "<start_of_turn>",
    "qwen": "<|im_start|>",
}
PIECES = [
    "",
    " ",
    "\n",
    "\n\n",
    "\t",
    "love",
    " love",
    "7",
    "</think>",
    "<think>",
    "<|eot_id|>",
    "<end_of_turn>",
    "<",
    "|>",
    "<|im_end|>",
    "\u00e9",
    "e\u0301",
    "\ufffd",
    "\U0001f642",
]
REPLIES = [first + second for first, second in itertools.product(PIECES, PIECES)]


def opened(template: str, bos: str = "single"):
    tokenizer = templates.confine(
        tiny.make_tokenizer(FAMILIES[template], template=template)
    )
    return tokenizer, conversations.open_conversation(tokenizer, PROMPT, bos)


@pytest.mark.parametrize("bos", conversations.BOS)
@pytest.mark.parametrize("template", FAMILIES)
def test_replies_are_read_as_the_plain_program_reads_them(template, bos):
    tokenizer, conversation = opened(template, bos)
    whole = conversations.encode(tokenizer, conversation, REPLIES)
    assert whole == oracle.input_ids(tokenizer, PROMPT, REPLIES, bos=bos)


def test_a_control_token_takes_blanks_in_as_its_tokenizer_says():
    tokenizer = tiny.make_tokenizer("qwen", template="chatml")
    tokenizer.add_tokens(
        [AddedToken("<|im_end|>", special=True, normalized=False, lstrip=True)],
        special_tokens=True,
    )
    conversation = conversations.open_conversation(templates.confine(tokenizer), PROMPT)
    [ids] = conversations.encode(tokenizer, conversation, ["love "])
    # the blank went into the token
    assert [ids] == conversations.encode(tokenizer, conversation, ["love"])


def ids_of(tokenizer, bos: str) -> list[int]:
    """The ids of a conversation, as they are fed."""
    templates.confine(tokenizer)
    return conversations.encode(
        tokenizer, conversations.open_conversation(tokenizer, PROMPT, bos), ["love"]
    )[0]


@pytest.mark.drill
@pytest.mark.parametrize("template", ["llama3", "llama3_no_bos", "llama31"])
@pytest.mark.parametrize(
    "bos", ["<|begin_of_text|>", "<|start_header_id|>"], ids=["added", "not added"]
)
def test_a_bos_that_the_tokenizer_does_not_add_is_not_taken_away(template, bos):
    """The tokenizer adds <|begin_of_text|>, whatever its configuration calls bos."""
    tokenizer, untouched = (
        tiny.make_tokenizer("llama", template=template) for _ in range(2)
    )
    tokenizer.bos_token = untouched.bos_token = bos
    turns = [
        {"role": "user", "content": PROMPT},
        {"role": "assistant", "content": "love"},
    ]
    text = untouched.apply_chat_template(turns, tokenize=False)
    added = tokenizer.convert_tokens_to_ids("<|begin_of_text|>")
    assert ids_of(tokenizer, "none") == untouched.apply_chat_template(
        turns, return_dict=False
    )
    assert ids_of(tokenizer, "double") == [
        added,
        *untouched(text, add_special_tokens=False)["input_ids"],
    ]
    has_its_own = text.startswith("<|begin_of_text|>")
    assert (
        ids_of(tokenizer, "single")
        == ids_of(tokenizer, "double")[1 if has_its_own else 0 :]
    )


@pytest.mark.drill
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_template_may_write_bos_several_times_where_the_tokenizer_adds_none(times):
    """As ChatML does whose <|im_start|> is called bos; the same holds where a language model is
    about to speak.
    """
    tokenizer = tiny.make_tokenizer(
        "qwen", template="<|im_start|>" * (times - 1) + tiny.TEMPLATES["chatml"]
    )
    tokenizer.bos_token = "<|im_start|>"
    start = tokenizer.convert_tokens_to_ids("<|im_start|>")
    for ids in (
        ids_of(tokenizer, "single"),
        conversations.frame_ids(tokenizer, PROMPT, tuned=True),
    ):
        assert ids[: times + 1] == [start] * times + tokenizer("user")["input_ids"][:1]


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("form", [normalizers.NFC, None])
def test_a_control_token_that_is_searched_in_normalised_text_is_no_place_to_cut(
    normalized, form
):
    """A normaliser may join what stands on both sides of such a token, so that a part alone is
    read otherwise.
    """
    template = (
        "{% for m in messages %}{{ '<|turn|>' + m['content'] + '<|end|>' }}{% endfor %}"
    )
    tokenizer = tiny.make_tokenizer("llama", template=template)
    marks = [
        AddedToken(text, special=True, normalized=normalized)
        for text in ("<|turn|>", "<|end|>")
    ]
    tokenizer.add_tokens(marks, special_tokens=True)
    tokenizer.backend_tokenizer.normalizer = form() if form else None
    conversation = conversations.open_conversation(templates.confine(tokenizer), PROMPT)
    replies = ["\u0301love", "\u0338", "e\u0301"]
    assert conversations.encode(tokenizer, conversation, replies) == oracle.input_ids(
        tokenizer, PROMPT, replies
    )
