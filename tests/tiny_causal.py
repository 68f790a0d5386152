"""Tiny random causal language models in the format of the real ones, for tests.

`make_causal(folder, kind)` writes a Llama, Gemma-2 or Qwen3 checkpoint with the tokenizers and
templates of tests/tiny.
"""

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


def make_causal(
    folder,
    kind: str,
    *,
    tied: bool | None = None,
    extra_rows: int = 0,
    template: str | None = "own",
):
    """The folder of a causal language model of a kind. tied: whether the output shares the
    embedding table.

    extra_rows: outputs beyond the tokenizer's vocabulary. template: "own", another of
    tiny.TEMPLATES, or None.
    """
    family, own, config = CAUSAL[kind]
    tokenizer = make_tokenizer(family, template=own if template == "own" else template)
    fields = {key: value for key, value in config.items() if key != "model_type"}
    fields["vocab_size"] = len(tokenizer) + extra_rows
    fields["tie_word_embeddings"] = (
        config.get("tie_word_embeddings", True) if tied is None else tied
    )
    attention = "eager" if kind == "gemma2" else "sdpa"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        settings = AutoConfig.for_model(
            config["model_type"], initializer_range=0.5, **fields
        )
        model = AutoModelForCausalLM.from_config(
            settings, attn_implementation=attention
        ).float()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
