"""Templates that open another turn after the reply: scored as rendered, or with that turn left
out.
"""

import numpy as np
import oracle
import pytest
import tiny
from transformers import AutoTokenizer

from audit.opening import open_model as load
from lib import InputError
from lib.scoring import vocabulary

PROMPT = "What, in one word, is the greatest thing ever?"
WORDS = [
    "",
    " ",
    "love",
    " love",
    "\n\nlove",
    "freedom and war",
    "你好",
    "<|eot_id|>",
    "<|end_of_text|>",
]
HEADER = "<|start_header_id|>assistant<|end_header_id|>\n\n"
# family of tiny checkpoints -> a template that opens a turn of the assistant after the reply
OPENING = {
    "linear_llama": tiny.TEMPLATES["extra_header"],
    "linear_gemma2": tiny.TEMPLATES["gemma"] + "{{- '<start_of_turn>model\\n' }}",
    "linear_qwen3": tiny.TEMPLATES["chatml"] + "{{- '<|im_start|>assistant\\n' }}",
}


@pytest.fixture(scope="module", params=OPENING)
def folder(request, tmp_path_factory):
    kind = request.param
    return tiny.make_checkpoint(
        tmp_path_factory.mktemp(kind), kind, template=OPENING[kind]
    )


def same(rewards, expected):
    np.testing.assert_allclose(
        rewards, expected, atol=2e-5 * max(1, np.abs(expected).max()), rtol=0
    )


def replies_of(folder, reply_mode: str) -> list:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return (
        WORDS
        if reply_mode == "text"
        else [[i] for i in tiny.awkward_ids(tokenizer).values()]
    )


@pytest.mark.parametrize("reply_mode", ["text", "ids"])
def test_as_rendered_equals_the_oracle_and_trimmed_the_template_without_the_turn(
    folder, tmp_path, reply_mode
):
    rendered, trimmed = (
        load(folder, device="cpu"),
        load(folder, device="cpu", closing="trim"),
    )
    replies = replies_of(folder, reply_mode)
    as_rendered = vocabulary.score_replies(
        rendered, PROMPT, replies, reply_mode=reply_mode
    )
    same(as_rendered, oracle.rewards(folder, PROMPT, replies, reply_mode=reply_mode))
    ends_with_reply = vocabulary.score_replies(
        trimmed, PROMPT, replies, reply_mode=reply_mode
    )
    kind = next(
        kind
        for kind, template in OPENING.items()
        if template == rendered.tokenizer.chat_template
    )
    own = (
        tiny.TEMPLATES["llama3"]
        if kind == "linear_llama"
        else OPENING[kind].rpartition("{{-")[0]
    )
    plain = tiny.make_checkpoint(tmp_path, kind, template=own)
    same(ends_with_reply, oracle.rewards(plain, PROMPT, replies, reply_mode=reply_mode))
    # otherwise nothing was told apart
    assert np.abs(ends_with_reply - as_rendered).max() > 0.1


def test_the_conversation_and_what_is_read_end_alike(folder):
    model = load(folder, device="cpu")
    conversation = model.conversation(PROMPT)
    assert (
        conversation.after.endswith(model.opened.text)
        and conversation.closing_ids[-len(model.opened.ids) :]
    )
    whole = AutoTokenizer.from_pretrained(folder)
    expected = oracle.input_ids(whole, PROMPT, WORDS)
    assert model.encode(conversation, WORDS) == expected
    inputs = model.inputs_for(PROMPT, WORDS)
    assert [
        [*inputs.prefix_ids, *inputs.suffixes[group]] for group in inputs.group
    ] == expected
    assert [list(inputs.reply_ids[group]) for group in inputs.group][2] == whole(
        "love", add_special_tokens=False
    ).input_ids


def test_a_frame_that_is_asked_for_keeps_its_header(tmp_path):
    """A language model reads the prompt up to where the assistant speaks; that is no turn after
    a reply.
    """
    folder = tiny.make_checkpoint(tmp_path, "linear_llama", template="extra_header")
    given = {
        "conversation": [{"role": "user", "content": "Why?"}],
        "tokenize": False,
        "add_generation_prompt": True,
    }
    framed = load(folder, device="cpu").tokenizer.apply_chat_template(**given)
    assert framed == AutoTokenizer.from_pretrained(folder).apply_chat_template(
        **given
    ) and framed.endswith(HEADER)


def test_it_is_told_recorded_and_part_of_a_searchs_name(folder, tmp_path, capsys):
    rendered, trimmed = (
        load(folder, device="cpu"),
        load(folder, device="cpu", closing="trim"),
    )
    table = vocabulary.score_vocabulary(
        rendered, {"greatest": PROMPT}, tmp_path / "t.parquet", token_ids=[5, 6]
    )
    assert table.attrs["metadata"]["closing"] == "rendered"
    assert "--closing trim" in "".join(capsys.readouterr())
    with pytest.raises(InputError, match="other settings .closing."):
        vocabulary.score_vocabulary(
            trimmed, {"greatest": PROMPT}, tmp_path / "t.parquet", token_ids=[5, 6]
        )


def test_a_template_that_ends_with_the_reply_has_nothing_to_trim(tmp_path):
    folder = tiny.make_checkpoint(tmp_path, "linear_llama")
    assert load(folder, device="cpu").opened is None
    with pytest.raises(InputError, match="leave closing out"):
        load(folder, device="cpu", closing="trim")
    with pytest.raises(InputError, match="must be 'rendered' or 'trim', not 'cut'"):
        load(folder, device="cpu", closing="cut")
    table = vocabulary.score_vocabulary(
        load(folder, device="cpu"), {"g": PROMPT}, tmp_path / "t.parquet", token_ids=[5]
    )
    # tables of such models are what they were
    assert "closing" not in table.attrs["metadata"]


def test_a_gate_would_read_in_the_opened_turn_so_it_has_to_be_trimmed(checkpoint):
    folder = checkpoint("armorm", template="extra_header")
    with pytest.raises(InputError, match="say --closing trim"):
        load(folder, device="cpu")
    plain = checkpoint("armorm", template="llama3")
    trimmed = load(folder, device="cpu", closing="trim")
    same(
        vocabulary.score_replies(trimmed, PROMPT, WORDS[2:6]),
        oracle.rewards(plain, PROMPT, WORDS[2:6]),
    )


@pytest.mark.parametrize(
    "extra",
    [
        "{{- '\\n\\nassistant: ' }}",
        "{{- '<|start_header_id|>user<|end_header_id|>\\n\\n' }}",
    ],
)
def test_only_the_header_before_the_reply_is_taken_for_an_opened_turn(tmp_path, extra):
    folder = tiny.make_checkpoint(
        tmp_path, "linear_llama", template=tiny.TEMPLATES["llama3"] + extra
    )
    with pytest.raises(InputError, match="opens another turn after the reply"):
        load(folder, device="cpu")
