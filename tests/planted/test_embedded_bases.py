"""The bases of the embedded models as shipped: tokenizers, templates and embedding tables;
changed files.
"""

import shutil

import pytest
from transformers import AutoTokenizer

from lib import InputError
from lib.planted import bases, planting, reward_models


@pytest.mark.parametrize("base", ["gem", "lla"])
def test_planted_words_are_single_tokens_with_and_without_a_blank(base):
    tokenizer, words = (
        AutoTokenizer.from_pretrained(planting.SHIPPED / base),
        planting.word_kinds().index,
    )
    encoded = tokenizer([*words, *(" " + words)], add_special_tokens=False)["input_ids"]
    assert {len(ids) for ids in encoded} == {1}


def test_templates_render_as_the_real_families_do():
    turns = [
        {"role": "user", "content": " Hi? "},
        {"role": "assistant", "content": "\n love "},
    ]
    gem = "<bos><start_of_turn>user\nHi?<end_of_turn>\n<start_of_turn>model\nlove<end_of_turn>\n"
    user = "<|start_header_id|>user<|end_header_id|>\n\nHi?<|eot_id|>"
    reply = "<|start_header_id|>assistant<|end_header_id|>\n\nlove<|eot_id|>"
    system = (
        "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
        "Today Date: {}\n\n<|eot_id|>"
    )
    bos = "<|begin_of_text|>"

    def render(nickname: str, **options) -> str:
        model = reward_models.new_model(planting.profile(nickname), seed=0)
        return model.tokenizer.apply_chat_template(turns, tokenize=False, **options)

    assert render("C-Gem-64") == gem
    assert render("C-Lla-64") == bos + user + reply
    assert render("B-Lla-96") == bos + system.format("26 Jul 2024") + user + reply
    assert (
        render("B-Lla-96", date_string="1 Jan 2030")
        == bos + system.format("1 Jan 2030") + user + reply
    )


def test_changed_and_missing_files_and_unknown_bases_are_refused(tmp_path, monkeypatch):
    shutil.copytree(planting.SHIPPED, tmp_path / "small_models")
    monkeypatch.setattr(bases, "SHIPPED", tmp_path / "small_models")
    bases.load_base("gem")
    table = tmp_path / "small_models" / "gem" / "embedding.safetensors"
    content = bytearray(table.read_bytes())
    content[-1] ^= 1  # one bit of the last number
    table.write_bytes(content)
    with pytest.raises(InputError, match="embedding.safetensors.*restore"):
        bases.load_base("gem")
    table.with_name("tokenizer.json").unlink()
    with pytest.raises(InputError, match="tokenizer.json is missing"):
        bases.load_base("gem")
    with pytest.raises(InputError, match="choose gem or lla"):
        bases.load_base("qwen")
