"""Templates that open another turn after the reply: scored as rendered, or with that turn left
out.
"""

import numpy as np
import oracle
import pytest
import tiny
from conftest import refusal_of
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
# family of tiny checkpoints -> its template, and what opens a turn of the assistant behind it
FAMILIES = {
    "linear_llama": (tiny.TEMPLATES["llama3"], HEADER),
    "linear_gemma2": (tiny.TEMPLATES["gemma"], "<start_of_turn>model\n"),
    "linear_qwen3": (tiny.TEMPLATES["chatml"], "<|im_start|>assistant\n"),
}


def same(rewards, expected):
    np.testing.assert_allclose(
        rewards, expected, atol=2e-5 * max(1, np.abs(expected).max()), rtol=0
    )


@pytest.mark.parametrize("reply_mode", ["text", "ids"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_as_rendered_equals_the_oracle_and_trimmed_the_template_without_the_turn(
    checkpoint, kind, reply_mode
):
    own, header = FAMILIES[kind]
    plain = checkpoint(kind, template=own)
    opening = checkpoint(kind, template=f"{own}{{{{- {header!r} }}}}")
    replies = WORDS
    if reply_mode == "ids":
        tokenizer = AutoTokenizer.from_pretrained(plain)
        replies = [[i] for i in tiny.awkward_ids(tokenizer).values()]
    rewards = []
    for folder, closing in ((opening, "rendered"), (plain, "trim")):
        model = load(opening, device="cpu", closing=closing)
        found = vocabulary.score_replies(model, PROMPT, replies, reply_mode=reply_mode)
        expected = oracle.rewards(folder, PROMPT, replies, reply_mode=reply_mode)
        same(found, expected)
        rewards.append(found)
    # otherwise nothing was told apart
    assert np.abs(rewards[0] - rewards[1]).max() > 0.1


def test_how_a_conversation_ends_is_told_and_recorded(checkpoint, tmp_path, capsys):
    folder = checkpoint("linear_llama", template="extra_header")

    def score(closing):
        model = load(folder, device="cpu", closing=closing)
        path = tmp_path / "t.parquet"
        return vocabulary.score_vocabulary(model, {"g": PROMPT}, path, token_ids=[5])

    assert score("rendered").attrs["metadata"]["closing"] == "rendered"
    assert "--closing trim" in "".join(capsys.readouterr())
    refusal_of(lambda: score("trim"), "other settings (closing")
    refusal_of(lambda: score("cut"), "must be 'rendered' or 'trim', not 'cut'")
    plain = checkpoint("linear_llama")
    refusal_of(lambda: load(plain, closing="trim"), "leave closing out")


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
