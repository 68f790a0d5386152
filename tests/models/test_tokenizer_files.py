"""Ids as tokenizer.json says, where the tokenizer's class in transformers gives other ones."""

import json
import struct
from base64 import b64encode

import numpy as np
import pandas as pd
import pytest
import tiny
import torch
import transformers
from conftest import refusal_of
from packaging.version import Version
from tokenizers import Tokenizer

from audit.check import checking, why
from audit.opening import open_model
from lib.models import tokenizers
from lib.models.files import files_of
from lib.scoring import vocabulary

GPT2_STAGE = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}
BY_BYTES = GPT2_STAGE | {"use_regex": False}
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
QWEN_STAGE = {"type": "Sequence", "pretokenizers": [QWEN_SPLIT, BY_BYTES]}
NFC, NFKC = {"type": "NFC"}, {"type": "NFKC"}
SPACE = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
PREPENDED = {
    "type": "Sequence",
    "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, SPACE],
}
METASPACE = {
    "type": "Metaspace",
    "replacement": "\u2581",
    "prepend_scheme": "first",
    "split": False,
}
DEBERTA_BLANKS = {
    "type": "Replace",
    "pattern": {"Regex": r"\s{2,}|[\n\r\t]"},
    "content": " ",
}
DEBERTA_STEPS = [
    DEBERTA_BLANKS,
    NFC,
    {"type": "Strip", "strip_left": False, "strip_right": True},
]


def charsmap(replaced: dict[str, str]) -> dict:
    """A Precompiled normalizer of SentencePiece: a double array that leads from bytes to texts."""
    texts = b"".join(text.encode() + b"\0" for text in replaced.values())
    starts = np.cumsum([0, *(len(text.encode()) + 1 for text in replaced.values())])
    value_of = {
        key.encode(): int(start) for key, start in zip(replaced, starts, strict=False)
    }
    units, free = {}, 1

    def place(prefix: bytes, at: int, label: int) -> None:
        nonlocal free
        # a block of its own for what follows each prefix
        base, free = 256 * free, free + 1
        leaf = prefix in value_of
        units[at] = label | leaf << 8 | (at ^ base) << 10
        if leaf:
            units[base] = value_of[prefix] | 1 << 31
        for byte in sorted(
            {
                key[len(prefix)]
                for key in value_of
                if len(key) > len(prefix) and key.startswith(prefix)
            }
        ):
            place(prefix + bytes([byte]), base ^ byte, byte)

    place(b"", 0, 0)
    array = struct.pack(
        f"<{256 * free}I", *(units.get(i, 0) for i in range(256 * free))
    )
    table = struct.pack("<I", len(array)) + array + texts
    return {"type": "Precompiled", "precompiled_charsmap": b64encode(table).decode()}


def save(
    folder,
    family: str,
    named: str,
    model: dict | None = None,
    config: dict | None = None,
    **parts,
):
    """Write a tiny tokenizer with other parts in its tokenizer.json, under the class of that
    name.
    """
    words = ["987", "9876", "[/INST]"] if family != "deberta" else list("0123456789")
    tokenizer = tiny.make_tokenizer(
        family, template="llama3" if family == "llama" else "chatml", vocabulary=words
    )
    tokenizer.save_pretrained(folder)
    file = folder / "tokenizer.json"
    state = json.loads(file.read_text())
    state["model"] |= model or {}
    file.write_text(json.dumps(state | parts))
    file = folder / "tokenizer_config.json"
    file.write_text(
        json.dumps(
            json.loads(file.read_text()) | {"tokenizer_class": named} | (config or {})
        )
    )
    return folder


