"""Replies to train on, and how a small reward model reads replies to several prompts in one pass.

A step's time is the number of calls, so all its tokens stand in one row: each prompt, then the
replies to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
import wordfreq
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AttentionInterface

from ..models import conversations, shared_prefix
from ..models.conversations import Inputs
from ..models.reward_models import RewardModel
from ..tables.words import is_nonword, is_word
from .planting import (
    COMMON_ZIPF,
    GREATEST,
    Profile,
    is_held_out,
    planted_utility,
    sentiment,
    word_kinds,
    word_values,
)

LONGEST = 4  # token ids; longer replies are left out of training


@dataclass(frozen=True)
class Replies:
    """Replies of one to three words, as one model reads them after any prompt."""

    texts: tuple[str, ...]
    values: pd.DataFrame  # of word_values, for all words that occur
    words: np.ndarray  # (replies, 3) rows of values, -1 where there is none
    suffixes: Tensor  # (replies, longest) ids of reply and closing, padded with 0
    lengths: Tensor  # (replies,) without the padding
    held_out: np.ndarray  # (replies,) whether any word is held out

    def read(self, some: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return suffixes and lengths of some of the replies (indices), as `rewards_of` takes
        them.
        """
        return self.suffixes[some], self.lengths[some]

    def utility(self, profile: Profile, polarity: int) -> np.ndarray:
        """Return the planted utility of every reply, (replies,): the mean over its words."""
        # row -1, no word, adds nothing
        of_word = np.append(planted_utility(profile, self.values, polarity), 0.0)
        return of_word[self.words].sum(1) / (self.words >= 0).sum(1)


def vocabulary_words(tokenizer) -> list[str]:
    """Return the words of preferences, sorted: rated words, planted kinds, common words and code
    of the vocabulary.
    """
    texts = {
        text.strip() for text in conversations.vocabulary(tokenizer)["text"]
    } - set(tokenizer.all_special_tokens)
    english = {text.lower() for text in texts if text.isascii() and is_word(text)}
    common = {
        word
        for word in english
        if wordfreq.zipf_frequency(word, "en", wordlist="large") > COMMON_ZIPF
    }
    nonwords = {text for text in texts if text.isascii() and is_nonword(text)}
    return sorted({*sentiment().index, *word_kinds().index, *common, *nonwords})


