"""Judges and process reward models: language models whose reward is the logit of a token, or the
difference of two.
"""

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from ..paper import InputError, heads, loading, reward_models
from ..preflight import refuse_two_outputs
from ..reading import implicit


def tokens_named(head: str) -> str:
    """Return the tokens that a head's name stands for, with a comma between; "" for other heads."""
    return "" if head in heads.LAYOUTS else head


def token_head(checkpoint: reward_models.Checkpoint, tokens: str) -> heads.Head:
    """Return the head that reads the logits of one or two tokens, named with a comma between, in
    fp32.

    InputError for names that are not one token each, and for a checkpoint without a language
    model's output matrix.
    """
    names = tokens.split(",")
    ids = [_one_id(checkpoint.tokenizer, name) for name in names]
    if None in ids or len(set(ids)) < len(ids) or len(ids) > 2:
        raise InputError(
            f"head '{tokens}' does not name one or two tokens of {checkpoint.folder}; write "
            "--head yes,no with words that are one token each, or leave head out"
        )
    tensors = {}
    for name, key in _output_matrix(checkpoint).items():
        with safe_open(checkpoint.files.tensors[key].path, "pt") as file:
            table = file.get_slice(key)
            rows = [table[i : i + 1] for i in ids]
        tensors[name] = torch.cat(rows).float()
    cap = getattr(checkpoint.config, "final_logit_softcapping", None)
    return TokenHead(tensors, cap).eval()


class TokenHead(heads.Head):
    """The logit of a token as the next one, less another's if two are named.

    Logits are soft-capped as config.json says, cap * tanh(logit / cap), before the difference.
    """

    def __init__(self, tensors: dict[str, Tensor], cap: float | None):
        super().__init__()
        tokens, width = tensors["lm_head.weight"].shape
        self.lm_head = nn.Linear(width, tokens, "lm_head.bias" in tensors)
        self.cap = cap
        self.load_state_dict(tensors)

    def forward(self, hidden: Tensor, gate: None = None) -> Tensor:
        logits = self.lm_head(hidden)  # (n, d) -> (n, 1 or 2)
        if self.cap:
            logits = self.cap * torch.tanh(logits / self.cap)
        return logits[:, 0] - logits[:, 1:].sum(-1)


def _one_id(tokenizer: PreTrainedTokenizerBase, name: str) -> int | None:
    """Return the id of a token, named with or without the blank before it; None if it is none."""
    for text in (name, f" {name}") if name else ():
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        if len(ids) == 1 and ids[0] != tokenizer.unk_token_id:
            return ids[0]
    return None


def _output_matrix(checkpoint: reward_models.Checkpoint) -> dict[str, str]:
    """Return the keys of the language model's output: lm_head.weight and perhaps lm_head.bias.
    InputError if it has none, or scales its logits.
    """
    config = checkpoint.config
    refuse_two_outputs(checkpoint.files)
    places = {
        f"lm_head.{key.rpartition('.')[2]}": key
        for key in checkpoint.files.tensors
        if key.startswith(heads.OUTPUTS)
    }
    if not places and config.tie_word_embeddings:
        places = {"lm_head.weight": "model.embed_tokens.weight"}
    is_language_model = "CausalLM" in loading.architecture_of(config)
    if not (places and is_language_model) or implicit.scale_of_logits(config):
        raise InputError(
            f"{checkpoint.folder} is no language model with an output matrix (lm_head.weight), or "
            "scales its logits, so that tokens' logits cannot be read here; leave head out"
        )
    return places
