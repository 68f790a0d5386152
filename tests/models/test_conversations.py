"""Conversations as a model reads them: ids around and of replies, beginning tokens, turns."""

import itertools

import oracle
import pytest
import tiny
from conftest import refusal_of
from tokenizers import AddedToken, normalizers, processors

from lib.models import conversations

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
    tokenizer = tiny.make_tokenizer(FAMILIES[template], template=template)
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
    conversation = conversations.open_conversation(tokenizer, PROMPT)
    [ids] = conversations.encode(tokenizer, conversation, ["love "])
    # the blank went into the token
    assert [ids] == conversations.encode(tokenizer, conversation, ["love"])


def ids_of(tokenizer, bos: str) -> list[int]:
    """The ids of a conversation, as they are fed."""
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


def test_a_tokenizer_adds_no_end_behind_the_end_that_a_template_writes():
    end = "<|end_of_text|>"
    plain = "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"
    for template, ends in ((tiny.TEMPLATES["llama3"], False), (plain, True)):
        tokenizer = tiny.make_tokenizer("llama", template=template)
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=f"$A {end}", special_tokens=[(end, 1)]
        )
        assert tokenizer("love")["input_ids"][-1:] == [1]
        turns = [
            {"role": "user", "content": PROMPT},
            {"role": "assistant", "content": "love"},
        ]
        ids = tokenizer.apply_chat_template(turns, return_dict=False)
        assert ids_of(tokenizer, "none") == ids
        assert ids_of(tokenizer, "single") == ids + [1] * ends
        assert ids_of(tokenizer, "double") == [*ids, 1]
        # nothing comes between a language model's prompt and its answer
        assert conversations.frame_ids(tokenizer, PROMPT, tuned=True)[-1] != 1


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
    conversation = conversations.open_conversation(tokenizer, PROMPT)
    replies = ["\u0301love", "\u0338", "e\u0301"]
    assert conversations.encode(tokenizer, conversation, replies) == oracle.input_ids(
        tokenizer, PROMPT, replies
    )


@pytest.mark.parametrize(
    "written, text",
    [
        ("strftime_now('%d %b %Y, %H:%M')", "26 Jul 2024, 00:00"),
        ("date_string", "26 Jul 2024"),
    ],
)
def test_every_template_is_told_the_same_day(written, text):
    tokenizer = tiny.make_tokenizer("llama", template="{{ " + written + " }}")
    assert conversations.render(tokenizer, "Why?", ["love"]) == [text]
    assert conversations.frame(tokenizer, "Why?", tuned=True) == text


@pytest.mark.parametrize("template", ["{{ 1 / 0 }}", "{{ torn", "{% include 'x' %}"])
def test_whatever_a_template_raises_is_one_line(template):
    tokenizer = tiny.make_tokenizer("llama", template=template)
    refusal_of(lambda: conversations.render(tokenizer, "Why?", ["love"]), "fails")


def test_earlier_turns_are_read_before_the_prompt():
    tokenizer = tiny.make_tokenizer("llama", template="llama3")
    turns = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": PROMPT},
        {"role": "assistant", "content": "love"},
        {"role": "user", "content": "Why?"},
    ]
    conversation = conversations.open_conversation(tokenizer, turns)
    [ids] = conversations.encode(tokenizer, conversation, ["peace"])
    last = {"role": "assistant", "content": "peace"}
    text = tokenizer.apply_chat_template([*turns, last], tokenize=False)
    text = text.removeprefix(tokenizer.bos_token)
    assert conversation.prompt == "Why?" and ids == tokenizer(text)["input_ids"]


def test_a_turn_that_a_template_opens_after_the_reply_is_read_with_it():
    template = tiny.TEMPLATES["extra_header"]
    tokenizer = tiny.make_tokenizer("llama", template=template)
    conversation = conversations.open_conversation(tokenizer, PROMPT)
    assert conversation.after.endswith("assistant<|end_header_id|>\n\n")
    inputs = conversations.inputs_for(tokenizer, conversation, ["love", "war"])
    assert {conversation.closing_ids} == {
        suffix[-len(conversation.closing_ids) :] for suffix in inputs.suffixes
    }
    refusal_of(  # a gate would read there
        lambda: conversations.open_conversation(tokenizer, PROMPT, gated=True), "turn"
    )