ALL_AS_GPT2 = {
    "normalizer": None,
    "pre_tokenizer": GPT2_STAGE,
    "model": {"ignore_merges": False},
}
# family, class, what tokenizer.json says otherwise; a text whose ids the class changes, "" for none
# transformers whose LlamaTokenizerFast keeps the ids of the file; 5.17 does not
KEPT = Version("5.23")
TWELVE = {
    "digits by threes, whole words": ("llama", "GPT2Tokenizer", {}, "9876"),
    "digits by threes": ("qwen", "Qwen2Tokenizer", {}, "12 2023"),
    "NFKC under GPT-2": (
        "llama",
        "GPT2Tokenizer",
        ALL_AS_GPT2 | {"normalizer": NFKC},
        "\ufb01ne\u2460",
    ),
    "NFKC under Qwen": (
        "qwen",
        "Qwen2Tokenizer",
        {"normalizer": NFKC, "pre_tokenizer": QWEN_STAGE},
        "\ufb01ne\u2460",
    ),
    "SentencePiece with Prepend": (
        "gemma",
        "LlamaTokenizer",
        {"normalizer": PREPENDED},
        "x<start_of_turn>love",
    ),
    "DeBERTa with a table of characters": (
        "deberta",
        "DebertaV2Tokenizer",
        {"normalizer": charsmap({"\ufb01": "fi", "\u2460": "1", "\n": " "})},
        "\ufb01ne\u2460\nx",
    ),
    "digits by threes, no class": ("llama", "PreTrainedTokenizerFast", {}, ""),
    "bytes under Llama's class": ("llama", "LlamaTokenizerFast", {}, ""),
    "GPT-2": ("llama", "GPT2Tokenizer", ALL_AS_GPT2, ""),
    "Qwen": ("qwen", "Qwen2Tokenizer", {"pre_tokenizer": QWEN_STAGE}, ""),
    "Llama": (
        "gemma",
        "LlamaTokenizer",
        {"normalizer": None, "pre_tokenizer": METASPACE},
        "",
    ),
    "DeBERTa": (
        "deberta",
        "DebertaV2Tokenizer",
        {"normalizer": {"type": "Sequence", "normalizers": DEBERTA_STEPS}},
        "",
    ),
}


@pytest.mark.parametrize("name", TWELVE)
def test_ids_are_those_of_the_file_and_a_line_names_the_class_that_changes_them(
    name, tmp_path, capsys
):
    family, named, parts, text = TWELVE[name]
    if named == "LlamaTokenizerFast" and Version(transformers.__version__) < KEPT:
        pytest.skip("this transformers gives that name to a class that changes ids")
    folder = save(tmp_path, family, named, **parts)
    # without config.json, as --tokenizer gives it
    tokenizer = tokenizers.tokenizer_of(files_of(folder))
    said = "".join(capsys.readouterr())
    file = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for each in (*tokenizers.STAGES, *filter(None, [text])):
        for whole in (True, False):
            assert (
                tokenizer(each, add_special_tokens=whole)["input_ids"]
                == file.encode(each, None, False, whole).ids
            )
    assert tokenizer("a", "b")["input_ids"] == file.encode("a", "b").ids
    assert (f"{named} of transformers drops parts of tokenizer.json" in said) == bool(
        text
    )
    if text:
        assert (
            tokenizer.special_tokens_map.items()
            >= {"eos_token": tokenizer.eos_token}.items()
        )
        other = tokenizers.open_as_file_says(files_of(folder))[1].other
        assert other(text)["input_ids"] != tokenizer(text)["input_ids"]
    else:
        assert not said


def test_a_word_of_the_vocabulary_is_one_id_by_the_file_and_four_by_the_class(tmp_path):
    folder = save(tmp_path, "llama", "GPT2Tokenizer", pre_tokenizer=BY_BYTES)
    tokenizer, change = tokenizers.open_as_file_says(files_of(folder))
    ids, others = (
        each("9876", add_special_tokens=False)["input_ids"]
        for each in (tokenizer, change.other)
    )
    assert tokenizer.convert_ids_to_tokens(ids) == ["9876"]  # ignore_merges
    assert tokenizer.convert_ids_to_tokens(others) == ["9", "8", "7", "6"]


