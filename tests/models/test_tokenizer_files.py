"""Ids as tokenizer.json says, where the tokenizer's class in transformers gives other ones."""

import json

import pytest
import tiny
from tokenizers import Tokenizer

from audit.opening import open_model
from audit.preflight import STAGES, change_by_class
from lib.models.loading import files_of, tokenizer_of
from lib.scoring import vocabulary

QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_SPLIT = {
    "type": "Split",
    "pattern": {"Regex": QWEN_WORDS},
    "behavior": "Isolated",
    "invert": False,
}
BY_BYTES = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": False,
}
QWEN_STAGE = {"type": "Sequence", "pretokenizers": [QWEN_SPLIT, BY_BYTES]}
SPACE = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
PREPENDED = {
    "type": "Sequence",
    "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, SPACE],
}
# family, class, what tokenizer.json says otherwise; whether the class changes ids
KINDS = {
    "digits by threes": ("qwen", "Qwen2Tokenizer", {}, True),
    "NFKC": (
        "qwen",
        "Qwen2Tokenizer",
        {"normalizer": {"type": "NFKC"}, "pre_tokenizer": QWEN_STAGE},
        True,
    ),
    "Prepend": ("gemma", "LlamaTokenizer", {"normalizer": PREPENDED}, True),
    "its own": ("qwen", "Qwen2Tokenizer", {"pre_tokenizer": QWEN_STAGE}, False),
    "no class": ("llama", "PreTrainedTokenizerFast", {}, False),
}


def edit(file, **fields):
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


@pytest.mark.parametrize("name", KINDS)
def test_ids_are_those_of_the_file_under_every_class(name, tmp_path):
    family, named, parts, changes = KINDS[name]
    template = "llama3" if family == "llama" else "chatml"
    words = ["987", "9876"]
    tiny.make_tokenizer(family, template=template, vocabulary=words).save_pretrained(
        tmp_path
    )
    edit(tmp_path / "tokenizer.json", **parts)
    edit(tmp_path / "tokenizer_config.json", tokenizer_class=named)
    tokenizer = tokenizer_of(files_of(tmp_path))
    file = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in STAGES:
        for whole in (True, False):
            ids = tokenizer(text, add_special_tokens=whole)["input_ids"]
            assert ids == file.encode(text, None, False, whole).ids
    assert tokenizer("a", "b")["input_ids"] == file.encode("a", "b").ids
    change = change_by_class(tmp_path)
    assert bool(change) == changes
    if change:
        assert named in change.line and change.ids != change.others


BOS, EOS = {"add_bos_token": True}, {"add_eos_token": True}
# class, what tokenizer_config.json asks for, and what transformers 4.57 feeds around a text where
# tokenizer.json says nothing
FLAGGED = [
    ("LlamaTokenizerFast", BOS, ["<|begin_of_text|>"], []),
    ("LlamaTokenizer", EOS, ["<|begin_of_text|>"], ["<|eot_id|>"]),
    ("GPTNeoXTokenizerFast", EOS, [], ["<|eot_id|>"]),
    ("Qwen2Tokenizer", BOS | EOS, [], []),
]


@pytest.mark.parametrize("named, flags, start, end", FLAGGED)
def test_begin_and_end_tokens_are_those_that_the_class_read(
    named, flags, start, end, tmp_path
):
    tiny.make_tokenizer("llama").save_pretrained(tmp_path)
    edit(tmp_path / "tokenizer.json", post_processor=BY_BYTES)
    edit(tmp_path / "tokenizer_config.json", tokenizer_class=named, **flags)
    tokenizer = tokenizer_of(files_of(tmp_path))
    tokens = tokenizer.convert_ids_to_tokens(tokenizer("love")["input_ids"])
    assert tokens == [*start, "love", *end]
    # a flag that says no is obeyed, too
    edit(tmp_path / "tokenizer_config.json", **dict.fromkeys(flags, False))
    first = tokenizer_of(files_of(tmp_path))("love")["input_ids"][0]
    assert (first == tokenizer.bos_token_id) == (named == "LlamaTokenizer")


def test_truncation_padding_and_dropout_of_the_file_reach_no_conversation(tmp_path):
    folder = tiny.make_checkpoint(tmp_path / "model", "linear_llama")
    replies = ["love", "love " * 100]
    model = open_model(folder, device="cpu")
    expected = vocabulary.score_replies(model, "Why?", replies)
    truncation = {"direction": "Right", "max_length": 16, "stride": 0}
    padding = {
        "strategy": {"Fixed": 128},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    file = folder / "tokenizer.json"
    by_pieces = json.loads(file.read_text())["model"] | {"dropout": 0.5}
    edit(
        file,
        truncation=truncation | {"strategy": "LongestFirst"},
        padding=padding,
        model=by_pieces,
    )
    again = open_model(folder, device="cpu")
    found = vocabulary.score_replies(again, "Why?", replies)
    assert found.tolist() == expected.tolist()
