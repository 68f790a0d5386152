"""The bases of the embedded models as shipped: tokenizers, templates and embedding tables; changed files."""

import shutil

import pytest
import torch
from transformers import AutoTokenizer

from lib import InputError
from lib.models import conversations
from lib.planted import bases, planting, reward_models

BASES = ("gem", "lla")


@pytest.fixture(scope="module", params=BASES)
def tokenizer(request):
    return AutoTokenizer.from_pretrained(planting.SHIPPED / request.param)


def ids(tokenizer, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


# --- tokenizers ---------------------------------------------------------------------------------------------------


def test_vocabulary_has_16384_ids_and_every_one_decodes(tokenizer):
    table = conversations.vocabulary(tokenizer)
    assert table["token_id"].tolist() == list(range(16_384))
    assert table["token"].is_unique


def test_planted_words_are_single_tokens_with_and_without_a_blank(tokenizer):
    assert all(
        len(ids(tokenizer, f"{blank}{word}")) == 1 for word in planting.word_kinds().index for blank in ("", " ")
    )


def test_templates_render_as_the_real_families_do():
    turns = [{"role": "user", "content": " Hi? "}, {"role": "assistant", "content": "\n love "}]
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
    assert render("B-Lla-96", date_string="1 Jan 2030") == bos + system.format("1 Jan 2030") + user + reply


# --- embedding tables ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", BASES)
def test_table_knows_words(base):
    tokenizer, table = bases.load_base(base)
    assert table.shape == (16_384, 64)

    def cosine(a, b):
        rows = table[[ids(tokenizer, a)[0], ids(tokenizer, b)[0]]]
        return torch.cosine_similarity(rows[0], rows[1], dim=0).item()

    assert cosine(" happy", " joy") > 0.2 > cosine(" happy", " engine")
    assert cosine(" love", "love") > 0.9  # forms of one word share all but a little noise


def copied_base(tmp_path, monkeypatch):
    shutil.copytree(planting.SHIPPED, tmp_path / "small_models")
    monkeypatch.setattr(bases, "SHIPPED", tmp_path / "small_models")
    return tmp_path / "small_models" / "gem"


def test_changed_table_is_refused(tmp_path, monkeypatch):
    folder = copied_base(tmp_path, monkeypatch)
    bases.load_base("gem")
    content = bytearray((folder / "embedding.safetensors").read_bytes())
    content[-1] ^= 1  # one bit of the last number
    (folder / "embedding.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="embedding.safetensors.*restore"):
        bases.load_base("gem")


def test_missing_tokenizer_and_unknown_base_are_refused(tmp_path, monkeypatch):
    (copied_base(tmp_path, monkeypatch) / "tokenizer.json").unlink()
    with pytest.raises(InputError, match="tokenizer.json is missing"):
        bases.load_base("gem")
    with pytest.raises(InputError, match="choose gem or lla"):
        bases.load_base("qwen")
