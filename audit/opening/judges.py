"""Judges and process reward models: language models whose reward is the logit of a token, or the
difference of two.
"""

import re

import torch
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from ..paper import InputError, checkpoints, files, heads, reward_models

EMBEDDINGS = (
    "embed_tokens.weight",
    "wte.weight",
    "embed_in.weight",
    "word_embeddings.weight",
)
# of logits, in config.json
SCALES = ("logit_scale", "logits_scaling", "lm_head_multiplier", "logits_soft_cap")


def tokens_named(head: str) -> str:
    """Return the tokens that a head's name stands for, with a comma between; "" for other heads."""
    return head if head == "next_token" or head not in heads.LAYOUTS else ""


def token_head(checkpoint: reward_models.Checkpoint, tokens: str) -> heads.Head:
    """Return the head that reads the logits of one or two tokens, named with a comma between, in
    fp32.

    InputError for names that are not one token each, and for a checkpoint without a language
    model's output matrix.
    """
    ids = _ids_of(checkpoint, tokens)
    places = _output_matrix(checkpoint, max(ids))
    tables = {
        name: files.open_tensors(checkpoint.tensors[key].path).get_slice(key)
        for name, key in places.items()
    }
    tensors = {}
    for name, table in tables.items():
        rows = [table[i : i + 1] for i in ids]
        tensors[name] = torch.cat(rows).float()
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    head = heads.new_head("next_token", checkpoint.config, shapes)
    head.load_state_dict(tensors)
    return head


def _ids_of(checkpoint: reward_models.Checkpoint, tokens: str) -> list[int]:
    """Return the id of each named token. InputError unless each name is one token."""
    names = tokens.split(",")
    ids = [_one_id(checkpoint.tokenizer, name) for name in names]
    begins_blank = {name[:1].isspace() for name in names}
    if (
        None in ids
        or len(set(ids)) != len(ids)
        or len(ids) > 2
        or len(begins_blank) > 1
    ):
        raise InputError(
            f"head '{tokens}' does not name one or two tokens of {checkpoint.folder}; write "
            "--head yes,no with words that are one token each, a blank before both or before none, "
            "or leave head out"
        )
    return [token_id for token_id in ids if token_id is not None]


def _one_id(tokenizer: PreTrainedTokenizerBase, name: str) -> int | None:
    """Return the id of a token, named with or without the blank before it; None if it is none."""
    for text in (name, f" {name}") if name else ():
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        if len(ids) == 1 and ids[0] != tokenizer.unk_token_id:
            return ids[0]
    return None


def _output_matrix(
    checkpoint: reward_models.Checkpoint, largest: int
) -> dict[str, str]:
    """Return the keys of the language model's output: lm_head.weight and perhaps lm_head.bias.

    largest: the token id that needs a row. InputError for an encoder-decoder, and for an output
    that is scaled or has no such row.
    """
    config: PreTrainedConfig = checkpoint.config
    keys = checkpoint.tensors
    places = {
        f"lm_head.{key.rpartition('.')[2]}": key
        for key in keys
        if key.startswith(heads.OUTPUTS)
    }
    is_causal = re.search("CausalLM|GPT2LM", checkpoints.architecture_of(config))
    if not places and config.tie_word_embeddings and is_causal:
        tied = [key for key in keys if key.endswith(EMBEDDINGS)]
        places = {"lm_head.weight": tied[0]} if tied else {}
    scales = {name: getattr(config, name, None) for name in SCALES}
    scaled = [name for name, scale in scales.items() if scale not in (None, 1)]
    problem = ""
    if scaled:
        problem = f"scales its logits ({scaled[0]})"
    elif "lm_head.weight" not in places or config.is_encoder_decoder:
        problem = "has no output matrix of a decoder (lm_head.weight)"
    elif keys[places["lm_head.weight"]].shape[0] <= largest:
        problem = f"has no row for token id {largest} in its output matrix"
    if problem:
        raise InputError(
            f"{checkpoint.folder} {problem}, so tokens' logits cannot be read here; leave head out"
        )
    return places
