"""Language models in GGUF, the format of llama.cpp: a file of Llama's shape becomes a folder in
safetensors.

GGUF: github.com/ggml-org/ggml, docs/gguf.md. The gguf package, of the same authors, reads the file
and dequantises it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, PreTrainedTokenizerFast

from .. import InputError
from .files import refusing

# Name of a tensor in GGUF -> in transformers; in a layer, after blk.<number>. and
# model.layers.<number>.
OUTSIDE = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
# whose rows llama.cpp orders by pairs
HEADS = {"attn_q": "head_count", "attn_k": "head_count_kv"}
CONTROL = 3  # in tokenizer.ggml.token_type
_GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
# tokenizer.ggml.pre -> how texts are cut before merges. transformers' own reader of GGUF leaves out
# the digits.
CUTS = {
    "gpt-2": _GPT2,
    "smollm": pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), _GPT2]
    ),
}


def convert(file: Path, folder: Path) -> dict[str, int]:
    """Write the model in a GGUF file as a folder: float32 safetensors, config, tokenizer and chat
    template.

    Return the number of tensors of each quantisation, such as {"Q4_1": 210}. InputError if the file
    is cut short, or if its architecture, tensors or tokenizer are of a kind that is not read here.
    """
    from gguf import GGUFReader  # here, because only this function needs it

    with refusing(f"{file} is not a whole GGUF file", "download it again"):
        read = GGUFReader(file)
        fields = {name: field.contents() for name, field in read.fields.items()}
    _refuse_other_shapes(file, fields)
    tensors = _tensors_of(file, read, fields)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    _config_of(fields, tied="lm_head.weight" not in tensors).save_pretrained(folder)
    _tokenizer_of(fields).save_pretrained(folder)
    kinds = [tensor.tensor_type.name for tensor in read.tensors]
    return {kind: kinds.count(kind) for kind in sorted({*kinds})}


def _refuse_other_shapes(file: Path, fields: Mapping[str, Any]) -> None:
    read = {
        "general.architecture": ("llama",),
        "tokenizer.ggml.model": ("gpt2",),
        "tokenizer.ggml.pre": tuple(CUTS),
        "llama.rope.scaling.type": ("none", None),
    }
    for field, values in read.items():
        if fields.get(field) not in values:
            raise InputError(
                f"{file}: {field} is {fields.get(field)}, and only {values[0]} is read here; give "
                "the checkpoint in safetensors that the file was made from"
            )


def _tensors_of(
    file: Path, read: Any, fields: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """Return all weights, dequantised to float32, under transformers' names and with its order
    of rows.
    """
    from gguf import dequantize

    tensors = {}
    for tensor in read.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(
            np.float32, copy=False
        )
        name, _, kind = tensor.name.rpartition(".")
        if name.startswith("blk."):
            _, layer, part = name.split(".", 2)
            place = f"model.layers.{layer}.{IN_LAYER.get(part, '')}"
            if part in HEADS:
                values = _by_halves(values, fields[f"llama.attention.{HEADS[part]}"])
        else:
            place = OUTSIDE.get(name, "")
        if not place or place.endswith(".") or kind != "weight":
            raise InputError(
                f"{file} holds the tensor {tensor.name}, which no plain Llama has; give safetensors"
            )
        # a copy, in rows
        tensors[f"{place}.{kind}"] = torch.from_numpy(np.array(values))
    return tensors


def _by_halves(rows: np.ndarray, heads: int) -> np.ndarray:
    """Return the rows of queries or keys, (heads * d, width), in the order in which transformers
    rotates them.

    Rotary embeddings turn pairs of rows. In llama.cpp the two rows of a pair are neighbours: 0, 1.
    transformers puts the first rows of all pairs before the second rows: 0, d / 2.
    """
    pairs = rows.reshape(heads, -1, 2, rows.shape[1])  # (heads, d / 2, 2, width)
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def _config_of(fields: Mapping[str, Any], tied: bool) -> LlamaConfig:
    heads = fields["llama.attention.head_count"]
    width = fields["llama.embedding_length"]
    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=len(fields["tokenizer.ggml.tokens"]),
        hidden_size=width,
        intermediate_size=fields["llama.feed_forward_length"],
        num_hidden_layers=fields["llama.block_count"],
        num_attention_heads=heads,
        num_key_value_heads=fields["llama.attention.head_count_kv"],
        head_dim=fields.get("llama.attention.key_length", width // heads),
        max_position_embeddings=fields["llama.context_length"],
        rms_norm_eps=fields["llama.attention.layer_norm_rms_epsilon"],
        rope_parameters={
            "rope_type": "default",
            "rope_theta": fields["llama.rope.freq_base"],
        },
        tie_word_embeddings=tied,
        dtype="float32",
        **{
            f"{name}_token_id": fields.get(f"tokenizer.ggml.{ggml}_token_id")
            for name, ggml in SPECIAL.items()
        },
    )


SPECIAL = {"bos": "bos", "eos": "eos", "pad": "padding"}  # transformers' name -> GGUF's


def _tokenizer_of(fields: Mapping[str, Any]) -> PreTrainedTokenizerFast:
    """Return the byte-level tokenizer that vocabulary and merges define; control tokens are
    found in any text.
    """
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = CUTS[fields["tokenizer.ggml.pre"]]
    tokenizer.decoder = decoders.ByteLevel()
    kinds = zip(tokens, fields["tokenizer.ggml.token_type"], strict=True)
    control = [
        AddedToken(token, special=True, normalized=False)
        for token, kind in kinds
        if kind == CONTROL
    ]
    tokenizer.add_special_tokens(control)
    ids = {
        name: fields.get(f"tokenizer.ggml.{ggml}_token_id")
        for name, ggml in SPECIAL.items()
    }
    special = {
        f"{name}_token": tokens[number]
        for name, number in ids.items()
        if number is not None
    }
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        chat_template=fields.get("tokenizer.chat_template"),
        model_max_length=fields["llama.context_length"],
        clean_up_tokenization_spaces=False,
        **special,
    )
