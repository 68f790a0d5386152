"""What stands between the control tokens next to a reply is read by itself as within the whole
conversation.
"""

import itertools

import oracle
import pytest
import tiny
from tokenizers import AddedToken, normalizers, pre_tokenizers

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
def test_a_part_read_by_itself_is_what_the_whole_is_read_as(template, bos):
    tokenizer, conversation = opened(template, bos)
    between = conversations.between_control_tokens(tokenizer, conversation)
    assert (
        between.before.endswith(LAST_CONTROL[FAMILIES[template]])
        and between.after == conversation.after
    )
    whole = conversations.encode(tokenizer, conversation, REPLIES)
    assert conversations.encode(tokenizer, conversation, REPLIES, between) == whole
    # without a way round
    assert (
        between.inputs(tokenizer, conversations.render(tokenizer, PROMPT, REPLIES))
        == whole
    )
    assert whole == oracle.input_ids(tokenizer, PROMPT, REPLIES, bos=bos)


def test_without_control_tokens_or_a_template_there_is_no_such_part():
    plain = tiny.make_tokenizer(
        "llama",
        template="{% for m in messages %}{{ m['content'] + '\\n' }}{% endfor %}",
    )
    pairs = tiny.make_tokenizer("deberta")
    for tokenizer in (templates.confine(plain), pairs):
        conversation = conversations.open_conversation(tokenizer, PROMPT)
        assert conversations.between_control_tokens(tokenizer, conversation) is None


def test_a_token_that_others_run_into_is_no_place_to_cut():
    """As blank lines are in Gemma's vocabulary: behind two of them a third would be read as one
    token of three.
    """
    template = (
        "{% for m in messages %}{{ '<start_of_turn>' + m['content'] + '<end_of_turn>' }}{% "
        "endfor %}"
    )
    template = template.replace("+ m['content']", "+ '\\n\\n' + m['content']")
    tokenizer = tiny.make_tokenizer("gemma", template=template)
    tokenizer.add_tokens(
        [AddedToken("\n" * n, special=False, normalized=False) for n in (2, 3)]
    )
    conversation = conversations.open_conversation(templates.confine(tokenizer), PROMPT)
    between = conversations.between_control_tokens(tokenizer, conversation)
    assert between.before.endswith("<start_of_turn>") and between.opening == "\n\n"
    [ids] = between.inputs(
        tokenizer, conversations.render(tokenizer, PROMPT, ["\nlove"])
    )
    assert tokenizer.convert_tokens_to_ids("\n\n\n") in ids and [
        ids
    ] == oracle.input_ids(tokenizer, PROMPT, ["\nlove"])


def test_a_control_token_that_takes_blanks_in_is_no_place_to_cut():
    tokenizer = tiny.make_tokenizer("qwen", template="chatml")
    tokenizer.add_tokens(
        [AddedToken("<|im_end|>", special=True, normalized=False, lstrip=True)],
        special_tokens=True,
    )
    conversation = conversations.open_conversation(templates.confine(tokenizer), PROMPT)
    assert conversations.between_control_tokens(tokenizer, conversation) is None
    [ids] = conversations.encode(tokenizer, conversation, ["love "])
    # the blank went into the token
    assert [ids] == conversations.encode(tokenizer, conversation, ["love"])


def test_where_a_template_writes_something_else_around_a_reply_the_whole_is_read():
    tokenizer, conversation = opened("chatml")
    between = conversations.between_control_tokens(tokenizer, conversation)
    aside = (
        "{% if '7' in messages[1]['content'] %}{{ '<|im_start|>system\\nCount.<|im_end|>\\n' "
        "}}{% endif %}"
    )
    tokenizer.chat_template = aside + tokenizer.chat_template
    assert (
        between.inputs(
            tokenizer, conversations.render(tokenizer, PROMPT, ["love", "7"])
        )
        is None
    )
    ids = conversations.encode(tokenizer, conversation, ["love", "7"], between)
    assert (
        ids == oracle.input_ids(tokenizer, PROMPT, ["love", "7"])
        and len(ids[1]) > len(ids[0]) + 5
    )


def test_a_part_that_would_be_read_otherwise_is_not_taken():
    """A tokenizer that puts a space before whatever comes first reads a part otherwise than
    within the whole.
    """
    turns = (
        "{% for m in messages %}{{ '<|turn|>' + m['content'] + '<|end|>' }}{% endfor %}"
    )
    tokenizer = tiny.make_tokenizer("deberta", template=turns, vocabulary=["love"])
    tokenizer.add_tokens(
        [AddedToken(text, special=True) for text in ("<|turn|>", "<|end|>")],
        special_tokens=True,
    )
    told = {}
    for scheme in ("first", "never"):
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(
            replacement="▁", prepend_scheme=scheme
        )
        conversation = conversations.open_conversation(
            templates.confine(tokenizer), PROMPT
        )
        told[scheme] = (
            conversations.between_control_tokens(tokenizer, conversation) is not None
        )
    assert told == {"first": False, "never": True}


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
    between = conversations.between_control_tokens(tokenizer, conversation)
    assert (between is None) == (normalized and form is not None)
    replies = ["\u0301love", "\u0338", "e\u0301"]
    assert conversations.encode(
        tokenizer, conversation, replies, between
    ) == oracle.input_ids(tokenizer, PROMPT, replies)
