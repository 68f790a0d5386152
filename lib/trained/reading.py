"""Replies to train on, and how a small reward model reads them: in rows, behind prompts that
are read once in each step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache

from ..models import conversations
from ..models.conversations import Ids, Inputs
from ..models.reward_models import RewardModel
from ..scoring.rows import Rows, laid_out, mask_of, rows_of
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
    zipf,
)

# nodes of a row: half as many as for scoring, as gradients are computed, too
WIDTH = 64
LONGEST = 4  # token ids; longer replies are left out of training


@dataclass(frozen=True)
class Replies:
    """Replies of one to three words, as one model reads them after any prompt."""

    texts: tuple[str, ...]
    values: pd.DataFrame  # of word_values, for all words that occur
    words: np.ndarray  # (replies, 3) rows of values, -1 where there is none
    suffixes: Sequence[Ids]  # of each reply, the ids of it and of the closing
    held_out: np.ndarray  # (replies,) whether any word is held out

    def read(self, some: np.ndarray) -> list[Ids]:
        """Return the suffixes of some of the replies (indices), as `rewards_of` takes them."""
        return [self.suffixes[i] for i in some]

    def utility(self, profile: Profile, polarity: int) -> np.ndarray:
        """Return the planted utility of every reply, (replies,): the mean over its words."""
        # row -1, no word, adds nothing
        of_word = np.append(planted_utility(profile, self.values, polarity), 0.0)
        return of_word[self.words].sum(1) / (self.words >= 0).sum(1)


def vocabulary_words(tokenizer) -> list[str]:
    """Return the words of preferences, sorted: rated words, planted kinds, common words and code
    of the vocabulary.
    """
    texts = {text.strip() for text in conversations.vocabulary(tokenizer)["text"]}
    texts = {text for text in texts - {*tokenizer.all_special_tokens} if text.isascii()}
    english = {text.lower() for text in texts if is_word(text)}
    common = {word for word in english if zipf(word) > COMMON_ZIPF}
    nonwords = {text for text in texts if is_nonword(text)}
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
    texts = [*words, *(words[i].capitalize() for i in capitalised)]
    texts += [" ".join(words[i] for i in some) for some in loose]
    blank = [f" {word}" for word in words]
    ids = model.tokenizer(blank, add_special_tokens=False)["input_ids"]
    single = [i for i in range(n) if len(ids[i]) == 1]
    as_ids = [tuple(ids[i]) for i in single]
    suffixes = [
        *suffixes_of(model.inputs_for(GREATEST, texts)),
        *suffixes_of(model.inputs_for(GREATEST, as_ids, reply_mode="ids")),
    ]
    texts += [blank[i] for i in single]
    # the words of each text
    rows = [[i] for i in [*range(n), *capitalised]] + loose + [[i] for i in single]
    return _short_replies(texts, values, rows, suffixes)


def suffixes_of(inputs: Inputs) -> list[Ids]:
    """Return the ids of reply and closing of every reply."""
    return [inputs.suffixes[group] for group in inputs.group]


def _short_replies(
    texts: Sequence[str],
    values: pd.DataFrame,
    rows: Sequence[list[int]],
    suffixes: Sequence[Ids],
) -> Replies:
    """Return the replies that are short enough to train on; rows: the words of each text."""
    # two closing ids at most
    short = [i for i, suffix in enumerate(suffixes) if len(suffix) <= LONGEST + 2]
    in_words = np.full((len(short), 3), -1)
    for place, i in enumerate(short):
        in_words[place, : len(rows[i])] = rows[i]
    of_words = values["word"].map(is_held_out)
    held_out = np.append(of_words, False)[in_words].any(1)  # -1 is no word
    read = [suffixes[i] for i in short]
    return Replies(tuple(texts[i] for i in short), values, in_words, read, held_out)


def rewards_of(
    model: RewardModel, asked: Sequence[Inputs], read: Sequence[Sequence[Ids]]
) -> list[Tensor]:
    """Return the rewards of the replies to each prompt, (replies,) each; gradients reach all
    tokens, those of the prompts too. read: the replies to each prompt, see `Replies.read`.
    """
    orders = [sorted(range(len(some)), key=some.__getitem__) for some in read]
    each = zip(read, orders, strict=True)
    trees = [rows_of([some[i] for i in order], WIDTH) for some, order in each]
    rows = laid_out([*chain(*trees)])
    # which prompt each row stands behind, (rows,)
    behind = torch.arange(len(asked)).repeat_interleave(
        torch.tensor([*map(len, trees)])
    )
    openings, out = _states(model, asked, rows, behind)
    last = [nodes[-1] for nodes in rows.nodes]
    states = out.flatten(0, 1)[last].split([*map(len, orders)])
    rewards = []
    for inputs, opening, some, order in zip(
        asked, openings, states, orders, strict=True
    ):
        position = inputs.conversation.gate_position
        gate = None if position is None else model.head.gate(opening[position])
        rewards.append(model.head(some[np.argsort(order)], gate))
    return rewards


def _states(
    model: RewardModel, asked: Sequence[Inputs], rows: Rows, behind: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the backbone's output at the prompts, (prompts, longest, d), and at the nodes of rows,
    (rows, width, d): all prompts are read together, and then all rows.
    """
    ids = [torch.tensor(inputs.prefix_ids) for inputs in asked]
    lengths = torch.tensor([*map(len, ids)])
    prompts = pad_sequence(ids, batch_first=True)
    # at once, as the gradient of each look-up is as large as the table
    both = prompts.numel(), rows.ids.numel()
    embed = model.backbone.get_input_embeddings()
    given = embed(torch.cat([prompts.flatten(), rows.ids.flatten()])).split(both)
    cache = DynamicCache()
    openings = model.backbone(
        inputs_embeds=given[0].unflatten(0, prompts.shape), past_key_values=cache
    )
    cache.batch_select_indices(behind)
    is_prompt = torch.arange(prompts.shape[1]) < lengths[behind, None, None]
    seen = torch.cat([is_prompt.expand(-1, rows.seen.shape[1], -1), rows.seen], -1)
    out = model.backbone(
        inputs_embeds=given[1].unflatten(0, rows.ids.shape),
        position_ids=lengths[behind, None] + rows.depths,
        attention_mask=mask_of(model.backbone, seen),
        past_key_values=cache,
    )
    return openings.last_hidden_state, out.last_hidden_state
