"""Tiny random causal language models in the format of the real ones, for tests."""

import torch
from tiny import _GEMMA, _LLAMA, _QWEN, make_tokenizer
from transformers import AutoConfig, AutoModelForCausalLM

# kind: (tokenizer family, chat template, config). Gemma's cap is low enough to bite on logits of
# this size.
CAUSAL = {
    "llama": ("llama", "llama3", _LLAMA),
    "gemma2": ("gemma", "gemma", _GEMMA | {"final_logit_softcapping": 2.0}),
    "qwen3": ("qwen", "qwen3", _QWEN),
}


def make_causal(folder, kind: str, *, extra_rows: int = 0, tokenizer=None, **fields):
    """The folder of a causal language model of a kind.

    extra_rows: outputs beyond the tokenizer's vocabulary. fields: of its configuration.
    """
    family, template, config = CAUSAL[kind]
    tokenizer = tokenizer or make_tokenizer(family, template=template)
    config = config | {"vocab_size": len(tokenizer) + extra_rows} | fields
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        settings = AutoConfig.for_model(**config, initializer_range=0.5)
        AutoModelForCausalLM.from_config(settings).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
