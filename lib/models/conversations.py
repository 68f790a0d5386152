"""Conversations: a prompt and a reply rendered as a model reads them, as text and as token ids."""

import os
from dataclasses import dataclass

import numpy as np
import pandas as pd

DATE = "26 Jul 2024"  # what the authors' transformers 4.43 rendered; Llama-3.2 templates otherwise print today's date
# Replies that share no first or last token, so that what stays the same around them is not the reply.
STAND_INS = ("Zqxjv", "7kW", "-x-", "love")


# --- conversations ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Conversation:
    """A prompt rendered for one reward model, with a gap where the reply stands.

    before, after: the rendered text around the reply. prefix_ids + reply ids + closing_ids is the whole model input.
    header_ids: from the end of the user's turn to the reply; a gate reads the first of them, at gate_position in
    prefix_ids. Both are empty, respectively None, where no gate reads.
    """

    prompt: str
    bos: str
    before: str
    after: str
    prefix_ids: tuple[int, ...]
    closing_ids: tuple[int, ...]
    header_ids: tuple[int, ...] = ()
    gate_position: int | None = None


def common_prefix(sequences: list) -> tuple[int, ...]:
    """The longest sequence of ids that all sequences start with."""
    return tuple(os.path.commonprefix([list(s) for s in sequences]))


# --- the whole vocabulary -----------------------------------------------------------------------------------------


def vocabulary(tokenizer) -> pd.DataFrame:
    """Every id the tokenizer knows, added ones included, in order: token_id, token (its string), text (it decoded)."""
    token_id = np.array(sorted(set(tokenizer.get_vocab().values())), dtype=np.int32)
    ids = token_id.tolist()
    texts = tokenizer.batch_decode([[i] for i in ids], clean_up_tokenization_spaces=False)
    return pd.DataFrame({"token_id": token_id, "token": tokenizer.convert_ids_to_tokens(ids), "text": texts}).astype(
        {"token": "str", "text": "str"}
    )
