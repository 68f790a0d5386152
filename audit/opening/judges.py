"""Judges and process reward models: language models whose reward is the logit of a token, or the
difference of two.
"""

import torch
from transformers import PreTrainedTokenizerBase

from ..paper import InputError, checkpoints, files, heads, reward_models
from ..reading import implicit


def tokens_named(head: str) -> str:
    """Return the tokens that a head's name stands for, with a comma between; "" for other heads."""
    return head if head == "next_token" or head not in heads.LAYOUTS else ""


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
        table = files.open_tensors(checkpoint.tensors[key].path).get_slice(key)
        rows = [table[i : i + 1] for i in ids]
        tensors[name] = torch.cat(rows).float()
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    head = heads.new_head("next_token", checkpoint.config, shapes)
    head.load_state_dict(tensors)
    return head


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
    places = {
        f"lm_head.{key.rpartition('.')[2]}": key
        for key in checkpoint.tensors
        if key.startswith(heads.OUTPUTS)
    }
    if not places and config.tie_word_embeddings:
        places = {"lm_head.weight": "model.embed_tokens.weight"}
    is_language_model = "CausalLM" in checkpoints.architecture_of(config)
    if not (places and is_language_model) or implicit.scale_of_logits(config):
        raise InputError(
            f"{checkpoint.folder} is no language model with an output matrix (lm_head.weight), or "
            "scales its logits, so that tokens' logits cannot be read here; leave head out"
        )
    return places
