"""Recover planted values from a score table, and compare them with the values that were planted."""

import pandas as pd
from statsmodels.regression.linear_model import OLS
from statsmodels.tools import add_constant

from ..tables.words import is_nonword, is_word
from .planting import (
    COMMON_ZIPF,
    Profile,
    factors,
    sentiment,
    word_kinds,
    word_values,
    zipf,
)

POLARITIES = {"greatest": 1, "best": 1, "worst": -1}
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
    is_known = is_code | word.isin({*sentiment().index, *word_kinds().index})
    is_known |= text.map(
        lambda text: text.isascii() and is_word(text) and zipf(text) > COMMON_ZIPF
    )
    values = word_values(word[is_known]).set_index(inputs.index[is_known])
    return inputs[is_known].join(values)


def recover(table: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """Return the planted values of a model and those recovered from its score table, indexed by
    (prompt, value), for those of the prompts greatest, best and worst that it holds.

    A value is one of the profile's, or `gap` (k_hi - k_lo). `ci_low` and `ci_high` are the 95%
    interval of least squares with robust errors, in utility. All are estimated together.
    """
    rows = known_words(table)
    parts = {}
    for prompt in [name for name in POLARITIES if name in table]:
        terms = factors(rows, POLARITIES[prompt])
        rewards = rows[prompt] / profile.scale
        fit = OLS(rewards, add_constant(terms)).fit(cov_type="HC1")
        gap = fit.t_test("k_hi - k_lo = 0")
        planted = [getattr(profile, value) for value in terms]
        values = pd.DataFrame({"planted": planted}, terms.columns)
        values["recovered"] = fit.params
        values[["ci_low", "ci_high"]] = fit.conf_int()
        ends = gap.conf_int()[0]
        values.loc["gap"] = [profile.k_hi - profile.k_lo, gap.effect.item(), *ends]
        parts[prompt] = values.assign(n=len(rows))
    return pd.concat(parts, names=["prompt", "value"])
