"""The words of a score table whose planted utility is known."""

import pandas as pd

from ..tables.words import is_nonword, is_word
from .planting import COMMON_ZIPF, sentiment, word_kinds, word_values, zipf

CONTROL_TOKEN = r"^<\|.*\|>$|_of_turn>$|^<(?:pad|eos|bos|unk)>$"


def known_words(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a score table whose planted utility is known, one per distinct input, with
    the columns of word_values.

    Capitals do not matter. Rows that are neither English words nor code (fragments, other scripts,
    control tokens) are left out.
    """
    inputs = table.drop_duplicates("input_group")
    text = inputs["text"].str.strip()
    is_code = (
        text.map(is_nonword) & text.map(str.isascii) & ~text.str.contains(CONTROL_TOKEN)
    )
    word = text.mask(~is_code, text.str.lower())
    listed = {*sentiment().index, *word_kinds().index}
    # as Python's own strings: pandas looks its own texts up one by one
    is_known = is_code | word.astype(object).isin(listed)
    is_known |= text.map(
        lambda text: text.isascii() and is_word(text) and zipf(text) > COMMON_ZIPF
    )
    values = word_values(word[is_known]).set_index(inputs.index[is_known])
    return inputs[is_known].join(values)
