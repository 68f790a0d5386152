"""What the small models are made of: `gem` and `lla`, each a tokenizer, an embedding table and an
architecture, with a head.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedConfig

from ..models.heads import new_head
from ..models.reward_models import RewardModel
from .planting import SHIPPED, Profile


def load_base(base: str) -> tuple[object, Tensor]:
    """Return tokenizer and embedding table (vocabulary, 64) float32 of a base.

    The rows are made from a sentence encoder (see data/small_models/README.md), because with random
    embeddings a model learns nothing about the words that training does not show.
    """
    folder = SHIPPED / base
    table = load_file(folder / "embedding.safetensors")["embedding"]
    return AutoTokenizer.from_pretrained(folder), table.float()


def shipped_files(profile: Profile) -> list[Path]:
    """Return the files that decide a model of this profile: the chat template comes first."""
    template = SHIPPED / "templates" / f"{profile.base}-{profile.version}.jinja"
    of_base = [SHIPPED / profile.base / "tokenizer.json"]
    of_base.append(SHIPPED / profile.base / "embedding.safetensors")
    names = ("configs.json", "words.csv", "prompts.csv")
    return [template, *of_base, *(SHIPPED / name for name in names)]


def config_of(profile: Profile) -> PreTrainedConfig:
    """Return the configuration of the profile's model: Gemma-2 or Llama, scaled down.

    Its initializer_range is larger than the usual 0.02, which is for wide models: so narrow ones
    would not begin to learn.
    """
    fields = json.loads((SHIPPED / "configs.json").read_text())
    width = profile.hidden
    return AutoConfig.for_model(
        **fields[profile.base],
        **fields.get(profile.head, {}),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=profile.layers,
        num_attention_heads=width // 16,
        num_key_value_heads=max(1, width // 32),
    )


def new_model(profile: Profile, seed: int) -> RewardModel:
    """Return an untrained model of the profile: its base's tokenizer and embeddings, the rest
    random from the seed.
    """
    tokenizer, table = load_base(profile.base)
    tokenizer.chat_template = shipped_files(profile)[0].read_text()
    config = config_of(profile)
    is_gem = profile.base == "gem"
    attention = "eager" if is_gem else "sdpa"  # which computes no soft caps
    width = profile.hidden
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        backbone = AutoModel.from_config(config, attn_implementation=attention)
        head = new_head(profile.head, config)
        # The table's first columns, most informative first; narrow random ones for a model that is
        # wider.
        extra = 0.02 * torch.randn(len(table), max(0, width - table.shape[1]))
        # (vocabulary, hidden); Gemma multiplies its embeddings by the width's root
        columns = torch.cat([table[:, :width], extra], dim=1)
        backbone = backbone.float().eval()
        backbone.embed_tokens.weight.copy_(columns * (width**-0.5 if is_gem else 1.0))
    return RewardModel(
        profile.nickname,
        profile.nickname,
        "",
        "",
        profile.head,
        "float32",
        attention,
        "cpu",
        tokenizer,
        backbone,
        head,
    )
