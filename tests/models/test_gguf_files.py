"""GGUF files become ordinary checkpoints: a tiny Llama that is written here, and read by
transformers' own reader.
"""

import json

import numpy as np
import pytest
import torch
from gguf import GGUFWriter, dequantize, quants
from gguf.constants import GGMLQuantizationType as Kind
from safetensors.torch import load_file
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
)

from lib import InputError
from lib.models import gguf_files

HEADS, KEYS, WIDTH, LAYERS = 4, 2, 64, 2
TOKENS = ["<end>", "a", "b", "ab", "1", "2", "12", "Ġ", "Ġa"]
MERGES = ["a b", "1 2", "Ġ a"]
NAMES = {  # of the second implementation, from llama.cpp's convert_hf_to_gguf.py
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
}


def in_pairs(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows as llama.cpp orders them: of each head row 0 of the first half, row 0 of the second,
    row 1 of the first.
    """
    d = len(rows) // heads
    order = [
        head * d + half * d // 2 + pair
        for head in range(heads)
        for pair in range(d // 2)
        for half in (0, 1)
    ]
    return rows[order]


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(TOKENS),
        hidden_size=WIDTH,
        intermediate_size=96,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KEYS,
        max_position_embeddings=128,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def write_gguf(model, tmp_path_factory):
    """Writes the model as a GGUF file in 8 bits; `changed` replaces fields."""

    def write(pre="smollm", architecture="llama", extra=()):
        path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
        writer = GGUFWriter(path, architecture)
        writer.add_block_count(LAYERS)
        writer.add_context_length(128)
        writer.add_embedding_length(WIDTH)
        writer.add_feed_forward_length(96)
        writer.add_head_count(HEADS)
        writer.add_head_count_kv(KEYS)
        writer.add_rope_freq_base(10000.0)
        writer.add_layer_norm_rms_eps(1e-6)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(pre)
        writer.add_token_list(TOKENS)
        writer.add_token_types([3] + [1] * (len(TOKENS) - 1))
        writer.add_token_merges(MERGES)
        writer.add_eos_token_id(0)
        writer.add_chat_template("{{ messages[0]['content'] }}")
        for name, weight in [*model.state_dict().items(), *extra]:
            if name == "lm_head.weight":  # tied to the embeddings
                continue
            part = name.removesuffix(".weight")
            place, layer = part, part.split(".")[2] if ".layers." in part else ""
            if layer:
                place = part.split(".", 3)[3]
            rows = weight.numpy()
            if place.endswith(("q_proj", "k_proj")):
                rows = in_pairs(rows, HEADS if place.endswith("q_proj") else KEYS)
            gguf_name = (
                f"blk.{layer}.{NAMES[place]}" if layer else NAMES.get(place, place)
            )
            kind = Kind.Q8_0 if rows.ndim == 2 else Kind.F32
            writer.add_tensor(
                f"{gguf_name}.weight", quants.quantize(rows, kind), raw_dtype=kind
            )
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write


def test_every_weight_is_the_dequantised_one_and_logits_are_those_of_transformers_own_reader(
    model, write_gguf, tmp_path
):
    file = write_gguf()
    assert gguf_files.convert(file, tmp_path) == {
        "F32": 2 * LAYERS + 1,
        "Q8_0": 7 * LAYERS + 1,
    }
    written = load_file(tmp_path / "model.safetensors")
    wanted = {
        name: weight.numpy()
        for name, weight in model.state_dict().items()
        if name != "lm_head.weight"
    }
    assert written.keys() == wanted.keys()
    # each row is quantised by itself, so its place does not matter
    for name, weight in wanted.items():
        if weight.ndim == 2:
            weight = dequantize(quants.quantize(weight, Kind.Q8_0), Kind.Q8_0)
        assert np.array_equal(written[name].numpy(), weight), name
    ids = torch.tensor([[1, 4, 7, 8, 2, 6]])
    with torch.no_grad():
        ours = AutoModelForCausalLM.from_pretrained(tmp_path)(ids).logits
        theirs = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)(
            ids
        ).logits
    assert torch.allclose(ours, theirs, atol=1e-6)
    # 8 bits lose little, wrong rows much
    assert (ours - model(ids).logits).abs().max() < 0.05 * ours.std()


def test_digits_are_cut_one_by_one_where_the_file_says_so(write_gguf, tmp_path):
    def ids_of(pre: str, text: str) -> list[int]:
        gguf_files.convert(write_gguf(pre), tmp_path / pre)
        return AutoTokenizer.from_pretrained(tmp_path / pre)(
            text, add_special_tokens=False
        )["input_ids"]

    # 1 and 2 apart; the control token is one id
    assert ids_of("smollm", "ab12 a<end>") == [3, 4, 5, 8, 0]
    assert ids_of("gpt-2", "ab12 a<end>") == [3, 6, 8, 0]


def test_configuration_and_template_are_kept(write_gguf, tmp_path):
    gguf_files.convert(write_gguf(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert (
        config["num_key_value_heads"],
        config["head_dim"],
        config["tie_word_embeddings"],
    ) == (
        KEYS,
        16,
        True,
    )
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.eos_token == "<end>"
    assert (
        tokenizer.apply_chat_template(
            [{"role": "user", "content": "ab"}], tokenize=False
        )
        == "ab"
    )


def test_other_files_are_refused_in_one_line(write_gguf, tmp_path):
    with pytest.raises(
        InputError, match="tokenizer.ggml.pre is tekken, and only gpt-2 is read here"
    ):
        gguf_files.convert(write_gguf("tekken"), tmp_path / "a")
    with pytest.raises(
        InputError, match="holds the tensor rope_freqs.weight, which no plain Llama has"
    ):
        gguf_files.convert(
            write_gguf(extra=[("rope_freqs", torch.ones(8))]), tmp_path / "a"
        )
    half = tmp_path / "half.gguf"
    half.write_bytes(write_gguf().read_bytes()[:3000])
    with pytest.raises(InputError, match="is not a whole GGUF file"):
        gguf_files.convert(half, tmp_path / "a")
    # nothing is written for a file that is refused
    assert not (tmp_path / "a").exists()