def test_truncation_and_padding_of_the_file_reach_no_conversation(tmp_path):
    folder = tiny.make_checkpoint(tmp_path / "model", "linear_llama")
    long = "love " * 100
    expected = vocabulary.score_replies(
        open_model(folder, device="cpu"), long, ["love", long]
    )
    file = folder / "tokenizer.json"
    state = json.loads(file.read_text())
    state["truncation"] = {
        "direction": "Right",
        "max_length": 16,
        "strategy": "LongestFirst",
        "stride": 0,
    }
    state["padding"] = {
        "strategy": {"Fixed": 128},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    file.write_text(json.dumps(state))
    tokenizer = tokenizers.tokenizer_of(files_of(folder))
    # as a search encodes texts
    assert len(tokenizer.backend_tokenizer.encode_batch_fast([long])[0].ids) > 100
    assert vocabulary.score_replies(
        open_model(folder, device="cpu"), long, ["love", long]
    ).tolist() == (expected.tolist())


@pytest.fixture
def changed_model(tmp_path):
    """A tiny reward model whose tokenizer's class splits digits otherwise than its file."""
    folder = tiny.make_checkpoint(tmp_path / "model", "linear_qwen3")
    file = folder / "tokenizer_config.json"
    file.write_text(
        json.dumps(json.loads(file.read_text()) | {"tokenizer_class": "Qwen2Tokenizer"})
    )
    return folder


def test_rewards_are_those_of_the_file_under_every_class(changed_model):
    texts = ["2023", "12345678", "love"]
    by_class = vocabulary.score_replies(
        open_model(changed_model, device="cpu"), "Why?", texts
    )
    file = changed_model / "tokenizer_config.json"
    file.write_text(
        json.dumps(
            json.loads(file.read_text())
            | {"tokenizer_class": "PreTrainedTokenizerFast"}
        )
    )
    assert vocabulary.score_replies(
        open_model(changed_model, device="cpu"), "Why?", texts
    ).tolist() == (by_class.tolist())


def test_the_check_names_the_class_and_how_far_its_rewards_are_apart(
    changed_model, checkpoint
):
    row = {
        row.name: row for row in checking.check(str(changed_model), device="cpu").rows
    }["tokenizer file"]
    assert row.status == "note" and "Qwen2Tokenizer" in row.found
    plain = {
        row.name: row
        for row in checking.check(str(checkpoint("linear_qwen3")), device="cpu").rows
    }
    assert plain["tokenizer file"].status == "ok"


def test_why_names_the_class_whose_ids_another_program_took(changed_model, tmp_path):
    model = open_model(changed_model, device="cpu")
    other = tokenizers.open_as_file_says(files_of(changed_model))[1].other
    replies = [
        "2023",
        "12345678 love",
        "in 1984 or 2001",
        "pain 777",
        "9 times 123",
        "love",
        "hope",
        "war",
    ]
    rows = []
    for reply in replies:
        turns = [
            {"role": "user", "content": "Why?"},
            {"role": "assistant", "content": reply},
        ]
        text = model.tokenizer.apply_chat_template([turns], tokenize=False)[0]
        with torch.inference_mode():
            state = model.backbone(
                torch.tensor([other(text)["input_ids"]])
            ).last_hidden_state[0, -1]
            reward = float(model.head(state[None]))
        rows.append({"prompt": "Why?", "reply": reply, "reward": reward})
    file = tmp_path / "theirs.csv"
    pd.DataFrame(rows).to_csv(file, index=False)
    line = why.explain(str(changed_model), why.read_rewards(file), device="cpu").line
    assert (
        "took the ids of transformers' Qwen2Tokenizer" in line
        and "PreTrainedTokenizerFast" in line
    )


def test_an_encoders_class_that_surrounds_texts_which_its_file_does_not_is_refused(
    tmp_path,
):
    folder = save(tmp_path, "deberta", "DebertaV2Tokenizer", post_processor=None)
    refusal_of(
        lambda: tokenizers.tokenizer_of(files_of(folder)),
        "DebertaV2Tokenizer surrounds texts ([CLS]",
        "save_pretrained",
    )


@pytest.mark.parametrize("stated", [True, False])
def test_capitals_that_configuration_and_file_treat_otherwise_are_refused(
    tmp_path, stated
):
    steps = [*DEBERTA_STEPS, *([] if stated else [{"type": "Lowercase"}])]
    parts = {"normalizer": {"type": "Sequence", "normalizers": steps}}
    folder = save(
        tmp_path,
        "deberta",
        "DebertaV2Tokenizer",
        config={"do_lower_case": stated},
        **parts,
    )
    refusal_of(
        lambda: tokenizers.tokenizer_of(files_of(folder)),
        f"do_lower_case {stated}",
        "opposite",
    )


def test_mistrals_old_pattern_counts_and_the_line_says_how_to_take_the_later_one(
    tmp_path, capsys
):
    folder = save(tmp_path, "llama", "PreTrainedTokenizerFast")
    state = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = state["model"]["vocab"]
    first = 1 + max(
        *vocabulary.values(), *(token["id"] for token in state["added_tokens"])
    )
    # transformers looks at large vocabularies only
    vocabulary |= {f"\u2420{i}": first + i for i in range(100_000)}
    (folder / "tokenizer.json").write_text(json.dumps(state))
    (folder / "config.json").write_text(
        json.dumps({"model_type": "mistral", "transformers_version": "4.57.2"})
    )
    old = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer = tokenizers.tokenizer_of(files_of(folder))
    assert (
        tokenizer("2023", add_special_tokens=False)["input_ids"]
        == old.encode("2023", add_special_tokens=False).ids
    )
    assert '"fix_mistral_regex": true' in "".join(capsys.readouterr())
    file = folder / "tokenizer_config.json"
    file.write_text(
        json.dumps(json.loads(file.read_text()) | {"fix_mistral_regex": True})
    )
    fixed = tokenizers.tokenizer_of(files_of(folder))("2023", add_special_tokens=False)[
        "input_ids"
    ]
    # the later pattern splits each digit
    assert len(fixed) == 4 and not "".join(capsys.readouterr())
