"""The shared prefix: a backbone reads a prompt once, and every reply costs only its own tokens and
the closing ones.

Each reply attends to itself and to the prompt's keys and values, which are never copied.
"""

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, DynamicCache, PreTrainedModel

from .files import refusing

# Arguments of attention that do not change its result here: positions are in the queries and keys
# already
WITHOUT_EFFECT = {
    "is_causal",
    "output_attentions",
    "position_ids",
    "cache_position",
    "use_cache",
}


def shared_prefix_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Return the attention of replies to one shared prefix and to themselves, (batch, length,
    heads, d).

    Query is (batch, heads, length, d). Key and value hold the replies alone, (batch, kv_heads,
    length, d). For the other arguments see attend.
    """
    heads, length = query.shape[1:3]
    later = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
    unseen = later.repeat(heads // key.shape[1], 1)
    return attend(
        module, query, key.transpose(0, 1), value.transpose(0, 1), unseen, **kwargs
    )


def attend(
    module: torch.nn.Module,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    unseen: Tensor,
    *,
    scaling: float,
    shared: list[tuple[Tensor, Tensor]],
    softcap: float | None = None,
    sliding_window: int | None = None,
    **others: object,
) -> tuple[Tensor, None]:
    """Return the attention of queries to one prefix and to the keys of each reply, (batch, length,
    heads, d).

    - query: (batch, heads, length, d)
    - keys, values: (kv_heads, batch, others, d)
    - unseen: which others a query does not see. It broadcasts to (batch, heads / kv_heads * length,
      others).
    - shared[layer]: the keys and values of the prefix, (kv_heads, prefix, d) each
    - softcap: Gemma-2's c in c tanh(score / c)
    - sliding_window: a query sees as many tokens, itself included; these all must be
    - others: arguments that change nothing here. ValueError for any that may, such as the sinks of
      GPT-OSS (s_aux).
    """
    refuse_unknown(others)
    # An index, which torch's types take for a tensor
    prefix_key, prefix_value = shared[module.layer_idx]  # type: ignore[index]
    kv_heads, prefix, d = prefix_key.shape
    if sliding_window and prefix + keys.shape[2] > sliding_window:
        raise ValueError(f"its sliding window has {sliding_window} tokens")
    # Heads that share keys count as more queries: (kv_heads, batch, group * length, d)
    grouped = query.reshape(len(query), kv_heads, -1, d).transpose(0, 1)
    # (kv_heads, batch, group * length, prefix and others)
    scores = torch.cat([_by_prefix(grouped, prefix_key.mT), grouped @ keys.mT], dim=-1)
    scores = scores.float() * scaling
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    scores[..., prefix:].masked_fill_(unseen, -torch.inf)
    weights = scores.softmax(-1).to(query.dtype)
    out = (
        _by_prefix(weights[..., :prefix], prefix_value) + weights[..., prefix:] @ values
    )
    # (batch, length, heads, d)
    out = out.transpose(0, 1).reshape(query.shape)
    return out.transpose(1, 2).contiguous(), None


def _by_prefix(rows: Tensor, of_prefix: Tensor) -> Tensor:
    """Return rows @ of_prefix for the one prefix of all replies, without copies of it.

    rows: (kv_heads, batch, group * length, n). of_prefix: (kv_heads, n, m).
    """
    kv_heads, batch, length, n = rows.shape
    product = rows.reshape(kv_heads, batch * length, n) @ of_prefix
    return product.view(kv_heads, batch, length, of_prefix.shape[2])


def refuse_unknown(others: dict[str, object]) -> None:
    """Raise ValueError for an argument of attention that may change its result."""
    named = {name for name, value in others.items() if value is not None}
    if not others.get("dropout"):
        named.discard("dropout")
    if unknown := sorted(named - WITHOUT_EFFECT):
        raise ValueError(f"its attention takes {', '.join(unknown)}")


AttentionInterface.register("shared_prefix", shared_prefix_attention)


def refusing_backbone() -> AbstractContextManager[None]:
    """Turn the failure of a backbone at its first input into an InputError of one line."""
    remedy = "config.json or tokenizer.json is not what it was trained with: download them again"
    wrong = (KeyError, ValueError, TypeError, AttributeError, IndexError)
    return refusing("the model cannot read a prompt", remedy, wrong)


def states_and_keys(
    backbone: PreTrainedModel, ids: Tensor, length: int
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Return the output at every position, (prefix, d), and the keys and values per layer at the
    first `length`.

    The ids are (1, prefix), or embeddings or states between two layers, (1, prefix, d). The
    backbone has all layers or some. InputError if it cannot compute: this is its first input.
    """
    # without the config, so that sliding-window layers keep every key
    cache = DynamicCache()
    with refusing_backbone():
        out = backbone(**{input_name(ids): ids}, past_key_values=cache, use_cache=True)
    # Any: the caches that transformers has for other architectures hold no keys, and its types
    # allow for those.
    # keys and values of each: (1, kv_heads, prefix, d)
    layers: list[Any] = list(cache.layers)
    return out.last_hidden_state[0], [
        (layer.keys[0, :, :length], layer.values[0, :, :length]) for layer in layers
    ]


def states_after(
    backbone: PreTrainedModel,
    length: int,
    shared: list[tuple[Tensor, Tensor]],
    suffixes: Tensor,
) -> Tensor:
    """Return the output at every position of suffixes that follow a prefix of this length, (batch,
    suffix, d).

    Suffixes are ids, (batch, length), or embeddings or states between two layers, (batch, length,
    d), and gradients reach these. The backbone has all layers or some, and `shared` holds the keys
    and values of these layers.
    """
    end = length + suffixes.shape[1]
    positions = torch.arange(length, end, device=suffixes.device)[None]
    with attending(backbone, "shared_prefix"):
        out = backbone(
            **{input_name(suffixes): suffixes},
            position_ids=positions,
            use_cache=False,
            shared=shared,
        )
    return out.last_hidden_state


@contextlib.contextmanager
def attending(backbone: PreTrainedModel, attention: str) -> Iterator[None]:
    """Let the backbone compute attention by another registered function."""
    usual = backbone.config._attn_implementation
    backbone.config._attn_implementation = attention
    try:
        yield
    finally:
        backbone.config._attn_implementation = usual


def input_name(suffixes: Tensor) -> str:
    """Return the name of the argument by which a backbone takes these ids or embeddings."""
    return "inputs_embeds" if suffixes.is_floating_point() else "input_ids"