def make_replies(
    model: RewardModel,
    rng: np.random.Generator,
    phrases: int = 4000,
) -> Replies:
    """Return every word, some words with a capital, short phrases, and words with a blank where
    that is one token.
    """
    values = word_values(vocabulary_words(model.tokenizer))
    words = values["word"].tolist()
    n = len(values)
    capitalised = rng.choice(n, n // 5, replace=False)
    loose = [
        rng.choice(n, size, replace=False).tolist()
        for size in rng.integers(2, 4, phrases)
    ]
    blank = _tokens_after_blank(model.tokenizer, words)
    texts = [*words, *(words[i].capitalize() for i in capitalised)]
    texts += [" ".join(words[i] for i in some) for some in loose]
    as_texts = model.inputs_for(GREATEST, texts)
    as_ids = model.inputs_for(
        GREATEST,
        [(each,) for each in blank.values()],
        reply_mode="ids",
    )
    suffixes = [*_suffixes_of(as_texts), *_suffixes_of(as_ids)]
    texts += [f" {words[i]}" for i in blank]
    # the words of each text
    rows = [
        *([i] for i in range(n)),
        *([i] for i in capitalised),
        *loose,
        *([i] for i in blank),
    ]
    return _short_replies(texts, values, rows, suffixes)


def _tokens_after_blank(tokenizer, words: Sequence[str]) -> dict[int, int]:
    """Return index -> token id of the words that are one token after a blank."""
    encoded = tokenizer([f" {word}" for word in words], add_special_tokens=False)[
        "input_ids"
    ]
    return {i: ids[0] for i, ids in enumerate(encoded) if len(ids) == 1}


def _suffixes_of(inputs: Inputs) -> list[Sequence[int]]:
    return [inputs.suffixes[group] for group in inputs.group]


def _short_replies(
    texts: Sequence[str],
    values: pd.DataFrame,
    rows: Sequence[list[int]],
    suffixes: Sequence[Sequence[int]],
) -> Replies:
    """Return the replies that are short enough to train on; rows: the words of each text."""
    # two closing ids at most
    short = [i for i, suffix in enumerate(suffixes) if len(suffix) <= LONGEST + 2]
    ids = [torch.tensor(suffixes[i]) for i in short]
    in_words = np.full((len(short), 3), -1)
    for place, i in enumerate(short):
        in_words[place, : len(rows[i])] = rows[i]
    of_words = values["word"].map(is_held_out)
    held_out = np.append(of_words, False)[in_words].any(1)  # -1 is no word
    return Replies(
        texts=tuple(texts[i] for i in short),
        values=values,
        words=in_words,
        suffixes=pad_sequence(ids, batch_first=True),
        lengths=torch.tensor([len(suffix) for suffix in ids]),
        held_out=held_out,
    )


def blocks_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    *,
    blocks: Sequence[tuple[int, int]],
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Return the attention within a row of blocks, (1, tokens, heads, d), from (1, heads or
    kv_heads, tokens, d) each.

    A block (replies, length) holds replies to the last prompt before it, filled up to one length; a
    prompt is a block (0, length).
    """
    sizes = [max(replies, 1) * length for replies, length in blocks]
    parts = [each[0].split(sizes, 1) for each in (query, key, value)]
    out = []
    for (replies, length), *qkv in zip(blocks, *parts, strict=True):
        # (replies, heads, length, d)
        q, k, v = (each.unflatten(1, (-1, length)).transpose(0, 1) for each in qkv)
        if not replies:
            prompt = k[0], v[0]
        before = prompt if replies else (k[0, :, :0], v[0, :, :0])
        shared = {module.layer_idx: before}
        attended = shared_prefix.shared_prefix_attention(
            module,
            q,
            k,
            v,
            None,
            shared=shared,
            **kwargs,
        )[0]
        out.append(attended.flatten(0, 1))  # (replies * length, heads, d)
    return torch.cat(out)[None], None


AttentionInterface.register("blocks", blocks_attention)


def rewards_of(
    model: RewardModel,
    asked: Sequence[Inputs],
    read: Sequence[tuple[Tensor, Tensor]],
) -> list[Tensor]:
    """Return the rewards of the replies to each prompt, (replies,) each, from one pass; gradients
    reach all tokens.

    `read` holds padded suffixes (replies, longest) and their lengths (replies,) for each prompt;
    see `Replies.read`.
    """
    row = _Row([], [], [])
    # where each prompt begins, and where each of its replies ends, (replies,)
    places = []
    for inputs, (suffixes, lengths) in zip(asked, read, strict=True):
        prompt = torch.tensor([inputs.prefix_ids])  # (1, prompt)
        begins = row.add(prompt, 0)
        row.blocks.append((0, prompt.numel()))
        places.append((begins, _add_replies(row, suffixes, lengths, prompt.numel())))
    with shared_prefix.attending(model.backbone, "blocks"):
        out = model.backbone(
            input_ids=torch.cat(row.ids)[None],
            position_ids=torch.cat(row.positions)[None],
            use_cache=False,
            blocks=row.blocks,
        )
    hidden = out.last_hidden_state[0]
    rewards = []
    for inputs, (begins, ends) in zip(asked, places, strict=True):
        position = inputs.conversation.gate_position
        gate = None if position is None else model.head.gate(hidden[begins + position])
        rewards.append(model.head(hidden[ends], gate))
    return rewards


@dataclass
class _Row:
    """All tokens that one pass reads, and the blocks of `blocks_attention` that they stand in."""

    ids: list[Tensor]
    positions: list[Tensor]
    blocks: list[tuple[int, int]]
    tokens: int = 0  # so far

    def add(self, ids: Tensor, first: int) -> int:
        """Append ids (replies, length), each reply from position `first` on; return where they
        begin in the row.
        """
        begins = self.tokens
        replies, length = ids.shape
        self.ids.append(ids.flatten())
        self.positions.append(first + torch.arange(length).repeat(replies))
        self.tokens += ids.numel()
        return begins


def _add_replies(row: _Row, suffixes: Tensor, lengths: Tensor, prompt: int) -> Tensor:
    """Append the replies to a prompt of this length; return where each ends in the row,
    (replies,).
    """
    ends = torch.empty_like(lengths)
    # most are one token; they go by themselves, so that little is filled up
    shortest = lengths == lengths.min()
    for which in (shortest, ~shortest):
        if which.any():
            longest = int(lengths[which].max())
            some = suffixes[which, :longest]
            begins = row.add(some, prompt)
            row.blocks.append((len(some), longest))
            ends[which] = (
                begins + torch.arange(len(some)) * longest + lengths[which] - 1
            )
    return ends
