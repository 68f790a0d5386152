"""The bases of the embedded models, `gem` and `lla`, each a tokenizer, an embedding table and an
architecture.
"""

import hashlib
from pathlib import Path

import pandas as pd
from safetensors.torch import load
from torch import Tensor
from transformers import AutoConfig, AutoTokenizer

from .. import InputError
from .planting import SHIPPED, Profile

# as in Gemma-2
SOFT_CAPS = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
# heads with a gate, and its temperature
GATED = {"armorm": 10.0, "qrm_llama": 5.0, "qrm_gemma": 1.0}


def load_base(base: str) -> tuple[object, Tensor]:
    """Return tokenizer and embedding table (vocabulary, 64) float32 of a base; InputError for a
    changed file.

    The rows are made from a sentence encoder (see data/small_models/README.md), because with random
    embeddings a model learns nothing about the words that training does not show.
    """
    folder = SHIPPED / base
    if not folder.is_dir():
        raise InputError(f"no base '{base}' in data/small_models; choose gem or lla")
    hashes = pd.read_csv(SHIPPED / "files.csv", index_col="file")["sha256"]
    for path in (folder / "tokenizer.json", folder / "embedding.safetensors"):
        expected = hashes[f"{base}/{path.name}"]
        if (
            not path.is_file()
            or hashlib.sha256(path.read_bytes()).hexdigest() != expected
        ):
            raise InputError(
                f"{path} is missing or not what was shipped; restore it with: git checkout {path}"
            )
    table = load((folder / "embedding.safetensors").read_bytes())["embedding"]
    return AutoTokenizer.from_pretrained(folder), table.float()


def template(version: str) -> Path:
    """Return the shipped file with the chat template of a family's version, such as `gem-2`."""
    return SHIPPED / "templates" / f"{version}.jinja"


def config_of(profile: Profile, tokenizer):
    """Return the transformers configuration of the profile's model: Gemma-2 or Llama, scaled
    down.
    """
    fields = {
        "vocab_size": len(tokenizer),
        "hidden_size": profile.hidden,
        "intermediate_size": 2 * profile.hidden,
        "num_hidden_layers": profile.layers,
        "num_attention_heads": profile.hidden // 16,
        "num_key_value_heads": max(1, profile.hidden // 32),
        "head_dim": 16,
        "max_position_embeddings": 8192,
        # the usual 0.02 is for wide models; so narrow ones would not begin to learn
        "initializer_range": 0.12,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    if profile.head in GATED:
        objectives = 5 if profile.head == "qrm_gemma" else 19
        fields |= {
            "gating_hidden_dim": 32,
            "gating_n_hidden": 3,
            "num_objectives": objectives,
        }
        fields |= {"gating_temperature": GATED[profile.head]}
        fields |= {} if profile.head == "armorm" else {"num_quantiles": 19}
    if profile.base == "gem":
        return AutoConfig.for_model(
            "gemma2",
            query_pre_attn_scalar=16,
            sliding_window=4096,
            **SOFT_CAPS,
            **fields,
        )
    return AutoConfig.for_model("llama", rms_norm_eps=1e-5, **fields)


def attention_of(base: str) -> str:
    """Return the implementation of attention that transformers takes for a base: Gemma-2's soft
    caps need `eager`.
    """
    return "eager" if base == "gem" else "sdpa"


def embedding_scale(base: str, hidden: int) -> float:
    """Return the factor that makes a table embeddings of this width; Gemma multiplies them by
    the width's root.
    """
    return hidden**-0.5 if base == "gem" else 1.0
